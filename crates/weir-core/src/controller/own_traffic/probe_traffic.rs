// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir's own probe reads of a device. The device counts it with all the rest; attribution gives it to
//! weir, one more owner beside the workloads of the group.

use crate::ids::GroupId;
use crate::rates::attribution::{AccessSignal, OwnTraffic};
use crate::rates::bandwidth::GroupRate;
use crate::rates::counters::{Counter, FULL_MASK, Limits};
use crate::seam::observation::ProbeReading;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits {
    mask: FULL_MASK,
    per_sec: None,
};

#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct ProbeTraffic {
    counters: BTreeMap<GroupId, Counter>,
}

impl ProbeTraffic {
    /// weir as an owner of traffic in groups: it counts what it reads. No signal of a group without two
    /// readings.
    pub(in crate::controller) fn read(
        &mut self,
        groups: &[GroupRate],
        seen: &[ProbeReading],
    ) -> Vec<AccessSignal> {
        self.counters
            .retain(|id, _| seen.iter().any(|own| own.id == *id));
        let mut signals = Vec::with_capacity(seen.len());
        for own in seen {
            let counter = self.counters.entry(own.id).or_default();
            let Ok(delta) = counter.advance(LIMITS, &own.read_bytes) else {
                continue;
            };
            if let Some(group) = groups.iter().position(|group| group.id == own.id) {
                signals.push(AccessSignal {
                    group,
                    counted: Some(OwnTraffic {
                        read: delta.per_sec(),
                        write: 0.0,
                    }),
                    ..AccessSignal::default()
                });
            }
        }
        signals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::findings::StepRates;
    use crate::controller::parts::share_out;
    use crate::controller::signals::Signals;
    use crate::controller::{Config, State, step};
    use crate::ids::{DeviceId, WorkloadId};
    use crate::seam::observation::{
        GroupReading, Missing, Observation, Reading, Use, WorkloadKind, WorkloadReading,
    };
    use crate::seam::plan::Plan;
    use crate::seam::topology::Description;
    use crate::units::{Bytes, BytesPerSec, Nanos};

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

    /// The rate of each signal, by the group's position.
    fn counted(signals: &[AccessSignal]) -> Vec<(usize, Option<f64>)> {
        let read = |s: &AccessSignal| s.counted.map(|own| own.read);
        signals.iter().map(|s| (s.group, read(s))).collect()
    }

    /// Parts of a workload that is alone in the group with weir, of weir, and of no workload.
    fn shared(groups: &[GroupRate], own: &[AccessSignal]) -> [f64; 3] {
        let mut signals = Signals::of_accesses(vec![AccessSignal::default()]);
        signals.accesses.extend_from_slice(own);
        let rates = StepRates {
            groups: groups.to_vec(),
            devices: Vec::new(),
        };
        let parts = share_out(&rates, &signals);
        let own = parts.uses[1..].iter().map(|p| p.all.bytes_per_sec.get());
        let no_workload = parts.of_no_workload[0].expect("the group is counted");
        [
            parts.uses[0].all.bytes_per_sec.get(),
            own.sum(),
            no_workload.get(),
        ]
    }

    #[test]
    fn what_weir_read_is_no_workloads_and_stays_in_the_total() {
        let mut state = ProbeTraffic::default();
        let groups = rate(1000.0, 300.0);
        // Before the second reading there is no difference.
        assert_eq!(state.read(&groups, &own(0, 50)), []);
        let own = state.read(&groups, &own(2000, 250));
        assert_eq!(counted(&own), [(0, Some(100.0))]);
        assert_eq!(shared(&groups, &own), [1200.0, 100.0, 100.0]);
    }

    #[test]
    fn no_more_than_the_group_moved_is_weirs() {
        let mut state = ProbeTraffic::default();
        let groups = rate(10.0, 4.0);
        let _ = state.read(&groups, &own(0, 0));
        let own = state.read(&groups, &own(1000, 1 << 40));
        assert_eq!(shared(&groups, &own), [4.0, 10.0, 10.0]);
    }

    #[test]
    fn without_two_readings_weir_owns_nothing() {
        let mut state = ProbeTraffic::default();
        let groups = rate(10.0, 0.0);
        let _ = state.read(&groups, &own(0, 0));
        let lost = [ProbeReading {
            id: GROUP,
            read_bytes: Reading::missing(Nanos::from_millis(2000), Missing::NotYetRead),
        }];
        assert_eq!(state.read(&groups, &lost), []);
        // Without a probe the first reading of the next one is a first reading again.
        assert_eq!(state.read(&groups, &[]), []);
        assert_eq!(state.read(&groups, &own(3000, 5)), []);
        // In a group that no device has, nothing is weir's.
        assert_eq!(state.read(&[], &own(4000, 9)), []);
    }

    /// A whole step: what the workload is found to move, and what no workload explains.
    #[test]
    fn a_step_gives_weir_its_own_traffic() {
        let machine = Description {
            cpu_count: 4,
            groups: vec![crate::seam::topology::Group {
                id: GROUP,
                node: None,
                size_bytes: Bytes(1 << 30),
            }],
            ..Description::default()
        };
        let (mut state, config) = (State::default(), Config::default());
        let mut last = Plan::default();
        for sec in 0..3 {
            let at = Nanos::from_millis(sec * 1000);
            let reading = |rate: u64| Reading::new(at, Bytes(rate * sec));
            let seen = Observation {
                seq: sec,
                at,
                groups: vec![GroupReading {
                    id: GROUP,
                    read_bytes: reading(700),
                    write_bytes: reading(200),
                }],
                probe_traffic: vec![ProbeReading {
                    id: GROUP,
                    read_bytes: reading(100),
                }],
                workloads: vec![alone(at)],
                ..Observation::default()
            };
            last = step(&mut state, &config, &machine, &seen);
        }
        assert_eq!(last.workloads[0].bandwidth.bytes_per_sec.get(), 800.0);
        let device = &last.devices[0];
        assert_eq!(device.read_bytes_per_sec.map(BytesPerSec::get), Some(700.0));
        let no_workload = device.unattributed_bytes_per_sec.map(BytesPerSec::get);
        assert_eq!(no_workload, Some(100.0));
    }

    fn alone(at: Nanos) -> WorkloadReading {
        WorkloadReading {
            id: WorkloadId::new("/a"),
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(at, at),
            throttled_ns: Reading::new(at, Nanos(0)),
            uses: [Use {
                group: GROUP,
                resident_bytes: Reading::new(at, Bytes(1 << 20)),
                sampled_read_bytes: None,
                sampled_write_bytes: None,
            }]
            .into(),
            resident_bytes: None,
            weight: 100.0,
            their_limit_cpus: None,
            limited_weight: None,
            excluded: None,
        }
    }
}
