// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a CPU's counters depend on, counted over time, and its stalls charged to places.
//!
//! The core stands still (*stalls*) while it dispatches nothing, because its window or its store buffer is
//! full. A stall is *measured*, as CPUs do, if a demand load that missed L1D is under way, or else if the
//! store buffer is full. The truth is charged for measured stalls alone, so that both sums are the same.

use crate::engine::occupancy::Occupancy;
use crate::engine::request::{NONE, RequestPool};
use crate::truth::GroundTruth;
use crate::words::{Path, Stage, Target};

/// What a CPU counts, apart from queues and responses. Times are picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuCount {
    Stalls,
    StallsL1Miss,
    StallsL2Miss,
    StallsLlcMiss,
    BoundOnStores,
    StoreBufferFull,
    L1Pending,
    L1PendingCycles,
    FillBufferFull,
    SuperQueueFull,
    DemandReadCycles,
    L1Replaced,
    Loads,
    LoadsL1,
    LoadsFillBuffer,
    LoadsL2,
    LoadsLlc,
    LoadsLlcOfOther,
    LoadsRemoteCache,
    LoadsDram,
    LoadsDramRemote,
    LoadsCxl,
    LoadsCxlRemote,
    Stores,
    StoresL2,
    L2ReadHit,
    L2ReadMiss,
    L2RfoHit,
    L2RfoMiss,
    L2PrefetchHit,
    L2PrefetchMiss,
    L2OutClean,
    L2OutDirty,
    PrefetchUseless,
    PrefetchLate,
}

impl CpuCount {
    pub const COUNT: usize = CpuCount::PrefetchLate as usize + 1;

    /// Where a retired load found its line.
    pub fn of_source(supplier: Target) -> CpuCount {
        match supplier {
            Target::Own => CpuCount::LoadsL2,
            Target::Llc => CpuCount::LoadsLlc,
            Target::Snc => CpuCount::LoadsLlcOfOther,
            Target::RemoteCache => CpuCount::LoadsRemoteCache,
            Target::Dram => CpuCount::LoadsDram,
            Target::DramRemote => CpuCount::LoadsDramRemote,
            Target::Cxl => CpuCount::LoadsCxl,
            Target::CxlRemote => CpuCount::LoadsCxlRemote,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    No,
    /// The window is full, and its oldest load is not done.
    Load,
    /// The store buffer is full.
    Store,
}

pub(crate) struct CpuMeter {
    cpu: u16,
    pub halt: Halt,
    /// The request on which the thread waits.
    pub awaited: u32,
    /// Where it waits if on no request.
    pub place: Stage,
    since: u64,
    /// Fill-buffer requests of demand loads: all, those beyond L2, those that missed the last-level cache.
    pub loads_out: u32,
    pub loads_beyond_l2: u32,
    pub loads_beyond_llc: u32,
    /// The outstanding loads that have a fill buffer.
    pub loads_in_buffers: u32,
    /// Demand requests that wait for a fill buffer, for an entry of the super queue.
    pub buffer_waits: u32,
    pub queue_waits: u32,
    pub counts: [u64; CpuCount::COUNT],
    /// Occupancy of the super queue, by path.
    pub queue: [Occupancy; Path::COUNT],
    /// Demand reads in it that missed the last-level cache.
    pub queue_llc_miss: Occupancy,
    /// Answered requests by path and supplier.
    pub responses: [[u64; Target::COUNT]; Path::COUNT],
    pub retired: u64,
    /// Lines that the program has accessed.
    pub accesses: u64,
}

impl CpuMeter {
    pub fn new(cpu: u16) -> Self {
        CpuMeter {
            cpu,
            halt: Halt::No,
            awaited: NONE,
            place: Stage::Core,
            since: 0,
            loads_out: 0,
            loads_beyond_l2: 0,
            loads_beyond_llc: 0,
            loads_in_buffers: 0,
            buffer_waits: 0,
            queue_waits: 0,
            counts: [0; CpuCount::COUNT],
            queue: [Occupancy::default(); Path::COUNT],
            queue_llc_miss: Occupancy::default(),
            responses: [[0; Target::COUNT]; Path::COUNT],
            retired: 0,
            accesses: 0,
        }
    }

    pub fn count(&mut self, what: CpuCount, by: u64) {
        self.counts[what as usize] += by;
    }

    /// Counts the time up to `now`, before something that it depends on changes.
    ///
    /// The counters nest as the events of a CPU do: a stall with a load beyond the last-level cache is one
    /// beyond L2 and one beyond L1D as well. A stalled cycle with a load out belongs to the load, also where
    /// the store buffer is full.
    pub fn settle(&mut self, now: u64, requests: &mut RequestPool, truth: &mut GroundTruth) {
        let time = now - self.since;
        if time == 0 {
            return;
        }
        self.since = now;
        if self.loads_in_buffers > 0 {
            self.count(CpuCount::L1Pending, time * u64::from(self.loads_in_buffers));
            self.count(CpuCount::L1PendingCycles, time);
        }
        self.count(
            CpuCount::FillBufferFull,
            time * u64::from(self.buffer_waits > 0),
        );
        self.count(
            CpuCount::SuperQueueFull,
            time * u64::from(self.queue_waits > 0),
        );
        let reads = self.queue[Path::Drd as usize].entries > 0;
        self.count(CpuCount::DemandReadCycles, time * u64::from(reads));
        if self.halt == Halt::No {
            return;
        }
        self.count(CpuCount::Stalls, time);
        let is_store = self.halt == Halt::Store;
        self.count(CpuCount::StoreBufferFull, time * u64::from(is_store));
        if self.loads_out > 0 {
            self.count(CpuCount::StallsL1Miss, time);
            self.count(
                CpuCount::StallsL2Miss,
                time * u64::from(self.loads_beyond_l2 > 0),
            );
            self.count(
                CpuCount::StallsLlcMiss,
                time * u64::from(self.loads_beyond_llc > 0),
            );
        } else if is_store {
            self.count(CpuCount::BoundOnStores, time);
        } else {
            return;
        }
        self.charge(time, is_store, requests, truth);
    }

    fn charge(
        &self,
        time: u64,
        is_store: bool,
        requests: &mut RequestPool,
        truth: &mut GroundTruth,
    ) {
        if self.awaited != NONE {
            let request = &mut requests[self.awaited];
            request.stalled[request.stage as usize] += time as u32;
            return;
        }
        let path = if is_store { Path::Rfo } else { Path::Drd };
        let cpu = usize::from(self.cpu);
        let index = GroundTruth::at_stage(cpu, self.place, path, Target::Own);
        truth.stalls[index] += time;
    }
}
