// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wrapper over platforms made by hand, and the thread on this machine's own node 0.

use super::placement::Place;
use super::*;
use std::path::Path;
use weir_core::seam::observation::{Use, WorkloadKind};
use weir_core::{NodeId, WorkloadId};

const DEVICE: DeviceId = DeviceId(0);
const RING: u64 = 16 << 20;

fn found(mean_ns: Reading<Nanos>) -> BTreeMap<DeviceId, Found> {
    let place = Place {
        cpu: 1,
        node: 2,
        bytes: RING,
    };
    let found = Found {
        mean_ns,
        place: Ok(place),
        read_bytes: 18_432,
        taken_at: Nanos(90),
    };
    BTreeMap::from([(DEVICE, found)])
}

fn seen_at(ms: u64) -> Observation {
    Observation {
        at: Nanos::from_millis(ms),
        ..Observation::default()
    }
}

fn groups(nodes: &[u32]) -> Vec<Group> {
    let group = |(index, node): (u32, &u32)| Group {
        id: GroupId {
            device: DEVICE,
            index,
        },
        node: Some(NodeId(*node)),
        size_bytes: Bytes(1 << 30),
    };
    (0..).zip(nodes).map(group).collect()
}

#[test]
fn a_latency_comes_with_its_age_and_none_is_older_than_it_may_be() {
    let taken = |at_ms| found(Reading::new(Nanos::from_millis(at_ms), Nanos(312)));
    let mut seen = seen_at(5100);
    add_latencies(&mut seen, &taken(100));
    let latency = &seen.latencies[0];
    assert_eq!((latency.id, latency.source), (DEVICE, LatencySource::Probe));
    assert_eq!(
        latency.mean_ns,
        Reading::new(Nanos::from_millis(100), Nanos(312))
    );
    let mut late = seen_at(5101);
    add_latencies(&mut late, &taken(100));
    let why = late.latencies[0]
        .mean_ns
        .value
        .clone()
        .unwrap_err()
        .to_string();
    assert!(why.contains("nothing for 5.00 s"), "{why}");
    // Measured between the end of the observation and now.
    let mut early = seen_at(50);
    add_latencies(&mut early, &taken(60));
    assert_eq!(early.latencies[0].mean_ns.at, early.at);
}

#[test]
fn one_that_the_probe_lacks_does_not_take_another_away() {
    let by_perf = |value| LatencyReading {
        id: DEVICE,
        mean_ns: Reading::new(Nanos(1), Nanos(value)),
        source: LatencySource::PerfEvents,
    };
    let mut seen = seen_at(1);
    seen.latencies = vec![by_perf(500)];
    add_latencies(
        &mut seen,
        &found(Reading::missing(Nanos(1), Missing::NotYetRead)),
    );
    assert_eq!(seen.latencies, [by_perf(500)]);
    add_latencies(&mut seen, &found(Reading::new(Nanos(1), Nanos(312))));
    assert_eq!(seen.latencies[0].source, LatencySource::Probe);
    assert_eq!(seen.latencies.len(), 1);
}

fn workload(here: &[(u32, u64)]) -> WorkloadReading {
    let at = Nanos(1);
    let use_ = |(index, bytes): &(u32, u64)| Use {
        group: GroupId {
            device: DEVICE,
            index: *index,
        },
        resident_bytes: Reading::new(at, Bytes(*bytes)),
        sampled_read_bytes: None,
        sampled_write_bytes: None,
    };
    WorkloadReading {
        id: WorkloadId::new("/weir.service"),
        kind: WorkloadKind::Cgroup,
        cpu_ns: Reading::new(at, Nanos(0)),
        throttled_ns: Reading::new(at, Nanos(0)),
        uses: here.iter().map(use_).collect(),
        resident_bytes: Some(Bytes(40 << 20)),
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: Some(Excluded::Weir),
    }
}

#[test]
fn its_memory_is_no_use_of_the_device_and_its_bytes_are_its_own() {
    let all = groups(&[1, 2]);
    let found = found(Reading::new(Nanos(1), Nanos(312)));
    let memory = memory(&all, &found);
    assert_eq!(memory, [(all[1].id, RING)]);
    let mut weir = workload(&[(0, 5 << 20), (1, RING + 4096)]);
    take_memory_out(&mut weir, &memory);
    assert_eq!(weir.uses.len(), 1, "{:?}", weir.uses);
    assert_eq!(
        (weir.uses[0].group.index, weir.resident_bytes),
        (0, Some(Bytes(24 << 20)))
    );
    // Memory of another process in its cgroup stays.
    let mut shared = workload(&[(1, RING + (8 << 20))]);
    take_memory_out(&mut shared, &memory);
    assert_eq!(shared.uses[0].resident_bytes.ok(), Some(&Bytes(8 << 20)));
    let mut seen = seen_at(1);
    add_own(&mut seen, &memory, &found);
    assert_eq!(seen.probe_traffic[0].id, all[1].id);
    assert_eq!(
        seen.probe_traffic[0].read_bytes,
        Reading::new(Nanos(90), Bytes(18_432))
    );
}

/// A platform with one device on this node.
struct Bare(Description);

impl Platform for Bare {
    fn describe(&self) -> &Description {
        &self.0
    }
    fn observe(&mut self) -> Result<Observation, PlatformError> {
        std::thread::yield_now();
        Ok(Observation {
            at: Nanos(weir_bench::cpu::now_ns()),
            ..Observation::default()
        })
    }
    fn apply(&mut self, _: &Plan) -> Vec<Outcome> {
        Vec::new()
    }
    fn release_all(&mut self) -> Vec<Outcome> {
        Vec::new()
    }
}

fn bare(node: u32) -> Box<dyn Platform> {
    let device = weir_core::seam::topology::Device {
        id: DEVICE,
        name: "weir_cxl0".into(),
        capacity_bytes_per_sec: None,
        counter_mask_bytes: u64::MAX,
        counted_by: weir_core::seam::topology::CountedBy::Unknown,
    };
    Box::new(Bare(Description {
        devices: vec![device],
        groups: groups(&[node]),
        ..Description::default()
    }))
}

/// The probe's entry among the facts.
fn probe_fact(probed: &Probed) -> &Result<String, Missing> {
    let fact = probed
        .describe()
        .facts
        .iter()
        .find(|f| f.name == "latency.probe.cxl0");
    &fact.expect("no fact").value
}

#[test]
fn a_node_of_this_machine_is_measured() {
    let roots = Roots::beneath(Path::new("/"));
    let mut probed = Probed::start(bare(0), &roots).unwrap();
    if let Err(why) = probe_fact(&probed) {
        return eprintln!("SKIP the probe on node 0: {why}");
    }
    let seen = loop {
        let seen = probed.observe().unwrap();
        if seen.latencies[0].mean_ns.ok().is_some() {
            break seen;
        }
        assert_eq!(seen.latencies[0].mean_ns.value, Err(Missing::NotYetRead));
    };
    let mean = seen.latencies[0].mean_ns.ok().unwrap();
    assert!(mean.0 > 0 && seen.latencies[0].mean_ns.at <= seen.at);
    // Eight batches of 288 lines at least.
    let own = seen.probe_traffic[0].read_bytes.ok().unwrap();
    assert!(own.0 >= 8 * 288 * 64 && own.0 % (288 * 64) == 0, "{own}");
    assert!(
        probe_fact(&probed)
            .as_ref()
            .unwrap()
            .contains("at most 1 %")
    );
}

#[test]
fn a_node_that_is_not_there_is_a_reason_and_not_a_zero() {
    let roots = Roots::beneath(Path::new("/"));
    let mut probed = Probed::start(bare(1023), &roots).unwrap();
    let seen = probed.observe().unwrap();
    let why = seen.latencies[0]
        .mean_ns
        .value
        .clone()
        .unwrap_err()
        .to_string();
    assert!(why.contains("no node of the device is online"), "{why}");
    assert!(seen.probe_traffic.is_empty() && probe_fact(&probed).is_err());
}
