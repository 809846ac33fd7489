// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A core is bound by stores whose lines come from CXL memory: a full store buffer waits for the line of its
//! oldest.

use super::facts::{Judged, finding, is_cxl, is_waited_at, outcome, share, stalled};
use super::{Evidence, Rule, View, device_saturated};
use crate::figure::Figure;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Part of the stalls that is on stores.
const STORES_MIN: f64 = 0.5;
/// Part of the time that is stalled.
const STALLED_MIN: f64 = 0.3;
/// Part of the stalls that is for CXL memory.
const CXL_MIN: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "store_bound",
    looks_for: "stores that wait for their lines from CXL memory",
    condition: "30 % of the time or more is stalled, half of that or more on stores, and half or more for lines from CXL memory, \
                which is not saturated",
    refuted_by: "a device that takes longer than on the idle machine: then that is the reason",
    next_move: "keep what is written in DRAM, or write whole lines past the caches (non-temporal stores): a store fetches its \
                line first",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, STALLED_MIN)? else {
        return Ok(None);
    };
    let role = Role::new(
        Stage::StoreBuffer,
        AccessPath::Any,
        Target::Any,
        Quantity::Stalls,
    );
    let on_stores: Figure = view
        .counts
        .get(role)?
        .share_of(&split.measured, "measured stalls")?;
    let cxl = share(split, is_cxl);
    let is_slowed = is_waited_at(view, Stage::Device, device_saturated::SLOWED_MIN);
    if on_stores.value < STORES_MIN || cxl.value < CXL_MIN || is_slowed {
        return Ok(None);
    }
    let (percent, part) = (cxl.value * 100.0, cxl.value);
    let what = format!("stores wait for their lines from CXL memory: {percent:.0} % of the stalls");
    let evidence = vec![
        Evidence::new("part of the stalls on stores", Ok(on_stores)),
        Evidence::new("part of the stalls for CXL memory", Ok(cxl)),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}
