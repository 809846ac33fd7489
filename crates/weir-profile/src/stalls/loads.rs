// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stalls on loads: the dependence is fitted until the model stalls as much as the core did, and the split is
//! read off it.

use super::core_model::{CoreModel, LoadClass, ModelRun, run};
use super::draws::Draws;
use super::ways::{Times, at_the_end, late_cycles};
use super::{StallPlace, Stalled};
use crate::figure::sources::Sources;
use weir_core::window::role::Stage;

/// Loads of a run that is fitted, and of the one that is read off.
pub const LOADS: [usize; 2] = [1200, 3000];
/// Runs of a fit. Each halves the interval in which the dependence lies, so that it is known to 1 in 512.
const STEPS: usize = 9;
/// Instructions of the window of Golden Cove and later (Intel's optimization manual, 2.5). A recording does
/// not say how long the window is, so every core is taken to have this one. The error bar of a share is what
/// half of it changes. That holds for windows of a half, and is too narrow for those of a third or a quarter,
/// which no CPU in weir's tables of these counters has (docs/evidence/stalls.md).
pub const WINDOW: f64 = 512.0;
/// Fill buffers of the same, where the recording does not say how many there are; and as many as it may say.
const BUFFERS: u32 = 16;
const BUFFERS_MAX: u32 = 1024;
/// Seed of the draws: the same counts give the same split.
pub const SEED: u64 = 1;

/// What loads stall, and what the rest of the time is.
#[derive(Clone, Copy, Debug)]
pub struct LoadStalls {
    /// Cycles stalled on loads.
    pub stalled: f64,
    /// Cycles that are not stalled.
    pub working: f64,
    pub instructions: f64,
}

/// A model that stalls as much as the core.
#[derive(Clone, Debug)]
pub struct LoadFit {
    pub core: CoreModel,
    /// The part of the loads that need the load before.
    pub dependence: f64,
    /// The run that is read off.
    pub run: ModelRun,
}

/// Fill buffers of a core.
pub fn buffers(sources: &Sources) -> usize {
    let said = sources.fill_buffers.unwrap_or(BUFFERS);
    said.clamp(1, BUFFERS_MAX) as usize
}

/// Finds the dependence, in a core with such a window and so many fill buffers.
pub fn fit(known: &LoadStalls, classes: &[LoadClass], window: f64, buffers: usize) -> LoadFit {
    let all: f64 = classes.iter().map(|class| class.loads).sum();
    let core = CoreModel {
        window,
        buffers,
        instruction_cycles: known.working / known.instructions,
        gap: known.instructions / all,
    };
    let wanted = known.stalled / (known.stalled + known.working);
    let draws = Draws::new(classes, LOADS[0], SEED);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        let made = run(&core, classes, &draws, middle);
        if made.stalled < wanted * made.cycles {
            low = middle
        } else {
            high = middle
        }
    }
    let draws = Draws::new(classes, LOADS[1], SEED);
    LoadFit {
        core,
        dependence: high,
        run: run(&core, classes, &draws, high),
    }
}

impl LoadFit {
    /// The part of the time that the model stalls, ÷ that of the core. 1 unless no dependence fits.
    pub fn ratio(&self, known: &LoadStalls) -> f64 {
        let wanted = known.stalled / (known.stalled + known.working);
        self.run.stalled / self.run.cycles / wanted
    }

    /// The stalled cycles by place. They sum to what was stalled.
    pub fn parts(&self, known: &LoadStalls, classes: &[LoadClass], times: &Times) -> Vec<Stalled> {
        let of_runs: f64 = self.run.parts.iter().flatten().sum();
        if of_runs <= 0.0 {
            return even(known.stalled, classes);
        }
        let scale = known.stalled / of_runs;
        let is_late = |class: &LoadClass| class.left_cycles.is_some();
        let rows = || classes.iter().zip(&self.run.parts);
        let late = rows().filter(|(class, _)| is_late(class));
        let (lines, stalled) = late.fold((0.0, 0.0), |(lines, stalled), (class, row)| {
            (
                lines + class.loads,
                stalled + scale * row.iter().sum::<f64>(),
            )
        });
        let mean = late_cycles(times, stalled, lines);
        let mut parts = Vec::new();
        for (class, row) in rows() {
            let (row, buffer) = row.split_at(class.legs.len());
            let on_legs = if is_late(class) {
                at_the_end(&class.legs, row.iter().sum(), mean)
            } else {
                row.to_vec()
            };
            let part = |stage, cycles: f64| Stalled {
                place: StallPlace::new(stage, class.path, class.target),
                cycles: cycles * scale,
                is_late: is_late(class),
            };
            parts.push(part(Stage::FillBuffer, buffer[0]));
            parts.extend(
                class
                    .legs
                    .iter()
                    .zip(on_legs)
                    .map(|(leg, c)| part(leg.stage, c)),
            );
        }
        parts
    }
}

/// Divides the stalls where the model does not stall and the core did: by the time that the loads take.
fn even(stalled: f64, classes: &[LoadClass]) -> Vec<Stalled> {
    let all: f64 = classes
        .iter()
        .map(|class| class.loads * class.cycles())
        .sum();
    let of = |class: &LoadClass| {
        let legs = class.legs.iter();
        let part = legs.map(|leg| Stalled {
            place: StallPlace::new(leg.stage, class.path, class.target),
            cycles: stalled * (class.loads * leg.cycles / all),
            is_late: true,
        });
        part.collect::<Vec<_>>()
    };
    classes.iter().flat_map(of).collect()
}
