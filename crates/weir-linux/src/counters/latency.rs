// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency by events of the CPU, as a fact and as a part of each observation. The events are those of
//! [`crate::counters::pmu::latency`]. Which device their figure belongs to is decided here.

use super::Counters;
use super::pmu::latency::{LatencyCounters, Waits, find};
use crate::inventory::numa::Topology;
use crate::options::Roots;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::Fact;
use weir_core::{DeviceId, Missing};

const NAME: &str = "latency.source";

/// The source of latency on this machine, and its device.
fn found(
    roots: &Roots,
    topology: &Topology,
    counters: &Counters,
) -> Result<(LatencyCounters, DeviceId), Missing> {
    let source = find(roots)?;
    let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
    let has = |node| counters.groups.iter().any(|g| g.node == Some(node));
    match &counters.devices[..] {
        [only] if nodes.iter().all(|node| has(node.id)) => Ok((source, only.id)),
        _ => Err(Missing::NotSupported(format!(
            "{} sees all CXL memory as one, and here are several devices or nodes",
            source.name
        ))),
    }
}

pub(crate) fn fact(roots: &Roots, topology: &Topology, counters: &Counters) -> Fact {
    fact_of(
        found(roots, topology, counters)
            .map(|(source, device)| format!("{device}: {}", source.name)),
    )
}

fn fact_of(value: Result<String, Missing>) -> Fact {
    let next_move = value.is_err();
    Fact {
        name: NAME.into(),
        value,
        next_move: next_move.then(|| NextMove {
            act: Act::Deed("weir run --probe measures it by a few loads of its own".into()),
            why: "no event counts how long loads of exactly one device wait".into(),
            needs: Precondition::Operator("the device has free memory".into()),
        }),
    }
}

/// Opens the events, where there are any for exactly one device. The result stands among the facts.
pub(crate) fn open(
    roots: &Roots,
    topology: &Topology,
    counters: &Counters,
    facts: &mut [Fact],
) -> Option<Waits> {
    let (source, device) = found(roots, topology, counters).ok()?;
    match source.open(device) {
        Ok(waits) => Some(waits),
        Err(why) => {
            if let Some(fact) = facts.iter_mut().find(|fact| fact.name == NAME) {
                *fact = fact_of(Err(why));
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::options::CounterSource;

    fn said(fake: &Fake) -> Result<String, Missing> {
        let (roots, capacity) = (fake.roots(), None);
        let topology = Topology::probe(&roots, &[]);
        let nodes = topology.memory_nodes.clone().unwrap_or_default();
        let counters = Counters::probe_from(&roots, &nodes, capacity, CounterSource::Auto);
        fact(&roots, &topology, &counters).value
    }

    #[test]
    fn a_socket_counts_for_a_device_only_where_there_is_one() {
        let fake = Fake::new();
        fake.write(
            "proc/cpuinfo",
            "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 173\n",
        );
        let cha = "sys/bus/event_source/devices/uncore_cha_0";
        fake.write(format!("{cha}/type"), "40\n");
        fake.write(format!("{cha}/format/event"), "config:0-7\n");
        fake.write(format!("{cha}/format/umask"), "config:8-15,32-63\n");
        let one = said(&fake).unwrap();
        assert!(
            one.starts_with("cxl0: ") && one.contains("OCCUPANCY"),
            "{one}"
        );
        // A node that no device of ours has.
        fake.write("sys/devices/system/node/has_memory", "0-2\n");
        fake.write(
            "sys/devices/system/node/node2/meminfo",
            "Node 2 MemTotal: 1024 kB\n",
        );
        let two = said(&fake).unwrap_err().to_string();
        assert!(two.contains("sees all CXL memory as one"), "{two}");
    }
}
