// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end `cpu-max`: limits by `cpu.max` of the leaf a workload is in.
//!
//! Facts that shape it (kernel, sched-bwc.rst; measured on 6.18 at HZ=250):
//! - enforcement has the grain of a scheduler tick; the average is honoured by carrying debt over;
//! - **every write refills the whole quota**: the same 10 ms/100 ms written each 50 ms yields 28 % instead of
//!   10 %. A value that is there already is not written; `refill_on_write_ratio` reports the refill to
//!   the controller;
//! - a rewrite just after the regular refill gives almost nothing away, so rewrites wait for it
//!   ([`period_phase`]);
//! - quota ≥ 1 ms, period ≤ 1 s ([`mod@quota`]); a quota below `cpu.max.burst` is refused, so the burst is 0
//!   meanwhile.
//!
//! **Theirs and ours.** The value before is *theirs*; in force is the tighter of the two. A value that weir
//! did not write is the new theirs. Ours is set again where it is tighter, at most once a second for each
//! cgroup.
//!
//! ```text
//!            limit: lock, check, journal       others write
//!   (free) ─────────────────────────► held ◄──────────────► contested
//!      ▲                               │                        │
//!      └──────── restore, journal ─────┴── release ─────────────┘
//! ```

pub(crate) mod lease;
pub(crate) mod limited;
pub(crate) mod period_phase;
pub(crate) mod quota;
pub(crate) mod released;
pub(crate) mod rewrite_timing;
mod turns;
pub(crate) mod weight;
pub(crate) mod weight_lease;
pub(crate) mod write_order;

use crate::backends::eligibility::{may_be_limited, outcome};
use crate::backends::{Backend, BackendContext};
use crate::inventory::sched_ext_state::SchedExt;
use crate::kernel::clock::{now, sleep_until};
use crate::kernel::escape::escape;
use crate::kernel::fd_budget::{Budget, Rank};
use crate::kernel::files::{inode, open_to_change};
use crate::kernel::parse::cgroup::CpuMax;
use crate::leases::undo::{LastTwo, UndoOutcome};
use crate::options::Options;
use crate::workloads::cgroups::handed_down::no_cpu_max;
use crate::workloads::discovery::{View, Watched};
use lease::{CpuMaxLease, CpuMaxRecord, read_burst};
use limited::{LimitedCgroup, parse_max};
use period_phase::{Search, patience_us};
use quota::{period_us, quota, tighter};
use released::ReleasedLimits;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;
use turns::Turns;
use weight::{HeldWeight, Scale};
use weir_core::seam::observation::Skipped;
use weir_core::seam::plan::{ActionKind, Limit, OutcomeKind};
use weir_core::{CpuShare, Description, Missing, Nanos, Plan, WorkloadId};
use write_order::in_order;

/// Shortest time between two writes of weir over another program's value, for each cgroup. Two programs that
/// each write over the other would otherwise do so at each tick, and each write refills the quota.
const CONTEST_EVERY: Nanos = Nanos::from_millis(1000);

pub(crate) struct CpuMaxBackend {
    pub(crate) period_us: u64,
    /// Longest wait of one tick for the refill of a limit.
    patience: Nanos,
    read_only: bool,
    budget: Arc<Budget>,
    pub(crate) holds: BTreeMap<WorkloadId, LimitedCgroup>,
    pub(crate) released: ReleasedLimits,
    turns: Turns,
    /// How often another program wrote `cpu.max` of a cgroup that weir limits.
    rewrites: u64,
    /// The round of the view that holds were compared with.
    compared: u64,
    /// When the refills of unknown phase are searched again.
    pub(crate) search: Search,
    pub(crate) sched_ext: SchedExt,
}

impl CpuMaxBackend {
    pub(crate) fn new(options: &Options, budget: Arc<Budget>) -> Self {
        CpuMaxBackend {
            period_us: period_us(options.period),
            patience: Nanos(patience_us(options.interval).saturating_mul(1000)),
            read_only: options.read_only,
            budget,
            holds: BTreeMap::new(),
            released: ReleasedLimits::default(),
            turns: Turns::default(),
            rewrites: 0,
            compared: 0,
            search: Search::default(),
            sched_ext: SchedExt::new(&options.roots).trusting(options.trust_cpu_max),
        }
    }

    /// Whether this limit is looser than the limit of weir that is in force.
    pub(crate) fn would_raise(&self, id: &WorkloadId, cpus: CpuShare) -> bool {
        let ours = quota(cpus, self.period_us);
        self.holds
            .get(id)
            .is_some_and(|hold| hold.ours.is_tighter_than(&ours))
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.holds.is_empty()
    }

    pub(crate) fn limit(
        &mut self,
        id: &WorkloadId,
        watched: Option<&Watched>,
        cpus: CpuShare,
        context: &mut BackendContext,
    ) -> OutcomeKind {
        let outcome = self.try_limit(id, watched, cpus, context);
        outcome.unwrap_or_else(|why| why)
    }

    /// Limits a workload, or says why not.
    ///
    /// A cgroup that is held already is checked again before each write: it may have got processes, cgroups
    /// below or a real-time task that must not be limited since. Where such a check says no the limit goes at
    /// once; where it only could not be made, for want of memory or descriptors, the limit stays.
    fn try_limit(
        &mut self,
        id: &WorkloadId,
        watched: Option<&Watched>,
        cpus: CpuShare,
        context: &mut BackendContext,
    ) -> Result<OutcomeKind, OutcomeKind> {
        let watched = watched.ok_or(OutcomeKind::Vanished)?;
        may_be_limited(watched, None)?;
        if self.read_only {
            return Err(OutcomeKind::Refused("opened read-only".into()));
        }
        if let Some(why) = self.sched_ext.refusal() {
            return Err(OutcomeKind::Refused(why));
        }
        let ours = quota(cpus, self.period_us);
        if let Some(hold) = self.holds.get(id) {
            if let Err(why) = context.still_limits(watched, &hold.lease.path) {
                if !matches!(why, OutcomeKind::Failed(_)) {
                    self.release(id, context);
                }
                return Err(why);
            }
        } else {
            match self.acquire(watched, ours, context)? {
                Some(hold) => {
                    self.holds.insert(id.clone(), hold);
                }
                None => return Ok(OutcomeKind::Unchanged),
            }
        }
        let outcome = self.set(id, ours, context);
        if matches!(outcome, Err(OutcomeKind::Vanished)) {
            self.forget(id, context);
        }
        outcome
    }

    /// Takes hold of a cgroup: nothing if what others set is tight enough.
    ///
    /// The lease is on disk before anything is changed, and all that it has to restore is read before it is
    /// noted. Whether the workload may be limited is decided by its processes of this moment, and not by
    /// those of the last round of discovery.
    fn acquire(
        &mut self,
        watched: &Watched,
        ours: CpuMax,
        context: &mut BackendContext,
    ) -> Result<Option<LimitedCgroup>, OutcomeKind> {
        context.claim()?;
        let (dir, path) = context.target(&watched.source)?;
        let fresh = context.fresh_members(watched, &dir)?;
        may_be_limited(watched, Some(fresh))?;
        let name = escape(&path);
        let max = open_to_change(&dir, "cpu.max").map_err(|e| match e {
            Errno::NOENT => {
                let (root, buffer) = (context.root.as_fd(), &mut context.buffer);
                OutcomeKind::Refused(no_cpu_max(root, &path, buffer).to_string())
            }
            e => outcome(e, &name),
        })?;
        let theirs = parse_max(context.buffer.read(&max), &name)?;
        if tighter(theirs, ours) == theirs {
            return Ok(None);
        }
        let burst_us = read_burst(dir.as_fd(), &mut context.buffer);
        let burst_us = burst_us.map_err(|e| outcome(e, &name))?;
        let inode = inode(&dir).map_err(|e| outcome(e, &name))?.st_ino;
        let lease = CpuMaxLease {
            path,
            inode,
            theirs,
            burst_us,
            ours: LastTwo::default(),
        };
        context.leases.note(&lease.hold())?;
        Ok(Some(LimitedCgroup {
            dir: self.budget.keep(dir, Rank::Seldom),
            max: self.budget.keep(max, Rank::EachTick),
            ours,
            written: theirs,
            contest_at: Nanos(0),
            weight: HeldWeight::default(),
            phase: None,
            trouble: None,
            lease,
        }))
    }

    /// Puts the tighter of theirs and `ours` in force.
    pub(crate) fn set(
        &mut self,
        id: &WorkloadId,
        ours: CpuMax,
        context: &mut BackendContext,
    ) -> Result<OutcomeKind, OutcomeKind> {
        self.see_theirs(id, context)?;
        let hold = self.holds.get_mut(id).ok_or(OutcomeKind::Vanished)?;
        hold.ours = ours;
        let want = tighter(hold.lease.theirs, ours);
        if want == hold.written {
            return Ok(OutcomeKind::Unchanged);
        }
        let (root, leases) = (context.root.as_fd(), &mut context.leases);
        hold.put_in_force(root, want, leases, &mut context.buffer)?;
        Ok(OutcomeKind::Applied)
    }

    fn see_theirs(
        &mut self,
        id: &WorkloadId,
        context: &mut BackendContext,
    ) -> Result<(), OutcomeKind> {
        let hold = self.holds.get_mut(id).ok_or(OutcomeKind::Vanished)?;
        let (root, leases) = (context.root.as_fd(), &mut context.leases);
        let is_rewritten = hold.see_theirs(root, leases, &mut context.buffer, id.as_str())?;
        self.rewrites += u64::from(is_rewritten);
        Ok(())
    }

    /// Checks what is held. Cgroups that are gone are dropped. Cgroups that are no workload any more (a leaf
    /// that got children, a process that ended in a cgroup that stays) are released. Where another program
    /// wrote, the limit of weir is set again if it is tighter. Called at each tick; the part that reads files
    /// takes some cgroups at each tick.
    pub(crate) fn tend(&mut self, view: &View, context: &mut BackendContext) {
        let at = now();
        if view.round != self.compared {
            self.compared = view.round;
            for id in turns::over(&self.holds, view) {
                tracing::info!(workload = %id, "no workload any more: its earlier limit is restored");
                // What fails is tried again at the next tick.
                if matches!(self.release(&id, context), OutcomeKind::Failed(_)) {
                    self.compared = 0;
                }
            }
        }
        for id in self.turns.next(&self.holds) {
            if let Err(why) = self.check_members(&id, view, context) {
                tracing::info!(workload = %id, ?why, "its limit ends, and its earlier limit is restored");
                self.release(&id, context);
                continue;
            }
            let tended = match self.see_theirs(&id, context) {
                Ok(()) => self.contest(&id, at, context),
                Err(why) => Err(why),
            };
            if tended == Err(OutcomeKind::Vanished) {
                self.forget(&id, context);
                continue;
            }
            self.on_weight(&id, context, |scale, hold| scale.check(hold));
            let Some(hold) = self.holds.get_mut(&id) else {
                continue;
            };
            let before = std::mem::replace(&mut hold.trouble, tended.err());
            if let Some(why) = hold.trouble.as_ref().filter(|_| before.is_none()) {
                tracing::warn!(cgroup = %id, ?why, "cannot check a limit");
            }
        }
        context.leases.compact();
    }

    /// Whether a limited process is still the one that its cgroup limits. What cannot be read is no reason to
    /// end a limit.
    fn check_members(
        &self,
        id: &WorkloadId,
        view: &View,
        context: &mut BackendContext,
    ) -> Result<(), OutcomeKind> {
        let (Some(hold), Some(watched)) = (self.holds.get(id), view.get(id)) else {
            return Ok(());
        };
        match context.still_limits(watched, &hold.lease.path) {
            Err(why @ OutcomeKind::Refused(_)) => Err(why),
            _ => Ok(()),
        }
    }

    fn contest(
        &mut self,
        id: &WorkloadId,
        at: Nanos,
        context: &mut BackendContext,
    ) -> Result<(), OutcomeKind> {
        let Some(hold) = self.holds.get_mut(id) else {
            return Ok(());
        };
        let ours_is_missing = tighter(hold.lease.theirs, hold.ours) != hold.written;
        if !ours_is_missing || at < hold.contest_at {
            return Ok(());
        }
        hold.contest_at = Nanos(at.0.saturating_add(CONTEST_EVERY.0));
        let ours = hold.ours;
        self.set(id, ours, context).map(|_| ())
    }

    /// Gives a workload that weir limits this part of its own weight.
    pub(crate) fn weigh(&mut self, id: &WorkloadId, ratio: f64, context: &mut BackendContext) {
        self.on_weight(id, context, |scale, hold| scale.weigh(hold, ratio));
    }

    fn on_weight<T>(
        &mut self,
        id: &WorkloadId,
        context: &mut BackendContext,
        change: impl FnOnce(&mut Scale<'_>, &mut LimitedCgroup) -> T,
    ) -> Option<T> {
        let hold = self.holds.get_mut(id)?;
        let mut scale = Scale {
            root: &context.root,
            leases: &mut context.leases,
            buffer: &mut context.buffer,
        };
        Some(change(&mut scale, hold))
    }

    pub(crate) fn release(&mut self, id: &WorkloadId, context: &mut BackendContext) -> OutcomeKind {
        let weight = self.on_weight(id, context, |scale, hold| scale.put_back(hold));
        match weight {
            Some(UndoOutcome::Failed(why)) => return OutcomeKind::Failed(why),
            Some(UndoOutcome::LeftAlone(why)) => {
                tracing::info!(cgroup = %id, why, "weight left alone")
            }
            _ => {}
        }
        let Some(hold) = self.holds.get(id) else {
            return OutcomeKind::Unchanged;
        };
        let (lease, buffer) = (&hold.lease, &mut context.buffer);
        let given = hold.with_dir(context.root.as_fd(), |dir| {
            Ok(lease.put_back_in(dir, buffer))
        });
        let given = given.unwrap_or_else(|e| match e {
            Errno::NODEV => UndoOutcome::Vanished,
            e => UndoOutcome::Failed(e.to_string()),
        });
        let kind = match given {
            UndoOutcome::Restored => OutcomeKind::Applied,
            UndoOutcome::Unchanged => OutcomeKind::Unchanged,
            UndoOutcome::Vanished => OutcomeKind::Vanished,
            UndoOutcome::LeftAlone(why) => {
                tracing::info!(cgroup = %id, why, "limit left alone");
                OutcomeKind::Unchanged
            }
            // Still held and still in the journal: tried again, at the latest by `weir reset`.
            UndoOutcome::Failed(why) => return OutcomeKind::Failed(why),
        };
        self.forget(id, context);
        kind
    }

    /// Drops a hold when its limit is restored or its cgroup is gone.
    fn forget(&mut self, id: &WorkloadId, context: &mut BackendContext) {
        self.on_weight(id, context, |scale, hold| {
            scale.end(hold, HeldWeight::default())
        });
        let Some(hold) = self.holds.remove(id) else {
            return;
        };
        let inode = hold.lease.inode;
        let _ = context.leases.note(&CpuMaxRecord::Done { inode });
    }
}

impl Backend for CpuMaxBackend {
    fn limit_rewrites(&self) -> Option<u64> {
        Some(self.rewrites)
    }

    /// Carries a plan out.
    ///
    /// What lowers a limit goes first, because it takes load off the device (`in_order`). A rewrite waits for
    /// the regular refill of its cgroup where that is near: written then it gives away nearly nothing. Phases
    /// of new limits are searched after all writes, since the loop waits for a period meanwhile. Weights come
    /// last and by themselves: one that cannot be changed must not refuse a limit (ADR 9).
    fn apply(
        &mut self,
        plan: &Plan,
        view: &View,
        _: &Description,
        context: &mut BackendContext,
    ) -> Vec<OutcomeKind> {
        self.tend(view, context);
        let mut outcomes = vec![OutcomeKind::Unchanged; plan.actions.len()];
        let begun = now();
        let mut new = Vec::new();
        for (wait, _, i) in in_order(self, plan, begun) {
            let action = &plan.actions[i];
            let id = &action.workload;
            outcomes[i] = match action.kind {
                ActionKind::Limit(Limit::DeviceBytes { .. }) => OutcomeKind::Refused(
                    "cpu.max limits CPU time, and this limit is in device bytes".into(),
                ),
                ActionKind::Limit(Limit::CpuTime { cpus }) => {
                    if wait > Nanos(0) && wait <= self.patience {
                        sleep_until(Nanos(begun.0.saturating_add(wait.0)));
                    }
                    let outcome = self.limit(id, view.get(id), cpus, context);
                    if outcome == OutcomeKind::Applied && self.needs_phase(id) {
                        new.push(id.clone());
                    }
                    outcome
                }
                ActionKind::Release => {
                    if let Some(hold) = self.holds.get(id) {
                        self.released.remember(id, hold, view.round);
                    }
                    self.release(id, context)
                }
            };
        }
        if self.period_us.saturating_mul(1000) <= self.patience.0 {
            self.spread(&new, context);
        }
        for change in &plan.weights {
            self.weigh(&change.workload, change.ratio, context);
        }
        outcomes
    }

    fn release_all(&mut self, context: &mut BackendContext) -> Vec<(WorkloadId, OutcomeKind)> {
        let ids: Vec<_> = self.holds.keys().cloned().collect();
        let release = |id: WorkloadId| {
            let outcome = self.release(&id, context);
            (id, outcome)
        };
        ids.into_iter().map(release).collect()
    }

    fn unenforced(&mut self) -> Option<Skipped> {
        if !self.is_holding() {
            return None;
        }
        let why = self.sched_ext.refusal()?;
        Some(Skipped {
            what: "cpu.max".into(),
            why: Missing::NotSupported(why),
        })
    }
}

#[cfg(test)]
mod tests;
