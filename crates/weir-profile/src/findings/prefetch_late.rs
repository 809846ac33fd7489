// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefetch comes late: loads meet lines that are still under way, and few lines are.

use super::facts::{Judged, finding, is_waited_at, loads_at_once, outcome, share, stalled};
use super::{Evidence, Rule, View, device_saturated};
use crate::figure::{Figure, Unit};
use crate::stalls::load_counts::{l2_hits, met_prefetch};
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Stage};

/// Part of the prefetched lines that loads meet under way.
const LATE_MIN: f64 = 0.85;
/// Part of the stalls that is for prefetches.
const SHARE_MIN: f64 = 0.5;
/// Loads under way at once: more fill the core's buffers, and then it is not prefetch that is too short.
///
/// Without this bound, without [`LATE_MIN`] and where lines may take longer than on the idle machine, all
/// late prefetch is found (40 of 40), and so is some on 152 of 200 machines that are only busy: their streams
/// from CXL memory do wait for prefetch. With the three, late prefetch is missed where a fifth of the lines
/// is in time (docs/evidence/stalls.md).
const AT_ONCE_MAX: f64 = 4.7;

pub(super) const RULE: Rule = Rule {
    name: "prefetch_late",
    looks_for: "prefetch that comes late",
    condition: "30 % of the time or more is stalled, half of that or more on lines that a prefetch has under way; 85 % or more of \
                the prefetched lines that loads ask for are still under way then; at most 4.7 loads wait at once",
    refuted_by: "a device or DRAM that takes longer than on the idle machine, or full fill buffers: then more distance does not \
                 help",
    next_move: "prefetch further ahead (software prefetch, a longer distance), or move the stream to DRAM",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.3)? else {
        return Ok(None);
    };
    let waited = share(split, |role| role.path == AccessPath::PfL2);
    let met: f64 = met_prefetch(&view.sources)
        .iter()
        .map(|(_, loads)| loads)
        .sum();
    let late = met / (met + l2_hits(&view.sources));
    let at_once = loads_at_once(view)?;
    let is_slowed = [Stage::Device, Stage::Port, Stage::Imc]
        .into_iter()
        .any(|stage| is_waited_at(view, stage, device_saturated::SLOWED_MIN));
    if waited.value < SHARE_MIN
        || late.is_nan()
        || late < LATE_MIN
        || at_once.value > AT_ONCE_MAX
        || is_slowed
    {
        return Ok(None);
    }
    let part = waited.value;
    let late = Figure::new(late, Unit::Ratio, CountProvenance::Difference, None);
    let what = format!(
        "prefetch comes late: loads meet {:.0} % of the prefetched lines under way",
        late.value * 100.0
    );
    let evidence = vec![
        Evidence::new("part of the stalls for prefetches under way", Ok(waited)),
        Evidence::new(
            "loads that meet a prefetch ÷ these and hits of L2",
            Ok(late),
        ),
        Evidence::new("loads under way at once", Ok(at_once)),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}
