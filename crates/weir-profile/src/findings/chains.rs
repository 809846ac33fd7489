// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chains of loads on an idle device: each load needs the one before, so latency counts and bandwidth does
//! not.

use super::facts::{
    Judged, finding, is_cxl, is_waited_at, loads_at_once, outcome, resends, share, stalled,
};
use super::{Evidence, Rule, View, device_slow};
use weir_core::window::role::Stage;

/// Part of the time that is stalled.
const STALLED_MIN: f64 = 0.7;
/// Part of the stalls that is for CXL memory.
const CXL_MIN: f64 = 0.6;
/// Loads under way at once.
const AT_ONCE_MAX: f64 = 1.5;

pub(super) const RULE: Rule = Rule {
    name: "chains",
    looks_for: "chains of loads on an idle CXL device",
    condition: "70 % of the time or more is stalled, 60 % of that or more for CXL memory, which is as fast as on the idle machine; \
                at most 1.5 loads are under way at once",
    refuted_by: "a device that takes longer than on the idle machine",
    next_move: "move the pages that are read most to DRAM, or change the data structure (fewer pointers, prefetch by software): \
                more bandwidth does not help",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, STALLED_MIN)? else {
        return Ok(None);
    };
    let cxl = share(split, is_cxl);
    let at_once = loads_at_once(view)?;
    let is_slowed = is_waited_at(view, Stage::Device, device_slow::WAIT_MIN) || resends(view);
    if cxl.value < CXL_MIN || at_once.value > AT_ONCE_MAX || is_slowed {
        return Ok(None);
    }
    let (times, part) = (at_once.value, cxl.value);
    let what = format!(
        "loads from CXL memory follow each other: {times:.1} are under way at once, on a device that is not busy"
    );
    let evidence = vec![
        Evidence::new("loads under way at once", Ok(at_once)),
        Evidence::new("part of the stalls for CXL memory", Ok(cxl)),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}
