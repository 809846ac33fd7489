// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Polls in quick succession while a device moves far more than its set-point. A workload's bytes for each
//! CPU-second are known after two observations, and they rise as the overload ends, so the first limits need
//! a second write: at the usual pace that is half a second of overload.

use crate::seam::plan::{DeviceState, Plan};
use crate::units::{BytesPerSec, Nanos};

/// Above the set-point by this part a device is far from it: as the controller takes it while the first
/// limits show their effect.
const FAR: f64 = 0.1;
/// An interval is divided into this many parts. With quick polls the live scenario reaches its set-point 0.2
/// s after weir's first observation, and needed 0.6 s at the usual pace.
const PARTS: u64 = 4;
/// The parts are not shorter than this: CPU time is counted in ticks of 1 to 4 ms.
const LEAST: Nanos = Nanos::from_millis(20);
/// Quick polls in a row. Where limits are at their floor and the device is still above, more of them change
/// nothing.
const MOST: u32 = 24;

/// How many quick polls there were in a row. For platforms that limit: see [`crate::Platform::on_plan`].
#[derive(Debug, Default)]
pub struct OverloadPoll {
    polls: u32,
}

impl OverloadPoll {
    /// Time until the next poll, if that is to come earlier than after `interval`.
    pub fn next(&mut self, plan: &Plan, interval: Nanos) -> Option<Nanos> {
        let early = Nanos((interval.0 / PARTS).max(LEAST.0));
        if !plan.devices.iter().any(is_far) {
            self.polls = 0;
            return None;
        }
        self.polls = self.polls.saturating_add(1);
        (self.polls <= MOST && early < interval).then_some(early)
    }
}

/// Whether it is far above. At the first observation that is not known; the second shows it.
fn is_far(device: &DeviceState) -> bool {
    let Some(set_point) = device.set_point_bytes_per_sec.map(BytesPerSec::get) else {
        return false;
    };
    match (device.read_bytes_per_sec, device.write_bytes_per_sec) {
        (Some(read), Some(write)) => read.get() + write.get() > set_point * (1.0 + FAR),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DeviceId;

    fn plan(rate: Option<f64>) -> Plan {
        let rate = |part: f64| rate.map(|all| BytesPerSec::new(all * part));
        Plan {
            devices: vec![DeviceState {
                id: DeviceId(0),
                read_bytes_per_sec: rate(0.75),
                write_bytes_per_sec: rate(0.25),
                unattributed_bytes_per_sec: None,
                migrated_bytes_per_sec: None,
                set_point_bytes_per_sec: Some(BytesPerSec::new(100.0)),
                correction_ratio: 1.0,
                planned_bytes_per_sec: None,
                unenforceable: None,
                saturation: None,
            }],
            ..Plan::default()
        }
    }

    #[test]
    fn it_polls_sooner_while_far_above_and_not_for_ever() {
        let interval = Nanos::from_millis(100);
        let mut rush = OverloadPoll::default();
        let early = Some(Nanos::from_millis(25));
        assert_eq!(rush.next(&plan(None), interval), early, "not known yet");
        assert_eq!(rush.next(&plan(Some(109.0)), interval), None);
        let far = plan(Some(111.0));
        let polls = (0..100).filter(|_| rush.next(&far, interval) == early);
        assert_eq!(polls.count(), MOST as usize);
        assert_eq!(rush.next(&plan(Some(90.0)), interval), None);
        assert_eq!(rush.next(&far, interval), early, "a new overload");
    }

    #[test]
    fn a_short_interval_stays_as_it_is() {
        let far = plan(Some(500.0));
        for (interval, next) in [(10, None), (20, None), (50, Some(20)), (1000, Some(250))] {
            let found = OverloadPoll::default().next(&far, Nanos::from_millis(interval));
            assert_eq!(found, next.map(Nanos::from_millis), "{interval}");
        }
    }
}
