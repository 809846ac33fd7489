// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device traffic by perf: which amounts of the tables can be had here, of what, and their sets opened.
//!
//! What a count can be attributed to decides how it is divided:
//! * a group of weir's driver is a group;
//! * a device with a standard PMU is a device with one group, on its node where the tree of ports says
//!   which that is;
//! * ports and sockets are summed to one total of the machine, for the kernel does not say which port has
//!   which PMU, and a socket sees all devices. It is on a node where there is only one.
//!
//! For each way of traffic the best amount is taken that stands here: documented before raw, and as near to
//! the device as can be.

use super::bytes::{EventTerm, Meter, Share};
use super::machine::Machine;
use super::pmus::Pmu;
use super::set::Set;
use crate::inventory::cxl::Fabric;
use std::collections::BTreeMap;
use weir_core::Missing;
use weir_events::groups::sets;
use weir_events::{Amount, Config, Event, Provenance, Scope, Table, Terms, Traffic, tables};

/// Something that is counted: a group, a device, or all CXL memory of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub device: String,
    pub group: u32,
    /// Its node, where that is known.
    pub node: Option<u32>,
    /// What gives each way of traffic, or why nothing does.
    pub reads: Result<Origin, Missing>,
    pub writes: Result<Origin, Missing>,
    /// Events that count at the same time on one PMU, in the order they are opened in.
    pub(super) sets: Vec<CounterPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Origin {
    pub family: String,
    pub of: Scope,
    /// How far to trust it.
    pub provenance: Provenance,
    /// How many sets share one PMU by multiplexing.
    pub sets: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct CounterPlan {
    pmu: Pmu,
    cpu: u32,
    configs: Vec<Config>,
    parts: Vec<EventTerm>,
}

/// Bytes of a target since it was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytes {
    pub read: Result<u64, Missing>,
    pub write: Result<u64, Missing>,
    /// Smallest part of the time since the last reading that one of its sets ran: below 1 the figure is
    /// scaled.
    pub running_ratio: f64,
}

pub struct Counting {
    pub target: Target,
    sets: Vec<(String, Set, Vec<EventTerm>, Meter)>,
}

impl Target {
    /// Opens its sets, which count from then on.
    ///
    /// # Errors
    /// perf refuses one: with the PMU's name.
    pub fn open(self) -> Result<Counting, Missing> {
        let open = |plan: &CounterPlan| {
            let set = Set::open(&plan.pmu, plan.cpu, &plan.configs)?;
            Ok((
                plan.pmu.name.clone(),
                set,
                plan.parts.clone(),
                Meter::default(),
            ))
        };
        let sets = self.sets.iter().map(open).collect::<Result<_, Missing>>()?;
        Ok(Counting { target: self, sets })
    }
}

impl Counting {
    pub fn read(&mut self) -> Bytes {
        let mut running_ratio = 1.0f64;
        let mut lost = [None, None];
        let mut sums = [0u64, 0];
        for (name, set, parts, meter) in &mut self.sets {
            let share = set
                .read()
                .map_err(|e| Missing::Lost(format!("perf events of {name}: {e}")))
                .and_then(|counted| meter.advance(counted, parts));
            match share {
                Ok(Share {
                    running_ratio: ratio,
                }) => running_ratio = running_ratio.min(ratio),
                Err(why) => {
                    for part in parts.iter() {
                        lost[way(part.traffic)] = Some(why.clone());
                    }
                }
            }
            for traffic in [Traffic::Read, Traffic::Write] {
                let sum = &mut sums[way(traffic)];
                *sum = sum.wrapping_add(meter.bytes(traffic));
            }
        }
        let [read_lost, write_lost] = lost;
        let value =
            |origin: &Result<Origin, Missing>, sum, lost: Option<Missing>| match (origin, lost) {
                (Err(why), _) => Err(why.clone()),
                (Ok(_), Some(why)) => Err(why),
                (Ok(_), None) => Ok(sum),
            };
        Bytes {
            read: value(&self.target.reads, sums[0], read_lost),
            write: value(&self.target.writes, sums[1], write_lost),
            running_ratio,
        }
    }
}

fn way(traffic: Traffic) -> usize {
    match traffic {
        Traffic::Read => 0,
        Traffic::Write => 1,
    }
}

/// An amount that stands here: on which PMUs each of its events can be counted.
struct CountableAmount<'a> {
    table: &'a Table,
    amount: &'a Amount,
    events: Vec<(&'a Event, Vec<&'a Pmu>)>,
}

/// What can be counted on this machine, nearest to the devices first. `groups` are the groups of each device
/// of weir's driver, by its name; `cxl` are the nodes of CXL memory.
pub fn targets(
    machine: &Machine,
    fabric: &Fabric,
    cxl: &[u32],
    groups: &BTreeMap<String, u32>,
) -> Vec<Target> {
    let mut targets = of_groups(machine, groups);
    targets.extend(of_devices(machine, fabric, cxl));
    if targets.is_empty() {
        let mut found = best(machine, Scope::Port, |_| true);
        let socket = best(machine, Scope::Socket, |_| true);
        for (ours, theirs) in found.iter_mut().zip(socket) {
            *ours = ours.take().or(theirs);
        }
        targets.extend(of_all(cxl, &found));
    }
    targets
}

/// The same by what the PMUs see, where they can count: to hold them against each other.
pub fn targets_by_scope(
    machine: &Machine,
    fabric: &Fabric,
    cxl: &[u32],
    groups: &BTreeMap<String, u32>,
) -> Vec<(Scope, Vec<Target>)> {
    let all = |scope| {
        let found = best(machine, scope, |_| true);
        of_all(cxl, &found).into_iter().collect()
    };
    let mut found = vec![
        (Scope::Group, of_groups(machine, groups)),
        (Scope::Device, of_devices(machine, fabric, cxl)),
        (Scope::Port, all(Scope::Port)),
        (Scope::Socket, all(Scope::Socket)),
    ];
    found.retain(|(_, targets)| !targets.is_empty());
    found
}

fn of_groups(machine: &Machine, groups: &BTreeMap<String, u32>) -> Vec<Target> {
    let mut targets = Vec::new();
    for (device, count) in groups {
        let found = best(machine, Scope::Group, |pmu| pmu.name == *device);
        targets.extend((0..*count).filter_map(|group| target(device, group, None, &found)));
    }
    targets
}

fn of_devices(machine: &Machine, fabric: &Fabric, cxl: &[u32]) -> Vec<Target> {
    let mut targets = Vec::new();
    for device in &fabric.devices {
        // A device may have several; weir does not know what the others see.
        let found = best(machine, Scope::Device, |pmu| {
            device.pmus.first() == Some(&pmu.name)
        });
        let own = [device.name.clone()];
        let mut nodes = fabric
            .nodes
            .iter()
            .filter(|node| cxl.contains(&node.id) && node.devices.as_deref() == Ok(&own));
        let node = nodes
            .next()
            .map(|node| node.id)
            .filter(|_| nodes.next().is_none());
        let node = node.or(match (cxl, &fabric.devices[..]) {
            // Nothing else is possible.
            ([only], [_]) => Some(*only),
            _ => None,
        });
        targets.extend(target(&device.name, 0, node, &found));
    }
    targets
}

/// One total of the machine.
fn of_all(cxl: &[u32], found: &[Option<CountableAmount>; 2]) -> Option<Target> {
    let node = match cxl {
        [only] => Some(*only),
        _ => None,
    };
    target("all CXL memory", 0, node, found)
}

/// The best amount of reads and of writes that PMUs of a kind give.
fn best<'a>(
    machine: &'a Machine,
    of: Scope,
    is_meant: impl Fn(&Pmu) -> bool,
) -> [Option<CountableAmount<'a>>; 2] {
    [Traffic::Read, Traffic::Write].map(|traffic| {
        let amounts = tables()
            .iter()
            .flat_map(|table| table.amount.iter().map(move |a| (table, a)));
        let mut wanted: Vec<_> = amounts
            .filter(|(_, amount)| {
                amount.of == of && amount.traffic == traffic && amount.minus.is_empty()
            })
            .collect();
        wanted.sort_by_key(|(_, amount)| amount.provenance != Provenance::Documented);
        wanted.into_iter().find_map(|(table, amount)| {
            let on = |name: &String| {
                let event = table.event(name)?;
                let here = machine.standing(table, event).here;
                let pmus: Vec<&Pmu> = here
                    .into_iter()
                    .map(|(pmu, _)| pmu)
                    .filter(|p| is_meant(p))
                    .collect();
                (!pmus.is_empty()).then_some((event, pmus))
            };
            let events = amount.plus.iter().map(on).collect::<Option<_>>()?;
            Some(CountableAmount {
                table,
                amount,
                events,
            })
        })
    })
}

fn target(
    device: &str,
    group: u32,
    node: Option<u32>,
    found: &[Option<CountableAmount>; 2],
) -> Option<Target> {
    let [reads, writes] = found;
    if reads.is_none() && writes.is_none() {
        return None;
    }
    let mut target = Target {
        device: device.to_owned(),
        group,
        node,
        reads: Err(no("reads")),
        writes: Err(no("writes")),
        sets: Vec::new(),
    };
    if let Some(found) = reads {
        target.reads = Ok(add(&mut target.sets, found, group));
    }
    if let Some(found) = writes {
        target.writes = Ok(add(&mut target.sets, found, group));
    }
    Some(target)
}

fn no(what: &str) -> Missing {
    Missing::NotSupported(format!(
        "no event of this machine counts {what} of CXL memory"
    ))
}

/// Adds the sets of an amount: for each PMU and each CPU it is to be opened on.
fn add(plans: &mut Vec<CounterPlan>, found: &CountableAmount, group: u32) -> Origin {
    let mut sets_each = 1;
    let mut pmus: BTreeMap<&str, (&Pmu, Vec<&Event>)> = BTreeMap::new();
    for (event, on) in &found.events {
        for pmu in on {
            pmus.entry(&pmu.name)
                .or_insert((pmu, Vec::new()))
                .1
                .push(event);
        }
    }
    for (pmu, events) in pmus.into_values() {
        let Some(kind) = events
            .first()
            .and_then(|event| found.table.pmu.get(&event.pmu))
        else {
            continue;
        };
        let sets = sets(kind, &events);
        sets_each = sets_each.max(sets.len());
        for set in sets {
            let terms = |event: &Event| -> Terms {
                match &kind.each {
                    Some(each) => event.terms.with(each, group.into()),
                    None => event.terms.clone(),
                }
            };
            // It was encoded before, to find out whether it stands here.
            let configs: Vec<Config> = set
                .iter()
                .filter_map(|e| pmu.encode(&terms(e)).ok())
                .collect();
            let part = |event: &&Event| EventTerm {
                traffic: found.amount.traffic,
                bytes: event.bytes.unwrap_or(0).into(),
            };
            let parts: Vec<EventTerm> = set.iter().map(part).collect();
            plans.extend(pmu.cpus.iter().map(|cpu| CounterPlan {
                pmu: pmu.clone(),
                cpu: *cpu,
                configs: configs.clone(),
                parts: parts.clone(),
            }));
        }
    }
    Origin {
        family: found.table.family.clone(),
        of: found.amount.of,
        provenance: found.amount.provenance,
        sets: sets_each,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn intel(model: u32) -> Fake {
        let fake = Fake::new();
        let cpu = format!("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n");
        fake.write("proc/cpuinfo", cpu);
        fake
    }

    fn pmu(fake: &Fake, name: &str, kind: u32, cpus: &str, formats: &[(&str, &str)]) {
        let dir = format!("sys/bus/event_source/devices/{name}");
        fake.write(format!("{dir}/type"), format!("{kind}\n"));
        fake.write(format!("{dir}/cpumask"), cpus);
        for (field, format) in formats {
            fake.write(format!("{dir}/format/{field}"), format);
        }
    }

    const BOX: [(&str, &str); 2] = [("event", "config:0-7"), ("umask", "config:8-15,32-63")];

    fn found(fake: &Fake, groups: &[(&str, u32)]) -> Vec<Target> {
        let fabric = Fabric::read(&fake.roots());
        let groups = groups
            .iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect();
        let cxl: Vec<u32> = fabric.cxl_nodes().map(|node| node.id).collect();
        targets(&Machine::probe(&fake.roots()), &fabric, &cxl, &groups)
    }

    #[test]
    fn ports_of_granite_rapids_are_one_total_on_the_only_node() {
        let fake = intel(0xad);
        for port in 0..2 {
            pmu(&fake, &format!("uncore_cxlcm_{port}"), 50, "0,64\n", &BOX);
            pmu(&fake, &format!("uncore_cxldp_{port}"), 60, "0,64\n", &BOX);
        }
        let targets = found(&fake, &[]);
        let [target] = &targets[..] else {
            panic!("{targets:?}")
        };
        assert_eq!(
            (target.node, target.sets.len()),
            (Some(1), 8),
            "2 ports, 2 ways, 2 sockets"
        );
        let origin = target.reads.as_ref().unwrap();
        assert_eq!((origin.of, origin.sets), (Scope::Port, 1));
        assert_eq!(target.sets[0].configs, [Config([0x1041, 0, 0, 0])]);
        assert_eq!(target.sets[0].parts[0].bytes, 64);
    }

    #[test]
    fn reads_of_emerald_rapids_take_turns_and_writes_are_of_ports() {
        let fake = intel(0xcf);
        for cha in 0..3 {
            pmu(&fake, &format!("uncore_cha_{cha}"), 40 + cha, "0\n", &BOX);
        }
        pmu(&fake, "uncore_type_12_0", 50, "0\n", &BOX);
        let target = &found(&fake, &[])[0];
        let (reads, writes) = (
            target.reads.as_ref().unwrap(),
            target.writes.as_ref().unwrap(),
        );
        assert_eq!((reads.of, reads.sets), (Scope::Socket, 3));
        assert_eq!((writes.of, writes.sets), (Scope::Port, 1));
        let sizes: Vec<usize> = target.sets.iter().map(|set| set.configs.len()).collect();
        assert_eq!(sizes, [4, 4, 3, 4, 4, 3, 4, 4, 3, 1]);
        // PCM's 0x20C80682 of RFO, as the kernel takes it.
        let all: Vec<u64> = target
            .sets
            .iter()
            .flat_map(|s| &s.configs)
            .map(|c| c.0[0])
            .collect();
        assert!(all.contains(&0x20c8_0682_0000_0135), "{all:x?}");
    }

    #[test]
    fn groups_of_the_driver_are_groups_and_the_best_there_is() {
        let fake = intel(0xad);
        pmu(&fake, "uncore_cxlcm_0", 50, "0\n", &BOX);
        let format = [("event", "config:0-7"), ("group", "config:8-31")];
        pmu(&fake, "weir_cxl0", 90, "0\n", &format);
        let targets = found(&fake, &[("weir_cxl0", 2)]);
        let seen: Vec<_> = targets
            .iter()
            .map(|t| (t.device.as_str(), t.group))
            .collect();
        assert_eq!(seen, [("weir_cxl0", 0), ("weir_cxl0", 1)]);
        let configs: Vec<u64> = targets[1].sets.iter().map(|s| s.configs[0].0[0]).collect();
        assert_eq!(configs, [0x101, 0x102]);
    }

    #[test]
    fn a_machine_without_events_has_no_target() {
        assert_eq!(found(&intel(0x8f), &[]), []);
        // Writes alone are something, and reads say why not.
        let fake = intel(0x8f);
        pmu(&fake, "uncore_cxlcm_0", 50, "0\n", &BOX);
        let target = &found(&fake, &[])[0];
        assert!(target.writes.is_ok() && matches!(target.reads, Err(Missing::NotSupported(_))));
        assert_eq!(target.sets[0].parts[0].bytes, 32, "two entries a line");
    }
}
