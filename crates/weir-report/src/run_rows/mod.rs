// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures of a run as rows of text: one list that the terminal table and the page both show.
//!
//! A row has one unit for all its runs, chosen by the largest value, so that numbers beside each
//! other can be compared at sight. A value that is not there is `None` in its cell and a [`Gap`]
//! with the reason.

pub(crate) mod closing;
pub(crate) mod gaps;

use crate::results::{Caveat, Results, Run};
use gaps::{Gap, Gaps, Label, listed};
use std::collections::BTreeSet;
use weir_figures::text::{
    NONE, Unit, bandwidth_unit, line, number, percent, short_percent, time_unit,
};

pub struct Row {
    /// What it is about; rows of one subject follow each other.
    pub subject: &'static str,
    /// Which figure of it.
    pub name: &'static str,
    pub unit: &'static str,
    /// One cell a run.
    pub cells: Vec<Option<String>>,
    /// Each run against the one that it is compared with ([`bases`]), with its own unit.
    pub changes: Vec<Option<String>>,
    /// Whether a caveat says that the figure is not to be trusted.
    pub is_doubted: bool,
}

/// What stands behind the name of a row that is not to be trusted.
pub const DOUBT: &str = "*";

impl Row {
    /// Its name, marked if it is not to be trusted.
    pub fn marked_name(&self) -> String {
        let mark = if self.is_doubted { DOUBT } else { "" };
        format!("{}{mark}", self.name)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    BytesPerSec,
    Nanos,
    Ratio,
    SignedRatio,
    Plain(&'static str),
}

struct Figure {
    subject: &'static str,
    name: &'static str,
    /// Dotted name in the result format.
    key: &'static str,
    kind: Kind,
    /// Whether a run against another says something.
    compared: bool,
    /// Whether the row is left out if no run has a value.
    optional: bool,
    of: fn(&Run) -> Option<f64>,
}

const fn figure(
    subject: &'static str,
    name: &'static str,
    key: &'static str,
    kind: Kind,
    of: fn(&Run) -> Option<f64>,
) -> Figure {
    Figure {
        subject,
        name,
        key,
        kind,
        compared: true,
        optional: false,
        of,
    }
}

impl Figure {
    const fn label(&self) -> Label {
        (self.subject, self.name)
    }

    const fn alone(mut self) -> Self {
        self.compared = false;
        self
    }

    const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

const BANDWIDTH: &str = "bandwidth";
const ACCESS: &str = "device access";
const LIGHT: &str = "light reader";
const LIMITED: &str = "limited readers";
const CONTROL: &str = "control";
const ESTIMATE: &str = "estimate error";

/// The rows of every report, in their order.
const FIGURES: [Figure; 23] = {
    use Kind::{BytesPerSec, Nanos, Plain, Ratio, SignedRatio};
    [
        figure(
            BANDWIDTH,
            "set-point",
            "set_point_bytes_per_sec",
            BytesPerSec,
            |r| Some(r.set_point_bytes_per_sec),
        )
        .alone(),
        figure(
            BANDWIDTH,
            "mean",
            "bandwidth.mean_bytes_per_sec",
            BytesPerSec,
            |r| Some(r.bandwidth.mean_bytes_per_sec),
        ),
        figure(
            BANDWIDTH,
            "stddev",
            "bandwidth.stddev_bytes_per_sec",
            BytesPerSec,
            |r| Some(r.bandwidth.stddev_bytes_per_sec),
        )
        .alone(),
        figure(BANDWIDTH, "RMSE", "bandwidth.rmse_ratio", Ratio, |r| {
            Some(r.bandwidth.rmse_ratio)
        }),
        figure(
            BANDWIDTH,
            "bias",
            "bandwidth.bias_ratio",
            SignedRatio,
            |r| Some(r.bandwidth.bias_ratio),
        )
        .alone(),
        figure(ACCESS, "mean", "device_latency.mean_ns", Nanos, |r| {
            r.device_latency.mean_ns
        }),
        figure(ACCESS, "p50", "device_latency.p50_ns", Nanos, |r| {
            r.device_latency.p50_ns
        }),
        figure(ACCESS, "p99", "device_latency.p99_ns", Nanos, |r| {
            r.device_latency.p99_ns
        }),
        figure(LIGHT, "mean", "light_reader.mean_ns", Nanos, |r| {
            r.light_reader.mean_ns
        }),
        figure(LIGHT, "p50", "light_reader.p50_ns", Nanos, |r| {
            r.light_reader.p50_ns
        }),
        figure(LIGHT, "p99", "light_reader.p99_ns", Nanos, |r| {
            r.light_reader.p99_ns
        }),
        figure(LIMITED, "mean", "limited_readers.mean_ns", Nanos, |r| {
            r.limited_readers.latency.mean_ns
        }),
        figure(LIMITED, "p50", "limited_readers.p50_ns", Nanos, |r| {
            r.limited_readers.latency.p50_ns
        }),
        figure(LIMITED, "p99", "limited_readers.p99_ns", Nanos, |r| {
            r.limited_readers.latency.p99_ns
        }),
        figure(
            LIMITED,
            "lower bound",
            "limited_readers.little_bound_ns",
            Nanos,
            |r| r.limited_readers.little_bound_ns,
        ),
        figure(
            LIMITED,
            "p99 ÷ bound",
            "limited_readers",
            Plain("×"),
            p99_per_bound,
        )
        .alone(),
        figure(
            "CPU time",
            "per GiB read",
            "cpu_sec_per_gib",
            Plain("s"),
            |r| r.cpu_sec_per_gib,
        ),
        figure(
            "work beside",
            "throughput",
            "throughput_ops_per_sec",
            Plain("ops/s"),
            |r| r.throughput_ops_per_sec,
        ),
        figure(CONTROL, "longest gap", "limited_gap_ms", Nanos, |r| {
            r.limited_gap_ms.map(|m| m * 1e6)
        })
        .alone()
        .optional(),
        figure(CONTROL, "settles in", "settle_ms", Plain("s"), |r| {
            r.settle_ms.map(|m| m / 1e3)
        })
        .alone(),
        figure(CONTROL, "overshoot", "overshoot_ratio", Ratio, |r| {
            r.overshoot_ratio
        })
        .alone(),
        figure(
            ESTIMATE,
            "median",
            "estimate_error_ratio",
            Ratio,
            median_estimate_error,
        )
        .alone()
        .optional(),
        figure(
            ESTIMATE,
            "worst",
            "estimate_error_ratio",
            Ratio,
            worst_estimate_error,
        )
        .alone()
        .optional(),
    ]
};

/// 99th percentile of the limited readers in multiples of Little's bound.
pub fn p99_per_bound(run: &Run) -> Option<f64> {
    let bound = run.limited_readers.little_bound_ns.filter(|b| *b > 0.0)?;
    Some(run.limited_readers.latency.p99_ns? / bound)
}

/// Error of the estimate of the workload in the middle: half of them have a larger one, a ratio.
pub fn median_estimate_error(run: &Run) -> Option<f64> {
    let errors = errors(run);
    errors.get(errors.len().checked_sub(1)? / 2).copied()
}

/// The largest error of a workload's estimate, a ratio.
pub fn worst_estimate_error(run: &Run) -> Option<f64> {
    errors(run).last().copied()
}

/// Largest deviation of a workload's dominant share from its target.
pub fn worst_share_error(run: &Run) -> Option<f64> {
    let errors = run.shares.values().filter_map(|s| s.error_ratio);
    errors.map(f64::abs).max_by(f64::total_cmp)
}

fn errors(run: &Run) -> Vec<f64> {
    let finite = run
        .estimate_error_ratio
        .values()
        .copied()
        .filter(|e| e.is_finite());
    let mut errors: Vec<f64> = finite.collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// `value` if it is one: finite, and no reason stands in its place.
pub fn known(run: &Run, key: &str, value: Option<f64>) -> Option<f64> {
    value.filter(|v| v.is_finite() && given_reason(run, key).is_none())
}

/// How long weir was starting while the run went on already; nothing where it was not.
pub fn starting_ms(run: &Run) -> Option<f64> {
    known(run, "start_ms", run.start_ms).filter(|ms| *ms > 0.0)
}

/// Why `key` has no value.
pub fn reason(run: &Run, key: &str) -> String {
    let part = || {
        let parts = run.missing.iter().filter(|(name, _)| group(name) == key);
        parts.map(|(_, why)| why).next()
    };
    let given = given_reason(run, key).or_else(part);
    given.map_or("no value and no reason in the results".into(), |r| {
        line(r, 600)
    })
}

/// The reason under its own name, or under that of the group it is in.
fn given_reason<'a>(run: &'a Run, key: &str) -> Option<&'a String> {
    run.missing.get(key).or_else(|| run.missing.get(group(key)))
}

fn group(key: &str) -> &str {
    key.split_once('.').map_or(key, |(group, _)| group)
}

/// The thesis's loop as a mere observer.
const MONITOR: &str = "thesis-monitor";

/// Whether nothing was limited in this run.
pub fn is_free(run: &Run) -> bool {
    run.policy == "none" && ["none", MONITOR].contains(&run.backend.as_str())
}

/// Whether runs differ in their seed.
pub fn has_several_seeds(runs: &[Run]) -> bool {
    runs.iter().any(|run| run.seed != runs[0].seed)
}

/// What each run is compared with: the run without control of the same seed, else the first run of that seed.
/// That one itself is compared with nothing.
pub fn bases(runs: &[Run]) -> Vec<Option<usize>> {
    let base = |at: usize| {
        let same = |other: &usize| runs[*other].seed == runs[at].seed;
        let free = (0..runs.len()).find(|other| same(other) && is_free(&runs[*other]));
        let base = free.or_else(|| (0..runs.len()).find(same));
        base.filter(|base| *base != at)
    };
    (0..runs.len()).map(base).collect()
}

/// What the columns are called: by policy; with the back end where several have the same policy, and with the
/// seed where there are several.
pub fn names(results: &Results) -> Vec<String> {
    let has_seeds = has_several_seeds(&results.runs);
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for run in &results.runs {
        // A limit by hand has no policy, and the thesis's controllers are not weir with a policy.
        let by_hand = run.policy == "none" && run.backend != "none";
        let is_own = by_hand || run.backend.starts_with("thesis-");
        let policy = line(if is_own { &run.backend } else { &run.policy }, 24);
        let other = |r: &Run| {
            let is_weirs = !r.backend.starts_with("thesis-");
            is_weirs && r.policy == run.policy && r.backend != run.backend
        };
        let name = if !is_own && run.policy != "none" && results.runs.iter().any(other) {
            format!("{policy}/{}", line(&run.backend, 24))
        } else {
            policy
        };
        let name = if has_seeds {
            format!("{name}, seed {}", run.seed)
        } else {
            name
        };
        let mut unique = name.clone();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{name} #{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}

/// All rows, and what is not in them. A figure that no run has is no row.
pub fn rows(results: &Results) -> (Vec<Row>, Vec<Gap>) {
    let mut rows = Vec::new();
    let mut gaps = Gaps::default();
    let bases = bases(&results.runs);
    for figure in &FIGURES {
        let of = |run| known(run, figure.key, (figure.of)(run));
        let values: Vec<Option<f64>> = results.runs.iter().map(of).collect();
        let has_value = values.iter().any(Option::is_some);
        if figure.optional && !has_value {
            continue;
        }
        for (i, run) in results.runs.iter().enumerate() {
            if values[i].is_none() {
                gaps.note(i, why(run, figure), figure.label());
            }
        }
        if has_value {
            let mut row = row(figure, &values, &bases);
            row.is_doubted = results.caveats.iter().any(|c| is_about(c, figure));
            rows.push(row);
        }
    }
    (rows, gaps.finish(&names(results)))
}

fn why(run: &Run, figure: &Figure) -> String {
    if figure.optional && given_reason(run, figure.key).is_none() {
        "nothing was estimated in this run".into()
    } else {
        reason(run, figure.key)
    }
}

fn is_about(caveat: &Caveat, figure: &Figure) -> bool {
    caveat.figure == figure.key || caveat.figure == group(figure.key)
}

/// What is not to be trusted, for people: the figures that share a reason, and the reason.
pub fn caveats(results: &Results) -> Vec<(String, String)> {
    let mut reasons: Vec<&str> = results.caveats.iter().map(|c| c.reason.as_str()).collect();
    let mut seen = BTreeSet::new();
    reasons.retain(|reason| seen.insert(*reason));
    let about = |reason: &&str| {
        let same = results.caveats.iter().filter(|c| c.reason == *reason);
        let (mut figures, mut others) = (Vec::new(), Vec::new());
        for caveat in same {
            let mut rows = FIGURES.iter().filter(|f| is_about(caveat, f));
            match (rows.next(), rows.next()) {
                (Some(only), None) => figures.push(only.label()),
                (Some(first), Some(_)) => others.push(first.subject.into()),
                (None, _) => others.push(line(&caveat.figure, 80)),
            }
        }
        others.insert(0, listed(&figures));
        others.retain(|name| !name.is_empty());
        (others.join(", "), line(reason, 600))
    };
    reasons.iter().map(about).collect()
}

fn row(figure: &Figure, values: &[Option<f64>], bases: &[Option<usize>]) -> Row {
    let largest = values.iter().flatten().fold(0.0f64, |a, v| a.max(v.abs()));
    let (divisor, unit): Unit = match figure.kind {
        Kind::BytesPerSec => bandwidth_unit(largest),
        Kind::Nanos => time_unit(largest),
        Kind::Ratio | Kind::SignedRatio => (1.0, "%"),
        Kind::Plain(unit) => (1.0, unit),
    };
    let show = |v: f64| match figure.kind {
        Kind::Ratio => percent(v, false),
        Kind::SignedRatio => percent(v, true),
        _ => number(v / divisor),
    };
    Row {
        subject: figure.subject,
        name: figure.name,
        unit,
        cells: values.iter().map(|v| v.map(show)).collect(),
        changes: changes(figure, values, bases),
        is_doubted: false,
    }
}

/// Each run's value against that of the run it is compared with.
fn changes(
    figure: &Figure,
    values: &[Option<f64>],
    bases: &[Option<usize>],
) -> Vec<Option<String>> {
    let change = |(value, base): (&Option<f64>, &Option<usize>)| {
        let base = values[(*base)?].filter(|v| *v > 0.0)?;
        let ratio = (*value)? / base - 1.0;
        let is_shown = figure.compared && ratio.is_finite();
        is_shown.then(|| format!("{} %", short_percent(ratio)))
    };
    values.iter().zip(bases).map(change).collect()
}

/// A cell as text.
pub fn cell(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or(NONE)
}
