// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks as screens see them, and facts of more than one tick: which workloads were throttled, since when a
//! limit is in force, how many skips began. The same for a live run and for a recorded one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_core::owner::PodNames;
use weir_core::seam::observation::Skipped;
use weir_core::seam::plan::Plan;
use weir_core::seam::processes::Processes;
use weir_core::seam::sched_stats::SchedStats;
use weir_core::seam::snapshot::{Delivery, Snapshot};
use weir_core::seam::topology::Description;
use weir_core::{CpuShare, Nanos, WorkloadId};
use weir_store::Tick;

pub struct View {
    snapshot: Snapshot,
    /// Processes as they were taken last.
    processes: Arc<BTreeMap<WorkloadId, Processes>>,
    pod_names: Arc<PodNames>,
}

impl View {
    /// Before the first tick: the weir that writes, and the machine.
    pub fn new(snapshot: Snapshot) -> View {
        View {
            snapshot,
            processes: Arc::default(),
            pod_names: Arc::default(),
        }
    }

    /// The newest tick as screens see it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Makes the tick the current snapshot.
    pub fn update(&mut self, tick: Tick, beside: Beside<'_>) {
        let snapshot = &mut self.snapshot;
        let mut seen = tick.observation;
        seen.skipped.extend(tick.plan.multiplexed());
        snapshot.wall_unix_ms = tick.wall_unix_ms;
        hold_back(snapshot, &tick.plan);
        note_limits(snapshot, &tick.plan, tick.wall_unix_ms);
        snapshot.self_cost = tick.self_cost;
        snapshot.skipped_total += new_skips(&snapshot.skipped, &seen.skipped);
        snapshot.skipped = seen.skipped;
        snapshot.latencies = seen.latencies;
        snapshot.devload = seen.devload;
        snapshot.outcomes = tick.outcomes;
        snapshot.plan = tick.plan;
        snapshot.push = beside.delivery;
        snapshot.limit_rewrites_total = beside.limit_rewrites;
        if let Some(machine) = beside.machine {
            self.update_machine(machine);
        }
        if let Some(names) = beside.pod_names {
            self.update_pod_names(names);
        }
        if let Some(screen) = beside.screen {
            self.update_screen(screen);
        }
    }

    /// Facts change while it runs: nodes come online, a source fails.
    pub fn update_machine(&mut self, now: &Description) {
        if self.snapshot.description != *now {
            self.snapshot.description = now.clone();
        }
    }

    /// Settings may be read again while it runs.
    pub fn update_settings(&mut self, is_limiting: bool, policy: &str) {
        self.snapshot.limiting = is_limiting;
        policy.clone_into(&mut self.snapshot.policy);
    }

    fn update_pod_names(&mut self, now: Arc<PodNames>) {
        if !Arc::ptr_eq(&self.pod_names, &now) {
            self.snapshot.pod_names = PodNames::clone(&now);
            self.pod_names = now;
        }
    }

    fn update_screen(&mut self, now: Screen) {
        self.snapshot.scheduler = now.scheduler;
        if !Arc::ptr_eq(&self.processes, &now.processes) {
            self.snapshot.processes = BTreeMap::clone(&now.processes);
            self.processes = now.processes;
        }
    }
}

/// What a snapshot says besides the tick. What is not given stays as it was given last.
#[derive(Default)]
pub struct Beside<'a> {
    /// The machine as it is now.
    pub machine: Option<&'a Description>,
    /// What Kubernetes calls pods.
    pub pod_names: Option<Arc<PodNames>>,
    /// What only screens show.
    pub screen: Option<Screen>,
    /// How often another program has written a limit up to now.
    pub limit_rewrites: Option<u64>,
    /// What became of pushed figures up to now.
    pub delivery: Option<Delivery>,
}

/// What only screens show, and costs more to read.
pub struct Screen {
    /// What the scheduler did up to now.
    pub scheduler: Option<SchedStats>,
    pub processes: Arc<BTreeMap<WorkloadId, Processes>>,
}

/// A file that stays malformed is one skip and not one a tick.
fn new_skips(before: &[Skipped], now: &[Skipped]) -> u64 {
    if now.is_empty() {
        return 0;
    }
    let before: BTreeSet<&Skipped> = before.iter().collect();
    now.iter().filter(|skip| !before.contains(skip)).count() as u64
}

/// Workloads that were throttled since the tick before. Both lists are ordered by id, so one pass is enough.
fn hold_back(snapshot: &mut Snapshot, plan: &Plan) {
    snapshot.throttled_cpus.clear();
    let Some(span) = plan.at.since(snapshot.plan.at) else {
        return;
    };
    let before = &snapshot.plan.workloads;
    let mut place = 0;
    for now in &plan.workloads {
        // Mostly they are the same, and then no text is compared.
        while let Some(earlier) = before.get(place)
            && earlier.id != now.id
            && earlier.id < now.id
        {
            place += 1;
        }
        let Some(earlier) = before.get(place).filter(|earlier| earlier.id == now.id) else {
            continue;
        };
        place += 1;
        if let (Some(from), Some(to)) = (earlier.throttled_ns, now.throttled_ns)
            && to > from
        {
            let held = CpuShare::over(Nanos(to.0 - from.0), span);
            snapshot.throttled_cpus.insert(now.id.clone(), held);
        }
    }
}

/// Notes since when each limit stands. Mostly the limits are the same as at the tick before, and nothing is
/// made.
fn note_limits(snapshot: &mut Snapshot, plan: &Plan, now_ms: u64) {
    let limited = || {
        let with_limit = plan.workloads.iter().filter(|v| v.limit_cpus.is_some());
        with_limit.map(|verdict| &verdict.id)
    };
    if limited().eq(snapshot.limited_since_unix_ms.keys()) {
        return;
    }
    let earlier = std::mem::take(&mut snapshot.limited_since_unix_ms);
    let since = |id| earlier.get(id).copied().unwrap_or(now_ms);
    snapshot.limited_since_unix_ms = limited().map(|id| (id.clone(), since(id))).collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::BytesPerSec;
    use weir_core::rates::attribution::{Estimate, Provenance};
    use weir_core::seam::plan::{Decision, Why};

    fn plan(at_ms: u64, throttled: &[(&str, u64)]) -> Plan {
        let verdict = |(id, ms): &(&str, u64)| Decision {
            id: WorkloadId::new(*id),
            bandwidth: Estimate {
                bytes_per_sec: BytesPerSec::ZERO,
                provenance: Provenance::Unknown,
            },
            traffic: None,
            fair: None,
            cpu_cpus: None,
            intensity_bytes_per_cpu_sec: None,
            allowed_bytes_per_sec: None,
            limit_cpus: Some(CpuShare::new(0.1)),
            limited_weight: None,
            throttled_ns: Some(Nanos::from_millis(*ms)),
            why: Why::Learning,
        };
        let workloads = throttled.iter().map(verdict).collect();
        Plan {
            at: Nanos::from_millis(at_ms),
            workloads,
            ..Plan::default()
        }
    }

    /// The plan knows it, and it is shown with what could not be read. It begins once.
    #[test]
    fn multiplexed_events_are_told_with_the_skips() {
        let mut view = View::new(Snapshot::empty());
        let mut tick = Tick::default();
        tick.plan.task_events_running_ratio = Some(0.5);
        tick.observation.skipped.push(Skipped {
            what: "a file".into(),
            why: weir_core::Missing::NotYetRead,
        });
        for _ in 0..2 {
            view.update(tick.clone(), Beside::default());
        }
        let snapshot = view.snapshot();
        let said: Vec<&str> = snapshot.skipped.iter().map(|s| s.what.as_str()).collect();
        assert_eq!(said, ["a file", "counts of tasks"]);
        assert!(snapshot.skipped[1].why.reason().contains("ran 50 %"));
        assert_eq!(snapshot.skipped_total, 2);
    }

    #[test]
    fn held_back_is_the_difference_of_two_ticks() {
        let mut snapshot = Snapshot::empty();
        snapshot.plan = plan(0, &[("/a", 10), ("/b", 10), ("/gone", 10)]);
        let now = plan(100, &[("/a", 60), ("/b", 10), ("/new", 99)]);
        hold_back(&mut snapshot, &now);
        let held: Vec<_> = snapshot
            .throttled_cpus
            .iter()
            .map(|(id, c)| (id.as_str(), c.get()))
            .collect();
        assert_eq!(held, [("/a", 0.5)]);
        note_limits(&mut snapshot, &now, 7);
        note_limits(&mut snapshot, &plan(200, &[("/a", 0)]), 9);
        assert_eq!(
            snapshot.limited_since_unix_ms.get(&WorkloadId::new("/a")),
            Some(&7)
        );
        assert_eq!(snapshot.limited_since_unix_ms.len(), 1);
    }
}
