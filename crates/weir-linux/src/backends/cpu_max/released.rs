// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cpu.max` and `cpu.weight` that others had set where weir has just released a limit. Until discovery has
//! read them again, its view still shows weir's own values there.

use super::limited::LimitedCgroup;
use crate::kernel::clock::now;
use crate::workloads::cgroups::cache::OWNER_EVERY;
use crate::workloads::discovery::View;
use std::collections::BTreeMap;
use weir_core::{Nanos, WorkloadId};

#[derive(Debug, Default)]
pub(crate) struct ReleasedLimits(BTreeMap<WorkloadId, ReleasedLimit>);

/// What others had set.
#[derive(Debug)]
pub(crate) struct ReleasedLimit {
    pub(crate) limit_cpus: Option<f64>,
    pub(crate) weight: Option<f64>,
    round: u64,
    at: Nanos,
}

impl ReleasedLimit {
    /// After two rounds, and once the owner's settings were read again, the view shows no value of weir.
    fn is_needed(&self, view: &View, at: Nanos) -> bool {
        let is_reread = at.0.saturating_sub(self.at.0) >= OWNER_EVERY.0;
        self.round + 2 >= view.round || !is_reread
    }
}

impl ReleasedLimits {
    /// Called before the limit is restored; `round` is that of the view in use.
    pub(crate) fn remember(&mut self, id: &WorkloadId, hold: &LimitedCgroup, round: u64) {
        let released = ReleasedLimit {
            limit_cpus: hold.theirs(),
            weight: hold.weight.theirs(),
            round,
            at: now(),
        };
        self.0.insert(id.clone(), released);
    }

    pub(crate) fn get(&self, id: &WorkloadId) -> Option<&ReleasedLimit> {
        self.0.get(id)
    }

    /// Drops what a new view knows by itself.
    pub(crate) fn follow(&mut self, view: &View) {
        let at = now();
        self.0.retain(|_, released| released.is_needed(view, at));
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes all of it as old as can be, for tests.
    #[cfg(test)]
    pub(crate) fn age(&mut self) {
        self.0
            .values_mut()
            .for_each(|released| released.at = Nanos(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of discovery may show what was read of a cgroup some seconds ago.
    #[test]
    fn settings_of_others_are_remembered_until_discovery_has_read_them_again() {
        let at = Nanos::from_millis(100_000);
        let released = ReleasedLimit {
            limit_cpus: None,
            weight: Some(300.0),
            round: 10,
            at,
        };
        let is_needed = |round: u64, ms: u64| {
            let view = View {
                round,
                ..View::default()
            };
            released.is_needed(&view, Nanos(at.0 + ms * 1_000_000))
        };
        assert!(is_needed(11, 7000), "no round since");
        assert!(is_needed(20, 5000), "read before the release");
        assert!(!is_needed(20, 6000));
    }
}
