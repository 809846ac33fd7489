// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM is contended: reads wait in the controllers for others, or before the table of requests, where it is
//! full of reads of DRAM: a small table lets no more of them into the controllers.

use super::before_table::before_table;
use super::facts::{Judged, others, outcome, stalled_at};
use super::{Rule, View};
use crate::culprit::{StageWaits, blame, blame_in_cache};
use crate::figure::places::PlaceKind;
use weir_core::window::role::Stage;

/// Waiting time of a request there ÷ its residence on the idle machine.
pub(super) const WAIT_MIN: f64 = 0.4;
/// Requests that wait there, on average.
const WAITING_MIN: f64 = 4.0;

pub(super) const RULE: Rule = Rule {
    name: "dram_contended",
    looks_for: "contended DRAM channels",
    condition: "30 % of the stalls or more are at DRAM; reads stay there 1.4 times as long as in the recording given with \
                --idle; and 4 or more wait on average. Or 30 % or more are before the table of requests, twice as long as \
                in that recording, and requests to DRAM hold more than half of the table",
    refuted_by: "read queues of the controllers that are as short as on the idle machine",
    next_move: "limit the workloads with most lines from DRAM, spread pages over channels and sockets, or move streams to \
                CXL memory, which has bandwidth of its own",
    places: &[(PlaceKind::Socket, Stage::Imc)],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let at = stalled_at(view, Stage::Imc)?;
    let is_long = |waits: &StageWaits| {
        waits.wait_ratio.value >= WAIT_MIN && waits.waiting.value >= WAITING_MIN
    };
    let Some(at) = at.filter(|at| is_long(at.waits)) else {
        return before_the_table(view);
    };
    let what = format!(
        "DRAM channels are contended: reads take {:.1} times as long as on the idle machine",
        at.times()
    );
    let mut found = at.finding(what, "at DRAM");
    found.because_of = others(view, blame(view.sharers, Stage::Imc));
    Ok(Some(found))
}

fn before_the_table(view: View) -> Judged {
    let Some(waits) = before_table(view)?.filter(|waits| !waits.is_held_by_cxl()) else {
        return Ok(None);
    };
    let what = format!(
        "requests to DRAM hold the table of requests: others wait {:.1} times as long before it as on the idle machine",
        waits.times.value
    );
    let mut found = waits.finding(what);
    found.because_of = others(view, blame_in_cache(view.sharers, Stage::Imc));
    Ok(Some(found))
}
