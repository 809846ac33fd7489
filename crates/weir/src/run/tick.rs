// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop's one iteration: observe, step, apply, publish.
//!
//! The four stages are the same for the daemon, for `weir top` without a daemon (nothing is applied
//! and nothing published) and for `weir bench loop` (over files in memory). What is decided is
//! decided in weir-core; what is here is the order of things and the bookkeeping for screens.

use super::changes::{ChangeLog, Changes, MachineChange};
use super::cost::{Meter, Stages, process_cpu, thread_cpu};
use super::metrics::Exporter;
use super::outlet::Outlet;
use super::publish::{LEAST_SPACING, Publisher};
use super::push::Pusher;
use super::view::View;
use super::wall::Wall;
use crate::recordings::recorder_thread::RecorderThread;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::warn;
use weir_core::seam::plan::{Outcome, Plan};
use weir_core::seam::snapshot::Snapshot;
use weir_core::{
    Config, Description, DeviceId, Missing, Nanos, Observation, Platform, PlatformError, State,
    step,
};
use weir_store::Tick;

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
    /// The recording.
    pub recorder: Option<RecorderThread>,
    /// Metrics for Prometheus.
    pub exporter: Option<Exporter>,
    /// Lines for a time-series server.
    pub pusher: Option<Pusher>,
}

/// The loop's state between two ticks.
pub struct Loop {
    platform: Leased,
    config: Config,
    state: State,
    sinks: Sinks,
    changes: Changes,
    meter: Meter,
    wall: Wall,
    view: View,
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
    pub events: Vec<MachineChange>,
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
        let view = View::new(Snapshot {
            writer_pid: std::process::id(),
            limiting: config.limit,
            interval_ms,
            policy: policy.to_owned(),
            description: platform.describe().clone(),
            ..Snapshot::empty()
        });
        Loop {
            platform: Leased(platform),
            config,
            state: State::default(),
            sinks,
            changes: Changes::default(),
            meter: Meter::new(Nanos::from_millis(interval_ms)),
            wall: Wall::default(),
            view,
            json: Vec::new(),
            published: None,
            publish_cost: Duration::ZERO,
            trouble: None,
        }
    }

    /// The last tick as screens see it.
    pub fn snapshot(&self) -> &Snapshot {
        self.view.snapshot()
    }

    /// The machine as it is now.
    pub fn machine(&self) -> &Description {
        self.platform.0.describe()
    }

    /// The reader of the JSON lines, if there is one.
    pub fn lines(&self) -> Option<&Outlet> {
        self.sinks.lines.as_ref()
    }

    /// The recording, if there is one.
    pub fn recorder(&mut self) -> Option<&mut RecorderThread> {
        self.sinks.recorder.as_mut()
    }

    /// What pushes to a server, if there is one.
    pub fn pusher(&mut self) -> Option<&mut Pusher> {
        self.sinks.pusher.as_mut()
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
        self.platform.0.on_plan(&plan);
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

    /// Makes the tick the current snapshot, and records it. Its time is that of the look.
    fn take_in(
        &mut self,
        seen: Observation,
        plan: Plan,
        outcomes: Vec<Outcome>,
    ) -> Vec<MachineChange> {
        let tick = Tick {
            wall_unix_ms: self.wall.unix_ms(seen.at),
            lost_before: 0,
            self_cost: Some(self.meter.tick(seen.at, process_cpu())),
            observation: seen,
            plan,
            outcomes,
        };
        let events = self
            .changes
            .of(tick.wall_unix_ms, &tick.plan, &tick.outcomes);
        let machine = self.platform.0.describe();
        if let Some(recorder) = &mut self.sinks.recorder {
            recorder.follow(machine);
            recorder.add(&tick);
        }
        if let Some(exporter) = &mut self.sinks.exporter {
            exporter.count(&tick.observation, &tick.plan);
        }
        if let Some(pusher) = &self.sinks.pusher {
            pusher.add(&tick);
            self.view.take_delivery(pusher.delivery());
        }
        if self.sinks.exporter.is_some() {
            self.view.take_description(machine);
        }
        self.view.take_in(tick);
        if let Some(exporter) = &mut self.sinks.exporter {
            exporter.leave(self.view.snapshot());
        }
        events
    }

    fn publish(&mut self, events: &[MachineChange]) {
        let cost = self.publish_cost;
        let now = Instant::now();
        // The kernel is asked for readers no more often than it can matter.
        let too_soon = |last: Instant| now - last < LEAST_SPACING;
        let is_asked = !self.published.is_some_and(too_soon);
        let publisher = self.sinks.publisher.as_mut().filter(|_| is_asked);
        let spacing = publisher.map(|p| p.spacing(cost, now));
        let old = |last: Instant| spacing.is_some_and(|spacing| now - last >= spacing);
        let to_file = spacing.is_some() && self.published.is_none_or(old);
        let mut trouble = None;
        if let Some(log) = &mut self.sinks.change_log
            && !events.is_empty()
            && let Err(error) = log.add(events)
        {
            trouble = Some(format!("the list of changes cannot be written: {error}"));
        }
        if to_file || self.sinks.lines.is_some() {
            let start = thread_cpu();
            self.look_closer();
            self.json.clear();
            match serde_json::to_writer(&mut self.json, self.view.snapshot()) {
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

    /// Adds to the snapshot what is asked for screens alone.
    pub fn look_closer(&mut self) {
        self.view.take_description(self.platform.0.describe());
        self.view.take_books(self.platform.0.scheduler());
        self.view.take_processes(self.platform.0.processes());
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

fn lost_counters(seen: &Observation) -> BTreeMap<DeviceId, String> {
    let mut lost = BTreeMap::new();
    for group in &seen.groups {
        let read = group.read_bytes.value.as_ref().err();
        let why = read.or(group.write_bytes.value.as_ref().err());
        // A device that has just come is not lost.
        if let Some(why) = why.filter(|why| **why != Missing::NotYetRead) {
            lost.entry(group.id.device)
                .or_insert_with(|| format!("{}: {why}", group.id));
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

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

    /// Looks that were made at these times, however long ago that is when they are taken in.
    struct Dated(Vec<Nanos>, Description);

    impl Platform for Dated {
        fn describe(&self) -> &Description {
            &self.1
        }
        fn observe(&mut self) -> Result<Observation, PlatformError> {
            let at = self.0.pop().ok_or(PlatformError::End)?;
            Ok(Observation {
                at,
                ..Observation::default()
            })
        }
        fn apply(&mut self, _: &Plan) -> Vec<Outcome> {
            Vec::new()
        }
        fn release_all(&mut self) -> Vec<Outcome> {
            Vec::new()
        }
    }

    #[test]
    fn a_tick_has_the_time_of_its_look() {
        const SECOND: u64 = 1_000_000_000;
        let looks = [1_000, 1_003, 1_004, 1_014, 5_014].map(|sec| Nanos(sec * SECOND));
        let world = Dated(
            looks.iter().rev().copied().collect(),
            Description::default(),
        );
        let interval = Duration::from_secs(1);
        let sinks = Sinks::default();
        let mut ticks = Loop::new(Box::new(world), Config::default(), "x", interval, sinks);
        let mut times = Vec::new();
        while ticks.tick().is_ok() {
            times.push(ticks.snapshot().wall_unix_ms);
        }
        let spans: Vec<u64> = times
            .windows(2)
            .map(|pair| pair[1].abs_diff(pair[0]))
            .collect();
        // Rounded down, each.
        for (span, wanted) in spans.iter().zip([3_000u64, 1_000, 10_000, 4_000_000]) {
            assert!(span.abs_diff(wanted) <= 1, "{spans:?}");
        }
        assert_eq!(spans.len(), 4);
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
}
