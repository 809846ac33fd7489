// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures of a replayed trace, as JSON and as text. The keys are in docs/reference/dram.md.

use super::cli::DramArgs;
use serde::Serialize;
use std::fmt::Write;
use weir_dram::{
    DramBounds, DramChannel, DramProfile, LatencyHistogram, PagePolicy, ReplaySpan, TracePattern,
};
use weir_figures::{Cell, Setting, Table, decimals, terminal_table};

/// Mean and percentiles, nanoseconds.
#[derive(Debug, Serialize)]
struct LatencyNs {
    mean: f64,
    p50: f64,
    p99: f64,
}

/// What a mean latency is made of, nanoseconds.
#[derive(Debug, Serialize)]
struct LatencyPartsNs {
    queue: f64,
    turn_around: f64,
    conflict: f64,
    refresh: f64,
    transfer: f64,
}

/// Requests by their first command.
#[derive(Debug, Serialize)]
struct RowOutcomes {
    hits: u64,
    misses: u64,
    conflicts: u64,
}

/// What no channel of the profile exceeds.
#[derive(Debug, Serialize)]
struct BoundsOut {
    peak_bytes_per_sec: f64,
    refreshed_peak_bytes_per_sec: f64,
    random_bytes_per_sec: f64,
    one_group_bytes_per_sec: f64,
    idle_miss_ns: f64,
    idle_conflict_ns: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct DramRun {
    profile: String,
    mapping: &'static str,
    order: &'static str,
    queue_entries: u32,
    bank_queue_entries: Option<u32>,
    page: String,
    trace: String,
    writes_percent: Option<u32>,
    requests: u64,
    merged_requests: u64,
    simulated_ns: f64,
    bandwidth_bytes_per_sec: f64,
    row_hit_ratio: Option<f64>,
    row_reuse_ratio: Option<f64>,
    row_outcomes: RowOutcomes,
    read_latency_ns: Option<LatencyNs>,
    read_latency_parts_ns: Option<LatencyPartsNs>,
    write_latency_ns: Option<LatencyNs>,
    requests_per_sec: f64,
    bounds: BoundsOut,
}

fn latency(profile: &DramProfile, histogram: &LatencyHistogram) -> Option<LatencyNs> {
    Some(LatencyNs {
        mean: profile.ns(histogram.mean()?),
        p50: profile.ns(histogram.quantile(0.5)?),
        p99: profile.ns(histogram.quantile(0.99)?),
    })
}

fn parts(profile: &DramProfile, histogram: &LatencyHistogram) -> Option<LatencyPartsNs> {
    let (sum, count) = (histogram.parts(), histogram.count());
    let mean = |clocks: u64| profile.ns(clocks as f64 / count as f64);
    (count > 0).then(|| LatencyPartsNs {
        queue: mean(sum.queue),
        turn_around: mean(sum.turn_around),
        conflict: mean(sum.conflict),
        refresh: mean(sum.refresh),
        transfer: mean(sum.transfer),
    })
}

fn bounds(profile: &DramProfile) -> BoundsOut {
    let bounds = DramBounds::of(profile);
    BoundsOut {
        peak_bytes_per_sec: bounds.peak_bytes_per_sec,
        refreshed_peak_bytes_per_sec: bounds.refreshed_peak_bytes_per_sec,
        random_bytes_per_sec: bounds.random_bytes_per_sec,
        one_group_bytes_per_sec: bounds.one_group_bytes_per_sec,
        idle_miss_ns: bounds.idle_miss_ns,
        idle_conflict_ns: bounds.idle_conflict_ns,
    }
}

impl DramRun {
    pub(super) fn new(
        args: &DramArgs,
        profile: &DramProfile,
        channel: &DramChannel,
        span: ReplaySpan,
        cpu_seconds: f64,
    ) -> DramRun {
        let total = channel.tallies().total();
        let simulated_ns = profile.ns(span.clocks as f64);
        let bytes = span.requests * profile.organisation.burst_bytes;
        let outcome = |index: usize| total.outcomes[0][index] + total.outcomes[1][index];
        let is_made = TracePattern::named(&args.trace).is_some();
        DramRun {
            profile: profile.name.clone(),
            mapping: args.mapping.name(),
            order: args.order.name(),
            queue_entries: args.queue,
            bank_queue_entries: args.bank_queue,
            page: match args.page {
                PagePolicy::Open => "open".into(),
                PagePolicy::Closed => "closed".into(),
                PagePolicy::Capped(most) => most.to_string(),
            },
            trace: args.trace.clone(),
            writes_percent: is_made.then(|| args.writes.unwrap_or(0)),
            requests: span.requests,
            merged_requests: total.merged.iter().sum(),
            simulated_ns,
            bandwidth_bytes_per_sec: bytes as f64 / simulated_ns * 1e9,
            row_hit_ratio: total.row_hit_ratio(),
            row_reuse_ratio: total.row_reuse_ratio(),
            row_outcomes: RowOutcomes {
                hits: outcome(0),
                misses: outcome(1),
                conflicts: outcome(2),
            },
            read_latency_ns: latency(profile, &total.read_latency),
            read_latency_parts_ns: parts(profile, &total.read_latency),
            write_latency_ns: latency(profile, &total.write_latency),
            requests_per_sec: span.requests as f64 / cpu_seconds.max(1e-9),
            bounds: bounds(profile),
        }
    }

    pub(super) fn text(&self, profile: &DramProfile) -> String {
        let mut out = format!("{}\n", profile.title);
        let writes = self
            .writes_percent
            .map_or(String::new(), |p| format!(", {p} % writes"));
        let _ = writeln!(
            out,
            "{}{writes}; {}, {}, {} entries, rows {}\n",
            weir_figures::text::harmless(&self.trace),
            self.mapping,
            self.order,
            self.queue_entries,
            match self.page.as_str() {
                "open" | "closed" => self.page.clone(),
                most => format!("closed after {most} column commands"),
            }
        );
        let mut rows = self.bandwidths();
        self.latencies(&mut rows);
        out += &terminal_table(&Table::new("", &[""; 4], rows), Setting::WIDE);
        let _ = writeln!(
            out,
            "\n{} requests in {:.1} µs of the channel; the model handles {:.2} M requests/s.",
            self.requests,
            self.simulated_ns / 1e3,
            self.requests_per_sec / 1e6
        );
        out
    }

    fn bandwidths(&self) -> Vec<Vec<Cell>> {
        let row = |name, rate: f64, what| {
            let value = decimals(rate / 1e9, 3);
            vec![
                Cell::words(name),
                value,
                Cell::words("GB/s"),
                Cell::words(what),
            ]
        };
        let bound = |rate, what| row("  bound", rate, what);
        let mut rows = vec![
            row("bandwidth", self.bandwidth_bytes_per_sec, ""),
            bound(self.bounds.peak_bytes_per_sec, "data bus always busy"),
            bound(self.bounds.refreshed_peak_bytes_per_sec, "less refreshes"),
            bound(self.bounds.random_bytes_per_sec, "a row for each burst"),
            bound(self.bounds.one_group_bytes_per_sec, "one bank group"),
        ];
        rows.extend(self.row_hit_ratio.map(|ratio| {
            let value = decimals(100.0 * ratio, 1);
            vec![Cell::words("row hits"), value, Cell::words("%")]
        }));
        rows
    }

    fn latencies(&self, rows: &mut Vec<Vec<Cell>>) {
        let mut row = |name, ns, what: String| {
            let value = decimals(ns, 1);
            rows.push(vec![
                Cell::words(name),
                value,
                Cell::words("ns"),
                Cell::words(what),
            ]);
        };
        let named = [
            ("read latency", &self.read_latency_ns),
            ("write latency", &self.write_latency_ns),
        ];
        for (name, latency) in named {
            if let Some(LatencyNs { mean, p50, p99 }) = latency {
                let others = format!("median {p50:.1}, 99th percentile {p99:.1}");
                row(name, *mean, others);
            }
        }
        if let Some(parts) = &self.read_latency_parts_ns {
            let others = format!(
                "in the queue; {:.1} other direction, {:.1} opening rows, {:.1} refresh, {:.1} transfer",
                parts.turn_around, parts.conflict, parts.refresh, parts.transfer
            );
            row("  of a read", parts.queue, others);
        }
        let open = self.bounds.idle_conflict_ns;
        let others = format!("closed bank; {open:.1} where another row is open");
        row("  idle", self.bounds.idle_miss_ns, others);
    }
}
