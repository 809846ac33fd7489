// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The greatest effect of a sweep: its own interval is wrong too often, the simultaneous one is not.

use super::{Machine, NOISES};
use crate::paired::{Pair, effect, simultaneous, sweep_verdicts};

const POINTS: usize = 20;

/// Points that all have one effect.
fn equal_points(ratio: f64, repeats: usize, seed: u64) -> Vec<Vec<Pair>> {
    let mut machine = Machine::new(NOISES[0], seed);
    (0..POINTS)
        .map(|_| machine.repetitions(ratio, repeats))
        .collect()
}

#[test]
fn the_greatest_of_equal_points_is_covered_by_the_simultaneous_interval_alone() {
    for repeats in [7, 12] {
        let (mut naive, mut together) = (0, 0);
        for seed in 0..200 {
            let points = equal_points(0.9, repeats, seed);
            let (greatest, found) = simultaneous(&points, seed).expect("enough pairs");
            let own = effect(&points[greatest]).expect("enough pairs");
            assert!(own.low >= found.low && own.high <= found.high);
            naive += usize::from((own.low..=own.high).contains(&0.9));
            together += usize::from((found.low..=found.high).contains(&0.9));
        }
        assert!(naive < 170, "naive: {naive} of 200");
        assert!(together >= 186, "simultaneous: {together} of 200");
    }
}

#[test]
fn points_that_move_together_cost_no_width() {
    let mut machine = Machine::new(NOISES[0], 3);
    let one = machine.repetitions(0.9, 10);
    let own = effect(&one).expect("enough pairs");
    let (greatest, found) = simultaneous(&vec![one.clone(); POINTS], 1).expect("enough pairs");
    assert!(greatest < POINTS);
    assert!(
        (found.high - found.low) / (own.high - own.low) < 1.1,
        "{found:?} {own:?}"
    );
    assert_eq!(simultaneous(&[one], 1).expect("enough pairs").1, own);
}

#[test]
fn the_greatest_is_found_in_either_direction_and_one_seed_gives_one_result() {
    let mut machine = Machine::new(NOISES[0], 5);
    let points: Vec<Vec<Pair>> = [0.97, 1.6, 0.8]
        .map(|ratio| machine.repetitions(ratio, 8))
        .into();
    let (greatest, found) = simultaneous(&points, 9).expect("enough pairs");
    assert_eq!(greatest, 1);
    assert!((found.ratio - 1.6).abs() < 0.02);
    assert_eq!(simultaneous(&points, 9), Some((greatest, found)));
}

#[test]
fn a_sweep_without_effects_seldom_interferes_and_one_with_an_effect_does() {
    let nothing: Vec<Vec<Vec<Pair>>> = (0..100).map(|seed| equal_points(1.0, 8, seed)).collect();
    let verdicts = sweep_verdicts(&nothing, 1);
    let wrong = verdicts.iter().filter(|v| v.interferes == Some(true));
    assert!(wrong.count() <= 5);
    let quiet = verdicts.iter().filter(|v| v.interferes == Some(false));
    assert!(quiet.count() >= 95);
    let mut machine = Machine::new(NOISES[0], 5);
    let points: Vec<Vec<Pair>> = [1.0, 0.97, 0.7]
        .map(|ratio| machine.repetitions(ratio, 8))
        .into();
    let found = sweep_verdicts(&[points], 1)[0];
    assert_eq!((found.greatest, found.interferes), (2, Some(true)));
}
