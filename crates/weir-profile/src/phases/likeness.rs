// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases that are alike, so that a load which comes and goes is seen as one: windows of a phase belong
//! together already, and phases whose figures agree are clustered (DBSCAN).

use super::Phase;
use super::figures::{FigureValues, PhaseFigure};
use augurs_clustering::{DbscanClusterer, DistanceMatrix};

/// Phases whose figures differ by less than this part of the larger are alike in them.
const ALIKE_RATIO: f64 = 0.1;
/// Shares that differ by less than these points are alike.
const ALIKE_POINTS: f64 = 0.04;
/// Figures that differ by less than so many standard errors are alike, too.
const ALIKE_ERRORS: f64 = 3.0;
/// Phases that are compared; later ones stand for themselves.
const PHASES_MAX: usize = 1000;

/// The cluster of each phase, by numbers from 1 in the order of their first phases.
pub fn clusters(phases: &[Phase], figures: &[FigureValues]) -> Vec<usize> {
    let errors: Vec<Vec<Option<f64>>> = phases
        .iter()
        .take(PHASES_MAX)
        .map(|phase| {
            figures
                .iter()
                .map(|one| squared_error(phase, one))
                .collect()
        })
        .collect();
    let distance = |a: usize, b: usize| {
        let of = |(place, one): (usize, &FigureValues)| {
            let means = [a, b].map(|phase| phases[phase].means.get(&one.figure).copied());
            let [Some(x), Some(y)] = means else {
                return None;
            };
            let squares = errors[a][place].unwrap_or(0.0) + errors[b][place].unwrap_or(0.0);
            Some((x - y).abs() / tolerated(one.figure, x, y).max(ALIKE_ERRORS * squares.sqrt()))
        };
        let known: Vec<f64> = figures.iter().enumerate().filter_map(of).collect();
        // Phases without a figure in common, and neighbours, between which something changed, are not alike.
        if known.is_empty() || a.abs_diff(b) == 1 {
            f64::INFINITY
        } else {
            known
                .into_iter()
                .map(|one| if one.is_nan() { 0.0 } else { one })
                .fold(0.0, f64::max)
        }
    };
    let count = errors.len();
    let row = |a: usize| {
        (0..count)
            .map(|b| if a == b { 0.0 } else { distance(a, b) })
            .collect()
    };
    let matrix = DistanceMatrix::try_from_square((0..count).map(row).collect());
    let found = matrix.map_or_else(
        |_| Vec::new(),
        |matrix| DbscanClusterer::new(1.0, 2).fit(&matrix),
    );
    numbered(
        &found
            .iter()
            .map(|cluster| cluster.as_i32())
            .collect::<Vec<_>>(),
        phases.len(),
    )
}

/// What two levels may differ by.
fn tolerated(figure: PhaseFigure, a: f64, b: f64) -> f64 {
    if figure.is_share() {
        ALIKE_POINTS
    } else {
        ALIKE_RATIO * a.abs().max(b.abs())
    }
}

/// The square of the standard error of a figure's mean over a phase.
fn squared_error(phase: &Phase, one: &FigureValues) -> Option<f64> {
    let mean = phase.means.get(&one.figure)?;
    let first = phase.first_window - 1;
    let values = one.values.get(first..first + phase.windows)?;
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let n = known.len() as f64;
    let squares: f64 = known.iter().map(|value| (value - mean).powi(2)).sum();
    (n > 1.0).then(|| squares / (n - 1.0) / n)
}

/// Numbers in the order of first phases; a phase of no cluster (below 0, or not compared) has one of its own.
fn numbered(found: &[i32], phases: usize) -> Vec<usize> {
    let mut seen: Vec<Option<i32>> = Vec::new();
    let of = |place: usize| {
        let label = found.get(place).copied().filter(|label| *label > 0);
        let known = seen.iter().position(|one| label.is_some() && *one == label);
        known.map_or_else(
            || {
                seen.push(label);
                seen.len()
            },
            |known| known + 1,
        )
    };
    (0..phases).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::{Followed, phases, tests};

    #[test]
    fn a_load_that_comes_and_goes_is_one_cluster() {
        let mut draws = tests::MadeUp::new(3);
        let levels = [100.0, 180.0, 101.0, 182.0, 99.0, 300.0];
        let values: Vec<f64> = levels
            .iter()
            .flat_map(|level| {
                draws
                    .noise(20, 0.0)
                    .into_iter()
                    .map(move |noise| level + 2.0 * noise)
            })
            .collect();
        let windows = tests::windows(&values);
        let found = phases(&windows, &Followed::new(&windows, None)).unwrap();
        let clusters: Vec<usize> = found.phases.iter().map(|phase| phase.cluster).collect();
        assert_eq!(clusters, [1, 2, 1, 2, 1, 3], "{found:?}");
    }

    #[test]
    fn numbers_follow_the_first_phases() {
        assert_eq!(numbered(&[2, -1, 2, 1, -1], 6), [1, 2, 1, 3, 4, 5]);
    }
}
