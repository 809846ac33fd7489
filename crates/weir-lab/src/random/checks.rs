// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checks of a scenario, by the simulator's truth: the same seed runs without weir, and with it.

use super::generator::{MEASURE_SEC, SETTLE_SEC, Traits};
use std::collections::BTreeMap;
use weir_core::Plan;
use weir_core::seam::plan::Why;
use weir_sim::{RunMetrics, Scenario, WorkloadSeries};

/// Windows of the simulator's series in a second.
const PER_SEC: usize = 10;
/// Windows over which free bandwidth is taken at its largest.
const FREE_WINDOWS: usize = 3;

/// A finding: what was asked, whether it holds, and by how much it does or does not.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its name in the table.
    pub check: &'static str,
    pub holds: bool,
    pub figure: f64,
    /// The workload that it is about, if it is about one.
    pub of: Option<String>,
}

impl Finding {
    /// The back end refused to go on, so many seconds after the start.
    pub fn refused(at_sec: f64) -> Finding {
        Finding {
            check: "accepted by the back end",
            holds: false,
            figure: at_sec,
            of: None,
        }
    }
}

/// The largest demand that plans spoke of, by workload, in bytes per second.
#[derive(Clone, Debug, Default)]
pub struct SaidDemands(BTreeMap<String, f64>);

impl SaidDemands {
    pub fn note(&mut self, plan: &Plan) {
        for of in &plan.workloads {
            if let Why::Limited {
                demand_bytes_per_sec,
                ..
            } = &of.why
            {
                let most = self.0.entry(of.id.as_str().to_owned()).or_default();
                *most = most.max(demand_bytes_per_sec.get());
            }
        }
    }

    fn of(&self, name: &str) -> Option<f64> {
        let end = format!("/{name}.scope");
        let found = self.0.iter().find(|(id, _)| id.ends_with(&end));
        found.map(|(_, demand)| *demand)
    }
}

fn measured(series: &[f64]) -> &[f64] {
    let from = (SETTLE_SEC as usize) * PER_SEC;
    let to = from + (MEASURE_SEC as usize) * PER_SEC;
    series.get(from..to.min(series.len())).unwrap_or_default()
}

fn mean(series: &[f64]) -> f64 {
    series.iter().sum::<f64>() / series.len().max(1) as f64
}

/// The largest mean over some windows, of all of the run.
fn most(series: &[f64]) -> f64 {
    let each = series.windows(FREE_WINDOWS).map(mean);
    each.fold(0.0, f64::max)
}

/// Max-min level for each unit of weight.
fn level(demands: &[(f64, f64)], total: f64) -> f64 {
    let mut level = 0.0;
    for _ in 0..50 {
        let (mut left, mut weights) = (total, 0.0);
        for (demand, weight) in demands {
            if *demand <= level * weight {
                left -= demand;
            } else {
                weights += weight;
            }
        }
        if weights <= 0.0 {
            return f64::INFINITY;
        }
        level = left / weights;
    }
    level
}

fn kind_of(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, number)) if number.bytes().all(|b| b.is_ascii_digit()) => kind,
        _ => name,
    }
}

/// The two runs of a scenario.
pub struct Pair<'a> {
    pub traits: &'a Traits,
    pub scenario: &'a Scenario,
    /// The set-point in bytes per second.
    pub set_point: f64,
    pub free: &'a RunMetrics,
    pub held: &'a RunMetrics,
    /// Demands that weir spoke of.
    pub said: &'a SaidDemands,
}

impl Pair<'_> {
    fn weight(&self, name: &str) -> f64 {
        let kinds = &self.scenario.workloads;
        let of = kinds
            .iter()
            .find(|w| w.name == kind_of(name) || w.name == name);
        of.map_or(100.0, |w| w.weight)
    }

    fn twin<'a>(&self, of: &'a RunMetrics, name: &str) -> Option<&'a WorkloadSeries> {
        of.workloads.iter().find(|w| w.name == name)
    }

    pub fn findings(&self) -> Vec<Finding> {
        let mut all = Vec::new();
        self.device(&mut all);
        self.equals(&mut all);
        self.below(&mut all);
        self.demands(&mut all);
        self.small(&mut all);
        all
    }

    fn device(&self, all: &mut Vec<Finding>) {
        let traits = self.traits;
        let is_plain = traits.is_steady && !traits.has_fault && !traits.has_realtime;
        // Where CPUs are full, the kernel may give readers too little for the set-point at times.
        let free: Vec<f64> = self.free.series.iter().map(|p| p.bytes_per_sec).collect();
        let free = measured(&free);
        let reachable: Vec<f64> = free.iter().map(|v| v.min(self.set_point)).collect();
        let is_exceeded = mean(free) >= 1.03 * self.set_point;
        if !is_plain || !is_exceeded || mean(&reachable) < 0.98 * self.set_point {
            return;
        }
        let bias = self.held.bandwidth.bias_ratio;
        all.push(Finding {
            check: "device within 3 %",
            holds: bias.abs() <= 0.03,
            figure: bias,
            of: None,
        });
        let series: Vec<f64> = self.held.series.iter().map(|p| p.bytes_per_sec).collect();
        let series = measured(&series);
        let above = series.iter().filter(|v| **v > 1.2 * self.set_point).count();
        let above = above as f64 / series.len().max(1) as f64;
        all.push(Finding {
            check: "windows > 1.2 set-point <= 1 %",
            holds: above <= 0.01,
            figure: above,
            of: None,
        });
        let mut turns = 0;
        let mut side = 0;
        for second in series.chunks(PER_SEC / 2) {
            let off = mean(second) / self.set_point - 1.0;
            let now = if off > 0.05 {
                1
            } else if off < -0.05 {
                -1
            } else {
                0
            };
            if now != 0 {
                turns += usize::from(side != 0 && now != side);
                side = now;
            }
        }
        all.push(Finding {
            check: "does not swing",
            holds: turns <= 4,
            figure: turns as f64,
            of: None,
        });
    }

    fn equals(&self, all: &mut Vec<Finding>) {
        if !self.traits.is_steady || self.traits.has_fault || !self.traits.is_exact {
            return;
        }
        let mut kinds: BTreeMap<&str, (f64, f64, bool)> = BTreeMap::new();
        for w in &self.held.workloads {
            if w.role != weir_scenario::simulated::Role::Heavy {
                continue;
            }
            let free = self
                .twin(self.free, &w.name)
                .map_or(0.0, |f| mean(measured(&f.bytes_per_sec)));
            let mean = mean(measured(&w.bytes_per_sec));
            // What has as much as without weir has it from the kernel.
            if mean >= 0.95 * free {
                continue;
            }
            let is_limited = measured(&w.limit_cpus).iter().any(|l| l.is_finite());
            let slot = kinds
                .entry(kind_of(&w.name))
                .or_insert((f64::INFINITY, 0.0, false));
            *slot = (slot.0.min(mean), slot.1.max(mean), slot.2 || is_limited);
        }
        for (kind, (least, most, is_limited)) in kinds {
            if most > 0.0 && is_limited {
                let ratio = most / least;
                for (check, bar) in [("equals within 5 %", 1.05), ("equals within 20 %", 1.2)] {
                    all.push(Finding {
                        check,
                        holds: ratio <= bar,
                        figure: ratio,
                        of: Some(kind.to_owned()),
                    });
                }
            }
        }
    }

    fn below(&self, all: &mut Vec<Finding>) {
        let free = self.free.series.iter().map(|p| p.bytes_per_sec);
        let free: Vec<f64> = free.collect();
        // Bursts may lie above it.
        if self.traits.has_fault || most(measured(&free)) > 0.98 * self.set_point {
            return;
        }
        let limited = self.held.workloads.iter();
        let limited = limited.filter(|w| measured(&w.limit_cpus).iter().any(|l| l.is_finite()));
        let limited = limited.count();
        all.push(Finding {
            check: "below: none limited",
            holds: limited == 0,
            figure: limited as f64,
            of: None,
        });
        let lost =
            1.0 - self.held.bandwidth.mean_bytes_per_sec / self.free.bandwidth.mean_bytes_per_sec;
        all.push(Finding {
            check: "below: nothing lost (2 %)",
            holds: lost <= 0.02,
            figure: lost,
            of: None,
        });
    }

    fn demands(&self, all: &mut Vec<Finding>) {
        for w in &self.free.workloads {
            // Limits of others may let it move more than without weir.
            let held = self
                .twin(self.held, &w.name)
                .map_or(0.0, |h| most(&h.bytes_per_sec));
            let free = most(&w.bytes_per_sec).max(held);
            if let Some(said) = self.said.of(&w.name).filter(|_| free > 0.0) {
                all.push(Finding {
                    check: "demand <= 1.2 free",
                    holds: said <= 1.2 * free,
                    figure: said / free,
                    of: Some(w.name.clone()),
                });
            }
        }
    }

    fn small(&self, all: &mut Vec<Finding>) {
        if self.traits.has_realtime || self.traits.has_fault {
            return;
        }
        let users = self.free.workloads.iter();
        let users: Vec<(&WorkloadSeries, f64)> = users
            .map(|w| (w, mean(measured(&w.bytes_per_sec))))
            .filter(|(_, free)| *free > 0.0)
            .collect();
        // Equal workloads have the same demand, whatever the kernel gave each where CPUs were full. What one
        // may have at any time is told from the bursts of all, which may come together.
        let mut bursts: BTreeMap<&str, f64> = BTreeMap::new();
        for (w, _) in &users {
            let burst = bursts.entry(kind_of(&w.name)).or_default();
            *burst = burst.max(most(&w.bytes_per_sec));
        }
        let burst_of = |name: &str| bursts.get(kind_of(name)).copied().unwrap_or_default();
        let demands: Vec<(f64, f64)> = users
            .iter()
            .map(|(w, _)| (burst_of(&w.name), self.weight(&w.name)))
            .collect();
        let level = level(&demands, self.set_point);
        let is_small = |name: &str| {
            let share = level * self.weight(name);
            share.is_finite() && burst_of(name) <= 0.9 * share
        };
        // Which of its equals the kernel gives more is chance: one loses what the least of them had.
        let least_of = |name: &str| {
            let equals = users
                .iter()
                .filter(|(w, _)| kind_of(&w.name) == kind_of(name));
            equals.fold(f64::INFINITY, |least, (_, free)| least.min(*free))
        };
        for (w, _) in users.iter().filter(|(w, _)| is_small(&w.name)) {
            let Some(held) = self.twin(self.held, &w.name) else {
                continue;
            };
            let lost = 1.0 - mean(measured(&held.bytes_per_sec)) / least_of(&w.name);
            all.push(Finding {
                check: "small loses <= 5 %",
                holds: lost <= 0.05,
                figure: lost,
                of: Some(w.name.clone()),
            });
        }
        // A light user above its share is limited as any other.
        let mut light = users
            .iter()
            .filter(|(w, _)| w.role == weir_scenario::simulated::Role::Light);
        let p99 = |of: &RunMetrics| of.light_reader.p99_ns;
        let both = p99(self.held).zip(p99(self.free));
        if let Some((held, free)) = both.filter(|_| light.all(|(w, _)| is_small(&w.name))) {
            all.push(Finding {
                check: "light p99 <= 2 x free",
                holds: held <= 2.0 * free || held - free <= 20_000.0,
                figure: held / free,
                of: None,
            });
        }
    }
}
