// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of all figures of a subject together: a phase begins where one figure or more change, at the
//! window at which all that change there agree best.

use super::figures::{FigureValues, PhaseFigure};
use super::segments::{BLOCKS_MAX, Blocks};
use super::step::{PHASE_MIN, median};
use serde::Serialize;

/// A figure that changed where a phase begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseChange {
    pub figure: PhaseFigure,
    /// Its mean in the phase before.
    pub before: f64,
    /// Its mean in this one.
    pub after: f64,
    /// How probably chance makes such a change somewhere in the recording, at most.
    pub chance_max: f64,
}

/// Where a phase begins.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseStart {
    /// Its first window, from 0.
    pub window: usize,
    /// What changed, the surest first.
    pub changes: Vec<PhaseChange>,
}

/// What is looked at: figures in blocks of so many windows.
#[derive(Clone, Debug)]
pub struct PhaseSearch {
    /// Windows of a block.
    pub block: usize,
    blocks: Vec<Blocks>,
    windows: usize,
}

impl PhaseSearch {
    /// A search in a subject's figures.
    pub fn new(figures: &[FigureValues], windows: usize) -> PhaseSearch {
        let block = windows.div_ceil(BLOCKS_MAX).max(1);
        let blocks = figures.iter();
        let blocks = blocks.filter_map(|one| Blocks::new(one.figure, &one.values, block));
        PhaseSearch {
            block,
            blocks: blocks.collect(),
            windows,
        }
    }

    /// Figures that have enough known values.
    pub fn figures(&self) -> impl Iterator<Item = PhaseFigure> {
        self.blocks.iter().map(|blocks| blocks.figure)
    }

    /// Beginnings of phases but the first, in order.
    pub fn starts(&self, figures: &[FigureValues]) -> Vec<PhaseStart> {
        let mut places = self.merged();
        self.move_together(&mut places);
        let mut starts = self.kept(places);
        if self.block > 1 {
            for start in &mut starts {
                start.window = self.refined(start, figures);
            }
        }
        starts
    }

    /// Windows at which a figure changes: the surest where several lie close together.
    fn merged(&self) -> Vec<usize> {
        let steps = self.blocks.iter().flat_map(Blocks::steps);
        let mut steps: Vec<_> = steps.collect();
        steps.sort_by(|a, b| a.chance.total_cmp(&b.chance).then(a.window.cmp(&b.window)));
        let apart = PHASE_MIN * self.block;
        let mut places: Vec<usize> = Vec::new();
        for step in steps {
            let is_near = |other: &usize| step.window.abs_diff(*other) < apart;
            // The same change, seen less well in another figure.
            let is_in = |other: &usize| {
                let (from, to) = step.seen;
                (from + 1..to).contains(other) && step.window.abs_diff(*other) < 2 * apart
            };
            if !places.iter().any(|other| is_near(other) || is_in(other)) {
                places.push(step.window);
            }
        }
        places.sort_unstable();
        places
    }

    /// Moves each place to where all figures that change there leave least beside their levels.
    fn move_together(&self, places: &mut [usize]) {
        let apart = PHASE_MIN * self.block;
        for number in 0..places.len() {
            let from = number.checked_sub(1).map_or(0, |before| places[before]);
            let to = places.get(number + 1).copied().unwrap_or(self.windows);
            let at = places[number];
            let changed = self.blocks.iter();
            let changed = changed.filter(|blocks| blocks.change(from, at, to).is_some());
            let sides: Vec<(&Blocks, &[f64])> = changed
                .filter_map(|blocks| {
                    let (from, to) = (blocks.place_of(from), blocks.place_of(to));
                    Some((blocks, blocks.values.get(from..to)?))
                })
                .collect();
            let low = at.saturating_sub(2 * apart).max(from + apart);
            let high = (at + 2 * apart).min(to.saturating_sub(apart));
            let candidates = (low..=high).filter(|place| place % self.block == 0);
            let left = |place: usize| -> f64 {
                let all = sides.iter().map(|(blocks, values)| {
                    let cut = blocks.place_of(place) - blocks.place_of(from);
                    values.len() as f64 * left_beside(values, cut).max(1e-300).ln()
                });
                all.sum()
            };
            let best = candidates.min_by(|a, b| left(*a).total_cmp(&left(*b)));
            places[number] = best.unwrap_or(at);
        }
    }

    /// Places at which something changes between whole phases. The least sure one goes first, and what was
    /// two phases is one for those that stay.
    fn kept(&self, mut places: Vec<usize>) -> Vec<PhaseStart> {
        loop {
            let starts: Vec<PhaseStart> = (0..places.len())
                .map(|number| {
                    let from = number.checked_sub(1).map_or(0, |before| places[before]);
                    let to = places.get(number + 1).copied().unwrap_or(self.windows);
                    PhaseStart {
                        window: places[number],
                        changes: self.changes(from, places[number], to),
                    }
                })
                .collect();
            match starts.iter().position(|start| start.changes.is_empty()) {
                None => return starts,
                Some(none) => drop(places.remove(none)),
            }
        }
    }

    fn changes(&self, from: usize, at: usize, to: usize) -> Vec<PhaseChange> {
        let changes = self.blocks.iter().filter_map(|blocks| {
            let step = blocks.change(from, at, to)?;
            Some(PhaseChange {
                figure: blocks.figure,
                before: step.before,
                after: step.after,
                chance_max: step.chance,
            })
        });
        let mut changes: Vec<PhaseChange> = changes.collect();
        changes.sort_by(|a, b| a.chance_max.total_cmp(&b.chance_max));
        changes
    }

    /// The window at which the surest figure changes, near the beginning of a block.
    fn refined(&self, start: &PhaseStart, figures: &[FigureValues]) -> usize {
        let surest = start.changes.first().map(|change| change.figure);
        let values = figures.iter().find(|one| Some(one.figure) == surest);
        let reach = 2 * PHASE_MIN * self.block;
        let low = start.window.saturating_sub(reach);
        let high = (start.window + reach).min(self.windows);
        let near = values.and_then(|one| one.values.get(low..high));
        let known: Vec<(usize, f64)> = near
            .into_iter()
            .flatten()
            .enumerate()
            .filter_map(|(place, value)| Some((low + place, (*value)?)))
            .collect();
        let plain: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        // Within a block of where blocks have it.
        let cuts = (PHASE_MIN..plain.len().saturating_sub(PHASE_MIN))
            .filter(|cut| known[*cut].0.abs_diff(start.window) <= self.block);
        let best = cuts.min_by(|a, b| left_beside(&plain, *a).total_cmp(&left_beside(&plain, *b)));
        best.map_or(start.window, |cut| known[cut].0)
    }
}

/// What is left beside the medians of both sides, in all. Not squares: an odd value weighs no more than it
/// must, and a value between two levels belongs to the nearer one.
fn left_beside(values: &[f64], at: usize) -> f64 {
    let left = |side: &[f64]| -> f64 {
        let middle = median(&mut side.to_vec()).unwrap_or(0.0);
        side.iter().map(|value| (value - middle).abs()).sum()
    };
    let (before, after) = values.split_at(at.min(values.len()));
    left(before) + left(after)
}
