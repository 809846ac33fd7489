// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::inventory::numa::Topology;
use weir_core::NodeId;

fn probe(fake: &Fake, nodes: &[MemoryNode]) -> Counters {
    Counters::probe(&fake.roots(), nodes, None)
}

fn node(id: u32) -> MemoryNode {
    MemoryNode {
        id: NodeId(id),
        size_bytes: Bytes(1 << 20),
        is_named: false,
    }
}

fn values(seen: &[GroupReading]) -> Vec<Option<(u64, u64)>> {
    seen.iter()
        .map(|g| Some((g.read_bytes.ok()?.0, g.write_bytes.ok()?.0)))
        .collect()
}

#[test]
fn the_binary_attribute_gives_all_groups_in_order() {
    let fake = Fake::new();
    fake.device(0, &[(1, 10, 20), (2, u64::MAX, 40)]);
    fake.device(12, &[(3, 5, 6)]);
    fake.write("sys/class/weir_cxl/weir_cxl01/group_count", "1\n");
    fake.write("sys/class/weir_cxl/other/group_count", "1\n");
    let mut counters = probe(&fake, &[]);
    let names: Vec<_> = counters
        .devices
        .iter()
        .map(|d| (d.id.0, d.name.as_str()))
        .collect();
    assert_eq!(names, [(0, "weir_cxl0"), (12, "weir_cxl12")]);
    let seen = counters.read(&mut Vec::new());
    assert_eq!(
        values(&seen),
        [Some((10, 20)), Some((u64::MAX, 40)), Some((5, 6))]
    );
    assert_eq!(
        counters.groups.iter().map(|g| g.id).collect::<Vec<_>>(),
        seen.iter().map(|g| g.id).collect::<Vec<_>>()
    );
    fake.counters(0, &[(1, 11, 21), (2, 0, 41)]);
    assert_eq!(
        values(&counters.read(&mut Vec::new()))[..2],
        [Some((11, 21)), Some((0, 41))]
    );
}

#[test]
fn more_groups_than_a_page_holds() {
    let fake = Fake::new();
    let many: Vec<_> = (0..1000u64).map(|n| (-1, n, n * 2)).collect();
    fake.device(0, &many);
    let mut counters = probe(&fake, &[]);
    let seen = counters.read(&mut Vec::new());
    assert_eq!(values(&seen)[999], Some((999, 1998)));
    assert!(counters.groups.iter().all(|g| g.node.is_none()));
}

#[test]
fn text_files_serve_where_the_attribute_is_missing() {
    let fake = Fake::new();
    fake.remove("sys/class/weir_cxl/weir_cxl0/counters");
    let mut counters = probe(&fake, &[]);
    assert_eq!(
        values(&counters.read(&mut Vec::new())),
        [Some((1000, 2000))]
    );
    fake.write("sys/class/weir_cxl/weir_cxl0/group0/read_bytes", "many\n");
    let seen = counters.read(&mut Vec::new());
    assert!(
        matches!(&seen[0].read_bytes.value, Err(Missing::Lost(w)) if w.contains("group0/read_bytes"))
    );
    assert!(seen[0].write_bytes.ok().is_some());
}

#[test]
fn a_short_attribute_loses_only_what_is_not_there() {
    let fake = Fake::new();
    fake.device(0, &[(1, 10, 20), (2, 30, 40)]);
    let mut counters = probe(&fake, &[]);
    fake.counters(0, &[(1, 10, 20)]);
    let seen = counters.read(&mut Vec::new());
    assert_eq!(values(&seen), [Some((10, 20)), None]);
    assert!(matches!(seen[1].read_bytes.value, Err(Missing::Lost(_))));
}

#[test]
fn a_device_that_went_away_is_lost_and_tried_again() {
    let fake = Fake::new();
    let mut counters = probe(&fake, &[]);
    // This is the state after ENODEV: the descriptor is dropped and the file is not there.
    let Kind::Attribute { fd, .. } = &mut counters.sources[0].kind else {
        panic!("no attribute")
    };
    *fd = None;
    fake.remove("sys/class/weir_cxl/weir_cxl0/counters");
    let seen = counters.read(&mut Vec::new());
    assert!(seen[0].read_bytes.value.is_err());
    fake.counters(0, &[(1, 7, 8)]);
    counters.sources[0].retry_at = now();
    assert_eq!(values(&counters.read(&mut Vec::new())), [Some((7, 8))]);
}

#[test]
fn group_counts_that_cannot_be_are_facts() {
    for count in ["0\n", "16385\n", "-1\n", "99999999999999999999\n", ""] {
        let fake = Fake::new();
        fake.write("sys/class/weir_cxl/weir_cxl0/group_count", count);
        let counters = probe(&fake, &[]);
        assert!(counters.devices.is_empty(), "{count:?}");
        assert!(counters.facts.iter().any(|f| f.value.is_err()), "{count:?}");
    }
}

const DUMP: &str = "sys/kernel/debug/cxl-counter-driver/counter-dump";

fn with_dump(lines: &str) -> Fake {
    let fake = Fake::new();
    fake.remove("sys/class/weir_cxl");
    fake.write(DUMP, format!("read write\n{lines}"));
    fake
}

fn named(id: u32) -> MemoryNode {
    MemoryNode {
        is_named: true,
        ..node(id)
    }
}

fn nodes_of(counters: &Counters) -> Vec<Option<u32>> {
    let node = |group: &Group| group.node.map(|node| node.0);
    counters.groups.iter().map(node).collect()
}

#[test]
fn the_thesis_dump_is_read() {
    let fake = with_dump("64 128\n192 256\n1 2\n");
    let mut counters = probe(&fake, &[named(5), named(2), named(3)]);
    assert_eq!(nodes_of(&counters), [Some(5), Some(2), Some(3)]);
    assert_eq!(values(&counters.read(&mut Vec::new()))[1], Some((192, 256)));
    fake.write(DUMP, "read write\n64 x\n");
    assert_eq!(values(&counters.read(&mut Vec::new())), [None, None, None]);
}

/// The module is loaded and has no device: then its file has no lines.
#[test]
fn an_empty_dump_is_no_device() {
    let counters = probe(&with_dump(""), &[node(4)]);
    assert_eq!(counters.devices[0].name, "memory-only nodes");
    assert_eq!(nodes_of(&counters), [Some(4)]);
}

/// A dump does not name nodes: its lines are joined where only one way is possible, or where `--device` names
/// the nodes.
#[test]
fn a_dump_is_never_joined_by_order_alone() {
    let (one, two) = (with_dump("64 128\n"), with_dump("64 128\n192 256\n"));
    let nodes_fact = |counters: &Counters| {
        let fact = counters
            .facts
            .iter()
            .find(|f| f.name == "cxl.counters.nodes");
        fact.map(|fact| {
            let why = fact.value.as_ref().unwrap_err();
            format!("{why}; {}", fact.next_move.as_ref().unwrap())
        })
    };
    for (fake, nodes, wanted) in [
        (&one, &[node(4)][..], &[Some(4)][..]),
        (&one, &[named(4)], &[Some(4)]),
        (&two, &[named(5), named(2)], &[Some(5), Some(2)]),
    ] {
        let counters = probe(fake, nodes);
        assert_eq!(nodes_of(&counters), wanted);
        assert_eq!(nodes_fact(&counters), None);
    }
    for (fake, nodes, wanted, here) in [
        (
            &one,
            &[node(2), node(5)][..],
            1,
            "2 nodes of CXL memory, node2, node5",
        ),
        (
            &two,
            &[node(2), node(5)],
            2,
            "2 nodes of CXL memory, node2, node5",
        ),
        (&two, &[node(2)], 2, "one node of CXL memory, node2"),
        (&two, &[named(2)], 2, "one node of CXL memory, node2"),
        (&one, &[named(2), named(5)], 1, "2 nodes of CXL memory"),
        (&one, &[], 1, "no node is CXL memory"),
    ] {
        let counters = probe(fake, nodes);
        assert_eq!(nodes_of(&counters), vec![None; wanted]);
        let said = nodes_fact(&counters).unwrap();
        assert!(
            said.contains(here) && said.contains("--device node:"),
            "{said}"
        );
        assert_eq!(
            counters.devices[0].name, "cxl-counter-driver",
            "its bytes are counted all the same"
        );
    }
}

/// A driver that gives no node gives the address: the node that has this memory block is it.
#[test]
fn groups_are_joined_by_their_addresses() {
    let fake = Fake::new();
    fake.write("sys/devices/system/node/has_memory", "0-2\n");
    fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
    fake.write("sys/devices/system/node/node1/memory33/state", "online\n");
    fake.write("sys/devices/system/node/node2/memory32/state", "online\n");
    fake.device(0, &[(-1, 1, 2), (-1, 3, 4), (-1, 5, 6)]);
    let group = |index: u32| format!("sys/class/weir_cxl/weir_cxl0/group{index}");
    for (index, base) in ["0x100000000\n", "4429185024\n", "0x1z\n"]
        .iter()
        .enumerate()
    {
        fake.write(format!("{}/base", group(index as u32)), base);
    }
    let mut counters = probe(&fake, &[]);
    assert_eq!(nodes_of(&counters), [Some(2), Some(1), None]);
    let classified = Topology::probe(&fake.roots(), &[]).classified;
    assert!(
        classified
            .iter()
            .all(|j| j.verdict.words().contains("weir_cxl0")),
        "{classified:?}"
    );
    // What its driver says goes before.
    fake.write(format!("{}/node", group(2)), "2\n");
    assert!(counters.refresh_nodes(&fake.roots()));
    assert_eq!(nodes_of(&counters), [Some(2), Some(1), Some(2)]);
}

#[test]
fn without_counters_nodes_are_groups_with_a_reason() {
    let fake = Fake::new();
    fake.remove("sys/class/weir_cxl");
    let mut counters = probe(&fake, &[node(1)]);
    assert_eq!(counters.groups[0].node, Some(NodeId(1)));
    let seen = counters.read(&mut Vec::new());
    assert!(matches!(
        seen[0].read_bytes.value,
        Err(Missing::NotSupported(_))
    ));
    assert!(counters.facts[0].next_move.is_some());
    assert!(probe(&fake, &[]).devices.is_empty());
}

#[test]
fn a_node_that_comes_online_later_is_found() {
    let fake = Fake::new();
    fake.device(0, &[(-1, 1, 2)]);
    let mut counters = probe(&fake, &[]);
    assert!(!counters.refresh_nodes(&fake.roots()));
    fake.write("sys/class/weir_cxl/weir_cxl0/group0/node", "1\n");
    assert!(counters.refresh_nodes(&fake.roots()));
    assert_eq!(counters.groups[0].node, Some(NodeId(1)));
}

/// A port's PMU that sysfs shows and the kernel does not have: perf refuses, and says what.
#[test]
fn where_perf_refuses_the_nodes_are_left_and_the_reason_is_reported() {
    let fake = Fake::new();
    fake.remove("sys/class/weir_cxl");
    let cpu = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 173\n";
    fake.write("proc/cpuinfo", cpu);
    for (name, kind) in [
        ("uncore_cxlcm_0", u32::MAX - 1),
        ("uncore_cxldp_0", u32::MAX),
    ] {
        let dir = format!("sys/bus/event_source/devices/{name}");
        fake.write(format!("{dir}/type"), format!("{kind}\n"));
        fake.write(format!("{dir}/format/event"), "config:0-7\n");
        fake.write(format!("{dir}/format/umask"), "config:8-15\n");
    }
    let roots = fake.roots();
    let nodes = Topology::probe(&roots, &[]).memory_nodes.unwrap();
    for source in [CounterSource::Auto, CounterSource::Perf] {
        let found = Counters::probe_from(&roots, &nodes, None, source);
        let fact = |name: &str| {
            found
                .facts
                .iter()
                .find(|f| f.name.starts_with(name))
                .unwrap()
        };
        let said = fact("perf.cxl").value.as_ref().unwrap();
        assert_eq!(
            said,
            "all CXL memory: reads by granite-rapids (port, documented), writes by granite-rapids (port, documented)"
        );
        let why = fact("perf.all CXL memory")
            .value
            .as_ref()
            .unwrap_err()
            .to_string();
        assert!(
            why.contains("perf_event_open on uncore_cxlcm_0, CPU 0"),
            "{why}"
        );
        assert!(fact("cxl.counters").value.is_err(), "nothing counts");
        assert_eq!(found.devices[0].name, "memory-only nodes");
        assert!(found.scaled().is_empty() && !found.are_counted());
    }
}

/// The driver's files come first, and perf is only mentioned. With `--counters perf` the driver is not read.
#[test]
fn the_driver_goes_before_perf_unless_perf_is_requested() {
    let fake = Fake::new();
    let roots = fake.roots();
    let nodes = Topology::probe(&roots, &[]).memory_nodes.unwrap();
    let auto = Counters::probe_from(&roots, &nodes, None, CounterSource::Auto);
    assert_eq!(auto.devices[0].name, "weir_cxl0");
    assert!(
        auto.facts
            .iter()
            .any(|f| f.name == "perf.cxl" && f.value.is_err())
    );
    let perf = Counters::probe_from(&roots, &nodes, None, CounterSource::Perf);
    assert_eq!(perf.devices[0].name, "memory-only nodes");
    let driver = Counters::probe_from(&roots, &nodes, None, CounterSource::Driver);
    assert!(driver.facts.iter().all(|f| f.name != "perf.cxl"));
}
