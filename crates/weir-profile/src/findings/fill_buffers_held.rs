// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fill buffers are held by long reads: the core has no buffer for the next miss, while device and link are
//! not busy.

use super::facts::{Judged, buffers_full, finding, is_cxl, is_waited_at, outcome, share, stalled};
use super::{Evidence, Rule, View, device_saturated};
use weir_core::window::role::Stage;

/// Part of the time that a demand request waits for a buffer.
const FULL_MIN: f64 = 0.6;
/// Part of the stalls that is for CXL memory.
const CXL_MIN: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "fill_buffers_held",
    looks_for: "fill buffers that long reads hold",
    condition: "a demand request waits for a fill buffer in 60 % of the cycles or more, and 30 % of the stalls or more are for \
                CXL memory, which is not saturated",
    refuted_by: "a device or DRAM that takes longer than on the idle machine: then the buffers are held because of that",
    next_move: "move the pages that are read most to DRAM: more bandwidth of the device does not help, its latency fills the \
                buffers",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.3)? else {
        return Ok(None);
    };
    let full = buffers_full(view)?;
    let cxl = share(split, is_cxl);
    let is_slowed = is_waited_at(view, Stage::Device, device_saturated::SLOWED_MIN)
        || is_waited_at(view, Stage::Port, device_saturated::SLOWED_MIN)
        || is_waited_at(view, Stage::Imc, device_saturated::SLOWED_MIN);
    if full.value < FULL_MIN || cxl.value < CXL_MIN || is_slowed {
        return Ok(None);
    }
    let (percent, part) = (full.value * 100.0, cxl.value);
    let what = format!(
        "long reads from CXL memory hold the fill buffers: a load waits for one in {percent:.0} % of the cycles"
    );
    let evidence = vec![
        Evidence::new("cycles in which a load waits for a fill buffer", Ok(full)),
        Evidence::new("part of the stalls for CXL memory", Ok(cxl)),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}
