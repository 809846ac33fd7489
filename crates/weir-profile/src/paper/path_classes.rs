// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The figures that PathFinder makes of its Table 7 (section 5.2), each with what it divides by. A row of
//! that table mixes instructions (L1D, fill buffers) with lines, and its write-backs have one cell for all of
//! the uncore: the figures are the paper's, not weir's ([`crate::path_map`]).

use crate::counts::Counts;
use crate::figure::{Answer, Figure, Unit, sum};
use crate::quality::Refusal;
use serde::Serialize;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// The paths that the uncore tells apart.
const PATHS: [AccessPath; 3] = [AccessPath::Drd, AccessPath::Rfo, AccessPath::Pf];
/// Where the paper's machine finds lines behind L2.
const SUPPLIERS: [Target; 4] = [Target::Own, Target::Snc, Target::RemoteCache, Target::Cxl];

#[derive(Clone, Debug, Serialize)]
pub struct PathClasses {
    /// Prefetch in all uncore accesses, the write-backs' cell with them.
    pub pf_of_uncore: Answer,
    /// The same without that cell.
    pub pf_of_uncore_reads: Answer,
    /// Lines from CXL memory ÷ lines from the own last-level cache.
    pub cxl_per_llc: Answer,
    /// Prefetch in the lines from CXL memory.
    pub pf_of_cxl: Answer,
    /// All cells of drd, rfo and wb.
    pub core_requests: Answer,
    /// Lines from CXL memory ÷ lines behind L2: drd, rfo, pf.
    pub cxl_of_path: [Answer; 3],
    /// Lines from CXL memory, all paths.
    pub cxl_lines: Answer,
}

fn line(counts: &Counts, path: AccessPath, target: Target) -> Answer {
    counts.get(Role::new(Stage::SuperQueue, path, target, Quantity::Lines))
}

/// A sum of which no part may be missing.
fn all(answers: impl IntoIterator<Item = Answer>) -> Answer {
    let figures: Vec<Figure> = answers.into_iter().collect::<Result<_, Refusal>>()?;
    sum(&figures).ok_or(Refusal::NotCounted {
        what: "parts".into(),
    })
}

fn uncore(counts: &Counts, path: AccessPath) -> Answer {
    all(SUPPLIERS.map(|target| line(counts, path, target)))
}

fn share(part: Answer, whole: Answer, named: &str) -> Answer {
    part?.share_of(&whole?, named)
}

/// Cells of drd, rfo and wb in the core and behind it.
fn core_requests(counts: &Counts) -> Answer {
    let cells = [
        (Stage::L1d, AccessPath::Drd, Target::Own, Quantity::Loads),
        (
            Stage::FillBuffer,
            AccessPath::Drd,
            Target::Own,
            Quantity::Loads,
        ),
        (Stage::L2, AccessPath::Drd, Target::Own, Quantity::Loads),
        (Stage::L2, AccessPath::Rfo, Target::Own, Quantity::Lines),
        (
            Stage::StoreBuffer,
            AccessPath::Wb,
            Target::Any,
            Quantity::Stores,
        ),
        (Stage::L2, AccessPath::Wb, Target::Own, Quantity::Stores),
        (
            Stage::SuperQueue,
            AccessPath::Wb,
            Target::Any,
            Quantity::Lines,
        ),
    ];
    let cells = cells.map(|(stage, path, target, quantity)| {
        counts.get(Role::new(stage, path, target, quantity))
    });
    let behind = [
        uncore(counts, AccessPath::Drd),
        uncore(counts, AccessPath::Rfo),
    ];
    let mut sum = all(cells.into_iter().chain(behind))?;
    sum.unit = Unit::Requests;
    Ok(sum.noting("instructions and lines together, as the paper adds them"))
}

pub fn path_classes(counts: &Counts) -> PathClasses {
    let reads = || all(PATHS.map(|path| uncore(counts, path)));
    let wb = line(counts, AccessPath::Wb, Target::Any);
    let cxl = || all(PATHS.map(|path| line(counts, path, Target::Cxl)));
    let llc = all(PATHS.map(|path| line(counts, path, Target::Own)));
    let pf = uncore(counts, AccessPath::Pf);
    PathClasses {
        pf_of_uncore: share(
            pf.clone(),
            all([reads(), wb]),
            "lines of drd, rfo and pf from LLC, SNC, remote cache and CXL, and write-backs",
        ),
        pf_of_uncore_reads: share(
            pf,
            reads(),
            "lines of drd, rfo and pf from LLC, SNC, remote cache and CXL",
        ),
        cxl_per_llc: share(
            cxl(),
            llc,
            "lines of drd, rfo and pf from the own LLC, without SNC",
        ),
        pf_of_cxl: share(
            line(counts, AccessPath::Pf, Target::Cxl),
            cxl(),
            "lines of drd, rfo and pf from CXL",
        ),
        core_requests: core_requests(counts),
        cxl_of_path: PATHS.map(|path| {
            let named = format!("{} from LLC, SNC, remote cache and CXL", path.word());
            share(
                line(counts, path, Target::Cxl),
                uncore(counts, path),
                &named,
            )
        }),
        cxl_lines: cxl(),
    }
}
