// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Influences over all cells of a matrix.

use super::{Machine, NOISES};
use crate::paired::{Influence, Pair, effect, verdicts};

/// Repetitions that alternate around a ratio.
fn around(ratio: f64, spread: f64, count: i32) -> Vec<Pair> {
    let centre = f64::from(count - 1) / 2.0;
    (0..count)
        .map(|i| (1.0, ratio * (spread * (f64::from(i) - centre)).exp()))
        .collect()
}

fn words(cells: &[Vec<Pair>]) -> Vec<Option<bool>> {
    verdicts(cells).iter().map(|v| v.interferes).collect()
}

#[test]
fn identical_pairs_interfere_in_at_most_five_of_a_hundred_cells() {
    for repeats in [5, 7, 12, 20] {
        let cells: Vec<Vec<Pair>> = (0..1000)
            .map(|cell| Machine::new(NOISES[cell % 4], cell as u64).repetitions(1.0, repeats))
            .collect();
        // Each by itself, without the correction for many cells, which would hide errors.
        let alone = cells
            .iter()
            .map(|cell| verdicts(std::slice::from_ref(cell))[0]);
        let wrong = |found: &Influence| found.interferes == Some(true);
        let count = alone.filter(wrong).count();
        assert!(count <= 50, "{repeats}: {count} of 1000");
        // In matrices of 30 cells, 5 % of the matrices may have any.
        let matrices = cells.chunks(30).map(verdicts);
        let count = matrices.filter(|all| all.iter().any(wrong)).count();
        assert!(count <= 3, "{repeats}: {count} of 34");
    }
}

#[test]
fn the_three_words() {
    let none = around(1.0, 0.002, 8);
    let deep = around(0.1, 0.002, 8);
    let wide = around(0.97, 0.03, 8);
    assert_eq!(words(&[none, deep, wide]), [Some(false), Some(true), None]);
    // An effect that is there, and too small to matter, is none.
    let small = around(0.98, 0.001, 8);
    assert!(effect(&small).is_some_and(|e| e.excludes_one()));
    assert_eq!(words(&[small]), [Some(false)]);
}

#[test]
fn one_of_many_cells_needs_stronger_evidence() {
    let weak = around(0.92, 0.024, 8);
    let alone = verdicts(std::slice::from_ref(&weak))[0];
    assert_eq!(alone.interferes, Some(true), "{alone:?}");
    let mut many = vec![around(1.0, 0.02, 8); 29];
    many.push(weak);
    assert_eq!(words(&many)[29], None);
    // Strong effects beside it weigh for it: fewer tests remain.
    let mut strong = vec![around(0.5, 0.001, 8); 29];
    strong.push(many.remove(29));
    assert_eq!(words(&strong)[29], Some(true));
}

#[test]
fn cells_that_were_not_measured_are_no_tests() {
    let weak = around(0.92, 0.024, 8);
    let mut cells = vec![Vec::new(); 29];
    cells.push(weak);
    let found = verdicts(&cells);
    assert_eq!(found[29].interferes, Some(true));
    assert_eq!((found[0].effect, found[0].interferes), (None, None));
}
