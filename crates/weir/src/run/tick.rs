// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop's one iteration: observe, step, apply, publish.
//!
//! The four stages are the same for the daemon, for `weir top` without a daemon (nothing is applied
//! and nothing published) and for `weir bench loop` (over files in memory). What is decided is
//! decided in weir-core; what is here is the order of things and the bookkeeping for screens.

use super::changes::{Change, ChangeLog, Changes};
use super::cost::{Meter, Stages, process_cpu, thread_cpu};
use super::outlet::Outlet;
use super::publish::{Publisher, spacing, wall_unix_ms};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tracing::warn;
use weir_core::observation::Skipped;
use weir_core::plan::{Outcome, Plan};
use weir_core::snapshot::Snapshot;
use weir_core::{
    Config, CpuShare, DeviceId, Nanos, Observation, Platform, PlatformError, State, step,
};

/// A platform whose limits end with the scope that holds it, by return, error or panic.
pub struct Leased(Box<dyn Platform>);

impl Leased {
    /// Gives everything back and says what became of it.
    pub fn release(&mut self) -> Vec<Outcome> {
        self.0.release_all()
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // After an orderly end there is nothing left to give back: the call is then empty.
        self.0.release_all();
    }
}

/// Where ticks go besides the world.
#[derive(Default)]
pub struct Sinks {
    /// The snapshot file.
    pub publisher: Option<Publisher>,
    /// The list of changes.
    pub change_log: Option<ChangeLog>,
    /// Lines of JSON, one per tick.
    pub lines: Option<Outlet>,
}

/// The loop's state between two ticks.
pub struct Loop {
    platform: Leased,
    config: Config,
    state: State,
    sinks: Sinks,
    changes: Changes,
    meter: Meter,
    snapshot: Snapshot,
    /// The snapshot as text: memory that is used again.
    json: Vec<u8>,
    published: Option<Instant>,
    publish_cost: Duration,
    trouble: Option<String>,
}

/// What a tick was.
pub struct Ticked {
    /// CPU time of the stages.
    pub stages: Stages,
    /// What weir changed, as events.
    pub events: Vec<Change>,
    /// Devices whose counters could not be read, with the reason.
    pub lost: BTreeMap<DeviceId, String>,
}

impl Loop {
    /// Ready for the first tick.
    pub fn new(
        platform: Box<dyn Platform>,
        config: Config,
        policy: &str,
        interval: Duration,
        sinks: Sinks,
    ) -> Loop {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let snapshot = Snapshot {
            writer_pid: std::process::id(),
            limiting: config.limit,
            interval_ms,
            policy: policy.to_owned(),
            description: platform.describe().clone(),
            ..Snapshot::empty()
        };
        Loop {
            platform: Leased(platform),
            config,
            state: State::default(),
            sinks,
            changes: Changes::default(),
            meter: Meter::new(Nanos::from_millis(interval_ms)),
            snapshot,
            json: Vec::new(),
            published: None,
            publish_cost: Duration::ZERO,
            trouble: None,
        }
    }

    /// The last tick as screens see it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The reader of the JSON lines, if there is one.
    pub fn lines(&self) -> Option<&Outlet> {
        self.sinks.lines.as_ref()
    }

    /// One iteration. Blocks in the platform until the next tick is due.
    ///
    /// # Errors
    /// The platform can observe nothing more.
    pub fn tick(&mut self) -> Result<Ticked, PlatformError> {
        let start = thread_cpu();
        let seen = self.platform.0.observe()?;
        let observed = thread_cpu();
        let plan = step(
            &mut self.state,
            &self.config,
            self.platform.0.describe(),
            &seen,
        );
        let decided = thread_cpu();
        // Also without actions: the platform looks after the limits it holds.
        let outcomes = self.platform.0.apply(&plan);
        self.state.note(&outcomes);
        let applied = thread_cpu();
        let lost = lost_counters(&seen);
        let events = self.take_in(seen, plan, outcomes);
        self.publish(&events);
        let stages = Stages {
            observe: between(start, observed),
            step: between(observed, decided),
            apply: between(decided, applied),
            publish: between(applied, thread_cpu()),
        };
        self.meter.done(&stages);
        Ok(Ticked {
            stages,
            events,
            lost,
        })
    }

    /// Gives all limits back; the snapshot is withdrawn, because it is not true any more.
    pub fn release(&mut self) -> Vec<Outcome> {
        let outcomes = self.platform.release();
        if let Some(publisher) = &self.sinks.publisher {
            publisher.withdraw();
        }
        outcomes
    }

    /// Makes the tick the current snapshot.
    fn take_in(&mut self, seen: Observation, plan: Plan, outcomes: Vec<Outcome>) -> Vec<Change> {
        let now_ms = wall_unix_ms();
        let events = self.changes.of(now_ms, &plan, &outcomes);
        let snapshot = &mut self.snapshot;
        snapshot.wall_unix_ms = now_ms;
        hold_back(snapshot, &plan);
        note_limits(snapshot, &plan, now_ms);
        snapshot.self_cost = Some(self.meter.tick(seen.at, process_cpu()));
        snapshot.skipped_total += new_skips(&snapshot.skipped, &seen.skipped);
        snapshot.skipped = seen.skipped;
        snapshot.latencies = seen.latencies;
        snapshot.outcomes = outcomes;
        snapshot.plan = plan;
        events
    }

    fn publish(&mut self, events: &[Change]) {
        let old = |last: Instant| last.elapsed() >= spacing(self.publish_cost);
        let due = self.published.is_none_or(old);
        let to_file = due && self.sinks.publisher.is_some();
        let mut trouble = None;
        if let Some(log) = &mut self.sinks.change_log
            && !events.is_empty()
            && let Err(error) = log.add(events)
        {
            trouble = Some(format!("the list of changes cannot be written: {error}"));
        }
        if to_file || self.sinks.lines.is_some() {
            let start = thread_cpu();
            self.json.clear();
            match serde_json::to_writer(&mut self.json, &self.snapshot) {
                Ok(()) => trouble = self.hand_out(to_file).err().or(trouble),
                Err(error) => trouble = Some(format!("the snapshot cannot be written: {error}")),
            }
            if to_file {
                self.published = Some(Instant::now());
                self.publish_cost = Duration::from_nanos(between(start, thread_cpu()).0);
            }
        }
        if to_file || !events.is_empty() {
            self.say_once(trouble);
        }
    }

    fn hand_out(&self, to_file: bool) -> Result<(), String> {
        let mut result = Ok(());
        if let Some(publisher) = &self.sinks.publisher
            && to_file
        {
            let failed = |error| format!("the snapshot cannot be published: {error}");
            result = publisher.publish(&self.json).map_err(failed);
        }
        if let Some(lines) = &self.sinks.lines {
            lines.send([self.json.as_slice(), b"\n"].concat());
        }
        result
    }

    /// Screens are not worth stopping for: their trouble is logged when it begins.
    fn say_once(&mut self, trouble: Option<String>) {
        if let Some(what) = &trouble
            && self.trouble != trouble
        {
            warn!("{what}; the loop goes on");
        }
        self.trouble = trouble;
    }
}

fn between(earlier: Nanos, later: Nanos) -> Nanos {
    Nanos(later.0.saturating_sub(earlier.0))
}

/// A file that stays malformed is one skip and not one a tick.
fn new_skips(before: &[Skipped], now: &[Skipped]) -> u64 {
    if now.is_empty() {
        return 0;
    }
    let before: BTreeSet<&Skipped> = before.iter().collect();
    now.iter().filter(|skip| !before.contains(skip)).count() as u64
}

fn lost_counters(seen: &Observation) -> BTreeMap<DeviceId, String> {
    let mut lost = BTreeMap::new();
    for group in &seen.groups {
        let read = group.read_bytes.value.as_ref().err();
        if let Some(why) = read.or(group.write_bytes.value.as_ref().err()) {
            lost.entry(group.id.device)
                .or_insert_with(|| format!("{}: {why}", group.id));
        }
    }
    lost
}

/// Who was held back since the tick before: both lists are ordered by id, so one pass does it.
fn hold_back(snapshot: &mut Snapshot, plan: &Plan) {
    snapshot.held_cpus.clear();
    let Some(span) = plan.at.since(snapshot.plan.at) else {
        return;
    };
    let mut before = snapshot.plan.workloads.iter().peekable();
    for now in &plan.workloads {
        while before.next_if(|earlier| earlier.id < now.id).is_some() {}
        let Some(earlier) = before.next_if(|earlier| earlier.id == now.id) else {
            continue;
        };
        if let (Some(from), Some(to)) = (earlier.throttled_ns, now.throttled_ns)
            && to > from
        {
            let held = CpuShare::over(between(from, to), span);
            snapshot.held_cpus.insert(now.id.clone(), held);
        }
    }
}

/// Since when each limit stands. Mostly they are the same as at the tick before, and nothing is made.
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
    use std::cell::Cell;
    use std::rc::Rc;
    use weir_core::attribution::{Estimate, Provenance};
    use weir_core::plan::{Verdict, Why};
    use weir_core::{BytesPerSec, Description, WorkloadId};

    struct Breaks {
        machine: Description,
        released: Rc<Cell<u32>>,
        panics: bool,
    }

    impl Platform for Breaks {
        fn describe(&self) -> &Description {
            &self.machine
        }
        fn observe(&mut self) -> Result<Observation, PlatformError> {
            assert!(!self.panics, "a fault of our own");
            Err(PlatformError::Broken("gone".into()))
        }
        fn apply(&mut self, _: &Plan) -> Vec<Outcome> {
            Vec::new()
        }
        fn release_all(&mut self) -> Vec<Outcome> {
            self.released.set(self.released.get() + 1);
            Vec::new()
        }
    }

    #[test]
    fn limits_end_with_the_loop_whatever_ends_it() {
        for panics in [false, true] {
            let released = Rc::new(Cell::new(0));
            let machine = Description::default();
            let world = Breaks {
                machine,
                released: Rc::clone(&released),
                panics,
            };
            let interval = Duration::from_millis(50);
            let mut ticks = Loop::new(
                Box::new(world),
                Config::default(),
                "x",
                interval,
                Sinks::default(),
            );
            let run = std::panic::AssertUnwindSafe(move || ticks.tick().map(drop));
            let result = std::panic::catch_unwind(run);
            assert_eq!(result.is_err(), panics);
            assert_eq!(released.get(), 1, "panics: {panics}");
        }
    }

    fn plan(at_ms: u64, throttled: &[(&str, u64)]) -> Plan {
        let verdict = |(id, ms): &(&str, u64)| Verdict {
            id: WorkloadId::new(*id),
            bandwidth: Estimate {
                bytes_per_sec: BytesPerSec::ZERO,
                provenance: Provenance::Unknown,
            },
            cpu_cpus: None,
            intensity_bytes_per_cpu_sec: None,
            allowed_bytes_per_sec: None,
            limit_cpus: Some(CpuShare::new(0.1)),
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

    #[test]
    fn held_back_is_the_difference_of_two_ticks() {
        let mut snapshot = Snapshot::empty();
        snapshot.plan = plan(0, &[("/a", 10), ("/b", 10), ("/gone", 10)]);
        let now = plan(100, &[("/a", 60), ("/b", 10), ("/new", 99)]);
        hold_back(&mut snapshot, &now);
        let held: Vec<_> = snapshot
            .held_cpus
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
