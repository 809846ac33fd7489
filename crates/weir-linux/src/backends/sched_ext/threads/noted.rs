// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is noted of single threads: policies, and those that were `SCHED_EXT` before. Each with the start of
//! the thread ([`start_ticks`]): its number may be given to another thread of the same cgroup.

use super::ScxThread;
use crate::workloads::processes::sched_policy::{SCHED_EXT, SCHED_OTHER, start_ticks};
use serde::{Deserialize, Serialize};

/// A policy, and the start of the thread that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotedPolicy(pub(super) i32, pub(super) u64);

/// A thread, by its number and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ChosenThread(u32, u64);

impl ChosenThread {
    /// Nothing if it has ended, or its start cannot be read.
    pub(in crate::backends::sched_ext) fn now(tid: u32) -> Option<Self> {
        start_ticks(tid).map(|start| ChosenThread(tid, start))
    }
}

impl ScxThread {
    /// The policy that a thread had, as far as it is noted. What is noted of an earlier thread with its
    /// number is none of its own. `start` is asked for few threads: most have nothing noted.
    pub(super) fn noted(&self, tid: u32, start: impl FnOnce(u32) -> Option<u64>) -> i32 {
        let of_number = ChosenThread(tid, 0)..=ChosenThread(tid, u64::MAX);
        let chosen = self.chosen.range(of_number).next();
        let chosen = chosen.map(|ChosenThread(_, start)| NotedPolicy(SCHED_EXT, *start));
        match chosen.or(self.policies.get(&tid).copied()) {
            Some(NotedPolicy(policy, noted)) if start(tid) == Some(noted) => policy,
            _ => SCHED_OTHER,
        }
    }

    pub(super) fn set_noted(&mut self, tid: u32, policy: i32, start: u64) {
        self.chosen.retain(|ChosenThread(chosen, _)| *chosen != tid);
        match policy {
            SCHED_OTHER => self.policies.remove(&tid),
            policy => self.policies.insert(tid, NotedPolicy(policy, start)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::processes::sched_policy::SCHED_BATCH;

    /// Its number is that of a thread that was noted, and has ended since.
    #[test]
    fn a_thread_is_another_one_where_its_start_is() {
        let record = ScxThread {
            policies: [(7, NotedPolicy(SCHED_BATCH, 70))].into(),
            chosen: [ChosenThread(9, 90)].into(),
            path: "/a".into(),
            inode: 1,
        };
        let noted = |tid, start| record.noted(tid, |_| start);
        assert_eq!(noted(7, Some(70)), SCHED_BATCH);
        assert_eq!(noted(7, Some(71)), SCHED_OTHER);
        assert_eq!(noted(7, None), SCHED_OTHER, "it has ended");
        assert_eq!(noted(9, Some(90)), SCHED_EXT);
        assert_eq!(noted(9, Some(91)), SCHED_OTHER);
        assert_eq!(noted(8, Some(80)), SCHED_OTHER);
    }
}
