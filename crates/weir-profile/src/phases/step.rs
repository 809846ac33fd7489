// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One step in a run of values: where it is, how large, and how probably chance makes as large a one.
//!
//! The statistic is Student's t of the means on both sides, at the place where it is largest. Values far from
//! the median are drawn in, so that one odd value makes no step. Values that follow each other are alike:
//! they count for fewer than they are, by the autocorrelation that is left beside the step.

use distrs::Normal;

/// Windows that a phase has, at least. Changes that last for less are no phases (ADR 14).
pub const PHASE_MIN: usize = 4;
/// Values are drawn in to so many deviations from their median. Detectors that leave outliers as they are
/// take them for changes: where one value of 30 was ten times as far out, two of a library found 17 and 28
/// changes in 1000 windows that had none (ADR 14).
const DEVIATIONS_MAX: f64 = 4.0;
/// A deviation ÷ the median absolute deviation, for the normal distribution: 1 ÷ Φ⁻¹(3/4).
const MAD: f64 = 1.4826;
/// From so many values on, their own likeness is known.
const ALIKE_VALUES_MIN: f64 = 64.0;
/// Standard error of autocorrelation by differences, × √ of their number.
const ALIKE_ERROR: f64 = 2.0;
/// What a difference says of a variance, in values whose mean is known. The mean square of n successive
/// differences of independent normal values, halved, has a variance of about 3σ⁴ ÷ n, where that about a
/// known mean has 2σ⁴ ÷ n (von Neumann, Kent, Bellinson and Hart, Ann. Math. Stat. 12, 1941).
const DIFFERENCES_WORTH: f64 = 2.0 / 3.0;
/// Above this autocorrelation next to nothing is known.
const ALIKE_MAX: f64 = 0.95;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelStep {
    /// Number of values before the step.
    pub at: usize,
    /// Mean of the values before it.
    pub before: f64,
    /// Mean of the values after it.
    pub after: f64,
    /// How probably chance makes such a step at a given place.
    pub chance: f64,
}

/// The median; nothing of no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

/// Values drawn in to [`DEVIATIONS_MAX`] deviations from their median; nothing where they are all the same.
pub fn drawn_in(values: &[f64]) -> Option<Vec<f64>> {
    let mut scratch = values.to_vec();
    let middle = median(&mut scratch)?;
    for value in &mut scratch {
        *value = (*value - middle).abs();
    }
    let mean = scratch.iter().sum::<f64>() / scratch.len() as f64;
    let mad = MAD * median(&mut scratch)?;
    // Where most values are the same their median says nothing of the others.
    let scale = if mad > mean * 1e-6 { mad } else { mean };
    let most = DEVIATIONS_MAX * scale;
    let is_of_use = scale.is_finite() && scale > middle.abs() * 1e-12;
    is_of_use.then(|| {
        let drawn = values
            .iter()
            .map(|value| value.clamp(middle - most, middle + most));
        drawn.collect()
    })
}

/// How values scatter, by the differences of those that follow each other. Differences far from the others
/// are steps, and are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// Autocorrelation, 0 or more: at least so much.
    pub alike: f64,
    /// Variance about the level.
    pub variance: f64,
    /// Differences that it is known by.
    pub differences: f64,
}

impl Scatter {
    /// How these values scatter. `alike` is their autocorrelation, where that is known better.
    pub fn of(values: &[f64], alike: Option<f64>) -> Scatter {
        let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let drawn = drawn_in(&differences).unwrap_or_else(|| differences.clone());
        let plain: Vec<Option<f64>> = differences
            .iter()
            .zip(&drawn)
            .map(|(own, drawn)| (own == drawn).then_some(*own))
            .collect();
        let known: Vec<f64> = plain.iter().flatten().copied().collect();
        let squares = known.iter().map(|value| value * value).sum::<f64>();
        let (mut next, mut pairs) = (0.0, 0.0);
        for pair in plain.windows(2) {
            if let [Some(a), Some(b)] = pair {
                next += a * b;
                pairs += (a * a + b * b) / 2.0;
            }
        }
        let ratio = if pairs > 0.0 { next / pairs } else { -0.5 };
        let count = known.len() as f64;
        // Of values that are not alike at all, differences have −1/2. The least that it may be: few
        // differences say little.
        let least = 1.0 + 2.0 * ratio - 2.0 * ALIKE_ERROR / count.max(1.0).sqrt();
        let alike = alike.unwrap_or(least).clamp(0.0, ALIKE_MAX);
        Scatter {
            alike,
            variance: squares / count.max(1.0) / (2.0 * (1.0 - alike)),
            differences: count,
        }
    }
}

/// Autocorrelation of what is left of values beside the levels between these places.
pub fn alike_beside(values: &[f64], places: &[usize]) -> f64 {
    let (mut next, mut squares, mut from) = (0.0, 0.0, 0);
    for to in places.iter().copied().chain([values.len()]) {
        let own = values.get(from..to).unwrap_or_default();
        let own = drawn_in(own).unwrap_or_default();
        let mean = own.iter().sum::<f64>() / own.len() as f64;
        squares += own.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        next += own
            .windows(2)
            .map(|pair| (pair[0] - mean) * (pair[1] - mean))
            .sum::<f64>();
        from = to;
    }
    let alike = if squares > 0.0 { next / squares } else { 0.0 };
    // Levels that were fitted make what is left less alike than it is.
    let levels = places.len() as f64 + 1.0;
    let alike = alike + levels * (1.0 + 3.0 * alike.max(0.0)) / values.len() as f64;
    alike.clamp(0.0, ALIKE_MAX)
}

/// The largest step in these values, of which [`PHASE_MIN`] or more are on each side. Nothing where there are
/// too few values, where they are all the same, or where a straight line fits them better than a step.
///
/// `near`: how values scatter near these.
pub fn largest_step(values: &[f64], near: Scatter) -> Option<LevelStep> {
    if values.len() < 2 * PHASE_MIN {
        return None;
    }
    let drawn = drawn_in(values)?;
    let n = drawn.len() as f64;
    let mean = drawn.iter().sum::<f64>() / n;
    let (mut sum, mut best) = (0.0, (0usize, 0.0));
    for (place, value) in drawn.iter().enumerate() {
        let (before, after) = (place, drawn.len() - place);
        if before >= PHASE_MIN && after >= PHASE_MIN {
            let (k, rest) = (before as f64, after as f64);
            let between = sum * sum * n / (k * rest);
            if between > best.1 {
                best = (place, between);
            }
        }
        sum += value - mean;
    }
    if best.1 <= 0.0 {
        return None;
    }
    let step = step_at(&drawn, best.0, near)?;
    (!is_line(&drawn, &step)).then_some(step)
}

/// The step at a given place.
pub fn step_at(values: &[f64], at: usize, near: Scatter) -> Option<LevelStep> {
    let (left, right) = values.split_at_checked(at)?;
    let (k, rest) = (left.len() as f64, right.len() as f64);
    let n = k + rest;
    let [before, after] = [left, right].map(|side| side.iter().sum::<f64>() / side.len() as f64);
    let off = |(place, value): (usize, &f64)| value - if place < at { before } else { after };
    let offs: Vec<f64> = values.iter().enumerate().map(off).collect();
    let between = (after - before).powi(2) * k * rest / n;
    let squares: f64 = offs.iter().map(|off| off * off).sum();
    let next: f64 = offs.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let own = next / squares;
    // Means that were fitted make what is left less alike than it is.
    let own = own + (1.0 + 3.0 * own.max(0.0)) / n;
    let alike = if n >= ALIKE_VALUES_MIN && own.is_finite() {
        own.max(near.alike).clamp(0.0, ALIKE_MAX)
    } else {
        near.alike
    };
    let worth = (1.0 - alike) / (1.0 + alike);
    // More is known of a variance than of a mean.
    let known = (1.0 - alike * alike) / (1.0 + alike * alike);
    let variance = squares / (n - 2.0);
    // Few values may scatter less by chance than those near them do.
    let (variance, freedom) = if variance > near.variance {
        (variance, n * known - 2.0)
    } else {
        (
            near.variance,
            near.differences * known * DIFFERENCES_WORTH - 2.0,
        )
    };
    // Steps without any scatter are steps.
    let variance = variance.max(between * 1e-9);
    if freedom < 1.0 || between <= 0.0 {
        return None;
    }
    let t = (between * worth / variance).sqrt();
    let chance = chance_of(t, freedom);
    chance.is_finite().then_some(LevelStep {
        at,
        before,
        after,
        chance: chance.clamp(0.0, 1.0),
    })
}

/// How probably Student's t is as far from 0 (Wallace 1959: within a tenth where it is above 1e-6, too high
/// further out, where series in use give no number at all).
fn chance_of(t: f64, freedom: f64) -> f64 {
    let normal = (freedom * (t * t / freedom).ln_1p()).sqrt();
    2.0 * Normal::cdf(
        -normal * (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0),
        0.0,
        1.0,
    )
}

/// Whether a straight line leaves less than the step: then the level drifts, and has no step. The squares
/// beside the line of least squares are those about the mean, less (sum of time × value)² ÷ (sum of time²).
fn is_line(values: &[f64], step: &LevelStep) -> bool {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let middle = (n - 1.0) / 2.0;
    let (mut all, mut with_time, mut of_time, mut beside) = (0.0, 0.0, 0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let time = place as f64 - middle;
        let level = if place < step.at {
            step.before
        } else {
            step.after
        };
        all += (value - mean).powi(2);
        with_time += time * (value - mean);
        of_time += time * time;
        beside += (value - level).powi(2);
    }
    all - with_time.powi(2) / of_time < beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::tests::MadeUp;

    const QUIET: [f64; 8] = [100.0, 103.0, 98.0, 101.0, 99.0, 102.0, 97.0, 100.0];

    fn step(values: &[f64], alike: f64) -> Option<LevelStep> {
        largest_step(values, Scatter::of(values, Some(alike)))
    }

    #[test]
    fn a_step_is_found_at_its_place() {
        let mut values = QUIET.to_vec();
        values.extend(QUIET.map(|value| value + 20.0));
        let found = step(&values, 0.0).unwrap();
        assert_eq!(found.at, 8);
        assert!(found.chance < 1e-6, "{found:?}");
        assert!((found.after - found.before - 20.0).abs() < 1.0);
        // The more alike, the less is known.
        let alike = step(&values, 0.5).unwrap();
        assert!(alike.chance > found.chance * 100.0, "{alike:?}");
    }

    #[test]
    fn an_odd_value_a_line_and_nothing_are_no_steps() {
        let mut odd: Vec<f64> = QUIET.iter().chain(&QUIET).copied().collect();
        odd[11] = 1e9;
        assert!(step(&odd, 0.0).unwrap().chance > 0.01);
        let line: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(step(&line, 0.0), None);
        assert_eq!(step(&[5.0; 20], 0.0), None);
        assert_eq!(step(&QUIET[..7], 0.0), None);
        assert!(step(&[f64::MAX; 9], 0.0).is_none());
    }

    /// Tables of Student's distribution, two-sided; the last by numerical integration.
    #[test]
    fn chances_are_those_of_the_tables() {
        for (t, freedom, chance) in [
            (2.228, 10.0, 0.05),
            (4.587, 10.0, 0.001),
            (3.646, 30.0, 0.001),
            (3.390, 100.0, 0.001),
            (3.300, 1000.0, 0.001),
            (8.0, 18.0, 2.451e-7),
        ] {
            let is = chance_of(t, freedom);
            assert!((0.98..=1.1).contains(&(is / chance)), "{t} {freedom}: {is}");
        }
        let far = chance_of(20.0, 14.0);
        assert!(far > 0.0 && far < 1e-9, "{far}");
    }

    #[test]
    fn likeness_is_seen_through_steps() {
        let mut draws = MadeUp::new(1);
        let steps: Vec<usize> = (1..8).map(|number| number * 500).collect();
        for likeness in [0.0, 0.3, 0.7] {
            let mut values = draws.noise(4000, likeness);
            for (place, value) in values.iter_mut().enumerate() {
                *value += (place / 500 % 2) as f64 * 30.0;
            }
            let scatter = Scatter::of(&values, None);
            let alike = scatter.alike;
            assert!(
                alike <= likeness && alike >= likeness - 0.15,
                "{likeness}: {alike}"
            );
            let beside = alike_beside(&values, &steps);
            assert!((beside - likeness).abs() < 0.05, "{likeness}: {beside}");
            let known = Scatter::of(&values, Some(likeness)).variance;
            assert!((0.9..1.1).contains(&known), "{likeness}: {known}");
        }
        assert_eq!(Scatter::of(&[1.0; 50], None).alike, 0.0);
    }
}
