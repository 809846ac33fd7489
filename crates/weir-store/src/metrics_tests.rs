// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use std::sync::Arc;
use weir_core::rates::attribution::{Estimate, Provenance};
use weir_core::seam::observation::{Missing, Multiplexing, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::{Decision, Why};
use weir_core::seam::topology::{Description, Device, Group};
use weir_core::{Bytes, BytesPerSec, DeviceId, NodeId, Observation, Plan};

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
    totals.add(&seen, &Plan::default());
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
    metrics(&snapshot, &totals, Dialect::Prometheus)
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
    let id = WorkloadId::new(id);
    let workload = WorkloadReading {
        id: id.clone(),
        kind: WorkloadKind::Cgroup,
        cpu_ns: Reading::new(Nanos(1), Nanos::from_millis(1500)),
        throttled_ns: Reading::missing(Nanos(1), Missing::NotYetRead),
        uses: Arc::default(),
        resident_bytes: None,
        weight: 100.0,
        their_limit_cpus: None,
        limited_weight: None,
        excluded: None,
    };
    let verdict = Decision {
        id,
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
        totals.add(&seen, &plan);
    }
    let snapshot = Snapshot {
        plan,
        ..Snapshot::empty()
    };
    metrics(&snapshot, &totals, Dialect::OpenMetrics)
}

/// As cadvisor has it in its label `id`: systemd's escapes are part of the name. In the text a backslash is
/// two.
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
        totals.add(&seen, &Plan::default());
    }
    let page = metrics(&Snapshot::empty(), &totals, Dialect::OpenMetrics);
    let lost = "weir_cxl_lost_readings_total{device=\"cxl3\",group=\"0\",event=";
    has(&page, &format!("{lost}\"read_bytes\"}} 1"));
    has(&page, &format!("{lost}\"write_bytes\"}} 0"));
    has(
        &page,
        "weir_cxl_read_bytes_total{device=\"cxl3\",group=\"0\",node=\"\"} 150",
    );
}
