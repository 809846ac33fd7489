// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gain and phase margin of the loop, for each kind of back end: of a linear model, and that the code is what
//! the model says. The plant is a device that follows the correction with a gain and a delay. The gain is 1
//! where bytes per CPU-second are known exactly and all users are limited; twice that where they are off by a
//! factor of two. The delay is from a step to the observation that shows it: one step, and with `cpu.max`
//! the least time between two writes of a limit.

use super::*;
use crate::controller::Config;
use crate::controller::config::Gains;
use crate::seam::observation::Observation;
use crate::seam::topology::Description;

const STEP_SECS: f64 = 0.05;
const STEP_NS: u64 = 50_000_000;
const SET_POINT: f64 = 4e9;

/// The gains of a back end, and its delay in steps.
fn loops() -> [(&'static str, Gains, usize); 2] {
    let config = Config::default();
    let machine = Description::default();
    let seen = Observation::default();
    let gains = StepContext::begin(&mut State::default(), &config, &machine, &seen).gains;
    let write_steps = gains.write_interval.0.div_ceil(STEP_NS);
    let write_steps = usize::try_from(write_steps).expect("a few");
    let exact = Gains {
        kp: 0.0,
        ki: gains.ki * crate::controller::config::EXACT_PART,
        is_exact: true,
        ..gains
    };
    [("cpu.max", gains, 1 + write_steps), ("scheduler", exact, 1)]
}

/// The open loop at an angular frequency in radians a second: its gain, and its phase in radians.
fn open_loop(gains: &Gains, delay_steps: usize, frequency: f64) -> (f64, f64) {
    // z⁻¹ on the unit circle.
    let angle = -frequency * STEP_SECS;
    let divide = |(a, b): (f64, f64), (c, d): (f64, f64)| {
        let norm = c * c + d * d;
        ((a * c + b * d) / norm, (b * c - a * d) / norm)
    };
    let weight = 1.0 - (-STEP_SECS / SMOOTH_SECS).exp();
    let kept = 1.0 - weight;
    let smooth = divide(
        (gains.kp * weight, 0.0),
        (1.0 - kept * angle.cos(), -kept * angle.sin()),
    );
    let integral = divide(
        (gains.ki * STEP_SECS, 0.0),
        (1.0 - angle.cos(), -angle.sin()),
    );
    let sum = (smooth.0 + integral.0, smooth.1 + integral.1);
    let phase = sum.1.atan2(sum.0) + angle * delay_steps as f64;
    (sum.0.hypot(sum.1), phase)
}

/// The factor by which the plant's gain may rise, and the phase in degrees by which the loop may lag more,
/// before it oscillates.
fn margins(gains: &Gains, delay_steps: usize) -> (f64, f64) {
    let half_turn = std::f64::consts::PI;
    let nyquist = half_turn / STEP_SECS;
    let steps = (1..200_000).map(|i| nyquist * f64::from(i) / 200_000.0);
    let all = steps.map(|frequency| open_loop(gains, delay_steps, frequency));
    let (mut gain_margin, mut phase_margin) = (f64::INFINITY, f64::INFINITY);
    let mut before: Option<(f64, f64)> = None;
    for (gain, phase) in all {
        if let Some((gain_before, phase_before)) = before {
            if gain_before >= 1.0 && gain < 1.0 {
                phase_margin = phase_margin.min((half_turn + phase).to_degrees());
            }
            if phase_before > -half_turn && phase <= -half_turn {
                gain_margin = gain_margin.min(1.0 / gain);
            }
        }
        before = Some((gain, phase));
    }
    (gain_margin, phase_margin)
}

/// The largest error of the last of 60 seconds, with the code in the loop, after a step of the load by 30 %.
fn error_left(gains: &Gains, delay_steps: usize, plant_gain: f64) -> f64 {
    let config = Config::default();
    let (machine, seen) = (Description::default(), Observation::default());
    let mut context = StepContext::begin(&mut State::default(), &config, &machine, &seen);
    (context.dt, context.gains) = (STEP_SECS, *gains);
    let mut device = DeviceTrack::new(DeviceId(0));
    let mut corrections = vec![1.0; delay_steps];
    let mut largest = 0.0f64;
    for step in 0..1200u64 {
        context.at = Nanos::from_millis(10_000 + 50 * step);
        device.bound = LimitCounts {
            limited: 5,
            at_floor: 0,
            pinned: 5,
        };
        let seen = corrections[corrections.len() - delay_steps];
        let error = 0.3 - plant_gain * (1.0 - seen);
        device.correct(&context, SET_POINT, SET_POINT * (1.0 + error), STEP_SECS);
        corrections.push(device.correction);
        if step >= 1180 {
            largest = largest.max(error.abs());
        }
    }
    largest
}

#[test]
fn the_loop_has_room_to_oscillation() {
    for (name, of, delay_steps) in loops() {
        let (gain, phase) = margins(&of, delay_steps);
        println!("{name}: gain margin {gain:.2}, phase margin {phase:.0} degrees");
        // 6 dB and 45 degrees are usual. All writes as late as they may be cost 0.1 dB of that; in the mean
        // they are half as late.
        assert!(gain >= 1.95, "{name}: {gain}");
        assert!(phase >= 45.0, "{name}: {phase}");
        let (usual, _) = margins(&of, delay_steps.div_ceil(2));
        assert!(usual >= 3.0, "{name}: {usual}");
    }
}

#[test]
fn the_code_oscillates_where_the_model_says() {
    let (_, gains, delay_steps) = loops()[0];
    let (gain, _) = margins(&gains, delay_steps);
    let below = error_left(&gains, delay_steps, 0.85 * gain);
    let above = error_left(&gains, delay_steps, 1.15 * gain);
    println!("error left at 0.85 of the margin {below:.4}, at 1.15 of it {above:.4}");
    assert!(below < NOISE_ERROR, "{below}");
    assert!(above > 2.0 * NOISE_ERROR, "{above}");
}
