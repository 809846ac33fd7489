// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened, in one sentence: where the best controlled run held the device, and what its
//! neighbours got.
//!
//! ```text
//! weir (scx-full) held the device at 36.2 MiB/s, 0.02 % from its set-point (RMSE 2.31 %; cgroup: 5.19 %);
//! the light reader's 99th percentile fell from 12.1 to 4.01 ms.
//! ```

use crate::results::{Results, Run};
use crate::rows::{is_free, known, reason};
use crate::text::{Unit, bandwidth_unit, line, number, percent, time_unit};

/// A device this close to its set-point is held.
const HELD_RATIO_MAX: f64 = 0.05;
/// Other runs are named up to this many.
const OTHERS: usize = 3;
/// Columns of a reason within the sentence.
const REASON_COLUMNS: usize = 90;

/// The sentence. What is not known is said in it.
pub fn closing(results: &Results) -> String {
    let runs = &results.runs;
    let free = runs.iter().find(|run| is_free(run));
    let controlled = controlled(runs);
    let Some(best) = best(&controlled) else {
        return match free {
            Some(free) => format!(
                "Without control the device moved {}; {}.",
                moved(free),
                latency(None, free)
            ),
            None => "No run was made.".into(),
        };
    };
    let latency = match free {
        Some(free) => latency(Some(free), best),
        None => format!(
            "{}, and no run without control was made to compare with",
            latency(None, best)
        ),
    };
    format!("{}; {latency}.", held(best, &controlled))
}

/// Runs that are compared: weir's; another controller's or a limit by hand where weir did not run.
fn controlled(runs: &[Run]) -> Vec<&Run> {
    let is_weir = |run: &&Run| run.policy != "none" && !is_of_thesis(run);
    let weir: Vec<&Run> = runs.iter().filter(is_weir).collect();
    if weir.is_empty() {
        return runs.iter().filter(|run| !is_free(run)).collect();
    }
    weir
}

fn is_of_thesis(run: &Run) -> bool {
    run.backend.starts_with("thesis-")
}

/// The run whose windows are closest to the set-point; the first where none has a bandwidth.
fn best<'a>(runs: &[&'a Run]) -> Option<&'a Run> {
    let scatter = |run: &Run| rmse_ratio(run).unwrap_or(f64::INFINITY);
    let closer = |a: &&&Run, b: &&&Run| scatter(a).total_cmp(&scatter(b));
    runs.iter().min_by(closer).copied()
}

/// Of the windows from the set-point.
fn rmse_ratio(run: &Run) -> Option<f64> {
    known(run, "bandwidth.rmse_ratio", Some(run.bandwidth.rmse_ratio))
}

/// Of the mean from the set-point.
fn distance_ratio(run: &Run) -> Option<f64> {
    let bias = known(run, "bandwidth.bias_ratio", Some(run.bandwidth.bias_ratio));
    bias.map(f64::abs)
}

fn mean(run: &Run) -> Option<f64> {
    let mean = Some(run.bandwidth.mean_bytes_per_sec);
    known(run, "bandwidth.mean_bytes_per_sec", mean)
}

fn held(run: &Run, all: &[&Run]) -> String {
    let subject = subject(run, all);
    let (Some(mean), Some(distance)) = (mean(run), distance_ratio(run)) else {
        let why = short_reason(run, "bandwidth.mean_bytes_per_sec");
        return format!("The device's bandwidth with {subject} is not known ({why})");
    };
    if distance > HELD_RATIO_MAX {
        let others = others(run, all);
        return format!(
            "{subject} did not hold the device, which moved {}{others}",
            moved(run)
        );
    }
    let from = match percent(distance, false).as_str() {
        "0.00" => "its set-point".into(),
        ratio => format!("{ratio} % from its set-point"),
    };
    let others = others(run, all);
    format!(
        "{subject} held the device at {}, {from}{others}",
        rate(mean)
    )
}

/// `88.2 MiB/s, 133 % above its set-point`
fn moved(run: &Run) -> String {
    let Some(mean) = mean(run) else {
        let why = short_reason(run, "bandwidth.mean_bytes_per_sec");
        return format!("an amount that is not known ({why})");
    };
    let bias = known(run, "bandwidth.bias_ratio", Some(run.bandwidth.bias_ratio));
    let from = match bias {
        Some(bias) => {
            let side = if bias < 0.0 { "below" } else { "above" };
            format!(", {} % {side} its set-point", percent(bias.abs(), false))
        }
        None => String::new(),
    };
    format!("{}{from}", rate(mean))
}

fn rate(bytes_per_sec: f64) -> String {
    let (divisor, unit) = bandwidth_unit(bytes_per_sec);
    format!("{} {unit}", number(bytes_per_sec / divisor))
}

/// The sentence's subject: what limited in this run.
fn subject(run: &Run, all: &[&Run]) -> String {
    let backend = line(&run.backend, 40);
    match run.policy.as_str() {
        "none" => format!("A limit by hand ({backend})"),
        _ if is_of_thesis(run) => backend,
        _ => format!("weir ({})", what_differs(run, all)),
    }
}

/// The back end; the policy where runs differ by that alone; both where they differ by both.
fn what_differs(run: &Run, all: &[&Run]) -> String {
    let (policy, backend) = (line(&run.policy, 24), line(&run.backend, 40));
    let one_policy = all.iter().all(|other| other.policy == run.policy);
    let one_backend = all.iter().all(|other| other.backend == run.backend);
    match (one_policy, one_backend) {
        (true, _) => backend,
        (false, true) => policy,
        (false, false) => format!("{policy}, {backend}"),
    }
}

/// ` (RMSE 2.31 %; cgroup: 5.19 %)`: by what the best of several runs is the best. Nothing for a single one.
fn others(best: &Run, all: &[&Run]) -> String {
    let own_name = what_differs(best, all);
    let percent = |ratio| format!("{} %", percent(ratio, false));
    let mut others: Vec<String> = Vec::new();
    for run in all {
        let name = what_differs(run, all);
        let is_same = std::ptr::eq(*run, best) || name == own_name;
        if let Some(rmse) = rmse_ratio(run).filter(|_| !is_same) {
            others.push(format!("{name}: {}", percent(rmse)));
        }
    }
    let count = others.len();
    others.truncate(OTHERS);
    if count > OTHERS {
        others.push(format!("{} more", count - OTHERS));
    }
    match rmse_ratio(best).filter(|_| count > 0) {
        Some(own) => format!(" (RMSE {}; {})", percent(own), others.join("; ")),
        None => String::new(),
    }
}

/// A latency that the sentence may name.
struct Latency {
    name: &'static str,
    key: &'static str,
    of: fn(&Run) -> Option<f64>,
}

/// The neighbour's latency.
const NEIGHBOUR: Latency = Latency {
    name: "the light reader's 99th percentile",
    key: "light_reader.p99_ns",
    of: |run| run.light_reader.p99_ns,
};

/// Where there is no neighbour.
const ACCESS: Latency = Latency {
    name: "the mean access to the device",
    key: "device_latency.mean_ns",
    of: |run| run.device_latency.mean_ns,
};

/// What became of the neighbour's latency, or of that of the device.
fn latency(before: Option<&Run>, after: &Run) -> String {
    if let Some(text) = change(&NEIGHBOUR, before, after) {
        return text;
    }
    let lacks = |run: &&Run| known(run, NEIGHBOUR.key, (NEIGHBOUR.of)(run)).is_none();
    let run = before.filter(lacks).unwrap_or(after);
    let why = short_reason(run, NEIGHBOUR.key);
    match change(&ACCESS, before, after) {
        Some(text) => format!("{text} (no figure of a light reader: {why})"),
        None => format!("{} is not known ({why})", NEIGHBOUR.name),
    }
}

/// `… fell from 12.1 to 4.01 ms`, if both are known.
fn change(latency: &Latency, before: Option<&Run>, after: &Run) -> Option<String> {
    let of = |run: &Run| known(run, latency.key, (latency.of)(run));
    let (name, after) = (latency.name, of(after)?);
    let shown = |value: f64, (divisor, _): Unit| number(value / divisor);
    let Some(before) = before else {
        let unit = time_unit(after);
        return Some(format!("{name} was {} {}", shown(after, unit), unit.1));
    };
    let before = of(before)?;
    let unit = time_unit(before.max(after));
    let (from, to) = (shown(before, unit), shown(after, unit));
    Some(match after / before {
        _ if from == to => format!("{name} stayed at {to} {}", unit.1),
        ratio if ratio < 1.0 => format!("{name} fell from {from} to {to} {}", unit.1),
        _ => format!("{name} rose from {from} to {to} {}", unit.1),
    })
}

fn short_reason(run: &Run, key: &str) -> String {
    line(&reason(run, key), REASON_COLUMNS)
}
