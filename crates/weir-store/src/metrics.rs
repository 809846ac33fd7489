// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The newest tick for Prometheus and its kin: OpenMetrics 1.0, or the older text format.
//!
//! Base units (bytes, seconds), one unit a metric, counters end in `_total`. Nothing is labelled with a
//! process: processes come and go, and each would leave a series behind for ever, so workloads that are
//! processes are left out. A value that is missing is a sample that is missing.
//!
//! A cgroup's label is its path as the kernel has it, so that it is cadvisor's `id`. Pods, containers and
//! machines have labels of their own where the path says so ([`weir_core::owner`]).

mod totals;

pub use totals::Totals;

use std::fmt::Write;
use totals::{WorkloadTotals, quoted};
use weir_core::seam::observation::{GroupReading, Reading};
use weir_core::seam::snapshot::{Delivery, Snapshot};
use weir_core::seam::topology::CountedBy;
use weir_core::{GroupId, Nanos, WorkloadId};

/// How the text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`, for readers that accept nothing better.
    Prometheus,
}

/// All metrics of a tick.
pub fn metrics(snapshot: &Snapshot, totals: &Totals, dialect: Dialect) -> String {
    let mut page = Page {
        text: String::new(),
        dialect,
    };
    about(&mut page, snapshot, totals);
    devices(&mut page, snapshot, totals);
    cgroups(&mut page, snapshot, totals);
    if dialect == Dialect::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

fn about(page: &mut Page, snapshot: &Snapshot, totals: &Totals) {
    let mut family = page.info("weir_build", "The weir that is running.");
    family.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let mut family = page.info("weir_source", "Where the figures of a device come from.");
    for device in &snapshot.description.devices {
        let id = device.id.to_string();
        let quality = match device.counted_by {
            CountedBy::Unknown => "unknown",
            _ if totals.running.contains_key(&device.id) => "scaled",
            _ => "counted",
        };
        let backend = device.counted_by.name();
        family.sample(
            &[("device", &id), ("backend", backend), ("quality", quality)],
            1.0,
        );
    }
    let family = page.gauge(
        "weir_limiting",
        "",
        "1 if weir limits, 0 if it only observes.",
    );
    family.one(f64::from(u8::from(snapshot.limiting)));
    let family = page.gauge(
        "weir_last_tick_timestamp_seconds",
        "seconds",
        "When the newest figures are of.",
    );
    family.one(snapshot.wall_unix_ms as f64 / 1e3);
    page.counter("weir_ticks", "", "Observations of the machine so far.")
        .one(totals.ticks as f64);
    let family = page.counter(
        "weir_skips",
        "",
        "Things that could not be read, each counted when it begins.",
    );
    family.one(snapshot.skipped_total as f64);
    if let Some(push) = &snapshot.push {
        delivery(page, push);
    }
    if let Some(cost) = snapshot.self_cost {
        let family = page.gauge(
            "weir_loop_cpu_seconds",
            "seconds",
            "CPU time of one iteration of weir's loop.",
        );
        family.one(cost.loop_cpu_ns.secs_f64());
        page.counter(
            "weir_late_ticks",
            "",
            "Ticks that came more than half an interval late.",
        )
        .one(cost.late_ticks_total as f64);
    }
}

fn delivery(page: &mut Page, push: &Delivery) {
    for (name, help, count) in [
        (
            "weir_push_sent_batches",
            "Batches of lines that the server has taken.",
            push.sent_batches_total,
        ),
        (
            "weir_push_dropped_batches",
            "Batches that it refused, or that did not fit into the queue.",
            push.dropped_batches_total,
        ),
        (
            "weir_push_missed_ticks",
            "Ticks that did not get into a batch.",
            push.missed_ticks_total,
        ),
    ] {
        page.counter(name, "", help).whole(&[], count);
    }
    let help = "Batches that wait for the server.";
    page.gauge("weir_push_waiting_batches", "", help)
        .whole(&[], push.waiting_batches);
}

fn devices(page: &mut Page, snapshot: &Snapshot, totals: &Totals) {
    let labels = |id: &GroupId| {
        let groups = &snapshot.description.groups;
        let node = groups
            .iter()
            .find(|group| group.id == *id)
            .and_then(|group| group.node);
        let node = node.map(|node| node.0.to_string()).unwrap_or_default();
        [id.device.to_string(), id.index.to_string(), node]
    };
    type Count = fn(&GroupReading) -> &Reading<weir_core::Bytes>;
    let directions: [(&str, &str, Count); 2] = [
        (
            "weir_cxl_read_bytes",
            "Bytes read from the device, as it counts them.",
            |g| &g.read_bytes,
        ),
        (
            "weir_cxl_write_bytes",
            "Bytes written to the device, as it counts them.",
            |g| &g.write_bytes,
        ),
    ];
    for (name, help, count) in directions {
        let mut family = page.counter(name, "bytes", help);
        for (id, group) in &totals.groups {
            if let Some(bytes) = count(group).ok() {
                let [device, index, node] = labels(id);
                family.whole(
                    &[("device", &device), ("group", &index), ("node", &node)],
                    bytes.0,
                );
            }
        }
    }
    scaling(page, totals);
    lost_readings(page, totals);
    latencies(page, snapshot);
    let help = "Bandwidth that the device is held at, reads and writes.";
    let mut family = page.gauge(
        "weir_cxl_set_point_bytes_per_second",
        "bytes_per_second",
        help,
    );
    for state in &snapshot.plan.devices {
        if let Some(rate) = state.set_point_bytes_per_sec {
            family.sample(&[("device", &state.id.to_string())], rate.get());
        }
    }
}

fn latencies(page: &mut Page, snapshot: &Snapshot) {
    let help = "Mean time of one access, queueing included.";
    let mut family = page.gauge("weir_cxl_request_latency_seconds", "seconds", help);
    let known = || {
        snapshot
            .latencies
            .iter()
            .filter_map(|l| Some((l, l.mean_ns.ok()?)))
    };
    for (latency, mean) in known() {
        let (device, source) = (latency.id.to_string(), latency.source.name());
        family.sample(&[("device", &device), ("source", source)], mean.secs_f64());
    }
    let help = "Time since that latency was measured, at the last observation.";
    let mut family = page.gauge("weir_cxl_request_latency_age_seconds", "seconds", help);
    for (latency, _) in known() {
        let age = snapshot
            .plan
            .at
            .since(latency.mean_ns.at)
            .unwrap_or_default();
        family.sample(&[("device", &latency.id.to_string())], age.secs_f64());
    }
}

fn lost_readings(page: &mut Page, totals: &Totals) {
    let help = "Readings of a counter that were lost: it could not be read, or went on by more than the device can move.";
    let mut family = page.counter("weir_cxl_lost_readings", "", help);
    for (id, lost) in &totals.lost {
        let (device, index) = (id.device.to_string(), id.index.to_string());
        for (event, count) in ["read_bytes", "write_bytes"].iter().zip(lost) {
            family.whole(
                &[("device", &device), ("group", &index), ("event", event)],
                *count,
            );
        }
    }
}

fn scaling(page: &mut Page, totals: &Totals) {
    let help = "Part of the time in which the counter counted; 1 where events are not multiplexed.";
    let mut family = page.gauge("weir_event_scaling_ratio", "ratio", help);
    for (id, group) in &totals.groups {
        let (device, index) = (id.device.to_string(), id.index.to_string());
        let ratio = totals.running.get(&id.device).copied().unwrap_or(1.0);
        for (event, count) in [
            ("read_bytes", &group.read_bytes),
            ("write_bytes", &group.write_bytes),
        ] {
            if count.ok().is_some() {
                family.sample(
                    &[("device", &device), ("group", &index), ("event", event)],
                    ratio,
                );
            }
        }
    }
}

fn cgroups(page: &mut Page, snapshot: &Snapshot, totals: &Totals) {
    let help = "Device bytes of a cgroup, reads and writes, and how they are known.";
    let mut family = page.counter("weir_cgroup_cxl_bytes", "bytes", help);
    for workload in &totals.workloads {
        for (source, bytes) in ["counted", "sampled", "apportioned"]
            .iter()
            .zip(workload.bytes)
        {
            if bytes > 0.0 {
                family.of_cgroup(workload, &[("source", source)], bytes.round());
            }
        }
    }
    type Time = fn(&totals::WorkloadTotals) -> Option<Nanos>;
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
    for (metric, help, time) in times {
        let mut family = page.counter(metric, "seconds", help);
        for workload in &totals.workloads {
            if let Some(time) = time(workload) {
                family.of_cgroup(workload, &[], time.secs_f64());
            }
        }
    }
    let known = |id: &WorkloadId| totals.workloads.binary_search_by(|w| w.id.cmp(id));
    let verdicts = || {
        let verdicts = snapshot.plan.workloads.iter();
        verdicts.filter_map(|v| Some((v, totals.workloads.get(known(&v.id).ok()?)?)))
    };
    let help = "CPUs that weir lets a cgroup use; no sample where it sets no limit.";
    let mut family = page.gauge("weir_cgroup_limit_cpus", "cpus", help);
    for (verdict, workload) in verdicts() {
        if let Some(limit) = verdict.limit_cpus {
            family.of_cgroup(workload, &[], limit.get());
        }
    }
    let help = "Throttled time per time since the tick before, in CPUs.";
    let mut family = page.gauge("weir_throttle_ratio", "ratio", help);
    for (verdict, workload) in verdicts().filter(|(v, _)| v.throttled_ns.is_some()) {
        let held = snapshot
            .throttled_cpus
            .get(&verdict.id)
            .map_or(0.0, |held| held.get());
        family.of_cgroup(workload, &[], held);
    }
}

/// The text in the making. Writing into a String cannot fail.
struct Page {
    text: String,
    dialect: Dialect,
}

/// Samples of one metric.
struct Family<'a> {
    text: &'a mut String,
    name: String,
}

impl Page {
    /// A name that ends in `_total` (or `_info`) is, in OpenMetrics, a sample of the metric without it.
    fn family(
        &mut self,
        (name, suffix): (&str, &str),
        kind: &str,
        unit: &str,
        help: &str,
    ) -> Family<'_> {
        let sample = format!("{name}{suffix}");
        let metric = match self.dialect {
            Dialect::OpenMetrics => name,
            Dialect::Prometheus => &sample,
        };
        let _ = writeln!(self.text, "# TYPE {metric} {kind}");
        if self.dialect == Dialect::OpenMetrics && !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {metric} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {metric} {help}");
        Family {
            text: &mut self.text,
            name: sample,
        }
    }

    fn counter(&mut self, name: &str, unit: &str, help: &str) -> Family<'_> {
        self.family((name, "_total"), "counter", unit, help)
    }

    fn gauge(&mut self, name: &str, unit: &str, help: &str) -> Family<'_> {
        self.family((name, ""), "gauge", unit, help)
    }

    fn info(&mut self, name: &str, help: &str) -> Family<'_> {
        let kind = match self.dialect {
            Dialect::OpenMetrics => "info",
            Dialect::Prometheus => "gauge",
        };
        self.family((name, "_info"), kind, "", help)
    }
}

impl Family<'_> {
    fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.head(labels);
        let _ = writeln!(self.text, " {value}");
    }

    /// Of a cgroup, with further labels behind its own.
    fn of_cgroup(&mut self, workload: &WorkloadTotals, more: &[(&str, &str)], value: f64) {
        let _ = write!(self.text, "{}{{{}", self.name, workload.labels);
        for (label, text) in more {
            let _ = write!(self.text, ",{label}=\"{}\"", quoted(text));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    /// A count, to the last digit.
    fn whole(&mut self, labels: &[(&str, &str)], value: u64) {
        self.head(labels);
        let _ = writeln!(self.text, " {value}");
    }

    fn one(mut self, value: f64) {
        self.sample(&[], value);
    }

    fn head(&mut self, labels: &[(&str, &str)]) {
        self.text.push_str(&self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let open = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"{}\"", quoted(value));
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
