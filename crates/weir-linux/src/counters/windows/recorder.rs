// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recorder: opens the sets of a plan, gives them their turns, and makes windows of what they count.

use super::error::RecordError;
use super::hot_line::refuse_hot;
use super::lanes::{MachinePlan, Uncounted, machine_plan};
use super::opened::OpenCounters;
use super::outcome::{NotCounted, grouped, nothing_counts};
use super::perf::{KernelPerf, Perf};
use super::places::CountingPlace;
use super::subjects::{Asked, Subject, subjects};
use super::sums::LaneSums;
use super::wanted::{family, is_of_core};
use crate::counters::pmu::Machine;
use crate::kernel::clock::{now, sleep_until};
use crate::options::Roots;
use std::collections::BTreeMap;
use std::io;
use std::mem::discriminant;
use weir_core::window::{Count, CountProvenance, CountScope, WorkloadCounts};
use weir_core::{Missing, Nanos, Role, Window};

/// How long a set counts before the next one does. Sets of events take turns, since a PMU has fewer counters
/// than there are events.
const TURN: Nanos = Nanos::from_millis(100);

/// Counts, window by window.
pub struct WindowRecorder {
    open: OpenCounters,
    family: Option<String>,
    absent: Vec<Uncounted>,
    unread: usize,
    turn: usize,
    turn_ends: Nanos,
    origin: Nanos,
    from: Nanos,
    is_first: bool,
}

impl WindowRecorder {
    /// Finds what can be counted, and opens it. Nothing counts before [`WindowRecorder::start`].
    ///
    /// # Errors
    /// Nothing can be counted here, what is asked for is not there, or the kernel refuses it.
    pub fn open(roots: &Roots, asked: Asked) -> Result<WindowRecorder, RecordError> {
        Self::open_with(roots, asked, Box::new(KernelPerf))
    }

    pub(super) fn open_with(
        roots: &Roots,
        asked: Asked,
        perf: Box<dyn Perf>,
    ) -> Result<WindowRecorder, RecordError> {
        let subjects = subjects(roots, &asked)?;
        let machine = Machine::probe(roots);
        let MachinePlan { lanes, absent } = machine_plan(roots, &machine, &*perf);
        if lanes.is_empty() {
            return Err(nothing_counts(roots, &machine, &absent));
        }
        let family = family(&machine).map(|table| table.family.clone());
        Ok(WindowRecorder {
            open: OpenCounters::open(roots, asked, subjects, lanes, perf)?,
            family,
            absent,
            unread: 0,
            turn: 0,
            turn_ends: Nanos(0),
            origin: Nanos(0),
            from: Nanos(0),
            is_first: true,
        })
    }

    /// The family of the CPU, as the tables name it.
    pub fn family(&self) -> Option<&str> {
        self.family.as_deref()
    }

    /// Entries of queues, by the roles of their occupancies.
    pub fn capacities(&self) -> BTreeMap<Role, u32> {
        let roles = self.open.lanes.iter().flat_map(|lane| &lane.roles);
        roles
            .filter_map(|role| Some((role.role, role.capacity?)))
            .collect()
    }

    /// Sockets that ports and devices are attached to, of a machine with several; without those of which that
    /// is not known.
    pub fn sockets(&self) -> BTreeMap<CountScope, u32> {
        self.open.attached()
    }

    /// What ports and devices are, where there are several of a kind: `port 1: uncore_cxlcm_0, socket 1`.
    pub fn places(&self) -> Vec<String> {
        let all = &self.open.pmus;
        let is_one_of_several = |place: &CountScope| {
            let same = all
                .keys()
                .filter(|of| discriminant(*of) == discriminant(place));
            same.count() > 1
        };
        let several = all.iter().filter(|(place, _)| is_one_of_several(place));
        let said = several.map(|(place, pmus)| {
            let pmus: Vec<&str> = pmus.iter().map(String::as_str).collect();
            let place = place.to_string().replace(':', " ");
            format!("{place}: {}", pmus.join("; "))
        });
        said.collect()
    }

    /// Why each cgroup has events of its own, which cost more: the program that adds up by cgroup is not
    /// there.
    pub fn events_apart(&self) -> Option<&Missing> {
        self.open.events_apart.as_ref()
    }

    /// Begins to count; lets the command go.
    ///
    /// # Errors
    /// The command was killed before it began.
    pub fn start(&mut self) -> io::Result<()> {
        let is_command = matches!(self.open.asked, Asked::Command(_));
        if is_command {
            let lanes = &self.open.lanes;
            let places = self.open.places.iter_mut();
            places
                .filter(|place| is_of_core(lanes[place.lane].scope))
                .for_each(CountingPlace::begins_with_program);
        }
        self.open.turn(0);
        self.origin = now();
        self.from = self.origin;
        self.turn_ends = Nanos(self.origin.0.saturating_add(TURN.0));
        if let Asked::Command(command) = &mut self.open.asked {
            command.release()?;
        }
        Ok(())
    }

    pub fn command(&mut self) -> Option<&mut super::HeldCommand> {
        match &mut self.open.asked {
            Asked::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Whether there is nothing left to count for: all cgroups were removed, or the process has ended.
    pub fn is_over(&mut self) -> bool {
        let has_any = !self.open.subjects.is_empty();
        // Each is looked at: one that is gone is not opened again.
        let over = self
            .open
            .subjects
            .iter_mut()
            .filter_map(|subject| subject.is_over().then_some(()));
        has_any && over.count() == self.open.subjects.len()
    }

    /// Whether there is something to count for: the first that is left is enough.
    fn has_any_left(&mut self) -> bool {
        let subjects = &mut self.open.subjects;
        subjects.is_empty() || subjects.iter_mut().any(|subject| !subject.is_over())
    }

    /// Workloads that have ended, or were removed.
    pub fn gone(&mut self) -> Vec<String> {
        let subjects = self.open.subjects.iter_mut();
        let gone =
            subjects.filter_map(|subject| subject.is_over().then(|| subject.id().to_string()));
        gone.collect()
    }

    /// Counts until the window is as long as `length`, `stop` says so, or there is nothing left to count for.
    pub fn window(&mut self, length: Nanos, stop: &dyn Fn() -> bool) -> Window {
        let until = Nanos(self.from.0.saturating_add(length.0));
        while now() < until && !stop() && self.has_any_left() {
            sleep_until(self.turn_ends.min(until));
            let at = now();
            if at >= self.turn_ends {
                let missed = (at.0 - self.turn_ends.0) / TURN.0;
                let next = (missed + 1).saturating_mul(TURN.0);
                self.turn_ends = Nanos(self.turn_ends.0.saturating_add(next));
                self.turn = self.turn.wrapping_add(1);
                self.open.turn(self.turn);
            }
        }
        // Whatever went meanwhile has no counts of its own any more.
        self.is_over();
        let window = self.made();
        self.open.follow_cpus(self.turn);
        window
    }

    /// Ends a window and begins the next. All that is open is read first, in one pass, and counts are made of
    /// it afterwards, so that the window ends at nearly one moment for all of them. What is not counted at
    /// all is told in the first window, once.
    fn made(&mut self) -> Window {
        let at = now();
        let since = |at: Nanos| Nanos(at.0.saturating_sub(self.origin.0));
        let mut window = Window {
            from: since(self.from),
            to: since(at),
            ..Window::default()
        };
        self.from = at;
        self.unread += self.open.read();
        let subjects = 0..self.open.subjects.len();
        let mut workloads: BTreeMap<usize, Vec<Count>> =
            subjects.map(|subject| (subject, Vec::new())).collect();
        for (number, pool) in self.open.pools.iter().enumerate() {
            let mut counts = self.counts_of(number);
            if let Some(subject) = pool.subject {
                if !counts.is_empty() {
                    counts.extend(pool.cpu_times());
                }
                workloads.entry(subject).or_default().extend(counts);
            } else {
                window.machine.extend(counts);
            }
        }
        for pool in &mut self.open.pools {
            pool.end_window(&self.open.lanes[pool.lane]);
        }
        if std::mem::take(&mut self.is_first) {
            self.add_absent(&mut window.machine, &mut workloads);
        }
        let workloads = workloads.into_iter().filter_map(|(number, counts)| {
            let id = self.open.subjects.get(number)?.id().clone();
            Some(WorkloadCounts { id, counts })
        });
        window.workloads = workloads
            .filter(|workload| !workload.counts.is_empty())
            .collect();
        window
    }

    /// Counts of a pool. Those of a cgroup that is gone and has counted nothing are left out.
    fn counts_of(&self, number: usize) -> Vec<Count> {
        let pool = &self.open.pools[number];
        let lane = &self.open.lanes[pool.lane];
        let gone = |subject: &Subject| matches!(subject, Subject::Cgroup { is_gone: true, .. });
        let subject = pool
            .subject
            .and_then(|subject| self.open.subjects.get(subject));
        if subject.is_some_and(gone) && pool.window.enabled_ns() == 0 {
            return Vec::new();
        }
        let mut counts = pool.window.counts(lane, pool.of);
        let places = self
            .open
            .places
            .iter()
            .filter(|place| place.pool == Some(number));
        let boxes: Vec<&LaneSums> = places.filter_map(|place| place.all.as_ref()).collect();
        refuse_hot(&mut counts, lane, &boxes);
        counts.retain(|count| !self.open.is_refused(pool.lane, count.role));
        counts
    }

    /// Puts a count without a value and with its reason into the first window.
    fn add_absent(&self, machine: &mut Vec<Count>, workloads: &mut BTreeMap<usize, Vec<Count>>) {
        for absent in self.uncounted() {
            let count = Count {
                role: absent.role,
                of: CountScope::All,
                value: Err(absent.why),
                enabled_ns: Nanos(0),
                running_ns: Nanos(0),
                provenance: CountProvenance::Documented,
            };
            if absent.is_of_core && !self.open.subjects.is_empty() {
                workloads
                    .values_mut()
                    .for_each(|counts| counts.push(count.clone()))
            } else {
                machine.push(count)
            }
        }
    }

    fn uncounted(&self) -> Vec<Uncounted> {
        let mut all = self.absent.clone();
        for (number, lane) in self.open.lanes.iter().enumerate() {
            let roles = lane.roles.iter().map(|role| role.role);
            for role in roles.filter(|role| self.open.is_refused(number, *role)) {
                all.push(Uncounted {
                    role,
                    is_of_core: is_of_core(lane.scope),
                    why: self.open.refusal(number),
                });
            }
        }
        all
    }

    /// What is not counted, by reason; the reason of most roles first.
    pub fn not_counted(&self) -> Vec<NotCounted> {
        grouped(
            self.uncounted()
                .into_iter()
                .map(|absent| (absent.role, absent.why)),
        )
    }

    /// What should have been counted and was not: no turn came, or no counter was free in its turns.
    pub fn never_ran(&self) -> Vec<NotCounted> {
        let mut none = Vec::new();
        for pool in self
            .open
            .pools
            .iter()
            .filter(|pool| pool.all.enabled_ns() > 0)
        {
            let lane = &self.open.lanes[pool.lane];
            for role in &lane.roles {
                let sets = role
                    .parts
                    .iter()
                    .filter_map(|part| pool.all.sets.get(part.set));
                let idle = sets.clone().filter(|set| set.running_ns == 0);
                let has_none = if role.is_repeated {
                    idle.count() == role.parts.len()
                } else {
                    idle.count() > 0
                };
                if !has_none || self.open.is_refused(pool.lane, role.role) {
                    continue;
                }
                let had_turn = sets
                    .clone()
                    .any(|set| set.enabled_ns > 0 && set.running_ns == 0);
                none.push((
                    role.role,
                    Missing::Lost(if had_turn {
                        "its counters were held by others: end other users of perf".into()
                    } else {
                        "the recording ended before its turn: record for longer".to_owned()
                    }),
                ));
            }
        }
        none.sort_by_key(|(role, _)| *role);
        none.dedup();
        grouped(none.into_iter())
    }

    /// Sets that could not be read, of all windows.
    pub fn unread(&self) -> usize {
        self.unread
    }
}
