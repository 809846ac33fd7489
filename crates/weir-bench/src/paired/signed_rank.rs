// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The centre of log ratios and its interval, by the signed ranks of Wilcoxon. A Walsh average is the mean of
//! two values, or one value itself. The estimate is the median of all Walsh averages, the interval lies
//! between two of them.

use crate::paired::student::{two_sided_probability, two_sided_quantile};
use crate::paired::{ERROR_RATIO, Effect};

/// Values from which the interval is one of ranks. All Walsh averages of four values are inside in 87.5 %
/// only.
pub const ROBUST_REPEATS_MIN: usize = 5;
/// Values up to which the distribution of the rank sum is counted out; it is nearly normal beyond.
const EXACT_MAX: usize = 50;
/// The normal distribution is within this of its centre in 95 %.
const NORMAL_95: f64 = 1.959_964;

/// A logarithm of a ratio with its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogInterval {
    pub estimate: f64,
    low: f64,
    high: f64,
    /// Degrees of freedom of the t distribution that gives other levels from that of 95 %.
    degrees: f64,
    repeats: usize,
}

impl LogInterval {
    /// The interval of at least two values.
    pub fn of(values: &[f64]) -> Option<LogInterval> {
        match values.len() {
            0 | 1 => None,
            few if few < ROBUST_REPEATS_MIN => Some(Self::of_mean(values)),
            _ => Some(Self::of_ranks(values)),
        }
    }

    fn of_mean(values: &[f64]) -> LogInterval {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / count).sqrt();
        let half = two_sided_quantile(ERROR_RATIO, count - 1.0) * error;
        LogInterval {
            estimate: mean,
            low: mean - half,
            high: mean + half,
            degrees: count - 1.0,
            repeats: values.len(),
        }
    }

    fn of_ranks(values: &[f64]) -> LogInterval {
        let mut averages: Vec<f64> = (0..values.len())
            .flat_map(|i| {
                values[i..]
                    .iter()
                    .map(move |b| f64::midpoint(values[i], *b))
            })
            .collect();
        averages.sort_by(f64::total_cmp);
        let last = averages.len() - 1;
        let estimate = f64::midpoint(averages[last / 2], averages[last.div_ceil(2)]);
        let (place, part, wider) = lower_place(values.len());
        let between = |a: f64, b: f64| a + part * (b - a);
        let low = between(averages[place], averages[place + 1]);
        let high = between(averages[last - place], averages[last - place - 1]);
        LogInterval {
            estimate,
            low: estimate - wider * (estimate - low),
            high: estimate + wider * (high - estimate),
            // Its ends are few order statistics: with one degree more, far levels are too narrow.
            degrees: values.len() as f64 - 2.0,
            repeats: values.len(),
        }
    }

    /// Half of its width: of a ratio, relative to the ratio.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The effect as a ratio, with an interval that is wrong in this part of all cases.
    pub fn effect(&self, error_ratio: f64) -> Effect {
        let wider = if error_ratio == ERROR_RATIO {
            1.0
        } else {
            two_sided_quantile(error_ratio, self.degrees)
                / two_sided_quantile(ERROR_RATIO, self.degrees)
        };
        Effect {
            ratio: self.estimate.exp(),
            low: (self.estimate - wider * (self.estimate - self.low)).exp(),
            high: (self.estimate + wider * (self.high - self.estimate)).exp(),
            repeats: u32::try_from(self.repeats).unwrap_or(u32::MAX),
        }
    }

    /// The part of errors at which the interval just touches zero.
    pub fn p_value(&self) -> f64 {
        let towards_zero = if self.estimate < 0.0 {
            self.high - self.estimate
        } else {
            self.estimate - self.low
        };
        match self.estimate.abs() {
            none if none <= f64::EPSILON => 1.0,
            _ if towards_zero <= 0.0 => 0.0,
            away => {
                let quantile = two_sided_quantile(ERROR_RATIO, self.degrees);
                two_sided_probability(away / towards_zero * quantile, self.degrees)
            }
        }
    }
}

/// Where the lower end lies among sorted Walsh averages: a place, the part of the way to the next, and what
/// the interval is to be multiplied by where even all of them are too narrow. For many values the rank sum is
/// taken as normal, with a deviation of √(n (n + 1) (2n + 1) ÷ 24).
fn lower_place(count: usize) -> (usize, f64, f64) {
    let averages = count * (count + 1) / 2;
    if count > EXACT_MAX {
        let n = count as f64;
        let sigma = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let place = averages as f64 / 2.0 - NORMAL_95 * sigma;
        // Above EXACT_MAX values it is far above zero.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = place as usize;
        return (whole, place - whole as f64, 1.0);
    }
    let tails = lower_tails(count);
    // An interval from the average at `place` to its mirror is wrong as often as the rank sum is at most
    // `place` or at least the mirror of that.
    let error = |place: usize| 2.0 * tails[place];
    if error(0) > ERROR_RATIO {
        let degrees = count as f64 - 1.0;
        let wider =
            two_sided_quantile(ERROR_RATIO, degrees) / two_sided_quantile(error(0), degrees);
        return (0, 0.0, wider);
    }
    let place = (0..averages / 2)
        .take_while(|place| error(*place) <= ERROR_RATIO)
        .last()
        .unwrap_or(0);
    let part = (ERROR_RATIO - error(place)) / (error(place + 1) - error(place));
    (place, part, 1.0)
}

/// Probability that the rank sum of `count` values around zero is at most 0, 1, 2 … Each rank is in the sum
/// with probability 1/2, so the distribution is made by adding one rank after the other.
fn lower_tails(count: usize) -> Vec<f64> {
    let mut probability = vec![0.0; count * (count + 1) / 2 + 1];
    probability[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..probability.len()).rev() {
            let with = if sum >= rank {
                probability[sum - rank]
            } else {
                0.0
            };
            probability[sum] = f64::midpoint(probability[sum], with);
        }
    }
    let mut sum = 0.0;
    probability
        .into_iter()
        .map(|p| {
            sum += p;
            sum
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_tables() {
        // Hollander and Wolfe, Table A.4.
        let tails = lower_tails(5);
        assert_eq!(
            &tails[..4],
            &[1.0 / 32.0, 2.0 / 32.0, 3.0 / 32.0, 5.0 / 32.0]
        );
        let tails = lower_tails(10);
        assert!((tails[8] - 0.0244).abs() < 5e-5 && (tails[9] - 0.0322).abs() < 5e-5);
        assert!((tails[55] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_normal_form_continues_the_exact_one() {
        let place = |count| {
            let (place, part, _) = lower_place(count);
            place as f64 + part
        };
        let steps: Vec<f64> = (47..54).map(|n| place(n + 1) - place(n)).collect();
        assert!(
            steps.windows(2).all(|w| (w[1] - w[0]).abs() < 1.0),
            "{steps:?}"
        );
    }

    #[test]
    fn one_outlier_among_many_moves_little() {
        let mut values: Vec<f64> = (0..15).map(|i| -0.10 + 0.001 * f64::from(i - 7)).collect();
        let clean = LogInterval::of(&values).unwrap();
        values[3] = -0.9;
        let hit = LogInterval::of(&values).unwrap();
        assert!((hit.estimate - clean.estimate).abs() < 0.001);
        assert!(
            hit.half_width() < 2.0 * clean.half_width(),
            "{hit:?} {clean:?}"
        );
    }
}
