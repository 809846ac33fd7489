// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of two recordings: what changed, workloads as columns, then both side by side.

mod changes;

use super::axis::TimeScale;
use super::paths::MapKind;
use super::server::{self, flows::Flows};
use super::single::{SPLIT_BY_A_MODEL, by_stalls, machine};
use super::words::{tail, value};
use super::{Reported, findings, load, paths, quality, stalls};
use crate::Command;
use crate::picture::paint::Fonts;
use std::collections::BTreeSet;
use weir_figures::text::NONE;
use weir_figures::{Cell, Document, Part, Section, Table};
use weir_profile::diff::{DiffRow, summary};
use weir_profile::findings::RuleOutcome;
use weir_profile::report::over_time::StallsOverTime;
use weir_profile::report::{Report, Subject};

/// Subjects that are columns.
const COLUMNS_MAX: usize = 8;
/// Subjects whose stalls over time are shown.
const STALLS_MAX: usize = 6;
/// What the two sides are called in pictures and tables.
const LETTERS: [&str; 2] = ["A", "B"];

pub fn document(
    sides: [&Reported; 2],
    rows: &[DiffRow],
    commands: &[Command],
    fonts: &Fonts,
) -> Document {
    let named = LETTERS.iter().zip(sides);
    let named = named.map(|(letter, side)| {
        format!(
            "{letter}: {}. {}",
            side.name,
            super::circumstances(side.report)
        )
    });
    Document {
        title: format!("{} and {} compared", sides[0].name, sides[1].name),
        about: named.chain([SPLIT_BY_A_MODEL.into()]).collect(),
        answer: answer(sides, rows),
        sections: vec![
            Section::new("changes", "What changed", changes::parts(sides, rows)),
            Section::new(
                "findings",
                "Findings of both",
                vec![beside(sides, &findings::folded_parts)],
            ),
            Section::new("subjects", "Both at a glance", vec![glance(sides)]),
            Section::new("server", "The server", servers(sides)),
            Section::new("paths", "Where data comes from", maps(sides, fonts)),
            Section::new("stalls", "Stalls over time", over_time(sides)),
            Section::new("load", "Waiting time against load", loads(sides, fonts)),
            Section::new("quality", "How each figure is known", qualities(sides)),
            super::made_by(&sides, commands),
        ],
    }
}

/// A part for each side, beside each other, below its name.
fn beside(sides: [&Reported; 2], of: &dyn Fn(&Report) -> Vec<Part>) -> Part {
    let column = |(letter, side): (&&str, &Reported)| {
        let mut parts = vec![Part::Title(format!("{letter}: {}", side.name))];
        parts.extend(of(side.report));
        parts
    };
    Part::Beside(LETTERS.iter().zip(sides).map(column).collect())
}

/// Subject and rule of each finding.
fn found(report: &Report) -> BTreeSet<(&str, &str)> {
    let found = report
        .rules
        .iter()
        .filter(|one| matches!(one.outcome, RuleOutcome::Found(_)));
    found.map(|one| (one.subject.as_str(), one.rule)).collect()
}

fn answer(sides: [&Reported; 2], rows: &[DiffRow]) -> Vec<String> {
    let [before, after] = sides.map(|side| found(side.report));
    let list = |all: Vec<&(&str, &str)>| -> String {
        let shown: Vec<String> = all
            .iter()
            .take(6)
            .map(|(subject, rule)| format!("{subject}: {rule}"))
            .collect();
        match (shown.is_empty(), all.len().saturating_sub(6)) {
            (true, _) => "none".into(),
            (false, 0) => shown.join(", "),
            (false, more) => format!("{}, and {more} more", shown.join(", ")),
        }
    };
    vec![
        format!("{}.", summary(rows)),
        format!(
            "Findings in B only: {}.",
            list(after.difference(&before).collect())
        ),
        format!(
            "Findings in A only: {}.",
            list(before.difference(&after).collect())
        ),
    ]
}

/// Subjects of both sides, each with its place in A and in B, those that stall most first.
fn pairs<'a>(sides: [&Reported<'a>; 2]) -> Vec<(&'a str, [Option<&'a Subject>; 2])> {
    let [before, after] = sides.map(|side| by_stalls(side.report));
    let mut names: Vec<&str> = before.iter().map(|subject| subject.name.as_str()).collect();
    for subject in &after {
        if !names.contains(&subject.name.as_str()) {
            names.push(&subject.name);
        }
    }
    let find = |all: &[&'a Subject], name: &str| all.iter().find(|one| one.name == name).copied();
    let pair = |name: &'a str| (name, [find(&before, name), find(&after, name)]);
    names.into_iter().map(pair).collect()
}

/// Figures as rows, workloads as columns, A and B of each.
fn glance(sides: [&Reported; 2]) -> Part {
    type Shown = fn(&Subject) -> Option<String>;
    let figures: [(&str, Shown); 5] = [
        ("stalled part of its time", |subject| {
            let split = subject.figures.stalls.as_ref().ok()?;
            split.stalled_ratio.as_ref().ok().map(value)
        }),
        ("of that for CXL memory, ± points", |subject| {
            let split = subject.figures.stalls.as_ref().ok()?;
            Some(format!(
                "{} ± {:.0}",
                value(&split.cxl_share),
                split.cxl_error * 100.0
            ))
        }),
        ("lines from CXL memory", |subject| {
            subject.figures.path_map.cxl_lines.as_ref().ok().map(value)
        }),
        ("their share of all", |subject| {
            subject.figures.path_map.cxl_share.as_ref().ok().map(value)
        }),
        ("times as fast, were CXL memory DRAM", |subject| {
            let figure = subject.what_if.first()?.speedup.as_ref().ok()?;
            Some(format!("{:.2}", figure.value))
        }),
    ];
    let all = pairs(sides);
    let shown = all.get(..COLUMNS_MAX.min(all.len())).unwrap_or_default();
    // A subject has a column for each side that it is in.
    let columns = shown.iter().flat_map(|(name, pair)| {
        let sides = LETTERS.iter().zip(pair);
        sides.filter_map(|(letter, subject)| Some((*name, *letter, (*subject)?)))
    });
    let columns: Vec<(&str, &str, &Subject)> = columns.collect();
    let heads = columns
        .iter()
        .map(|(name, letter, _)| format!("{}, {letter}", tail(name, 24)));
    let row = |(name, of): &(&str, Shown)| -> Vec<Cell> {
        let cells = columns
            .iter()
            .map(|(_, _, subject)| Cell::number(of(subject).unwrap_or(NONE.into())));
        [Cell::words(*name)].into_iter().chain(cells).collect()
    };
    Part::Table(Table {
        title: String::new(),
        heads: ["figure".to_owned()].into_iter().chain(heads).collect(),
        rows: figures.iter().map(row).collect(),
    })
}

/// Both servers below each other, with bands of one scale.
fn servers(sides: [&Reported; 2]) -> Vec<Part> {
    let sums = sides.map(|side| machine(side.report).map_or(0.0, |of| Flows::new(of).whole()));
    let most = sums.into_iter().fold(0.0, f64::max);
    let one = |(letter, side): (&&str, &Reported)| {
        let machine = machine(side.report)?;
        let title = format!("{letter}: lines of the machine, {}", tail(side.name, 50));
        let picture = server::picture(&title, machine, machine, Some(most));
        Some(vec![
            Part::Picture(picture),
            Part::Details {
                summary: format!("Table of the stages, {letter}"),
                parts: super::single::stage_tables(machine),
            },
        ])
    };
    LETTERS
        .iter()
        .zip(sides)
        .filter_map(one)
        .flatten()
        .collect()
}

fn maps(sides: [&Reported; 2], fonts: &Fonts) -> Vec<Part> {
    let all = pairs(sides);
    let mut shown: Vec<(String, &Subject)> = Vec::new();
    for (name, pair) in all.iter().take(paths::SUBJECTS_SHOWN) {
        for (letter, subject) in LETTERS.iter().zip(pair) {
            shown.extend(subject.map(|one| (format!("{letter}: {}", tail(name, 18)), one)));
        }
    }
    let mut parts = Vec::new();
    for map in [MapKind::Loads, MapKind::Lines] {
        parts.extend(paths::picture(map, &shown, fonts).map(Part::Picture));
        let column = |letter: &str, place: usize| {
            let tables = all
                .iter()
                .take(paths::SUBJECTS_SHOWN)
                .filter_map(|(_, pair)| pair.get(place).copied()?);
            let tables = tables
                .map(|subject| paths::table(map, subject))
                .filter(|table| !table.rows.is_empty());
            let tables: Vec<Part> = tables.map(Part::Table).collect();
            [Part::Title(letter.to_owned())]
                .into_iter()
                .chain(tables)
                .collect::<Vec<Part>>()
        };
        parts.push(Part::Details {
            summary: format!("Tables: {}", map.title()),
            parts: vec![Part::Beside(vec![column("A", 0), column("B", 1)])],
        });
    }
    parts
}

fn over_time(sides: [&Reported; 2]) -> Vec<Part> {
    let mut parts = Vec::new();
    let of = |(letter, side): (&&str, &Reported), name: &str| -> Option<Part> {
        let over_time = side.report.over_time.as_ref()?;
        let stalls: &StallsOverTime = over_time.stalls.iter().find(|one| one.subject == name)?;
        let scale = TimeScale::new(over_time);
        stalls::picture(&format!(", {letter}"), side.report, stalls, &scale).map(Part::Picture)
    };
    for (name, _) in pairs(sides).iter().take(STALLS_MAX) {
        let named = LETTERS.iter().zip(sides);
        parts.extend(named.filter_map(|side| of(side, name)));
    }
    if parts.is_empty() {
        parts.push(Part::Words("No stalls were split in either.".into()));
    }
    for (letter, side) in LETTERS.iter().zip(sides) {
        parts.push(Part::Details {
            summary: format!("Table of all subjects, {letter}"),
            parts: stalls::overview(&by_stalls(side.report)),
        });
    }
    parts
}

fn loads(sides: [&Reported; 2], fonts: &Fonts) -> Vec<Part> {
    let known = LETTERS.iter().zip(sides);
    let known: Vec<_> = known
        .filter_map(|(letter, side)| Some((*letter, side.report.over_time.as_ref()?)))
        .collect();
    load::parts(&known, fonts)
}

fn qualities(sides: [&Reported; 2]) -> Vec<Part> {
    let one = |(letter, side): (&&str, &Reported)| Part::Details {
        summary: format!("{letter}: {}", side.name),
        parts: quality::parts(side.report, &by_stalls(side.report)),
    };
    LETTERS.iter().zip(sides).map(one).collect()
}
