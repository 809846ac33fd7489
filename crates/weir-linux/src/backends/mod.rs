// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How limits are put in force: by `cpu.max` of the cgroup, or by weir's own sched_ext scheduler. Each is a
//! [`Backend`], and none knows another.
//!
//! ```text
//! Plan ─► Backends ─┬─► cpu_max    ─┐
//!                   └─► sched_ext  ─┴─► BackendContext: leases, eligibility, target cgroup
//! ```

pub(crate) mod cpu_max;
pub(crate) mod eligibility;
pub(crate) mod facts;
mod process_home;
pub(crate) mod sched_ext;
pub(crate) mod target;

use crate::error::LinuxError;
use crate::kernel::files::Buffer;
use crate::leases::journal::JournalFiles;
use crate::leases::restore::ResetReport;
use crate::leases::run_dir::LOCK;
use crate::leases::undo::LeaseKind;
use crate::leases::{BookSpec, LeaseBook};
use crate::workloads::discovery::View;
use crate::workloads::exclude::Rules;
use cpu_max::CpuMaxBackend;
use cpu_max::lease::CpuMaxLease;
use cpu_max::weight_lease::WeightLease;
use rustix::fd::OwnedFd;
use sched_ext::Scx;
use sched_ext::threads::ScxThread;
use std::sync::Arc;
use weir_core::seam::observation::{GroupReading, Skipped};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::sched_stats::SchedStats;
use weir_core::{Description, Nanos, Plan, Reading, WorkloadId};

/// The leases of limits, under the right to limit on this host. A new kind is one entry in this list.
pub(crate) const LIMITS: BookSpec = BookSpec {
    doing: "limited",
    lock: LOCK,
    files: JournalFiles {
        journal: "journal.jsonl",
        new: "journal.new",
        damaged: "journal.damaged",
    },
    kinds: &[
        LeaseKind::of::<WeightLease>(),
        LeaseKind::of::<CpuMaxLease>(),
        LeaseKind::of::<ScxThread>(),
    ],
};

/// A way to put limits in force.
pub(crate) trait Backend {
    /// Carries out a plan: one outcome per action, in their order. Called at each tick, also without actions:
    /// it checks what is limited already.
    fn apply(
        &mut self,
        plan: &Plan,
        view: &View,
        machine: &Description,
        context: &mut BackendContext,
    ) -> Vec<OutcomeKind>;

    /// Puts everything back. What fails stays in the journal.
    fn release_all(&mut self, context: &mut BackendContext) -> Vec<(WorkloadId, OutcomeKind)>;

    /// Limits that are set and not enforced at the moment, with the reason.
    fn unenforced(&mut self) -> Option<Skipped>;

    /// Time that a workload was throttled, where its cgroup's `cpu.stat` does not know.
    fn throttled(&self, _: &WorkloadId) -> Option<Reading<Nanos>> {
        None
    }

    /// How often device counters are to be read for it between two ticks.
    fn counts_every(&self) -> Option<Nanos> {
        None
    }

    /// What the device counters showed.
    fn on_counts(&self, _: &[GroupReading]) {}

    /// How often another program has written a limit that weir holds, where it looks.
    fn limit_rewrites(&self) -> Option<u64> {
        None
    }

    /// What a scheduler of weir's own did so far.
    fn sched_stats(&self) -> Option<SchedStats> {
        None
    }
}

/// What all back ends need, lent to each for a call.
pub(crate) struct BackendContext {
    pub(crate) leases: LeaseBook,
    pub(crate) root: Arc<OwnedFd>,
    pub(crate) proc: Arc<OwnedFd>,
    pub(crate) rules: Rules,
    pub(crate) buffer: Buffer,
}

impl BackendContext {
    pub(crate) fn new([root, proc]: [Arc<OwnedFd>; 2], rules: Rules, leases: LeaseBook) -> Self {
        BackendContext {
            leases,
            root,
            proc,
            rules,
            buffer: Buffer::new(),
        }
    }

    /// Takes the right to limit, once, as a refusal where it cannot be had.
    pub(crate) fn claim(&mut self) -> Result<(), OutcomeKind> {
        let claimed = self.leases.claim();
        claimed
            .map(drop)
            .map_err(|e| OutcomeKind::Refused(e.to_string()))
    }
}

/// The back ends of this process. One is in use: weir's scheduler where it was chosen, else `cpu.max`.
pub(crate) struct Backends {
    pub(crate) cpu_max: CpuMaxBackend,
    pub(crate) sched_ext: Option<Scx>,
    pub(crate) context: BackendContext,
}

impl Backends {
    /// Takes the right to limit, and restores what a weir process that died has left changed.
    pub(crate) fn claim(&mut self) -> Result<ResetReport, LinuxError> {
        self.context.leases.claim()
    }

    pub(crate) fn active(&self) -> &dyn Backend {
        match &self.sched_ext {
            Some(scx) => scx,
            None => &self.cpu_max,
        }
    }

    fn active_mut(&mut self) -> (&mut dyn Backend, &mut BackendContext) {
        let context = &mut self.context;
        match &mut self.sched_ext {
            Some(scx) => (scx, context),
            None => (&mut self.cpu_max, context),
        }
    }

    pub(crate) fn apply(
        &mut self,
        plan: &Plan,
        view: &View,
        machine: &Description,
    ) -> Vec<OutcomeKind> {
        let (backend, context) = self.active_mut();
        backend.apply(plan, view, machine, context)
    }

    pub(crate) fn unenforced(&mut self) -> Option<Skipped> {
        self.active_mut().0.unenforced()
    }

    /// Restores everything, and releases the lock.
    pub(crate) fn release_all(&mut self) -> Vec<(WorkloadId, OutcomeKind)> {
        let (backend, context) = self.active_mut();
        let mut outcomes = backend.release_all(context);
        outcomes.extend(self.release_rest());
        self.context.leases.end_if_empty();
        outcomes
    }

    /// What is in the journal and no back end holds any more, as what an earlier weir process left and could
    /// not be restored, or a process that could not be brought back.
    fn release_rest(&mut self) -> Vec<(WorkloadId, OutcomeKind)> {
        match self.context.leases.undo_all() {
            Ok(report) => {
                let failed = report.failed.into_iter();
                let failed = failed.map(|left| (left.workload, OutcomeKind::Failed(left.why)));
                failed.collect()
            }
            Err(e) => {
                tracing::warn!("{e}");
                Vec::new()
            }
        }
    }

    /// weir is killed: descriptors close, and nothing is restored.
    #[cfg(test)]
    pub(crate) fn crash(&mut self) {
        self.cpu_max.holds.clear();
        self.context.leases.crash();
    }
}
