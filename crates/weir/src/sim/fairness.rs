// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares of a simulated run: what each workload had of each resource, and what dominant-resource fairness
//! gives it ([`weir_core::policy::drf`]).
//!
//! *Capacity* is all CPUs, and of a device its set-point, or what it served where that is more. The target
//! is the filling's result for the weights, the measured needs of a CPU-second, and what each would use
//! alone. That is known of a workload that always computes or accesses: all its threads. Of another one it is
//! not; it counts with what it used, and has no target of its own. What the system and the controller used is
//! taken off first.

use std::collections::BTreeMap;
use weir_core::policy::drf::{Flow, Need, Resource, ResourceKind, fill};
use weir_scenario::figures::WorkloadShares;
use weir_scenario::simulated::{Kind, PhaseConfig, Role, WorkloadConfig};
use weir_sim::{RunMetrics, Scenario, UsePerSec};

const NO_DRAM: &str = "the simulated machine counts no traffic of ordinary memory";
const NO_DMA: &str = "the simulated machine has no DMA";
const NO_TARGET: &str =
    "of a workload that pauses, ends or has a rate it is not known what it would use alone";

/// Why figures are not known, by the name under which results have the reason.
pub fn reasons(shares: &BTreeMap<String, WorkloadShares>) -> BTreeMap<String, String> {
    let lacks = |is_lacking: fn(&WorkloadShares) -> bool| shares.values().any(is_lacking);
    let all = [
        (
            "shares.dram_ratio",
            NO_DRAM,
            lacks(|s| s.dram_ratio.is_none()),
        ),
        ("shares.dma_ratio", NO_DMA, lacks(|s| s.dma_ratio.is_none())),
        (
            "shares.target_ratio",
            NO_TARGET,
            lacks(|s| s.target_ratio.is_none()),
        ),
    ];
    let lacking = all.into_iter().filter(|(_, _, is_lacking)| *is_lacking);
    lacking
        .map(|(name, why, _)| (name.to_owned(), why.to_owned()))
        .collect()
}

/// One workload of the scenario in a run.
struct Taker<'a> {
    config: &'a WorkloadConfig,
    used: &'a UsePerSec,
    /// What a CPU-second takes of each resource.
    needs: Vec<Need>,
}

impl Taker<'_> {
    /// What it would use alone, in CPUs, if that is known.
    fn alone_cpus(&self) -> Option<f64> {
        let w = self.config;
        let is_whole = w.start_ms == 0 && w.stop_ms.is_none() && !w.realtime;
        let never_ends = |p: &PhaseConfig| {
            let is_busy = matches!(p.kind, Kind::Access | Kind::Compute);
            is_busy && p.rate_bytes_per_sec.is_none() && p.lock.is_none()
        };
        (is_whole && w.phases.iter().all(never_ends)).then_some(f64::from(w.threads))
    }

    fn flow(&self) -> Flow<'_> {
        let alone = self.alone_cpus();
        Flow {
            weight: self.config.weight,
            demand: alone.map_or(self.used.cpus, |_| f64::INFINITY),
            threads: alone.unwrap_or(f64::INFINITY),
            needs: &self.needs,
        }
    }
}

/// The shares of all workloads but those of the system, by name.
pub fn shares_of(scenario: &Scenario, measures: &RunMetrics) -> BTreeMap<String, WorkloadShares> {
    let configs = scenario.workloads.iter();
    let configs = configs.flat_map(|w| std::iter::repeat_n(w, w.count as usize));
    let all: Vec<(&WorkloadConfig, &UsePerSec)> = configs.zip(&measures.uses).collect();
    let resources = resources(scenario, &all);
    let takers: Vec<Taker<'_>> = all
        .iter()
        .filter(|(config, _)| config.role != Role::System)
        .map(|&(config, used)| Taker {
            config,
            used,
            needs: needs(config, used, resources.len()),
        })
        .collect();
    let flows: Vec<Flow<'_>> = takers.iter().map(Taker::flow).collect();
    let taken: f64 = measures.uses.iter().map(|used| used.cpus).sum::<f64>()
        - takers.iter().map(|taker| taker.used.cpus).sum::<f64>();
    let mut to_divide = resources.clone();
    if let Some(cpu) = to_divide.first_mut() {
        cpu.capacity -= taken;
    }
    let levels = fill(&to_divide, &flows);
    let each = takers.iter().zip(&levels);
    each.map(|(taker, level)| {
        let shares = shares(taker, &resources, level.progress);
        (taker.used.name.clone(), shares)
    })
    .collect()
}

fn resources(scenario: &Scenario, all: &[(&WorkloadConfig, &UsePerSec)]) -> Vec<Resource> {
    let mut resources = vec![Resource {
        kind: ResourceKind::Cpu,
        capacity: f64::from(scenario.cpu_count()),
    }];
    for device in 0..scenario.devices.len() {
        let users = all.iter().filter(|(w, _)| w.device as usize == device);
        let served: f64 = users.map(|(_, used)| used.all_bytes()).sum();
        resources.push(Resource {
            kind: ResourceKind::Cxl,
            capacity: scenario.control.set_point_bytes_per_sec.max(served),
        });
    }
    resources
}

fn needs(config: &WorkloadConfig, used: &UsePerSec, resources: usize) -> Vec<Need> {
    let mut needs = vec![Need::default(); resources];
    if used.cpus <= 0.0 {
        return needs;
    }
    needs[0] = Need::own(1.0);
    needs[config.device as usize + 1] = Need::own(used.all_bytes() / used.cpus);
    needs
}

/// `target` is the CPU time that the filling gives.
fn shares(taker: &Taker<'_>, resources: &[Resource], target: f64) -> WorkloadShares {
    let part = |place: usize, cpus: f64| {
        let need = taker.needs[place].total();
        cpus * need / resources[place].capacity
    };
    let cxl = taker.config.device as usize + 1;
    let has = [part(0, taker.used.cpus), part(cxl, taker.used.cpus)];
    let (place, name) = if has[1] > has[0] {
        (cxl, format!("cxl{}", cxl - 1))
    } else {
        (0, "cpu".to_owned())
    };
    let dominant = has[0].max(has[1]);
    let target = taker.alone_cpus().map(|_| part(place, target));
    WorkloadShares {
        weight: taker.config.weight,
        cpu_ratio: Some(has[0]),
        cxl_ratio: Some(has[1]),
        dominant: Some(name),
        dominant_ratio: Some(dominant),
        target_ratio: target,
        error_ratio: target.filter(|t| *t > 0.0).map(|t| dominant / t - 1.0),
        ..WorkloadShares::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::builtin_scenarios::named;

    fn used(name: &str, cpus: f64, bytes_per_sec: f64) -> UsePerSec {
        UsePerSec {
            name: name.into(),
            cpus,
            bytes: vec![bytes_per_sec],
            ..UsePerSec::default()
        }
    }

    /// The scenario's own set 4: equal dominant shares of 0.2297 are the target, whatever was reached.
    #[test]
    fn the_target_is_what_the_filling_gives() {
        let scenario = named("fair-cpus").unwrap().unwrap().scenario;
        let set_point = scenario.control.set_point_bytes_per_sec;
        let kappa = 2.832 * set_point / 4.0;
        let mut uses = vec![used("reader", 0.8, 0.8 * kappa)];
        uses.extend((1..5).map(|i| used(&format!("worker-{i}"), 0.8, 0.0)));
        let measures = RunMetrics {
            uses,
            ..RunMetrics::default()
        };
        let got = shares_of(&scenario, &measures);
        let reader = &got["reader"];
        assert_eq!(reader.dominant.as_deref(), Some("cxl0"));
        for share in got.values() {
            let target = share.target_ratio.unwrap();
            assert!((target - 0.2297).abs() < 5e-5, "{share:?}");
        }
        assert!((reader.cpu_ratio.unwrap() - 0.2).abs() < 1e-12);
        let error = reader.error_ratio.unwrap();
        assert!(
            (error - (0.2 * 2.832 / 0.2297 - 1.0)).abs() < 1e-3,
            "{error}"
        );
        assert_eq!((reader.dram_ratio, reader.dma_ratio), (None, None));
        let unknown: Vec<String> = reasons(&got).into_keys().collect();
        assert_eq!(unknown, ["shares.dma_ratio", "shares.dram_ratio"]);
    }

    /// What it would use alone is not known, so it has no target; the others share what it left.
    #[test]
    fn a_workload_that_pauses_has_no_target() {
        let mut scenario = named("fair-cpus").unwrap().unwrap().scenario;
        scenario.workloads[0].phases[0].rate_bytes_per_sec = Some(1e6);
        let mut uses = vec![used("reader", 0.4, 1e6)];
        uses.extend((1..5).map(|i| used(&format!("worker-{i}"), 0.9, 0.0)));
        let measures = RunMetrics {
            uses,
            ..RunMetrics::default()
        };
        let got = shares_of(&scenario, &measures);
        assert_eq!(got["reader"].target_ratio, None);
        assert!(reasons(&got).contains_key("shares.target_ratio"));
        let worker = got["worker-1"].target_ratio.unwrap();
        assert!((worker - 0.225).abs() < 1e-9, "{worker}");
    }
}
