// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The truth of a window, for files. Times are nanoseconds; sums are over the window; rows without anything
//! are left out.

use crate::truth::sums::{GroundTruth, PlaceSum};
use crate::words::{Path, Queue, Stage, Target};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthWindow {
    /// When it began, nanoseconds since the run's beginning.
    pub from_ns: f64,
    pub to_ns: f64,
    pub cpus: Vec<CpuTruth>,
    /// Where each CPU's measured stalls belong.
    pub stalls: Vec<StallTruth>,
    /// Requests that were finished: their times by stage.
    pub places: Vec<PlaceTruth>,
    /// Entries of queues that were left.
    pub held: Vec<HeldTruth>,
    /// How long each workload waited behind each other one.
    pub waits: Vec<WaitTruth>,
    /// Lines by what supplied or took them.
    pub lines: Vec<LinesTruth>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTruth {
    pub cpu: u16,
    pub workload: String,
    pub instructions: u64,
    pub accesses: u64,
    /// Stalls that CPUs measure: the sum of its rows in `stalls`.
    pub measured_stall_ns: f64,
    /// All time in which it dispatched nothing.
    pub all_stall_ns: f64,
}

/// Stalls of a CPU at one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallTruth {
    pub cpu: u16,
    pub workload: String,
    /// Where the request was that it waited for.
    pub stage: Stage,
    pub path: Path,
    pub target: Target,
    pub ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceTruth {
    pub workload: String,
    pub stage: Stage,
    pub path: Path,
    pub target: Target,
    pub requests: u64,
    pub residence_ns: f64,
    /// The part of it in which they waited.
    pub wait_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldTruth {
    pub workload: String,
    pub queue: Queue,
    pub path: Path,
    pub target: Target,
    pub entries: u64,
    /// Time for which they were held.
    pub held_ns: f64,
}

/// Waiting time of a workload at a stage, behind another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitTruth {
    pub stage: Stage,
    pub workload: String,
    /// The workload that had the place. None: no request had it.
    pub behind: Option<String>,
    pub ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinesTruth {
    pub workload: String,
    pub path: Path,
    /// What supplied or took them.
    pub target: Target,
    pub lines: u64,
}

#[derive(Clone)]
pub(crate) struct TruthReader {
    pub at: u64,
    pub truth: GroundTruth,
    /// Waiting time in picoseconds, by stage, by the workload that waited, and by the workload that had the
    /// place.
    pub waits: Vec<Vec<f64>>,
    /// For each CPU: instructions, accesses, measured stalls and all stalls, the last two in picoseconds.
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
