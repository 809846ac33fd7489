// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics of cgroups.

use super::totals::{KNOWN, WorkloadTotals};
use super::{Collect, Family, Metric, Totals};
use crate::rollup::{PROVENANCES, WHYS, why_code};
use weir_core::Nanos;
use weir_core::seam::plan::Decision;
use weir_core::seam::snapshot::Snapshot;

pub(super) fn cgroups(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    bytes(out, totals);
    times(out, totals);
    let decided = |decision| {
        let known = |id| totals.workloads.binary_search_by(|w| w.id.cmp(id));
        let decision: &Decision = decision;
        Some((decision, totals.workloads.get(known(&decision.id).ok()?)?))
    };
    let decisions: Vec<_> = snapshot.plan.workloads.iter().filter_map(decided).collect();
    limits(out, snapshot, &decisions);
    reasons(out, &decisions);
}

fn bytes(out: &mut dyn Collect, totals: &Totals) {
    type Amounts = fn(&WorkloadTotals) -> &[f64; KNOWN];
    let counters: [(&str, &str, Amounts); 3] = [
        (
            "weir_cgroup_cxl_bytes",
            "Device bytes of a cgroup, reads and writes, and how they are known.",
            |w| &w.bytes,
        ),
        (
            "weir_cgroup_cxl_read_bytes",
            "Of these, bytes read; no sample where reads and writes are not told apart.",
            |w| &w.read_bytes,
        ),
        (
            "weir_cgroup_cxl_write_bytes",
            "Of these, bytes written; no sample where reads and writes are not told apart.",
            |w| &w.write_bytes,
        ),
    ];
    for (name, help, amounts) in counters {
        let mut family = Family::begin(out, Metric::counter(name, "bytes", help));
        for workload in &totals.workloads {
            for (source, bytes) in PROVENANCES.iter().zip(amounts(workload)) {
                if *bytes > 0.0 {
                    family.of_cgroup(&workload.labels, &[("source", source)], bytes.round());
                }
            }
        }
    }
}

fn times(out: &mut dyn Collect, totals: &Totals) {
    type Time = fn(&WorkloadTotals) -> Option<Nanos>;
    let times: [(&str, &str, Time); 2] = [
        (
            "weir_cgroup_cpu_seconds",
            "CPU time of a cgroup that uses the device.",
            |w| w.cpu,
        ),
        (
            "weir_cgroup_throttled_seconds",
            "Time for which it was held back by its limit.",
            |w| w.throttled,
        ),
    ];
    for (name, help, time) in times {
        let mut family = Family::begin(out, Metric::counter(name, "seconds", help));
        for workload in &totals.workloads {
            if let Some(time) = time(workload) {
                family.of_cgroup(&workload.labels, &[], time.secs_f64());
            }
        }
    }
}

type Decided<'a> = (&'a Decision, &'a WorkloadTotals);

fn limits(out: &mut dyn Collect, snapshot: &Snapshot, decisions: &[Decided<'_>]) {
    let help = "CPUs that weir lets a cgroup use; no sample where it sets no limit.";
    let metric = Metric::gauge("weir_cgroup_limit_cpus", "cpus", help);
    let mut family = Family::begin(out, metric);
    for (decision, workload) in decisions {
        if let Some(limit) = decision.limit_cpus {
            family.of_cgroup(&workload.labels, &[], limit.get());
        }
    }
    let help = "When the limit of a cgroup began.";
    let metric = Metric::gauge(
        "weir_cgroup_limited_since_timestamp_seconds",
        "seconds",
        help,
    );
    let mut family = Family::begin(out, metric);
    for (decision, workload) in decisions {
        if let Some(since_ms) = snapshot.limited_since_unix_ms.get(&decision.id) {
            family.of_cgroup(&workload.labels, &[], *since_ms as f64 / 1e3);
        }
    }
    let help = "Device bandwidth that a cgroup may have; no sample where nothing bounds it.";
    let name = "weir_cgroup_allowed_bytes_per_second";
    let mut family = Family::begin(out, Metric::gauge(name, "bytes_per_second", help));
    for (decision, workload) in decisions {
        if let Some(allowed) = decision.allowed_bytes_per_sec {
            family.of_cgroup(&workload.labels, &[], allowed.get());
        }
    }
    let help = "Throttled time per time since the tick before, in CPUs.";
    let metric = Metric::gauge("weir_throttle_ratio", "ratio", help);
    let mut family = Family::begin(out, metric);
    for (decision, workload) in decisions {
        if decision.throttled_ns.is_some() {
            let held = snapshot.throttled_cpus.get(&decision.id);
            let held = held.map_or(0.0, |held| held.get());
            family.of_cgroup(&workload.labels, &[], held);
        }
    }
}

fn reasons(out: &mut dyn Collect, decisions: &[Decided<'_>]) {
    let help = "1, with the reason why a cgroup has its limit or none, at the last observation.";
    let mut family = Family::begin(out, Metric::gauge("weir_cgroup_decision", "", help));
    for (decision, workload) in decisions {
        let Some(why) = WHYS.get(usize::from(why_code(&decision.why))) else {
            continue;
        };
        family.of_cgroup(&workload.labels, &[("why", why)], 1.0);
    }
}
