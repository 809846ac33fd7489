// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A report for people: one figure a line, with its quality behind it.

mod model;
mod phases;
pub(crate) mod places;

use super::headline::because_of;
use super::{Figures, Pathfinder, Report, Subject, is_not_recorded};
use crate::figure::{Answer, Figure, Unit};
use crate::findings::RuleOutcome;
use crate::path_map::{PathMap, PathRow};
use crate::quality::Refusal;
use crate::stages::{StageFigures, Stages};
use std::fmt::Write as _;

/// Columns of what is before a figure.
pub(super) const LABEL: usize = 39;

pub fn text(report: &Report) -> String {
    let mut out = report.headline.join("\n") + "\n";
    // What was left out of the file comes before what is made of the rest.
    for note in &report.notes {
        line(&mut out, &format!("note: {note}"));
    }
    if let Some(sums) = report.places.sums() {
        line(&mut out, &sums);
    }
    for subject in &report.subjects {
        describe(&mut out, subject);
    }
    places::by_place(&mut out, &report.by_place);
    model::waits(&mut out, &report.waits);
    phases::lags(&mut out, &report.lags);
    findings(&mut out, report);
    if !report.unassigned.is_empty() {
        line(
            &mut out,
            &format!("events without a role: {}", report.unassigned.join(", ")),
        );
    }
    out
}

// Writing into a String cannot fail.
pub(super) fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{text}");
}

fn describe(out: &mut String, subject: &Subject) {
    line(out, &format!("\n== {}", subject.name));
    figures(out, &subject.figures);
    model::what_if(out, &subject.what_if);
    phases::phases(out, &subject.phases);
    for (place, each) in subject.each.iter().enumerate() {
        line(out, &format!("\n-- {}, window {}", subject.name, place + 1));
        figures(out, each);
    }
    for (window, fall) in &subject.hidden_falls {
        let risen: Vec<String> = fall
            .risen
            .iter()
            .map(|(path, a, b)| {
                format!(
                    "{} from {:.2} to {:.2} %",
                    path.0.word(),
                    a * 100.0,
                    b * 100.0
                )
            })
            .collect();
        line(
            out,
            &format!(
                "window {window}: fewer lines from CXL memory than in the one before (÷ {:.2}), although its share \
                 rose: {}",
                fall.fall_ratio,
                risen.join(", ")
            ),
        );
    }
}

fn figures(out: &mut String, figures: &Figures) {
    paths(out, &figures.path_map);
    stages(out, &figures.stages);
    model::stalls(out, &figures.stalls);
    for agreement in &figures.agreements {
        let said = if agreement.is_agreed {
            "agree"
        } else {
            "DISAGREE"
        };
        let (one, other) = (agreement.one, agreement.other);
        line(
            out,
            &format!("  sources {said}: {one} ÷ {other} = {:.2}", agreement.ratio),
        );
    }
    if let Some(pathfinder) = &figures.pathfinder {
        yardsticks(out, pathfinder);
    }
}

fn paths(out: &mut String, map: &PathMap) {
    rows(
        out,
        "loads by where they were found (instructions)",
        &map.loads,
    );
    rows(out, "lines by supplier (requests)", &map.lines);
    let mut shown = String::new();
    answer(&mut shown, "lines from CXL memory", &map.cxl_lines);
    answer(&mut shown, "  their share", &map.cxl_share);
    for path in &map.cxl_by_path {
        answer(
            &mut shown,
            &format!("  their share of {}", path.path.0.word()),
            &path.share,
        );
    }
    answer(
        &mut shown,
        "  ÷ lines from the last-level cache",
        &map.cxl_per_llc,
    );
    if let Some(hot) = map.hot_path {
        line(
            &mut shown,
            &format!(
                "  {:LABEL$} {}",
                "path of most lines behind L2",
                hot.0.word()
            ),
        );
    }
    *out += &shown;
}

fn rows(out: &mut String, title: &str, rows: &[PathRow]) {
    if rows.is_empty() {
        return;
    }
    line(out, title);
    for row in rows {
        for cell in &row.cells {
            let label = format!("{} · {}", row.path.0.word(), cell.place);
            let mut text = format!("  {label:LABEL$} {}", said(&cell.count));
            if let (Ok(_), Ok(share)) = (&cell.count, &cell.share) {
                let _ = write!(text, "  {:.2} %", share.value * 100.0);
            }
            if let Ok(rate) = &cell.per_sec {
                let _ = write!(text, "  {}", number(rate));
            }
            line(out, &text);
        }
        let shares = row.cells.iter().find_map(|cell| cell.share.as_ref().ok());
        if let Some(of) = shares.and_then(|share| share.share_of.as_ref()) {
            line(out, &format!("    % of {of}"));
        }
    }
}

fn stages(out: &mut String, stages: &Stages) {
    let mut shown = String::new();
    let used = stages.queues.iter().filter(|queue| !is_unused(queue));
    used.for_each(|queue| one_queue(&mut shown, queue));
    unused(&mut shown, &stages.queues);
    answer(
        &mut shown,
        "mesh and ingress, by difference",
        &stages.before_tor_ns,
    );
    answer(&mut shown, "  waiting time", &stages.before_tor_waiting_ns);
    for (role, ratio) in &stages.full {
        answer(&mut shown, &format!("{role} ÷ cycles"), ratio);
    }
    for whole in &stages.wholes {
        let role = whole.role;
        answer(
            &mut shown,
            &format!("{role}: parts ÷ whole"),
            &whole.covered,
        );
        answer(&mut shown, "  share of CXL memory in it", &whole.cxl_share);
        answer(&mut shown, "  requests without a name", &whole.rest);
        answer(
            &mut shown,
            "  how long they stay",
            &whole.rest_residence_cycles,
        );
    }
    if !shown.is_empty() {
        line(out, "stages: residence = occupancy ÷ inserts");
        *out += &shown;
    }
}

fn one_queue(out: &mut String, queue: &StageFigures) {
    let role = queue.role;
    if let Err(Refusal::Missing { .. }) = &queue.entries {
        answer(out, &role.to_string(), &queue.entries);
        return;
    }
    if is_not_recorded(&queue.residence_cycles) {
        line(out, &format!("  {role}"));
    }
    answer(out, &format!("{role}: residence"), &queue.residence_cycles);
    answer(out, "  as time", &queue.residence_ns);
    answer(out, "  waiting time", &queue.waiting_ns);
    answer(out, "  requests a second", &queue.requests_per_sec);
    answer(out, "  requests in one such queue", &queue.entries);
    answer(out, "  pressure (÷ its entries)", &queue.pressure);
    answer(
        out,
        "  requests in it while busy",
        &queue.entries_while_busy,
    );
}

/// Queues that no request entered, in one line.
fn unused(out: &mut String, queues: &[StageFigures]) {
    let unused = queues.iter().filter(|queue| is_unused(queue));
    let roles: Vec<String> = unused
        .map(|queue| queue.role.to_string().replace(".occupancy", ""))
        .collect();
    if !roles.is_empty() {
        line(out, &format!("  no requests in: {}", roles.join(", ")));
    }
}

fn is_unused(queue: &StageFigures) -> bool {
    matches!(queue.residence_cycles, Err(Refusal::NoRequests { .. }))
}

fn yardsticks(out: &mut String, pathfinder: &Pathfinder) {
    line(
        out,
        "as PathFinder counts (a yardstick; its rows mix instructions and lines)",
    );
    let classes = &pathfinder.classes;
    answer(out, "prefetch in uncore accesses", &classes.pf_of_uncore);
    answer(out, "  without write-backs", &classes.pf_of_uncore_reads);
    answer(
        out,
        "lines from CXL ÷ from the own LLC",
        &classes.cxl_per_llc,
    );
    answer(out, "prefetch in lines from CXL", &classes.pf_of_cxl);
    answer(out, "lines from CXL", &classes.cxl_lines);
    answer(
        out,
        "requests of the core (drd, rfo, wb)",
        &classes.core_requests,
    );
    for (path, share) in ["drd", "rfo", "pf"].iter().zip(&classes.cxl_of_path) {
        answer(out, &format!("CXL in {path}"), share);
    }
    answer(
        out,
        "CXL in stalls, by lines",
        &pathfinder.stall_share_by_counts,
    );
    answer(
        out,
        "CXL in stalls, by fixed latencies",
        &pathfinder.stall_share_by_fixed_latencies,
    );
    answer(
        out,
        "CXL in stalls, by residences",
        &pathfinder.stall_share_by_residences,
    );
    answer(
        out,
        "CXL in stalls, Algorithm 2 mended",
        &pathfinder.stall_share_by_algorithm_2,
    );
}

fn findings(out: &mut String, report: &Report) {
    line(out, "\n== rules");
    for rule in &report.rules {
        let (name, subject) = (rule.rule, &rule.subject);
        match &rule.outcome {
            RuleOutcome::NotFound => line(out, &format!("  {name}, {subject}: not found")),
            RuleOutcome::CannotTell { why } => {
                line(out, &format!("  {name}, {subject}: cannot tell: {why}"));
            }
            RuleOutcome::Found(finding) => {
                line(
                    out,
                    &format!(
                        "  {name}, {subject}: FOUND: {}{}",
                        finding.what,
                        because_of(finding)
                    ),
                );
                for evidence in &finding.evidence {
                    let of = format!("    {}", evidence.of);
                    line(out, &format!("{of:59} {}", said(&evidence.figure)));
                }
            }
        }
    }
}

/// A figure with its label. One that was not counted is left out; a refusal is not.
pub(super) fn answer(out: &mut String, label: &str, answer: &Answer) {
    if !is_not_recorded(answer) {
        line(out, &format!("  {label:LABEL$} {}", said(answer)));
    }
}

pub(super) fn said(answer: &Answer) -> String {
    match answer {
        Err(why) => format!("none: {why}"),
        Ok(figure) => {
            let of = figure
                .share_of
                .as_ref()
                .map_or_else(String::new, |of| format!(" of {of}"));
            let notes = figure
                .notes
                .iter()
                .map(|note| format!("; {note}"))
                .collect::<String>();
            format!("{}{of}  [{}{notes}]", number(figure), figure.quality())
        }
    }
}

pub(super) fn number(figure: &Figure) -> String {
    let value = figure.value;
    match figure.unit {
        Unit::Ratio if figure.share_of.is_some() && value <= 1.0 => {
            format!("{:.2} %", value * 100.0)
        }
        Unit::Ratio => format!("{value:.3}"),
        Unit::Entries => format!("{value:.2}"),
        Unit::Ns => format!("{value:.1} ns"),
        Unit::Cycles => format!("{value:.1} cycles"),
        Unit::Lines => format!("{value:.3e} lines"),
        Unit::Requests => format!("{value:.3e} requests"),
        Unit::Instructions => format!("{value:.3e} instructions"),
        Unit::LinesPerSec => format!("{value:.3e} lines/s"),
        Unit::RequestsPerSec => format!("{value:.3e} requests/s"),
        Unit::InstructionsPerSec => format!("{value:.3e} instructions/s"),
    }
}
