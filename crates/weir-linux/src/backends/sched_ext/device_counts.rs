// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of the device's counters for the scheduler. Where the scheduler cannot read them by itself (weir's
//! driver is not loaded, or the operator chose events of perf), weir reads them some hundred times a second
//! while a workload is limited or guarded, and writes them to the scheduler's map. Between two samples the
//! scheduler goes by estimates, and corrects their error afterwards (`struct weir_ext_count` in
//! `bpf/sched/weir_sched.h`).

use super::Scx;
use super::intf::{self, DeviceSample};
use super::loader::Rule;
use std::collections::BTreeMap;
use weir_core::seam::observation::GroupReading;
use weir_core::{DeviceId, Missing, Nanos};

/// Between two samples: a few of the scheduler's own intervals, and much shorter than a limit needs.
const EVERY: Nanos = Nanos::from_millis(10);

/// What counts the bytes that a device moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceCounts {
    /// The scheduler, each time it runs its timer.
    Itself,
    /// weir reads the counters for it, some hundred times a second.
    ByUs,
    /// Nothing counts for it: it goes by estimates alone.
    Not,
}

impl Scx {
    /// How often the counters are to be read for the scheduler; nothing if it has no need of that now.
    pub(crate) fn looks_every(&self) -> Option<Nanos> {
        let is_anybody_held = !(self.holds.is_empty() && self.guarded.is_empty());
        (self.counts == DeviceCounts::ByUs && is_anybody_held && self.loaded.is_some())
            .then_some(EVERY)
    }

    /// Passes on to the scheduler what the counters showed.
    pub(crate) fn look(&self, groups: &[GroupReading]) {
        let is_wanted = matches!(self.rule, Rule::Partial | Rule::Full);
        let Some(loaded) = self.loaded.as_ref().filter(|_| is_wanted) else {
            return;
        };
        if self.counts != DeviceCounts::ByUs {
            return;
        }
        for (device, seen) in sums(groups) {
            if (device.0 as usize) < intf::MAX_DEVICES
                && let Some(seen) = seen
                && let Err(why) = loaded.set_seen(device.0, seen)
            {
                tracing::warn!(%device, "the scheduler did not get what the device moved: {why}");
            }
        }
    }
}

/// All that each device has moved, as of the last reading that went into it. Nothing where a reading is lost:
/// a sum that lacks a group now and then would go back and forth.
fn sums(groups: &[GroupReading]) -> BTreeMap<DeviceId, Option<DeviceSample>> {
    let mut sums: BTreeMap<DeviceId, Option<DeviceSample>> = BTreeMap::new();
    for group in groups {
        let sum = sums
            .entry(group.id.device)
            .or_insert_with(|| Some(DeviceSample::default()));
        let read = group.read_bytes.value.as_ref().ok().map(|b| b.0);
        let written = match &group.write_bytes.value {
            Ok(bytes) => Some(bytes.0),
            // It never counts them.
            Err(Missing::NotSupported(_)) => Some(0),
            Err(_) => None,
        };
        *sum = sum
            .zip(read.zip(written))
            .map(|(sum, (read, written))| DeviceSample {
                bytes: sum.bytes.wrapping_add(read).wrapping_add(written),
                at_ns: sum.at_ns.max(group.read_bytes.at.0),
            });
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Bytes, GroupId, Reading};

    fn group(
        device: u32,
        index: u32,
        at: u64,
        read: u64,
        write: Result<u64, Missing>,
    ) -> GroupReading {
        let id = GroupId {
            device: DeviceId(device),
            index,
        };
        GroupReading {
            id,
            read_bytes: Reading::new(Nanos(at), Bytes(read)),
            write_bytes: Reading {
                at: Nanos(at),
                value: write.map(Bytes),
            },
        }
    }

    #[test]
    fn a_device_has_moved_what_its_groups_have() {
        let never = || Err(Missing::NotSupported("no event".into()));
        let lost = || Err(Missing::Lost("away".into()));
        let seen = sums(&[
            group(0, 0, 5, 100, Ok(7)),
            group(0, 1, 6, 1000, never()),
            group(1, 0, 7, 1, lost()),
            group(1, 1, 7, 1, Ok(1)),
            group(2, 0, 8, u64::MAX, Ok(2)),
        ]);
        let of = |device| seen[&DeviceId(device)];
        assert_eq!(
            of(0),
            Some(DeviceSample {
                bytes: 1107,
                at_ns: 6
            })
        );
        assert_eq!(of(1), None, "one of its groups is lost");
        assert_eq!(
            of(2),
            Some(DeviceSample { bytes: 1, at_ns: 8 }),
            "counters wrap"
        );
    }
}
