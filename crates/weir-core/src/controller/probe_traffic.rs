// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir's own probe reads of a device. The device counts it with all the rest; attribution must not give
//! it to a workload of the group.

use crate::ids::GroupId;
use crate::rates::attribution::Attribution;
use crate::rates::bandwidth::GroupRate;
use crate::rates::counters::{Counter, FULL_MASK, Limits};
use crate::seam::observation::ProbeReading;
use crate::units::BytesPerSec;
use std::borrow::Cow;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits {
    mask: FULL_MASK,
    per_sec: None,
};

/// The last reading of each group.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeTraffic {
    counters: BTreeMap<GroupId, Counter>,
}

impl ProbeTraffic {
    /// Rates of groups without it, in the same order. Both are counted at different moments, and bytes that
    /// the probe requested may have come from a cache: no rate goes below zero. Nothing is subtracted from a
    /// group without a reading of the probe.
    pub(super) fn subtract_from<'a>(
        &mut self,
        groups: &'a [GroupRate],
        seen: &[ProbeReading],
    ) -> Cow<'a, [GroupRate]> {
        self.counters
            .retain(|id, _| seen.iter().any(|own| own.id == *id));
        let mut others = Cow::Borrowed(groups);
        for own in seen {
            let counter = self.counters.entry(own.id).or_default();
            let Ok(delta) = counter.advance(LIMITS, &own.read_bytes) else {
                continue;
            };
            let place = groups.iter().position(|group| group.id == own.id);
            let group = place.and_then(|place| others.to_mut().get_mut(place));
            if let Some(Ok(read)) = group.map(|group| &mut group.read) {
                *read = BytesPerSec::new((read.get() - delta.per_sec()).max(0.0));
            }
        }
        others
    }
}

/// What was taken off has no owner among the workloads.
pub(super) fn leave_unattributed(found: &mut Attribution, all: &[GroupRate], others: &[GroupRate]) {
    for ((unowned, all), others) in found.unattributed.iter_mut().zip(all).zip(others) {
        if let (Some(unowned), Some(all), Some(others)) = (unowned, all.total(), others.total()) {
            *unowned += BytesPerSec::new((all.get() - others.get()).max(0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeviceId;
    use crate::rates::attribution::{AccessSignal, attribute};
    use crate::seam::observation::{Missing, Reading};
    use crate::units::{Bytes, Nanos};

    const GROUP: GroupId = GroupId {
        device: DeviceId(0),
        index: 0,
    };

    fn rate(read: f64, write: f64) -> [GroupRate; 1] {
        [GroupRate {
            id: GROUP,
            read: Ok(BytesPerSec::new(read)),
            write: Ok(BytesPerSec::new(write)),
            span: Nanos::from_millis(1000),
        }]
    }

    fn own(at_ms: u64, bytes: u64) -> [ProbeReading; 1] {
        [ProbeReading {
            id: GROUP,
            read_bytes: Reading::new(Nanos::from_millis(at_ms), Bytes(bytes)),
        }]
    }

    #[test]
    fn what_weir_read_is_no_workloads_and_stays_in_the_total() {
        let mut state = ProbeTraffic::default();
        let groups = rate(1000.0, 300.0);
        // Before the second reading there is no difference.
        assert_eq!(state.subtract_from(&groups, &own(0, 50)).as_ref(), &groups);
        let others = state.subtract_from(&groups, &own(2000, 250));
        assert_eq!(others.as_ref(), &rate(900.0, 300.0));
        let alone = AccessSignal {
            group: 0,
            ..AccessSignal::default()
        };
        let mut found = attribute(&others, &[alone]);
        leave_unattributed(&mut found, &groups, &others);
        assert_eq!(found.parts[0].all.bytes_per_sec.get(), 1200.0);
        assert_eq!(found.unattributed, [Some(BytesPerSec::new(100.0))]);
    }

    #[test]
    fn nothing_goes_below_zero_and_what_is_not_known_takes_nothing_off() {
        let mut state = ProbeTraffic::default();
        let groups = rate(10.0, 0.0);
        let _ = state.subtract_from(&groups, &own(0, 0));
        let others = state.subtract_from(&groups, &own(1000, 1 << 40));
        assert_eq!(others.as_ref(), &rate(0.0, 0.0));
        let lost = [ProbeReading {
            id: GROUP,
            read_bytes: Reading::missing(Nanos::from_millis(2000), Missing::NotYetRead),
        }];
        assert_eq!(state.subtract_from(&groups, &lost).as_ref(), &groups);
        // Without a probe the first reading of the next one is a first reading again.
        assert_eq!(state.subtract_from(&groups, &[]).as_ref(), &groups);
        assert_eq!(
            state.subtract_from(&groups, &own(3000, 5)).as_ref(),
            &groups
        );
    }
}
