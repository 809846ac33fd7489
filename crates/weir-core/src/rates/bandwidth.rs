// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters become bandwidth: per monitoring group, then per device.
//!
//! Thesis 4.3.1: `b = Δc / Δt` (eq. 1), each counter with the time of its own reading, reads and
//! writes apart. As an option the result is smoothed, `s_t = α·x_t + (1 − α)·s_{t−1}` (eq. 2).
//! Smoothing keeps the mean and costs delay; the control loop does not need it, so it is off unless
//! configured.
//!
//! A device's bandwidth is the sum over its groups. If one of them cannot be read the sum is not
//! known: a part is not passed off as the whole.

use crate::ids::{DeviceId, GroupId};
use crate::rates::count_check::FASTEST_BYTES_PER_SEC;
use crate::rates::counters::{Counter, FULL_MASK, Limits};
use crate::seam::observation::{GroupReading, Missing, Reading};
use crate::seam::topology::Description;
use crate::units::{Bytes, BytesPerSec, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// An exponentially weighted moving average (thesis eq. 2): the first value is taken as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ewma {
    value: Option<f64>,
}

impl Ewma {
    /// Takes `x` in with weight `alpha` (0 to 1) and gives the new average.
    pub fn push(&mut self, alpha: f64, x: f64) -> f64 {
        let next = match self.value {
            Some(old) => alpha * x + (1.0 - alpha) * old,
            None => x,
        };
        self.value = Some(next);
        next
    }

    pub fn get(self) -> Option<f64> {
        self.value
    }
}

/// Bandwidth of one monitoring group over the time since its previous reading.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRate {
    pub id: GroupId,
    /// Bytes read per second, or why that is not known.
    pub read: Result<BytesPerSec, Missing>,
    /// Bytes written per second, or why that is not known.
    pub write: Result<BytesPerSec, Missing>,
    /// Time between the two readings of the read counter; zero where there is no rate.
    pub span: Nanos,
}

impl GroupRate {
    /// Reads and writes together; nothing unless both are known.
    pub fn total(&self) -> Option<BytesPerSec> {
        match (&self.read, &self.write) {
            (Ok(read), Ok(write)) => Some(*read + *write),
            _ => None,
        }
    }
}

/// Bandwidth of one device: the sum over its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRate {
    pub id: DeviceId,
    /// Bytes read per second, or the reason of the first group that has none.
    pub read: Result<BytesPerSec, Missing>,
    pub write: Result<BytesPerSec, Missing>,
    /// Longest time between readings among its groups.
    pub span: Nanos,
}

impl DeviceRate {
    /// Reads and writes together.
    ///
    /// # Errors
    /// The reason of the part that is missing.
    pub fn total(&self) -> Result<BytesPerSec, &Missing> {
        Ok(*self.read.as_ref()? + *self.write.as_ref()?)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    counter: Counter,
    smooth: Ewma,
}

impl Channel {
    fn advance(
        &mut self,
        limits: Limits,
        alpha: Option<f64>,
        reading: &Reading<Bytes>,
    ) -> Result<(BytesPerSec, Nanos), Missing> {
        let delta = self.counter.advance(limits, reading)?;
        let raw = delta.per_sec();
        if limits.per_sec.is_none() && raw > FASTEST_BYTES_PER_SEC {
            return Err(Missing::Lost(format!(
                "counter went on by {} bytes in {} s: no device moves so much",
                delta.amount,
                delta.span.secs_f64()
            )));
        }
        let rate = alpha.map_or(raw, |a| self.smooth.push(a, raw));
        Ok((BytesPerSec::new(rate), delta.span))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Meter {
    channels: BTreeMap<GroupId, [Channel; 2]>,
}

impl Meter {
    /// Rates of all groups that were seen or that the machine has, by id. `alpha` is the smoothing
    /// factor of eq. 2, nothing for none. Of a group seen twice the first reading counts.
    pub fn update(
        &mut self,
        machine: &Description,
        seen: &[GroupReading],
        alpha: Option<f64>,
    ) -> Vec<GroupRate> {
        let limits: BTreeMap<DeviceId, Limits> = machine
            .devices
            .iter()
            .map(|d| {
                let per_sec = d.capacity_bytes_per_sec.map(BytesPerSec::get);
                (
                    d.id,
                    Limits {
                        mask: d.counter_mask_bytes,
                        per_sec,
                    },
                )
            })
            .collect();
        let unknown = Limits {
            mask: FULL_MASK,
            per_sec: None,
        };
        let mut rates: BTreeMap<GroupId, GroupRate> = BTreeMap::new();
        for group in seen {
            if rates.contains_key(&group.id) {
                continue;
            }
            let limit = limits.get(&group.id.device).copied().unwrap_or(unknown);
            let [read, write] = self.channels.entry(group.id).or_default();
            let read = read.advance(limit, alpha, &group.read_bytes);
            let write = write.advance(limit, alpha, &group.write_bytes);
            let span = read.as_ref().map_or(Nanos(0), |r| r.1);
            let (read, write) = (read.map(|r| r.0), write.map(|w| w.0));
            rates.insert(
                group.id,
                GroupRate {
                    id: group.id,
                    read,
                    write,
                    span,
                },
            );
        }
        for group in &machine.groups {
            rates.entry(group.id).or_insert_with(|| {
                let why = Missing::Lost(format!("group {} was not in the observation", group.id));
                let (read, write) = (Err(why.clone()), Err(why));
                GroupRate {
                    id: group.id,
                    read,
                    write,
                    span: Nanos(0),
                }
            });
        }
        self.channels.retain(|id, _| rates.contains_key(id));
        rates.into_values().collect()
    }
}

/// Device totals from group rates, by id: of all devices that the machine or a group names.
pub fn device_rates(machine: &Description, groups: &[GroupRate]) -> Vec<DeviceRate> {
    let known = machine.devices.iter().map(|d| d.id);
    let ids: BTreeSet<DeviceId> = known.chain(groups.iter().map(|g| g.id.device)).collect();
    let mut sums: BTreeMap<DeviceId, DeviceRate> = BTreeMap::new();
    for group in groups {
        let span = group.span;
        sums.entry(group.id.device)
            .and_modify(|sum| {
                sum.read = plus(&sum.read, &group.read);
                sum.write = plus(&sum.write, &group.write);
                sum.span = sum.span.max(span);
            })
            .or_insert_with(|| DeviceRate {
                id: group.id.device,
                read: group.read.clone(),
                write: group.write.clone(),
                span,
            });
    }
    let without_counters = |id| {
        let why = Missing::NotSupported(format!("device {id} has no monitoring group"));
        DeviceRate {
            id,
            read: Err(why.clone()),
            write: Err(why),
            span: Nanos(0),
        }
    };
    ids.into_iter()
        .map(|id| sums.remove(&id).unwrap_or_else(|| without_counters(id)))
        .collect()
}

fn plus(
    a: &Result<BytesPerSec, Missing>,
    b: &Result<BytesPerSec, Missing>,
) -> Result<BytesPerSec, Missing> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(*a + *b),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::topology::{Device, Group};

    const A: GroupId = GroupId {
        device: DeviceId(0),
        index: 0,
    };
    const B: GroupId = GroupId {
        device: DeviceId(0),
        index: 1,
    };

    fn machine(mask: u64) -> Description {
        let group = |id| Group {
            id,
            node: None,
            size_bytes: Bytes(0),
        };
        Description {
            devices: vec![Device {
                id: DeviceId(0),
                name: "weir_cxl0".into(),
                capacity_bytes_per_sec: None,
                counter_mask_bytes: mask,
                counted_by: crate::seam::topology::CountedBy::AccessCounters,
            }],
            groups: vec![group(A), group(B)],
            ..Description::default()
        }
    }

    fn seen(id: GroupId, at_ms: u64, read: u64, write: u64) -> GroupReading {
        let at = Nanos::from_millis(at_ms);
        // The write counter is read a little later, so its rate must use its own time.
        let late = Nanos::from_millis(at_ms + at_ms / 4);
        let write_bytes = Reading::new(late, Bytes(write));
        GroupReading {
            id,
            read_bytes: Reading::new(at, Bytes(read)),
            write_bytes,
        }
    }

    #[test]
    fn each_counter_has_its_own_time() {
        let (mut meter, machine) = (Meter::default(), machine(u64::MAX));
        let first = meter.update(&machine, &[seen(A, 0, 0, 0), seen(B, 0, 0, 0)], None);
        assert_eq!(first[0].read, Err(Missing::NotYetRead));
        let rates = meter.update(
            &machine,
            &[seen(A, 1000, 500, 1250), seen(B, 1000, 1, 0)],
            None,
        );
        assert_eq!(rates[0].read, Ok(BytesPerSec::new(500.0)));
        assert_eq!(rates[0].write, Ok(BytesPerSec::new(1000.0)));
        let device = &device_rates(&machine, &rates)[0];
        assert_eq!(device.total().expect("both known").get(), 1501.0);
        assert_eq!(device.span, Nanos::from_millis(1000));
    }

    #[test]
    fn a_part_is_not_the_whole() {
        let (mut meter, machine) = (Meter::default(), machine(u64::MAX));
        let _ = meter.update(&machine, &[seen(A, 0, 0, 0), seen(B, 0, 0, 0)], None);
        let rates = meter.update(&machine, &[seen(A, 1000, 500, 0)], None);
        assert_eq!(rates[0].total(), Some(BytesPerSec::new(500.0)));
        let device = &device_rates(&machine, &rates)[0];
        assert!(matches!(device.total(), Err(Missing::Lost(why)) if why.contains("cxl0.1")));
    }

    #[test]
    fn a_narrow_counter_wraps_in_mid_run() {
        let (mut meter, machine) = (Meter::default(), machine(0xffff));
        let _ = meter.update(&machine, &[seen(A, 0, 0xfff0, 0)], None);
        let rates = meter.update(&machine, &[seen(A, 1000, 0x10, 0)], None);
        assert_eq!(rates[0].read, Ok(BytesPerSec::new(32.0)));
    }

    #[test]
    fn what_no_device_moves_is_lost_though_no_capacity_is_known() {
        let (mut meter, machine) = (Meter::default(), machine(u64::MAX));
        let mut rates = Vec::new();
        for (secs, count) in [(0, 0), (1, 100), (2, 1 << 60), (3, (1 << 60) + 300)] {
            rates.push(meter.update(&machine, &[seen(A, secs * 1000, count, 0)], None)[0].clone());
        }
        assert_eq!(rates[1].read, Ok(BytesPerSec::new(100.0)));
        assert!(matches!(&rates[2].read, Err(Missing::Lost(why)) if why.contains("no device")));
        assert_eq!(rates[3].read, Ok(BytesPerSec::new(300.0)));
        // A terabyte in a second is believed.
        let most = FASTEST_BYTES_PER_SEC;
        let rates = meter.update(
            &machine,
            &[seen(A, 4000, (1 << 60) + 300 + 1_000_000_000_000, 0)],
            None,
        );
        assert_eq!(rates[0].read, Ok(BytesPerSec::new(most)));
    }

    #[test]
    fn smoothing_follows_equation_2() {
        let (mut meter, machine) = (Meter::default(), machine(u64::MAX));
        let mut got = Vec::new();
        for (secs, count) in [(0, 0), (1, 100), (2, 100), (3, 300)] {
            let rates = meter.update(&machine, &[seen(A, secs * 1000, count, 0)], Some(0.25));
            got.extend(rates[0].read.as_ref().ok().map(|r| r.get()));
        }
        // s0 = 100; s1 = 0.75·100; s2 = 0.25·200 + 0.75·75
        assert_eq!(got, [100.0, 75.0, 106.25]);
    }

    #[test]
    fn a_device_without_groups_says_so() {
        let mut bare = machine(u64::MAX);
        bare.groups.clear();
        let rates = Meter::default().update(&bare, &[], None);
        let devices = device_rates(&bare, &rates);
        assert!(matches!(devices[0].total(), Err(Missing::NotSupported(_))));
    }
}
