// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places at which a figure's level changes: seeded binary segmentation (Kovács, Bühlmann, Li and Munk,
//! Biometrika 2023), with the narrowest interval over the threshold first (Baranowski, Chen and Fryzlewicz,
//! 2019).
//!
//! Intervals of all lengths, each overlapping its neighbours by half, are looked at for one step. Chances are
//! multiplied by all places that were looked at (Bonferroni), so a figure of a recording without any change
//! shows one with a probability of [`SIGNIFICANCE`] at most, however long the recording is.

use super::figures::PhaseFigure;
use super::step::{LevelStep, PHASE_MIN, Scatter, alike_beside, drawn_in, largest_step, step_at};

/// Probability that a figure of a recording without any change shows one. The aim is one false change in 1000
/// windows at most (ADR 14); in 15 000 stationary windows there was none (docs/evidence/phases.md).
pub const SIGNIFICANCE: f64 = 0.001;
/// Values of a figure that are looked at. More are taken together.
pub const BLOCKS_MAX: usize = 2048;
/// Known values without which nothing is looked for.
pub const KNOWN_MIN: usize = 3 * PHASE_MIN;
/// A change below this part of the larger level is none of a phase.
const CHANGE_RATIO_MIN: f64 = 0.05;
/// A change of a share below these points is none of a phase.
const CHANGE_POINTS_MIN: f64 = 0.02;
/// Nor is a change below this part of the figure's highest value, however low the levels.
const CHANGE_OF_HIGHEST_MIN: f64 = 0.01;
/// Passes in which the likeness of values is found.
const PASSES: usize = 3;
/// Values on both sides of an interval by which their scatter is known, too.
const NEAR: usize = 30;

/// A figure's known values in blocks, each with the window that it begins with.
#[derive(Clone, Debug)]
pub struct Blocks {
    pub figure: PhaseFigure,
    /// Means of the windows of a block that are known.
    pub values: Vec<f64>,
    /// First windows of blocks.
    pub starts: Vec<usize>,
    scatter: Scatter,
    /// Places that are looked at.
    tests: f64,
    highest: f64,
}

/// A change of one figure.
#[derive(Clone, Copy, Debug)]
pub struct FigureStep {
    /// The interval of windows in which it was seen.
    pub seen: (usize, usize),
    /// The first window after it.
    pub window: usize,
    /// Its probability by chance, over all places looked at.
    pub chance: f64,
}

impl Blocks {
    /// Blocks of values by window, `length` windows a block. Nothing where too few are known.
    pub fn new(figure: PhaseFigure, values: &[Option<f64>], length: usize) -> Option<Blocks> {
        let (mut means, mut starts) = (Vec::new(), Vec::new());
        for (place, chunk) in values.chunks(length.max(1)).enumerate() {
            let (mut sum, mut known) = (0.0, 0u32);
            for value in chunk.iter().flatten() {
                sum += value;
                known += 1;
            }
            if known > 0 {
                means.push(sum / f64::from(known));
                starts.push(place * length.max(1));
            }
        }
        if means.len() < KNOWN_MIN {
            return None;
        }
        let places = |(from, to): (usize, usize)| to - from - 2 * PHASE_MIN + 1;
        let tests: usize = intervals(means.len()).into_iter().map(places).sum();
        let mut blocks = Blocks {
            figure,
            scatter: Scatter::of(&means, None),
            tests: tests as f64,
            highest: means
                .iter()
                .fold(0.0, |most: f64, value| most.max(value.abs())),
            values: means,
            starts,
        };
        // What is left beside the changes says how alike values are, and that which changes are more than
        // chance.
        let least = blocks.scatter.alike;
        for _ in 0..PASSES {
            let places = blocks.places();
            let places: Vec<usize> = places.iter().map(|(at, _)| *at).collect();
            blocks.scatter.alike = alike_beside(&blocks.values, &places).max(least);
        }
        Some(blocks)
    }

    /// How values scatter in an interval and near it, with the likeness of all.
    fn near(&self, from: usize, to: usize) -> Scatter {
        let high = (to + NEAR).min(self.values.len());
        let near = self.values.get(from.saturating_sub(NEAR)..high);
        Scatter::of(near.unwrap_or_default(), Some(self.scatter.alike))
    }

    /// Whether a step is more than chance, and large enough for a phase.
    fn counts(&self, step: &LevelStep) -> bool {
        step.chance * self.tests <= SIGNIFICANCE && self.is_large(step.before, step.after)
    }

    fn is_large(&self, before: f64, after: f64) -> bool {
        let change = (after - before).abs();
        if self.figure.is_share() {
            change >= CHANGE_POINTS_MIN
        } else {
            let levels = before.abs().max(after.abs());
            change >= CHANGE_RATIO_MIN * levels && change >= CHANGE_OF_HIGHEST_MIN * self.highest
        }
    }

    /// All changes, the first first.
    pub fn steps(&self) -> Vec<FigureStep> {
        self.places().into_iter().map(|(_, step)| step).collect()
    }

    /// The same, with the blocks before each. The narrowest interval goes first, because it is the likeliest
    /// to hold one change only. An interval that holds a change which was found already is left out: its step
    /// is that change.
    fn places(&self) -> Vec<(usize, FigureStep)> {
        let mut seen: Vec<(usize, usize, LevelStep)> = Vec::new();
        for (from, to) in intervals(self.values.len()) {
            let step = self.values.get(from..to);
            let step = step.and_then(|values| largest_step(values, self.near(from, to)));
            seen.extend(
                step.filter(|step| self.counts(step))
                    .map(|step| (from, to, step)),
            );
        }
        seen.sort_by(|a, b| {
            let lengths = (a.1 - a.0).cmp(&(b.1 - b.0));
            lengths.then(a.2.chance.total_cmp(&b.2.chance))
        });
        let mut found: Vec<(usize, FigureStep)> = Vec::new();
        for (from, to, step) in seen {
            let at = from + step.at;
            if found
                .iter()
                .any(|(other, _)| (from + 1..to).contains(other))
            {
                continue;
            }
            let end = self.starts.get(to).copied();
            let last = self.starts.last().map_or(0, |last| last + 1);
            found.push((
                at,
                FigureStep {
                    seen: (self.starts[from], end.unwrap_or(last)),
                    window: self.starts[at],
                    chance: (step.chance * self.tests).min(1.0),
                },
            ));
        }
        found.sort_by_key(|(at, _)| *at);
        found
    }

    /// The first of its blocks that begins with this window or a later one.
    pub fn place_of(&self, window: usize) -> usize {
        self.starts.partition_point(|start| *start < window)
    }

    /// The change between the windows `from..at` and `at..to`, if it is one, with its chance over all places.
    pub fn change(&self, from: usize, at: usize, to: usize) -> Option<LevelStep> {
        let [from, at, to] = [from, at, to].map(|window| self.place_of(window));
        if at < from + 2 || to < at + 2 {
            return None;
        }
        // Each side by itself: a short phase beside a long one is not drawn in.
        let side = |from: usize, to: usize| {
            let values = self.values.get(from..to)?;
            Some(drawn_in(values).unwrap_or_else(|| values.to_vec()))
        };
        let (mut values, right) = (side(from, at)?, side(at, to)?);
        values.extend(right);
        let mut step = step_at(&values, at - from, self.near(from, to))?;
        if !self.counts(&step) {
            return None;
        }
        step.chance = (step.chance * self.tests).min(1.0);
        Some(step)
    }
}

/// Seeded intervals of so many values: each layer's are shorter by √2, down to two phases.
fn intervals(values: usize) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    let mut layer = 0i32;
    loop {
        let ratio = std::f64::consts::SQRT_2.powi(layer);
        let length = values as f64 / ratio;
        let windows = whole(length.ceil());
        if windows < 2 * PHASE_MIN || windows > values {
            return all;
        }
        let count = 2 * whole(ratio.ceil()) - 1;
        let shift = match count {
            1 => 0.0,
            count => (values as f64 - length) / (count - 1) as f64,
        };
        for number in 0..count {
            let from = whole((number as f64 * shift).floor());
            let to = whole((number as f64 * shift + length).ceil()).min(values);
            all.push((from, to));
        }
        layer += 1;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of lengths, which are small and not negative; a cast of a float saturates"
)]
fn whole(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_lie_within_and_cover_all() {
        for values in [0, 7, 8, 12, 100, BLOCKS_MAX] {
            let all = intervals(values);
            assert!(all.iter().all(|(from, to)| to - from >= 8 && *to <= values));
            assert_eq!(all.is_empty(), values < 8, "{values}");
            if values >= 8 {
                assert_eq!(all[0], (0, values));
            }
            // Each place has a short interval with a phase on both sides.
            for place in PHASE_MIN..(values + 1).saturating_sub(PHASE_MIN) {
                let is_around = |(from, to): &&(usize, usize)| {
                    (from + PHASE_MIN..=to - PHASE_MIN).contains(&place) && to - from <= 26
                };
                assert!(
                    all.iter().any(|one| is_around(&one)) || values < 26,
                    "{values}: {place}"
                );
            }
        }
    }

    #[test]
    fn absent_values_are_left_out_and_keep_their_windows() {
        let level = |window: usize| if window < 20 { 100.0 } else { 200.0 };
        let mut values: Vec<Option<f64>> = (0..40)
            .map(|window| Some(level(window) + (window * 7 % 5) as f64))
            .collect();
        for absent in [0, 1, 7, 18, 19, 30] {
            values[absent] = None;
        }
        let blocks = Blocks::new(PhaseFigure::CxlLinesPerSec, &values, 1).unwrap();
        let steps = blocks.steps();
        let windows: Vec<usize> = steps.iter().map(|step| step.window).collect();
        assert_eq!(windows, [20]);
        assert!(steps[0].chance <= SIGNIFICANCE);
        let change = blocks.change(0, 20, 40).unwrap();
        assert!((change.after / change.before - 200.0 / 100.0).abs() < 0.1);
        assert!(Blocks::new(PhaseFigure::CxlRatio, &[None; 40], 1).is_none());
        assert!(Blocks::new(PhaseFigure::CxlRatio, &[Some(1.0); 11], 1).is_none());
    }

    /// 4 % more is significant where nothing scatters, and still no phase.
    #[test]
    fn small_changes_are_no_phases() {
        let values = |after: f64| -> Vec<Option<f64>> {
            (0..40)
                .map(|window| {
                    Some(if window < 20 { 100.0 } else { after } + (window % 3) as f64 * 0.1)
                })
                .collect()
        };
        let found = |figure, after| {
            Blocks::new(figure, &values(after), 1)
                .unwrap()
                .steps()
                .len()
        };
        assert_eq!(found(PhaseFigure::CxlLinesPerSec, 104.0), 0);
        assert_eq!(found(PhaseFigure::CxlLinesPerSec, 107.0), 1);
    }
}
