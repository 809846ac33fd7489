// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop's one iteration: observe, step, apply, publish.
//!
//! The four stages are the same for the daemon, for `weir top` without a daemon (nothing is applied
//! and nothing published) and for `weir-lab bench loop` (over files in memory). What is decided is
//! decided in weir-core; what is here is the order of things and the bookkeeping for screens. Beside it:
//! [`turning`] (the daemon's loop), [`watches`] (what it says once), [`wall`] (wall-clock time), and
//! [`self_cost`] (what weir itself uses).

pub mod self_cost;
pub(in crate::run) mod turning;
pub mod wall;
pub(in crate::run) mod watches;

use super::screens::changes::{Changes, MachineChange};
use super::screens::snapshot_builder::{Beside, Screen, View};
use super::sink::{Shown, Sinks, TickContext, Wants};
use self_cost::{Meter, Stages, process_cpu, thread_cpu};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wall::Wall;
use weir_core::seam::plan::Outcome;
use weir_core::seam::snapshot::Snapshot;
use weir_core::{
    Config, Description, DeviceId, Missing, Nanos, Observation, Platform, PlatformError, State,
    step,
};
use weir_store::Tick;

/// A platform that removes its limits when its scope ends, by return, error or panic.
pub struct Leased(Box<dyn Platform>);

impl Leased {
    /// Gives everything back and says what became of it.
    pub fn release(&mut self) -> Vec<Outcome> {
        self.0.release_all()
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // After an orderly end there is nothing left to restore: the call then does nothing.
        self.0.release_all();
    }
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
}

pub struct Ticked {
    pub stages: Stages,
    pub events: Vec<MachineChange>,
    /// Devices with counters that could not be read, and the reason.
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
        }
    }

    /// The last tick as screens see it.
    pub fn snapshot(&self) -> &Snapshot {
        self.view.snapshot()
    }

    pub fn machine(&self) -> &Description {
        self.platform.0.describe()
    }

    /// Where the ticks go.
    pub fn sinks(&mut self) -> &mut Sinks {
        &mut self.sinks
    }

    /// Other settings of the controller from the next tick on; where names in the exclude list, or with
    /// weights, are others, all patterns of that list. Limits stay, and so does what is known of workloads.
    pub fn follow_settings(&mut self, config: Config, policy: &str, exclude: Option<&[String]>) {
        if let Some(patterns) = exclude {
            let weighted: Vec<String> = config.weights.keys().cloned().collect();
            self.platform.0.exclude(patterns, &weighted);
        }
        self.view.update_settings(config.limit, policy);
        self.sinks.follow_settings(&config, policy);
        self.config = config;
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
        // This is called without actions too: the platform checks the limits that are in force.
        let outcomes = self.platform.0.apply(&plan);
        self.state.note(&outcomes);
        let applied = thread_cpu();
        let lost = lost_counters(&seen);
        let tick = Tick {
            wall_unix_ms: self.wall.unix_ms(seen.at),
            lost_before: 0,
            self_cost: Some(self.meter.tick(seen.at, process_cpu())),
            observation: seen,
            plan,
            outcomes,
        };
        let events = self.publish(tick);
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

    /// Gives all limits back; sinks withdraw what is not true any more.
    pub fn release(&mut self) -> Vec<Outcome> {
        let outcomes = self.platform.release();
        self.sinks.released();
        outcomes
    }

    /// Hands the tick to the sinks, and makes it the current snapshot. Returns what weir changed.
    fn publish(&mut self, tick: Tick) -> Vec<MachineChange> {
        let changes = self
            .changes
            .of(tick.wall_unix_ms, &tick.plan, &tick.outcomes);
        let tick = Arc::new(tick);
        let context = TickContext {
            machine: self.platform.0.describe(),
            changes: &changes,
        };
        self.sinks.tick(&tick, &context);
        let wants = self.sinks.wants();
        let start = thread_cpu();
        let world = &mut self.platform.0;
        let screen = (wants >= Wants::Screen).then(|| Screen {
            scheduler: world.scheduler(),
            processes: world.processes(),
        });
        let beside = Beside {
            machine: (wants >= Wants::Figures).then(|| world.describe()),
            pod_names: (wants >= Wants::Figures).then(|| world.pod_names()),
            screen,
            limit_rewrites: world.limit_rewrites(),
            delivery: self.sinks.delivery(),
        };
        self.view.update(Arc::unwrap_or_clone(tick), beside);
        let cpu = between(start, thread_cpu());
        let mut shown = Shown::new(self.view.snapshot(), &mut self.json, cpu);
        self.sinks.show(&mut shown);
        changes
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
    use weir_core::Plan;

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

    /// Observations of these times, however long ago that is when they are taken in.
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
    fn a_tick_has_the_time_of_its_observation() {
        const SECOND: u64 = 1_000_000_000;
        let times = [1_000, 1_003, 1_004, 1_014, 5_014].map(|sec| Nanos(sec * SECOND));
        let world = Dated(
            times.iter().rev().copied().collect(),
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
