// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums over finished requests and stalled cores, since the beginning.

use crate::engine::request::Request;
use crate::words::{Path, Queue, Stage, Target};

/// Requests that were at a place, and their times there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlaceSum {
    pub visits: u64,
    pub time_ps: u64,
    pub wait_ps: u64,
}

/// All sums. Indices run over (owner or CPU), stage or queue, path, target.
#[derive(Clone, Debug)]
pub(crate) struct GroundTruth {
    /// For each workload, the time that its requests spent at each stage.
    pub places: Vec<PlaceSum>,
    /// For each workload, the time that entries of queues were held. It is counted when they are left.
    pub held: Vec<PlaceSum>,
    /// Lines that arrived, by workload, path and target.
    pub lines: Vec<u64>,
    /// Stalled time of each CPU, in picoseconds.
    pub stalls: Vec<u64>,
}

const PATHS_TARGETS: usize = Path::COUNT * Target::COUNT;

pub(crate) fn flow(path: Path, target: Target) -> usize {
    path as usize * Target::COUNT + target as usize
}

impl GroundTruth {
    pub fn new(workloads: usize, cpus: usize) -> Self {
        GroundTruth {
            places: vec![PlaceSum::default(); workloads * Stage::COUNT * PATHS_TARGETS],
            held: vec![PlaceSum::default(); workloads * Queue::COUNT * PATHS_TARGETS],
            lines: vec![0; workloads * PATHS_TARGETS],
            stalls: vec![0; cpus * Stage::COUNT * PATHS_TARGETS],
        }
    }

    /// Index into `places` and `stalls`.
    pub fn at_stage(first: usize, stage: Stage, path: Path, target: Target) -> usize {
        (first * Stage::COUNT + stage as usize) * PATHS_TARGETS + flow(path, target)
    }

    /// Index into `held`.
    pub fn at_queue(owner: usize, queue: Queue, path: Path, target: Target) -> usize {
        (owner * Queue::COUNT + queue as usize) * PATHS_TARGETS + flow(path, target)
    }

    /// Index into `lines`.
    pub fn at_flow(owner: usize, path: Path, target: Target) -> usize {
        owner * PATHS_TARGETS + flow(path, target)
    }

    /// A finished request's times; its time at the last stage has been passed.
    pub fn add_request(&mut self, request: &Request) {
        let owner = usize::from(request.owner);
        for &stage in Stage::ALL {
            if request.passed >> stage as u16 & 1 == 0 {
                continue;
            }
            let index = Self::at_stage(owner, stage, request.path, request.supplier);
            let place = &mut self.places[index];
            place.visits += 1;
            place.time_ps += u64::from(request.in_stage[stage as usize]);
            place.wait_ps += u64::from(request.waited[stage as usize]);
        }
        // A demand that met a prefetch brought no line itself.
        if request.rides_on == crate::engine::request::NONE {
            self.lines[Self::at_flow(owner, request.path, request.supplier)] += 1;
        }
    }

    /// Charges a CPU's stalls on a request, and takes them off it.
    pub fn add_stalls(&mut self, request: &mut Request) {
        if request.stalled == [0; Stage::COUNT] {
            return;
        }
        for &stage in Stage::ALL {
            let cpu = usize::from(request.cpu);
            let index = Self::at_stage(cpu, stage, request.path, request.supplier);
            self.stalls[index] += u64::from(request.stalled[stage as usize]);
        }
        request.stalled = [0; Stage::COUNT];
    }

    /// An entry of `queue` was held since `since`.
    pub fn add_held(&mut self, request: &Request, queue: Queue, now: u64) {
        let owner = usize::from(request.owner);
        let index = Self::at_queue(owner, queue, request.path, request.supplier);
        self.held[index].visits += 1;
        self.held[index].time_ps += now - request.held_since[queue as usize];
    }
}
