// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which groups moved next to nothing since the last tick. A workload with memory in these alone, which has
//! not run, need not be read at this tick: there is nothing to attribute (see
//! [`crate::workloads::cpu_time`]).

use weir_core::seam::observation::{GroupReading, Use};
use weir_core::{Bytes, GroupId, Nanos, Reading};

/// A group that moves less is idle, in bytes per second: less than a page in a scheduler tick.
const IDLE_BYTES_PER_SEC: u128 = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct IdleGroups {
    before: Vec<GroupReading>,
    groups: Vec<GroupId>,
}

impl IdleGroups {
    /// Takes in the counters of a tick. A group with an unknown count is not idle.
    pub(crate) fn follow(&mut self, now: &[GroupReading]) {
        self.groups.clear();
        for (before, now) in self.before.iter().zip(now) {
            let is_idle = before.id == now.id
                && is_idle(&before.read_bytes, &now.read_bytes)
                && is_idle(&before.write_bytes, &now.write_bytes);
            if is_idle {
                self.groups.push(now.id);
            }
        }
        self.before.clear();
        self.before.extend_from_slice(now);
    }

    pub(crate) fn hold_all(&self, uses: &[Use]) -> bool {
        uses.iter().all(|use_| self.groups.contains(&use_.group))
    }
}

fn is_idle(before: &Reading<Bytes>, now: &Reading<Bytes>) -> bool {
    let (Some(from), Some(to)) = (before.ok(), now.ok()) else {
        return false;
    };
    let span = now.at.since(before.at).unwrap_or(Nanos(0));
    // A counter that went back or around is not idle.
    let moved = to.0.checked_sub(from.0);
    moved.is_some_and(|bytes| {
        u128::from(bytes) * 1_000_000_000 < IDLE_BYTES_PER_SEC * u128::from(span.0)
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
    fn a_group_is_idle_while_both_counters_hardly_move() {
        let mut idle = IdleGroups::default();
        idle.follow(&[seen(0, 0, Some(5), 0), seen(1, 0, Some(0), 0)]);
        assert!(!idle.hold_all(&uses(&[0])), "one reading is no difference");
        let second = 1 << 20;
        idle.follow(&[
            seen(0, 1000, Some(5), 0),
            seen(1, 1000, Some(second - 1), 7),
        ]);
        assert!(idle.hold_all(&uses(&[0, 1])) && idle.hold_all(&[]));
        assert!(!idle.hold_all(&uses(&[0, 2])), "a group that is not there");
        idle.follow(&[
            seen(0, 2000, Some(5), 0),
            seen(1, 2000, Some(2 * second - 1), 7),
        ]);
        assert!(idle.hold_all(&uses(&[0])) && !idle.hold_all(&uses(&[1])));
        idle.follow(&[
            seen(0, 3000, Some(5), second),
            seen(1, 3000, Some(2 * second), 7),
        ]);
        assert!(!idle.hold_all(&uses(&[0])), "writes count, too");
    }

    #[test]
    fn what_is_not_known_is_not_idle() {
        for (before, now) in [
            (seen(0, 0, None, 0), seen(0, 1000, Some(0), 0)),
            (seen(0, 0, Some(0), 0), seen(0, 1000, None, 0)),
            (seen(0, 0, Some(9), 0), seen(0, 1000, Some(8), 0)),
            (seen(0, 0, Some(0), 0), seen(0, 0, Some(0), 0)),
            (seen(1, 0, Some(0), 0), seen(0, 1000, Some(0), 0)),
        ] {
            let mut idle = IdleGroups::default();
            idle.follow(std::slice::from_ref(&before));
            idle.follow(std::slice::from_ref(&now));
            assert!(!idle.hold_all(&uses(&[0])), "{now:?}");
        }
        let mut idle = IdleGroups::default();
        idle.follow(&[seen(0, 0, Some(0), 0)]);
        idle.follow(&[]);
        idle.follow(&[seen(0, 1000, Some(0), 0)]);
        assert!(!idle.hold_all(&uses(&[0])));
    }
}
