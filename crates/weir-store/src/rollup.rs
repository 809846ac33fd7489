// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures for people and charts, as means over spans of about a second: pure arithmetic on plans.
//!
//! A tick's figure holds for the time since the tick before. Ticks without a figure add to
//! `unknown_ns` and not to the mean: missing is not zero.

use std::collections::BTreeMap;
use weir_core::rates::attribution::Provenance;
use weir_core::seam::observation::LatencyReading;
use weir_core::seam::plan::{Decision, DeviceState, OutcomeKind, Plan, Why};
use weir_core::{DeviceId, Nanos, WorkloadId};

/// What figures are means of, at least; ticks further apart have one span each.
pub const SPAN: Nanos = Nanos::from_millis(1000);

/// How a figure is known, in the order of the codes.
pub(crate) const PROVENANCES: [&str; 4] = ["counted", "sampled", "apportioned", "unknown"];
/// Why a workload has its limit or none.
pub(crate) const WHYS: [&str; 9] = [
    "observe_only",
    "excluded",
    "learning",
    "below_fair_share",
    "headroom",
    "limited",
    "at_floor",
    "no_data",
    "not_enforced",
];
pub(crate) const OUTCOMES: [&str; 5] = ["applied", "unchanged", "vanished", "refused", "failed"];

/// A kind of word, with the words in the order of their codes.
pub(crate) const WORDS: [(&str, &[&str]); 3] = [
    ("provenance", &PROVENANCES),
    ("why", &WHYS),
    ("outcome", &OUTCOMES),
];

pub(crate) fn word(kind: &str, code: u8) -> Option<&'static str> {
    let (_, words) = WORDS.iter().find(|(name, _)| *name == kind)?;
    words.get(usize::from(code)).copied()
}

pub(crate) fn provenance_code(provenance: Provenance) -> u8 {
    match provenance {
        Provenance::Counted => 0,
        Provenance::Sampled => 1,
        Provenance::Apportioned => 2,
        Provenance::Unknown => 3,
    }
}

pub(crate) fn why_code(why: &Why) -> u8 {
    match why {
        Why::ObserveOnly => 0,
        Why::Excluded { .. } => 1,
        Why::Learning => 2,
        Why::BelowFairShare => 3,
        Why::Headroom => 4,
        Why::Limited { .. } => 5,
        Why::AtFloor => 6,
        Why::NoData { .. } => 7,
        Why::NotEnforced { .. } => 8,
    }
}

/// The code, and the reason where there is one.
pub(crate) fn outcome_code(outcome: &OutcomeKind) -> (u8, Option<&str>) {
    match outcome {
        OutcomeKind::Applied => (0, None),
        OutcomeKind::Unchanged => (1, None),
        OutcomeKind::Vanished => (2, None),
        OutcomeKind::Refused(why) => (3, Some(why)),
        OutcomeKind::Failed(why) => (4, Some(why)),
    }
}

/// A mean over known time.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    amount: f64,
    known: Nanos,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, span: Nanos) {
        if let Some(value) = value {
            self.amount += value * span.0 as f64;
            self.known.0 += span.0;
        }
    }

    fn get(self) -> Option<f64> {
        (self.known.0 > 0).then(|| self.amount / self.known.0 as f64)
    }
}

#[derive(Debug, Default)]
pub(crate) struct DeviceSpan {
    read: Mean,
    write: Mean,
    unattributed: Mean,
    latency: Mean,
    last: Option<DeviceState>,
}

#[derive(Debug, Default)]
pub(crate) struct WorkloadSpan {
    bandwidth: Mean,
    cpu: Mean,
    throttled_from: Option<Nanos>,
    provenance: u8,
    last: Option<Decision>,
}

/// A span in the making, and then a whole one.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) first_tick: i64,
    pub(crate) last_tick: i64,
    pub(crate) span: Nanos,
    pub(crate) skipped: usize,
    pub(crate) devices: BTreeMap<DeviceId, DeviceSpan>,
    pub(crate) workloads: BTreeMap<WorkloadId, WorkloadSpan>,
}

impl Span {
    /// Takes in the tick that ends `dt` after the one before.
    pub(crate) fn add(&mut self, tick: i64, dt: Nanos, plan: &Plan, latencies: &[LatencyReading]) {
        if self.first_tick == 0 {
            self.first_tick = tick;
        }
        self.last_tick = tick;
        self.span.0 += dt.0;
        self.skipped += usize::from(plan.task_events_running_ratio.is_some());
        for state in &plan.devices {
            let latency = latencies.iter().find(|seen| seen.id == state.id);
            let latency = latency.and_then(|seen| seen.mean_ns.ok().map(|ns| ns.0 as f64));
            self.devices
                .entry(state.id)
                .or_default()
                .add(state, latency, dt);
        }
        for verdict in &plan.workloads {
            match self.workloads.get_mut(&verdict.id) {
                Some(span) => span.add(verdict, dt),
                None => self
                    .workloads
                    .entry(verdict.id.clone())
                    .or_default()
                    .add(verdict, dt),
            }
        }
    }

    /// Whether it is as long as `wanted`, if the next tick comes after `interval`.
    pub(crate) fn is_done(&self, wanted: Nanos, interval: Nanos) -> bool {
        self.span.0 + interval.0 / 2 >= wanted.0
    }

    /// Throttled times where it ended: the next begins there.
    pub(crate) fn ends(&self) -> BTreeMap<WorkloadId, Nanos> {
        let workloads = self.workloads.iter();
        workloads
            .filter_map(|(id, figures)| Some((id.clone(), figures.throttled_until()?)))
            .collect()
    }
}

impl DeviceSpan {
    fn add(&mut self, state: &DeviceState, latency: Option<f64>, dt: Nanos) {
        self.read.add(state.read_bytes_per_sec.map(Into::into), dt);
        self.write
            .add(state.write_bytes_per_sec.map(Into::into), dt);
        self.unattributed
            .add(state.unattributed_bytes_per_sec.map(Into::into), dt);
        self.latency.add(latency, dt);
        self.last = Some(state.clone());
    }

    pub(crate) fn row(&self, span: Nanos) -> DeviceRow {
        let last = self.last.as_ref();
        DeviceRow {
            read_bytes_per_sec: whole(self.read.get()),
            write_bytes_per_sec: whole(self.write.get()),
            unattributed_bytes_per_sec: whole(self.unattributed.get()),
            set_point_bytes_per_sec: whole(
                last.and_then(|s| s.set_point_bytes_per_sec).map(Into::into),
            ),
            correction_ratio: last.map_or(1.0, |s| s.correction_ratio),
            latency_ns: whole(self.latency.get()),
            unknown_ns: unknown(span, self.read.known.min(self.write.known)),
        }
    }
}

impl WorkloadSpan {
    fn add(&mut self, verdict: &Decision, dt: Nanos) {
        let known = verdict.bandwidth.provenance != Provenance::Unknown;
        let bandwidth = known.then(|| verdict.bandwidth.bytes_per_sec.get());
        self.bandwidth.add(bandwidth, dt);
        if known && dt.0 > 0 {
            self.provenance = self
                .provenance
                .max(provenance_code(verdict.bandwidth.provenance));
        }
        self.cpu.add(verdict.cpu_cpus.map(Into::into), dt);
        if self.last.is_none() {
            self.throttled_from = verdict.throttled_ns;
        }
        self.last = Some(verdict.clone());
    }

    /// Throttled time is cumulative: `before` is where the span before ended.
    pub(crate) fn row(&self, span: Nanos, before: Option<Nanos>) -> WorkloadRow {
        let last = self.last.as_ref();
        let until = last.and_then(|v| v.throttled_ns);
        let throttled = match (before.or(self.throttled_from), until) {
            (Some(from), Some(to)) if span.0 > 0 => {
                Some(to.0.saturating_sub(from.0) as f64 / span.0 as f64)
            }
            _ => None,
        };
        let bytes_per_sec = whole(self.bandwidth.get());
        let unknown_code = provenance_code(Provenance::Unknown);
        WorkloadRow {
            bytes_per_sec,
            provenance: bytes_per_sec.map_or(unknown_code, |_| self.provenance),
            unknown_ns: unknown(span, self.bandwidth.known),
            cpu_microcpus: whole(self.cpu.get().map(|cpus| cpus * 1e6)),
            throttled_microcpus: whole(throttled.map(|cpus| cpus * 1e6)),
            allowed_bytes_per_sec: whole(
                last.and_then(|v| v.allowed_bytes_per_sec).map(Into::into),
            ),
            limit_microcpus: whole(last.and_then(|v| v.limit_cpus).map(|c| c.get() * 1e6)),
            why: last.map_or(0, |v| why_code(&v.why)),
        }
    }

    fn throttled_until(&self) -> Option<Nanos> {
        self.last.as_ref()?.throttled_ns
    }
}

/// The columns of `device_figures`.
pub(crate) struct DeviceRow {
    pub(crate) read_bytes_per_sec: Option<i64>,
    pub(crate) write_bytes_per_sec: Option<i64>,
    pub(crate) unattributed_bytes_per_sec: Option<i64>,
    pub(crate) set_point_bytes_per_sec: Option<i64>,
    pub(crate) correction_ratio: f64,
    pub(crate) latency_ns: Option<i64>,
    pub(crate) unknown_ns: i64,
}

/// The columns of `workload_figures`.
pub(crate) struct WorkloadRow {
    pub(crate) bytes_per_sec: Option<i64>,
    pub(crate) provenance: u8,
    pub(crate) unknown_ns: i64,
    pub(crate) cpu_microcpus: Option<i64>,
    pub(crate) throttled_microcpus: Option<i64>,
    pub(crate) allowed_bytes_per_sec: Option<i64>,
    pub(crate) limit_microcpus: Option<i64>,
    pub(crate) why: u8,
}

fn unknown(span: Nanos, known: Nanos) -> i64 {
    i64::try_from(span.0.saturating_sub(known.0)).unwrap_or(i64::MAX)
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
fn whole(value: Option<f64>) -> Option<i64> {
    value.map(|value| value.round() as i64)
}
