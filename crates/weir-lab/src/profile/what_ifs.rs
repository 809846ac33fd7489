// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a report says of a workload's time without CXL memory, or without a neighbour, beside the same seed
//! run again so.

use super::comparison::{ComparedFigure, ComparedRun};
use weir_profile::report::{self, Condition, Options};
use weir_server_model::WhatIf as Truth;

/// A part of the time within so much of the truth is right: ten points.
const WITHIN_RATIO: f64 = 0.1;

/// The condition of the truth that is meant; the report's idle machine has none.
fn is_same(condition: &Condition, truth: &Truth) -> bool {
    match (condition, truth) {
        (Condition::NoCxl, Truth::NoCxl) => true,
        (Condition::Without(name), Truth::Without(gone)) => name == gone,
        _ => false,
    }
}

/// What the report says under some conditions, of all workloads whose stalls are split, beside a truth.
fn speedups(
    case: &ComparedRun,
    is_wanted: impl Fn(&Condition) -> bool,
    truth: impl Fn(&str, &Condition) -> Option<f64>,
) -> Vec<ComparedFigure> {
    if case.truth.what_if.is_empty() {
        return Vec::new();
    }
    let options = Options {
        idle: Some(&case.idle),
        ..Options::default()
    };
    let report = report::report(&case.file, &options);
    let mut all = Vec::new();
    for subject in &report.subjects {
        for row in subject
            .what_if
            .iter()
            .filter(|row| is_wanted(&row.condition))
        {
            let Some(truth) = truth(&subject.name, &row.condition) else {
                continue;
            };
            let estimate = row.speedup.as_ref().map(|figure| figure.value);
            all.push(ComparedFigure {
                of: format!("{}, if {}", subject.name, row.otherwise),
                estimate: estimate.map_err(ToString::to_string),
                truth,
                scale: truth,
            });
        }
    }
    all
}

/// The truth of a workload under a condition.
fn run_again(case: &ComparedRun, workload: &str, condition: &Condition) -> Option<f64> {
    let mut truths = case.truth.what_if.iter();
    truths
        .find(|truth| truth.workload == workload && is_same(condition, &truth.condition))?
        .speedup_ratio
}

/// The part of a workload's time that it loses, 0 to 1, in place of how much faster it would be.
fn time_lost(figures: Vec<ComparedFigure>) -> Vec<ComparedFigure> {
    let lost = |speedup: f64| 1.0 - 1.0 / speedup;
    let changed = figures.into_iter().map(|figure| ComparedFigure {
        estimate: figure.estimate.map(lost),
        truth: lost(figure.truth),
        scale: 1.0,
        ..figure
    });
    changed.collect()
}

/// 1 where the time lost is further than ten points from the truth.
fn outside(figures: Vec<ComparedFigure>) -> Vec<ComparedFigure> {
    let judged = time_lost(figures).into_iter().map(|figure| ComparedFigure {
        estimate: match figure.error() {
            Some(error) => Ok(f64::from(u8::from(error > WITHIN_RATIO))),
            None => figure.estimate,
        },
        truth: 0.0,
        ..figure
    });
    judged.collect()
}

fn is_cxl(condition: &Condition) -> bool {
    *condition == Condition::NoCxl
}

fn is_neighbour(condition: &Condition) -> bool {
    matches!(condition, Condition::Without(_))
}

/// How much faster without CXL memory, against all its pages in DRAM.
pub fn without_cxl(case: &ComparedRun) -> Vec<ComparedFigure> {
    speedups(case, is_cxl, |name, condition| {
        run_again(case, name, condition)
    })
}

/// Those of the times lost to CXL memory that are not within ten points.
pub fn lost_to_cxl(case: &ComparedRun) -> Vec<ComparedFigure> {
    outside(without_cxl(case))
}

/// How much faster without each of the largest neighbours.
pub fn without_neighbour(case: &ComparedRun) -> Vec<ComparedFigure> {
    speedups(case, is_neighbour, |name, condition| {
        run_again(case, name, condition)
    })
}

/// Those of the times lost to each of the largest neighbours that are not within ten points.
pub fn lost_to_neighbour(case: &ComparedRun) -> Vec<ComparedFigure> {
    outside(without_neighbour(case))
}
