// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of the model: operations, states, messages, stages. Each has the name that the paper or CXL
//! writes.

/// An enum with a name for each variant.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

named! {
    /// State of a line in a cache.
    CacheState {
        /// Not there.
        Invalid = "I",
        /// Clean; others may have it too.
        Shared = "S",
        /// Clean; no other cache has it.
        Exclusive = "E",
        /// Changed; memory is older.
        Modified = "M",
    }
}

impl CacheState {
    pub fn is_valid(self) -> bool {
        self != CacheState::Invalid
    }

    /// Whether the cache may write the line without asking.
    pub fn may_write(self) -> bool {
        matches!(self, CacheState::Exclusive | CacheState::Modified)
    }
}

named! {
    /// The memory that a line lies in.
    LineHome {
        /// Memory of the host; the device keeps its lines in the HMC.
        HostMemory = "host memory",
        /// Memory of the device; the device keeps its lines in the DMC.
        DeviceMemory = "device memory",
    }
}

named! {
    /// Mode of a region of device memory (IV-B).
    Bias {
        /// DCOH asks the host before it serves the accelerator.
        Host = "host",
        /// DCOH serves the accelerator by itself: the host's caches have nothing of the region.
        Device = "device",
    }
}

named! {
    /// Access of the accelerator, by its cache hint (IV-A).
    DeviceOp {
        /// Non-cacheable push: a whole line into the host's LLC.
        NcPush = "NC-P",
        /// Non-cacheable read.
        NcRead = "NC-rd",
        /// Non-cacheable write of a whole line.
        NcWrite = "NC-wr",
        /// Cacheable read that takes ownership.
        CoRead = "CO-rd",
        /// Cacheable write of a whole line that takes ownership.
        CoWrite = "CO-wr",
        /// Cacheable read that shares.
        CsRead = "CS-rd",
    }
}

impl DeviceOp {
    pub fn is_write(self) -> bool {
        matches!(
            self,
            DeviceOp::NcPush | DeviceOp::NcWrite | DeviceOp::CoWrite
        )
    }
}

named! {
    /// Access of a host core.
    HostOp {
        /// Load.
        Load = "ld",
        /// Non-temporal load: does not fill caches.
        NtLoad = "nt-ld",
        /// Store of a whole line.
        Store = "st",
        /// Non-temporal store of a whole line: goes to memory.
        NtStore = "nt-st",
        /// CLFLUSH.
        Flush = "flush",
        /// CLDEMOTE: from the core's caches into the LLC.
        Demote = "demote",
    }
}

impl HostOp {
    pub fn is_write(self) -> bool {
        matches!(self, HostOp::Store | HostOp::NtStore)
    }
}

named! {
    /// The two agents.
    Party {
        /// Accelerator behind DCOH, HMC and DMC.
        Device = "device",
        /// Cores behind LLC and home agent.
        Host = "host",
    }
}

named! {
    /// Channels of CXL.cache and CXL.mem, for one line.
    Lane {
        /// Requests of the device.
        D2hReq = "D2H Req",
        /// Its answers to snoops.
        D2hRsp = "D2H Rsp",
        /// Its data.
        D2hData = "D2H Data",
        /// Snoops of the host.
        H2dReq = "H2D Req",
        /// Its answers to requests (GO).
        H2dRsp = "H2D Rsp",
        /// Its data.
        H2dData = "H2D Data",
        /// Requests to device memory; in order.
        M2sReq = "M2S Req",
        /// The second place of `M2S Req`, behind the first.
        M2sReqBehind = "M2S Req, behind",
        /// Requests to device memory that carry data.
        M2sRwd = "M2S RwD",
        /// Answers of device memory without data.
        S2mNdr = "S2M NDR",
        /// Answers of device memory with data.
        S2mDrs = "S2M DRS",
    }
}

impl Lane {
    pub fn taker(self) -> Party {
        match self {
            Lane::D2hReq | Lane::D2hRsp | Lane::D2hData | Lane::S2mNdr | Lane::S2mDrs => {
                Party::Host
            }
            _ => Party::Device,
        }
    }

    pub fn has_data(self) -> bool {
        matches!(
            self,
            Lane::D2hData | Lane::H2dData | Lane::M2sRwd | Lane::S2mDrs
        )
    }
}

named! {
    /// Messages. Read requests and answers: CXL 3.1, 3.2.4 and 3.3.
    Opcode {
        /// The newest data, no state changes (NC-rd).
        RdCurr = "RdCurr",
        /// A shared copy (CS-rd).
        RdShared = "RdShared",
        /// Ownership with data (CO-rd).
        RdOwn = "RdOwn",
        /// Ownership without data (CO-wr: the whole line is written).
        RdOwnNoData = "RdOwnNoData",
        /// A line for the LLC (NC-P).
        ItoMWr = "ItoMWr",
        /// A line for memory (NC-wr).
        WrInv = "WrInv",
        /// A clean line leaves the HMC.
        CleanEvict = "CleanEvict",
        /// A modified line leaves the HMC.
        DirtyEvict = "DirtyEvict",
        /// Was not there.
        RspIHitI = "RspIHitI",
        /// Was clean, is gone.
        RspIHitSE = "RspIHitSE",
        /// Was clean, is shared.
        RspSHitSE = "RspSHitSE",
        /// Is clean, as before.
        RspVHitV = "RspVHitV",
        /// Was modified, is gone; data follows.
        RspIFwdM = "RspIFwdM",
        /// Was modified, is shared; data follows.
        RspSFwdM = "RspSFwdM",
        /// Is modified, as before; data follows.
        RspVFwdV = "RspVFwdV",
        /// A line.
        Data = "Data",
        /// A line that a snoop has taken already: not to be written.
        Bogus = "Data (bogus)",
        /// Share the line.
        SnpData = "SnpData",
        /// Give the line up.
        SnpInv = "SnpInv",
        /// Give a copy of the line.
        SnpCur = "SnpCur",
        /// Done, without the line.
        GoI = "GO-I",
        /// The line is shared.
        GoS = "GO-S",
        /// The line is the device's.
        GoE = "GO-E",
        /// The line is the device's, and memory is older.
        GoM = "GO-M",
        /// Send the line; done.
        GoWritePull = "GO-WritePull",
        /// Send the line; GO follows.
        WritePull = "WritePull",
        /// Read; the DMC may keep a shared copy.
        MemRdData = "MemRd SnpData",
        /// Read; the DMC keeps what it has.
        MemRdCur = "MemRd SnpCur",
        /// Ownership without data; the DMC gives the line up.
        MemInv = "MemInv SnpInv",
        /// The host has nothing newer: read, no state.
        MemRdFwdI = "MemRdFwd (current)",
        /// The host has nothing newer: read, shared.
        MemRdFwdS = "MemRdFwd (S)",
        /// The host has nothing: the line is the device's.
        MemRdFwdE = "MemRdFwd (E)",
        /// The host has nothing: write.
        MemWrFwd = "MemWrFwd",
        /// A modified line of the LLC.
        MemWr = "MemWr",
        /// A line for memory; the DMC gives its copy up.
        MemWrInv = "MemWr SnpInv",
        /// Done.
        Cmp = "Cmp",
        /// Done; the DMC has a copy.
        CmpS = "Cmp-S",
        /// Done; the line is the host's.
        CmpE = "Cmp-E",
        /// A line of device memory.
        MemData = "MemData",
    }
}

named! {
    /// Stages that time is made of. The profile says how long each takes.
    TimedStage {
        /// The accelerator's load/store unit hands a request over.
        Issue = "issue",
        /// DCOH looks into HMC, DMC and bias table.
        DcohLook = "dcoh_look",
        /// The same for a write of the host: it begins before the data is there.
        DcohLookWrite = "dcoh_look_write",
        /// DCOH changes the state of a line for the host.
        TagChange = "tag_change",
        /// DCOH asks whether the accelerator works on a line that it owns.
        OwnerQuery = "owner_query",
        /// A modified line of the DMC goes to device memory, before that is read.
        DmcWriteBack = "dmc_write_back",
        /// A line is put into HMC or DMC.
        CacheFill = "cache_fill",
        /// The accelerator's line is written into HMC or DMC.
        CacheWrite = "cache_write",
        /// Device memory is read.
        DeviceRead = "device_read",
        /// The accelerator's line goes to device memory.
        DeviceWrite = "device_write",
        /// The queue of device memory takes a line of the host.
        DeviceAccept = "device_accept",
        /// CXL.mem in the device's soft logic, there and back; requests of the host only.
        MemPipeline = "mem_pipeline",
        /// CXL link, one way.
        Link = "link",
        /// From a core to the LLC and back.
        CorePath = "core_path",
        /// A hit in the core's own caches.
        CoreHit = "core_hit",
        /// The home agent looks into LLC and snoop filter.
        LlcLook = "llc_look",
        /// A request of the device found the line in the LLC: the cores that may have it answer.
        CoresCheck = "cores_check",
        /// The LLC notes the device beside it as sharer.
        SharerNote = "sharer_note",
        /// The snoop filter takes a line that the device caches.
        Track = "track",
        /// A line is written into the LLC.
        LlcWrite = "llc_write",
        /// Host memory is read.
        HostRead = "host_read",
        /// The write queue of host memory takes a line.
        HostAccept = "host_accept",
        /// The home agent invalidates shared copies for a store of the other socket.
        SocketInvalidate = "socket_invalidate",
        /// UPI, one way.
        Upi = "upi",
        /// A packet of PCIe, one way.
        PcieTrip = "pcie_trip",
        /// The root complex orders an uncached access (MMIO).
        MmioOrder = "mmio_order",
        /// A NIC's own work for an RDMA request.
        NicWork = "nic_work",
        /// DOCA's own work for a DMA request.
        DocaWork = "doca_work",
        /// A descriptor reaches the host's DSA, and its work begins.
        DsaSetup = "dsa_setup",
        /// From an MSI to its handler.
        Interrupt = "interrupt",
    }
}
