// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One read of all workloads: `cpu.stat` of each, or the CPU clock of each process, put together with
//! what discovery last found.
//!
//! **When a workload is read.** A read of `cpu.stat` makes the kernel add up the cgroup's figures over its
//! CPUs: it is the most expensive part of a tick, and most cgroups of a host have nothing on the device. A
//! workload is read at each tick if it has memory in a watched group, if its memory was not read yet, or if
//! weir limits it. A workload that has had nothing there for [`REST_AFTER`] ticks *rests*: it is read again
//! after [`REST`] or a little less. Meanwhile its last reading is reported, with the time of that reading. As
//! soon as discovery finds memory of it, it is read at each tick again. Its memory is reported from the
//! second of these ticks on, when its rate spans one interval as all others do. So a rate that counts never
//! spans a rest.
//!
//! A workload that has memory there and has not run for [`REST_AFTER`] reads rests likewise while all groups
//! it uses are quiet ([`crate::counters::idle_groups`]): there is no traffic that it could be the cause of.
//! The counters of groups are read before, so all users of a group are read at the very tick at which it is
//! not quiet. Those that are read are read together, where the kernel lets us
//! ([`crate::workloads::cpu_time::bpf`]).

pub(crate) mod bpf;
pub(crate) mod rate;

use crate::counters::idle_groups::IdleGroups;
use crate::kernel::clock::{self, now};
use crate::kernel::files::Buffer;
use crate::workloads::cgroups::inner::Inner;
use crate::workloads::cgroups::tree::{Leaf, Trouble};
use crate::workloads::discovery::{Process, View, Watched, WorkloadSource};
use crate::workloads::processes::HIDDEN;
use crate::workloads::processes::proc_pid::{Unread, cpu_of, read_stat};
use crate::workloads::processes::process_set::ProcessSet;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_core::seam::observation::{Skipped, WorkloadKind};
use weir_core::{Missing, Nanos, Reading, WorkloadId};

/// Reads without anything on the device before a workload rests.
const REST_AFTER: u32 = 20;
/// Longest time between two reads of a workload that rests. Half of it is the shortest: not all at once.
const REST: Nanos = Nanos::from_millis(1000);

/// CPU time, and time held back.
pub(crate) type Times = (Reading<Nanos>, Reading<Nanos>);

/// What a read needs, and what it finds besides.
pub(crate) struct CpuTimeReader<'a> {
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) proc: &'a OwnedFd,
    /// Whether process ids in `proc` are those of our own PID namespace, so that CPU clocks can be read by
    /// process id.
    pub(crate) own_proc: bool,
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) skipped: &'a mut Vec<Skipped>,
    pub(crate) vanished: bool,
}

impl CpuTimeReader<'_> {
    /// Reads one by itself, unless it was read with others; nothing if it is gone.
    pub(crate) fn read<H: ThrottledCgroup>(
        &mut self,
        request: &mut CpuTimeRequest<'_, H>,
    ) -> Option<Times> {
        let watched = request.watched;
        if let Some(times) = request.swept.take() {
            return Some(times);
        }
        match &watched.source {
            WorkloadSource::Cgroup(leaf) => self.leaf(leaf),
            WorkloadSource::Process(process) => self.process(&watched.id, process, request.hold),
            WorkloadSource::Set(set) => Some(self.process_set(set)),
            WorkloadSource::Inner(inner) => self.inner(inner),
        }
    }

    fn leaf(&mut self, leaf: &Leaf) -> Option<Times> {
        let read = leaf.cpu_stat(self.root, self.buffer);
        let at = now();
        let from_usec = |usec: u64| Nanos(usec.saturating_mul(1000));
        match read {
            Ok(stat) => {
                let throttled = throttled_times(stat.throttled_usec.map(from_usec), at);
                Some((Reading::new(at, from_usec(stat.usage_usec)), throttled))
            }
            Err(Trouble::Gone) => {
                if leaf.mark_gone() {
                    self.went_away(&leaf.id);
                }
                None
            }
            Err(trouble) => {
                let what = leaf.file("cpu.stat");
                let why = trouble.into_missing(&what);
                Some(self.missing(at, what, why))
            }
        }
    }

    /// CPU time of one process, by its clock or its `stat`.
    ///
    /// A process with another start is a later one with the same id, and counts as gone. How long it was held
    /// back is known only while weir limits its cgroup, because the kernel counts that for cgroups.
    fn process<H: ThrottledCgroup>(
        &mut self,
        id: &WorkloadId,
        process: &Process,
        hold: Option<&H>,
    ) -> Option<Times> {
        let cpu = if self.own_proc {
            clock::process_cpu(process.pid)
        } else {
            match read_stat(self.proc, process.pid, self.buffer) {
                Ok(stat) if stat.start_ticks == process.start_ticks => Some(cpu_of(&stat)),
                Err(Unread::Want(e)) => {
                    let why = Missing::Lost(format!("{id}: {e}"));
                    return Some(self.missing(now(), id.to_string(), why));
                }
                _ => None,
            }
        };
        let at = now();
        let Some(cpu) = cpu else {
            if !process.gone.swap(true, Ordering::Relaxed) {
                self.went_away(id);
            }
            return None;
        };
        let held = hold.and_then(|hold| hold.throttled_usec(self.root, self.buffer));
        let throttled = match held {
            Some(usec) => Reading::new(at, Nanos(usec.saturating_mul(1000))),
            None => {
                let why = "known only while weir limits the process's cgroup";
                Reading::missing(at, Missing::NotSupported(why.into()))
            }
        };
        Some((Reading::new(at, cpu), throttled))
    }

    fn process_set(&mut self, set: &ProcessSet) -> Times {
        let why = Missing::NotSupported("it has no limit".into());
        if set.has_hidden {
            let hidden = Missing::NotPermitted(HIDDEN.into());
            return (
                Reading::missing(now(), hidden),
                Reading::missing(now(), why),
            );
        }
        let cpu = set.cpu(|(pid, start_ticks)| {
            if self.own_proc {
                clock::process_cpu(pid)
            } else {
                let stat = read_stat(self.proc, pid, self.buffer).ok();
                let stat = stat.filter(|stat| stat.start_ticks == start_ticks);
                stat.map(|stat| cpu_of(&stat))
            }
        });
        let at = now();
        (Reading::new(at, cpu), Reading::missing(at, why))
    }

    fn inner(&mut self, inner: &Inner) -> Option<Times> {
        let cpu = inner.cpu(self.root, self.buffer);
        let at = now();
        match cpu {
            Ok(cpu) => {
                let why = Missing::NotSupported("known of it with all below".into());
                Some((Reading::new(at, cpu), Reading::missing(at, why)))
            }
            Err(Trouble::Gone) => None,
            Err(trouble) => {
                let what = inner.file();
                let why = trouble.into_missing(&what);
                Some(self.missing(at, what, why))
            }
        }
    }

    fn missing(&mut self, at: Nanos, what: String, why: Missing) -> Times {
        let times = (
            Reading::missing(at, why.clone()),
            Reading::missing(at, why.clone()),
        );
        self.skipped.push(Skipped { what, why });
        times
    }

    fn went_away(&mut self, id: &WorkloadId) {
        self.vanished = true;
        self.skipped.push(Skipped {
            what: id.to_string(),
            why: Missing::Lost("went away".into()),
        });
    }
}

/// Time held back, where the kernel keeps it.
pub(crate) fn throttled_times(throttled: Option<Nanos>, at: Nanos) -> Reading<Nanos> {
    match throttled {
        Some(time) => Reading::new(at, time),
        None => Reading::missing(at, Missing::NotSupported("no cpu controller here".into())),
    }
}

/// A cgroup that a back end limits for a process.
pub(crate) trait ThrottledCgroup {
    /// The time for which it was throttled, in microseconds.
    fn throttled_usec(&self, root: BorrowedFd<'_>, buffer: &mut Buffer) -> Option<u64>;
}

/// A workload of the view at this tick, with what a back end holds of it.
pub(crate) struct CpuTimeRequest<'a, H> {
    /// Its place in the view.
    pub(crate) place: usize,
    pub(crate) watched: &'a Watched,
    pub(crate) hold: Option<&'a H>,
    pub(crate) repose: Repose,
    /// It rests: what was read of it before is reported.
    pub(crate) is_resting: bool,
    /// Read of it now, with others.
    pub(crate) swept: Option<Times>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Repose {
    /// It may not.
    #[default]
    Awake,
    /// It has nothing on the device, and no limit of ours.
    Idle,
    /// It has, and no limit of ours, and what it has there is quiet: while it does not run.
    Quiet,
}

/// All of a view that are there still, in its order.
pub(crate) fn requests<'a, H>(
    view: &'a View,
    holds: &'a BTreeMap<WorkloadId, H>,
    idle_skips: &mut IdleSkips,
    idle: &IdleGroups,
) -> Vec<CpuTimeRequest<'a, H>> {
    let mut requests = Vec::with_capacity(view.workloads.len());
    let mut holds = holds.iter().peekable();
    let at = now();
    for (place, watched) in view.workloads.iter().enumerate() {
        // Both are ordered by id. Mostly they are the same, and then that is one comparison.
        while holds
            .next_if(|(id, _)| **id != watched.id && **id < watched.id)
            .is_some()
        {}
        let hold = holds.next_if(|(id, _)| **id == watched.id).map(|(_, h)| h);
        if watched.source.is_gone() {
            continue;
        }
        let repose = match hold {
            Some(_) => Repose::Awake,
            None if watched.uses.is_empty() => Repose::Idle,
            None if idle.hold_all(&watched.uses) => Repose::Quiet,
            None => Repose::Awake,
        };
        requests.push(CpuTimeRequest {
            place,
            watched,
            hold,
            repose,
            is_resting: idle_skips.may_rest(place, repose, at),
            swept: None,
        });
    }
    requests
}

pub(crate) fn kind(watched: &Watched) -> WorkloadKind {
    match watched.source {
        WorkloadSource::Cgroup(_) | WorkloadSource::Set(_) | WorkloadSource::Inner(_) => {
            WorkloadKind::Cgroup
        }
        WorkloadSource::Process(_) => WorkloadKind::Process,
    }
}

/// Which workloads rest, and what was last read of them: one for each workload of a view, in its order.
#[derive(Default)]
pub(crate) struct IdleSkips {
    of: Vec<Rest>,
}

#[derive(Default)]
struct Rest {
    /// Its state at the last read.
    repose: Repose,
    /// Reads in a row that found nothing on the device, or no CPU time used.
    idle_reads: u32,
    /// CPU time at the last read, of a workload that may rest while it does not run.
    cpu: Option<Nanos>,
    /// Boxed: a workload that is awake has none, and the list is scanned at each tick.
    last: Option<Box<Times>>,
    again_at: Nanos,
    /// It was not read at the last tick, and had nothing on the device.
    is_asleep: bool,
}

impl Rest {
    fn wake(&mut self) {
        self.idle_reads = 0;
        self.last = None;
        self.cpu = None;
    }
}

impl IdleSkips {
    pub(crate) fn of(view: &View) -> Self {
        let mut rests = IdleSkips::default();
        rests.follow(&View::default(), view);
        rests
    }

    pub(crate) fn follow(&mut self, old: &View, new: &View) {
        let mut before = old.workloads.iter().zip(std::mem::take(&mut self.of));
        let mut next = before.next();
        for watched in &new.workloads {
            while next.as_ref().is_some_and(|(old, _)| old.id < watched.id) {
                next = before.next();
            }
            let known = next.take_if(|(old, _)| is_same(&old.source, &watched.source));
            let found = known.is_some();
            self.of
                .push(known.map(|(_, rest)| rest).unwrap_or_default());
            if found {
                next = before.next();
            }
        }
    }

    /// Whether the workload at this place of the view rests at this tick.
    pub(crate) fn may_rest(&mut self, place: usize, repose: Repose, at: Nanos) -> bool {
        let Some(rest) = self.of.get_mut(place) else {
            return false;
        };
        if rest.repose != repose {
            rest.repose = repose;
            rest.wake();
        }
        if rest.idle_reads < REST_AFTER || at >= rest.again_at {
            return false;
        }
        rest.is_asleep = repose == Repose::Idle;
        rest.last.is_some()
    }

    /// What was last read of the workload at this place of the view, while it rests.
    pub(crate) fn last_times(&self, place: usize) -> Option<Times> {
        self.of.get(place)?.last.as_deref().cloned()
    }

    /// Takes in what was read. Returns whether its memory may be reported: not at the first read after a
    /// rest in which it had none.
    pub(crate) fn note(&mut self, place: usize, source: &WorkloadSource, times: &Times) -> bool {
        let Some(rest) = self.of.get_mut(place) else {
            return true;
        };
        let was_asleep = std::mem::take(&mut rest.is_asleep);
        if rest.repose == Repose::Awake {
            return !was_asleep;
        }
        // What cannot be read is tried at each tick.
        let Ok(cpu) = times.0.value else {
            rest.wake();
            return !was_asleep;
        };
        let has_run = rest.cpu.replace(cpu) != Some(cpu);
        rest.idle_reads = match rest.repose {
            Repose::Quiet if has_run => 0,
            _ => rest.idle_reads.saturating_add(1),
        };
        if rest.idle_reads >= REST_AFTER {
            let half = REST.0 / 2;
            let spread = half / 16 * (number(source) % 16);
            rest.again_at = Nanos(times.0.at.0.saturating_add(half + spread));
            rest.last = Some(Box::new(times.clone()));
        }
        rest.repose == Repose::Idle || !was_asleep
    }
}

fn number(source: &WorkloadSource) -> u64 {
    match source {
        WorkloadSource::Cgroup(leaf) => leaf.inode,
        WorkloadSource::Process(process) => process.pid.into(),
        WorkloadSource::Set(set) => set.number,
        WorkloadSource::Inner(inner) => inner.inode,
    }
}

fn is_same(old: &WorkloadSource, new: &WorkloadSource) -> bool {
    match (old, new) {
        (WorkloadSource::Cgroup(old), WorkloadSource::Cgroup(new)) => {
            Arc::ptr_eq(old, new) || (old.inode == new.inode && old.path == new.path)
        }
        (WorkloadSource::Process(old), WorkloadSource::Process(new)) => Arc::ptr_eq(old, new),
        (WorkloadSource::Set(old), WorkloadSource::Set(new)) => Arc::ptr_eq(old, new),
        (WorkloadSource::Inner(old), WorkloadSource::Inner(new)) => {
            old.inode == new.inode && old.id == new.id
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
