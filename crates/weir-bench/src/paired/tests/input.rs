// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Few, equal, missing and absurd figures.

use crate::paired::{blocked, effect, is_enough, simultaneous, sweep_verdicts, verdicts};

#[test]
fn figures_that_are_none_are_left_out() {
    let bad = [
        (f64::NAN, 1.0),
        (1.0, f64::INFINITY),
        (0.0, 1.0),
        (1.0, 0.0),
        (-1.0, 1.0),
    ];
    assert_eq!(effect(&bad), None);
    assert_eq!(effect(&[(1.0, 0.5)]), None);
    let mut pairs = vec![(2.0, 1.0), (2.1, 1.0)];
    let clean = effect(&pairs);
    pairs.extend(bad);
    assert_eq!(effect(&pairs), clean);
    assert_eq!(clean.map(|e| e.repeats), Some(2));
    assert_eq!(simultaneous(&[bad.to_vec(), Vec::new()], 1), None);
    assert!(verdicts(&[]).is_empty());
}

#[test]
fn equal_figures_have_no_width() {
    for repeats in [2, 4, 5, 12, 60] {
        let found = effect(&vec![(3.0, 1.2); repeats]).unwrap();
        assert!((found.ratio - 0.4).abs() < 1e-12);
        assert!(found.high - found.low < 1e-9, "{found:?}");
    }
    assert_eq!(verdicts(&[vec![(3.0, 1.2); 9]])[0].interferes, Some(true));
    assert_eq!(verdicts(&[vec![(3.0, 3.0); 9]])[0].interferes, Some(false));
}

#[test]
fn two_extremes_stay_finite_and_few_repetitions_are_never_enough() {
    let found = effect(&[(1e-300, 1e300), (1e300, 1e-300), (1.0, 1.0)]).unwrap();
    assert!(found.ratio.is_finite() && found.low >= 0.0);
    assert!(!is_enough(&[(1.0, 1.0); 6], 0.02));
    assert!(is_enough(&[(1.0, 1.0); 7], 0.02));
    let wide: Vec<_> = (0..20).map(|i| (1.0, 1.0 + 0.1 * f64::from(i))).collect();
    assert!(!is_enough(&wide, 0.02));
}

#[test]
fn a_victim_that_moves_nothing_is_blocked_and_has_no_interval() {
    let all = vec![(3.0, 0.0); 9];
    assert_eq!((blocked(&all), effect(&all)), (Some(9), None));
    let most = [vec![(3.0, 0.0); 8], vec![(3.0, 2.0); 2]].concat();
    assert_eq!((blocked(&most), effect(&most)), (Some(10), None));
    let half = [vec![(3.0, 0.0); 4], vec![(3.0, 2.0); 4]].concat();
    assert_eq!(blocked(&half), None);
    assert_eq!(effect(&half).map(|e| e.repeats), Some(4));
    // Nothing alone is no ratio, and one repetition is none.
    assert_eq!(blocked(&[(0.0, 0.0); 9]), None);
    assert_eq!(blocked(&[(1.0, 0.0)]), None);
    let found = verdicts(std::slice::from_ref(&all))[0];
    assert_eq!((found.interferes, found.effect), (Some(true), None));
    // Five equal signs of five come by chance in 1 of 16 cases.
    assert_eq!(verdicts(&[vec![(3.0, 0.0); 5]])[0].interferes, None);
}

#[test]
fn a_blocked_point_is_the_greatest_of_its_sweep() {
    let cells = vec![vec![vec![(3.0, 1.0); 9], vec![(3.0, 0.0); 9]]];
    let found = sweep_verdicts(&cells, 1)[0];
    assert_eq!(
        (found.greatest, found.effect, found.interferes),
        (1, None, Some(true))
    );
}
