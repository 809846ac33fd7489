// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The newest tick for Prometheus and its kin.
//!
//! ```text
//!  Snapshot, Totals ─► gather ─► Collect ─┬─► text: OpenMetrics 1.0, or the older format   (text)
//!                                         ├─► a recorded run, with times                   (backfill)
//!                                         └─► remote write                                 (remote)
//! ```
//!
//! Base units (bytes, seconds), one unit a metric, counters end in `_total`. Nothing is labelled with a
//! process: processes come and go, and each would leave a series behind for ever, so workloads that are
//! processes are left out. A value that is missing is a sample that is missing.
//!
//! A cgroup's label is its path as the kernel has it, so that it is cadvisor's `id`. Pods, containers and
//! machines have labels of their own where the path says so ([`weir_core::owner`]).

mod backfill;
mod cgroups;
mod devices;
mod own;
mod remote;
mod text;
mod totals;

pub use backfill::{Backfill, BackfillError};
pub use own::OwnProcess;
pub use remote::RemoteWrite;
pub use text::Dialect;
pub use totals::{CgroupLabels, Totals};

use weir_core::seam::snapshot::Snapshot;

/// What a metric's samples are (OpenMetrics 1.0, metric types).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Goes up only; its samples are called `NAME_total`.
    Counter,
    Gauge,
    /// Facts as labels; its samples are called `NAME_info` and are 1.
    Info,
    /// One of several states, each with a sample of 0 or 1 and a label of the metric's name.
    StateSet,
}

/// A metric: what is said once of all its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name without its suffix `_total` or `_info`.
    pub name: &'static str,
    pub kind: MetricKind,
    /// Base unit, which the name ends in; empty where there is none.
    pub unit: &'static str,
    pub help: &'static str,
}

impl Metric {
    const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
        Metric::of(MetricKind::Counter, name, unit, help)
    }

    const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Metric {
        Metric::of(MetricKind::Gauge, name, unit, help)
    }

    const fn info(name: &'static str, help: &'static str) -> Metric {
        Metric::of(MetricKind::Info, name, "", help)
    }

    const fn state_set(name: &'static str, help: &'static str) -> Metric {
        Metric::of(MetricKind::StateSet, name, "", help)
    }

    const fn of(
        kind: MetricKind,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
    ) -> Metric {
        Metric {
            name,
            kind,
            unit,
            help,
        }
    }

    /// What its samples' names have behind its own.
    pub const fn suffix(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::StateSet => "",
        }
    }
}

/// A sample's value. A count is kept to its last digit where the format can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampleValue {
    Count(u64),
    Real(f64),
}

/// A sample's labels: those of a cgroup, and others behind them.
#[derive(Clone, Copy)]
pub struct SampleLabels<'a> {
    /// The cgroup of the sample, where it has one.
    pub cgroup: Option<&'a CgroupLabels>,
    /// The others, in the order in which texts have them.
    pub more: &'a [(&'a str, &'a str)],
}

/// Takes metrics in, each with its samples behind it.
pub trait Collect {
    /// Begins a metric: the samples that follow belong to it.
    fn metric(&mut self, metric: &Metric);
    fn sample(&mut self, labels: SampleLabels<'_>, value: SampleValue);
}

/// All metrics of a tick. Of weir's own process it is known only while it runs.
pub fn gather(
    snapshot: &Snapshot,
    totals: &Totals,
    process: Option<&OwnProcess>,
    out: &mut dyn Collect,
) {
    own::about(out, snapshot, totals);
    own::decisions(out, snapshot, totals);
    if let Some(process) = process {
        own::process(out, process);
    }
    devices::devices(out, snapshot, totals);
    cgroups::cgroups(out, snapshot, totals);
}

/// All metrics of a tick as a text.
pub fn metrics(
    snapshot: &Snapshot,
    totals: &Totals,
    process: Option<&OwnProcess>,
    dialect: Dialect,
) -> String {
    let mut page = text::Page::new(dialect);
    gather(snapshot, totals, process, &mut page);
    page.finish()
}

/// Samples of one metric in the making.
struct Family<'a> {
    out: &'a mut dyn Collect,
}

impl<'a> Family<'a> {
    fn begin(out: &'a mut dyn Collect, metric: Metric) -> Family<'a> {
        out.metric(&metric);
        Family { out }
    }

    fn sample(&mut self, more: &[(&str, &str)], value: f64) {
        self.put(None, more, SampleValue::Real(value));
    }

    /// A count, to the last digit.
    fn whole(&mut self, more: &[(&str, &str)], value: u64) {
        self.put(None, more, SampleValue::Count(value));
    }

    /// Adds a sample of a cgroup, with further labels behind its own.
    fn of_cgroup(&mut self, cgroup: &CgroupLabels, more: &[(&str, &str)], value: f64) {
        self.put(Some(cgroup), more, SampleValue::Real(value));
    }

    fn put(&mut self, cgroup: Option<&CgroupLabels>, more: &[(&str, &str)], value: SampleValue) {
        self.out.sample(SampleLabels { cgroup, more }, value);
    }
}

/// A metric with one sample.
fn one(out: &mut dyn Collect, metric: Metric, value: f64) {
    Family::begin(out, metric).sample(&[], value);
}

/// A counter with one sample.
fn count(out: &mut dyn Collect, metric: Metric, value: u64) {
    Family::begin(out, metric).whole(&[], value);
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
