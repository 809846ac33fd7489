// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds a scenario states under `[expect]`, against what came out.
//!
//! They compare the run without control (the first with policy and backend `none`) with the first run that has a policy,
//! and with the others of that policy and seed: weir by its other back ends. The thesis's controllers are not held to
//! bounds where weir ran. A bound is met if the value is on it or better. A value that is not known does not meet its bound:
//! what was not measured was not shown.

use super::rows::{self, is_free, known, p99_per_bound, reason};
use super::text::{NONE, left, line, number, percent, right, wrap};
use crate::results::{Results, Run};
use crate::subject::Subject;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use weir_core::figures::Expect;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// At most this far from zero.
    Within(f64),
}

/// How values of a check are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A ratio, in percent.
    Percent,
    /// A multiple.
    Times,
    /// A time in nanoseconds.
    Nanos,
}

/// One bound and what came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The run that is judged, as tables name it; empty where there is none.
    pub run: String,
    /// What is bounded.
    pub name: String,
    /// The bound.
    pub bound: Bound,
    /// The value (a ratio), or why there is none.
    pub measured: Result<f64, String>,
    /// Whether the bound is met.
    pub passed: bool,
    /// How to show both.
    pub shown: Shown,
}

impl Check {
    fn new(
        run: &str,
        name: &str,
        bound: Bound,
        shown: Shown,
        measured: Result<f64, String>,
    ) -> Self {
        let passed = measured.as_ref().is_ok_and(|value| match bound {
            Bound::AtMost(most) => *value <= most,
            Bound::AtLeast(least) => *value >= least,
            Bound::Within(most) => value.abs() <= most,
        });
        Check {
            run: run.into(),
            name: name.into(),
            bound,
            measured,
            passed,
            shown,
        }
    }

    /// The bound for people: `≤ 7.00 %`.
    pub fn bound_text(&self) -> String {
        match self.bound {
            Bound::AtMost(most) => format!("≤ {}", self.show(most, false)),
            Bound::AtLeast(least) => format!("≥ {}", self.show(least, false)),
            Bound::Within(most) => format!("± {}", self.show(most, false)),
        }
    }

    /// The value for people, `–` if there is none.
    pub fn measured_text(&self) -> String {
        let signed = matches!(self.bound, Bound::Within(_));
        self.measured
            .as_ref()
            .map_or(NONE.into(), |v| self.show(*v, signed))
    }

    fn show(&self, value: f64, signed: bool) -> String {
        match self.shown {
            Shown::Percent => format!("{} %", percent(value, signed)),
            Shown::Times => format!("{} ×", number(value)),
            Shown::Nanos => format!("{value:.0} ns"),
        }
    }
}

/// The two runs that are compared.
struct Pair<'a> {
    free: Result<&'a Run, String>,
    held: Result<&'a Run, String>,
}

impl Pair<'_> {
    /// A value of the run with control.
    fn held(&self, key: &str, of: fn(&Run) -> Option<f64>) -> Result<f64, String> {
        value(&self.held, key, of)
    }

    /// By how much a value of the run with control is lower than without.
    fn reduction(&self, key: &str, of: fn(&Run) -> Option<f64>) -> Result<f64, String> {
        let free = value(&self.free, key, of)?;
        let held = value(&self.held, key, of)?;
        if free > 0.0 {
            Ok(1.0 - held / free)
        } else {
            Err(format!(
                "the run without control has {key} = {free}: nothing to compare with"
            ))
        }
    }
}

fn value(
    run: &Result<&Run, String>,
    key: &str,
    of: fn(&Run) -> Option<f64>,
) -> Result<f64, String> {
    let run = run.as_ref().map_err(Clone::clone)?;
    known(run, key, of(run))
        .ok_or_else(|| format!("{}: {}", line(&run.policy, 24), reason(run, key)))
}

/// The one check of a time.
const DEVICE_LATENCY: &str = "device access, mean";

/// The one check of a multiple.
const LIMITED_P99: &str = "limited readers: p99 ÷ Little's bound";

/// Of a backend's name: a controller of the thesis.
const THESIS: &str = "thesis-";

/// The runs that are held to the bounds, by their place.
fn judged(runs: &[Run]) -> Vec<usize> {
    let is_weirs = |run: &&Run| run.policy != "none" && !run.backend.starts_with(THESIS);
    let controlled = || runs.iter().find(|run| run.policy != "none");
    let Some(first) = runs.iter().find(is_weirs).or_else(controlled) else {
        return Vec::new();
    };
    let is_like = |run: &Run| {
        (&run.policy, run.seed) == (&first.policy, first.seed)
            && (std::ptr::eq(run, first) || is_weirs(&run))
    };
    (0..runs.len()).filter(|at| is_like(&runs[*at])).collect()
}

/// Every bound of the scenario, run by run, in the order of the format's documentation.
pub fn checks(subject: &Subject, results: &Results) -> Vec<Check> {
    let runs = &results.runs;
    let names = rows::names(results);
    let free = || {
        let free = runs.iter().find(|r| is_free(r));
        free.ok_or("there is no run without control".to_owned())
    };
    let of = |at: usize| {
        let pair = Pair {
            free: free(),
            held: Ok(&runs[at]),
        };
        checks_of(&pair, &subject.expect.of(&runs[at].backend), &names[at])
    };
    let judged = judged(runs);
    if judged.is_empty() {
        let pair = Pair {
            free: free(),
            held: Err("there is no run with control".into()),
        };
        return checks_of(&pair, &subject.expect, "");
    }
    judged.into_iter().flat_map(of).collect()
}

fn checks_of(pair: &Pair, expect: &Expect, run: &str) -> Vec<Check> {
    use Bound::{AtLeast, AtMost, Within};
    let mut checks = Vec::new();
    let mut check = |name, bound, measured| {
        let shown = match name {
            LIMITED_P99 => Shown::Times,
            DEVICE_LATENCY => Shown::Nanos,
            _ => Shown::Percent,
        };
        checks.push(Check::new(run, name, bound, shown, measured));
    };
    if let Some(most) = expect.bias_ratio_max {
        let bias = pair.held("bandwidth.bias_ratio", |r| Some(r.bandwidth.bias_ratio));
        check("device bandwidth: bias", Within(most), bias);
    }
    if let Some(most) = expect.rmse_ratio_max {
        let rmse = pair.held("bandwidth.rmse_ratio", |r| Some(r.bandwidth.rmse_ratio));
        check("device bandwidth: RMSE to set-point", AtMost(most), rmse);
    }
    if let Some(least) = expect.device_latency_reduction_min {
        let lower = pair.reduction("device_latency.mean_ns", |r| r.device_latency.mean_ns);
        check("device access, mean: lower by", AtLeast(least), lower);
    }
    for bound in [
        expect.device_latency_ns_min.map(AtLeast),
        expect.device_latency_ns_max.map(AtMost),
    ]
    .into_iter()
    .flatten()
    {
        let mean = pair.held("device_latency.mean_ns", |r| r.device_latency.mean_ns);
        check(DEVICE_LATENCY, bound, mean);
    }
    if let Some(least) = expect.light_reduction_min {
        let p50 = pair.reduction("light_reader.p50_ns", |r| r.light_reader.p50_ns);
        check("light reader, p50: lower by", AtLeast(least), p50);
        let p99 = pair.reduction("light_reader.p99_ns", |r| r.light_reader.p99_ns);
        check("light reader, p99: lower by", AtLeast(least), p99);
    }
    if let Some(most) = expect.limited_p99_per_bound_max {
        let times = pair.held("limited_readers", p99_per_bound);
        check(LIMITED_P99, AtMost(most), times);
    }
    if let Some(least) = expect.cpu_cost_reduction_min {
        let lower = pair.reduction("cpu_sec_per_gib", |r| r.cpu_sec_per_gib);
        check("CPU time per GiB read: lower by", AtLeast(least), lower);
    }
    if let Some(least) = expect.throughput_gain_min {
        let lower = pair.reduction("throughput_ops_per_sec", |r| r.throughput_ops_per_sec);
        let higher = lower.map(|l| -l);
        check("work beside: throughput higher by", AtLeast(least), higher);
    }
    if let Some(most) = expect.estimate_error_ratio_max {
        let error = pair.held("estimate_error_ratio", mean_estimate_error);
        check("bandwidth by workload: error", AtMost(most), error);
    }
    checks
}

fn mean_estimate_error(run: &Run) -> Option<f64> {
    let errors = &run.estimate_error_ratio;
    let count = errors.len() as f64;
    (count > 0.0).then(|| errors.values().sum::<f64>() / count)
}

/// `7 of 8 bounds met`
pub fn verdict(checks: &[Check]) -> String {
    let met = checks.iter().filter(|c| c.passed).count();
    match checks.len() {
        0 => "the scenario states no bounds".into(),
        count if met == count => format!("all {count} bounds met"),
        count => format!("{met} of {count} bounds met"),
    }
}

/// The checks for a terminal; reasons follow below the line they belong to. Ends with a newline.
pub fn checks_table(checks: &[Check]) -> String {
    let width = |of: fn(&Check) -> String| checks.iter().map(|c| of(c).width()).max().unwrap_or(0);
    let name_width = width(|c| c.name.clone());
    let bound_width = width(Check::bound_text);
    let measured_width = width(Check::measured_text);
    let mut text = String::new();
    let mut shown = "";
    for check in checks {
        if has_several_runs(checks) && check.run != shown {
            shown = &check.run;
            let _ = writeln!(text, "{}:", line(shown, super::table::COLUMNS));
        }
        let _ = writeln!(
            text,
            "{}  {}  {}  {}",
            if check.passed { "met   " } else { "MISSED" },
            left(&check.name, name_width),
            right(&check.measured_text(), measured_width),
            right(&check.bound_text(), bound_width),
        );
        if let Err(why) = &check.measured {
            let _ = writeln!(
                text,
                "{}",
                wrap(&format!("        {why}"), super::table::COLUMNS, 8)
            );
        }
    }
    text + &verdict(checks) + "\n"
}

/// Whether checks are of more than one run, so that each run has to be named.
pub fn has_several_runs(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.run != checks[0].run)
}

/// What the checks compare, for people.
pub fn compared(results: &Results) -> Option<String> {
    let names = rows::names(results);
    let free = results.runs.iter().position(is_free)?;
    let judged: Vec<&str> = judged(&results.runs)
        .into_iter()
        .map(|at| names[at].as_str())
        .collect();
    (!judged.is_empty()).then(|| format!("{} against {}", judged.join(", "), names[free]))
}
