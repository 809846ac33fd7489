// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM channels are contended: reads wait in the controllers for others.

use super::facts::{Judged, finding, others, outcome, share, stalled, waits_at};
use super::{Evidence, Rule, View};
use crate::culprit::blame;
use weir_core::window::role::Stage;

/// Part of the stalls that is at DRAM.
const SHARE_MIN: f64 = 0.3;
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
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let there = share(split, |role| role.stage == Stage::Imc);
    let waits = waits_at(view, Stage::Imc)?;
    let is_long = waits.wait_ratio.value >= WAIT_MIN && waits.waiting.value >= WAITING_MIN;
    if there.value < SHARE_MIN || !is_long {
        return Ok(None);
    }
    let (times, part) = (1.0 + waits.wait_ratio.value, there.value);
    let what = format!(
        "DRAM channels are contended: reads take {times:.1} times as long as on the idle machine"
    );
    let evidence = vec![
        Evidence::new("part of the stalls at DRAM", Ok(there)),
        Evidence::new(
            "waiting time there ÷ residence on the idle machine",
            Ok(waits.wait_ratio.clone()),
        ),
        Evidence::new("requests that wait there", Ok(waits.waiting.clone())),
    ];
    let mut found = finding(split, what, part, evidence);
    found.because_of = others(view, blame(view.sharers, Stage::Imc));
    Ok(Some(found))
}
