// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of perf as counters of devices.

use super::pmu::{Counting, Machine, Origin, Target, targets, targets_by_scope};
use super::{Counters, Kind};
use crate::inventory::cxl::Fabric;
use crate::inventory::driver_groups::{GROUP_COUNT_MAX, class_devices, read_node, read_number};
use crate::inventory::numa::MemoryNode;
use crate::kernel::clock::now;
use crate::options::Roots;
use std::collections::BTreeMap;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::observation::{GroupReading, Multiplexing, Skipped};
use weir_core::seam::topology::{Device, Fact, Group};
use weir_core::{Bytes, BytesPerSec, DeviceId, GroupId, Missing, Nanos, NodeId, Reading};
use weir_events::Scope;

impl Counters {
    /// Says what perf could count, and where no driver counts, has it counted.
    pub(super) fn add_perf(
        &mut self,
        roots: &Roots,
        nodes: &[MemoryNode],
        capacity: Option<BytesPerSec>,
        before: &[Device],
    ) {
        let cxl: Vec<u32> = nodes.iter().map(|node| node.id.0).collect();
        let targets = perf_targets(roots, &cxl);
        self.facts.push(fact(roots, &targets));
        if !self.sources.is_empty() {
            return;
        }
        let mut devices: BTreeMap<String, Vec<Target>> = BTreeMap::new();
        for target in targets {
            devices
                .entry(target.device.clone())
                .or_default()
                .push(target);
        }
        for (number, name) in super::reopen::numbered(devices.keys(), before) {
            let targets = devices.remove(&name).unwrap_or_default();
            if let Err(why) = self.add_counting(number, &name, targets, capacity) {
                self.facts.push(Fact {
                    name: format!("perf.{name}"),
                    value: Err(why),
                    next_move: Some(crate::kernel::privilege::next_move(roots)),
                });
            }
        }
        self.request_nodes(nodes);
    }

    /// Adds a fact with the option by which the operator gives the node of each device without one.
    fn request_nodes(&mut self, nodes: &[MemoryNode]) {
        let lacks = |source: &super::DeviceSource| {
            let mut groups = self.groups.iter().filter(|g| g.id.device == source.device);
            matches!(source.kind, Kind::Perf { .. }) && groups.all(|group| group.node.is_none())
        };
        let names: Vec<&str> = self
            .sources
            .iter()
            .zip(&self.devices)
            // Memory of the driver's groups is offline where it names no node.
            .filter(|(source, device)| lacks(source) && !device.name.starts_with("weir_cxl"))
            .map(|(_, device)| device.name.as_str())
            .collect();
        if !names.is_empty() {
            let fact = super::node_join::not_of_one_node(&names.join(", "), nodes);
            self.facts.push(fact);
        }
    }

    fn add_counting(
        &mut self,
        device: DeviceId,
        name: &str,
        targets: Vec<Target>,
        capacity: Option<BytesPerSec>,
    ) -> Result<(), Missing> {
        let counting: Vec<Counting> = targets
            .into_iter()
            .map(Target::open)
            .collect::<Result<_, _>>()?;
        let group = |counting: &Counting| Group {
            id: GroupId {
                device,
                index: counting.target.group,
            },
            node: counting.target.node.map(NodeId),
            size_bytes: Bytes(0),
        };
        self.groups.extend(counting.iter().map(group));
        let count = u32::try_from(counting.len()).unwrap_or(u32::MAX);
        let kind = Kind::Perf {
            counting,
            running_ratio: 1.0,
        };
        self.add_device(device, name.to_owned(), capacity, count, kind);
        Ok(())
    }

    /// Devices with sets of events that were multiplexed at the last reading, and for which part of the time
    /// they ran.
    pub(crate) fn running(&self) -> Vec<Multiplexing> {
        let seen = |source: &super::DeviceSource| match source.kind {
            Kind::Perf { running_ratio, .. } if running_ratio < 1.0 => Some(Multiplexing {
                id: source.device,
                ratio: running_ratio,
            }),
            _ => None,
        };
        self.sources.iter().filter_map(seen).collect()
    }

    /// The scaled counters, in words for screens.
    pub(crate) fn scaled(&self) -> Vec<Skipped> {
        let note = |seen: Multiplexing| Skipped {
            what: format!("perf events of {}", seen.id),
            why: Missing::NotSupported(format!(
                "all at once: they are multiplexed and ran {:.0} % of the time; figures are scaled",
                seen.ratio * 100.0
            )),
        };
        self.running().into_iter().map(note).collect()
    }
}

/// What perf can count here. `cxl` are the nodes of CXL memory.
pub(crate) fn perf_targets(roots: &Roots, cxl: &[u32]) -> Vec<Target> {
    let groups = driver_groups(roots);
    let fabric = Fabric::read_with(roots, cxl);
    let mut targets = targets(&Machine::probe(roots), &fabric, cxl, &groups);
    name_nodes(roots, &groups, &mut targets);
    targets
}

/// The same for each kind of PMU that can count, nearest to the devices first.
pub(crate) fn perf_targets_by_scope(roots: &Roots, cxl: &[u32]) -> Vec<(Scope, Vec<Target>)> {
    let groups = driver_groups(roots);
    let fabric = Fabric::read_with(roots, cxl);
    let mut found = targets_by_scope(&Machine::probe(roots), &fabric, cxl, &groups);
    for (_, targets) in &mut found {
        name_nodes(roots, &groups, targets);
    }
    found
}

/// Groups of each device of weir's driver.
fn driver_groups(roots: &Roots) -> BTreeMap<String, u32> {
    let devices = class_devices(&roots.sys.join("class/weir_cxl")).into_iter();
    let groups = devices.filter_map(|(number, dir)| {
        let count = u32::try_from(read_number(&dir.join("group_count")).ok()?).ok()?;
        Some((format!("weir_cxl{number}"), count.min(GROUP_COUNT_MAX)))
    });
    groups.collect()
}

fn name_nodes(roots: &Roots, groups: &BTreeMap<String, u32>, targets: &mut [Target]) {
    let class = roots.sys.join("class/weir_cxl");
    for target in targets
        .iter_mut()
        .filter(|t| groups.contains_key(&t.device))
    {
        let dir = class
            .join(&target.device)
            .join(format!("group{}", target.group));
        target.node = read_node(&dir).map(|node| node.0);
    }
}

/// What perf counts, or why it does not and what to do.
fn fact(roots: &Roots, targets: &[Target]) -> Fact {
    let (value, next_move) = match (described(targets), Machine::probe(roots).obstacle()) {
        (Ok(text), _) => (Ok(text), None),
        (Err(_), Some(next_move)) => (
            Err(Missing::NotSupported(next_move.why.clone())),
            Some(next_move),
        ),
        (Err(why), None) => (
            Err(why),
            Some(see_events("`weir events` says what is lacking")),
        ),
    };
    Fact {
        name: "perf.cxl".into(),
        value,
        next_move,
    }
}

pub(super) fn next_move(roots: &Roots) -> NextMove {
    let events = Machine::probe(roots).obstacle().unwrap_or_else(|| {
        see_events("`weir events` says what this CPU and its kernel lack to count CXL traffic")
    });
    let driver = "a device with access counters of its own needs weir's driver (kernel/README.md in weir's sources)";
    NextMove {
        act: Act::Deed(format!("{events}; {driver}")),
        ..events
    }
}

fn see_events(deed: &str) -> NextMove {
    NextMove {
        act: Act::Deed(deed.into()),
        why: "no event of perf counts CXL traffic here".into(),
        needs: Precondition::Seen("there are tables of events for it".into()),
    }
}

fn described(targets: &[Target]) -> Result<String, Missing> {
    let Some(first) = targets.first() else {
        let why = "no table has an event of CXL traffic that stands here";
        return Err(Missing::NotSupported(why.into()));
    };
    let one = |way: &str, origin: &Result<Origin, Missing>| match origin {
        Ok(o) => {
            let multiplexed = match o.sets {
                1 => String::new(),
                sets => format!(", {sets} sets are multiplexed: scaled"),
            };
            format!(
                "{way} by {} ({:?}, {:?}{multiplexed})",
                o.family, o.of, o.provenance
            )
            .to_lowercase()
        }
        Err(_) => format!("{way} not"),
    };
    let count = targets.len();
    let of = match count {
        1 => first.device.clone(),
        _ => format!("{count} groups or devices"),
    };
    Ok(format!(
        "{of}: {}, {}",
        one("reads", &first.reads),
        one("writes", &first.writes)
    ))
}

/// Reads all groups of a device; gives the smallest part of the time that something ran.
pub(super) fn read(
    device: DeviceId,
    counting: &mut [Counting],
    seen: &mut Vec<GroupReading>,
) -> f64 {
    let mut smallest = 1.0f64;
    for counting in counting {
        let before = now();
        let bytes = counting.read();
        // A set is read at one moment, several one after the other.
        let at = Nanos(before.0 + now().0.saturating_sub(before.0) / 2);
        let reading = |value: Result<u64, Missing>| Reading {
            at,
            value: value.map(Bytes),
        };
        seen.push(GroupReading {
            id: GroupId {
                device,
                index: counting.target.group,
            },
            read_bytes: reading(bytes.read),
            write_bytes: reading(bytes.write),
        });
        smallest = smallest.min(bytes.running_ratio);
    }
    smallest
}
