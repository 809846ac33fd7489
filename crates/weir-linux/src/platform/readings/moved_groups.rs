// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Groups that are on another node than before. Until the memory of workloads was read with the new nodes, it
//! is not known which workloads have memory there. Otherwise a workload would be charged for another node's
//! traffic.

use crate::workloads::discovery::View;
use std::collections::BTreeSet;
use weir_core::seam::observation::{GroupReading, Use, WorkloadReading};
use weir_core::seam::topology::Group;
use weir_core::{GroupId, Missing};

/// Those whose users are not known yet.
#[derive(Debug, Default)]
pub(crate) struct MovedGroups {
    /// Views before this one were made with the nodes before.
    known_from_view: u64,
    groups: BTreeSet<GroupId>,
}

impl MovedGroups {
    /// Takes up what differs between two lists of groups; views from the given number on are made with the
    /// second.
    pub(crate) fn follow(&mut self, before: &[Group], now: &[Group], known_from_view: u64) {
        let node = |groups: &[Group], id| groups.iter().find(|g| g.id == id).map(|g| g.node);
        let ids = before.iter().chain(now).map(|group| group.id);
        self.known_from_view = known_from_view;
        self.groups
            .extend(ids.filter(|id| node(before, *id) != node(now, *id)));
    }

    /// Forgets all of them with a view that was made with their nodes.
    pub(crate) fn settle(&mut self, view: &View) {
        if view.watched >= self.known_from_view {
            self.groups.clear();
        }
    }

    /// Withholds the counts of these groups. Otherwise all of it would be traffic without an owner, which
    /// leaves nothing for the workloads that cause it.
    pub(crate) fn without_counts(&self, mut all: Vec<GroupReading>) -> Vec<GroupReading> {
        for group in all.iter_mut().filter(|g| self.groups.contains(&g.id)) {
            for reading in [&mut group.read_bytes, &mut group.write_bytes] {
                reading.value = Err(Missing::NotYetRead);
            }
        }
        all
    }

    /// Withholds what workloads have in these groups.
    pub(crate) fn without_uses(&self, mut all: Vec<WorkloadReading>) -> Vec<WorkloadReading> {
        if self.groups.is_empty() {
            return all;
        }
        for workload in &mut all {
            let is_known = |use_: &&Use| !self.groups.contains(&use_.group);
            if !workload.uses.iter().all(|use_| is_known(&use_)) {
                workload.uses = workload.uses.iter().filter(is_known).cloned().collect();
            }
        }
        all
    }
}
