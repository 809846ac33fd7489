// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefetch is useless: it fetches lines that no load or store asks for.

use super::facts::{Judged, finding, outcome, stalled};
use super::{Evidence, Rule, View};
use crate::figure::{Figure, Unit};
use crate::quality::Refusal;
use crate::stalls::load_counts::{l2_hits, met_prefetch};
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Prefetched lines ÷ all that L2 fetches.
const PREFETCHED_MIN: f64 = 0.3;
/// Prefetched lines that are used.
const USED_MAX: f64 = 0.35;

pub(super) const RULE: Rule = Rule {
    name: "prefetch_useless",
    looks_for: "prefetch of lines that are not used",
    condition: "10 % of the time or more is stalled; 30 % or more of the lines that L2 fetches are prefetched; loads and stores \
                use at most 35 % of these (hits of L2, what they meet under way, and what L1D takes)",
    refuted_by: "lines that prefetch into L1D takes from L2 where L1D.REPLACEMENT is not counted: no load hits L2 for them",
    next_move: "switch the streamer off for the workload's CPUs (MSR 0x1a4, bits 0 and 1), and count again",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let lines = |path, target| {
        let role = Role::new(Stage::L2, path, target, Quantity::Lines);
        view.counts.get(role)
    };
    let prefetched = lines(AccessPath::Pf, Target::Miss)?;
    let drd = lines(AccessPath::Drd, Target::Miss)?.value;
    let rfo = lines(AccessPath::Rfo, Target::Miss).map_or(0.0, |figure| figure.value);
    let hits =
        l2_hits(&view.sources) + lines(AccessPath::Rfo, Target::Own).map_or(0.0, |f| f.value);
    let met: f64 = met_prefetch(&view.sources)
        .iter()
        .map(|(_, loads)| loads)
        .sum();
    let asked = lines_asked(view).unwrap_or(rfo);
    // L1D takes lines from L2 by prefetches of its own, too.
    let fills = taken_by_l1d(view).map_or(0.0, |fills| fills - (drd - met).max(0.0) - asked);
    let used = (hits + met + (rfo - asked).max(0.0)).max(fills);
    // Demand that meets a prefetch is no line of its own.
    let all = prefetched.value + (drd - met).max(0.0) + asked;
    if prefetched.value <= 0.0 || all <= 0.0 {
        return Ok(None);
    }
    let (part, used) = (prefetched.value / all, used / prefetched.value);
    if part < PREFETCHED_MIN || used > USED_MAX {
        return Ok(None);
    }
    let figure = |value| Figure::new(value, Unit::Ratio, CountProvenance::Difference, None);
    let what = format!(
        "prefetch is useless: at most {:.0} % of the lines that it fetches are used",
        used * 100.0
    );
    let evidence = vec![
        Evidence::new("prefetched lines ÷ lines that L2 fetches", Ok(figure(part))),
        Evidence::new("used ones ÷ prefetched lines", Ok(figure(used))),
        Evidence::new("lines that prefetch fetches", Ok(prefetched)),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}

/// Lines that L1D took.
fn taken_by_l1d(view: View) -> Result<f64, Refusal> {
    let role = Role::new(Stage::L1d, AccessPath::Any, Target::Any, Quantity::Lines);
    Ok(view.counts.get(role)?.value)
}

/// Stores' lines that left the core as demand.
fn lines_asked(view: View) -> Result<f64, Refusal> {
    let role = Role::new(
        Stage::SuperQueue,
        AccessPath::Rfo,
        Target::Any,
        Quantity::Inserts,
    );
    Ok(view.counts.get(role)?.value)
}
