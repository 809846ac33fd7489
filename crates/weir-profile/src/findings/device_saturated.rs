// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device is saturated: many requests wait in it for each other.

use super::facts::{Judged, others, outcome, stalled_at};
use super::{Rule, View};
use crate::culprit::blame;
use crate::figure::places::PlaceKind;
use weir_core::window::role::Stage;

/// Waiting time of a request there ÷ its residence on the idle machine.
const WAIT_MIN: f64 = 0.25;
/// The same, of a stage that is the reason for what other rules see.
pub(super) const SLOWED_MIN: f64 = 0.35;
/// Requests that wait there, on average. Fewer do not fill a device.
pub(super) const WAITING_MIN: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    name: "device_saturated",
    looks_for: "a saturated CXL device",
    condition: "30 % of the stalls or more are in the device; requests stay there 1.25 times as long as in the recording \
                given with --idle, or longer; and 10 or more wait there on average",
    refuted_by: "few requests in it (then it is slow, not full), or one direction of the link that is always busy",
    next_move: "limit the workloads that fill it (`weir run`), or move hot pages to DRAM",
    places: &[
        (PlaceKind::Device, Stage::Device),
        (PlaceKind::Socket, Stage::Device),
    ],
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(at) = stalled_at(view, Stage::Device)? else {
        return Ok(None);
    };
    if at.waits.wait_ratio.value < WAIT_MIN || at.waits.waiting.value < WAITING_MIN {
        return Ok(None);
    }
    let what = format!(
        "the CXL device is saturated: requests stay {:.1} times as long in it as on the idle machine",
        at.times()
    );
    let mut found = at.finding(what, "in the device");
    found.because_of = others(view, blame(view.sharers, Stage::Device));
    Ok(Some(found))
}
