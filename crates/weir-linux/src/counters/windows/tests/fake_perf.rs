// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A perf that counts by the made clock: each event a number of times a microsecond that its encoding gives.

use crate::counters::pmu::{Counted, PerfScope};
use crate::counters::windows::by_cgroup::counter::{BySocket, CgroupCounter};
use crate::counters::windows::perf::{GroupRequest, Perf, PerfGroup};
use crate::kernel::clock::now;
use crate::options::Roots;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use weir_core::{Missing, Nanos};
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
    since: Nanos,
    enabled_ns: u64,
}

type Refusal = Box<dyn Fn(&GroupRequest<'_>) -> Option<i32>>;
type Factor = Box<dyn Fn(&Seen) -> f64>;

pub(super) struct World {
    pub(super) groups: Vec<Seen>,
    /// The kernel's answer to a group, where it refuses it.
    pub(super) refusal: Refusal,
    /// Part of its time for which a group has counters.
    pub(super) running: Factor,
    /// The factor by which a group counts more.
    pub(super) factor: Factor,
    /// What each cgroup has of the counts of a CPU, where a program adds up by cgroup; else none.
    pub(super) parts: Vec<f64>,
    /// What a cgroup has on the second CPU, times that on the first.
    pub(super) second_socket: f64,
    /// Whether the kernel refuses to attach the program.
    pub(super) is_unattached: bool,
    /// Runs that the program could not count.
    pub(super) lost: u64,
    /// The set whose turn it is, as the program was told.
    said: Option<usize>,
}

impl World {
    fn switch(&mut self, number: usize, on: bool) {
        let enabled_ns = self.enabled_ns(number);
        let seen = &mut self.groups[number];
        (seen.enabled_ns, seen.since, seen.is_on) = (enabled_ns, now(), on);
    }

    fn enabled_ns(&self, number: usize) -> u64 {
        let seen = &self.groups[number];
        let more = if seen.is_on {
            now().0 - seen.since.0
        } else {
            0
        };
        seen.enabled_ns + more
    }

    /// What a group has counted up to now.
    fn counted(&self, number: usize) -> Counted {
        let (seen, enabled_ns) = (&self.groups[number], self.enabled_ns(number));
        let running = enabled_ns as f64 * (self.running)(seen);
        let count = |config: &Config| (running / 1e3 * rate(*config) * (self.factor)(seen)) as u64;
        Counted {
            counts: seen.configs.iter().map(count).collect(),
            enabled_ns,
            running_ns: running as u64,
        }
    }
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
            parts: Vec::new(),
            second_socket: 1.0,
            is_unattached: false,
            lost: 0,
            said: None,
        })))
    }

    pub(super) fn refusing(
        answer: impl Fn(&GroupRequest<'_>) -> Option<i32> + 'static,
    ) -> FakePerf {
        let perf = FakePerf::new();
        perf.0.borrow_mut().refusal = Box::new(answer);
        perf
    }

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
            since: now(),
            enabled_ns: 0,
        });
        let number = world.groups.len() - 1;
        Ok(Box::new(FakeGroup {
            world: Rc::clone(&self.0),
            number,
        }))
    }

    fn cgroup_counter(&self, _: &Roots) -> Result<Box<dyn CgroupCounter>, Missing> {
        if self.0.borrow().parts.is_empty() {
            return Err(Missing::NotSupported("no program here".into()));
        }
        Ok(Box::new(FakeCounter {
            world: Rc::clone(&self.0),
            cgroups: Vec::new(),
            sets: BTreeMap::new(),
        }))
    }
}

/// Adds up by cgroup: of what a CPU counts each counted cgroup has the part that the world gives.
struct FakeCounter {
    world: Rc<RefCell<World>>,
    cgroups: Vec<u64>,
    /// Numbers of the groups by CPU and set.
    sets: BTreeMap<(u32, usize), usize>,
}

impl CgroupCounter for FakeCounter {
    fn count_for(&mut self, cgroup: u64) -> Result<(), Missing> {
        self.cgroups.push(cgroup);
        Ok(())
    }

    fn attach(&mut self) -> Result<(), Missing> {
        if self.world.borrow().is_unattached {
            Err(Missing::NotPermitted("no CAP_PERFMON".into()))
        } else {
            Ok(())
        }
    }

    fn read_on(&mut self, cpu: u32, set: usize, events: &[RawFd]) -> Result<(), Missing> {
        let world = self.world.borrow();
        let number = events[0] as usize / 100;
        assert_eq!(world.groups[number].spot, Spot::Cpu(cpu));
        assert_eq!(world.groups[number].configs.len(), events.len());
        self.sets.insert((cpu, set), number);
        Ok(())
    }

    fn begin_turn(&mut self) {
        self.world.borrow_mut().said = None;
    }

    fn turn(&mut self, set: usize) {
        let mut world = self.world.borrow_mut();
        world.said = Some(set);
        for ((_, of), number) in &self.sets {
            assert_eq!(world.groups[*number].is_on, *of == set, "set {of}");
        }
    }

    fn count_now(&mut self) -> u64 {
        assert!(self.world.borrow().said.is_some(), "a turn goes on");
        std::mem::take(&mut self.world.borrow_mut().lost)
    }

    fn sum(&mut self, cgroup: u64, set: usize) -> Result<BySocket, Missing> {
        let world = self.world.borrow();
        let place = self.cgroups.iter().position(|known| *known == cgroup);
        let mut part = world.parts[place.unwrap()];
        let mut all = BySocket::new();
        // The kernel has no row of a cgroup that has not run yet.
        if part == 0.0 {
            return Ok(all);
        }
        // CPUs have a socket each. Of what a cgroup has, the second has as much as the world says.
        for ((cpu, _), number) in self.sets.iter().filter(|((_, of), _)| *of == set) {
            let counted = world.counted(*number);
            let part_of = |more: u64| (more as f64 * part) as u64;
            let sum = Counted {
                counts: counted.counts.iter().map(|count| part_of(*count)).collect(),
                enabled_ns: part_of(counted.enabled_ns),
                running_ns: part_of(counted.running_ns),
            };
            all.insert(*cpu, sum);
            part *= world.second_socket;
        }
        Ok(all)
    }
}

struct FakeGroup {
    world: Rc<RefCell<World>>,
    number: usize,
}

impl PerfGroup for FakeGroup {
    fn switch(&mut self, on: bool) -> io::Result<()> {
        self.world.borrow_mut().switch(self.number, on);
        Ok(())
    }

    fn read(&mut self) -> io::Result<Counted> {
        Ok(self.world.borrow().counted(self.number))
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let events = self.world.borrow().groups[self.number].configs.len();
        (0..events)
            .map(|event| (self.number * 100 + event) as RawFd)
            .collect()
    }
}

impl Drop for FakeGroup {
    fn drop(&mut self) {
        let seen = &mut self.world.borrow_mut().groups[self.number];
        (seen.is_on, seen.is_open) = (false, false);
    }
}
