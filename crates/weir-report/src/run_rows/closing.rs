// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened, in one sentence: where the best controller held the device, what became of latencies, and
//! what the work beside gained.
//!
//! ```text
//! weir (sched-ext-full) held the device at 36.2 of 36 MiB/s (RMSE 2.31 %; cpu-max: 5.19 %); light reader's p99
//! −67 % (12.1 to 4.01 ms), work beside +12 %.
//! ```
//!
//! Of several seeds it gives the means.

use crate::results::{Results, Run};
use crate::run_rows::{is_free, known, reason};
use std::collections::BTreeSet;
use weir_figures::text::{
    bandwidth_unit, line, number, percent, plain_number, short_percent, time_unit,
};

/// A device this close to its set-point is held.
const HELD_RATIO_MAX: f64 = 0.05;
/// Other controllers are named up to this many.
const OTHERS: usize = 3;
/// Columns of a reason within the sentence.
const REASON_COLUMNS: usize = 90;

/// The sentence. It says so where a figure is not known.
pub fn closing(results: &Results) -> String {
    let groups = groups(&results.runs);
    let free = groups.iter().find(|group| is_free(group.first()));
    let controlled = controlled(&groups);
    let Some(best) = best(&controlled) else {
        return match free {
            Some(free) => format!(
                "Without control the device moved {}; {}{}.",
                free.moved(),
                LATENCY.alone(free),
                seeds(&results.runs),
            ),
            None => "No run was made.".into(),
        };
    };
    let changes = match free {
        Some(free) => changes(free, best),
        None => format!(
            "{}; no run without control was made to compare with",
            LATENCY.alone(best)
        ),
    };
    let held = match free.filter(|free| best.had_nothing_to_limit(free)) {
        Some(_) => best.nothing_to_limit(&controlled),
        None => best.held(&controlled),
    };
    format!("{held}; {changes}{}.", seeds(&results.runs))
}

/// Runs that are alike but for their seed: figures are means over them.
struct Alike<'a>(Vec<&'a Run>);

fn groups(runs: &[Run]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike> = Vec::new();
    for run in runs {
        let is_same = |group: &&mut Alike| {
            let first = group.first();
            (&first.policy, &first.backend) == (&run.policy, &run.backend)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.0.push(run),
            None => groups.push(Alike(vec![run])),
        }
    }
    groups
}

/// ` (means of 3 seeds)`
fn seeds(runs: &[Run]) -> String {
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    match seeds.len() {
        0 | 1 => String::new(),
        count => format!(" (means of {count} seeds)"),
    }
}

/// Those that are compared: weir's; other controllers or limits by hand where weir did not run.
fn controlled<'a, 'b>(groups: &'b [Alike<'a>]) -> Vec<&'b Alike<'a>> {
    let is_weirs = |group: &&Alike| group.first().policy != "none" && !group.is_of_thesis();
    let weir: Vec<&Alike> = groups.iter().filter(is_weirs).collect();
    if weir.is_empty() {
        return groups.iter().filter(|g| !is_free(g.first())).collect();
    }
    weir
}

/// The group with the windows closest to the set-point; the first where none has a bandwidth.
fn best<'a, 'b>(groups: &[&'b Alike<'a>]) -> Option<&'b Alike<'a>> {
    let scatter = |group: &Alike| group.rmse_ratio().unwrap_or(f64::INFINITY);
    let closer = |a: &&&Alike, b: &&&Alike| scatter(a).total_cmp(&scatter(b));
    groups.iter().min_by(closer).copied()
}

impl Alike<'_> {
    fn first(&self) -> &Run {
        // A group is made with a run in it.
        self.0[0]
    }

    /// Mean of a figure over the runs that have it.
    fn mean(&self, key: &str, of: fn(&Run) -> Option<f64>) -> Option<f64> {
        let values = self.0.iter().filter_map(|run| known(run, key, of(run)));
        let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
        (count > 0.0).then_some(sum / count)
    }

    fn is_of_thesis(&self) -> bool {
        self.first().backend.starts_with("thesis-")
    }

    /// Root mean square error of the windows from the set-point.
    fn rmse_ratio(&self) -> Option<f64> {
        self.mean("bandwidth.rmse_ratio", |r| Some(r.bandwidth.rmse_ratio))
    }

    fn bias_ratio(&self) -> Option<f64> {
        self.mean("bandwidth.bias_ratio", |r| Some(r.bandwidth.bias_ratio))
    }

    fn bytes_per_sec(&self) -> Option<f64> {
        self.mean("bandwidth.mean_bytes_per_sec", |r| {
            Some(r.bandwidth.mean_bytes_per_sec)
        })
    }

    fn held(&self, all: &[&Alike]) -> String {
        let subject = self.subject(all);
        let (Some(mean), Some(bias)) = (self.bytes_per_sec(), self.bias_ratio()) else {
            let why = self.why("bandwidth.mean_bytes_per_sec");
            return format!("The device's bandwidth with {subject} is not known ({why})");
        };
        let others = self.others(all);
        if bias.abs() > HELD_RATIO_MAX {
            let moved = self.moved();
            return format!("{subject} did not hold the device, which moved {moved}{others}");
        }
        // Chosen values have no zeros at the end, measured values have all their digits.
        let (divisor, unit) = bandwidth_unit(mean);
        let set_point = plain_number(self.first().set_point_bytes_per_sec / divisor);
        let mean = number(mean / divisor);
        format!("{subject} held the device at {mean} of {set_point} {unit}{others}")
    }

    /// Below the set-point with and without control, and about the same.
    fn had_nothing_to_limit(&self, free: &Alike) -> bool {
        let is_below = |run: &Alike| run.bias_ratio().is_some_and(|bias| bias < -HELD_RATIO_MAX);
        let both = self.bytes_per_sec().zip(free.bytes_per_sec());
        let is_same = both.is_some_and(|(own, free)| own >= free * (1.0 - HELD_RATIO_MAX));
        is_below(self) && is_below(free) && is_same
    }

    /// `weir (cpu-max) had nothing to limit: the device moved 2.00 GiB/s, 50.0 % below its set-point`
    fn nothing_to_limit(&self, all: &[&Alike]) -> String {
        let (subject, moved) = (self.subject(all), self.moved());
        let others = self.others(all);
        format!("{subject} had nothing to limit: the device moved {moved}{others}")
    }

    /// `88.2 MiB/s, 133 % above its set-point`
    fn moved(&self) -> String {
        let Some(mean) = self.bytes_per_sec() else {
            let why = self.why("bandwidth.mean_bytes_per_sec");
            return format!("an amount that is not known ({why})");
        };
        let (divisor, unit) = bandwidth_unit(mean);
        let moved = format!("{} {unit}", number(mean / divisor));
        match self.bias_ratio() {
            Some(bias) => {
                let side = if bias < 0.0 { "below" } else { "above" };
                let by = percent(bias.abs(), false);
                format!("{moved}, {by} % {side} its set-point")
            }
            None => moved,
        }
    }

    fn subject(&self, all: &[&Alike]) -> String {
        let backend = line(&self.first().backend, 40);
        match self.first().policy.as_str() {
            "none" => format!("A limit by hand ({backend})"),
            _ if self.is_of_thesis() => backend,
            _ => format!("weir ({})", self.what_differs(all)),
        }
    }

    /// The back end; the policy where runs differ by that alone; both where they differ by both.
    fn what_differs(&self, all: &[&Alike]) -> String {
        let own = self.first();
        let (policy, backend) = (line(&own.policy, 24), line(&own.backend, 40));
        let one_policy = all.iter().all(|other| other.first().policy == own.policy);
        let one_backend = all.iter().all(|other| other.first().backend == own.backend);
        match (one_policy, one_backend) {
            (true, _) => backend,
            (false, true) => policy,
            (false, false) => format!("{policy}, {backend}"),
        }
    }

    /// ` (RMSE 2.31 %; cpu-max: 5.19 %)`: by what the best of several is the best. Nothing for a single one.
    fn others(&self, all: &[&Alike]) -> String {
        let percent = |ratio| format!("{} %", percent(ratio, false));
        let other = |group: &&Alike| {
            let rmse = group.rmse_ratio().filter(|_| !std::ptr::eq(*group, self))?;
            Some(format!("{}: {}", group.what_differs(all), percent(rmse)))
        };
        let mut others: Vec<String> = all.iter().filter_map(other).collect();
        let count = others.len();
        others.truncate(OTHERS);
        if count > OTHERS {
            others.push(format!("{} more", count - OTHERS));
        }
        match self.rmse_ratio().filter(|_| count > 0) {
            Some(own) => format!(" (RMSE {}; {})", percent(own), others.join("; ")),
            None => String::new(),
        }
    }

    fn why(&self, key: &str) -> String {
        line(&reason(self.first(), key), REASON_COLUMNS)
    }
}

/// A figure that the sentence may name.
struct NamedFigure {
    name: &'static str,
    key: &'static str,
    of: fn(&Run) -> Option<f64>,
}

const NEIGHBOUR: NamedFigure = NamedFigure {
    name: "light reader's p99",
    key: "light_reader.p99_ns",
    of: |run| run.light_reader.p99_ns,
};

/// Latency that is shown where there is no neighbour.
const ACCESS: NamedFigure = NamedFigure {
    name: "mean access latency",
    key: "device_latency.mean_ns",
    of: |run| run.device_latency.mean_ns,
};

/// What others get done.
const BESIDE: NamedFigure = NamedFigure {
    name: "work beside",
    key: "throughput_ops_per_sec",
    of: |run| run.throughput_ops_per_sec,
};

/// The one latency that a sentence without a comparison names.
const LATENCY: Either = Either(NEIGHBOUR, ACCESS);

/// The first figure, the second where the first is not known.
struct Either(NamedFigure, NamedFigure);

impl Either {
    /// `light reader's p99 8.00 ms`
    fn alone(&self, group: &Alike) -> String {
        let of = |figure: &NamedFigure| {
            let value = group.mean(figure.key, figure.of)?;
            let (divisor, unit) = time_unit(value);
            Some(format!(
                "{} {} {unit}",
                figure.name,
                number(value / divisor)
            ))
        };
        let found = of(&self.0).or_else(|| of(&self.1));
        found.unwrap_or_else(|| format!("{} not known ({})", self.0.name, group.why(self.0.key)))
    }
}

/// What became of latency and of the work beside.
fn changes(free: &Alike, held: &Alike) -> String {
    let neighbour = change(&NEIGHBOUR, free, held);
    let mut parts = Vec::new();
    if neighbour.is_none() {
        let lacks = |group: &&Alike| group.mean(NEIGHBOUR.key, NEIGHBOUR.of).is_none();
        let lacking: Vec<&Alike> = [free, held].into_iter().filter(lacks).collect();
        // A scenario without a light reader lacks nothing.
        if let [one] = lacking[..] {
            let why = one.why(NEIGHBOUR.key);
            parts.push(format!("{} not known ({why})", NEIGHBOUR.name));
        }
    }
    parts.extend(neighbour.or_else(|| change(&ACCESS, free, held)));
    if parts.is_empty() {
        parts.push(format!(
            "{} not known ({})",
            ACCESS.name,
            held.why(ACCESS.key)
        ));
    }
    let beside = free
        .mean(BESIDE.key, BESIDE.of)
        .zip(held.mean(BESIDE.key, BESIDE.of));
    if let Some(ratio) = beside
        .map(|(free, held)| held / free - 1.0)
        .filter(|r| r.is_finite())
    {
        parts.push(format!("{} {} %", BESIDE.name, short_percent(ratio)));
    }
    parts.join(", ")
}

/// `light reader's p99 −67 % (12.1 to 4.01 ms)`, if both are known.
fn change(latency: &NamedFigure, free: &Alike, held: &Alike) -> Option<String> {
    let before = free.mean(latency.key, latency.of)?;
    let after = held.mean(latency.key, latency.of)?;
    let ratio = Some(after / before - 1.0).filter(|ratio| ratio.is_finite())?;
    let (divisor, unit) = time_unit(before.max(after));
    let (from, to) = (number(before / divisor), number(after / divisor));
    let name = latency.name;
    Some(if from == to {
        format!("{name} stays {to} {unit}")
    } else {
        format!("{name} {} % ({from} to {to} {unit})", short_percent(ratio))
    })
}
