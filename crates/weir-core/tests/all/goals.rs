// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Goals other than a bandwidth, in closed loop with a small plant; its latency is a known function of its
//! utilization (see `plant/mod.rs`): is the latency that was set held, and is the knee found?

use crate::plant::{CAPACITY, IDLE, Loop, Plant};
use weir_core::controller::Goal;
use weir_core::{BytesPerSec, Config, Nanos};

/// `readers` that together offer `offered` of the device. Many, so that the bursts of their limits even out.
fn controlled(goal: Goal, readers: usize, offered: f64) -> Loop {
    let mut plant = Plant::new(1, readers);
    plant.sees_latency = true;
    for reader in &mut plant.readers {
        reader.kappa = offered * CAPACITY / readers as f64;
    }
    let config = Config {
        goal,
        ..Config::default()
    };
    Loop::new(plant, config)
}

impl Loop {
    /// Relative to the device.
    fn target(&self) -> Option<f64> {
        let target = self.plan.devices[0].set_point_bytes_per_sec;
        target.map(|t| t.get() / CAPACITY)
    }
}

/// Where the plant has this latency: L/IDLE = 1 + 0.3·u/(1 − u).
fn utilization_at(latency: f64) -> f64 {
    let x = (latency / IDLE - 1.0) / 0.3;
    x / (1.0 + x)
}

/// How much of the largest power (bandwidth over latency) there is at `load`, by measuring this plant with
/// limits in force at many loads. Limits work in bursts, so utilization goes up and down around its mean and
/// latency is higher than at a steady load: a formula would not do. Power is flat around its maximum, so
/// the load itself says less.
fn power_at(load: f64, rise: f64) -> f64 {
    let measured = |percent: u32| {
        let mut world = controlled(Goal::Knee, 200, 2.5);
        let target = f64::from(percent) / 100.0;
        world.plant.rise = rise;
        world.config.goal = Goal::Bandwidth;
        world.config.set_point_bytes_per_sec = Some(BytesPerSec::new(target * CAPACITY));
        world.run_ms(20_000);
        let last = &world.plant.latencies[200..];
        let latency = last.iter().sum::<f64>() / last.len() as f64;
        (world.plant.mean(10_000), world.plant.mean(10_000) / latency)
    };
    let curve: Vec<(f64, f64)> = (30..90).step_by(4).map(measured).collect();
    let most = curve.iter().map(|c| c.1).fold(0.0, f64::max);
    let i = curve
        .iter()
        .position(|c| c.0 >= load)
        .expect("within the curve")
        .max(1);
    let ((b0, p0), (b1, p1)) = (curve[i - 1], curve[i]);
    (p0 + (p1 - p0) * (load - b0) / (b1 - b0)) / most
}

#[test]
fn a_latency_is_held() {
    for wanted in [1.5 * IDLE, 2.0 * IDLE, 3.0 * IDLE] {
        let mut world = controlled(Goal::LatencyNs(Nanos(wanted as u64)), 200, 2.0);
        world.run_ms(30_000);
        let (held, want) = (world.plant.mean(5_000), utilization_at(wanted));
        // Utilization goes up and down by some hundredths, and latency is not linear in it.
        assert!(
            held < want * 1.02 && held > want * 0.88,
            "{wanted} ns: {held:.3} of the device, {want:.3} would be exact"
        );
    }
}

#[test]
fn a_latency_that_is_not_reached_limits_no_workload() {
    let mut world = controlled(Goal::LatencyNs(Nanos(2 * IDLE as u64)), 50, 0.5);
    world.run_ms(20_000);
    assert_eq!(world.limited(), 0);
    assert_eq!(world.target(), None);
}

#[test]
fn the_knee_is_found_and_held_with_headroom() {
    let mut world = controlled(Goal::Knee, 400, 2.5);
    world.run_ms(60_000);
    let headroom = world.config.headroom_ratio;
    let found = world.target().expect("the search has ended") / (1.0 - headroom);
    let power = power_at(found, 0.3);
    assert!(
        power > 0.97,
        "{power:.3} of the largest power at {found:.3} of the device"
    );
    let held = world.plant.mean(5_000);
    let target = found * (1.0 - headroom);
    assert!((held / target - 1.0).abs() < 0.03, "{held} of {target}");
}

#[test]
fn below_the_knee_no_workload_is_limited_for_long() {
    let mut world = controlled(Goal::Knee, 50, 0.3);
    world.run_ms(20_000);
    assert_eq!(world.target(), None, "the first step down showed it");
    world.run_ms(20_000);
    assert_eq!(world.limited(), 0);
}

#[test]
fn a_device_that_changed_is_searched_anew() {
    let mut world = controlled(Goal::Knee, 400, 2.5);
    world.run_ms(60_000);
    let headroom = world.config.headroom_ratio;
    let before = world.target().expect("the search has ended") / (1.0 - headroom);
    // Its latency rises three times as fast: the knee comes earlier.
    world.plant.rise = 0.9;
    world.run_ms(60_000);
    let after = world.target().expect("and again") / (1.0 - headroom);
    let power = power_at(after, 0.9);
    assert!(
        after < before && power > 0.97,
        "from {before:.3} to {after:.3}, {power:.3} of the largest power"
    );
}

#[test]
fn without_latency_limits_end() {
    let mut world = controlled(Goal::LatencyNs(Nanos(2 * IDLE as u64)), 50, 2.0);
    world.run_ms(10_000);
    assert!(world.limited() > 40, "{}", world.limited());
    world.plant.sees_latency = false;
    world.run_ms(30_000);
    assert_eq!(world.target(), None);
    assert_eq!(world.limited(), 0);
}
