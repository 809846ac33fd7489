// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks against exact fractions of 128 bits.

use super::{FLOW_RESOURCES, Flow, FlowClock, gate_shut, memory_saturated};
use proptest::prelude::*;

const SEC: u64 = 1_000_000_000;
/// `WEIR_FACTOR_MAX`, virtual nanoseconds per nanosecond of a run.
const FACTOR_MAX: u64 = 128;
const ALIKE: [u64; FLOW_RESOURCES] = [0; FLOW_RESOURCES];

proptest! {
    /// However a use is cut, the clock is the exact fraction use · 10¹¹ ÷ (capacity · weight), rounded down.
    #[test]
    fn a_clock_is_the_exact_fraction(
        capacity in 1..=(1u64 << 42),
        weight in 1..=10_000u64,
        parts in prop::collection::vec(0..1_000_000u64, 1..40),
    ) {
        let mut clock = FlowClock::default();
        let mut sum = 0u128;
        for millionths in parts {
            let amount = (u128::from(capacity) * u128::from(millionths) / 1000) as u64;
            clock.advance(amount, capacity, weight);
            sum += u128::from(amount);
        }
        let exact = sum * 100_000_000_000 / (u128::from(capacity) * u128::from(weight));
        prop_assert_eq!(u128::from(clock.ns), exact);
    }

    /// Small uses are not lost, at any weight: 64 bytes of a memory of 1 TB/s are 64 ps.
    #[test]
    fn single_lines_add_up(weight in 1..=10_000u64, lines in 1..2_000u64) {
        let capacity = 1_000_000_000_000;
        let mut clock = FlowClock::default();
        (0..lines).for_each(|_| clock.advance(64, capacity, weight));
        let exact = u128::from(lines) * 64 / (10 * u128::from(weight));
        prop_assert_eq!(u128::from(clock.ns), exact);
    }

    /// No argument makes it overflow, and no flow goes back in time.
    #[test]
    fn no_argument_breaks_a_flow(
        start: u64, amount: u64, capacity: u64, weight in 1..=10_000u64, run: u64, delta in 0..SEC,
    ) {
        let mut flow = Flow::new(weight, 1, &[start; FLOW_RESOURCES]);
        for _ in 0..3 {
            flow.run(run);
            prop_assert!(flow.lead_ns(&[start; FLOW_RESOURCES]) >= 0);
            let before = flow.dominant_ns();
            flow.tick(&[amount; FLOW_RESOURCES], &[capacity; FLOW_RESOURCES], delta);
            prop_assert!(flow.dominant_ns().wrapping_sub(before) <= 103_000_000_000_000);
        }
        let _ = memory_saturated(amount, run, capacity, delta);
        let _ = gate_shut(start as i64, run, false);
    }

    /// Between two ticks a steady flow is charged by its factor, and the tick leaves no error. A factor has a
    /// bound: what is above it is charged by the tick alone.
    #[test]
    fn a_run_is_charged_by_its_factor(
        weight in 1..=10_000u64, cpus in 1..=256u64, bytes in 0..40_000_000u64,
    ) {
        let mut capacity = ALIKE;
        (capacity[0], capacity[1]) = (cpus * SEC, 20 * SEC);
        let mut used = ALIKE;
        (used[0], used[1]) = (1_000_000, bytes);
        let mut flow = Flow::new(weight, cpus, &ALIKE);
        flow.run(1_000_000);
        flow.tick(&used, &capacity, SEC);
        let first = flow.dominant_ns();
        for _ in 0..4 {
            flow.run(250_000);
        }
        let predicted = flow.key_ns();
        flow.tick(&used, &capacity, SEC);
        let exact = flow.dominant_ns();
        let due = first + (exact - first).min(FACTOR_MAX * 1_000_000);
        let error = (predicted as f64 - due as f64).abs() / (due - first).max(1) as f64;
        prop_assert!(error < 0.01 || predicted.abs_diff(due) <= 2, "{} {}", predicted, due);
        let share = (1e6 / cpus as f64).max(bytes as f64 / 20.0) * 100.0 / weight as f64;
        prop_assert!((exact as f64 - 2.0 * share).abs() <= 2.0);
    }

    /// A flow that slept comes back with the credit and not more; one in front keeps what it used.
    #[test]
    fn a_sleeper_has_a_bounded_credit(own in 0..SEC, level in 0..SEC, credit in 0..SEC) {
        let mut flow = Flow::new(100, 4, &[own; FLOW_RESOURCES]);
        flow.resume(&[level; FLOW_RESOURCES], credit);
        let least = level.saturating_sub(credit);
        let got = flow.lead_ns(&[level; FLOW_RESOURCES]);
        prop_assert_eq!(got, own.max(least) as i64 - level as i64);
        prop_assert!(got >= -(credit as i64));
    }

    /// No clock lags more than delta behind the largest.
    #[test]
    fn clocks_stay_within_delta(used in prop::array::uniform8(0..SEC), delta in 0..SEC) {
        let mut flow = Flow::new(100, 1, &ALIKE);
        flow.tick(&used, &[SEC; FLOW_RESOURCES], delta);
        let most = *used.iter().max().unwrap();
        for (clock, used) in flow.clock.iter().zip(used) {
            prop_assert_eq!(clock.ns, used.max(most.saturating_sub(delta)));
        }
    }
}

/// Clocks that wrap around are compared by their difference.
#[test]
fn clocks_wrap_around() {
    let level = [u64::MAX - 10; FLOW_RESOURCES];
    let mut flow = Flow::new(100, 1, &level);
    flow.tick(&[100; FLOW_RESOURCES], &[SEC; FLOW_RESOURCES], SEC);
    assert_eq!(flow.dominant_ns(), 89);
    assert_eq!(flow.lead_ns(&level), 100);
}

/// A resource without a capacity is not charged, and the others are.
#[test]
fn a_memory_of_unknown_capacity_is_charged_by_cpu_alone() {
    let (mut used, mut capacity) = (ALIKE, ALIKE);
    (used[0], used[1]) = (1_000_000, 1 << 40);
    capacity[0] = 4 * SEC;
    let mut flow = Flow::new(100, 4, &ALIKE);
    flow.tick(&used, &capacity, SEC);
    assert_eq!(flow.dominant_ns(), 250_000);
}

/// A shut gate does not open itself: what its flows would take counts.
#[test]
fn a_gate_holds_while_its_memory_would_be_full() {
    assert!(memory_saturated(4_000_000, 0, 4 * SEC, 1_000_000));
    assert!(memory_saturated(2_500_000, 1_500_000, 4 * SEC, 1_000_000));
    assert!(!memory_saturated(2_500_000, 1_000_000, 4 * SEC, 1_000_000));
    assert!(!memory_saturated(2_500_000, 0, 0, 1_000_000));
    assert!(!gate_shut(4_000_000, 4_000_000, false));
    assert!(gate_shut(4_000_001, 4_000_000, false));
    assert!(gate_shut(2_000_001, 4_000_000, true));
    assert!(!gate_shut(2_000_000, 4_000_000, true));
}
