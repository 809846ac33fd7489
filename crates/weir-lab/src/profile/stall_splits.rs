// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The split of stalls beside the truth, of workloads that stall for a tenth of their time or more: the share
//! of CXL memory, beside the yardsticks, and the part that is at a wrong stage.

use super::comparison::{ComparedFigure, ComparedRun};
use std::collections::BTreeMap;
use weir_core::window::role::{Quantity, Stage, Target};
use weir_profile::Answer;
use weir_profile::report::{self, Figures, Pathfinder, Report};
use weir_server_model::Stage as Place;
use weir_server_model::truth::StallTruth;

/// Part of the time that a workload must stall.
const STALLED_MIN: f64 = 0.1;

fn report_of(case: &ComparedRun) -> Report {
    let options = report::Options {
        idle: Some(&case.idle),
        pathfinder: true,
        ..report::Options::default()
    };
    report::report(&case.file, &options)
}

fn rows<'a>(case: &'a ComparedRun, subject: &'a str) -> impl Iterator<Item = &'a StallTruth> {
    let rows = case.truth.windows.iter().flat_map(|window| &window.stalls);
    rows.filter(move |row| row.workload == subject)
}

/// Whether a workload stalls enough, and its stalls are counted at all: some plans count sockets only.
fn is_stalled(case: &ComparedRun, subject: &str) -> bool {
    let workloads = case
        .file
        .windows
        .iter()
        .flat_map(|window| &window.workloads);
    let mut counts = workloads.flat_map(|workload| &workload.counts);
    if !counts.any(|count| count.role.quantity == Quantity::Stalls) {
        return false;
    }
    let windows = case.truth.windows.iter();
    let (mut stalled, mut time) = (0.0, 0.0);
    for window in windows {
        for cpu in window.cpus.iter().filter(|cpu| cpu.workload == subject) {
            stalled += cpu.measured_stall_ns;
            time += window.to_ns - window.from_ns;
        }
    }
    stalled > STALLED_MIN * time
}

/// One figure of each workload that stalls.
fn compared(
    case: &ComparedRun,
    of: impl Fn(&Figures, &str) -> (Result<f64, String>, f64),
) -> Vec<ComparedFigure> {
    let report = report_of(case);
    let subjects = report.subjects.iter();
    let stalled = subjects.filter(|subject| is_stalled(case, &subject.name));
    let figures = stalled.map(|subject| {
        let (estimate, truth) = of(&subject.figures, &subject.name);
        ComparedFigure {
            of: subject.name.clone(),
            estimate,
            truth,
            scale: 1.0,
        }
    });
    figures.collect()
}

fn true_cxl_share(case: &ComparedRun, subject: &str) -> f64 {
    let (mut cxl, mut all) = (0.0, 0.0);
    for row in rows(case, subject) {
        all += row.ns;
        if row.target.is_cxl() {
            cxl += row.ns;
        }
    }
    cxl / all
}

fn value(answer: &Answer) -> Result<f64, String> {
    answer
        .as_ref()
        .map(|figure| figure.value)
        .map_err(ToString::to_string)
}

pub fn cxl_share(case: &ComparedRun) -> Vec<ComparedFigure> {
    compared(case, |figures, subject| {
        let split = figures.stalls.as_ref();
        let share = split
            .map(|split| split.cxl_share.value)
            .map_err(ToString::to_string);
        (share, true_cxl_share(case, subject))
    })
}

/// 1 where the truth lies outside of the error bar of that share, else 0: the mean is the part outside.
pub fn outside_error_bar(case: &ComparedRun) -> Vec<ComparedFigure> {
    compared(case, |figures, subject| {
        let truth = true_cxl_share(case, subject);
        let split = figures.stalls.as_ref().map_err(ToString::to_string);
        let outside = split.map(|split| {
            let error = (split.cxl_share.value - truth).abs();
            f64::from(u8::from(error > split.cxl_error))
        });
        (outside, 0.0)
    })
}

fn yardstick(case: &ComparedRun, of: impl Fn(&Pathfinder) -> &Answer) -> Vec<ComparedFigure> {
    compared(case, |figures, subject| {
        let known = figures
            .pathfinder
            .as_ref()
            .map(|pathfinder| value(of(pathfinder)));
        let none = || Err("not asked for".to_owned());
        (known.unwrap_or_else(none), true_cxl_share(case, subject))
    })
}

/// The share by lines.
pub fn by_counts(case: &ComparedRun) -> Vec<ComparedFigure> {
    yardstick(case, |pathfinder| &pathfinder.stall_share_by_counts)
}

/// The share by lines × fixed latencies.
pub fn by_fixed_latencies(case: &ComparedRun) -> Vec<ComparedFigure> {
    yardstick(case, |pathfinder| {
        &pathfinder.stall_share_by_fixed_latencies
    })
}

/// The share by lines × residences.
pub fn by_residences(case: &ComparedRun) -> Vec<ComparedFigure> {
    yardstick(case, |pathfinder| &pathfinder.stall_share_by_residences)
}

/// The share by Algorithm 2, mended.
pub fn by_algorithm_2(case: &ComparedRun) -> Vec<ComparedFigure> {
    yardstick(case, |pathfinder| &pathfinder.stall_share_by_algorithm_2)
}

/// The server's place of a stage; what is fetched from the other socket is behind its link.
fn place(stage: Stage, target: Target) -> Place {
    match stage {
        Stage::Core => Place::Core,
        Stage::StoreBuffer => Place::StoreBuffer,
        Stage::L1d => Place::L1d,
        Stage::FillBuffer => Place::FillBuffer,
        Stage::L2 => Place::L2,
        Stage::SuperQueue => Place::SuperQueue,
        Stage::Ingress => Place::Mesh,
        Stage::Llc => Place::Llc,
        Stage::Tor => Place::Tor,
        Stage::Imc if matches!(target, Target::DramRemote | Target::RemoteCache) => Place::Upi,
        Stage::Imc => Place::Dram,
        Stage::M2pcie | Stage::Port => Place::Port,
        Stage::Device => Place::Device,
    }
}

/// The part of the stalls at a wrong stage: half the sum of the differences.
pub fn misplaced(case: &ComparedRun) -> Vec<ComparedFigure> {
    compared(case, |figures, subject| {
        let split = figures.stalls.as_ref().map_err(ToString::to_string);
        let misplaced = split.map(|split| {
            let all: f64 = rows(case, subject).map(|row| row.ns).sum();
            let mut differences: BTreeMap<Place, f64> = BTreeMap::new();
            for row in rows(case, subject) {
                *differences.entry(row.stage).or_default() -= row.ns / all;
            }
            for part in &split.parts {
                let at = place(part.role.stage, part.role.target);
                *differences.entry(at).or_default() += part.share;
            }
            differences
                .values()
                .map(|difference| difference.abs())
                .sum::<f64>()
                / 2.0
        });
        (misplaced, 0.0)
    })
}
