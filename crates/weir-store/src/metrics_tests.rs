// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use std::sync::Arc;
use weir_core::rates::attribution::{Estimate, Provenance};
use weir_core::seam::observation::{GroupReading, Reading};
use weir_core::seam::observation::{Missing, Multiplexing, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::{
    Action, ActionKind, Decision, DeviceState, DirectionTraffic, Outcome, OutcomeKind,
    TrafficBreakdown, Why,
};
use weir_core::seam::topology::CountedBy;
use weir_core::seam::topology::{Description, Device, Group};
use weir_core::{Bytes, BytesPerSec, DeviceId, NodeId, Observation, Plan};
use weir_core::{GroupId, Nanos, WorkloadId};

const GROUP: GroupId = GroupId {
    device: DeviceId(3),
    index: 0,
};

/// The page for a device with counts that were read by `counted_by`.
fn said(counted_by: CountedBy, running: Vec<Multiplexing>) -> String {
    let mut totals = Totals::default();
    let seen = Observation {
        groups: vec![GroupReading {
            id: GROUP,
            read_bytes: Reading::new(Nanos(1), Bytes(64)),
            write_bytes: Reading::new(Nanos(1), Bytes(0)),
        }],
        running,
        ..Observation::default()
    };
    totals.add(&seen, &Plan::default(), &[]);
    let device = Device {
        id: DeviceId(3),
        name: "cxl_pmu".into(),
        capacity_bytes_per_sec: None,
        counter_mask_bytes: u64::MAX,
        counted_by,
    };
    let group = Group {
        id: GROUP,
        node: Some(NodeId(2)),
        size_bytes: Bytes(0),
    };
    let snapshot = Snapshot {
        description: Description {
            devices: vec![device],
            groups: vec![group],
            ..Description::default()
        },
        ..Snapshot::empty()
    };
    metrics(&snapshot, &totals, None, Dialect::Prometheus)
}

#[track_caller]
fn has(page: &str, line: &str) {
    assert!(page.lines().any(|l| l == line), "no '{line}' in\n{page}");
}

#[test]
fn counts_say_what_counted_them_and_for_how_much_of_the_time() {
    let scaling = "weir_event_scaling_ratio{device=\"cxl3\",group=\"0\",event=\"read_bytes\"}";
    let source = "weir_source_info{device=\"cxl3\",backend=";
    let page = said(CountedBy::AccessCounters, vec![]);
    has(&page, &format!("{scaling} 1"));
    has(
        &page,
        &format!("{source}\"access_counters\",quality=\"counted\"}} 1"),
    );
    let multiplexed = Multiplexing {
        id: DeviceId(3),
        ratio: 0.25,
    };
    let page = said(CountedBy::PerfEvents, vec![multiplexed]);
    has(&page, &format!("{scaling} 0.25"));
    has(
        &page,
        &format!("{source}\"perf_events\",quality=\"scaled\"}} 1"),
    );
    let page = said(CountedBy::Unknown, vec![]);
    has(
        &page,
        &format!("{source}\"unknown\",quality=\"unknown\"}} 1"),
    );
}

/// What is said of a cgroup of this id.
fn said_of(id: &str) -> String {
    let workload = WorkloadReading {
        cpu_ns: Reading::new(Nanos(1), Nanos::from_millis(1500)),
        ..reading_of(id, Nanos(1))
    };
    let verdict = Decision {
        id: WorkloadId::new(id),
        bandwidth: Estimate {
            bytes_per_sec: BytesPerSec::new(100.0),
            provenance: Provenance::Counted,
        },
        traffic: None,
        fair: None,
        cpu_cpus: None,
        intensity_bytes_per_cpu_sec: None,
        allowed_bytes_per_sec: None,
        limit_cpus: Some(weir_core::CpuShare::new(0.5)),
        limited_weight: None,
        throttled_ns: None,
        why: Why::Learning,
    };
    let plan = Plan {
        workloads: vec![verdict],
        ..Plan::default()
    };
    let mut totals = Totals::default();
    for secs in [1, 2] {
        let seen = Observation {
            at: Nanos::from_millis(secs * 1000),
            workloads: vec![workload.clone()],
            ..Observation::default()
        };
        totals.add(&seen, &plan, &[]);
    }
    let snapshot = Snapshot {
        plan,
        ..Snapshot::empty()
    };
    metrics(&snapshot, &totals, None, Dialect::OpenMetrics)
}

/// cadvisor has the same text in its label `id`: systemd's escapes are part of the name. In the text a
/// backslash is written twice.
#[test]
fn a_cgroups_label_is_its_path_as_the_kernel_has_it() {
    let page = said_of(r"/machine.slice/machine-qemu\x2d1\x2dvm.scope");
    let labels = r#"cgroup="/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",machine="qemu-1-vm""#;
    has(
        &page,
        &format!("weir_cgroup_cxl_bytes_total{{{labels},source=\"counted\"}} 100"),
    );
    has(
        &page,
        &format!("weir_cgroup_cpu_seconds_total{{{labels}}} 1.5"),
    );
    has(&page, &format!("weir_cgroup_limit_cpus{{{labels}}} 0.5"));
    let page = said_of("/system.slice/fio.service");
    has(
        &page,
        "weir_cgroup_limit_cpus{cgroup=\"/system.slice/fio.service\"} 0.5",
    );
}

#[test]
fn pods_and_containers_have_labels_to_join_with() {
    let id = "0d1f".repeat(16);
    let uid = "2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
    let systemd = format!(
        "/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{id}.scope",
        uid.replace('-', "_")
    );
    for path in [format!("/kubepods/pod{uid}/{id}"), systemd] {
        let labels = format!("cgroup=\"{path}\",pod_uid=\"{uid}\",container_id=\"{id}\"");
        has(
            &said_of(&path),
            &format!("weir_cgroup_limit_cpus{{{labels}}} 0.5"),
        );
    }
}

#[test]
fn readings_that_were_lost_are_counted() {
    let mut totals = Totals::default();
    let lost = Missing::Lost("it went on by 2^60 bytes".into());
    for ms in [50, 100, 150] {
        let at = Nanos::from_millis(ms);
        let read_bytes = match ms {
            100 => Reading::missing(at, lost.clone()),
            _ => Reading::new(at, Bytes(ms)),
        };
        let seen = Observation {
            at,
            groups: vec![GroupReading {
                id: GROUP,
                read_bytes,
                write_bytes: Reading::missing(at, Missing::NotPermitted("x".into())),
            }],
            ..Observation::default()
        };
        totals.add(&seen, &Plan::default(), &[]);
    }
    let page = metrics(&Snapshot::empty(), &totals, None, Dialect::OpenMetrics);
    let lost = "weir_cxl_lost_readings_total{device=\"cxl3\",group=\"0\",event=";
    has(&page, &format!("{lost}\"read_bytes\"}} 1"));
    has(&page, &format!("{lost}\"write_bytes\"}} 0"));
    has(
        &page,
        "weir_cxl_read_bytes_total{device=\"cxl3\",group=\"0\",node=\"\"} 150",
    );
}

/// A tick a second of a cgroup that reads 60 bytes and writes 40; of each other one the directions are
/// unknown.
fn ticks(totals: &mut Totals, count: u64) -> Snapshot {
    let traffic = TrafficBreakdown {
        read: DirectionTraffic {
            bytes_per_sec: BytesPerSec::new(60.0),
            provenance: Provenance::Counted,
        },
        write: DirectionTraffic {
            bytes_per_sec: BytesPerSec::new(40.0),
            provenance: Provenance::Apportioned,
        },
        age_ns: Nanos(0),
    };
    let known = decision("/a", Some(traffic), Why::Learning);
    let other = decision("/b", None, Why::AtFloor);
    let release = Action {
        workload: WorkloadId::new("/b"),
        kind: ActionKind::Release,
    };
    let failed = Outcome {
        workload: WorkloadId::new("/b"),
        result: OutcomeKind::Failed("no".into()),
    };
    let plan = Plan {
        devices: vec![DeviceState {
            id: DeviceId(3),
            read_bytes_per_sec: None,
            write_bytes_per_sec: None,
            unattributed_bytes_per_sec: Some(BytesPerSec::new(7.0)),
            migrated_bytes_per_sec: Some(BytesPerSec::new(2.0)),
            set_point_bytes_per_sec: None,
            correction_ratio: 0.5,
            planned_bytes_per_sec: None,
            unenforceable: None,
            saturation: None,
        }],
        workloads: vec![known, other],
        actions: vec![release],
        ..Plan::default()
    };
    let mut snapshot = Snapshot::empty();
    for secs in 1..=count {
        let at = Nanos::from_millis(secs * 1000);
        let workloads = ["/a", "/b"].map(|id| reading_of(id, at));
        let seen = Observation {
            at,
            workloads: workloads.to_vec(),
            ..Observation::default()
        };
        totals.add(&seen, &plan, std::slice::from_ref(&failed));
        snapshot.wall_unix_ms = secs * 1000;
    }
    snapshot.limited_since_unix_ms = [(WorkloadId::new("/b"), 1500)].into();
    snapshot.plan = plan;
    snapshot
}

fn decision(id: &str, traffic: Option<TrafficBreakdown>, why: Why) -> Decision {
    Decision {
        id: WorkloadId::new(id),
        bandwidth: Estimate {
            bytes_per_sec: BytesPerSec::new(100.0),
            provenance: Provenance::Apportioned,
        },
        traffic,
        fair: None,
        cpu_cpus: None,
        intensity_bytes_per_cpu_sec: None,
        allowed_bytes_per_sec: Some(BytesPerSec::new(9.0)),
        limit_cpus: None,
        limited_weight: None,
        throttled_ns: None,
        why,
    }
}

fn reading_of(id: &str, at: Nanos) -> WorkloadReading {
    WorkloadReading {
        id: WorkloadId::new(id),
        kind: WorkloadKind::Cgroup,
        cpu_ns: Reading::new(at, at),
        throttled_ns: Reading::missing(at, Missing::NotYetRead),
        uses: Arc::default(),
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    }
}

#[test]
fn directions_reasons_and_changes_are_counted() {
    let mut totals = Totals::default();
    let snapshot = ticks(&mut totals, 4);
    let own = OwnProcess {
        resident: Some(Bytes(5)),
        ..OwnProcess::default()
    };
    let page = metrics(&snapshot, &totals, Some(&own), Dialect::OpenMetrics);
    for line in [
        // Three seconds count: before the first tick nothing is known.
        "weir_cgroup_cxl_bytes_total{cgroup=\"/a\",source=\"apportioned\"} 300",
        "weir_cgroup_cxl_read_bytes_total{cgroup=\"/a\",source=\"counted\"} 180",
        "weir_cgroup_cxl_write_bytes_total{cgroup=\"/a\",source=\"apportioned\"} 120",
        "weir_cxl_unattributed_bytes_total{device=\"cxl3\"} 21",
        "weir_cxl_page_migration_bytes_total{device=\"cxl3\"} 6",
        "weir_cxl_correction_ratio{device=\"cxl3\"} 0.5",
        "weir_workloads{why=\"learning\"} 1",
        "weir_workloads{why=\"limited\"} 0",
        "weir_decisions_total{why=\"at_floor\"} 4",
        "weir_limit_changes_total{change=\"release\",outcome=\"failed\"} 4",
        "weir_limit_changes_total{change=\"limit\",outcome=\"failed\"} 0",
        "weir_cgroup_decision{cgroup=\"/b\",why=\"at_floor\"} 1",
        "weir_cgroup_allowed_bytes_per_second{cgroup=\"/b\"} 9",
        "weir_cgroup_limited_since_timestamp_seconds{cgroup=\"/b\"} 1.5",
        "process_resident_memory_bytes 5",
    ] {
        has(&page, line);
    }
    for absent in ["read_bytes_total{cgroup=\"/b\"", "process_open_fds"] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
}

/// Each series stands together, with rising times, and a second tick of the same time replaces the first.
#[test]
fn a_recorded_run_has_its_times() {
    let mut run = Backfill::new(&[("instance", "a\"b"), ("job", "weir")]);
    let mut totals = Totals::default();
    for count in [1, 2] {
        let snapshot = ticks(&mut totals, count);
        for _ in 0..2 {
            run.at(1_767_225_600_000 + count * 15_005).unwrap();
            gather(&snapshot, &totals, None, &mut run);
        }
    }
    let mut text = Vec::new();
    run.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let of = |name: &str| -> Vec<&str> { text.lines().filter(|l| l.starts_with(name)).collect() };
    assert_eq!(
        of("weir_ticks_total"),
        [
            "weir_ticks_total{instance=\"a\\\"b\",job=\"weir\"} 1 1767225615.005",
            "weir_ticks_total{instance=\"a\\\"b\",job=\"weir\"} 3 1767225630.010"
        ]
    );
    let both = of("weir_cgroup_cpu_seconds_total");
    assert!(
        both[0].contains("cgroup=\"/a\"") && both[1].contains("cgroup=\"/a\""),
        "{both:?}"
    );
    assert_eq!(both.len(), 4, "{both:?}");
    assert_eq!(of("# TYPE weir_ticks").len(), 1);
    assert!(
        !text.contains("# TYPE weir_cxl_devload"),
        "a metric without samples"
    );
    assert!(text.ends_with("\n# EOF\n"));
}
