// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What discovery has found, as one value: a tick takes the newest and never waits for a walk.

use super::cgroups::walk::Delegated;
use super::discovery::Watched;
use super::processes::node_balance::OwnedMemory;
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::for_each_dir;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use weir_core::owner::PodNames;
use weir_core::seam::observation::Skipped;
use weir_core::seam::processes::Processes;
use weir_core::{Missing, WorkloadId};

const PROCESSES_MAX: usize = 100_000;

/// What a tick needs to know of the slow things.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) round: u64,
    /// The list of groups with which it was made ([`crate::workloads::discovery_thread::Pace::watch`]).
    pub(crate) watched: u64,
    /// The workloads, in ascending order of id.
    pub(crate) workloads: Vec<Arc<Watched>>,
    pub(crate) skipped: Vec<Skipped>,
    /// The cgroups that are workloads with all that is below them.
    pub(crate) delegated: Arc<Delegated>,
    /// What workloads have in groups, ordered by group.
    pub(crate) owned: Vec<OwnedMemory>,
    /// Where residency comes from, for people.
    pub(crate) residency: String,
    pub(crate) tasks: String,
    pub(crate) pod_names: Arc<PodNames>,
    /// [`View::processes`], once it was read.
    pub(crate) by_id: OnceLock<Arc<BTreeMap<WorkloadId, Processes>>>,
}

impl View {
    /// Processes of workloads with memory on a device.
    pub(crate) fn processes(&self) -> Arc<BTreeMap<WorkloadId, Processes>> {
        let of = |w: &Arc<Watched>| Some((w.id.clone(), w.processes.clone()?));
        let all = || Arc::new(self.workloads.iter().filter_map(of).collect());
        Arc::clone(self.by_id.get_or_init(all))
    }

    pub(crate) fn get(&self, id: &WorkloadId) -> Option<&Watched> {
        let at = self.workloads.binary_search_by(|w| w.id.cmp(id)).ok()?;
        self.workloads.get(at).map(|w| &**w)
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) gone: AtomicBool,
}

impl Process {
    /// `pid:PID@STARTTIME`: a recycled process id is another workload.
    pub(crate) fn id(&self) -> WorkloadId {
        WorkloadId::new(format!("pid:{}@{}", self.pid, self.start_ticks))
    }
}

/// All that `/proc` has; for want of something of ours, those known before too.
pub(crate) fn listed(
    proc: &OwnedFd,
    known: &BTreeMap<WorkloadId, Arc<Process>>,
    view: &mut View,
) -> Vec<u32> {
    let mut found = Vec::new();
    let listed = for_each_dir(proc, PROCESSES_MAX, |name| {
        let number = crate::kernel::parse::decimal(name)
            .ok()
            .and_then(|n| u32::try_from(n).ok());
        found.extend(number);
    });
    if let Err(e) = listed {
        if is_want(e) {
            found.extend(known.values().map(|process| process.pid));
            found.sort_unstable();
            found.dedup();
        }
        let why = Missing::Lost(e.to_string());
        view.skipped.push(Skipped {
            what: "/proc".into(),
            why,
        });
    }
    found
}
