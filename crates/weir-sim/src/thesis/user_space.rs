// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's user-space controller (5.4.2) as it is written there.
//!
//! Each 150 ms: counters of groups and of processes, bandwidths (eq. 1, running average with
//! α = 0.3, eq. 2), shares (eq. 3), a CPU limit for each process that is bound to the device, and a
//! write of `cpu.max` for each of them: quota 1000 µs, period 1000 µs ÷ limit (eq. 9).
//!
//! - *simple* (4.3.3.1, eq. 4): every limit × threshold ÷ total.
//! - *individual* (4.3.3.2): limit × (1 − r), r by the recursion over balance points.
//!
//! One iteration takes 30.8 ms and the program uses 9 % of a CPU (6.8.2): half of its CPU time before
//! the counters are read, half before the limits are written, all of them at the end of the 30.8 ms.
//!
//! What the text leaves open: limits are kept within 1 % ("supporting a CPU limit of 1 % as the
//! lowest value") and 100 %, start at 100 %, and multiply the previous *limit*. The text mentions
//! the CPU usage too; multiplying that would tie a limit to what a process used before, and a limit
//! of 65 % for a process that uses 25 % (figure 12) could never come about.

use crate::cpu::cpu_max::CpuMax;
use crate::cpu::eevdf;
use crate::engine::machine::Machine;
use crate::engine::{accounting, task_exec};
use crate::from_scenario::{Built, Label};
use crate::platform::sensors::Samplers;
use crate::thesis::sched_ext::{ALPHA, LIMIT_MIN};
use weir_scenario::simulated::Scenario;

const EVERY_NS: u64 = 150_000_000;
const ITERATION_NS: u64 = 30_800_000;
/// 9 % of 150 ms, on a CPU with a busy sibling.
const CPU_NS: f64 = 0.09 * 150e6;
const QUOTA_NS: u64 = 1_000_000;

pub(crate) struct UserSpaceLoop {
    pub machine: Machine,
    pub labels: Vec<Label>,
    daemon: u32,
    samplers: Samplers,
    set_point: f64,
    /// Whether each limit falls by a part of its own (`balance`) or all by the same. None: it only observes.
    is_individual: Option<bool>,
    cpu_ns: f64,
    /// When counters were read last.
    read_at: u64,
    group_bytes: Vec<f64>,
    group_rates: Vec<Option<f64>>,
    processes: Vec<Process>,
    /// How long each iteration took, in milliseconds: waits for a CPU included.
    pub loop_ms: Vec<f64>,
    /// Each iteration's estimates, where it only observes.
    pub estimates: Vec<EstimatePoint>,
}

/// What the loop knew of one process in one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimatePoint {
    /// Time of the iteration, from the start of the run.
    pub at_ms: f64,
    /// The process, by the name of its workload.
    pub workload: String,
    /// The estimate from samples alone (thesis, figure 7).
    pub sampled_bytes_per_sec: f64,
    /// The estimate from samples and the counters of the group (thesis, equation 3 and figure 8).
    pub combined_bytes_per_sec: f64,
}

/// A process that is bound to the device.
struct Process {
    workload: usize,
    group: u32,
    sampled: f64,
    rate: Option<f64>,
    limit: f64,
}

/// One estimate: workload, device bytes per second.
pub(crate) type Estimate = (usize, f64);

impl UserSpaceLoop {
    pub(crate) fn new(
        built: Built,
        scenario: &Scenario,
        is_individual: Option<bool>,
        seed: u64,
    ) -> Self {
        let Built {
            machine,
            labels,
            groups,
            daemon,
        } = built;
        let bound = labels
            .iter()
            .enumerate()
            .filter_map(|(i, l)| Some((i, l.resident?.0)));
        let processes = bound.map(|(workload, group)| Process {
            workload,
            group,
            sampled: 0.0,
            rate: None,
            limit: 1.0,
        });
        UserSpaceLoop {
            processes: processes.collect(),
            samplers: Samplers::new(&scenario.sensors, &labels, seed),
            daemon: daemon.unwrap_or(0),
            set_point: scenario.control.set_point_bytes_per_sec,
            is_individual,
            cpu_ns: CPU_NS * scenario.machine.smt_speed_ratio,
            read_at: 0,
            group_bytes: vec![0.0; groups.len()],
            group_rates: vec![None; groups.len()],
            loop_ms: Vec::new(),
            estimates: Vec::new(),
            machine,
            labels,
        }
    }

    /// Runs until `end`, starting control at `from`. `note` gets each iteration's estimates.
    pub(crate) fn run(&mut self, from: u64, end: u64, mut note: impl FnMut(&Machine, &[Estimate])) {
        let mut at = from;
        while at + ITERATION_NS < end {
            self.machine.run_until(at.max(self.machine.now));
            self.spend(end);
            self.machine
                .run_until((at + ITERATION_NS / 2).max(self.machine.now));
            let estimates = self.observe();
            note(&self.machine, &estimates);
            self.keep(&estimates);
            self.spend(end);
            self.machine
                .run_until((at + ITERATION_NS).max(self.machine.now).min(end));
            self.decide(&estimates);
            self.write();
            self.loop_ms.push((self.machine.now - at) as f64 / 1e6);
            at = (at + EVERY_NS).max(self.machine.now);
        }
        self.machine.run_until(end);
    }

    fn spend(&mut self, end: u64) {
        task_exec::give(&mut self.machine, self.daemon, self.cpu_ns / 2.0);
        self.machine.run_until_served(self.daemon, end);
    }

    /// Estimates are a result where nothing is limited by them.
    fn keep(&mut self, estimates: &[Estimate]) {
        if self.is_individual.is_some() {
            return;
        }
        for (process, (workload, combined)) in self.processes.iter().zip(estimates) {
            self.estimates.push(EstimatePoint {
                at_ms: self.machine.now as f64 / 1e6,
                workload: self.labels[*workload].name.clone(),
                sampled_bytes_per_sec: process.rate.unwrap_or(0.0),
                combined_bytes_per_sec: *combined,
            });
        }
    }

    /// Reads all counters and makes bandwidths of them: each process's, by eq. 3.
    fn observe(&mut self) -> Vec<Estimate> {
        self.machine.settle_all();
        let now = self.machine.now;
        let secs = (now - self.read_at).max(1) as f64 / 1e9;
        self.read_at = now;
        for group in 0..self.group_bytes.len() {
            let bytes = accounting::counter(&mut self.machine, group)
                .iter()
                .sum::<u64>() as f64;
            let value = (bytes - self.group_bytes[group]) / secs;
            self.group_bytes[group] = bytes;
            average(&mut self.group_rates[group], value);
        }
        for process in &mut self.processes {
            let [loads, stores] =
                self.samplers
                    .read(&self.machine, process.workload, process.group);
            // Each store is a read as well (write-allocate).
            let bytes = loads + 2.0 * stores;
            average(&mut process.rate, (bytes - process.sampled) / secs);
            process.sampled = bytes;
        }
        let sum_of = |group: u32| {
            let of = self.processes.iter().filter(|p| p.group == group);
            of.filter_map(|p| p.rate).sum::<f64>()
        };
        let sums: Vec<f64> = (0..self.group_bytes.len() as u32).map(sum_of).collect();
        let estimate = |p: &Process| {
            let (sum, total) = (
                sums[p.group as usize],
                self.group_rates[p.group as usize].unwrap_or(0.0),
            );
            let share = if sum > 0.0 {
                p.rate.unwrap_or(0.0) / sum
            } else {
                0.0
            };
            (p.workload, total * share)
        };
        self.processes.iter().map(estimate).collect()
    }

    fn decide(&mut self, estimates: &[Estimate]) {
        let total: f64 = self.group_rates.iter().flatten().sum();
        if total <= 0.0 || self.processes.is_empty() {
            return;
        }
        let reduction = 1.0 - self.set_point / total;
        let mut order: Vec<usize> = (0..estimates.len()).collect();
        order.sort_by(|a, b| estimates[*a].1.total_cmp(&estimates[*b].1));
        let sorted: Vec<f64> = order.iter().map(|i| estimates[*i].1).collect();
        let reductions = match self.is_individual {
            Some(true) => balance(&sorted, reduction),
            _ => vec![reduction; sorted.len()],
        };
        for (index, reduction) in order.into_iter().zip(reductions) {
            let limit = &mut self.processes[index].limit;
            *limit = (*limit * (1.0 - reduction)).clamp(LIMIT_MIN, 1.0);
        }
    }

    fn write(&mut self) {
        if self.is_individual.is_none() {
            return;
        }
        for process in &self.processes {
            let period_ns = (QUOTA_NS as f64 / process.limit) as u64;
            let limit = CpuMax {
                quota_ns: QUOTA_NS,
                period_ns,
            };
            eevdf::write_cpu_max(&mut self.machine, process.workload as u32, Some(limit));
        }
    }
}

fn average(kept: &mut Option<f64>, value: f64) {
    *kept = Some(kept.map_or(value, |old| ALPHA * value + (1.0 - ALPHA) * old));
}

/// Reductions of ascending bandwidths: the part left of the balance point gets r·(1 − d), the part
/// right of it r·(1 + d), d = 1 − mean(left) ÷ mean(right), again in each part.
fn balance(sorted: &[f64], reduction: f64) -> Vec<f64> {
    if sorted.len() < 2 {
        return vec![reduction; sorted.len()];
    }
    let total: f64 = sorted.iter().sum();
    let mut left = 0.0;
    let exceeds = |bandwidth: &f64| {
        left += bandwidth;
        left > total - left
    };
    let first = sorted
        .iter()
        .position(exceeds)
        .map_or(sorted.len(), |i| i + 1);
    let at = first.clamp(1, sorted.len() - 1);
    let (left, right) = sorted.split_at(at);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let difference = if mean(right) > 0.0 {
        1.0 - mean(left) / mean(right)
    } else {
        0.0
    };
    let mut all = balance(left, reduction * (1.0 - difference));
    all.extend(balance(right, (reduction * (1.0 + difference)).min(1.0)));
    all
}

#[cfg(test)]
mod tests {
    use super::balance;

    #[test]
    fn figure_3_of_the_thesis() {
        let bandwidths = [0.5, 1.2, 3.3];
        let reductions = balance(&bandwidths, 0.2);
        assert!((reductions[2] - 0.3485).abs() < 1e-4, "{reductions:?}");
        let total: f64 = bandwidths
            .iter()
            .zip(&reductions)
            .map(|(b, r)| b * (1.0 - r))
            .sum();
        assert!((total - 3.74).abs() < 0.005, "{total}");
        assert_eq!(balance(&[], 0.2), [0.0; 0]);
        assert_eq!(balance(&[0.0, 0.0], 0.2), [0.2, 0.2]);
    }
}
