// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the counting program (`bpf/probes/task_counts.bpf.c`) counted for a cgroup or a process, event by
//! event.

use crate::kernel::bpf::bpf_values;
use crate::kernel::skeletons::task_counts::MAX_EVENTS;
use crate::kernel::skeletons::task_counts::types::{cpu_state, event_counts};
use weir_core::seam::observation::{EventCount, TASK_EVENTS_MAX};

/// Events that are read at each switch, at most.
pub(crate) const COUNTED: usize = MAX_EVENTS as usize;

bpf_values!(cpu_state, event_counts);

const _: () = assert!(COUNTED == TASK_EVENTS_MAX);

/// What the tasks of a cgroup or a process did while they ran. Events are enabled while a task of theirs
/// runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(pub(crate) [EventCount; COUNTED]);

impl From<event_counts> for Sum {
    fn from(counts: event_counts) -> Sum {
        let first = EventCount {
            count: counts.first,
            enabled_ns: counts.first_enabled_ns,
            running_ns: counts.first_running_ns,
        };
        let second = EventCount {
            count: counts.second,
            enabled_ns: counts.second_enabled_ns,
            running_ns: counts.second_running_ns,
        };
        Sum([first, second])
    }
}

impl Sum {
    /// Both together. The kernel's words may wrap.
    pub(crate) fn plus(mut self, other: Sum) -> Sum {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            ours.count = ours.count.wrapping_add(theirs.count);
            ours.enabled_ns = ours.enabled_ns.wrapping_add(theirs.enabled_ns);
            ours.running_ns = ours.running_ns.wrapping_add(theirs.running_ns);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::bpf::BpfValue;

    #[test]
    fn events_are_kept_apart_and_added() {
        let bytes: Vec<u8> = (1..=6u64).flat_map(u64::to_ne_bytes).collect();
        let sum = Sum::from(event_counts::from_bytes(&bytes));
        let second = EventCount {
            count: 4,
            enabled_ns: 5,
            running_ns: 6,
        };
        assert_eq!((sum.0[0].running_ns, sum.0[1]), (3, second));
        let short = event_counts::from_bytes(&bytes[..8]);
        assert_eq!(
            (short.first, short.second),
            (1, 0),
            "bytes that are missing are 0"
        );
        assert_eq!(sum.plus(sum).0[1].count, 8);
    }
}
