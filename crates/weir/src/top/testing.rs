// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A snapshot for tests of screens: one device over its set-point, workloads of each kind.

use std::collections::BTreeMap;
use weir_core::rates::attribution::{Estimate, Provenance};
use weir_core::seam::observation::{Excluded, LatencyReading, LatencySource, Reading};
use weir_core::seam::plan::{Decision, DeviceState, Plan, Why};
use weir_core::seam::processes::Processes;
use weir_core::seam::sched_stats::{EnqueueCost, Mode, SchedStats, WorkloadStats};
use weir_core::seam::snapshot::{SelfCost, Snapshot};
use weir_core::seam::topology::Device;
use weir_core::{BytesPerSec, CpuShare, DeviceId, Nanos, WorkloadId};

const MIB: f64 = 1_048_576.0;

/// The device moves `mib` MiB/s in all, 90 % of it by the first workload.
pub fn snapshot(at_ms: u64, mib: f64) -> Snapshot {
    let id = DeviceId(0);
    let mut snapshot = Snapshot::empty();
    snapshot.wall_unix_ms = at_ms;
    snapshot.writer_pid = 4711;
    snapshot.limiting = true;
    snapshot.interval_ms = 50;
    snapshot.policy = "max-min".into();
    snapshot.description.devices = vec![Device {
        id,
        name: "weir_cxl0".into(),
        capacity_bytes_per_sec: Some(BytesPerSec::new(400.0 * MIB)),
        counter_mask_bytes: u64::MAX,
        counted_by: weir_core::seam::topology::CountedBy::AccessCounters,
    }];
    snapshot.latencies = vec![LatencyReading {
        id,
        mean_ns: Reading::new(Nanos::from_millis(at_ms), Nanos(412)),
        source: LatencySource::Probe,
    }];
    snapshot.plan = Plan {
        seq: at_ms / 50,
        at: Nanos::from_millis(at_ms),
        task_events_running_ratio: None,
        devices: vec![DeviceState {
            id,
            read_bytes_per_sec: Some(BytesPerSec::new(mib * 0.75 * MIB)),
            write_bytes_per_sec: Some(BytesPerSec::new(mib * 0.25 * MIB)),
            unattributed_bytes_per_sec: None,
            migrated_bytes_per_sec: None,
            set_point_bytes_per_sec: Some(BytesPerSec::new(160.0 * MIB)),
            correction_ratio: 1.0,
            planned_bytes_per_sec: None,
            unenforceable: None,
            saturation: None,
        }],
        workloads: workloads(mib),
        ..Plan::default()
    };
    snapshot.scheduler = Some(scheduler_stats());
    snapshot.processes = processes(at_ms);
    snapshot.self_cost = Some(SelfCost {
        process_cpus: CpuShare::new(0.012),
        ..SelfCost::default()
    });
    for verdict in snapshot
        .plan
        .workloads
        .iter()
        .filter(|v| v.limit_cpus.is_some())
    {
        snapshot
            .throttled_cpus
            .insert(verdict.id.clone(), CpuShare::new(0.8));
        snapshot.limited_since_unix_ms.insert(verdict.id.clone(), 0);
    }
    snapshot
}

/// Processes of the first workload: more than are named, one of them new, one with a hostile name.
fn processes(at_ms: u64) -> BTreeMap<WorkloadId, Processes> {
    let names = ["fio", "\u{1b}[2Jfio\n) R", "sh", "日本語"];
    let rows = (0..10u32).map(|n| {
        let used = Nanos(u64::from(10 - n) * 8_000_000);
        let span = Nanos::from_millis(2000);
        let spent = (n != 9).then_some((used, span));
        (4000 + n, names[n as usize % names.len()], spent)
    });
    let at = Nanos::from_millis(at_ms.saturating_sub(1200));
    let id = WorkloadId::new("/system.slice/fio-heavy-reader-1.service");
    [(id, Processes::of(at, rows))].into()
}

/// Statistics of weir's scheduler, which limits the first workload.
fn scheduler_stats() -> SchedStats {
    let first = WorkloadStats {
        is_limited: true,
        parks: 1444,
        parked_ns: Nanos(12_500_000_000),
        worst_wait_ns: Nanos(413_000_000),
        preempts: 350,
        starvation_runs: 2,
        waiting: 16,
        ..WorkloadStats::default()
    };
    let id = WorkloadId::new("/system.slice/fio-heavy-reader-1.service");
    SchedStats {
        mode: Mode::Partial,
        ticks: 1000,
        tick_cost_ns: Nanos(1_500_000),
        longest_gap_ns: Nanos(4_200_000),
        suspensions: 0,
        stalled_dispatches: 0,
        enqueue: EnqueueCost {
            count: 6400,
            timed: 100,
            timed_ns: Nanos(25_000),
            worst_ns: Nanos(2_000),
        },
        devices: Vec::new(),
        workloads: [(id, first)].into(),
    }
}

fn workloads(mib: f64) -> Vec<Decision> {
    let cut = Why::Limited {
        policy: "max-min".into(),
        demand_bytes_per_sec: BytesPerSec::new(210.0 * MIB),
        seen_free_ago_ns: Some(weir_core::Nanos::from_millis(63_000)),
        device_bytes_per_sec: BytesPerSec::new(mib * MIB),
        asked_bytes_per_sec: None,
    };
    let mut list = vec![
        verdict(
            "/system.slice/fio-heavy-reader-1.service",
            mib * 0.9,
            0.2,
            cut,
        ),
        verdict(
            "/system.slice/light.service",
            mib * 0.05,
            0.01,
            Why::BelowFairShare,
        ),
        verdict(
            "/user.slice/\u{1b}[31mevil\nname",
            mib * 0.03,
            0.3,
            Why::Learning,
        ),
        verdict("/weir", 0.0, 0.02, Why::Excluded { by: Excluded::Weir }),
        verdict("/日本語/サービス", mib * 0.02, 0.5, Why::ObserveOnly),
    ];
    list[0].limit_cpus = Some(CpuShare::new(0.2));
    list[0].allowed_bytes_per_sec = Some(BytesPerSec::new(120.0 * MIB));
    list[1].bandwidth.provenance = Provenance::Counted;
    list[3].bandwidth.provenance = Provenance::Unknown;
    list[3].cpu_cpus = None;
    list
}

fn verdict(id: &str, mib: f64, cpus: f64, why: Why) -> Decision {
    Decision {
        id: WorkloadId::new(id),
        bandwidth: Estimate {
            bytes_per_sec: BytesPerSec::new(mib * MIB),
            provenance: Provenance::Apportioned,
        },
        traffic: None,
        fair: None,
        cpu_cpus: Some(CpuShare::new(cpus)),
        intensity_bytes_per_cpu_sec: (mib > 0.0).then_some(mib * MIB / cpus),
        allowed_bytes_per_sec: None,
        limit_cpus: None,
        limited_weight: None,
        throttled_ns: None,
        why,
    }
}
