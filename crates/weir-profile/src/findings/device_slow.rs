// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device is slower than its own calibration, although few requests are in it.

use super::device_saturated::WAITING_MIN;
use super::facts::{Judged, finding, outcome, resends, share, stalled, waits_at};
use super::{Evidence, Rule, View};
use weir_core::window::role::Stage;

/// Part of the stalls that is in the device.
const SHARE_MIN: f64 = 0.3;
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
    check: |view| outcome(check(view)),
};

fn check(view: View) -> Judged {
    let Some(split) = stalled(view, 0.1)? else {
        return Ok(None);
    };
    let there = share(split, |role| role.stage == Stage::Device);
    let waits = waits_at(view, Stage::Device)?;
    let is_slow = waits.wait_ratio.value >= WAIT_MIN && waits.waiting.value < WAITING_MIN;
    if there.value < SHARE_MIN || !is_slow || resends(view) {
        return Ok(None);
    }
    let (times, part) = (1.0 + waits.wait_ratio.value, there.value);
    let what = format!(
        "the CXL device takes {times:.1} times as long as when it was calibrated, with few requests in it"
    );
    let evidence = vec![
        Evidence::new("part of the stalls in the device", Ok(there)),
        Evidence::new(
            "time above the calibration ÷ calibration",
            Ok(waits.wait_ratio.clone()),
        ),
        Evidence::new("requests that wait there", Ok(waits.waiting.clone())),
    ];
    Ok(Some(finding(split, what, part, evidence)))
}
