// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many loads take which way: loads by where they were found, demand reads that left the core, and what
//! both leave: loads that met a prefetch which was under way.

use super::core_model::{Leg, LoadClass};
use super::ways::{SUPPLIERS, Times, is_cxl, legs};
use crate::figure::Figure;
use crate::figure::sources::Sources;
use crate::path_map::lines_of;
use crate::quality::Refusal;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Loads that found their line in L2.
pub fn l2_hits(sources: &Sources) -> f64 {
    let role = |quantity| Role::new(Stage::L2, AccessPath::Drd, Target::Own, quantity);
    let loads = sources.own.get(role(Quantity::Loads));
    let hits = loads.or_else(|_| sources.own.get(role(Quantity::Lines)));
    hits.map_or(0.0, |figure| figure.value)
}

/// Loads that found their data at a supplier, as the core retires them.
fn loads_from(sources: &Sources, target: Target) -> Result<Figure, Refusal> {
    let stage = match target {
        Target::Own | Target::RemoteCache | Target::Snc => Stage::Llc,
        target if is_cxl(target) => Stage::Device,
        _ => Stage::Imc,
    };
    sources.count(stage, AccessPath::Drd, target, Quantity::Loads)
}

/// Demand reads of a supplier that left the core.
fn demand_from(sources: &Sources, target: Target) -> Result<Figure, Refusal> {
    let whole = match target {
        Target::DramOwn => Some(Target::Dram),
        Target::CxlOwn => Some(Target::Cxl),
        _ => None,
    };
    let get = |target| lines_of(sources.own, AccessPath::Drd, target);
    get(target).or_else(|why| match whole {
        Some(whole) => get(whole).map_err(|_| why),
        None => Err(why),
    })
}

/// Loads of each supplier for which no demand read left the core: they met a prefetch that was under way.
pub fn met_prefetch(sources: &Sources) -> Vec<(Target, f64)> {
    let targets = SUPPLIERS.iter().map(|(target, _)| *target);
    let all = [Target::Own, Target::Snc].into_iter().chain(targets);
    let met = all.filter_map(|target| {
        let loads = loads_from(sources, target).ok()?.value;
        let demand = demand_from(sources, target).ok()?.value;
        // Scatter of counts that are read one after the other.
        let met = loads - demand;
        (met > 3.0 * loads.sqrt() + 0.01 * loads).then_some((target, met))
    });
    met.collect()
}

/// All loads that miss L1D, by the way they take.
///
/// # Errors
/// Neither lines nor loads were counted by supplier, or there were none.
pub fn load_classes(sources: &Sources, times: &Times) -> Result<Vec<LoadClass>, Refusal> {
    let met = met_prefetch(sources);
    let met_of = |target| {
        met.iter()
            .find(|(known, _)| *known == target)
            .map_or(0.0, |m| m.1)
    };
    let class = |path, target, loads, legs, left_cycles| LoadClass {
        path,
        target,
        loads,
        legs,
        left_cycles,
    };
    let own = vec![Leg {
        stage: Stage::L2,
        cycles: times.l2,
    }];
    let mut classes = vec![class(
        AccessPath::Drd,
        Target::Own,
        l2_hits(sources),
        own,
        None,
    )];
    let mut first = None;
    let left = Left::new(sources, times, &met);
    let caches = [Target::Own, Target::Snc];
    let behind = times.behind.iter().map(|way| way.target);
    for target in caches.into_iter().chain(behind) {
        let demand = demand_from(sources, target).or_else(|_| loads_from(sources, target));
        let demand = match demand {
            Ok(figure) => figure.value,
            Err(why) => {
                first = first.or(Some(why));
                0.0
            }
        };
        classes.push(class(
            AccessPath::Drd,
            target,
            demand,
            legs(times, target),
            None,
        ));
        let met = met_of(target);
        if met > 0.0 {
            let way = legs(times, target);
            let cycles = way.iter().map(|leg| leg.cycles).sum::<f64>();
            classes.push(class(
                AccessPath::PfL2,
                target,
                met,
                way,
                Some(left.of(cycles)),
            ));
        }
    }
    classes.retain(|class| class.loads > 0.0 && class.cycles() > 0.0);
    if classes.is_empty() {
        Err(first.unwrap_or(Refusal::NoRequests {
            what: "loads that miss L1D".into(),
        }))
    } else {
        Ok(classes)
    }
}

/// What is left of the ways of lines that prefetches have under way when loads come for them.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// Cycles that prefetches come ahead, if all come as much.
    ahead: f64,
    /// Mean cycles that are left.
    mean: f64,
}

impl Left {
    /// Cycles that are left of a way. Prefetches come neither a fixed time ahead (then more would be left of
    /// a longer way), nor is the same left of each: the middle of both is taken. That was chosen on machines
    /// of the synthetic server, seeds 140000 to 140029, and measured on others (docs/evidence/stalls.md).
    fn of(&self, cycles: f64) -> f64 {
        ((cycles - self.ahead).max(0.0) + self.mean.min(cycles)) / 2.0
    }

    /// The mean is the time in fill buffers that demand reads do not explain.
    fn new(sources: &Sources, times: &Times, met: &[(Target, f64)]) -> Left {
        let own = |stage, quantity| {
            let role = Role::new(stage, AccessPath::Drd, Target::Any, quantity);
            sources.own.get(role).map_or(0.0, |figure| figure.value)
        };
        let held = own(Stage::FillBuffer, Quantity::Occupancy);
        let behind = own(Stage::SuperQueue, Quantity::Occupancy);
        let requests = own(Stage::SuperQueue, Quantity::Inserts) + l2_hits(sources);
        let left = (held - behind - requests * times.l2).max(0.0);
        let cycles = |target| -> f64 { legs(times, target).iter().map(|leg| leg.cycles).sum() };
        let ways: Vec<(f64, f64)> = met.iter().map(|(t, loads)| (*loads, cycles(*t))).collect();
        let longest = ways.iter().map(|(_, cycles)| *cycles).fold(0.0, f64::max);
        let all: f64 = met.iter().map(|(_, loads)| loads).sum();
        if held <= 0.0 || all <= 0.0 {
            return Left {
                ahead: longest / 2.0,
                mean: longest / 2.0,
            };
        }
        Left {
            ahead: hidden_cycles(&ways, left),
            mean: left / all,
        }
    }
}

/// The cycles h that, hidden of each way, leave `left` of all of them together: Σ n · max(cycles − h, 0) =
/// left. The sum falls with h, so that halving finds it.
pub fn hidden_cycles(ways: &[(f64, f64)], left: f64) -> f64 {
    let (mut low, mut high) = (
        0.0,
        ways.iter().map(|(_, cycles)| *cycles).fold(0.0, f64::max),
    );
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        let sum: f64 = ways
            .iter()
            .map(|(n, cycles)| n * (cycles - middle).max(0.0))
            .sum();
        if sum > left {
            low = middle
        } else {
            high = middle
        }
    }
    low
}
