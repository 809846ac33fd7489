// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device is slower than its own calibration, although few requests are in it.

use super::device_saturated::WAITING_MIN;
use super::facts::{Judged, outcome, resends, stalled_at};
use super::{Rule, View};
use crate::figure::places::PlaceKind;
use weir_core::window::role::Stage;

/// Time of a request there above its calibration ÷ the calibration.
pub(super) const WAIT_MIN: f64 = 0.3;

pub(super) const RULE: Rule = Rule {
    name: "device_slow",
    looks_for: "a device that is slower than its own calibration",
    condition: "requests stay in the device 1.3 times as long as in the recording given with --idle, or longer, fewer than 10 \
                wait there on average, and 30 % of the stalls or more are there",
    refuted_by: "many requests in the device, or a burst of them shorter than a window: then it is full",
    next_move: "look at its health (`cxl list --health`: temperature, throttling, media), and calibrate again \
                (`weir calibrate`)",
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
    let is_slow = at.waits.wait_ratio.value >= WAIT_MIN && at.waits.waiting.value < WAITING_MIN;
    if !is_slow || resends(view) {
        return Ok(None);
    }
    let what = format!(
        "the CXL device takes {:.1} times as long as when it was calibrated, with few requests in it",
        at.times()
    );
    Ok(Some(at.finding(what, "in the device")))
}
