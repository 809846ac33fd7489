// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of a cgroup, scanned in portions. To list them costs the more the more there are: 12 µs each
//! on an emulated CPU, and for ten thousand a third of its time at each tick. So the threads that are left
//! are remembered from tick to tick. The list is read anew only when the cost of its last reading is a small
//! part of the time since.

use crate::kernel::clock::{now, thread_cpu};
use rustix::io::Errno;
use std::collections::BTreeSet;
use weir_core::Nanos;

/// A list is read anew after this many times what reading it took: at most a twentieth of the loop's time.
/// With ten thousand threads a list at each tick took 300 to 900 ms on an emulated CPU, and a limit up to
/// three seconds in which the scheduler heard nothing from weir.
const PAID_OFF_BY: u64 = 20;

/// The threads in a cgroup, and which of them need no second visit.
#[derive(Debug, Default)]
pub(in crate::backends::sched_ext) struct Roll {
    seen: BTreeSet<u32>,
    /// Threads of the last list that were not looked at yet, in reverse order.
    left: Vec<u32>,
    /// The end of the last list was not reported yet.
    is_open: bool,
    /// Threads of the last list that were changed.
    changed: usize,
    /// One of them could not be changed, and is in the next list again.
    has_failed: bool,
    listed_at: Nanos,
    list_cost: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Threads that got another policy since the list was read.
    pub(crate) changed: usize,
    /// No thread of the list is left for the next portion, and nothing went wrong.
    pub(crate) is_whole: bool,
}

impl Roll {
    fn is_due(&self, at: Nanos) -> bool {
        let paid_off = self.list_cost.0.saturating_mul(PAID_OFF_BY);
        !self.is_open && at.0 >= self.listed_at.0.saturating_add(paid_off)
    }

    /// From the beginning, for something else. That needs a new list, which has its time.
    pub(in crate::backends::sched_ext) fn begin_again(&mut self) {
        *self = Roll {
            listed_at: self.listed_at,
            list_cost: self.list_cost,
            ..Roll::default()
        };
    }

    /// Makes the next list due, as if the last one had cost nothing.
    #[cfg(test)]
    pub(in crate::backends::sched_ext) fn be_due(&mut self) {
        self.list_cost = Nanos(0);
    }

    /// Takes a new list, if it is time for one.
    pub(in crate::backends::sched_ext) fn renew(
        &mut self,
        list: impl FnOnce() -> Result<Vec<u32>, Errno>,
    ) -> Result<(), Errno> {
        let at = now();
        if !self.is_due(at) {
            return Ok(());
        }
        let before = thread_cpu();
        let threads = list()?;
        self.list_cost = Nanos(thread_cpu().0.saturating_sub(before.0));
        self.listed_at = at;
        self.is_open = true;
        self.changed = 0;
        self.has_failed = false;
        let known = |tid: &u32| self.seen.contains(tid);
        let seen = threads.iter().copied().filter(known).collect();
        self.left = threads.into_iter().rev().filter(|t| !known(t)).collect();
        self.seen = seen;
        Ok(())
    }

    /// Does something with the threads that were not visited yet: with one at least, and with others while it
    /// is before `until`. Between two lists there is nothing to do, and no list is reported as whole.
    pub(in crate::backends::sched_ext) fn go_on(
        &mut self,
        until: Nanos,
        mut act: impl FnMut(u32) -> Result<bool, Errno>,
    ) -> Result<Portion, Errno> {
        if !self.is_open {
            return Ok(Portion::default());
        }
        let mut failure = Ok(());
        while let Some(tid) = self.left.pop() {
            match act(tid) {
                Ok(is_changed) => {
                    self.changed += usize::from(is_changed);
                    self.seen.insert(tid);
                }
                Err(Errno::SRCH) => {}
                Err(e) => failure = Err(e),
            }
            if now() >= until {
                break;
            }
        }
        self.is_open = !self.left.is_empty();
        self.has_failed |= failure.is_err();
        failure.map(|()| Portion {
            changed: self.changed,
            is_whole: !self.is_open && !self.has_failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Nanos = Nanos(u64::MAX);

    /// One portion with these threads: which were visited, and the result.
    fn look(roll: &mut Roll, threads: &[u32], until: Nanos, gone: u32) -> (Vec<u32>, usize, bool) {
        let mut asked = Vec::new();
        let act = |tid| {
            asked.push(tid);
            if tid == gone {
                Err(Errno::SRCH)
            } else {
                Ok(true)
            }
        };
        roll.renew(|| Ok(threads.to_vec())).unwrap();
        let done = roll.go_on(until, act).unwrap();
        (asked, done.changed, done.is_whole)
    }

    fn paid_off(roll: &mut Roll) -> &mut Roll {
        roll.be_due();
        roll
    }

    #[test]
    fn each_look_has_its_portion_and_nobody_is_forgotten() {
        let roll = &mut Roll::default();
        let all = [1, 2, 3];
        assert_eq!(look(roll, &all, Nanos(0), 1), (vec![1], 0, false));
        // The list is not read again while a thread of it is left.
        assert_eq!(look(paid_off(roll), &[9], Nanos(0), 0), (vec![2], 1, false));
        assert_eq!(look(paid_off(roll), &[9], LATER, 0), (vec![3], 2, true));
        assert_eq!(look(paid_off(roll), &all, LATER, 0), (vec![1], 1, true));
        assert_eq!(look(paid_off(roll), &all, LATER, 0), (vec![], 0, true));
        assert_eq!(look(paid_off(roll), &[2, 4], LATER, 0), (vec![4], 1, true));
        // A thread that left and came back is visited again.
        assert_eq!(look(paid_off(roll), &all, LATER, 0), (vec![1, 3], 2, true));
    }

    #[test]
    fn a_list_that_cost_much_is_not_read_again_soon() {
        let roll = &mut Roll::default();
        assert_eq!(look(roll, &[1], LATER, 0), (vec![1], 1, true));
        roll.list_cost = Nanos::from_millis(3_600_000);
        assert_eq!(look(roll, &[1, 2], LATER, 0), (vec![], 0, false));
        assert!(!roll.is_due(Nanos(roll.listed_at.0 + 20 * roll.list_cost.0 - 1)));
        assert!(roll.is_due(Nanos(roll.listed_at.0 + 20 * roll.list_cost.0)));
        roll.begin_again();
        assert_eq!(look(roll, &[1, 2], LATER, 0), (vec![], 0, false));
        assert_eq!(
            look(paid_off(roll), &[1, 2], LATER, 0),
            (vec![1, 2], 2, true)
        );
    }

    #[test]
    fn an_error_ends_the_look_and_the_others_have_their_turn() {
        let roll = &mut Roll::default();
        roll.renew(|| Ok(vec![1, 2])).unwrap();
        let refused = |tid| if tid == 1 { Err(Errno::PERM) } else { Ok(true) };
        assert_eq!(roll.go_on(Nanos(0), refused), Err(Errno::PERM));
        assert_eq!(look(roll, &[], LATER, 0), (vec![2], 1, false));
        let all = [1, 2];
        assert_eq!(look(paid_off(roll), &all, LATER, 0), (vec![1], 1, true));
    }
}
