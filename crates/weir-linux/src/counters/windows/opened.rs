// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is open: the sets of all lanes at all places, and the pools of their counts.

use super::by_cgroup::CgroupSums;
use super::error::RecordError;
use super::lanes::{CountingLane, LaneBox};
use super::outcome::see_events;
use super::perf::Perf;
use super::places::{CountingPlace, NewPlace};
use super::subjects::{Asked, CpuSockets, Subject};
use super::sums::Pool;
use super::wanted::is_of_core;
use crate::counters::pmu::{PerfScope, denied};
use crate::inventory::cpu_topology::socket_of_cxl_pmu;
use crate::inventory::numa::online;
use crate::kernel::fd_budget::descriptors;
use crate::options::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::window::CountScope;
use weir_core::{Missing, Role};
use weir_events::Scope;

pub(super) struct OpenCounters {
    roots: Roots,
    perf: Box<dyn Perf>,
    pub(super) asked: Asked,
    pub(super) subjects: Vec<Subject>,
    pub(super) lanes: Vec<CountingLane>,
    pub(super) pools: Vec<Pool>,
    pub(super) places: Vec<CountingPlace>,
    /// Lanes whose counts a program of the kernel adds up by cgroup.
    sums: Vec<CgroupSums>,
    /// Pools of the subjects, for each of these lanes.
    summed: BTreeMap<usize, Vec<usize>>,
    /// Why each cgroup has events of its own instead.
    pub(super) events_apart: Option<Missing>,
    /// PMUs at each port and device, with their sockets.
    pub(super) pmus: BTreeMap<CountScope, BTreeSet<String>>,
    /// Sockets of these ports and devices, as far as known.
    attached: BTreeMap<CountScope, u32>,
    sockets: CpuSockets,
    cpus: BTreeSet<u32>,
    /// Sets that the kernel refuses though it takes their events one by one.
    refused: BTreeMap<(usize, usize), Missing>,
    /// It refused a cgroup, and not the events: perf counts by another tree of cgroups (EBADF).
    is_other_tree: bool,
}

impl OpenCounters {
    /// Opens the sets of these lanes.
    ///
    /// # Errors
    /// What is asked for is not there, or the kernel refuses it.
    pub(super) fn open(
        roots: &Roots,
        asked: Asked,
        subjects: Vec<Subject>,
        lanes: Vec<CountingLane>,
        perf: Box<dyn Perf>,
    ) -> Result<OpenCounters, RecordError> {
        let mut open = OpenCounters {
            roots: roots.clone(),
            perf,
            asked,
            subjects,
            lanes,
            pools: Vec::new(),
            places: Vec::new(),
            sums: Vec::new(),
            summed: BTreeMap::new(),
            events_apart: None,
            pmus: BTreeMap::new(),
            attached: BTreeMap::new(),
            sockets: CpuSockets::new(roots),
            cpus: online(roots).unwrap_or_default().into_iter().collect(),
            refused: BTreeMap::new(),
            is_other_tree: false,
        };
        open.add_up_by_cgroup();
        open.has_room()?;
        open.open_all()?;
        open.has_any()?;
        Ok(open)
    }

    /// Has a program add up by cgroup, if there are cgroups and the kernel takes it.
    fn add_up_by_cgroup(&mut self) {
        if !matches!(self.asked, Asked::Cgroups(_)) {
            return;
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            if !is_of_core(lane.scope) {
                continue;
            }
            let counter = self.perf.cgroup_counter(&self.roots);
            let of = (number, lane);
            match counter.and_then(|counter| CgroupSums::new(of, counter, &self.subjects)) {
                Ok(sums) => self.sums.push(sums),
                Err(why) => self.events_apart = Some(why),
            }
        }
    }

    /// Whether so many files may be open.
    fn has_room(&self) -> Result<(), RecordError> {
        let places = |lane: &CountingLane| {
            if !is_of_core(lane.scope) {
                lane.boxes.iter().map(|made| made.cpus.len()).sum()
            } else {
                match &self.asked {
                    Asked::Machine => self.cpus.len(),
                    Asked::Cgroups(_) if !self.sums.is_empty() => self.cpus.len(),
                    Asked::Cgroups(_) => self.cpus.len() * self.subjects.len(),
                    Asked::Process(_) | Asked::Command(_) => self.threads().len(),
                }
            }
        };
        let needed = |lane: &CountingLane| places(lane) * CountingPlace::descriptors(lane);
        let needed: usize = self.lanes.iter().map(needed).sum();
        let free = descriptors();
        if needed > free {
            Err(RecordError::Descriptors { needed, free })
        } else {
            Ok(())
        }
    }

    /// Whether one set or another counts for what is asked for: with subjects, sets of cores.
    fn has_any(&self) -> Result<(), RecordError> {
        let is_asked = |lane: &CountingLane| self.subjects.is_empty() || is_of_core(lane.scope);
        let lanes = self.lanes.iter().enumerate();
        let asked: Vec<(usize, &CountingLane)> = lanes.filter(|(_, lane)| is_asked(lane)).collect();
        let is_refused = |(number, lane): &(usize, &CountingLane)| {
            (0..lane.set_sizes.len()).all(|set| self.refused.contains_key(&(*number, set)))
        };
        match asked.first() {
            Some((first, _)) if asked.iter().all(is_refused) => {
                let names = self.subjects.iter().map(|subject| subject.id().to_string());
                let names = names.collect::<Vec<_>>().join(", ");
                let what = if names.is_empty() {
                    "this machine"
                } else {
                    names.as_str()
                };
                Err(self.refused(what, self.refusal(*first)))
            }
            _ => Ok(()),
        }
    }

    /// Threads of the process that is asked for.
    fn threads(&self) -> Vec<i32> {
        let of = |subject: &Subject| match subject {
            // The shell that holds the command back is one thread.
            Subject::Process {
                pid, is_held: true, ..
            } => vec![*pid],
            Subject::Process { pid, .. } => Subject::threads(&self.roots, *pid),
            Subject::Cgroup { .. } => Vec::new(),
        };
        self.subjects.iter().flat_map(of).collect()
    }

    fn open_all(&mut self) -> Result<(), RecordError> {
        for lane in 0..self.lanes.len() {
            match is_of_core(self.lanes[lane].scope) {
                false => self.open_boxes(lane),
                true if matches!(self.asked, Asked::Process(_) | Asked::Command(_)) => {
                    self.open_threads(lane)?;
                }
                true => {
                    for cpu in self.cpus.clone() {
                        self.open_cpu(lane, cpu)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The place of a pool, which is made if there is none.
    fn pool(&mut self, lane: usize, of: CountScope, subject: Option<usize>) -> usize {
        let is_it = |pool: &Pool| (pool.lane, pool.of, pool.subject) == (lane, of, subject);
        if let Some(known) = self.pools.iter().position(is_it) {
            return known;
        }
        let sockets = match self.asked {
            Asked::Cgroups(_) if subject.is_some() => self.sockets.several(),
            _ => BTreeSet::new(),
        };
        let sums = Pool::new(lane, &self.lanes[lane], (of, subject), sockets);
        self.pools.push(sums);
        self.pools.len() - 1
    }

    fn open_place(&mut self, events: &LaneBox, new: NewPlace<'_>) -> Result<(), Missing> {
        let (refused, lane) = (&mut self.refused, &self.lanes[new.lane]);
        let is_other_tree = &mut self.is_other_tree;
        let mut why = None;
        let opened = CountingPlace::open(&*self.perf, lane, events, new, &mut |set, error| {
            let kept = denied(&events.name, &what(new.on), &error);
            *is_other_tree |= error.raw_os_error() == Some(libc::EBADF);
            let goes_on = !is_want(&error);
            if goes_on {
                refused.entry((new.lane, set)).or_insert(kept);
            } else {
                why = Some(kept)
            }
            goes_on
        });
        self.places.extend(opened);
        why.map_or(Ok(()), Err)
    }

    fn open_boxes(&mut self, lane: usize) {
        let boxes = self.lanes[lane].boxes.clone();
        let mut number = 0;
        for events in &boxes {
            for cpu in &events.cpus {
                let index = u32::try_from(number).unwrap_or(u32::MAX);
                let of = match self.lanes[lane].scope {
                    Scope::Port => CountScope::Port(index),
                    Scope::Device | Scope::Group => CountScope::Device(index),
                    _ => CountScope::Socket(self.sockets.of(*cpu)),
                };
                self.name(of, events, *cpu);
                let new = NewPlace {
                    lane,
                    pool: Some(self.pool(lane, of, None)),
                    shift: number,
                    cpu: None,
                    on: PerfScope::Cpu(*cpu),
                };
                if let Err(why) = self.open_place(events, new) {
                    tracing::warn!(pmu = events.name, %why, "not counted");
                }
                number += 1;
            }
        }
    }

    /// Keeps what a port or a device is.
    fn name(&mut self, of: CountScope, events: &LaneBox, cpu: u32) {
        let socket = match of {
            CountScope::Port(_) => Some(self.sockets.of(cpu)),
            CountScope::Device(_) => socket_of_cxl_pmu(&self.roots, &events.name),
            _ => return,
        };
        let named = match socket {
            Some(socket) => format!("{}, socket {socket}", events.name),
            None => events.name.clone(),
        };
        self.pmus.entry(of).or_default().insert(named);
        self.attached.extend(socket.map(|socket| (of, socket)));
    }

    /// Sockets of ports and devices; none where the machine has one only.
    pub(super) fn attached(&self) -> BTreeMap<CountScope, u32> {
        if self.sockets.several().is_empty() {
            BTreeMap::new()
        } else {
            self.attached.clone()
        }
    }

    /// A CPU: for all tasks, or for each cgroup.
    fn open_cpu(&mut self, lane: usize, cpu: u32) -> Result<(), RecordError> {
        let Some(events) = self.lanes[lane].boxes.first().cloned() else {
            return Ok(());
        };
        if matches!(self.asked, Asked::Machine) {
            let of = CountScope::Socket(self.sockets.of(cpu));
            let new = NewPlace {
                lane,
                pool: Some(self.pool(lane, of, None)),
                shift: 0,
                cpu: Some(cpu),
                on: PerfScope::Cpu(cpu),
            };
            let opened = self.open_place(&events, new);
            return opened.map_err(|why| self.refused("CPUs", why));
        }
        if self.sums.iter().any(|sums| sums.lane == lane) {
            let opened = self.open_summed(lane, cpu, &events);
            return opened.map_err(|why| self.refused("CPUs", why));
        }
        let mut subjects = std::mem::take(&mut self.subjects);
        let mut done = Ok(());
        for (number, subject) in subjects.iter_mut().enumerate() {
            if subject.is_over() {
                continue;
            }
            if let Subject::Cgroup { dir, id, .. } = subject {
                let new = NewPlace {
                    lane,
                    pool: Some(self.pool(lane, CountScope::All, Some(number))),
                    shift: 0,
                    cpu: Some(cpu),
                    on: PerfScope::Cgroup(dir, cpu),
                };
                let opened = self.open_place(&events, new);
                done = done.and(opened.map_err(|why| self.refused(id.as_str(), why)));
            }
        }
        self.subjects = subjects;
        done
    }

    /// A CPU whose counts a program adds up by cgroup.
    fn open_summed(&mut self, lane: usize, cpu: u32, events: &LaneBox) -> Result<(), Missing> {
        if !self.summed.contains_key(&lane) {
            let subjects = 0..self.subjects.len();
            let pool = |subject| self.pool(lane, CountScope::All, Some(subject));
            let pools = subjects.map(pool).collect();
            self.summed.insert(lane, pools);
        }
        let new = NewPlace {
            lane,
            pool: None,
            shift: 0,
            cpu: Some(cpu),
            on: PerfScope::Cpu(cpu),
        };
        let known = self.places.len();
        self.open_place(events, new)?;
        for sums in self.sums.iter_mut().filter(|sums| sums.lane == lane) {
            for place in &self.places[known..] {
                sums.read_on(cpu, place)?;
            }
        }
        Ok(())
    }

    fn open_threads(&mut self, lane: usize) -> Result<(), RecordError> {
        let Some(events) = self.lanes[lane].boxes.first().cloned() else {
            return Ok(());
        };
        let on_exec = matches!(self.asked, Asked::Command(_));
        let pool = self.pool(lane, CountScope::All, Some(0));
        for tid in self.threads() {
            let new = NewPlace {
                lane,
                pool: Some(pool),
                shift: 0,
                cpu: None,
                on: PerfScope::Task { tid, on_exec },
            };
            let opened = self.open_place(&events, new);
            opened.map_err(|why| self.refused("the process", why))?;
        }
        Ok(())
    }

    /// Whether no set counts a role because the kernel refuses it.
    pub(super) fn is_refused(&self, lane: usize, role: Role) -> bool {
        let roles = self.lanes[lane]
            .roles
            .iter()
            .filter(|known| known.role == role);
        let mut parts = roles.flat_map(|role| role.parts.iter().map(move |part| (role, part)));
        let is_open = |set: usize| !self.refused.contains_key(&(lane, set));
        match parts.next() {
            Some((role, _)) if role.is_repeated => !role.parts.iter().any(|p| is_open(p.set)),
            Some((role, _)) => !role.parts.iter().all(|p| is_open(p.set)),
            None => false,
        }
    }

    fn refused(&self, what: &str, why: Missing) -> RecordError {
        RecordError::Refused {
            what: what.to_owned(),
            next_move: Box::new(if self.is_other_tree {
                NextMove {
                    act: Act::Deed("boot with cgroup_no_v1=perf_event".into()),
                    why: "perf counts by cgroups of version 1 here".into(),
                    needs: Precondition::Seen(
                        "the kernel took the events, and not the cgroup".into(),
                    ),
                }
            } else {
                see_events()
            }),
            why,
        }
    }

    /// Why the kernel refuses the sets of a lane.
    pub(super) fn refusal(&self, lane: usize) -> Missing {
        let mut sets = self.refused.iter().filter(|((of, _), _)| *of == lane);
        sets.next()
            .map_or(Missing::NotYetRead, |(_, why)| why.clone())
    }

    /// Lets the sets count whose turn it is.
    pub(super) fn turn(&mut self, turn: usize) {
        self.sums.iter_mut().for_each(CgroupSums::begin_turn);
        self.places.iter_mut().for_each(|place| place.turn(turn));
        for sums in &mut self.sums {
            let mut places = self.places.iter().filter(|place| place.lane == sums.lane);
            if let Some(set) = places.find_map(CountingPlace::counting) {
                sums.turn(set);
            }
        }
    }

    /// Adds to the pools what was counted since the last read. Gives the number of reads that failed.
    pub(super) fn read(&mut self) -> usize {
        let mut unread = 0;
        for place in &mut self.places {
            if let Some(pool) = place.pool.and_then(|pool| self.pools.get_mut(pool)) {
                let before = pool.window.enabled_ns();
                unread += place.read(&mut pool.window);
                let more = pool.window.enabled_ns().saturating_sub(before);
                if let Some(cpu) = place.cpu {
                    pool.ran_on(self.sockets.of(cpu), more);
                }
            }
        }
        for sums in &mut self.sums {
            let (pools, summed) = (&mut self.pools, self.summed.get(&sums.lane));
            unread += sums.read(&mut |of, [before, now]| {
                let pool = summed.and_then(|pools| pools.get(of.subject));
                if let Some(pool) = pool.and_then(|pool| pools.get_mut(*pool)) {
                    pool.window.add(of.set, before, now);
                    let more = now.enabled_ns.saturating_sub(before.enabled_ns);
                    pool.ran_on(of.socket, more);
                }
            });
        }
        unread
    }

    /// CPUs that went, and those that came. Events of a CPU that went are gone for good.
    pub(super) fn follow_cpus(&mut self, turn: usize) {
        let is_by_cpu = matches!(self.asked, Asked::Machine | Asked::Cgroups(_));
        let Some(there) = online(&self.roots).ok().filter(|_| is_by_cpu) else {
            return;
        };
        let there: BTreeSet<u32> = there.into_iter().collect();
        if there == self.cpus {
            return;
        }
        self.places
            .retain(|place| place.cpu.is_none_or(|cpu| there.contains(&cpu)));
        let came: Vec<u32> = there.difference(&self.cpus).copied().collect();
        for cpu in came {
            for lane in 0..self.lanes.len() {
                if is_of_core(self.lanes[lane].scope)
                    && let Err(why) = self.open_cpu(lane, cpu)
                {
                    tracing::warn!(cpu, %why, "its tasks are not counted");
                }
            }
        }
        self.turn(turn);
        self.sockets = CpuSockets::new(&self.roots);
        self.cpus = there;
    }
}

/// Whether the kernel lacks something for us, and says nothing of the events.
fn is_want(error: &io::Error) -> bool {
    let wants = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::EACCES,
        libc::EPERM,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| wants.contains(&code))
}

fn what(on: PerfScope<'_>) -> String {
    match on {
        PerfScope::Cpu(cpu) | PerfScope::Cgroup(_, cpu) => format!("CPU {cpu}"),
        PerfScope::Task { tid, .. } => format!("thread {tid}"),
    }
}
