// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small core: instructions enter a window in order and leave it in order, loads overlap within it, and
//! some loads need the load before. It says which load the core waits for, and where that load is meanwhile.
//!
//! What it leaves out: branches, other levels of dependence than *the load before*, the order in which ports
//! issue. The dependence is no property of a program here, but what makes the model stall as much as the core
//! did.

use super::draws::Draws;
use std::collections::VecDeque;
use weir_core::window::role::{AccessPath, Stage, Target};

/// Latencies lie within this part about their mean.
const SPREAD: f64 = 0.15;

/// A stretch of a request's way: where it is, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leg {
    pub stage: Stage,
    /// Cycles of the core's clock.
    pub cycles: f64,
}

/// Loads that take the same way.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadClass {
    /// The path of the request that they wait for.
    pub path: AccessPath,
    pub target: Target,
    pub loads: f64,
    /// The way, from L1D back to it.
    pub legs: Vec<Leg>,
    /// Mean cycles that are left of it when the load comes: of a line that a prefetch has under way.
    pub left_cycles: Option<f64>,
}

impl LoadClass {
    /// Cycles of the whole way.
    pub fn cycles(&self) -> f64 {
        self.legs.iter().map(|leg| leg.cycles).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreModel {
    /// Instructions that the window holds.
    pub window: f64,
    /// Line fill buffers of a core.
    pub buffers: usize,
    /// Cycles of an instruction while the core does not stall.
    pub instruction_cycles: f64,
    /// Instructions from one load that misses L1D to the next.
    pub gap: f64,
}

/// What a run of the model says. Cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRun {
    /// All cycles of the run.
    pub cycles: f64,
    /// Those in which nothing entered the window.
    pub stalled: f64,
    /// The stalled ones by class (row) and leg (column); the last column: a fill buffer was waited for.
    pub parts: Vec<Vec<f64>>,
}

#[derive(Clone, Copy, Debug)]
struct WindowLoad {
    class: usize,
    position: f64,
    cycles: f64,
    needs_older: bool,
    ready: f64,
    issued: f64,
    done: f64,
}

/// The state of a run.
struct Run<'a> {
    core: CoreModel,
    classes: &'a [LoadClass],
    loads: Vec<WindowLoad>,
    /// Loads that hold a fill buffer.
    held: Vec<usize>,
    /// Loads that wait for one, in the order in which they became ready.
    waiting: VecDeque<usize>,
    /// The oldest load in the window.
    head: usize,
    out: ModelRun,
}

/// Runs it. `dependence` is the part of the loads that need the load before.
pub fn run(core: &CoreModel, classes: &[LoadClass], draws: &Draws, dependence: f64) -> ModelRun {
    let parts = |class: &LoadClass| vec![0.0; class.legs.len() + 1];
    let mut run = Run {
        core: *core,
        classes,
        loads: Vec::with_capacity(draws.loads.len()),
        held: Vec::with_capacity(core.buffers),
        waiting: VecDeque::new(),
        head: 0,
        out: ModelRun {
            parts: classes.iter().map(parts).collect(),
            ..ModelRun::default()
        },
    };
    let (mut position, mut now) = (0.0, 0.0f64);
    for draw in &draws.loads {
        let gap = draw.gap * core.gap;
        position += gap;
        now += gap * core.instruction_cycles;
        now = run.make_room(position, now);
        run.enter(WindowLoad {
            class: draw.class,
            position,
            cycles: latency(&classes[draw.class], draw.spread),
            needs_older: draw.chance < dependence,
            ready: now,
            issued: f64::INFINITY,
            done: f64::INFINITY,
        });
    }
    run.out.cycles = now;
    run.out
}

impl Run<'_> {
    /// Lets time pass until an instruction at `position`, which comes at `now`, has room in the window.
    fn make_room(&mut self, position: f64, now: f64) -> f64 {
        let mut now = now;
        self.complete_until(now);
        while let Some(head) = self.loads.get(self.head).copied() {
            if head.position + self.core.window > position {
                break;
            }
            let mut from = now;
            while self.loads[self.head].done > now {
                let Some(next) = self.next_done() else { break };
                now = next.max(now);
                self.complete_until(now);
            }
            if now > from {
                self.out.stalled += now - from;
                self.charge(from, now);
                from = now;
            }
            now = from;
            self.head += 1;
        }
        now
    }

    /// The next end of a request.
    fn next_done(&self) -> Option<f64> {
        let done = self.held.iter().map(|load| self.loads[*load].done);
        done.min_by(f64::total_cmp)
    }

    /// Ends the requests that are done until then, and gives their buffers on.
    fn complete_until(&mut self, until: f64) {
        loop {
            let first = (0..self.held.len())
                .min_by(|a, b| self.held_done(*a).total_cmp(&self.held_done(*b)));
            let Some(first) = first.filter(|first| self.held_done(*first) <= until) else {
                return;
            };
            let load = self.held.swap_remove(first);
            let at = self.loads[load].done;
            if self
                .loads
                .get(load + 1)
                .is_some_and(|next| next.needs_older)
            {
                let next = &mut self.loads[load + 1];
                next.ready = next.ready.max(at);
                self.waiting.push_back(load + 1);
            }
            self.give_buffers(at);
        }
    }

    fn held_done(&self, place: usize) -> f64 {
        self.loads[self.held[place]].done
    }

    fn give_buffers(&mut self, at: f64) {
        while self.held.len() < self.core.buffers {
            let Some(load) = self.waiting.pop_front() else {
                return;
            };
            let one = &mut self.loads[load];
            one.issued = at.max(one.ready);
            one.done = one.issued + one.cycles;
            self.held.push(load);
        }
    }

    fn enter(&mut self, load: WindowLoad) {
        let at = load.ready;
        let older_is_done = self.loads.last().is_none_or(|older| older.done <= at);
        self.loads.push(WindowLoad {
            needs_older: load.needs_older && !older_is_done,
            ..load
        });
        if !load.needs_older || older_is_done {
            self.waiting.push_back(self.loads.len() - 1);
            self.give_buffers(at);
        }
    }

    /// Charges a stalled time to where the oldest load is meanwhile.
    fn charge(&mut self, from: f64, to: f64) {
        let load = self.loads[self.head];
        let class = &self.classes[load.class];
        let begin = load.issued.clamp(from, to);
        let row = &mut self.out.parts[load.class];
        row[class.legs.len()] += begin - from;
        // Legs are taken from the end of the way backwards: a load that met a prefetch has its last part
        // only. Else all legs are as much longer as the whole.
        let longer = match class.left_cycles {
            None => load.cycles / class.cycles(),
            Some(_) => 1.0,
        };
        let mut end = load.done;
        for (place, leg) in class.legs.iter().enumerate().rev() {
            let start = (end - leg.cycles * longer).max(load.issued);
            row[place] += (end.min(to) - start.max(begin)).max(0.0);
            end = start;
        }
        // What rounding leaves.
        row[0] += (end.min(to) - begin).max(0.0);
    }
}

fn latency(class: &LoadClass, spread: f64) -> f64 {
    match class.left_cycles {
        None => class.cycles() * (1.0 + SPREAD * (2.0 * spread - 1.0)),
        // Evenly about its mean.
        Some(left) => (2.0 * left * spread).min(class.cycles()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(cycles: f64) -> LoadClass {
        let leg = |stage, cycles| Leg { stage, cycles };
        LoadClass {
            path: AccessPath::Drd,
            target: Target::CxlOwn,
            loads: 1.0,
            legs: vec![
                leg(Stage::L2, 0.25 * cycles),
                leg(Stage::Device, 0.75 * cycles),
            ],
            left_cycles: None,
        }
    }

    fn made(core: CoreModel, classes: &[LoadClass], dependence: f64) -> ModelRun {
        run(&core, classes, &Draws::new(classes, 4000, 7), dependence)
    }

    const CORE: CoreModel = CoreModel {
        window: 512.0,
        buffers: 16,
        instruction_cycles: 0.25,
        gap: 100.0,
    };

    /// A chain pays for each load: 400 cycles of which 25 are work, all else is waiting.
    #[test]
    fn a_chain_waits_for_each_load() {
        let run = made(CORE, &[class(400.0)], 1.0);
        let each = run.cycles / 4000.0;
        assert!((each / 400.0 - 1.0).abs() < 0.02, "{each}");
        let stalled = run.stalled / run.cycles;
        assert!((stalled - 375.0 / 400.0).abs() < 0.02, "{stalled}");
    }

    /// Five loads share the window: the time of one is spread over five, and work hides more of it.
    #[test]
    fn loads_that_need_none_overlap() {
        let run = made(CORE, &[class(400.0)], 0.0);
        let each = run.cycles / 4000.0;
        assert!((70.0..110.0).contains(&each), "{each}");
        let short = made(CORE, &[class(60.0)], 0.0);
        assert_eq!(short.stalled, 0.0, "the window hides 128 cycles");
    }

    #[test]
    fn what_stalls_is_charged_and_no_more() {
        for dependence in [0.0, 0.3, 1.0] {
            let run = made(CORE, &[class(400.0), class(90.0)], dependence);
            let parts: f64 = run.parts.iter().flatten().sum();
            assert!(
                (parts / run.stalled - 1.0).abs() < 1e-9,
                "{parts} {}",
                run.stalled
            );
            assert!(run.parts.iter().flatten().all(|part| *part >= 0.0));
            let (slow, fast) = (
                run.parts[0].iter().sum::<f64>(),
                run.parts[1].iter().sum::<f64>(),
            );
            assert!(
                slow > 3.0 * fast,
                "in the shadow of the slower: {slow} {fast}"
            );
        }
    }

    #[test]
    fn a_core_without_buffers_to_spare_waits_for_them() {
        let few = CoreModel {
            buffers: 2,
            gap: 10.0,
            ..CORE
        };
        let many = CoreModel { gap: 10.0, ..CORE };
        let class = [class(400.0)];
        let buffers = |run: &ModelRun| run.parts[0][2] / run.stalled;
        let (few, many) = (made(few, &class, 0.3), made(many, &class, 0.3));
        assert!(few.cycles > 2.0 * many.cycles);
        assert!(buffers(&few) > buffers(&many), "{few:?} {many:?}");
    }
}
