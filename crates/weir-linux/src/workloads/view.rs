// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What discovery has found, as one value: a tick takes the newest and never waits for a walk.

use super::discovery::Watched;
use super::processes::node_balance::OwnedMemory;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use weir_core::WorkloadId;
use weir_core::owner::PodNames;
use weir_core::seam::observation::Skipped;
use weir_core::seam::processes::Processes;

/// What a tick needs to know of the slow things.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) round: u64,
    /// With which list of groups it was made ([`crate::workloads::discovery_thread::Pace::watch`]).
    pub(crate) watched: u64,
    /// By id.
    pub(crate) workloads: Vec<Arc<Watched>>,
    pub(crate) skipped: Vec<Skipped>,
    /// What workloads have in groups, ordered by group.
    pub(crate) owned: Vec<OwnedMemory>,
    /// Where residency comes from, for people.
    pub(crate) residency: String,
    /// Where processes are learned from.
    pub(crate) tasks: String,
    /// What Kubernetes calls pods.
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

/// A process as a workload.
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
