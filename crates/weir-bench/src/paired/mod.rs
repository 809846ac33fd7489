// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a background does to a victim, from measurements that were repeated: a ratio of bandwidths with its
//! 95 % interval, and whether it interferes.
//!
//! ```text
//! pairs (alone, together), one a repetition
//!   └─► log ratios ─► signed_rank   estimate and interval ──┬─► Effect
//!                     student       the same at other levels ┤
//!                     sweep         over many thread counts ─┴─► Influence (Holm over all cells)
//! ```
//!
//! # Why the estimator of Hodges and Lehmann
//!
//! The effect is the logarithm of together ÷ alone of one repetition. What changes slowly (frequency,
//! temperature, another load) is in both and cancels, as far as the order inside a repetition is random. What
//! remains has outliers: an interrupt makes one measurement slower by 5 to 60 %.
//!
//! In trials with 4000 sets for each of 5 to 20 repetitions, the intervals held the truth in the following
//! percentages of the sets, where 95 are meant:
//!
//! | estimator | normal | outliers | strong drift, random order | ended at ± 2 % |
//! |---|---|---|---|---|
//! | mean, Student's t | 95 | 96 to 99, and twice to four times as wide | 93 to 95 | 92 to 97 |
//! | trimmed mean (Yuen), 20 % | 94 to 95 | 94 to 97 | 84 to 94 | 88 to 95 |
//! | M-estimator (Huber), 2.5 | 94 to 96 | 95 to 98 | 90 to 95 | 92 to 96 |
//! | median of Walsh averages (Hodges and Lehmann), interval of the signed-rank test (Wilcoxon) | 94 to 95 | 93 to 96 | 93 to 96 | 93 to 96 |
//!
//! The interval of the signed-rank test is exact for every symmetric distribution, which the two clusters are
//! that a drift makes of two orders; robust estimators take the smaller cluster for outliers. Its levels come
//! in steps, so it is interpolated between two ranks. One outlier widens it below 12 repetitions and hardly
//! from there on. With fewer than [`ROBUST_REPEATS_MIN`] repetitions no interval of ranks has 95 %: Student's
//! t stands in.
//!
//! An end at "± 2 %" prefers sets that look quieter than they are. [`is_enough`] asks for
//! [`ENOUGH_REPEATS_MIN`] repetitions first, which keeps the interval above 93 %.
//!
//! Sources: Hodges and Lehmann, Ann. Math. Stat. 34 (1963); Hollander and Wolfe, Nonparametric Statistical
//! Methods, 3.3; Holm, Scand. J. Stat. 6 (1979); Schuirmann, J. Pharmacokin. Biopharm. 15 (1987), of
//! equivalence.

mod signed_rank;
mod student;
mod sweep;
#[cfg(test)]
mod tests;

pub use signed_rank::ROBUST_REPEATS_MIN;
pub use sweep::{simultaneous, sweep_verdicts};

use signed_rank::LogInterval;

/// The victim's figure alone and together with the background, in one repetition; in any unit that both
/// share.
pub type Pair = (f64, f64);

/// Repetitions below which [`is_enough`] never agrees.
pub const ENOUGH_REPEATS_MIN: usize = 7;
/// The part of errors that a test may make.
pub const ERROR_RATIO: f64 = 0.05;
/// An effect with all of its interval within this of 1 is none (CXL-Interference, Table III).
pub const EQUIVALENCE_RATIO: f64 = 0.05;
/// A bound such as 0.95 has no exact double: what lies within rounding of a bound is on it.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// The rate together ÷ the rate alone, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    pub high: f64,
    pub repeats: u32,
}

impl Effect {
    /// Whether 1, no effect, is outside of the interval.
    #[must_use]
    pub fn excludes_one(&self) -> bool {
        self.high < 1.0 - ROUNDING || self.low > 1.0 + ROUNDING
    }

    /// Whether all of the interval lies within [`EQUIVALENCE_RATIO`] of 1.
    #[must_use]
    pub fn is_equivalent(&self) -> bool {
        self.low >= 1.0 - EQUIVALENCE_RATIO - ROUNDING
            && self.high <= 1.0 + EQUIVALENCE_RATIO + ROUNDING
    }
}

/// What is said of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Influence {
    /// Index of the point with the greatest effect; 0 where there is one point.
    pub greatest: usize,
    /// Its effect; nothing with fewer than two usable repetitions, or if the victim is [`blocked`].
    pub effect: Option<Effect>,
    /// False: all of the interval (of each point) lies within [`EQUIVALENCE_RATIO`] of 1, whether or not it
    /// excludes 1. True: it excludes 1, after Holm's correction over all cells too. Nothing: not known.
    pub interferes: Option<bool>,
}

/// The effect of a background, from one pair for each repetition. Pairs with a figure that is not finite or
/// not above zero are left out; nothing with fewer than two others, or if the victim is [`blocked`].
#[must_use]
pub fn effect(pairs: &[Pair]) -> Option<Effect> {
    LogInterval::of(&log_ratios(pairs)).map(|interval| interval.effect(ERROR_RATIO))
}

/// Whether repetitions may end: there are [`ENOUGH_REPEATS_MIN`], and the half-width of the 95 % interval is
/// at most `half_width_ratio`, relative to the ratio.
#[must_use]
pub fn is_enough(pairs: &[Pair], half_width_ratio: f64) -> bool {
    let logs = log_ratios(pairs);
    let interval = LogInterval::of(&logs).filter(|_| logs.len() >= ENOUGH_REPEATS_MIN);
    interval.is_some_and(|i| i.half_width() <= half_width_ratio)
}

/// The verdicts on cells with one point each, in the order of `cells`. The test of a cell depends on the
/// others.
#[must_use]
pub fn verdicts(cells: &[Vec<Pair>]) -> Vec<Influence> {
    let tested: Vec<Tested> = cells
        .iter()
        .map(|pairs| {
            if let Some(blocked) = Tested::of_blocked(std::slice::from_ref(pairs)) {
                return blocked;
            }
            let interval = LogInterval::of(&log_ratios(pairs));
            let effect = interval.map(|i| i.effect(ERROR_RATIO));
            Tested {
                greatest: 0,
                effect,
                is_equivalent: effect.is_some_and(|e| e.is_equivalent()),
                p: interval.map(|i| i.p_value()),
            }
        })
        .collect();
    after_holm(&tested)
}

/// The repetitions of a victim that moved nothing together with the background in most of them, at least two:
/// its ratio is 0. Zero has no logarithm, so there is no [`Effect`] and no interval. Nothing for other
/// victims.
#[must_use]
pub fn blocked(pairs: &[Pair]) -> Option<u32> {
    let (zeros, repeats) = zeros(pairs);
    (repeats > 1 && 2 * zeros > repeats).then_some(repeats)
}

/// Repetitions in which the victim moved nothing together, and all in which it moved something alone.
fn zeros(pairs: &[Pair]) -> (u32, u32) {
    let known = pairs.iter().filter(|(alone, together)| {
        alone.is_finite() && *alone > 0.0 && together.is_finite() && *together >= 0.0
    });
    known.fold((0, 0), |(zeros, all), (_, together)| {
        (zeros + u32::from(*together == 0.0), all + 1)
    })
}

/// The logarithms of the usable pairs' ratios; none of a victim that is [`blocked`].
fn log_ratios(pairs: &[Pair]) -> Vec<f64> {
    if blocked(pairs).is_some() {
        return Vec::new();
    }
    let usable = |value: f64| value.is_finite() && value > 0.0;
    pairs
        .iter()
        .filter(|(alone, together)| usable(*alone) && usable(*together))
        .map(|(alone, together)| together.ln() - alone.ln())
        .collect()
}

/// A cell before the correction for the number of cells.
struct Tested {
    greatest: usize,
    effect: Option<Effect>,
    is_equivalent: bool,
    /// Probability of such an effect, or a greater one, where there is none.
    p: Option<f64>,
}

impl Tested {
    /// A cell with a point at which the victim is [`blocked`], by the sign test on that point; corrected for
    /// all points (Šidák).
    fn of_blocked(points: &[Vec<Pair>]) -> Option<Tested> {
        let greatest = points.iter().position(|pairs| blocked(pairs).is_some())?;
        let (zeros, repeats) = zeros(&points[greatest]);
        let p = sign_test(zeros, repeats);
        Some(Tested {
            greatest,
            effect: None,
            is_equivalent: false,
            p: Some(1.0 - (1.0 - p).powf(points.len() as f64)),
        })
    }
}

/// How often so many signs of `count`, or more, are equal where each is + or − by chance.
fn sign_test(equal: u32, count: u32) -> f64 {
    let mut ways = 1.0;
    let mut tail = 0.0;
    for others in 0..=count - equal {
        tail += ways;
        ways *= f64::from(count - others) / f64::from(others + 1);
    }
    (2.0 * tail * 0.5_f64.powf(f64::from(count))).min(1.0)
}

/// Holm's step-down test: the smallest probability against 5 % ÷ cells, the next against 5 % ÷ (cells − 1) …,
/// up to the first that fails. Cells without a probability were not tested.
fn after_holm(cells: &[Tested]) -> Vec<Influence> {
    let mut order: Vec<(usize, f64)> = cells
        .iter()
        .enumerate()
        .filter_map(|(i, cell)| cell.p.map(|p| (i, p)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let tests = order.len();
    let mut is_found = vec![false; cells.len()];
    for (place, (i, p)) in order.into_iter().enumerate() {
        if p > ERROR_RATIO / (tests - place) as f64 {
            break;
        }
        is_found[i] = true;
    }
    let influence = |(cell, is_found): (&Tested, bool)| Influence {
        greatest: cell.greatest,
        effect: cell.effect,
        interferes: match (cell.is_equivalent, is_found) {
            (true, _) => Some(false),
            (false, true) if cell.effect.is_none_or(|e| e.excludes_one()) => Some(true),
            _ => None,
        },
    };
    cells.iter().zip(is_found).map(influence).collect()
}
