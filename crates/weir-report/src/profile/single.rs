// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of one recording, in the order in which it is read: what is wrong, then what says so.

use super::words::{cell, known_cell, queue_words, tail};
use super::{Reported, findings, load, paths, places, quality, server, stalls, waits};
use crate::Command;
use crate::picture::paint::Fonts;
use weir_figures::{Cell, Document, Part, Section, Table};
use weir_profile::report::{Figures, MACHINE, Report, Subject};
use weir_profile::stages::StageFigures;

/// Workloads that have a picture of the server of their own.
const SERVERS_MAX: usize = 3;

/// What the page says of itself.
pub const SPLIT_BY_A_MODEL: &str = "Measured stalls, split by a model: what is stalled was counted, and at which \
    stage and for which memory is a model's. Each figure says how it is known, and one that cannot be says why.";

pub fn document(reported: &Reported, commands: &[Command], fonts: &Fonts) -> Document {
    let report = reported.report;
    let subjects = by_stalls(report);
    Document {
        title: format!("Profile of {}", reported.name),
        about: vec![super::circumstances(report), SPLIT_BY_A_MODEL.into()],
        answer: report.headline.to_vec(),
        sections: vec![
            findings::section(report),
            Section::new(
                "subjects",
                "All subjects at a glance",
                stalls::overview(&subjects),
            ),
            Section::new("server", "The server", servers(report, &subjects)),
            Section::new(
                "paths",
                "Where data comes from",
                paths::parts(&subjects, fonts),
            ),
            Section::new("stalls", "Stalls over time", over_time(report)),
            Section::new("waits", "Waits at shared stages", waits::parts(report)),
            Section::new("load", "Waiting time against load", loads(reported, fonts)),
            Section::new(
                "quality",
                "How each figure is known",
                quality::parts(report, &subjects),
            ),
            super::made_by(&[reported], commands),
        ],
    }
}

/// The machine first, then workloads, those that stall most first.
pub fn by_stalls(report: &Report) -> Vec<&Subject> {
    let cycles = |subject: &Subject| {
        let split = subject.figures.stalls.as_ref();
        split.map_or(0.0, |split| split.measured.value)
    };
    let mut all: Vec<&Subject> = report.subjects.iter().collect();
    let is_machine = |subject: &Subject| subject.name == MACHINE;
    all.sort_by(|a, b| {
        is_machine(b)
            .cmp(&is_machine(a))
            .then(cycles(b).total_cmp(&cycles(a)))
    });
    all
}

/// Figures of the machine: those of the only subject where a report has none.
pub fn machine(report: &Report) -> Option<&Figures> {
    let machine = report
        .subjects
        .iter()
        .find(|subject| subject.name == MACHINE);
    machine
        .or(report.subjects.first())
        .map(|subject| &subject.figures)
}

fn servers(report: &Report, subjects: &[&Subject]) -> Vec<Part> {
    let Some(machine) = machine(report) else {
        return vec![Part::Words("The recording has no counts.".into())];
    };
    let mut parts = Vec::new();
    parts.extend(report.places.sums().map(Part::Words));
    let mut pictures = subjects.iter().take(1 + SERVERS_MAX).map(|subject| {
        let title = match subject.name.as_str() {
            MACHINE => "Lines of the whole machine".to_owned(),
            name => format!("Lines of {}", tail(name, 60)),
        };
        Part::Picture(server::picture(&title, &subject.figures, machine, None))
    });
    parts.extend(pictures.next());
    parts.push(Part::Details {
        summary: "Table of the stages".into(),
        parts: stage_tables(machine),
    });
    parts.extend(places::parts(report));
    let more: Vec<Part> = pictures.collect();
    if !more.is_empty() {
        parts.push(Part::Details {
            summary: format!(
                "The same for the {} that stall most; beyond the cores, stages are the machine's",
                more.len()
            ),
            parts: more,
        });
    }
    parts
}

/// Queues that requests entered, and the others by name.
pub fn stage_tables(machine: &Figures) -> Vec<Part> {
    let rate = |queue: &StageFigures| {
        queue
            .requests_per_sec
            .as_ref()
            .map_or(0.0, |figure| figure.value)
    };
    let is_used = |queue: &&StageFigures| {
        rate(queue) > 0.0 || queue.entries.as_ref().is_ok_and(|f| f.value > 0.0)
    };
    let (used, unused): (Vec<_>, Vec<_>) = machine.stages.queues.iter().partition(is_used);
    let row = |queue: &&StageFigures| -> Vec<Cell> {
        vec![
            Cell::words(queue_words(queue.role)),
            cell(&queue.requests_per_sec),
            cell(&queue.residence_ns),
            cell(&queue.waiting_ns),
            cell(&queue.entries),
            cell(&queue.pressure),
            known_cell(match &queue.residence_ns {
                Ok(_) => &queue.residence_ns,
                Err(_) => &queue.entries,
            }),
        ]
    };
    let table = Table::new(
        "",
        &[
            "queue",
            "requests",
            "residence",
            "waiting time",
            "in one such queue",
            "pressure",
            "how it is known",
        ],
        used.iter().map(row),
    );
    let mut parts = vec![Part::Table(table)];
    if !unused.is_empty() {
        let names: Vec<String> = unused.iter().map(|queue| queue.role.to_string()).collect();
        parts.push(Part::Words(format!(
            "No requests in: {}.",
            names.join(", ")
        )));
    }
    parts
}

fn over_time(report: &Report) -> Vec<Part> {
    let mut parts = vec![Part::Words(
        "How much of the time the cores stall, by the place where the request that they wait for is, and by what \
         supplies it. Dashed lines: where a finding begins."
            .into(),
    )];
    if let Some(over_time) = &report.over_time {
        parts.extend(stalls::parts(report, over_time));
    }
    parts
}

fn loads(reported: &Reported, fonts: &Fonts) -> Vec<Part> {
    let over_time = reported.report.over_time.as_ref();
    let one = over_time.map(|over_time| (reported.name, over_time));
    load::parts(one.as_slice(), fonts)
}
