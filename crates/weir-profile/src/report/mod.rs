// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that is said of a file of windows: three lines that answer first, then the figures of each subject.

pub mod methods;
pub mod text;

use crate::counts::Counts;
use crate::figure::{printable, printable_within};
use crate::findings::{Finding, RULES, Rule, RuleOutcome, View};
use crate::paper::{path_classes, stall_share};
use crate::path_map::{self, HiddenFall, PathMap};
use crate::quality::{self, Agreement};
use crate::stages::{self, Stages};
use crate::window_file::WindowFile;
use crate::{Answer, Refusal};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::Count;
use weir_core::{Nanos, Role, Window};

/// Version of the formulas: figures of two versions need not agree.
pub const METHOD_VERSION: u32 = 2;
/// Events without a role that a report names.
const EVENTS_SHOWN: usize = 40;
/// Characters of a note that are shown.
const NOTE_CHARS_MAX: usize = 400;

/// What a report is to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// A recording of the idle machine.
    pub idle: Option<&'a WindowFile>,
    /// Only workloads with this in their name, and not the machine.
    pub workload: Option<&'a str>,
    /// Each window beside their sum.
    pub each: bool,
    /// What PathFinder would say, too.
    pub pathfinder: bool,
}

/// A report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of the formulas.
    pub method_version: u32,
    /// The program that counted.
    pub source: String,
    /// The family of the CPU.
    pub family: Option<String>,
    /// How many windows there are.
    pub windows: usize,
    /// How long they are together; nothing where that is not known.
    pub length_ns: Option<Nanos>,
    /// What is wrong, for which subject; how sure; what to do. Or that nothing was found.
    pub headline: [String; 3],
    /// What each rule says of each subject.
    pub rules: Vec<RuleReport>,
    /// The machine, and each workload.
    pub subjects: Vec<Subject>,
    /// What the file says of itself.
    pub notes: Vec<String>,
    /// Events without a role.
    pub unassigned: Vec<String>,
}

/// A rule and a subject.
#[derive(Debug, Serialize)]
pub struct RuleReport {
    /// The rule.
    pub rule: &'static str,
    /// The subject.
    pub subject: String,
    /// The first window in which it finds it alone, from 1, and in how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_in: Option<(usize, usize)>,
    /// What would refute it.
    pub refuted_by: &'static str,
    /// The next move.
    pub next_move: &'static str,
    /// What it says.
    #[serde(flatten)]
    pub outcome: RuleOutcome,
}

/// Figures of the machine, or of a workload.
#[derive(Debug, Serialize)]
pub struct Subject {
    /// `machine`, or the workload's name.
    pub name: String,
    /// Of all windows together.
    pub figures: Figures,
    /// Of each window, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Figures>,
    /// Windows of which the one before had more lines from CXL memory, although shares rose: their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden_falls: Vec<(usize, HiddenFall)>,
}

/// Figures of some counts.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Where loads and lines come from.
    pub path_map: PathMap,
    /// How long requests stay.
    pub stages: Stages,
    /// What sources say of the same lines.
    pub agreements: Vec<Agreement>,
    /// What PathFinder would say, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pathfinder: Option<Pathfinder>,
}

/// Yardsticks.
#[derive(Debug, Serialize)]
pub struct Pathfinder {
    /// Figures of its Table 7.
    pub classes: path_classes::PathClasses,
    /// The share of CXL memory in stalls by lines alone.
    pub stall_share_by_counts: Answer,
    /// The same by lines × fixed latencies.
    pub stall_share_by_fixed_latencies: Answer,
}

/// Makes a report.
pub fn report(file: &WindowFile, options: &Options) -> Report {
    let names = subjects_of(file, options.workload);
    let mut rules = Vec::new();
    let mut subjects = Vec::new();
    for name in &names {
        let name = name.as_deref();
        let counts = counts_of(&file.windows, name);
        let idle = options.idle.map(|idle| counts_of(&idle.windows, name));
        let each: Vec<Counts> = file
            .windows
            .iter()
            .map(|w| counts_of(std::slice::from_ref(w), name))
            .collect();
        let shown = name.map_or_else(|| "machine".to_owned(), printable);
        rules.extend(
            RULES
                .iter()
                .map(|rule| judged(rule, &shown, &counts, &each, idle.as_ref())),
        );
        subjects.push(subject(file, options, shown, &counts, &each, idle.as_ref()));
    }
    let length_ns = total_length(&file.windows);
    let notes = file.header.notes.iter();
    Report {
        method_version: METHOD_VERSION,
        source: printable_within(&file.header.source, NOTE_CHARS_MAX),
        family: file.header.family.as_deref().map(printable),
        windows: file.windows.len(),
        length_ns,
        headline: headline(file, &rules, length_ns),
        rules,
        subjects,
        notes: notes
            .map(|note| printable_within(note, NOTE_CHARS_MAX))
            .collect(),
        unassigned: unassigned(&file.windows),
    }
}

/// The machine, and the workloads of all windows.
fn subjects_of(file: &WindowFile, wanted: Option<&str>) -> Vec<Option<String>> {
    let ids = file
        .windows
        .iter()
        .flat_map(|w| &w.workloads)
        .map(|w| w.id.as_str());
    let ids: BTreeSet<&str> = ids
        .filter(|id| wanted.is_none_or(|part| id.contains(part)))
        .collect();
    let machine = wanted.is_none().then_some(None);
    machine
        .into_iter()
        .chain(ids.into_iter().map(|id| Some(id.to_owned())))
        .collect()
}

/// Counts of a subject over windows.
fn counts_of(windows: &[Window], workload: Option<&str>) -> Counts {
    let of = |window: &Window| -> Vec<Count> {
        match workload {
            None => window.machine.clone(),
            Some(name) => {
                let of_it = window.workloads.iter().filter(|w| w.id.as_str() == name);
                of_it.flat_map(|w| w.counts.clone()).collect()
            }
        }
    };
    let counts: Vec<Count> = windows.iter().flat_map(of).collect();
    Counts::new(&counts, total_length(windows))
}

/// Nothing where one of them has no length.
fn total_length(windows: &[Window]) -> Option<Nanos> {
    let lengths: Option<Vec<Nanos>> = windows.iter().map(Window::length).collect();
    let all = lengths?
        .iter()
        .fold(0u64, |sum, length| sum.saturating_add(length.0));
    (all > 0).then_some(Nanos(all))
}

fn judged(
    rule: &'static Rule,
    subject: &str,
    counts: &Counts,
    each: &[Counts],
    idle: Option<&Counts>,
) -> RuleReport {
    let found =
        |counts: &Counts| matches!((rule.check)(View { counts, idle }), RuleOutcome::Found(_));
    let outcome = (rule.check)(View { counts, idle });
    let found_in = matches!(outcome, RuleOutcome::Found(_)).then(|| {
        let places: Vec<usize> = (0..each.len())
            .filter(|place| found(&each[*place]))
            .collect();
        (places.first().map_or(1, |place| place + 1), places.len())
    });
    RuleReport {
        rule: rule.name,
        subject: subject.to_owned(),
        found_in,
        refuted_by: rule.refuted_by,
        next_move: rule.next_move,
        outcome,
    }
}

fn subject(
    file: &WindowFile,
    options: &Options,
    name: String,
    counts: &Counts,
    each: &[Counts],
    idle: Option<&Counts>,
) -> Subject {
    let figures = |counts: &Counts| Figures {
        path_map: path_map::path_map(counts),
        stages: stages::stages(counts, idle, &file.header.capacities),
        agreements: agreements(counts),
        pathfinder: options.pathfinder.then(|| Pathfinder {
            classes: path_classes::path_classes(counts),
            stall_share_by_counts: stall_share::by_counts(counts),
            stall_share_by_fixed_latencies: stall_share::by_fixed_latencies(counts),
        }),
    };
    let falls = each.windows(2).enumerate().filter_map(|(place, pair)| {
        let [before, after] = pair else { return None };
        Some((place + 2, path_map::hidden_fall(before, after)?))
    });
    Subject {
        name,
        figures: figures(counts),
        each: if options.each {
            each.iter().map(figures).collect()
        } else {
            Vec::new()
        },
        hidden_falls: falls.collect(),
    }
}

/// Pairs of roles that count the same lines: cores, table of requests, port, device.
fn agreements(counts: &Counts) -> Vec<Agreement> {
    let sources = [
        "sq.reads.cxl.lines",
        "tor.reads.cxl.inserts",
        "port.reads.cxl.lines",
        "device.reads.cxl.lines",
    ];
    let known: Vec<(Role, crate::Figure)> = sources
        .iter()
        .filter_map(|text| text.parse::<Role>().ok())
        .filter_map(|role| Some((role, counts.get(role).ok()?)))
        .collect();
    let pairs = known.windows(2).filter_map(|pair| {
        let [(one, a), (other, b)] = pair else {
            return None;
        };
        quality::agreement((*one, a), (*other, b))
    });
    pairs.collect()
}

fn unassigned(windows: &[Window]) -> Vec<String> {
    let names: BTreeSet<String> = windows
        .iter()
        .flat_map(|w| &w.unassigned)
        .map(|c| printable(&c.event))
        .collect();
    let more = names.len().saturating_sub(EVENTS_SHOWN);
    let mut shown: Vec<String> = names.into_iter().take(EVENTS_SHOWN).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown
}

/// The first lines: the finding that is surest, or that there is none.
fn headline(file: &WindowFile, rules: &[RuleReport], length: Option<Nanos>) -> [String; 3] {
    let found = rules.iter().filter_map(|report| match &report.outcome {
        RuleOutcome::Found(finding) => Some((report, finding)),
        _ => None,
    });
    match found.min_by_key(|(_, finding)| finding.certainty as u8) {
        Some((report, finding)) => found_lines(file, report, finding),
        None => nothing_lines(file, rules, length),
    }
}

fn found_lines(file: &WindowFile, report: &RuleReport, finding: &Finding) -> [String; 3] {
    let (first, many) = report.found_in.unwrap_or((1, 0));
    let since = file.windows.get(first - 1).filter(|w| w.length().is_some());
    let since = since.map_or_else(String::new, |window| {
        let all = file.windows.len();
        format!(
            " (since {:.1} s, in {many} of {all} windows)",
            window.from.secs_f64()
        )
    });
    let certainty = match finding.certainty {
        crate::findings::Certainty::Counted => "counted",
        crate::findings::Certainty::Inferred => {
            "inferred: the counts fit, something else could be behind them"
        }
    };
    let caveat = finding
        .caveat
        .as_ref()
        .map_or_else(String::new, |text| format!("; {text}"));
    [
        format!("{}: {}{since}", report.subject, finding.what),
        format!(
            "how sure: {certainty}{caveat}; it would be refuted by: {}",
            report.refuted_by
        ),
        format!("next: {}", report.next_move),
    ]
}

fn nothing_lines(file: &WindowFile, rules: &[RuleReport], length: Option<Nanos>) -> [String; 3] {
    let windows = file.windows.len();
    let time = length.map_or_else(
        || "of unknown length".into(),
        |ns| format!("{:.1} s", ns.secs_f64()),
    );
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
    let list = |items: Vec<String>, none: &str| match items.is_empty() {
        true => none.to_owned(),
        false => items.join("; "),
    };
    let looked = list(
        looked.iter().map(|text| (*text).to_owned()).collect(),
        "nothing",
    );
    let blinds: Vec<String> = blind
        .iter()
        .map(|(what, why)| format!("{what} ({why})"))
        .collect();
    let next = match blinds.is_empty() {
        true => "next: all rules of this version looked; the figures follow",
        false => {
            "next: count what is missing (`weir profile methods` has the events), then report again"
        }
    };
    [
        format!("nothing found in {windows} windows ({time})"),
        format!(
            "looked at: {looked}. Could not look at: {}",
            list(blinds, "nothing")
        ),
        next.to_owned(),
    ]
}

/// Why a workload of that name is not in the file, with the names that are.
pub fn workload_names(file: &WindowFile) -> Vec<String> {
    let ids = file
        .windows
        .iter()
        .flat_map(|w| &w.workloads)
        .map(|w| printable(w.id.as_str()));
    ids.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Whether an answer is only that it was not counted.
pub(crate) fn is_not_recorded(answer: &Answer) -> bool {
    matches!(
        answer,
        Err(Refusal::NotRecorded { .. }
            | Refusal::NotCounted { .. }
            | Refusal::NotPublished { .. }
            | Refusal::NotCalibrated
            | Refusal::NoTime)
    )
}
