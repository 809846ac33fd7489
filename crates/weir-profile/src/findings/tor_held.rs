// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of requests is held by CXL requests of a neighbour: others wait on the mesh and in the ingress
//! queue for an entry (*CXL-Interference*, insight 2). Unlike `before_llc` it looks at the split of the
//! stalls.

use super::before_table::before_table;
use super::facts::{Judged, others, outcome};
use super::{Rule, View};
use crate::culprit::blame_in_cache;
use weir_core::window::role::Stage;

pub(super) const RULE: Rule = Rule {
    name: "tor_held",
    looks_for: "a table of requests that a neighbour's CXL requests hold",
    condition: "30 % of the stalls or more are on the mesh and in the ingress queues, and the time there is twice that in the \
                recording given with --idle, or more; requests to CXL memory hold half of the table or more, and the \
                device is not full",
    refuted_by: "a direction of the link that is always busy, a saturated device, or DRAM channels that are contended: then \
                 entries are held because of these",
    next_move: "limit or move the workload with the most lines to and from CXL memory, its non-temporal stores first",
    places: &[],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(waits) = before_table(view)?.filter(|waits| waits.is_held_by_cxl()) else {
        return Ok(None);
    };
    let what = format!(
        "requests wait before the last-level cache, for an entry of the table of requests: {:.1} times as long as on the \
         idle machine",
        waits.times.value
    );
    let mut found = waits.finding(what);
    found.because_of = others(view, blame_in_cache(view.sharers, Stage::Device));
    Ok(Some(found))
}
