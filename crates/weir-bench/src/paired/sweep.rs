// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The greatest effect among many points. The greatest of noisy values is on average beyond the truth, so its
//! own interval is wrong too often. An interval that holds for all points at once holds for the greatest.
//!
//! A bootstrap resamples repetitions, for all points alike, so that points which share a measurement stay
//! related. It says at which level each point's interval must be, for all to hold at once in 95 %: about 5 %
//! ÷ points if they are independent, 5 % if they move together.

use crate::paired::signed_rank::LogInterval;
use crate::paired::{ERROR_RATIO, Effect, Influence, Pair, Tested, after_holm, log_ratios};
use distrs::Normal;
use weir_core::random::SplitMix;

/// Resamples of a bootstrap.
const RESAMPLES: usize = 2000;
/// Values cut off at each end of a resample, of all.
const CUT_RATIO: f64 = 0.2;

/// The point with the greatest effect in either direction (of logarithms), and its effect with an interval
/// that holds for all points at once in 95 %. Nothing where no point has two usable pairs. `points[i][r]` is
/// point i in repetition r; one seed gives one result.
#[must_use]
pub fn simultaneous(points: &[Vec<Pair>], seed: u64) -> Option<(usize, Effect)> {
    let band = Band::of(points, seed)?;
    let (greatest, interval) = band.greatest()?;
    Some((greatest, interval.effect(band.error_ratio)))
}

/// As [`super::verdicts`], of cells with several points each: `cells[c][i][r]` is cell c at point i in
/// repetition r. A cell interferes where its greatest effect does; it has no influence where none of its
/// points has.
#[must_use]
pub fn sweep_verdicts(cells: &[Vec<Vec<Pair>>], seed: u64) -> Vec<Influence> {
    let tested: Vec<Tested> = cells
        .iter()
        .map(|points| {
            let blocked = Tested::of_blocked(points);
            let of_band = || Band::of(points, seed).map(|band| band.tested());
            blocked.or_else(of_band).unwrap_or_else(nothing)
        })
        .collect();
    after_holm(&tested)
}

fn nothing() -> Tested {
    Tested {
        greatest: 0,
        effect: None,
        is_equivalent: false,
        p: None,
    }
}

/// Intervals of all points, and the level at which they hold together.
struct Band {
    /// Intervals by point; nothing where a point has too few repetitions.
    intervals: Vec<Option<LogInterval>>,
    /// The part of errors of each interval.
    error_ratio: f64,
    /// So many independent points would make as many errors.
    independent_points: f64,
}

impl Band {
    fn of(points: &[Vec<Pair>], seed: u64) -> Option<Band> {
        let logs: Vec<Vec<f64>> = points.iter().map(|pairs| log_ratios(pairs)).collect();
        let intervals: Vec<Option<LogInterval>> = logs.iter().map(|l| LogInterval::of(l)).collect();
        let measured: Vec<&[f64]> = logs
            .iter()
            .filter(|l| l.len() > 1)
            .map(Vec::as_slice)
            .collect();
        let most = measured.len() as f64;
        if measured.is_empty() {
            return None;
        }
        let quantile = greatest_deviation(&measured, seed);
        let alone = 2.0 * (1.0 - Normal::cdf(quantile, 0.0, 1.0));
        // Not less than independent points need, and not more than one does.
        let least = 1.0 - (1.0 - ERROR_RATIO).powf(1.0 / most);
        let error_ratio = match measured.len() {
            1 => ERROR_RATIO,
            _ => alone.max(least).min(ERROR_RATIO),
        };
        Some(Band {
            intervals,
            error_ratio,
            independent_points: (1.0 - ERROR_RATIO).ln() / (1.0 - error_ratio).ln(),
        })
    }

    fn greatest(&self) -> Option<(usize, LogInterval)> {
        let known = self.intervals.iter().enumerate();
        known
            .filter_map(|(i, interval)| interval.map(|known| (i, known)))
            .max_by(|(_, a), (_, b)| a.estimate.abs().total_cmp(&b.estimate.abs()))
    }

    fn tested(&self) -> Tested {
        let Some((greatest, interval)) = self.greatest() else {
            return nothing();
        };
        let known = self.intervals.iter().flatten();
        let p = interval.p_value();
        Tested {
            greatest,
            effect: Some(interval.effect(self.error_ratio)),
            is_equivalent: known
                .map(|i| i.effect(self.error_ratio))
                .all(|e| e.is_equivalent()),
            p: Some(-(self.independent_points * (-p).ln_1p()).exp_m1()),
        }
    }
}

/// The 95th percentile of the greatest deviation of a resampled point, in standard deviations of that point.
fn greatest_deviation(points: &[&[f64]], seed: u64) -> f64 {
    let longest = points.iter().map(|p| p.len()).max().unwrap_or(0);
    let mut random = SplitMix::new(seed);
    let mut centres: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); points.len()];
    let mut sample = Vec::with_capacity(longest);
    for _ in 0..RESAMPLES {
        let parts: Vec<f64> = (0..longest).map(|_| random.unit()).collect();
        for (point, centres) in points.iter().zip(&mut centres) {
            sample.clear();
            let draws = parts.iter().take(point.len());
            sample.extend(draws.map(|part| point[index(*part, point.len())]));
            centres.push(trimmed_mean(&mut sample));
        }
    }
    let mut greatest = vec![0.0_f64; RESAMPLES];
    for centres in &centres {
        let mean = centres.iter().sum::<f64>() / RESAMPLES as f64;
        let squares: f64 = centres.iter().map(|c| (c - mean).powi(2)).sum();
        let sigma = (squares / RESAMPLES as f64).sqrt().max(f64::MIN_POSITIVE);
        for (most, centre) in greatest.iter_mut().zip(centres) {
            *most = most.max((centre - mean).abs() / sigma);
        }
    }
    greatest.sort_by(f64::total_cmp);
    greatest[index(1.0 - ERROR_RATIO, RESAMPLES)]
}

/// The index among `count` that a part from 0 to below 1 falls on.
pub(super) fn index(part: f64, count: usize) -> usize {
    // A part below 1 times a count is not negative and below the count.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let index = (part * count as f64) as usize;
    index.min(count.saturating_sub(1))
}

/// The mean without both ends.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = index(CUT_RATIO, values.len());
    let middle = &values[cut..values.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}
