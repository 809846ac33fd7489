// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The most that a device can move, by its PCIe link, and counts held against it
//! ([`weir_core::rates::count_check`]).
//!
//! `current_link_speed` and `current_link_width` of the device's PCI function (kernel,
//! `Documentation/ABI/testing/sysfs-bus-pci`) say what the link carries in each direction. Counters that are
//! not of one PCI device (those of a socket) have the bound that all devices have.

use super::Counters;
use crate::kernel::files::read_path;
use crate::kernel::parse::decimal;
use crate::options::Roots;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use weir_core::rates::count_check::{CountCheck, FASTEST_BYTES_PER_SEC};
use weir_core::seam::observation::{GroupReading, Skipped};
use weir_core::seam::topology::{Device, Fact};
use weir_core::{Bytes, DeviceId, GroupId, Missing, Reading};

/// The time of a reading may be off by as long as a tick's reads take, and counters may be read late: a link
/// is believed twice what it carries.
const MARGIN: f64 = 2.0;
/// A capacity that an operator states is a nominal figure, which a device may exceed: counts are believed up
/// to this many times it.
const CAPACITY_MARGIN: f64 = 8.0;
/// Transfers per second and lanes that PCIe knows (6.0: 64 GT/s).
const GIGATRANSFERS_MAX: f64 = 256.0;
const LANES_MAX: u64 = 32;

/// The counters of all groups, each with its bound.
#[derive(Default)]
pub(crate) struct Bounds {
    most_per_sec: BTreeMap<DeviceId, f64>,
    /// The checks of its reads and of its writes.
    gates: BTreeMap<GroupId, [CountCheck; 2]>,
}

impl Bounds {
    /// The bounds of these devices. What is known of their links becomes facts.
    pub(crate) fn of(roots: &Roots, devices: &[Device], facts: &mut Vec<Fact>) -> Self {
        let mut most_per_sec = BTreeMap::new();
        for device in devices {
            let link = link_of(roots, &device.name);
            let mut most = FASTEST_BYTES_PER_SEC;
            if let Some(link) = &link {
                most = most.min(link.bytes_per_sec() * MARGIN);
                facts.push(Fact {
                    name: format!("cxl.link.{}", device.name),
                    value: Ok(link.said()),
                    next_move: None,
                });
            }
            if let Some(capacity) = device.capacity_bytes_per_sec {
                most = most.min(capacity.get() * CAPACITY_MARGIN);
            }
            most_per_sec.insert(device.id, most);
        }
        Bounds {
            most_per_sec,
            gates: BTreeMap::new(),
        }
    }

    /// Goes on with the bounds of a machine that was probed anew. Counts of devices that are not `kept` are
    /// another counter's from now on.
    pub(crate) fn follow(&mut self, new: Bounds, kept: &BTreeSet<DeviceId>) {
        self.most_per_sec = new.most_per_sec;
        self.gates
            .retain(|group, _| self.most_per_sec.contains_key(&group.device));
        for (group, gates) in &mut self.gates {
            if !kept.contains(&group.device) {
                gates.iter_mut().for_each(CountCheck::change_counter);
            }
        }
    }

    /// Reads all counters, without what cannot be, and gives what is to be said of that.
    pub(crate) fn read(
        &mut self,
        counters: &mut Counters,
        space: &mut Vec<u8>,
    ) -> (Vec<GroupReading>, Vec<Skipped>) {
        let mut groups = counters.read(space);
        let dropped = self.hold(&mut groups);
        (groups, dropped)
    }

    /// Takes impossible counts out of an observation: those readings are lost. Gives what is to be logged of
    /// them.
    fn hold(&mut self, groups: &mut [GroupReading]) -> Vec<Skipped> {
        let mut dropped = Vec::new();
        for group in groups {
            let device = self.most_per_sec.get(&group.id.device);
            let most = device.copied().unwrap_or(FASTEST_BYTES_PER_SEC);
            let [read, write] = self.gates.entry(group.id).or_default();
            let mut pass = |gate: &mut CountCheck, reading: &mut Reading<Bytes>, what: &str| {
                let was_there = reading.value.is_ok();
                let at = reading.at;
                let old = std::mem::replace(reading, Reading::missing(at, Missing::NotYetRead));
                *reading = gate.pass(most, old);
                if let (true, Err(why)) = (was_there, &reading.value) {
                    dropped.push(Skipped {
                        what: format!("counter of {what} of {}", group.id),
                        why: why.clone(),
                    });
                }
            };
            pass(read, &mut group.read_bytes, "reads");
            pass(write, &mut group.write_bytes, "writes");
        }
        dropped
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Link {
    gigatransfers_per_sec: f64,
    lanes: u64,
}

impl Link {
    /// In each direction, before what the encoding takes (a few percent, which the margin covers).
    fn bytes_per_sec(&self) -> f64 {
        self.gigatransfers_per_sec * 1e9 / 8.0 * self.lanes as f64
    }

    fn said(&self) -> String {
        format!(
            "{} GT/s, {} lanes: {:.1} GB/s in each direction; counts above twice that are dropped",
            self.gigatransfers_per_sec,
            self.lanes,
            self.bytes_per_sec() / 1e9
        )
    }
}

/// The link of a device of this name. The name is a counter driver's or that of the kernel's CXL bus (`mem0`,
/// and then the parent is the PCI function).
fn link_of(roots: &Roots, name: &str) -> Option<Link> {
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let of_class = roots.sys.join("class/weir_cxl").join(name).join("device");
    let of_bus = roots.sys.join("bus/cxl/devices").join(name).join("..");
    [of_class, of_bus].iter().find_map(|dir| read_link(dir))
}

fn read_link(dir: &Path) -> Option<Link> {
    let text = |name: &str| read_path(&PathBuf::from(dir).join(name)).ok();
    let speed = text("current_link_speed")?;
    let speed = std::str::from_utf8(&speed).ok()?;
    // "32.0 GT/s PCIe", on older kernels "8 GT/s"; "Unknown" for a link that is down.
    let (number, unit) = speed.trim().split_once(' ')?;
    let speed: f64 = number.parse().ok().filter(|_| unit.starts_with("GT/s"))?;
    let lanes = decimal(&text("current_link_width")?).ok()?;
    let is_sound = speed > 0.0 && speed <= GIGATRANSFERS_MAX && (1..=LANES_MAX).contains(&lanes);
    is_sound.then_some(Link {
        gigatransfers_per_sec: speed,
        lanes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use weir_core::seam::topology::CountedBy;
    use weir_core::{BytesPerSec, Nanos};

    const PCI: &str = "sys/devices/pci0000:16/0000:17:00.0";

    fn device(name: &str, capacity: Option<f64>) -> Device {
        Device {
            id: DeviceId(0),
            name: name.into(),
            capacity_bytes_per_sec: capacity.map(BytesPerSec::new),
            counter_mask_bytes: u64::MAX,
            counted_by: CountedBy::AccessCounters,
        }
    }

    fn linked(speed: &str, width: &str) -> Fake {
        let fake = Fake::new();
        fake.write(format!("{PCI}/current_link_speed"), speed);
        fake.write(format!("{PCI}/current_link_width"), width);
        std::os::unix::fs::symlink(
            fake.path(PCI),
            fake.path("sys/class/weir_cxl/weir_cxl0/device"),
        )
        .unwrap();
        fake
    }

    fn bounds(fake: &Fake, device: Device) -> (Bounds, Vec<Fact>) {
        let mut facts = Vec::new();
        let bounds = Bounds::of(&fake.roots(), &[device], &mut facts);
        (bounds, facts)
    }

    fn most(fake: &Fake, device: Device) -> f64 {
        bounds(fake, device).0.most_per_sec[&DeviceId(0)]
    }

    #[test]
    fn a_link_bounds_its_device() {
        let fake = linked("32.0 GT/s PCIe\n", "8\n");
        let (bounds, facts) = bounds(&fake, device("weir_cxl0", None));
        assert_eq!(bounds.most_per_sec[&DeviceId(0)], 2.0 * 32e9);
        assert_eq!(facts[0].name, "cxl.link.weir_cxl0");
        let said = facts[0].value.as_ref().unwrap();
        assert!(said.starts_with("32 GT/s, 8 lanes: 32.0 GB/s"), "{said}");
        // A capacity below it counts too, and none of it makes a bound larger.
        assert_eq!(most(&fake, device("weir_cxl0", Some(1e9))), 8e9);
        assert_eq!(most(&fake, device("weir_cxl0", Some(1e12))), 64e9);
    }

    #[test]
    fn a_device_of_the_cxl_bus_has_the_link_of_its_parent() {
        let fake = linked("16.0 GT/s PCIe\n", "16\n");
        fake.write(format!("{PCI}/mem0/serial"), "0x1\n");
        std::fs::create_dir_all(fake.path("sys/bus/cxl/devices")).unwrap();
        let link = fake.path("sys/bus/cxl/devices/mem0");
        std::os::unix::fs::symlink(fake.path(format!("{PCI}/mem0")), link).unwrap();
        assert_eq!(most(&fake, device("mem0", None)), 2.0 * 32e9);
    }

    #[test]
    fn what_is_no_link_bounds_nothing() {
        for (speed, width) in [
            ("Unknown\n", "16\n"),
            ("32.0 GT/s PCIe\n", "0\n"),
            ("32.0 GT/s PCIe\n", "255\n"),
            ("1e30 GT/s\n", "16\n"),
            ("NaN GT/s\n", "16\n"),
            ("-5 GT/s\n", "16\n"),
            ("32.0 furlongs\n", "16\n"),
            ("\u{1b}[2J\n", "x\n"),
            ("", ""),
        ] {
            let fake = linked(speed, width);
            let (bounds, facts) = bounds(&fake, device("weir_cxl0", None));
            assert_eq!(
                bounds.most_per_sec[&DeviceId(0)],
                1e12,
                "{speed:?} {width:?}"
            );
            assert!(facts.is_empty());
        }
        assert_eq!(most(&Fake::new(), device("../../../etc", None)), 1e12);
    }

    #[test]
    fn a_dropped_reading_is_reported() {
        let fake = linked("32.0 GT/s PCIe\n", "16\n");
        let (mut bounds, _) = bounds(&fake, device("weir_cxl0", None));
        let id = GroupId {
            device: DeviceId(0),
            index: 0,
        };
        let mut read_at = |ms, read, write| {
            let at = Nanos::from_millis(ms);
            let mut groups = [GroupReading {
                id,
                read_bytes: Reading::new(at, Bytes(read)),
                write_bytes: Reading::new(at, Bytes(write)),
            }];
            let said = bounds.hold(&mut groups);
            let [group] = groups;
            (group, said)
        };
        assert!(read_at(100, 0, 0).1.is_empty());
        let (seen, said) = read_at(200, 1 << 60, 5);
        assert_eq!(seen.write_bytes.value, Ok(Bytes(5)));
        assert!(matches!(seen.read_bytes.value, Err(Missing::Lost(_))));
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].what, "counter of reads of cxl0.0");
        assert!(
            said[0].why.to_string().contains("at most 128 GB/s"),
            "{said:?}"
        );
        assert!(read_at(300, 64, 6).1.is_empty());
    }
}
