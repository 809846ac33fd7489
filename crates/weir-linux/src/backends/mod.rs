// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How limits are put in force: by `cpu.max` of the cgroup, or by weir's own sched_ext scheduler.

pub(crate) mod cpu_max;
pub(crate) mod sched_ext;

use crate::leases::BookSpec;
use crate::leases::journal::JournalFiles;
use crate::leases::run_dir::LOCK;
use crate::leases::undo::LeaseKind;
use cpu_max::lease::CpuMaxLease;
use cpu_max::move_process::TakenProcess;
use cpu_max::weight_lease::WeightLease;
use sched_ext::threads::ScxThread;

/// The leases of limits, under the right to limit on this host. A new kind is one entry in this list.
pub(crate) const LIMITS: BookSpec = BookSpec {
    doing: "limited",
    lock: LOCK,
    files: JournalFiles {
        journal: "journal.jsonl",
        new: "journal.new",
        damaged: "journal.damaged",
    },
    // A process goes back after the limit of the cgroup that it was in.
    kinds: &[
        LeaseKind::of::<WeightLease>(),
        LeaseKind::of::<CpuMaxLease>(),
        LeaseKind::of::<TakenProcess>(),
        LeaseKind::of::<ScxThread>(),
    ],
    earlier: None,
};
