// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three lines that answer: what is wrong, for which workload, since when, because of which workload; how
//! sure; what next. Or that nothing was found, and what was looked at.

use super::RuleReport;
use super::judged::FoundPhases;
use crate::findings::{Finding, RULES, RuleOutcome};
use crate::window_file::WindowFile;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::Nanos;

/// Workloads that a line names.
const BLAMED_MAX: usize = 3;

/// The first lines: the finding that concerns most of a subject's time, or that there is none.
pub fn headline(file: &WindowFile, rules: &[RuleReport], length: Option<Nanos>) -> [String; 3] {
    let found = rules.iter().filter_map(|report| match &report.outcome {
        RuleOutcome::Found(finding) => Some((report, finding)),
        _ => None,
    });
    let weight = |finding: &Finding| finding.time_ratio.unwrap_or(1.0);
    match found.max_by(|a, b| weight(a.1).total_cmp(&weight(b.1))) {
        Some((report, finding)) => found_lines(file, report, finding),
        None => nothing_lines(file, rules, length),
    }
}

fn found_lines(file: &WindowFile, report: &RuleReport, finding: &Finding) -> [String; 3] {
    let since = since(report, file.windows.len());
    let since = since.map_or_else(String::new, |since| format!(" ({since})"));
    let certainty = finding.certainty.said();
    let caveat = finding
        .caveat
        .as_ref()
        .map_or_else(String::new, |text| format!("; {text}"));
    [
        format!(
            "{}: {}{}{since}",
            report.subject,
            finding.what,
            because_of(finding)
        ),
        format!(
            "how sure: {certainty}{caveat}; it would be refuted by: {}",
            report.refuted_by
        ),
        format!("next: {}", report.next_move),
    ]
}

/// `since 0.2 s until 0.45 s: phase 1 of 2, in 17 of 24 windows`; nothing where nothing is found, or no time
/// is known.
pub fn since(report: &RuleReport, windows: usize) -> Option<String> {
    let (_, many) = report.found_in?;
    let (all, since) = (count_of_windows(windows), time(report.since_ns?));
    let phases = report.found_in_phases.as_ref();
    let phases = phases.map_or_else(String::new, phases_said);
    Some(match many {
        0 => format!("since {since}{phases}, in {all} together and in none alone"),
        _ => format!("since {since}{phases}, in {many} of {all}"),
    })
}

/// ` until 0.450 ms: phase 1 of 2`.
fn phases_said(found: &FoundPhases) -> String {
    let until = found
        .to
        .map_or_else(String::new, |to| format!(" until {}", time(to)));
    let which: Vec<String> = found
        .phases
        .iter()
        .take(BLAMED_MAX)
        .map(ToString::to_string)
        .collect();
    let more = if found.phases.len() > which.len() {
        " …"
    } else {
        ""
    };
    let word = if found.phases.len() == 1 {
        "phase"
    } else {
        "phases"
    };
    format!("{until}: {word} {}{more} of {}", which.join(", "), found.of)
}

/// `, because of big (75 %), small (20 %)`.
pub fn because_of(finding: &Finding) -> String {
    let blame = finding.because_of.iter().take(BLAMED_MAX);
    let named: Vec<String> = blame
        .map(|one| format!("{} ({:.0} %)", one.workload, one.share * 100.0))
        .collect();
    if named.is_empty() {
        String::new()
    } else {
        format!(", because of {}", named.join(", "))
    }
}

fn count_of_windows(windows: usize) -> String {
    match windows {
        1 => "1 window".to_owned(),
        many => format!("{many} windows"),
    }
}

/// The time in a unit in which a short time is not 0.0.
pub fn time(ns: Nanos) -> String {
    match ns.secs_f64() {
        0.0 => "0 s".to_owned(),
        secs if secs < 0.1 => format!("{:.3} ms", secs * 1e3),
        secs => format!("{secs:.1} s"),
    }
}

fn nothing_lines(file: &WindowFile, rules: &[RuleReport], length: Option<Nanos>) -> [String; 3] {
    let windows = count_of_windows(file.windows.len());
    let time = length.map_or_else(|| "of unknown length".into(), time);
    let looks_for = |name: &str| {
        let rule = RULES.iter().find(|rule| rule.name == name);
        rule.map_or("", |rule| rule.looks_for)
    };
    let mut looked: BTreeSet<&str> = BTreeSet::new();
    let mut blind: BTreeMap<&str, &str> = BTreeMap::new();
    for report in rules {
        match &report.outcome {
            RuleOutcome::CannotTell { why } => {
                blind.insert(looks_for(report.rule), why);
            }
            _ => drop(looked.insert(looks_for(report.rule))),
        }
    }
    blind.retain(|looks_for, _| !looked.contains(looks_for));
    let list = |items: Vec<String>, none: &str| {
        if items.is_empty() {
            none.to_owned()
        } else {
            items.join("; ")
        }
    };
    let looked = list(
        looked.iter().map(|text| (*text).to_owned()).collect(),
        "nothing",
    );
    let blinds: Vec<String> = blind
        .iter()
        .map(|(what, why)| format!("{what} ({why})"))
        .collect();
    let next = if blinds.is_empty() {
        "next: all rules of this version looked; the figures follow"
    } else {
        "next: count what is missing (`weir profile methods` has the events), then report again"
    };
    [
        format!("nothing found in {windows} ({time})"),
        format!(
            "looked at: {looked}. Could not look at: {}",
            list(blinds, "nothing")
        ),
        next.to_owned(),
    ]
}
