// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which groups moved next to nothing since the last tick. A workload with memory in these alone, which has
//! not run, need not be read at this tick: there is nothing to attribute (see
//! [`crate::workloads::cpu_time`]).

use weir_core::seam::observation::{GroupReading, Use};
use weir_core::{Bytes, GroupId, Nanos, Reading};

/// A group that moves less is quiet, in bytes per second: less than a page in a scheduler tick.
const QUIET_BYTES_PER_SEC: u128 = 1 << 20;

/// The groups that were quiet.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    before: Vec<GroupReading>,
    groups: Vec<GroupId>,
}

impl Quiet {
    /// Takes in the counters of a tick. A group with an unknown count is not quiet.
    pub(crate) fn follow(&mut self, now: &[GroupReading]) {
        self.groups.clear();
        for (before, now) in self.before.iter().zip(now) {
            let is_quiet = before.id == now.id
                && is_quiet(&before.read_bytes, &now.read_bytes)
                && is_quiet(&before.write_bytes, &now.write_bytes);
            if is_quiet {
                self.groups.push(now.id);
            }
        }
        self.before.clear();
        self.before.extend_from_slice(now);
    }

    /// Whether all of these groups were quiet.
    pub(crate) fn are(&self, uses: &[Use]) -> bool {
        uses.iter().all(|use_| self.groups.contains(&use_.group))
    }
}

fn is_quiet(before: &Reading<Bytes>, now: &Reading<Bytes>) -> bool {
    let (Some(from), Some(to)) = (before.ok(), now.ok()) else {
        return false;
    };
    let span = now.at.since(before.at).unwrap_or(Nanos(0));
    // A counter that went back or around is not quiet.
    let moved = to.0.checked_sub(from.0);
    moved.is_some_and(|bytes| {
        u128::from(bytes) * 1_000_000_000 < QUIET_BYTES_PER_SEC * u128::from(span.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{DeviceId, Missing};

    fn id(index: u32) -> GroupId {
        GroupId {
            device: DeviceId(0),
            index,
        }
    }

    fn seen(index: u32, at_ms: u64, read: Option<u64>, write: u64) -> GroupReading {
        let at = Nanos::from_millis(at_ms);
        GroupReading {
            id: id(index),
            read_bytes: match read {
                Some(bytes) => Reading::new(at, Bytes(bytes)),
                None => Reading::missing(at, Missing::NotYetRead),
            },
            write_bytes: Reading::new(at, Bytes(write)),
        }
    }

    fn uses(groups: &[u32]) -> Vec<Use> {
        let use_ = |index: &u32| Use {
            group: id(*index),
            resident_bytes: Reading::new(Nanos(0), Bytes(1)),
            sampled_read_bytes: None,
            sampled_write_bytes: None,
        };
        groups.iter().map(use_).collect()
    }

    #[test]
    fn a_group_is_quiet_while_both_counters_hardly_move() {
        let mut quiet = Quiet::default();
        quiet.follow(&[seen(0, 0, Some(5), 0), seen(1, 0, Some(0), 0)]);
        assert!(!quiet.are(&uses(&[0])), "one reading is no difference");
        let second = 1 << 20;
        quiet.follow(&[
            seen(0, 1000, Some(5), 0),
            seen(1, 1000, Some(second - 1), 7),
        ]);
        assert!(quiet.are(&uses(&[0, 1])) && quiet.are(&[]));
        assert!(!quiet.are(&uses(&[0, 2])), "a group that is not there");
        quiet.follow(&[
            seen(0, 2000, Some(5), 0),
            seen(1, 2000, Some(2 * second - 1), 7),
        ]);
        assert!(quiet.are(&uses(&[0])) && !quiet.are(&uses(&[1])));
        quiet.follow(&[
            seen(0, 3000, Some(5), second),
            seen(1, 3000, Some(2 * second), 7),
        ]);
        assert!(!quiet.are(&uses(&[0])), "writes count, too");
    }

    #[test]
    fn what_is_not_known_is_not_quiet() {
        for (before, now) in [
            (seen(0, 0, None, 0), seen(0, 1000, Some(0), 0)),
            (seen(0, 0, Some(0), 0), seen(0, 1000, None, 0)),
            (seen(0, 0, Some(9), 0), seen(0, 1000, Some(8), 0)),
            (seen(0, 0, Some(0), 0), seen(0, 0, Some(0), 0)),
            (seen(1, 0, Some(0), 0), seen(0, 1000, Some(0), 0)),
        ] {
            let mut quiet = Quiet::default();
            quiet.follow(std::slice::from_ref(&before));
            quiet.follow(std::slice::from_ref(&now));
            assert!(!quiet.are(&uses(&[0])), "{now:?}");
        }
        let mut quiet = Quiet::default();
        quiet.follow(&[seen(0, 0, Some(0), 0)]);
        quiet.follow(&[]);
        quiet.follow(&[seen(0, 1000, Some(0), 0)]);
        assert!(!quiet.are(&uses(&[0])));
    }
}
