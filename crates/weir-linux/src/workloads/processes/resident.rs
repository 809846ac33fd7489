// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of several processes together.

use super::HIDDEN;
use std::collections::BTreeMap;
use weir_core::{Bytes, Missing, Nanos, NodeId};

#[derive(Clone, Debug, Default)]
pub(crate) struct Resident {
    /// The oldest scan that went into it.
    pub(crate) at: Option<Nanos>,
    /// Resident bytes by node. What lies on no watched node has the key [`super::numa_maps::ELSEWHERE`].
    pub(crate) bytes: BTreeMap<NodeId, u64>,
    /// The part of it in huge pages of hugetlb that maps show.
    pub(crate) huge: BTreeMap<NodeId, u64>,
    /// Processes not scanned so far.
    pub(crate) unread: usize,
    /// Why one of them could not be scanned.
    pub(crate) missing: Option<Missing>,
}

impl Resident {
    /// What is known of processes in another PID namespace: nothing.
    pub(crate) fn hidden() -> Self {
        Resident {
            missing: Some(Missing::NotPermitted(HIDDEN.into())),
            ..Resident::default()
        }
    }

    /// Whether there may be more: a process was not scanned so far, or may not be.
    pub(crate) fn is_unknown(&self) -> bool {
        self.unread > 0 || matches!(self.missing, Some(Missing::NotPermitted(_)))
    }

    /// On all nodes together; nothing while the part of one process is not known.
    pub(crate) fn all_bytes(&self) -> Option<Bytes> {
        let is_known = self.at.is_some() && self.unread == 0 && self.missing.is_none();
        let sum = || {
            self.bytes
                .values()
                .fold(0, |a: u64, b| a.saturating_add(*b))
        };
        is_known.then(|| Bytes(sum()))
    }
}
