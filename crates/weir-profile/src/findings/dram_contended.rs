// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM channels are contended: reads wait in the controllers for others.

use super::facts::{Judged, others, outcome, stalled_at};
use super::{Rule, View};
use crate::culprit::blame;
use weir_core::window::role::Stage;

/// Waiting time of a request there ÷ its residence on the idle machine.
pub(super) const WAIT_MIN: f64 = 0.4;
/// Requests that wait there, on average.
const WAITING_MIN: f64 = 4.0;

pub(super) const RULE: Rule = Rule {
    name: "dram_contended",
    looks_for: "contended DRAM channels",
    condition: "30 % of the stalls or more are at DRAM; reads stay there 1.4 times as long as in the recording given with \
                --idle; and 4 or more wait on average",
    refuted_by: "read queues of the controllers that are as short as on the idle machine",
    next_move: "limit the workloads with most lines from DRAM, spread pages over channels and sockets, or move streams to \
                CXL memory, which has bandwidth of its own",
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(at) = stalled_at(view, Stage::Imc)? else {
        return Ok(None);
    };
    if at.waits.wait_ratio.value < WAIT_MIN || at.waits.waiting.value < WAITING_MIN {
        return Ok(None);
    }
    let what = format!(
        "DRAM channels are contended: reads take {:.1} times as long as on the idle machine",
        at.times()
    );
    let mut found = at.finding(what, "at DRAM");
    found.because_of = others(view, blame(view.sharers, Stage::Imc));
    Ok(Some(found))
}
