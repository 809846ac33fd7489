// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where ticks go besides the machine: a recording, metrics, JSON lines, the file for `weir top`. Each is a
//! [`Sink`]; the loop knows none of them by name.
//!
//! ```text
//!   tick ─► each sink: tick()              all of them, at once; never waits
//!        ─► does a sink want a snapshot?   wants(): nothing, the figures, or all that screens show
//!        ─► snapshot (screens/)             made once for all
//!        ─► those that want it: show()     as a value, or as JSON, which is made once for all
//! ```

pub mod recorder_thread;

use super::screens::changes::MachineChange;
use super::tick::self_cost::thread_cpu;
use std::sync::Arc;
use std::time::Instant;
use weir_core::seam::snapshot::{Delivery, Snapshot};
use weir_core::{Config, Description, Nanos};
use weir_store::{Tick, snapshot_line};

/// What a tick brings besides itself.
pub struct TickContext<'a> {
    pub machine: &'a Description,
    pub changes: &'a [MachineChange],
}

/// How much of a snapshot a sink wants of this tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wants {
    Nothing,
    Figures,
    /// Wants also what only screens show, and costs more to read: processes, the scheduler's statistics.
    Screen,
}

/// Why a sink takes nothing more, or not all.
#[derive(Debug)]
pub enum SinkTrouble {
    /// Its reader has left: an orderly end of weir.
    ReaderLeft,
    /// weir must stop.
    Fatal(anyhow::Error),
    /// The loop goes on without.
    Lossy(String),
}

/// One way out.
///
/// Calls of [`Sink::tick`] and [`Sink::show`] are made from the loop while limits are in force: they must not
/// wait for a reader, a server or a slow disk ([`super::lossy`]). They return nothing where there was nothing
/// to write, and else what became of it; the loop logs trouble when it begins.
pub trait Sink {
    fn tick(
        &mut self,
        _tick: &Arc<Tick>,
        _context: &TickContext<'_>,
    ) -> Option<Result<(), String>> {
        None
    }

    /// What it wants of the snapshot of this tick.
    fn wants(&mut self, _now: Instant) -> Wants {
        Wants::Nothing
    }

    /// Takes the snapshot that it wanted.
    fn show(&mut self, _shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        None
    }

    /// What became of figures that it pushes to a server: the snapshot says so.
    fn delivery(&self) -> Option<Delivery> {
        None
    }

    /// Trouble of its thread, once for each time that it begins.
    fn trouble(&mut self) -> Option<SinkTrouble> {
        None
    }

    /// The controller has these settings from the next tick on.
    fn follow_settings(&mut self, _config: &Config, _policy: &str) {}

    /// Limits were restored: what the sink shows is not true any more.
    fn released(&mut self) {}

    /// Hands over what is left, waits a little for it, and logs what became of all.
    ///
    /// # Errors
    /// The sink's output is not complete.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The snapshot of a tick, for the sinks that wanted it.
pub struct Shown<'a> {
    snapshot: &'a Snapshot,
    json: &'a mut Vec<u8>,
    made: Option<Result<(), String>>,
    cpu: Nanos,
}

impl<'a> Shown<'a> {
    /// `json` is memory that is used again; `cpu` is what it took to read what screens show.
    pub fn new(snapshot: &'a Snapshot, json: &'a mut Vec<u8>, cpu: Nanos) -> Shown<'a> {
        Shown {
            snapshot,
            json,
            made: None,
            cpu,
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        self.snapshot
    }

    /// The snapshot as one line of JSON, with its end. It is made when the first sink needs it.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn json(&mut self) -> Result<&[u8], String> {
        if self.made.is_none() {
            let start = thread_cpu();
            let made = snapshot_line(self.snapshot, self.json);
            self.made =
                Some(made.map_err(|error| format!("the snapshot cannot be written: {error}")));
            self.cpu.0 += thread_cpu().0.saturating_sub(start.0);
        }
        match &self.made {
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(self.json),
        }
    }

    /// CPU time that the snapshot took so far.
    pub fn cpu(&self) -> Nanos {
        self.cpu
    }
}

/// All ways out of a loop, in the order in which they were added.
#[derive(Default)]
pub struct Sinks(Vec<Slot>);

struct Slot {
    sink: Box<dyn Sink>,
    wants: Wants,
    failing: Option<String>,
}

impl Slot {
    /// Logs trouble when it begins: screens are not worth stopping for.
    fn note(&mut self, result: Option<Result<(), String>>) {
        let Some(result) = result else { return };
        let failing = result.err();
        if let Some(what) = &failing
            && self.failing != failing
        {
            tracing::warn!("{what}; the loop goes on");
        }
        self.failing = failing;
    }
}

impl Sinks {
    pub fn add(&mut self, sink: impl Sink + 'static) {
        self.0.push(Slot {
            sink: Box::new(sink),
            wants: Wants::Nothing,
            failing: None,
        });
    }

    /// Hands a tick to all.
    pub fn tick(&mut self, tick: &Arc<Tick>, context: &TickContext<'_>) {
        for slot in &mut self.0 {
            let result = slot.sink.tick(tick, context);
            slot.note(result);
        }
    }

    /// The most that one of them wants of this tick's snapshot.
    pub fn wants(&mut self) -> Wants {
        let now = Instant::now();
        let each = self.0.iter_mut().map(|slot| {
            slot.wants = slot.sink.wants(now);
            slot.wants
        });
        each.max().unwrap_or(Wants::Nothing)
    }

    /// Shows the snapshot to those that wanted it.
    pub fn show(&mut self, shown: &mut Shown<'_>) {
        for slot in &mut self.0 {
            if slot.wants > Wants::Nothing {
                let result = slot.sink.show(shown);
                slot.note(result);
            }
        }
    }

    pub fn delivery(&self) -> Option<Delivery> {
        self.0.iter().find_map(|slot| slot.sink.delivery())
    }

    /// Trouble of one of them, while there is any.
    pub fn trouble(&mut self) -> Option<SinkTrouble> {
        self.0.iter_mut().find_map(|slot| slot.sink.trouble())
    }

    /// The controller has these settings from the next tick on.
    pub fn follow_settings(&mut self, config: &Config, policy: &str) {
        for slot in &mut self.0 {
            slot.sink.follow_settings(config, policy);
        }
    }

    pub fn released(&mut self) {
        for slot in &mut self.0 {
            slot.sink.released();
        }
    }

    /// Ends all.
    ///
    /// # Errors
    /// The first of those that are not complete.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        let ends = self.0.iter_mut().map(|slot| slot.sink.finish());
        // All of them end, also after one that failed.
        let ends: Vec<_> = ends.collect();
        ends.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Notes what it is called for.
    struct Noting {
        wants: Wants,
        calls: Rc<RefCell<Vec<String>>>,
        fails: bool,
    }

    impl Sink for Noting {
        fn tick(&mut self, tick: &Arc<Tick>, _: &TickContext<'_>) -> Option<Result<(), String>> {
            let seq = tick.plan.seq;
            self.calls.borrow_mut().push(format!("tick {seq}"));
            None
        }
        fn wants(&mut self, _: Instant) -> Wants {
            self.wants
        }
        fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
            let text = shown.json().unwrap();
            let back: Snapshot = serde_json::from_slice(text).unwrap();
            assert_eq!(text.last(), Some(&b'\n'));
            assert_eq!(&back, shown.snapshot());
            self.calls.borrow_mut().push("shown".into());
            None
        }
        fn finish(&mut self) -> anyhow::Result<()> {
            self.calls.borrow_mut().push("finish".into());
            anyhow::ensure!(!self.fails, "not complete");
            Ok(())
        }
    }

    #[test]
    fn each_sink_gets_each_tick_and_the_snapshot_it_wants() {
        let calls = Rc::default();
        let mut sinks = Sinks::default();
        assert_eq!(sinks.wants(), Wants::Nothing);
        for (wants, fails) in [
            (Wants::Nothing, true),
            (Wants::Screen, true),
            (Wants::Figures, false),
        ] {
            let calls = Rc::clone(&calls);
            sinks.add(Noting {
                wants,
                calls,
                fails,
            });
        }
        let tick = Arc::new(Tick {
            plan: weir_core::Plan {
                seq: 7,
                ..weir_core::Plan::default()
            },
            ..Tick::default()
        });
        let machine = Description::default();
        sinks.tick(
            &tick,
            &TickContext {
                machine: &machine,
                changes: &[],
            },
        );
        assert_eq!(sinks.wants(), Wants::Screen);
        let snapshot = Snapshot::empty();
        let mut json = b"of an earlier tick".to_vec();
        sinks.show(&mut Shown::new(&snapshot, &mut json, Nanos(0)));
        assert!(sinks.finish().is_err());
        let wanted = [
            "tick 7", "tick 7", "tick 7", "shown", "shown", "finish", "finish", "finish",
        ];
        assert_eq!(*calls.borrow(), wanted);
    }
}
