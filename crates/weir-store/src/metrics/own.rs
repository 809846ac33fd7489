// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metrics of weir itself: what it is, what it decided, what it costs.

use super::totals::CHANGES;
use super::{Collect, Family, Metric, Totals, count, one};
use crate::rollup::{OUTCOMES, WHYS, why_code};
use weir_core::seam::snapshot::{Delivery, Snapshot};
use weir_core::seam::topology::CountedBy;
use weir_core::{Bytes, Nanos};

/// What a process exporter says of weir, under the names that all exporters use. What the kernel does not
/// tell is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnProcess {
    pub cpu: Nanos,
    pub resident: Option<Bytes>,
    pub address_space: Option<Bytes>,
    pub open_fds: Option<u64>,
    /// Files that it may have open.
    pub max_fds: Option<u64>,
    /// When it began, in seconds since the Unix epoch.
    pub start_unix_secs: Option<f64>,
    /// How often its process for metrics, page and push was started again, where it has one.
    pub server_restarts: Option<u64>,
}

pub(super) fn about(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    let metric = Metric::info("weir_build", "The weir that is running.");
    Family::begin(out, metric).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    sources(out, snapshot, totals);
    let help = "1 if weir limits, 0 if it only observes.";
    let limiting = f64::from(u8::from(snapshot.limiting));
    one(out, Metric::gauge("weir_limiting", "", help), limiting);
    let help = "When the newest figures are of.";
    let metric = Metric::gauge("weir_last_tick_timestamp_seconds", "seconds", help);
    one(out, metric, snapshot.wall_unix_ms as f64 / 1e3);
    let metric = Metric::counter("weir_ticks", "", "Observations of the machine so far.");
    count(out, metric, totals.ticks);
    let help = "Things that could not be read, each counted when it begins.";
    let metric = Metric::counter("weir_skips", "", help);
    count(out, metric, snapshot.skipped_total);
    if let Some(rewrites) = snapshot.limit_rewrites_total {
        let help = "Times that another program wrote a limit that weir holds.";
        let metric = Metric::counter("weir_limit_rewrites", "", help);
        count(out, metric, rewrites);
    }
    if let Some(push) = &snapshot.push {
        delivery(out, push);
    }
    if let Some(cost) = snapshot.self_cost {
        let help = "CPU time of one iteration of weir's loop.";
        let metric = Metric::gauge("weir_loop_cpu_seconds", "seconds", help);
        one(out, metric, cost.loop_cpu_ns.secs_f64());
        let help = "Ticks that came more than half an interval late.";
        let metric = Metric::counter("weir_late_ticks", "", help);
        count(out, metric, cost.late_ticks_total);
    }
}

fn sources(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    let metric = Metric::info("weir_source", "Where the figures of a device come from.");
    let mut family = Family::begin(out, metric);
    for device in &snapshot.description.devices {
        let quality = match device.counted_by {
            CountedBy::Unknown => "unknown",
            _ if totals.running.contains_key(&device.id) => "scaled",
            _ => "counted",
        };
        let backend = device.counted_by.name();
        let id = device.id.to_string();
        let labels = [("device", &*id), ("backend", backend), ("quality", quality)];
        family.sample(&labels, 1.0);
    }
}

fn delivery(out: &mut dyn Collect, push: &Delivery) {
    for (name, help, value) in [
        (
            "weir_push_sent_batches",
            "Batches of lines or samples that the server has taken.",
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
        count(out, Metric::counter(name, "", help), value);
    }
    let help = "Batches that wait for the server.";
    let metric = Metric::gauge("weir_push_waiting_batches", "", help);
    Family::begin(out, metric).whole(&[], push.waiting_batches);
}

/// Reasons and changes have a sample from the beginning, so that the first of them is an increase.
pub(super) fn decisions(out: &mut dyn Collect, snapshot: &Snapshot, totals: &Totals) {
    let mut now = [0u64; WHYS.len()];
    for decision in &snapshot.plan.workloads {
        if let Some(count) = now.get_mut(usize::from(why_code(&decision.why))) {
            *count += 1;
        }
    }
    let help = "Workloads, by the reason why they have their limit or none.";
    let mut family = Family::begin(out, Metric::gauge("weir_workloads", "", help));
    for (why, count) in WHYS.iter().zip(now) {
        family.whole(&[("why", why)], count);
    }
    let help = "Decisions on workloads so far, one for each at each tick, by their reason.";
    let mut family = Family::begin(out, Metric::counter("weir_decisions", "", help));
    for (why, count) in WHYS.iter().zip(totals.decisions) {
        family.whole(&[("why", why)], count);
    }
    let help = "Limits that were to be set or released, and what became of that.";
    let mut family = Family::begin(out, Metric::counter("weir_limit_changes", "", help));
    for (change, counts) in CHANGES.iter().zip(totals.changes) {
        for (outcome, count) in OUTCOMES.iter().zip(counts) {
            family.whole(&[("change", change), ("outcome", outcome)], count);
        }
    }
}

/// Names and meanings are those of the Prometheus clients.
pub(super) fn process(out: &mut dyn Collect, process: &OwnProcess) {
    let help = "CPU time of weir, in all its threads.";
    let metric = Metric::counter("process_cpu_seconds", "seconds", help);
    one(out, metric, process.cpu.secs_f64());
    for (name, help, bytes) in [
        (
            "process_resident_memory_bytes",
            "Memory that weir has.",
            process.resident,
        ),
        (
            "process_virtual_memory_bytes",
            "Address space that weir has.",
            process.address_space,
        ),
    ] {
        if let Some(bytes) = bytes {
            Family::begin(out, Metric::gauge(name, "bytes", help)).whole(&[], bytes.0);
        }
    }
    for (name, help, value) in [
        (
            "process_open_fds",
            "Files that weir has open.",
            process.open_fds,
        ),
        (
            "process_max_fds",
            "Files that weir may have open.",
            process.max_fds,
        ),
    ] {
        if let Some(value) = value {
            Family::begin(out, Metric::gauge(name, "", help)).whole(&[], value);
        }
    }
    if let Some(restarts) = process.server_restarts {
        let help = "Restarts of weir's process for metrics, page and push.";
        count(
            out,
            Metric::counter("weir_server_restarts", "", help),
            restarts,
        );
    }
    if let Some(start) = process.start_unix_secs {
        let help = "When weir began.";
        let metric = Metric::gauge("process_start_time_seconds", "seconds", help);
        one(out, metric, start);
    }
}
