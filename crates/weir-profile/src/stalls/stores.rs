// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stalls on stores. Stores leave their buffer in order, so a full buffer waits for the line of the oldest.
//! How much of each way is hidden behind the stores before is fitted to the stall; lines that prefetch
//! fetched are waited for at the end of their way.

use super::core_model::Leg;
use super::load_counts::hidden_cycles;
use super::ways::{SUPPLIERS, Times, at_the_end, late_cycles, legs};
use super::{StallPlace, Stalled};
use crate::figure::sources::Sources;
use crate::path_map::lines_of;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Prefetched lines below this part of the lines that stores miss are scatter of the counts.
const MET_MIN: f64 = 0.02;

/// Lines that stores ask for, of a path and supplier.
#[derive(Clone, Debug)]
pub struct StoreClass {
    place: StallPlace,
    lines: f64,
    legs: Vec<Leg>,
}

impl StoreClass {
    fn cycles(&self) -> f64 {
        self.legs.iter().map(|leg| leg.cycles).sum()
    }
}

/// The lines, by the way they take. Stores that miss L2 and do not ask for their line themselves meet a
/// prefetch that has it under way. How many these are is known, and not where their lines come from: they are
/// shared out as the prefetched lines are.
pub fn store_classes(sources: &Sources, times: &Times) -> Vec<StoreClass> {
    let l2 = |target| {
        let role = Role::new(Stage::L2, AccessPath::Rfo, target, Quantity::Lines);
        sources.own.get(role).map_or(0.0, |figure| figure.value)
    };
    let lines = |path, target| lines_of(sources.own, path, target).map_or(0.0, |f| f.value);
    let behind = SUPPLIERS.iter().map(|(target, _)| *target);
    let targets: Vec<Target> = [Target::Own, Target::Snc]
        .into_iter()
        .chain(behind)
        .collect();
    let all = |path| {
        targets
            .iter()
            .map(|target| lines(path, *target))
            .sum::<f64>()
    };
    let (asked, prefetched) = (all(AccessPath::Rfo), all(AccessPath::Pf));
    let missed = l2(Target::Miss);
    let met = (missed - asked).max(0.0);
    let met = if met > MET_MIN * missed { met } else { 0.0 };
    let of = |path, target, lines| StoreClass {
        place: StallPlace::new(Stage::StoreBuffer, path, target),
        lines,
        legs: legs(times, target),
    };
    let hits = StoreClass {
        place: StallPlace::new(Stage::StoreBuffer, AccessPath::Rfo, Target::Own),
        lines: l2(Target::Own),
        legs: vec![Leg {
            stage: Stage::StoreBuffer,
            cycles: times.l2,
        }],
    };
    let mut classes = vec![hits];
    for target in targets {
        classes.push(of(AccessPath::Rfo, target, lines(AccessPath::Rfo, target)));
        if prefetched > 0.0 {
            let part = met * lines(AccessPath::Pf, target) / prefetched;
            classes.push(of(AccessPath::PfL2, target, part));
        }
    }
    classes.retain(|class| class.lines > 0.0 && class.cycles() > 0.0);
    classes
}

/// What all lines take, one after the other.
pub fn whole(classes: &[StoreClass]) -> f64 {
    classes
        .iter()
        .map(|class| class.lines * class.cycles())
        .sum()
}

/// Stalled cycles by place. They sum to what was stalled.
pub fn parts(classes: &[StoreClass], times: &Times, stalled: f64) -> Vec<Stalled> {
    let ways: Vec<(f64, f64)> = classes.iter().map(|c| (c.lines, c.cycles())).collect();
    // The cycles of each way that are hidden, where the stores stall so long.
    let hidden = hidden_cycles(&ways, stalled);
    let left = |class: &StoreClass| class.lines * (class.cycles() - hidden).max(0.0);
    let all_left: f64 = classes.iter().map(left).sum();
    let all_whole = whole(classes);
    if all_whole <= 0.0 {
        let place = StallPlace::new(Stage::StoreBuffer, AccessPath::Rfo, Target::Any);
        return vec![Stalled {
            place,
            cycles: stalled,
            is_late: true,
        }];
    }
    let behind = classes.iter().filter(|class| class.legs.len() > 1);
    let mean = late_cycles(times, stalled, behind.map(|class| class.lines).sum());
    let mut parts = Vec::new();
    for class in classes {
        // This is as with prefetches that loads meet: the middle of a fixed time ahead, and of the same part
        // of each way.
        let of_whole = class.lines * class.cycles() / all_whole;
        let of_left = if all_left > 0.0 {
            left(class) / all_left
        } else {
            of_whole
        };
        let cycles = stalled * (of_left + of_whole) / 2.0;
        let on_legs = at_the_end(&class.legs, cycles, mean);
        parts.extend(class.legs.iter().zip(on_legs).map(|(leg, cycles)| Stalled {
            place: StallPlace {
                stage: leg.stage,
                ..class.place
            },
            cycles,
            is_late: true,
        }));
    }
    parts
}
