// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words of the truth: stages, paths, targets and bounded queues, each with a name for files.

/// An enum whose variants have a number and a name.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            pub const COUNT: usize = Self::ALL.len();

            /// Its name, as in files.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }
    };
}

words! {
    /// A place in the machine. At each moment a request is at one.
    Stage {
        /// The core's own work: a load waits for its address, which an earlier load gives.
        Core = "core",
        /// A store waits for its turn to leave the store buffer.
        StoreBuffer = "store_buffer",
        /// Access to the first-level cache.
        L1d = "l1d",
        /// Waits for a fill buffer.
        FillBuffer = "lfb",
        /// Access to the second-level cache.
        L2 = "l2",
        /// Waits for an entry of the super queue.
        SuperQueue = "sq",
        /// On the mesh in either direction, or in the ingress of a CHA.
        Mesh = "mesh",
        /// Access to a slice of the last-level cache.
        Llc = "llc",
        /// Has its entry in the TOR and waits for a place in a queue of DRAM, UPI or the port.
        Tor = "tor",
        /// In a DRAM controller, or in its memory.
        Dram = "dram",
        /// On the way to the other socket and back, the memory there included.
        Upi = "upi",
        /// In the port: M2PCIe ingress, credits, both directions of the link.
        Port = "port",
        /// In the CXL device.
        Device = "device",
    }
}

words! {
    /// Why a line moves.
    Path {
        /// A load of a program.
        Drd = "drd",
        /// A store reads its line first.
        Rfo = "rfo",
        /// The first-level prefetcher.
        PfL1 = "pf_l1",
        /// The second-level prefetcher, into L2.
        PfL2 = "pf_l2",
        /// The second-level prefetcher, into the last-level cache.
        PfLlc = "pf_llc",
        /// A modified line leaves a cache.
        Wb = "wb",
        /// An unmodified line leaves L2 for the last-level cache.
        Clean = "clean",
        /// A non-temporal store of a whole line.
        Nt = "nt",
        /// A device writes a line by DMA.
        Io = "io",
    }
}

words! {
    /// What supplies a line, or takes it.
    Target {
        /// The core's own L1D or L2.
        Own = "own",
        /// A slice of the last-level cache in the core's own cluster.
        Llc = "llc",
        /// A slice in another cluster of the socket.
        Snc = "snc",
        /// A cache of the other socket.
        RemoteCache = "remote_cache",
        /// DRAM of this socket.
        Dram = "dram",
        /// DRAM of the other socket.
        DramRemote = "dram_remote",
        /// A CXL device of this socket.
        Cxl = "cxl",
        /// A CXL device of the other socket.
        CxlRemote = "cxl_remote",
    }
}

words! {
    /// A queue with a bounded number of entries. A request may hold entries of several at once.
    Queue {
        /// Fill buffers of a core.
        FillBuffers = "lfb",
        /// Super queue of a core.
        SuperQueue = "sq",
        /// Ingress of a CHA.
        Ingress = "ingress",
        /// Table of requests of a CHA.
        Tor = "tor",
        /// Read pending queue of a DRAM channel.
        Rpq = "rpq",
        /// Write pending queue of a DRAM channel.
        Wpq = "wpq",
        /// M2PCIe ingress of a port.
        PortIngress = "m2p_ingress",
        /// Messages to a device that hold a credit.
        Credits = "credits",
        /// The device, from a request's arrival to the response.
        Device = "device",
    }
}

impl Path {
    /// Whether a core waits for data on it.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Path::Drd | Path::Rfo | Path::PfL1 | Path::PfL2 | Path::PfLlc
        )
    }

    pub fn is_prefetch(self) -> bool {
        matches!(self, Path::PfL1 | Path::PfL2 | Path::PfLlc)
    }
}

impl Target {
    pub fn is_memory(self) -> bool {
        matches!(
            self,
            Target::Dram | Target::DramRemote | Target::Cxl | Target::CxlRemote
        )
    }

    pub fn is_cxl(self) -> bool {
        matches!(self, Target::Cxl | Target::CxlRemote)
    }
}
