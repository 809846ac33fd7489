// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong, for which workload, because of which neighbour, how sure, and the next move. Or that
//! nothing was found, and what was looked at.

use super::words::{known, value};
use weir_figures::{Cell, Part, Section, Table};
use weir_profile::findings::{Evidence, Finding, RULES, RuleOutcome};
use weir_profile::report::{Report, RuleReport, because_of, since};

/// Subjects of a rule that are shown with their evidence; more are in a table without.
const SUBJECTS_SHOWN: usize = 3;
/// Subjects in that table.
const ROWS_MAX: usize = 60;
/// Reasons of one rule that are shown.
const REASONS_SHOWN: usize = 3;

type Found<'a> = (&'a RuleReport, &'a Finding);

pub fn section(report: &Report) -> Section {
    let mut parts = parts(report);
    let looked = looked_at(report);
    let is_found = report.rules.iter().any(|rule| rule.found_in.is_some());
    parts.push(if is_found { folded(looked) } else { looked });
    Section::new("findings", "Findings", parts)
}

/// The findings with what was looked at behind a summary.
pub fn folded_parts(report: &Report) -> Vec<Part> {
    let mut parts = parts(report);
    parts.push(folded(looked_at(report)));
    parts
}

fn folded(looked: Part) -> Part {
    Part::Details {
        summary: "What was looked at, and what could not be".into(),
        parts: vec![looked],
    }
}

/// A card for each rule that found something.
fn parts(report: &Report) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for found in by_rule(report) {
        parts.push(Part::Card(card(report, &found)));
    }
    if parts.is_empty() {
        parts.push(Part::Words(
            "Nothing was found. That is no proof of health: the table says what was looked at, and what could not be."
                .into(),
        ));
    }
    parts
}

fn weight(finding: &Finding) -> f64 {
    finding.time_ratio.unwrap_or(1.0)
}

/// Findings of each rule, those that concern most time first.
fn by_rule(report: &Report) -> Vec<Vec<Found<'_>>> {
    let found = |rule: &&str| -> Vec<Found> {
        let of_rule = report.rules.iter().filter(|one| one.rule == *rule);
        let mut found: Vec<Found> = of_rule
            .filter_map(|one| match &one.outcome {
                RuleOutcome::Found(finding) => Some((one, finding)),
                _ => None,
            })
            .collect();
        found.sort_by(|a, b| weight(b.1).total_cmp(&weight(a.1)));
        found
    };
    let names = RULES.iter().map(|rule| rule.name);
    let mut all: Vec<Vec<Found>> = names.map(|name| found(&name)).collect();
    all.retain(|found| !found.is_empty());
    let most = |found: &Vec<Found>| found.first().map_or(0.0, |one| weight(one.1));
    all.sort_by(|a, b| most(b).total_cmp(&most(a)));
    all
}

/// The title of a finding: for which workload, and what.
pub fn title(report: &RuleReport, finding: &Finding) -> String {
    format!("{}: {}", report.subject, finding.what)
}

fn card(report: &Report, found: &[Found]) -> Vec<Part> {
    let mut parts = Vec::new();
    for (place, (rule, finding)) in found.iter().take(SUBJECTS_SHOWN).enumerate() {
        parts.push(Part::Title(title(rule, finding)));
        parts.push(Part::Facts(facts(report, rule, finding, place == 0)));
        parts.push(Part::Details {
            summary: format!("Evidence, {}", rule.subject),
            parts: vec![Part::Table(evidence(&finding.evidence))],
        });
    }
    let more = found.get(SUBJECTS_SHOWN..).unwrap_or_default();
    if !more.is_empty() {
        parts.push(Part::Details {
            summary: format!("The same of {} more", more.len()),
            parts: vec![Part::Table(others(report, more))],
        });
        let left = more.len().saturating_sub(ROWS_MAX);
        if left > 0 {
            parts.push(Part::Words(format!(
                "{left} of them are in report.json only."
            )));
        }
    }
    parts
}

/// What refutes a rule, and what to do, is the same for all subjects: with the first.
fn facts(
    report: &Report,
    rule: &RuleReport,
    finding: &Finding,
    is_first: bool,
) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |term: &str, said: String| facts.push((term.to_owned(), said));
    let blamed = because_of(finding);
    if let Some(names) = blamed.strip_prefix(", because of ") {
        add("because of", names.to_owned());
    }
    if let Some(since) = since(rule, report.windows) {
        add("when", since);
    }
    if let Some(ratio) = finding.time_ratio {
        let text = format!("{:.0} % of its time", ratio * 100.0);
        add("concerns", text);
    }
    add("how sure", finding.certainty.said().to_owned());
    if let Some(caveat) = &finding.caveat {
        add("but", caveat.clone());
    }
    if is_first {
        add("refuted by", rule.refuted_by.to_owned());
        add("next move", rule.next_move.to_owned());
        add("rule", rule.rule.to_owned());
    }
    facts
}

fn evidence(all: &[Evidence]) -> Table {
    let rows = all.iter().map(|one| {
        let (shown, quality) = match &one.figure {
            Ok(figure) => (value(figure), known(figure)),
            Err(why) => (weir_figures::text::NONE.into(), why.to_string()),
        };
        vec![
            Cell::words(one.of.clone()),
            Cell::number(shown),
            Cell::long(quality),
        ]
    });
    Table::new("", &["figure", "value", "how it is known"], rows)
}

fn others(report: &Report, found: &[Found]) -> Table {
    let row = |(rule, finding): &Found| -> Vec<Cell> {
        let blamed = because_of(finding);
        let blamed = blamed.strip_prefix(", because of ").unwrap_or("–");
        vec![
            Cell::words(rule.subject.clone()),
            Cell::long(finding.what.clone()),
            Cell::long(blamed),
            Cell::long(since(rule, report.windows).unwrap_or_default()),
        ]
    };
    Table::new(
        "",
        &["workload", "what", "because of", "when"],
        found.iter().take(ROWS_MAX).map(row),
    )
}

/// Each rule: for how many it found something, for how many not, and why it could not tell.
fn looked_at(report: &Report) -> Part {
    let row = |name: &str, looks_for: &str| -> Vec<Cell> {
        let of_rule = || report.rules.iter().filter(|one| one.rule == name);
        let count = |is_it: fn(&RuleOutcome) -> bool| {
            of_rule()
                .filter(|one| is_it(&one.outcome))
                .count()
                .to_string()
        };
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for one in of_rule() {
            let RuleOutcome::CannotTell { why } = &one.outcome else {
                continue;
            };
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, subjects)) => subjects.push(&one.subject),
                None => reasons.push((why, vec![&one.subject])),
            }
        }
        let shown = reasons.iter().take(REASONS_SHOWN).map(|(why, subjects)| {
            let of = match subjects[..] {
                [one] => one.to_owned(),
                _ => format!("{} subjects", subjects.len()),
            };
            format!("{of}: {why}")
        });
        let mut shown: Vec<String> = shown.collect();
        let more = reasons.len().saturating_sub(REASONS_SHOWN);
        if more > 0 {
            shown.push(format!("and {more} other reasons"));
        }
        vec![
            Cell::words(looks_for),
            Cell::number(count(|o| matches!(o, RuleOutcome::Found(_)))),
            Cell::number(count(|o| matches!(o, RuleOutcome::NotFound))),
            Cell::number(count(|o| matches!(o, RuleOutcome::CannotTell { .. }))),
            Cell::long(shown.join("; ")),
        ]
    };
    Part::Table(Table::new(
        "",
        &["looked for", "found", "not found", "cannot tell", "why not"],
        RULES.iter().map(|rule| row(rule.name, rule.looks_for)),
    ))
}
