// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that are no cgroup of their own, as one workload: those of the root cgroup (`/`), and those in
//! cgroups that weir does not see (`(unlisted)`). It is never limited, but it is there: otherwise the bytes
//! that its processes moved were those of another user of the device.
//!
//! There is no `cpu.stat` of them (the root's is that of the whole machine). So the CPU time is the sum of
//! what these processes used while they were in the set: one that comes begins at zero, and one that goes
//! takes nothing away.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_core::Nanos;

/// A process: its number, and its start as field 22 of `/proc/PID/stat` has it.
pub(crate) type Numbered = (u32, u64);

/// In place of an id, for those in cgroups that weir does not see: the ids of these are not known.
pub(crate) const UNLISTED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct ProcessSet {
    /// The id of the root cgroup, or [`UNLISTED`].
    pub(crate) number: u64,
    /// There are others in it, of another PID namespace, of which nothing can be read.
    pub(crate) has_hidden: bool,
    clocks: Mutex<ProcessClocks>,
}

#[derive(Debug, Default)]
struct ProcessClocks {
    /// CPU time of each when it was last read.
    of: BTreeMap<Numbered, Option<Nanos>>,
    sum: Nanos,
}

impl ProcessSet {
    pub(crate) fn new(number: u64) -> Self {
        ProcessSet {
            number,
            has_hidden: false,
            clocks: Mutex::default(),
        }
    }

    /// Processes that are not seen at all.
    pub(crate) fn hidden() -> Self {
        ProcessSet {
            has_hidden: true,
            ..ProcessSet::new(UNLISTED)
        }
    }

    pub(crate) fn follow(&self, processes: &[Numbered]) {
        let mut clocks = self.lock();
        let before = std::mem::take(&mut clocks.of);
        let as_before = |process: &Numbered| before.get(process).copied().flatten();
        clocks.of = processes.iter().map(|p| (*p, as_before(p))).collect();
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.lock().of.keys().map(|(pid, _)| *pid).collect()
    }

    /// What they have used so far. `read` says how much one has, if it is there still.
    pub(crate) fn cpu(&self, mut read: impl FnMut(Numbered) -> Option<Nanos>) -> Nanos {
        let mut clocks = self.lock();
        let mut more = 0u64;
        for (process, last) in &mut clocks.of {
            let now = read(*process);
            if let (Some(now), Some(last)) = (now, *last) {
                more = more.saturating_add(now.0.saturating_sub(last.0));
            }
            *last = now.or(*last);
        }
        clocks.sum = Nanos(clocks.sum.0.saturating_add(more));
        clocks.sum
    }

    fn lock(&self) -> MutexGuard<'_, ProcessClocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_cpu_time_never_goes_back_and_counts_no_time_before() {
        let set = ProcessSet::new(1);
        let used = |ms: &[(u32, u64)]| -> Nanos {
            let all: BTreeMap<u32, u64> = ms.iter().copied().collect();
            set.cpu(|(pid, _)| all.get(&pid).map(|ms| Nanos::from_millis(*ms)))
        };
        set.follow(&[(10, 5)]);
        assert_eq!(used(&[(10, 700)]), Nanos(0), "what it had used before");
        assert_eq!(used(&[(10, 900)]), Nanos::from_millis(200));
        set.follow(&[(10, 5), (11, 6)]);
        assert_eq!(used(&[(10, 950), (11, 4000)]), Nanos::from_millis(250));
        // One has ended, and its number is another's.
        set.follow(&[(10, 9), (11, 6)]);
        assert_eq!(used(&[(10, 1), (11, 4100)]), Nanos::from_millis(350));
        assert_eq!(used(&[(11, 4100)]), Nanos::from_millis(350), "gone");
        assert_eq!(set.pids(), [10, 11]);
    }
}
