// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From no limit to one and back: the threads of a cgroup come under weir's scheduler, and return.

use super::intf::{self, WorkloadCfg};
use super::loader::{Loaded, ScxError};
use super::rate::{only_device, rate_of};
use super::threads::moved::MovedThreads;
use super::threads::scan::Portion;
use super::{FOLLOWED_AT_ONCE, Scx};
use crate::backends::BackendContext;
use crate::backends::eligibility::{may_be_limited, outcome};
use crate::kernel::escape::escape;
use crate::leases::undo::UndoOutcome;
use crate::workloads::cgroups::tree::Leaf;
use crate::workloads::discovery::{View, Watched, WorkloadSource};
use rustix::io::Errno;
use weir_core::enforcement::byte_budget::WholeBudget;
use weir_core::seam::plan::{ActionKind, Limit, OutcomeKind};
use weir_core::{Action, DeviceId, Nanos, WorkloadId};

/// A cgroup of which weir schedules the tasks.
pub(super) struct LimitedWorkload {
    pub(super) slot: u32,
    /// The slot was free until now.
    is_new: bool,
    pub(super) threads: MovedThreads,
    pub(super) device: DeviceId,
    pub(super) rate: WorkloadCfg,
    /// It is limited no more, and its threads get their own policies back.
    pub(super) is_leaving: bool,
}

/// The cgroup and the device of a workload that this back end could limit. The overload cap goes by it too.
///
/// # Errors
/// It may not be limited, or not by this back end.
pub(super) fn limitable(watched: &Watched) -> Result<(&Leaf, DeviceId), OutcomeKind> {
    may_be_limited(watched, None)?;
    let WorkloadSource::Cgroup(leaf) = &watched.source else {
        return Err(OutcomeKind::Refused(
            "the scheduler limits cgroups: use --workloads cgroup, or --backend cpu-max".into(),
        ));
    };
    if watched.limit.is_some_and(|max| max.cpus().is_some()) {
        return Err(OutcomeKind::Refused(
            "it has a cpu.max of its own, which the kernel does not enforce on SCHED_EXT \
             tasks: use --backend cpu-max"
                .into(),
        ));
    }
    Ok((leaf, only_device(watched)?))
}

impl Scx {
    pub(super) fn change(
        &mut self,
        action: &Action,
        view: &View,
        context: &mut BackendContext,
    ) -> OutcomeKind {
        let id = &action.workload;
        match action.kind {
            ActionKind::Release => self.release(id, context),
            ActionKind::Limit(Limit::CpuTime { .. }) => OutcomeKind::Refused(
                "weir's scheduler limits device bytes, and this limit is CPU time".into(),
            ),
            ActionKind::Limit(Limit::DeviceBytes {
                bytes_per_sec,
                intensity_bytes_per_cpu_sec,
                ..
            }) => {
                let budget = WholeBudget::of(bytes_per_sec.get(), intensity_bytes_per_cpu_sec);
                let limited = self.limit(id, view.get(id), budget, context);
                limited.unwrap_or_else(|why| why)
            }
        }
    }

    fn limit(
        &mut self,
        id: &WorkloadId,
        watched: Option<&Watched>,
        budget: WholeBudget,
        context: &mut BackendContext,
    ) -> Result<OutcomeKind, OutcomeKind> {
        let watched = watched.ok_or(OutcomeKind::Vanished)?;
        may_be_limited(watched, None)?;
        if let Some(hold) = self.holds.get_mut(id) {
            // The budget that it has from now on is given to it with all others.
            if std::mem::take(&mut hold.is_leaving) {
                hold.threads.follow_anew();
                let loaded = self.loaded.as_ref().ok_or_else(gone)?;
                loaded.set_rate(hold.slot, hold.rate).map_err(failed)?;
            }
            return Ok(OutcomeKind::Applied);
        }
        let (leaf, device) = limitable(watched)?;
        self.load().map_err(OutcomeKind::Refused)?;
        if !self.rule.takes_all() {
            // It moves tasks there at once.
            self.start().map_err(OutcomeKind::Refused)?;
        }
        self.say_we_live().map_err(failed)?;
        let mut hold = self.acquire(id, watched, leaf, device, context)?;
        hold.rate = rate_of(budget, hold.rate.device);
        let begun = self.begin(&mut hold, context);
        self.holds.insert(id.clone(), hold);
        if let Err(why) = begun {
            self.release(id, context);
            return Err(why);
        }
        Ok(OutcomeKind::Applied)
    }

    /// Finds the cgroup, checks the threads in it, and gives it a slot. Nothing is changed yet: the first
    /// thread is moved when the lease is on disk ([`MovedThreads`]).
    fn acquire(
        &mut self,
        id: &WorkloadId,
        watched: &Watched,
        leaf: &Leaf,
        device: DeviceId,
        context: &mut BackendContext,
    ) -> Result<LimitedWorkload, OutcomeKind> {
        context.claim()?;
        let (dir, path) = context.target(&watched.source)?;
        let fresh = context.fresh_members(watched, &dir)?;
        may_be_limited(watched, Some(fresh))?;
        let (slot, is_new) = self.slot_for(id).ok_or_else(|| {
            let most = intf::MAX_SLOTS - 1;
            OutcomeKind::Refused(format!(
                "{most} workloads are limited already, no more fit: {id}"
            ))
        })?;
        Ok(LimitedWorkload {
            slot,
            is_new,
            threads: MovedThreads::new(dir, escape(&path), leaf.inode),
            device,
            rate: WorkloadCfg {
                active: intf::MODE_LIMITED,
                device: u64::from(device.0),
                ..WorkloadCfg::default()
            },
            is_leaving: false,
        })
    }

    /// From here on its threads are scheduled by weir.
    fn begin(
        &mut self,
        hold: &mut LimitedWorkload,
        context: &mut BackendContext,
    ) -> Result<(), OutcomeKind> {
        let loaded = self.loaded.as_ref().ok_or_else(gone)?;
        if std::mem::take(&mut hold.is_new) {
            loaded.clear_count(hold.slot).map_err(failed)?;
        }
        loaded.set_rate(hold.slot, hold.rate).map_err(failed)?;
        let inode = hold.threads.inode();
        let share = self.owners.set_slot(inode, hold.slot);
        loaded.own(inode, hold.slot, share).map_err(failed)?;
        self.beat.slots = u64::from(self.slots.end());
        self.beat.epoch += 1;
        // This is a heartbeat too: to check the threads may have taken long.
        self.beat.count += 1;
        loaded.set_beat(self.beat).map_err(failed)?;
        if self.rule.takes_all() {
            // All tasks are the scheduler's already.
            return Ok(());
        }
        hold.threads.begin(&mut context.leases)?;
        let begun = hold.follow(self.moving_until, context);
        begun.map(drop).map_err(|e| outcome(e, hold.threads.path()))
    }

    /// From now on it is not held back. Its threads get their own policies back as soon as there is time.
    pub(crate) fn release(&mut self, id: &WorkloadId, context: &mut BackendContext) -> OutcomeKind {
        let Some(hold) = self.holds.get_mut(id) else {
            return OutcomeKind::Unchanged;
        };
        hold.set_free(self.loaded.as_ref());
        if self.rule.takes_all() {
            self.forget(id, context);
            return OutcomeKind::Applied;
        }
        if !std::mem::replace(&mut hold.is_leaving, true) {
            hold.threads.begin_to_leave();
        }
        let kind = match hold.leave(self.moving_until) {
            Ok(done) if !done.is_whole || done.changed > 0 => return OutcomeKind::Applied,
            Ok(_) => OutcomeKind::Unchanged,
            Err(Errno::NOENT | Errno::NODEV) => OutcomeKind::Vanished,
            Err(e) => return OutcomeKind::Failed(format!("scheduling policy: {e}")),
        };
        self.forget(id, context);
        kind
    }

    /// Gives all threads of a workload back, however long it takes.
    pub(super) fn release_now(
        &mut self,
        id: &WorkloadId,
        context: &mut BackendContext,
    ) -> OutcomeKind {
        let Some(hold) = self.holds.get(id) else {
            return OutcomeKind::Unchanged;
        };
        hold.set_free(self.loaded.as_ref());
        let given = if self.rule.takes_all() {
            UndoOutcome::Restored
        } else {
            hold.threads.leave_now()
        };
        let kind = match given {
            UndoOutcome::Restored => OutcomeKind::Applied,
            UndoOutcome::Unchanged | UndoOutcome::LeftAlone(_) => OutcomeKind::Unchanged,
            UndoOutcome::Vanished => OutcomeKind::Vanished,
            UndoOutcome::Failed(why) => return OutcomeKind::Failed(why),
        };
        self.forget(id, context);
        kind
    }

    /// Nothing of it is the scheduler's any more.
    fn forget(&mut self, id: &WorkloadId, context: &mut BackendContext) {
        let Some(hold) = self.holds.remove(id) else {
            return;
        };
        self.tell(id, &hold);
        self.slots.give(hold.slot);
        self.beat.slots = u64::from(self.slots.end());
        self.beat.epoch += 1;
        let inode = hold.threads.inode();
        let share = self.owners.set_slot(inode, 0);
        if let Some(loaded) = &self.loaded {
            if let Err(why) = loaded.own(inode, 0, share) {
                tracing::warn!("{why}");
            }
            let _ = loaded.set_beat(self.beat);
        }
        if !self.rule.takes_all() {
            hold.threads.end(&mut context.leases);
        }
    }

    /// Logs what the scheduler did with a workload and its device, for a search for reasons.
    pub(super) fn tell(&self, id: &WorkloadId, hold: &LimitedWorkload) {
        let Some(loaded) = &self.loaded else { return };
        let (count, meter) = (loaded.count(hold.slot), loaded.meter(hold.device.0));
        tracing::debug!(workload = %id, ?count, ?meter, life = ?loaded.life(), "scheduled by weir so far");
    }

    /// Cgroups that are no workload any more, or gone.
    pub(super) fn drop_the_gone(&mut self, view: &View, context: &mut BackendContext) {
        let is_over = |id: &WorkloadId| view.get(id).is_none_or(|w| w.source.is_gone());
        let staying = self.holds.iter().filter(|(_, hold)| !hold.is_leaving);
        let over: Vec<_> = staying
            .map(|(id, _)| id)
            .filter(|id| is_over(id))
            .cloned()
            .collect();
        for id in over {
            tracing::info!(workload = %id, "no workload any more: its tasks get their own policies back");
            if let OutcomeKind::Failed(why) = self.release(&id, context) {
                tracing::warn!(workload = %id, why, "its tasks do not get their own policies back");
            }
        }
    }

    /// Finds threads that joined limited cgroups from outside, and goes on restoring the policies of threads
    /// that leave. Some cgroups at each tick.
    pub(super) fn follow(&mut self, context: &mut BackendContext) {
        if self.rule.takes_all() {
            return;
        }
        context.leases.compact();
        let from = self.followed.take();
        let mut last = None;
        let mut left = Vec::new();
        let rest = self
            .holds
            .iter_mut()
            .filter(|(id, _)| from.as_ref().is_none_or(|f| *id > f));
        for (id, hold) in rest.take(FOLLOWED_AT_ONCE) {
            let done = if hold.is_leaving {
                hold.leave(self.moving_until)
            } else {
                hold.follow(self.moving_until, context)
            };
            match done {
                Ok(done) if !done.is_whole || done.changed > 0 => {}
                Ok(_) | Err(Errno::NOENT | Errno::NODEV) => {
                    left.extend(hold.is_leaving.then(|| id.clone()));
                }
                Err(e) => {
                    tracing::warn!(workload = %id, "its threads cannot be followed: {e}");
                }
            }
            last = Some(id.clone());
        }
        let is_end = last.is_none() || last.as_ref() == self.holds.keys().next_back();
        self.followed = if is_end { None } else { last };
        for id in left {
            self.forget(&id, context);
        }
    }
}

impl LimitedWorkload {
    /// No task of it is held back any more.
    fn set_free(&self, loaded: Option<&Loaded>) {
        let free = WorkloadCfg {
            active: intf::MODE_FREE,
            ..self.rate
        };
        if let Some(loaded) = loaded
            && let Err(why) = loaded.set_rate(self.slot, free)
        {
            tracing::warn!("{why}");
        }
    }

    fn follow(&mut self, until: Nanos, context: &mut BackendContext) -> Result<Portion, Errno> {
        self.threads.follow(until, &mut context.leases)
    }

    fn leave(&mut self, until: Nanos) -> Result<Portion, Errno> {
        self.threads.leave(until)
    }
}

fn failed(e: ScxError) -> OutcomeKind {
    OutcomeKind::Failed(e.to_string())
}

fn gone() -> OutcomeKind {
    OutcomeKind::Failed("weir's scheduler is not in the kernel".into())
}
