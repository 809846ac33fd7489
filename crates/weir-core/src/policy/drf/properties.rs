// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a filling promises, on cases that chance chose: weights, needs of 0, demands with and without an
//! end. Each property has a measure of the worst violation, which rounding alone may cause.

use super::*;
use crate::policy::{Demand, split};
use crate::units::BytesPerSec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;

const CASES: u32 = 20_000;

/// The most that rounding may violate a property by, relative to what is compared.
const WORST: f64 = 1e-9;

#[derive(Clone, Debug)]
struct Wish {
    weight: f64,
    demand: f64,
    threads: f64,
    needs: Vec<Need>,
}

impl Wish {
    fn flow(&self) -> Flow<'_> {
        Flow {
            weight: self.weight,
            demand: self.demand,
            threads: self.threads,
            needs: &self.needs,
        }
    }

    /// The progress that it can make with so much of each resource.
    fn progress(&self, amounts: &[f64]) -> f64 {
        let each = self.needs.iter().zip(amounts);
        let needed = each.filter(|(need, _)| need.total() > 0.0);
        let least = needed
            .map(|(need, amount)| amount / need.total())
            .fold(f64::INFINITY, f64::min);
        least.min(self.wants())
    }

    fn wants(&self) -> f64 {
        match self.needs.first().map_or(0.0, |cpu| cpu.total()) {
            0.0 => self.demand,
            cpu => self.demand.min(self.threads / cpu),
        }
    }

    fn takes(&self, progress: f64) -> Vec<f64> {
        let each = self.needs.iter();
        each.map(|need| need.total() * progress).collect()
    }
}

#[derive(Clone, Debug)]
struct RandomCase {
    capacities: Vec<f64>,
    wishes: Vec<Wish>,
    lie: Wish,
    liar: usize,
}

fn resources(capacities: &[f64]) -> Vec<Resource> {
    let resource = |(place, &capacity): (usize, &f64)| Resource {
        kind: match place {
            0 => ResourceKind::Cpu,
            1 => ResourceKind::Dram,
            _ => ResourceKind::Cxl,
        },
        capacity,
    };
    capacities.iter().enumerate().map(resource).collect()
}

impl RandomCase {
    fn run(&self, wishes: &[Wish]) -> Vec<Level> {
        let flows: Vec<Flow<'_>> = wishes.iter().map(Wish::flow).collect();
        fill(&resources(&self.capacities), &flows)
    }
}

fn any_need() -> impl Strategy<Value = Need> {
    let amount = || prop_oneof![2 => Just(0.0), 5 => 0.01..5.0f64, 1 => 1e-6..1e6f64];
    (amount(), amount(), 0..4u8).prop_map(|(own, dma, kind)| match kind {
        0 => Need { own, dma },
        _ => Need::own(own),
    })
}

fn any_wish(resources: usize) -> impl Strategy<Value = Wish> {
    let weight = prop_oneof![Just(100.0), Just(50.0), 1.0..1e4f64];
    let demand = prop_oneof![Just(f64::INFINITY), 0.1..10.0f64, Just(0.0)];
    let threads = prop_oneof![Just(f64::INFINITY), (1..9u8).prop_map(f64::from)];
    let needs = prop::collection::vec(any_need(), resources);
    (weight, demand, threads, needs).prop_map(move |(weight, demand, threads, mut needs)| {
        if needs.iter().all(|need| need.total() == 0.0) {
            needs[resources - 1] = Need::own(1.0);
        }
        Wish {
            weight,
            demand,
            threads,
            needs,
        }
    })
}

fn any_case(resources: std::ops::Range<usize>) -> impl Strategy<Value = RandomCase> {
    resources.prop_flat_map(|m| {
        let capacities = prop::collection::vec(0.5..20.0f64, m);
        let wishes = prop::collection::vec(any_wish(m), 1..9);
        (
            capacities,
            wishes,
            any_wish(m),
            any::<prop::sample::Index>(),
        )
            .prop_map(|(capacities, wishes, lie, liar)| RandomCase {
                liar: liar.index(wishes.len()),
                capacities,
                wishes,
                lie,
            })
    })
}

/// Runs a measure on all cases and holds its worst to [`WORST`].
fn hold(what: &str, resources: std::ops::Range<usize>, measure: impl Fn(&RandomCase) -> f64) {
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let worst = Cell::new(0.0f64);
    let outcome = TestRunner::new(config).run(&any_case(resources), |case| {
        let found = measure(&case);
        worst.set(worst.get().max(found));
        prop_assert!(found <= WORST, "{}: {}", what, found);
        Ok(())
    });
    println!("{what}: worst {:.1e} in {CASES} cases", worst.get());
    outcome.expect(what);
}

/// How far `less` is below `more`, relative to it; 0 if it is not.
fn below(less: f64, more: f64) -> f64 {
    if more > less {
        (more - less) / more.max(1e-9)
    } else {
        0.0
    }
}

#[test]
fn sharing_incentive() {
    hold("sharing incentive", 1..5, |case| {
        let got = case.run(&case.wishes);
        let all: f64 = case.wishes.iter().map(|wish| wish.weight).sum();
        let alone = |wish: &Wish| {
            let part = |capacity: &f64| capacity * wish.weight / all;
            wish.progress(&case.capacities.iter().map(part).collect::<Vec<_>>())
        };
        let each = case.wishes.iter().zip(&got);
        each.map(|(wish, level)| below(level.progress, alone(wish)))
            .fold(0.0, f64::max)
    });
}

#[test]
fn strategy_proofness() {
    hold("strategy-proofness", 1..5, |case| {
        let honest = case.run(&case.wishes)[case.liar].progress;
        let truth = &case.wishes[case.liar];
        let mut wishes = case.wishes.clone();
        let mut lies = vec![case.lie.clone()];
        // Needs that are a little more or less than the true ones, and a demand without end.
        for factor in [0.7, 1.3] {
            let mut near = truth.clone();
            near.demand = f64::INFINITY;
            let needs = near.needs.iter_mut().zip(&case.lie.needs);
            needs
                .filter(|(_, lie)| lie.own > 1.0)
                .for_each(|(need, _)| need.own *= factor);
            lies.push(near);
        }
        let mut worst = 0.0f64;
        for lie in lies {
            wishes[case.liar] = Wish {
                weight: truth.weight,
                ..lie
            };
            let got = case.run(&wishes)[case.liar].progress;
            let useful = truth.progress(&wishes[case.liar].takes(got));
            worst = worst.max(below(honest, useful));
        }
        worst
    });
}

#[test]
fn envy_freeness() {
    hold("envy-freeness", 1..5, |case| {
        let got = case.run(&case.wishes);
        let mut worst = 0.0f64;
        for (wish, own) in case.wishes.iter().zip(&got) {
            for (other, its) in case.wishes.iter().zip(&got) {
                let scaled = its.progress * wish.weight / other.weight;
                worst = worst.max(below(own.progress, wish.progress(&other.takes(scaled))));
            }
        }
        worst
    });
}

#[test]
fn pareto_efficiency() {
    hold("Pareto efficiency", 1..5, |case| {
        let got = case.run(&case.wishes);
        let used = |place: usize| -> f64 {
            let each = case.wishes.iter().zip(&got);
            each.map(|(wish, level)| wish.needs[place].total() * level.progress)
                .sum()
        };
        let free: Vec<f64> = (0..case.capacities.len())
            .map(|place| 1.0 - used(place) / case.capacities[place])
            .collect();
        // No resource is used beyond what there is; a flow that wants more needs one that is full.
        let mut worst = free.iter().fold(0.0, |most: f64, free| most.max(-free));
        for (wish, level) in case.wishes.iter().zip(&got) {
            if level.progress < wish.wants() * (1.0 - 1e-9) {
                let needed = wish.needs.iter().zip(&free);
                let least = needed
                    .filter(|(need, _)| need.total() > 0.0)
                    .map(|(_, free)| free.max(0.0))
                    .fold(f64::INFINITY, f64::min);
                worst = worst.max(least);
            }
        }
        worst
    });
}

#[test]
fn one_resource_is_max_min() {
    hold("one resource", 1..2, |case| {
        let got = case.run(&case.wishes);
        let rate = |wish: &Wish| wish.wants().min(1e9) * wish.needs[0].total();
        let demand = |wish: &Wish| Demand {
            bytes_per_sec: BytesPerSec::new(rate(wish)),
            weight: wish.weight,
        };
        let demands: Vec<Demand> = case.wishes.iter().map(demand).collect();
        let budget = BytesPerSec::new(case.capacities[0]);
        let want = split(&demands, budget);
        let each = case.wishes.iter().zip(&got).zip(&want);
        each.map(|((wish, level), want)| {
            let got = wish.needs[0].total() * level.progress.min(1e9);
            (got - want.get()).abs() / case.capacities[0]
        })
        .fold(0.0, f64::max)
    });
}

/// Raises the level in steps, with all figures added up anew at each: the rule as it is written, O(n²·m).
fn plain(case: &RandomCase) -> Vec<f64> {
    let share = |wish: &Wish, place: usize| wish.needs[place].total() / case.capacities[place];
    let places = 0..case.capacities.len();
    let pace: Vec<f64> = case
        .wishes
        .iter()
        .map(|wish| wish.weight / places.clone().map(|j| share(wish, j)).fold(0.0, f64::max))
        .collect();
    let mut done = vec![0.0; pace.len()];
    let mut live: Vec<usize> = (0..pace.len())
        .filter(|&i| case.wishes[i].wants() > 0.0)
        .collect();
    while !live.is_empty() {
        let rises = |j: usize| -> f64 {
            live.iter()
                .map(|&i| pace[i] * share(&case.wishes[i], j))
                .sum()
        };
        let left = |done: &[f64], j: usize| -> f64 {
            let used = case.wishes.iter().zip(done);
            1.0 - used.map(|(wish, done)| done * share(wish, j)).sum::<f64>()
        };
        let satisfied = live
            .iter()
            .map(|&i| (case.wishes[i].wants() - done[i]) / pace[i]);
        let full = places
            .clone()
            .filter(|&j| rises(j) > 0.0)
            .map(|j| left(&done, j).max(0.0) / rises(j));
        let step = satisfied.chain(full).fold(f64::INFINITY, f64::min);
        live.iter().for_each(|&i| done[i] += pace[i] * step);
        let is_full: Vec<bool> = places.clone().map(|j| left(&done, j) <= 1e-12).collect();
        live.retain(|&i| {
            let wish = &case.wishes[i];
            let stopped = places.clone().any(|j| is_full[j] && share(wish, j) > 0.0);
            !stopped && done[i] < wish.wants() * (1.0 - 1e-12)
        });
    }
    done
}

#[test]
fn events_give_what_steps_give() {
    hold("events and steps", 1..5, |case| {
        let got = case.run(&case.wishes);
        let each = got.iter().zip(plain(case));
        each.map(|(level, want)| (level.progress - want).abs() / want.max(1e-6))
            .fold(0.0, f64::max)
    });
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        0.0..1e12f64
    ]
}

proptest! {
    #[test]
    fn no_input_gives_nonsense(
        capacities in prop::collection::vec(any_number(), 0..5),
        wishes in prop::collection::vec(
            (any_number(), any_number(), any_number(),
             prop::collection::vec((any_number(), any_number()), 0..6)),
            0..12,
        ),
    ) {
        let wishes: Vec<Wish> = wishes
            .into_iter()
            .map(|(weight, demand, threads, needs)| Wish {
                weight,
                demand,
                threads,
                needs: needs.into_iter().map(|(own, dma)| Need { own, dma }).collect(),
            })
            .collect();
        let resources = resources(&capacities);
        let flows: Vec<Flow<'_>> = wishes.iter().map(Wish::flow).collect();
        let got = fill(&resources, &flows);
        prop_assert_eq!(got.len(), flows.len());
        for (level, wish) in got.iter().zip(&wishes) {
            prop_assert!(level.progress >= 0.0 && (level.progress <= wish.demand || level.progress == 0.0));
            prop_assert!(level.level.is_finite() && level.level >= 0.0, "{:?}", level);
            prop_assert!((0.0..=1.0).contains(&level.dominant_ratio), "{:?}", level);
        }
    }
}
