// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the figures depend on each number of the machine file: a match that hangs on one of them is none.

use super::ask::PathModel;
use super::paper::{SSD_RANDOM, THREADS, beside};
use crate::papers::Paper;
use anyhow::Result;
use serde::Serialize;
use weir_hw::host_path::{HostMachine, Lever, StreamOp};

/// What is varied in a column.
#[derive(Clone, Copy, Debug)]
enum Variation {
    Base,
    Trackers(f64),
    Lines(f64),
    DramIdle(f64),
    Writers(u32),
    OwnTime(f64),
}

const VARIATIONS: [(&str, Variation); 16] = [
    ("base", Variation::Base),
    ("T −30 %", Variation::Trackers(0.7)),
    ("T +30 %", Variation::Trackers(1.3)),
    ("W −30 %", Variation::Lines(0.7)),
    ("W +30 %", Variation::Lines(1.3)),
    ("r 80 ns", Variation::DramIdle(80.0)),
    ("r 100 ns", Variation::DramIdle(100.0)),
    ("r 120 ns", Variation::DramIdle(120.0)),
    ("r 150 ns", Variation::DramIdle(150.0)),
    ("n 8", Variation::Writers(8)),
    ("n 12", Variation::Writers(12)),
    ("n 20", Variation::Writers(20)),
    ("n 24", Variation::Writers(24)),
    ("n 31", Variation::Writers(31)),
    ("own ÷ 2", Variation::OwnTime(0.5)),
    ("own × 4", Variation::OwnTime(4.0)),
];

/// One result over all variations.
#[derive(Clone, Debug, Serialize)]
pub struct SensitivityRow {
    pub name: &'static str,
    /// The result as the paper prints it.
    pub paper: &'static str,
    /// Its bounds, where there are any.
    pub bounds: Option<[f64; 2]>,
    pub unit: &'static str,
    /// Values in the order of the columns; null where the machine has too few cores.
    pub values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// What is varied: T trackers, W lines of all kinds of request, r idle residence of DRAM, n writers
    /// (victims are 16, or what cores are left), own the cores' own time for a line.
    pub columns: Vec<&'static str>,
    pub rows: Vec<SensitivityRow>,
}

type PairFigure = fn(&PathModel, u32, u32) -> Result<f64>;

/// Name, as the paper has it, the paper's figure whose bounds count, unit, and what computes it.
type FigureRow = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
    PairFigure,
);

const FIGURES: [FigureRow; 10] = [
    (
        "MMEM ld lost under ntst",
        "93.2",
        Some("mmem_lost"),
        "%",
        mmem_lost,
    ),
    ("L2-miss latency", "15.2", Some("l2_miss"), "×", l2),
    (
        "tracker residence",
        "26.4",
        Some("residence"),
        "×",
        residence,
    ),
    (
        "MMEM ld kept, quota 1/16",
        "92",
        Some("kept_by_quota"),
        "%",
        quota,
    ),
    (
        "MMEM ld kept, MBA at half",
        "95 to 99",
        Some("kept_by_mba"),
        "%",
        mba,
    ),
    (
        "MMEM ld kept, lowest clock",
        "30 to 52",
        Some("kept_at_lowest_clock"),
        "%",
        frequency,
    ),
    ("MMEM ld lost under CXL ld", "–", None, "%", under_ld),
    (
        "MMEM ld lost under CXL st",
        "over 40",
        Some("under_ld_or_st"),
        "%",
        under_st,
    ),
    (
        "SSD sequential write lost",
        "80.9",
        Some("sequential_lost"),
        "%",
        sequential,
    ),
    (
        "SSD random write lost",
        "54.5",
        Some("random_lost"),
        "%",
        random,
    ),
];

/// The table.
///
/// # Errors
/// The machine has not what the paper's had.
pub fn sensitivity(model: &PathModel) -> Result<Sensitivity> {
    // What the paper's figures need is checked in one place.
    super::paper::rows(model)?;
    let mut rows = Vec::with_capacity(FIGURES.len());
    let printed = Paper::interference()?;
    for (name, paper, bounds_of, unit, figure) in FIGURES {
        let mut values = Vec::with_capacity(VARIATIONS.len());
        for (_, variation) in VARIATIONS {
            let (varied, writers) = varied(model, variation);
            let cores = varied.machine.cores.count;
            let victims = THREADS.min(cores.saturating_sub(writers));
            values.push(match victims {
                0 => None,
                _ => Some(figure(&varied, victims, writers)?),
            });
        }
        rows.push(SensitivityRow {
            name,
            paper,
            bounds: bounds_of
                .map(|id| printed.figure(id))
                .transpose()?
                .and_then(|of| of.within),
            unit,
            values,
        });
    }
    Ok(Sensitivity {
        columns: VARIATIONS.iter().map(|(name, _)| *name).collect(),
        rows,
    })
}

fn varied(model: &PathModel, variation: Variation) -> (PathModel, u32) {
    let mut model = model.clone();
    let mut writers = THREADS;
    let machine = &mut model.machine;
    match variation {
        Variation::Base => {}
        Variation::Trackers(factor) => {
            let count = scaled(machine.trackers.count, factor);
            machine.trackers.count = count.max(machine.trackers.slices);
        }
        Variation::Lines(factor) => lines(machine, factor),
        Variation::DramIdle(residence_ns) => {
            let path_ns = machine.cores.path_ns;
            if let Some(number) = machine.memory_index("mmem") {
                machine.memory[number].idle_ns = Some(residence_ns + path_ns);
            }
        }
        Variation::Writers(count) => writers = count,
        Variation::OwnTime(factor) => {
            let cores = &mut machine.cores;
            for kind in [
                &mut cores.load,
                &mut cores.store,
                &mut cores.nt,
                &mut cores.movdir64b,
            ] {
                kind.own_ns *= factor;
            }
        }
    }
    (model, writers)
}

/// A count times a factor near 1, at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(count: u32, factor: f64) -> u32 {
    ((f64::from(count) * factor).round() as u32).max(1)
}

fn lines(machine: &mut HostMachine, factor: f64) {
    let cores = &mut machine.cores;
    for kind in [
        &mut cores.load,
        &mut cores.store,
        &mut cores.write_back,
        &mut cores.nt,
        &mut cores.movdir64b,
    ] {
        kind.lines = scaled(kind.lines, factor);
    }
    if let Some(ssd) = &mut machine.ssd {
        ssd.copy_lines = scaled(ssd.copy_lines, factor);
    }
}

fn mmem(model: &PathModel, victims: u32, writers: u32, levers: &[Lever]) -> Result<f64> {
    let victim = ("mmem", StreamOp::Ld, victims);
    let mix = beside(model, victim, ("cxl", StreamOp::Ntst, writers), levers)?;
    Ok(mix.kept() * 1e2)
}

fn mmem_lost(model: &PathModel, victims: u32, writers: u32) -> Result<f64> {
    Ok(1e2 - mmem(model, victims, writers, &[])?)
}

fn l2(model: &PathModel, _victims: u32, writers: u32) -> Result<f64> {
    Ok(beside(model, SSD_RANDOM, ("cxl", StreamOp::Ntst, writers), &[])?.l2_ratio())
}

fn residence(model: &PathModel, _victims: u32, writers: u32) -> Result<f64> {
    let mix = beside(model, SSD_RANDOM, ("cxl", StreamOp::Ntst, writers), &[])?;
    Ok(mix.residence_ratio())
}

fn quota(model: &PathModel, victims: u32, writers: u32) -> Result<f64> {
    mmem(model, victims, writers, &[Lever::Quota(1.0 / 16.0)])
}

fn mba(model: &PathModel, victims: u32, writers: u32) -> Result<f64> {
    let half = Lever::named("mba-linear", 0.5, &model.machine)?;
    mmem(model, victims, writers, &[half])
}

fn frequency(model: &PathModel, victims: u32, writers: u32) -> Result<f64> {
    let least = Lever::Frequency(model.machine.levers.least_ghz);
    mmem(model, victims, writers, &[least])
}

fn under_ld(model: &PathModel, victims: u32, others: u32) -> Result<f64> {
    under(model, StreamOp::Ld, victims, others)
}

fn under_st(model: &PathModel, victims: u32, others: u32) -> Result<f64> {
    under(model, StreamOp::St, victims, others)
}

fn under(model: &PathModel, op: StreamOp, victims: u32, others: u32) -> Result<f64> {
    let victim = ("mmem", StreamOp::Ld, victims);
    let mix = beside(model, victim, ("cxl", op, others), &[])?;
    Ok((1.0 - mix.kept()) * 1e2)
}

fn sequential(model: &PathModel, _victims: u32, writers: u32) -> Result<f64> {
    ssd(model, StreamOp::Write, writers)
}

fn random(model: &PathModel, _victims: u32, writers: u32) -> Result<f64> {
    ssd(model, StreamOp::RandWrite, writers)
}

fn ssd(model: &PathModel, op: StreamOp, writers: u32) -> Result<f64> {
    let mix = beside(model, ("ssd", op, 1), ("cxl", StreamOp::Ntst, writers), &[])?;
    Ok((1.0 - mix.kept()) * 1e2)
}
