// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::options::{By, Options};
use crate::platform::readings::moved_groups::MovedGroups;
use crate::workloads::discovery::View;
use weir_core::seam::observation::GroupReading;
use weir_core::seam::plan::{ActionKind, Limit, OutcomeKind};
use weir_core::{
    Action, Bytes, CpuShare, DeviceId, GroupId, Observation, Plan, Platform, Reading, State,
    WorkloadId, step,
};

const FIO: &str = "/system.slice/fio.service";
const LATE: &str = "/system.slice/stress.service";

fn open(fake: &Fake) -> LinuxPlatform {
    LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap()
}

/// A tick at which names of devices are scanned too.
fn observed(platform: &mut LinuxPlatform) -> Observation {
    platform.hurry();
    platform.observe().unwrap()
}

/// Node 2 comes online, with memory of a service on it.
fn node_comes(fake: &Fake) {
    fake.write("sys/devices/system/node/has_memory", "0-2\n");
    let meminfo = "Node 2 MemTotal: 524288 kB\n";
    fake.write("sys/devices/system/node/node2/meminfo", meminfo);
    fake.numa_maps(101, &[("anon=1", 2, 4096)]);
}

fn node_goes(fake: &Fake) {
    fake.write("sys/devices/system/node/has_memory", "0-1\n");
    fake.remove("sys/devices/system/node/node2");
    fake.numa_maps(101, &[]);
}

fn names(platform: &LinuxPlatform) -> Vec<&str> {
    let devices = platform.description.devices.iter();
    devices.map(|device| device.name.as_str()).collect()
}

fn groups_of(seen: &Observation, id: &str) -> Vec<String> {
    let workload = seen.workloads.iter().find(|w| w.id.as_str() == id).unwrap();
    workload.uses.iter().map(|u| u.group.to_string()).collect()
}

fn whats(seen: &Observation) -> Vec<&str> {
    seen.skipped.iter().map(|skip| skip.what.as_str()).collect()
}

#[test]
fn a_device_that_comes_joins_with_its_node_and_its_users() {
    let fake = Fake::new();
    let mut platform = open(&fake);
    assert_eq!(groups_of(&observed(&mut platform), FIO), ["cxl0.0"]);
    node_comes(&fake);
    fake.device(1, &[(2, 500, 600)]);
    let seen = observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0", "weir_cxl1"]);
    assert_eq!(seen.groups.len(), 2);
    assert_eq!(seen.groups[1].read_bytes.ok(), Some(&Bytes(500)));
    assert_eq!(groups_of(&seen, LATE), ["cxl1.0"]);
    assert_eq!(groups_of(&seen, FIO), ["cxl0.0"]);
    assert!(seen.skipped.is_empty(), "{:?}", seen.skipped);
    let facts = &platform.describe().facts;
    let found = |name: &str| facts.iter().filter(|fact| fact.name == name).count();
    for name in [
        "cxl.counters.weir_cxl1",
        "numa.node2",
        "residency.source",
        "attribution.source",
        "kernel.tick",
    ] {
        assert_eq!(found(name), 1, "{name}");
    }
}

#[test]
fn a_device_that_goes_is_nobodys_and_breaks_nothing() {
    let fake = Fake::new();
    node_comes(&fake);
    fake.device(1, &[(2, 500, 600)]);
    let mut platform = open(&fake);
    assert_eq!(groups_of(&observed(&mut platform), LATE), ["cxl1.0"]);
    fake.remove("sys/class/weir_cxl/weir_cxl1");
    node_goes(&fake);
    let seen = observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0"]);
    assert_eq!(seen.groups.len(), 1);
    assert!(groups_of(&seen, LATE).is_empty());
    assert!(seen.skipped.is_empty(), "{:?}", seen.skipped);
    // The last one too.
    fake.remove("sys/class/weir_cxl/weir_cxl0");
    fake.write("sys/devices/system/node/has_memory", "0\n");
    let seen = observed(&mut platform);
    assert!(names(&platform).is_empty() && seen.groups.is_empty());
    let mut state = State::default();
    let config = weir_core::Config::default();
    let plan = step(&mut state, &config, platform.describe(), &seen);
    assert!(plan.devices.is_empty());
}

#[test]
fn a_node_without_counters_is_told_until_they_come() {
    let fake = Fake::new();
    let mut platform = open(&fake);
    node_comes(&fake);
    for _ in 0..3 {
        let seen = observed(&mut platform);
        assert_eq!(whats(&seen), ["node2"]);
        assert!(groups_of(&seen, LATE).is_empty());
    }
    fake.device(1, &[(2, 0, 0)]);
    let seen = observed(&mut platform);
    assert_eq!(whats(&seen), [""; 0]);
    assert_eq!(groups_of(&seen, LATE), ["cxl1.0"]);
    // Without them again, and then without the node too.
    fake.remove("sys/class/weir_cxl/weir_cxl1");
    assert_eq!(whats(&observed(&mut platform)), ["node2"]);
    node_goes(&fake);
    assert_eq!(whats(&observed(&mut platform)), [""; 0]);
}

#[test]
fn counters_that_come_after_their_node_are_taken_up() {
    let fake = Fake::new();
    fake.remove("sys/class");
    let mut platform = open(&fake);
    assert_eq!(names(&platform), ["memory-only nodes"]);
    assert!(observed(&mut platform).groups[0].read_bytes.ok().is_none());
    fake.device(0, &[(1, 7, 8)]);
    let seen = observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0"]);
    assert_eq!(seen.groups[0].read_bytes.ok(), Some(&Bytes(7)));
    assert_eq!(groups_of(&seen, FIO), ["cxl0.0"]);
}

#[test]
fn files_may_come_after_their_directory() {
    let fake = Fake::new();
    let mut platform = open(&fake);
    fake.write("sys/class/weir_cxl/weir_cxl1/version", "1\n");
    observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0"]);
    node_comes(&fake);
    fake.device(1, &[(2, 0, 0)]);
    observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0", "weir_cxl1"]);
}

/// Two kinds of counters with one number: their counts have nothing to do with one another.
#[test]
fn counts_of_another_counter_go_on_from_where_they_were() {
    let fake = Fake::new();
    fake.remove("sys/class");
    let dump = "sys/kernel/debug/cxl-counter-driver/counter-dump";
    fake.write(dump, "read write\n100000 200000\n");
    let mut platform = open(&fake);
    let seen = observed(&mut platform);
    let before = *seen.groups[0]
        .read_bytes
        .ok()
        .unwrap_or_else(|| panic!("{seen:?}"));
    fake.device(0, &[(1, 5, 6)]);
    let seen = observed(&mut platform);
    assert_eq!(names(&platform), ["weir_cxl0"]);
    assert!(seen.groups[0].read_bytes.ok().is_none(), "{seen:?}");
    fake.counters(0, &[(1, 5 + 64, 6)]);
    let seen = observed(&mut platform);
    assert_eq!(seen.groups[0].read_bytes.ok(), Some(&Bytes(before.0 + 64)));
}

#[test]
fn limits_stay_when_a_device_comes() {
    let fake = Fake::new();
    let mut platform = open(&fake);
    observed(&mut platform);
    let plan = |kind| Plan {
        actions: vec![Action {
            workload: WorkloadId::new(FIO),
            kind,
        }],
        ..Plan::default()
    };
    let cpus = CpuShare::new(0.5);
    let limited = platform.apply(&plan(ActionKind::Limit(Limit::CpuTime { cpus })));
    assert_eq!(limited[0].result, OutcomeKind::Applied);
    let path = format!("sys/fs/cgroup{FIO}/cpu.max");
    let before = fake.read(&path);
    node_comes(&fake);
    fake.device(1, &[(2, 0, 0)]);
    observed(&mut platform);
    platform.apply(&Plan::default());
    assert_eq!(fake.read(&path), before);
    platform.release_all();
    assert_eq!(fake.read(&path).trim(), "max 100000");
}

#[test]
fn what_cannot_be_taken_over_is_told_with_what_to_do() {
    let fake = Fake::new();
    let options = Options {
        backend: Backend::Auto,
        ..fake.options(By::Cgroup)
    };
    let mut platform = LinuxPlatform::open_inline(options).unwrap();
    observed(&mut platform);
    fake.write("sys/kernel/sched_ext/state", "disabled\n");
    std::fs::rename(fake.path("sys/fs/cgroup"), fake.path("below")).unwrap();
    fake.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    for _ in 0..3 {
        let seen = observed(&mut platform);
        for what in ["cgroups", "sched_ext"] {
            let found: Vec<_> = seen.skipped.iter().filter(|s| s.what == what).collect();
            assert_eq!(found.len(), 1, "{seen:?}");
            assert!(found[0].why.reason().contains("restart weir"), "{found:?}");
        }
    }
}

#[test]
fn what_comes_and_goes_leaves_nothing_behind() {
    let fake = Fake::new();
    let mut platform = open(&fake);
    let start = observed(&mut platform);
    let facts = platform.describe().facts.len();
    for _ in 0..20 {
        node_comes(&fake);
        fake.device(1, &[(2, 0, 0)]);
        assert_eq!(observed(&mut platform).groups.len(), 2);
        fake.remove("sys/class/weir_cxl/weir_cxl1");
        node_goes(&fake);
        assert_eq!(observed(&mut platform).groups.len(), 1);
    }
    let end = observed(&mut platform);
    assert_eq!(platform.describe().facts.len(), facts);
    assert_eq!(whats(&end), whats(&start));
    assert_eq!(
        end.groups,
        start
            .groups
            .iter()
            .zip(&end.groups)
            .map(|(a, b)| at(a, b))
            .collect::<Vec<_>>()
    );
}

/// The same reading at another time.
fn at(reading: &GroupReading, time: &GroupReading) -> GroupReading {
    let moved = |old: &Reading<Bytes>, new: &Reading<Bytes>| Reading {
        at: new.at,
        value: old.value.clone(),
    };
    GroupReading {
        id: reading.id,
        read_bytes: moved(&reading.read_bytes, &time.read_bytes),
        write_bytes: moved(&reading.write_bytes, &time.write_bytes),
    }
}

#[test]
fn nobody_is_charged_for_another_node_while_it_is_not_known_who_is_on_it() {
    let group = |index, node| Group {
        id: GroupId {
            device: DeviceId(0),
            index,
        },
        node: Some(NodeId(node)),
        size_bytes: Bytes(1),
    };
    let (before, now) = ([group(0, 1), group(1, 2)], [group(0, 2), group(1, 2)]);
    let mut moved = MovedGroups::default();
    moved.follow(&before, &now, 1);
    let fake = Fake::new();
    let mut platform = open(&fake);
    let seen = observed(&mut platform);
    assert_eq!(groups_of(&seen, FIO), ["cxl0.0"]);
    let withheld = |moved: &MovedGroups| {
        let groups = moved.without_counts(seen.groups.clone());
        (groups, moved.without_uses(seen.workloads.clone()))
    };
    moved.settle(&View::default());
    let (groups, workloads) = withheld(&moved);
    assert!(workloads.iter().all(|workload| workload.uses.is_empty()));
    assert_eq!(groups[0].read_bytes.value, Err(Missing::NotYetRead));
    moved.settle(&View {
        watched: 1,
        ..View::default()
    });
    assert_eq!(
        withheld(&moved),
        (seen.groups.clone(), seen.workloads.clone())
    );
}
