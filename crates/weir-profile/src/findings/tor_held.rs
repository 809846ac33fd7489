// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of requests is held by CXL requests of a neighbour: others wait on the mesh and in the ingress queue for
//! an entry (*CXL-Interference*, insight 2). Unlike `before_llc` it looks at the split of the stalls.

use super::facts::{Judged, finding, is_waited_at, link_busy, others, outcome, share, stalled};
use super::{Evidence, Rule, View, dram_contended, link_saturated};
use crate::culprit::blame;
use crate::figure::{Figure, Unit};
use crate::quality::Refusal;
use crate::stalls::ways::times;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Stage};

/// Part of the stalls that is on the mesh and in the ingress queues.
const SHARE_MIN: f64 = 0.3;
/// Time there ÷ that on the idle machine.
const TIMES_MIN: f64 = 2.0;

pub(super) const RULE: Rule = Rule {
    name: "tor_held",
    looks_for: "a table of requests that a neighbour's CXL requests hold",
    condition: "30 % of the stalls or more are on the mesh and in the ingress queues, and the time there is twice that in the \
                recording given with --idle, or more",
    refuted_by: "a direction of the link that is always busy, or DRAM channels that are contended: then entries are held \
                 because of these",
    next_move: "limit or move the workload with the most lines to and from CXL memory, its non-temporal stores first",
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let there = share(split, |role| role.stage == Stage::Ingress);
    if there.value < SHARE_MIN {
        return Ok(None);
    }
    let (now, idle) = (
        times(&view.sources)?,
        times(&view.idle_sources.ok_or(Refusal::NotCalibrated)?)?,
    );
    let longer =
        ((now.mesh_in + now.mesh_out) / now.ghz) / ((idle.mesh_in + idle.mesh_out) / idle.ghz);
    let paths = [AccessPath::Reads, AccessPath::Wb];
    let is_busy =
        |path| link_busy(view, path).is_ok_and(|busy| busy.value >= link_saturated::BUSY_MIN);
    let is_elsewhere =
        paths.into_iter().any(is_busy) || is_waited_at(view, Stage::Imc, dram_contended::WAIT_MIN);
    if longer.is_nan() || longer < TIMES_MIN || is_elsewhere {
        return Ok(None);
    }
    let part = there.value;
    let mut times = Figure::new(longer, Unit::Ratio, CountProvenance::Difference, None);
    times.notes = now.figure.notes.clone();
    let what = format!(
        "requests wait before the last-level cache, for an entry of the table of requests: {longer:.1} times as long as on the \
         idle machine"
    );
    let evidence = vec![
        Evidence::new(
            "part of the stalls on the mesh and in the ingress queues",
            Ok(there),
        ),
        Evidence::new("time there, times that of --idle", Ok(times)),
    ];
    let mut found = finding(split, what, part, evidence);
    found.because_of = others(view, blame(view.sharers, Stage::Device));
    Ok(Some(found))
}
