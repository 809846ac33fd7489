// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds a scenario states under `[expect]`, against what came out.
//!
//! Each run of weir is held to them, by whatever back end, policy and seed, and compared with the run without
//! control of its seed. The thesis's controllers are held to them where weir did not run, or where the
//! scenario states bounds for them by name. A bound is met if the value is on it or better. A value that is
//! not known does not meet its bound: what was not measured was not shown.

use crate::results::{Results, Run};
use crate::run_rows::{
    self, is_free, known, p99_per_bound, reason, worst_estimate_error, worst_share_error,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use weir_figures::text::line;
use weir_figures::{
    Bound, COLUMNS, Cell, Comparison, FigureUnit, Setting, Table, compared, terminal_table,
};
use weir_scenario::Expect;
use weir_scenario::ScenarioInfo;

/// One bound of a run and what came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The run that is checked, as tables name it; empty where there is none.
    pub run: String,
    pub seed: u64,
    /// The value beside its bound.
    pub of: Comparison,
}

impl Check {
    fn new(pair: &Pair, bounded: &Bounded, bound: Bound) -> Self {
        let of = Comparison::new(bounded.name, bounded.unit.clone(), (bounded.of)(pair));
        Check {
            run: pair.name.into(),
            seed: pair.seed,
            of: of.within(bound),
        }
    }

    pub fn is_met(&self) -> bool {
        !self.of.is_missed()
    }
}

/// The two runs that are compared.
struct Pair<'a> {
    /// Name of the run with control, as tables have it.
    name: &'a str,
    seed: u64,
    free: Result<&'a Run, String>,
    held: Result<&'a Run, String>,
}

impl Pair<'_> {
    /// A value of the run with control.
    fn held(&self, key: &str, of: fn(&Run) -> Option<f64>) -> Result<f64, String> {
        value(&self.held, key, of)
    }

    fn mean_bandwidth(&self) -> Result<f64, String> {
        let mean = |run: &Run| Some(run.bandwidth.mean_bytes_per_sec);
        self.held("bandwidth.mean_bytes_per_sec", mean)
    }

    /// The part by which a value of the run with control is lower than without.
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

struct Bounded {
    name: &'static str,
    unit: FigureUnit,
    bound: fn(&Expect) -> Option<Bound>,
    of: fn(&Pair) -> Result<f64, String>,
}

const fn kind(
    name: &'static str,
    unit: FigureUnit,
    bound: fn(&Expect) -> Option<Bound>,
    of: fn(&Pair) -> Result<f64, String>,
) -> Bounded {
    Bounded {
        name,
        unit,
        bound,
        of,
    }
}

/// The kinds of bounds in the order of the format's documentation.
const KINDS: [Bounded; 16] = {
    use Bound::{AtLeast, AtMost};
    use FigureUnit::{Nanos, Percent, Rate};
    [
        kind(
            "device bandwidth: bias",
            Percent,
            |e| e.bias_ratio_max.map(|most| Bound::Within(-most, most)),
            |p| p.held("bandwidth.bias_ratio", |r| Some(r.bandwidth.bias_ratio)),
        ),
        kind(
            "device bandwidth: RMSE to set-point",
            Percent,
            |e| e.rmse_ratio_max.map(AtMost),
            |p| p.held("bandwidth.rmse_ratio", |r| Some(r.bandwidth.rmse_ratio)),
        ),
        kind(
            "device access, mean: lower by",
            Percent,
            |e| e.device_latency_reduction_min.map(AtLeast),
            |p| p.reduction("device_latency.mean_ns", |r| r.device_latency.mean_ns),
        ),
        kind(
            "device access, mean",
            Nanos,
            |e| e.device_latency_ns_min.map(AtLeast),
            |p| p.held("device_latency.mean_ns", |r| r.device_latency.mean_ns),
        ),
        kind(
            "device access, mean",
            Nanos,
            |e| e.device_latency_ns_max.map(AtMost),
            |p| p.held("device_latency.mean_ns", |r| r.device_latency.mean_ns),
        ),
        kind(
            "light reader, p50: lower by",
            Percent,
            |e| e.light_reduction_min.map(AtLeast),
            |p| p.reduction("light_reader.p50_ns", |r| r.light_reader.p50_ns),
        ),
        kind(
            "light reader, p99: lower by",
            Percent,
            |e| e.light_reduction_min.map(AtLeast),
            |p| p.reduction("light_reader.p99_ns", |r| r.light_reader.p99_ns),
        ),
        kind(
            "limited readers: p99 ÷ Little's bound",
            FigureUnit::Named(Cow::Borrowed("×")),
            |e| e.limited_p99_per_bound_max.map(AtMost),
            |p| p.held("limited_readers", p99_per_bound),
        ),
        kind(
            "CPU time per GiB read: lower by",
            Percent,
            |e| e.cpu_cost_reduction_min.map(AtLeast),
            |p| p.reduction("cpu_sec_per_gib", |r| r.cpu_sec_per_gib),
        ),
        kind(
            "work beside: throughput higher by",
            Percent,
            |e| e.throughput_gain_min.map(AtLeast),
            |p| Ok(-p.reduction("throughput_ops_per_sec", |r| r.throughput_ops_per_sec)?),
        ),
        kind(
            "device bandwidth: mean",
            Rate,
            |e| e.bandwidth_bytes_per_sec_min.map(AtLeast),
            |p| p.mean_bandwidth(),
        ),
        kind(
            "device bandwidth: mean",
            Rate,
            |e| e.bandwidth_bytes_per_sec_max.map(AtMost),
            |p| p.mean_bandwidth(),
        ),
        kind(
            "control: settles in",
            Nanos,
            |e| e.settle_ms_max.map(|ms| AtMost(ms * 1e6)),
            |p| p.held("settle_ms", |r| r.settle_ms.map(|ms| ms * 1e6)),
        ),
        kind(
            "control: overshoot",
            Percent,
            |e| e.overshoot_ratio_max.map(AtMost),
            |p| p.held("overshoot_ratio", |r| r.overshoot_ratio),
        ),
        kind(
            "estimate error, worst workload",
            Percent,
            |e| e.estimate_error_ratio_max.map(AtMost),
            |p| p.held("estimate_error_ratio", worst_estimate_error),
        ),
        kind(
            "dominant share: error, worst workload",
            Percent,
            |e| e.share_error_ratio_max.map(AtMost),
            |p| p.held("shares", worst_share_error),
        ),
    ]
};

/// Begins the name of a back end that is a controller of the thesis.
const THESIS: &str = "thesis-";

/// The runs that are held to the bounds, by their place.
fn checked(expect: &Expect, runs: &[Run]) -> Vec<usize> {
    let is_weirs = |run: &Run| !run.backend.starts_with(THESIS);
    let is_controlled = |run: &Run| run.policy != "none";
    let has_weir = runs.iter().any(|run| is_controlled(run) && is_weirs(run));
    let is_checked = |run: &Run| {
        let has_own = expect.backends.contains_key(&run.backend);
        is_controlled(run) && (is_weirs(run) || !has_weir || has_own)
    };
    (0..runs.len())
        .filter(|at| is_checked(&runs[*at]))
        .collect()
}

/// Every bound of the scenario, run by run, in the order of the format's documentation.
pub fn checks(subject: &ScenarioInfo, results: &Results) -> Vec<Check> {
    let runs = &results.runs;
    let names = run_rows::names(results);
    let free = |seed: u64| {
        let free = runs.iter().find(|r| is_free(r) && r.seed == seed);
        free.ok_or_else(|| "there is no run without control".to_owned())
    };
    let of = |at: usize| {
        let pair = Pair {
            name: &names[at],
            seed: runs[at].seed,
            free: free(runs[at].seed),
            held: Ok(&runs[at]),
        };
        checks_of(&pair, &subject.expect.of(&runs[at].backend))
    };
    let checked = checked(&subject.expect, runs);
    if checked.is_empty() {
        let pair = Pair {
            name: "",
            seed: subject.seed,
            free: free(subject.seed),
            held: Err("there is no run with control".into()),
        };
        return checks_of(&pair, &subject.expect);
    }
    checked.into_iter().flat_map(of).collect()
}

fn checks_of(pair: &Pair, expect: &Expect) -> Vec<Check> {
    let check = |bounded: &Bounded| Some(Check::new(pair, bounded, (bounded.bound)(expect)?));
    KINDS.iter().filter_map(check).collect()
}

/// Controllers that no bound is held against, as tables name them, whatever the seed.
pub fn without_bounds(subject: &ScenarioInfo, results: &Results) -> Vec<String> {
    let seed = results.runs.first().map(|run| run.seed);
    let mut one_seed = results.clone();
    one_seed.runs.retain(|run| Some(run.seed) == seed);
    let checks = checks(subject, &one_seed);
    let names = run_rows::names(&one_seed).into_iter().zip(&one_seed.runs);
    let controlled = names.filter(|(_, run)| run.policy != "none");
    let is_unchecked = |name: &String| !checks.iter().any(|check| check.run == *name);
    controlled
        .map(|(name, _)| name)
        .filter(is_unchecked)
        .collect()
}

/// `7 of 8 bounds met`
pub fn verdict(checks: &[Check]) -> String {
    let met = checks.iter().filter(|c| c.is_met()).count();
    let seeds: BTreeSet<u64> = checks.iter().map(|c| c.seed).collect();
    let of_seeds = match seeds.len() {
        0 | 1 => String::new(),
        count => format!(" over {count} seeds"),
    };
    match checks.len() {
        0 => "the scenario states no bounds".into(),
        1 if met == 1 => "the bound is met".into(),
        1 => "the bound is missed".into(),
        count if met == count => format!("all {count} bounds met{of_seeds}"),
        count => format!("{met} of {count} bounds met{of_seeds}"),
    }
}

/// The checks; a run is named where there are several. Of several seeds the first has all its rows, each
/// other one those that it misses. The heads are those of value and bound.
pub fn bounds_table(checks: &[Check], [value, bound]: [&str; 2]) -> Table {
    let mut table = compared([value, bound, "", ""], []);
    let mut run = "";
    for check in in_full(checks) {
        if has_several_runs(checks) && check.run != run {
            run = &check.run;
            table
                .rows
                .push(vec![Cell::words(format!("{}:", line(run, COLUMNS)))]);
        }
        table.rows.push(check.of.row().to_vec());
    }
    table
}

/// The checks for a terminal; reasons follow below the line they belong to. Ends with a newline.
pub fn checks_table(checks: &[Check]) -> String {
    terminal_table(&bounds_table(checks, ["", ""]), Setting::PLAIN) + &verdict(checks) + "\n"
}

/// All checks of the first seed, and of the others those that were missed.
fn in_full(checks: &[Check]) -> Vec<&Check> {
    let first = checks.first().map_or(0, |check| check.seed);
    let is_shown = |check: &&Check| check.seed == first || !check.is_met();
    checks.iter().filter(is_shown).collect()
}

/// Whether checks concern more than one run, so that each run has to be named.
fn has_several_runs(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.run != checks[0].run)
}

/// What the checks compare, for people.
pub fn compared_runs(subject: &ScenarioInfo, results: &Results) -> Option<String> {
    let runs = &results.runs;
    let names = run_rows::names(results);
    let free = runs.iter().position(is_free)?;
    let checked = checked(&subject.expect, runs);
    if checked.is_empty() {
        return None;
    }
    if run_rows::has_several_seeds(runs) {
        return Some(
            "each run with control against the run without of its seed; of seeds after the first, what was missed"
                .into(),
        );
    }
    let checked: Vec<&str> = checked.into_iter().map(|at| names[at].as_str()).collect();
    Some(format!("{} against {}", checked.join(", "), names[free]))
}
