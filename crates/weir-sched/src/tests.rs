// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of the scheduler, put to the proof.

use super::{
    Bucket, ExtCount, RETRY_FIRST_NS, RETRY_MOST_NS, billable_bytes, burst_bytes, bytes_exact,
    device_admits, estimate, ext_count_tail, heartbeat_lost, overshoot_bytes, retry_ns, scale,
    scale_factor, starvation_due, starvation_ns, vtime, vtime_resume,
};
use proptest::prelude::*;

const SEC: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;

proptest! {
    /// Bytes of an interval are the product, and many short intervals make as much as a long one.
    #[test]
    fn bytes_are_the_product(rate in 0..=1_000_000_000_000u64, ns in 0..=SEC, cuts in 1..40u64) {
        let mut part = 0;
        let whole = bytes_exact(rate, ns, &mut part);
        let exact = u128::from(rate) * u128::from(ns);
        prop_assert_eq!(u128::from(whole) * u128::from(SEC) + u128::from(part), exact);
        let (mut sum, mut rest) = (0, 0);
        for i in 0..cuts {
            sum += bytes_exact(rate, ns * (i + 1) / cuts - ns * i / cuts, &mut rest);
        }
        prop_assert_eq!((sum, rest), (whole, part));
    }

    /// No argument makes it overflow: beyond what devices can do it is bounded.
    #[test]
    fn no_argument_breaks_it(rate: u64, ns in prop_oneof![any::<u64>(), 0..1u64 << 50], other: u64, signed: i64, part in 0..SEC) {
        let mut rest = part;
        prop_assert!(bytes_exact(rate, ns, &mut rest) <= 1_000_000_000_001);
        prop_assert!(rest < SEC);
        let before = signed.clamp(-(1 << 50), 1 << 50);
        let mut bucket = Bucket { bytes: before, part };
        bucket.charge(ns, rate, other);
        bucket.refill(rate, ns, other);
        // From a great budget a small charge leaves a great one.
        let most = (before.max(0) + 1_000_000_000_001).min(other.min(1 << 60) as i64);
        prop_assert!((-1_000_000_000_001..=most).contains(&bucket.bytes), "{:?}", bucket);
        let _ = estimate(rate, ns);
        let most = (other >> 14) as i64;
        prop_assert!(billable_bytes(rate, ns, signed.clamp(-most, most), most).abs() <= most);
        prop_assert!(scale_factor(signed, ns) <= 64 << 12);
        let _ = scale(rate, ns);
        let _ = bucket.is_exhausted(rate, ns);
        prop_assert!(vtime(rate, ns, other, part) <= 100_000_000_000 << 20);
        prop_assert!((5..=other.max(5)).contains(&starvation_ns(rate, ns, 5, other.max(5))));
        prop_assert!(bucket.release_count(rate, ns, 64) <= 64);
    }

    /// Scaled estimates make what is owed; less is left over than one part in four thousand.
    #[test]
    fn charges_make_what_is_owed(due in 1_000..1_000_000_000i64, weights in prop::collection::vec(1..1_000_000u64, 1..50)) {
        let sum: u64 = weights.iter().sum();
        let factor = scale_factor(due, sum);
        let charged: u64 = weights.iter().map(|w| scale(*w, factor)).sum();
        prop_assert!(charged <= due as u64);
        if factor < 64 << 12 {
            let left = due as u64 - charged;
            prop_assert!(left <= sum / 4096 + weights.len() as u64 + 1, "{} of {} left", left, due);
        }
    }

    /// Whatever a workload overdraws in one run, its mean over a second is its rate.
    #[test]
    fn the_mean_is_the_rate(rate in MIB..100 * MIB, burst in 2..20u64, seed: u64) {
        let (mut bucket, mut moved, mut dice) = (Bucket::default(), 0u64, seed);
        let ticks = 4000;
        for _ in 0..ticks {
            let mut took = 0;
            if bucket.bytes > 0 {
                dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                took = rate / 1000 * (1 + (dice >> 33) % burst);
                moved += took;
            }
            bucket.charge(took, rate, SEC / 4);
            bucket.refill(rate, SEC / 1000, rate / 100);
        }
        let wanted = rate as f64 * ticks as f64 / 1000.0;
        let off = moved as f64 / wanted - 1.0;
        prop_assert!(off.abs() < 0.01, "off by {}", off);
    }
}

#[test]
fn budgets_are_not_saved_up_and_debts_not_carried_for_ever() {
    let mut bucket = Bucket::default();
    let most = burst_bytes(100 * MIB, SEC / 100, 0, 0);
    bucket.refill(100 * MIB, SEC, most);
    assert_eq!(bucket.bytes, MIB as i64, "10 ms of it and no more");
    bucket.charge(1 << 40, 100 * MIB, SEC / 4);
    assert_eq!(
        bucket.bytes,
        -((25 * MIB) as i64),
        "a quarter of a second, and no more"
    );
}

#[test]
fn release_is_gradual_and_never_stops() {
    let slice = SEC / 1000;
    let of = |bytes: i64| Bucket { bytes, part: 0 };
    assert_eq!(of(0).release_count(MIB, slice, 64), 0);
    assert_eq!(of(-1).release_count(MIB, slice, 64), 0);
    assert_eq!(
        of(1).release_count(MIB, slice, 64),
        1,
        "less than one slice is one task"
    );
    assert_eq!(of(5 * 1048).release_count(MIB, slice, 64), 5);
    assert_eq!(of(1 << 40).release_count(MIB, slice, 64), 64);
}

/// A workload that runs rarely must be able to save up for a run, and does not begin before it has.
#[test]
fn a_run_is_saved_up_for() {
    let (rate, intensity, run_ns) = (MIB, 100 * MIB, 4 * SEC / 1000);
    let run = (intensity / 250) as i64;
    let most = burst_bytes(rate, SEC / 100, intensity, run_ns);
    assert_eq!(most, 2 * run as u64, "10 ms of its rate are less");
    assert_eq!(
        burst_bytes(100 * MIB, SEC / 10, intensity, run_ns),
        10 * MIB
    );
    let of = |bytes: i64| Bucket { bytes, part: 0 };
    assert!(!of(run - 1).run_affordable(intensity, run_ns));
    assert!(of(run).run_affordable(intensity, run_ns));
    assert!(!of(0).run_affordable(0, run_ns), "nothing is left");
    assert!(of(1).run_affordable(0, run_ns), "nothing is known of it");
}

#[test]
fn a_device_takes_as_many_as_fill_it() {
    let takes = |load, set_point| device_admits(load, set_point, 0, SEC / 100);
    assert!(takes(0, 1) && takes(124, 100));
    assert!(!takes(125, 100) && !takes(0, 0));
}

/// A run is 10 ms, in which 100 MiB/s and a quarter are 1.25 MiB.
#[test]
fn a_device_that_has_moved_too_much_is_given_less() {
    let takes = |load, overshoot_bytes| device_admits(load, 100 * MIB, overshoot_bytes, SEC / 100);
    let (idle, all) = (MIB as i64 * 5 / 4, MIB as i64 / 4);
    assert!(takes(0, idle - 1) && !takes(0, idle));
    assert!(takes(100 * MIB, all - 1) && !takes(100 * MIB, all));
    assert!(takes(100 * MIB, -idle), "unused bytes are in the budgets");
    assert!(!takes(125 * MIB, -idle));
}

#[test]
fn what_was_too_much_fades_and_is_bounded() {
    let (rate, ms, fade) = (100 * MIB, SEC / 1000, SEC / 10);
    let each = rate / 1000;
    let next = |before, counted| overshoot_bytes(before, counted, rate, ms, fade);
    assert!((next(0, 3 * each) - 2 * each as i64).abs() < each as i64 / 20);
    assert!((next(0, 0) + each as i64).abs() < each as i64 / 20);
    let most = next(0, u64::MAX);
    assert!(
        (9 * each as i64..=10 * each as i64).contains(&most),
        "{most}"
    );
    // At the set-point what was goes to a third in the time it fades in, and to nothing.
    let mut left = most;
    for _ in 0..100 {
        left = next(left, each);
    }
    let part = left as f64 / most as f64;
    assert!((part - (-1.0f64).exp()).abs() < 0.02, "{part}");
    for _ in 0..3000 {
        left = next(left, each);
    }
    assert!(left.abs() <= 1, "{left}");
    assert_eq!(overshoot_bytes(5, 0, 0, 0, 0), 0, "nothing is known");
}

#[test]
fn a_late_look_is_foreseen_by_the_estimate() {
    let of = |bytes: i64| Bucket { bytes, part: 0 };
    assert!(!of(MIB as i64).is_exhausted(MIB, SEC - 1) && of(MIB as i64).is_exhausted(MIB, SEC));
    assert!(of(0).is_exhausted(0, 0) && !of(1).is_exhausted(0, SEC));
}

#[test]
fn virtual_time_goes_by_weight_and_a_cgroup_shares_its_part() {
    assert_eq!(vtime(1000, 100, 0, 0), 1000);
    assert_eq!((vtime(1000, 200, 0, 7), vtime(1000, 50, 0, 7)), (500, 2000));
    // Four equal tasks of a cgroup that is worth one usual task: each runs a quarter as often.
    assert_eq!(vtime(1000, 100, 100, 400), 4000);
    // Twice the share, twice as often; a heavy task among light ones gets its part.
    assert_eq!(
        (vtime(1000, 100, 200, 400), vtime(1000, 200, 100, 400)),
        (2000, 2000)
    );
    assert_eq!(
        vtime(1000, 100, 100, 0),
        1000,
        "not counted yet: as if alone"
    );
    assert_eq!(
        (
            vtime_resume(5, 100, 10),
            vtime_resume(95, 100, 10),
            vtime_resume(300, 100, 10)
        ),
        (90, 95, 300)
    );
    assert_eq!(vtime_resume(0, 5, 10), 0);
}

#[test]
fn turns_become_rarer_the_more_wait_up_to_a_bound() {
    let of = |waiting| starvation_ns(waiting, 50, 500, 5_000);
    assert_eq!((of(0), of(10), of(11), of(100)), (500, 500, 550, 5_000));
    assert_eq!((of(101), of(u64::MAX)), (5_000, 5_000));
}

#[test]
fn turns_and_silence_have_their_time_and_survive_clocks_that_differ() {
    assert!(starvation_due(100, 150, 50) && !starvation_due(100, 149, 50));
    assert!(
        !starvation_due(100, 90, 0),
        "parked by a CPU with a clock that is ahead"
    );
    assert!(heartbeat_lost(100, 151, 50) && !heartbeat_lost(100, 150, 50));
    assert!(!heartbeat_lost(100, 0, 50));
}

const MS: u64 = 1_000_000;

/// Estimates that are off by any factor, and looks at odd moments: what the device is taken to have moved
/// follows what it moved, never further away than what it moves in three looks.
#[test]
fn what_is_taken_for_moved_follows_what_was_moved_whatever_the_estimates_say() {
    for percent in [0, 30, 90, 100, 110, 250] {
        let mut looks = ExtCount::default();
        let (mut moved, mut taken) = (0u64, 0u64);
        for tick in 1..=4_000u64 {
            // Bursts: nothing in every third millisecond.
            let bytes = if tick % 3 == 0 { 0 } else { 15_000 };
            moved += bytes;
            taken += looks.advance(bytes * percent / 100, MS);
            if tick % 13 == 0 {
                looks.update(moved, tick * MS, 0, 1 << 30);
            }
            if tick == 13 {
                // Nothing is known about the time before the first look.
                taken = moved;
            }
            let apart = moved.abs_diff(taken);
            assert!(
                tick < 13 || apart <= 3 * 13 * 15_000,
                "{percent} %, tick {tick}: {moved} moved, {taken} taken"
            );
        }
    }
}

#[test]
fn a_look_that_says_nothing_is_made_up_for_by_nothing() {
    let looked = |bytes, at_ns| {
        let mut looks = ExtCount::default();
        looks.update(1_000, MS, 0, 1 << 30);
        assert_eq!(looks.advance(500, MS), 500, "nothing is known yet");
        looks.update(bytes, at_ns, 0, 400);
        looks.error_bytes
    };
    assert_eq!(looked(1_600, 11 * MS), 100);
    assert_eq!(looked(1_400, 11 * MS), -100);
    assert_eq!(looked(9_000, 11 * MS), 400, "no more than it may");
    assert_eq!(looked(1_000, 11 * MS), 0, "it may not be up to date");
    assert_eq!(looked(1_000, 501 * MS), -400, "it is");
    assert_eq!(looked(999, 11 * MS), 0, "a counter that began anew");
    assert_eq!(looked(9_000, 1_002 * MS), 0, "long ago");
    assert_eq!(looked(9_000, MS), 0, "time that stands still");
    assert_eq!(looked(u64::MAX, 11 * MS), 400);
}

#[test]
fn less_than_nothing_is_never_taken_and_the_rest_is_kept() {
    let mut looks = ExtCount::default();
    looks.update(1_000, MS, 0, 1 << 30);
    looks.advance(10_000, MS);
    looks.update(1_000, 601 * MS, 0, 1 << 30);
    assert_eq!(looks.error_bytes, -10_000);
    assert_eq!(
        looks.advance(100, MS),
        0,
        "a fiftieth of it is more than that"
    );
    assert_eq!(looks.error_bytes, -9_900);
    // Whatever is put in, nothing overflows.
    for (bytes, at, estimate, ns) in [
        (u64::MAX, u64::MAX, u64::MAX, u64::MAX),
        (0, 0, u64::MAX, 1),
    ] {
        looks.update(bytes, at, u64::MAX, i64::MAX);
        let taken = looks.advance(estimate, ns);
        assert!(taken <= 1 << 61);
    }
}

#[test]
fn estimates_after_a_look_are_a_part_of_its_interval() {
    let near = |a: u64, b: u64| a.abs_diff(b) <= b / 100;
    assert!(near(
        ext_count_tail(1_000_000, 95 * MS, 100 * MS, 10 * MS),
        500_000
    ));
    assert_eq!(ext_count_tail(1_000_000, 100 * MS, 100 * MS, 10 * MS), 0);
    assert_eq!(
        ext_count_tail(1_000_000, 101 * MS, 100 * MS, 10 * MS),
        0,
        "clocks differ"
    );
    assert_eq!(
        ext_count_tail(1_000_000, 10 * MS, 100 * MS, 10 * MS),
        1_000_000,
        "long before"
    );
    assert_eq!(ext_count_tail(5, 0, 1, 0), 5);
}

/// A counter that is updated each 130 ms is as good in the mean.
#[test]
fn a_count_that_is_brought_up_to_date_seldom_tells_the_mean() {
    let mut looks = ExtCount::default();
    let (mut moved, mut shown, mut taken) = (0u64, 0u64, 0u64);
    for tick in 1..=13_000u64 {
        moved += 10_000;
        if tick % 130 == 0 {
            shown = moved;
        }
        taken += looks.advance(7_000, MS);
        if tick % 10 == 0 {
            // At most what 200 ms make, as in the kernel.
            looks.update(shown, tick * MS, 0, 2_000_000);
        }
    }
    assert!(
        moved.abs_diff(taken) < 300 * 10_000,
        "{moved} moved, {taken} taken"
    );
}

/// A device that never answers costs a bounded part of a CPU, and one that answers again is soon read.
#[test]
fn a_device_that_does_not_answer_is_tried_ever_less_often_up_to_a_bound() {
    let waits: Vec<u64> = std::iter::successors(Some(retry_ns(0)), |ns| Some(retry_ns(*ns)))
        .take(20)
        .collect();
    assert_eq!(waits[0], RETRY_FIRST_NS);
    let doubled = waits.windows(2).take_while(|pair| pair[1] == 2 * pair[0]);
    assert_eq!(doubled.count(), 9);
    assert!(waits[9..].iter().all(|ns| *ns == RETRY_MOST_NS));
    // Two registers of the completion timeout, 10 ms each, are a twentieth of the longest wait.
    assert_eq!(waits[19] / 20_000_000, 51);
    assert_eq!(retry_ns(u64::MAX), RETRY_MOST_NS);
}
