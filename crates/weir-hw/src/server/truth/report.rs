// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The truth of a window, for files. Times are nanoseconds; sums are over the window; rows without anything
//! are left out.

use crate::server::truth::sums::{GroundTruth, PlaceSum};
use crate::server::words::{Path, Queue, Stage, Target};
use serde::{Deserialize, Serialize};

/// The truth of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthWindow {
    /// When it began, nanoseconds since the run's beginning.
    pub from_ns: f64,
    /// When it ended.
    pub to_ns: f64,
    /// Progress and stalls of each CPU.
    pub cpus: Vec<CpuTruth>,
    /// Where each CPU's measured stalls belong.
    pub stalls: Vec<StallTruth>,
    /// Requests that were finished: their times by stage.
    pub places: Vec<PlaceTruth>,
    /// Entries of queues that were left.
    pub held: Vec<HeldTruth>,
    /// Which workload waited behind which.
    pub waits: Vec<WaitTruth>,
    /// Lines by what supplied or took them.
    pub lines: Vec<LinesTruth>,
}

/// What a CPU did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTruth {
    /// Its number.
    pub cpu: u16,
    /// The workload it runs.
    pub workload: String,
    /// Retired instructions.
    pub instructions: u64,
    /// Accesses of its program.
    pub accesses: u64,
    /// Stalls that CPUs measure: the sum of its rows in `stalls`.
    pub measured_stall_ns: f64,
    /// All time in which it dispatched nothing.
    pub all_stall_ns: f64,
}

/// Stalls of a CPU at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallTruth {
    /// The CPU.
    pub cpu: u16,
    /// The workload it runs.
    pub workload: String,
    /// Where the request was that it waited for.
    pub stage: Stage,
    /// Why that request was made.
    pub path: Path,
    /// What supplied it.
    pub target: Target,
    /// Stalled time.
    pub ns: f64,
}

/// Requests at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceTruth {
    /// The workload that owns the lines.
    pub workload: String,
    /// The place.
    pub stage: Stage,
    /// Why the requests were made.
    pub path: Path,
    /// What supplied them.
    pub target: Target,
    /// Requests that were there.
    pub requests: u64,
    /// Their time there.
    pub residence_ns: f64,
    /// The part of it in which they waited.
    pub wait_ns: f64,
}

/// Entries of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldTruth {
    /// The workload that owns the lines.
    pub workload: String,
    /// The queue.
    pub queue: Queue,
    /// Why the requests were made.
    pub path: Path,
    /// What supplied them.
    pub target: Target,
    /// Entries that were left.
    pub entries: u64,
    /// Time for which they were held.
    pub held_ns: f64,
}

/// Waiting time of a workload at a stage, behind another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitTruth {
    /// Where.
    pub stage: Stage,
    /// The workload that waited.
    pub workload: String,
    /// The workload that had the place. None: no request had it.
    pub behind: Option<String>,
    /// Waiting time, over all requests.
    pub ns: f64,
}

/// Lines of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinesTruth {
    /// The workload that owns them.
    pub workload: String,
    /// Why they moved.
    pub path: Path,
    /// What supplied or took them.
    pub target: Target,
    /// Lines.
    pub lines: u64,
}

/// All sums at one moment.
#[derive(Clone)]
pub(crate) struct TruthReader {
    pub at: u64,
    pub truth: GroundTruth,
    /// By stage, waiting workload, workload that had the place; picoseconds.
    pub waits: Vec<Vec<f64>>,
    /// By CPU: instructions, accesses, measured and all stalls in picoseconds.
    pub cpus: Vec<[u64; 4]>,
}

/// Names and owners, which rows carry.
pub(crate) struct RowNames<'a> {
    pub workloads: &'a [String],
    /// CPU number and workload of each meter.
    pub cpus: &'a [(u16, Option<u8>)],
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1000.0
}

impl TruthReader {
    /// What has happened since `before`.
    pub fn since(&self, before: &TruthReader, names: &RowNames) -> TruthWindow {
        TruthWindow {
            from_ns: ns(before.at),
            to_ns: ns(self.at),
            cpus: self.cpu_rows(before, names),
            stalls: self.stall_rows(before, names),
            places: self.place_rows(before, names),
            held: self.held_rows(before, names),
            waits: self.wait_rows(before, names),
            lines: self.line_rows(before, names),
        }
    }

    fn cpu_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<CpuTruth> {
        let rows = names
            .cpus
            .iter()
            .enumerate()
            .filter_map(|(n, (cpu, owner))| {
                let owner = usize::from((*owner)?);
                let difference = |field: usize| self.cpus[n][field] - before.cpus[n][field];
                Some(CpuTruth {
                    cpu: *cpu,
                    workload: names.workloads[owner].clone(),
                    instructions: difference(0),
                    accesses: difference(1),
                    measured_stall_ns: ns(difference(2)),
                    all_stall_ns: ns(difference(3)),
                })
            });
        rows.collect()
    }

    fn stall_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<StallTruth> {
        let mut rows = Vec::new();
        for (n, (cpu, owner)) in names.cpus.iter().enumerate() {
            let Some(owner) = owner else { continue };
            each_flow(Stage::ALL, |stage, path, target| {
                let index = GroundTruth::at_stage(n, stage, path, target);
                let ps = self.truth.stalls[index] - before.truth.stalls[index];
                if ps > 0 {
                    rows.push(StallTruth {
                        cpu: *cpu,
                        workload: names.workloads[usize::from(*owner)].clone(),
                        stage,
                        path,
                        target,
                        ns: ns(ps),
                    });
                }
            });
        }
        rows
    }

    fn place_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<PlaceTruth> {
        let mut rows = Vec::new();
        for (owner, workload) in names.workloads.iter().enumerate() {
            each_flow(Stage::ALL, |stage, path, target| {
                let index = GroundTruth::at_stage(owner, stage, path, target);
                let sum = difference(self.truth.places[index], before.truth.places[index]);
                if sum.visits > 0 {
                    rows.push(PlaceTruth {
                        workload: workload.clone(),
                        stage,
                        path,
                        target,
                        requests: sum.visits,
                        residence_ns: ns(sum.time_ps),
                        wait_ns: ns(sum.wait_ps),
                    });
                }
            });
        }
        rows
    }

    fn held_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<HeldTruth> {
        let mut rows = Vec::new();
        for (owner, workload) in names.workloads.iter().enumerate() {
            each_flow(Queue::ALL, |queue, path, target| {
                let index = GroundTruth::at_queue(owner, queue, path, target);
                let sum = difference(self.truth.held[index], before.truth.held[index]);
                if sum.visits > 0 {
                    rows.push(HeldTruth {
                        workload: workload.clone(),
                        queue,
                        path,
                        target,
                        entries: sum.visits,
                        held_ns: ns(sum.time_ps),
                    });
                }
            });
        }
        rows
    }

    fn wait_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<WaitTruth> {
        let mut rows = Vec::new();
        let count = names.workloads.len();
        for &stage in Stage::ALL {
            let (now, then) = (&self.waits[stage as usize], &before.waits[stage as usize]);
            for (cell, (now, then)) in now.iter().zip(then).enumerate() {
                let (waiting, behind) = (cell / (count + 1), cell % (count + 1));
                if now > then {
                    rows.push(WaitTruth {
                        stage,
                        workload: names.workloads[waiting].clone(),
                        behind: names.workloads.get(behind).cloned(),
                        ns: (now - then) / 1000.0,
                    });
                }
            }
        }
        rows
    }

    fn line_rows(&self, before: &TruthReader, names: &RowNames) -> Vec<LinesTruth> {
        let mut rows = Vec::new();
        for (owner, workload) in names.workloads.iter().enumerate() {
            each_flow(&[()], |(), path, target| {
                let index = GroundTruth::at_flow(owner, path, target);
                let lines = self.truth.lines[index] - before.truth.lines[index];
                if lines > 0 {
                    rows.push(LinesTruth {
                        workload: workload.clone(),
                        path,
                        target,
                        lines,
                    });
                }
            });
        }
        rows
    }
}

fn each_flow<P: Copy>(places: &[P], mut visit: impl FnMut(P, Path, Target)) {
    for &place in places {
        for &path in Path::ALL {
            for &target in Target::ALL {
                visit(place, path, target);
            }
        }
    }
}

fn difference(now: PlaceSum, before: PlaceSum) -> PlaceSum {
    PlaceSum {
        visits: now.visits - before.visits,
        time_ps: now.time_ps - before.time_ps,
        wait_ps: now.wait_ps - before.wait_ps,
    }
}
