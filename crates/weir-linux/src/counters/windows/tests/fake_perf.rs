// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A perf that counts by the made clock: each event a number of times a microsecond that its encoding gives.

use crate::counters::pmu::{Counted, PerfScope};
use crate::counters::windows::perf::{GroupRequest, Perf, PerfGroup};
use crate::kernel::clock::now;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use weir_core::Nanos;
use weir_events::Config;

/// Where a group is open, as tests speak of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spot {
    Cpu(u32),
    Cgroup(u32),
    Task(i32),
}

/// What a test knows of an open group.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) kind: u32,
    pub(super) spot: Spot,
    pub(super) configs: Vec<Config>,
    pub(super) is_on: bool,
    pub(super) is_open: bool,
}

type Refusal = Box<dyn Fn(&GroupRequest<'_>) -> Option<i32>>;
type Factor = Box<dyn Fn(&Seen) -> f64>;

/// What all groups share.
pub(super) struct World {
    pub(super) groups: Vec<Seen>,
    /// The kernel's answer to a group, where it refuses it.
    pub(super) refusal: Refusal,
    /// Part of its time for which a group has counters.
    pub(super) running: Factor,
    /// By how much more a group counts.
    pub(super) factor: Factor,
}

#[derive(Clone)]
pub(super) struct FakePerf(pub(super) Rc<RefCell<World>>);

impl FakePerf {
    pub(super) fn new() -> FakePerf {
        FakePerf(Rc::new(RefCell::new(World {
            groups: Vec::new(),
            refusal: Box::new(|_| None),
            running: Box::new(|_| 1.0),
            factor: Box::new(|_| 1.0),
        })))
    }

    pub(super) fn refusing(
        answer: impl Fn(&GroupRequest<'_>) -> Option<i32> + 'static,
    ) -> FakePerf {
        let perf = FakePerf::new();
        perf.0.borrow_mut().refusal = Box::new(answer);
        perf
    }

    /// Groups that count now.
    pub(super) fn counting(&self) -> Vec<Seen> {
        let world = self.0.borrow();
        world
            .groups
            .iter()
            .filter(|group| group.is_on)
            .cloned()
            .collect()
    }
}

/// How often an event counts in a microsecond.
pub(super) fn rate(config: Config) -> f64 {
    (1 + config.0[0] % 97 + config.0[1] % 89) as f64
}

impl Perf for FakePerf {
    fn open(&self, request: &GroupRequest<'_>) -> io::Result<Box<dyn PerfGroup>> {
        let mut world = self.0.borrow_mut();
        if let Some(code) = (world.refusal)(request) {
            return Err(io::Error::from_raw_os_error(code));
        }
        let (spot, is_on) = match request.on {
            PerfScope::Cpu(cpu) => (Spot::Cpu(cpu), false),
            PerfScope::Cgroup(_, cpu) => (Spot::Cgroup(cpu), false),
            PerfScope::Task { tid, on_exec } => (Spot::Task(tid), on_exec),
        };
        world.groups.push(Seen {
            kind: request.kind,
            spot,
            configs: request.configs.to_vec(),
            is_on,
            is_open: true,
        });
        let number = world.groups.len() - 1;
        Ok(Box::new(FakeGroup {
            world: Rc::clone(&self.0),
            number,
            since: now(),
            enabled_ns: 0,
        }))
    }
}

struct FakeGroup {
    world: Rc<RefCell<World>>,
    number: usize,
    since: Nanos,
    enabled_ns: u64,
}

impl FakeGroup {
    /// Counts up to now.
    fn pass(&mut self) {
        let at = now();
        if self.world.borrow().groups[self.number].is_on {
            self.enabled_ns += at.0 - self.since.0;
        }
        self.since = at;
    }
}

impl PerfGroup for FakeGroup {
    fn switch(&mut self, on: bool) -> io::Result<()> {
        self.pass();
        self.world.borrow_mut().groups[self.number].is_on = on;
        Ok(())
    }

    fn read(&mut self) -> io::Result<Counted> {
        self.pass();
        let world = self.world.borrow();
        let seen = &world.groups[self.number];
        let running = self.enabled_ns as f64 * (world.running)(seen);
        let count = |config: &Config| (running / 1e3 * rate(*config) * (world.factor)(seen)) as u64;
        Ok(Counted {
            counts: seen.configs.iter().map(count).collect(),
            enabled_ns: self.enabled_ns,
            running_ns: running as u64,
        })
    }
}

impl Drop for FakeGroup {
    fn drop(&mut self) {
        let seen = &mut self.world.borrow_mut().groups[self.number];
        (seen.is_on, seen.is_open) = (false, false);
    }
}
