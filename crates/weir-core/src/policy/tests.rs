// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every policy promises, and what max-min promises in addition.

use super::*;
use proptest::prelude::*;

fn demand(rate: f64, weight: f64) -> Demand {
    Demand {
        bytes_per_sec: BytesPerSec::new(rate),
        weight,
    }
}

fn rates(parts: &[BytesPerSec]) -> Vec<f64> {
    parts.iter().map(|p| p.get()).collect()
}

fn run(demands: &[Demand], budget: f64) -> Vec<f64> {
    rates(&split(demands, BytesPerSec::new(budget)))
}

/// Rates from nothing to more than a 64-bit counter holds, and some that are no numbers.
fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(u64::MAX as f64),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(f64::NAN),
        Just(f64::INFINITY),
        0.0..2e19f64,
        0.0..10.0f64,
        any::<f64>(),
    ]
}

fn any_weight() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(100.0),
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        1.0..1e4f64,
        any::<f64>()
    ]
}

fn sane_demands() -> impl Strategy<Value = Vec<Demand>> {
    let rate = prop_oneof![Just(0.0), 0.0..2e19f64, 0.0..1e3f64];
    prop::collection::vec((rate, 1.0..1e4f64), 0..60)
        .prop_map(|all| all.into_iter().map(|(r, w)| demand(r, w)).collect())
}

#[test]
fn names_are_read_back() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
        let quoted = serde_json::to_string(&policy).expect("text");
        assert_eq!(
            quoted,
            format!("{:?}", policy.name()),
            "flag and file use one name"
        );
    }
    let wrong = "fair".parse::<Policy>().expect_err("no such policy");
    assert!(
        wrong.to_string().contains("max-min"),
        "the error names the choices: {wrong}"
    );
}

#[test]
fn water_filling_by_hand() {
    let equal = [demand(0.5, 100.0), demand(1.2, 100.0), demand(3.3, 100.0)];
    let got = run(&equal, 4.0);
    assert!(
        (got[0] - 0.5).abs() + (got[1] - 1.2).abs() + (got[2] - 2.3).abs() < 1e-12,
        "{got:?}"
    );
    let weighted = [demand(10.0, 100.0), demand(10.0, 300.0), demand(0.5, 100.0)];
    let got = run(&weighted, 4.5);
    assert!(
        (got[0] - 1.0).abs() + (got[1] - 3.0).abs() + (got[2] - 0.5).abs() < 1e-12,
        "{got:?}"
    );
}

#[test]
fn demands_within_the_budget_are_granted_in_full() {
    let demands = [demand(1.0, 1.0), demand(0.0, 7.0), demand(2.0, 100.0)];
    assert_eq!(run(&demands, 3.0), [1.0, 0.0, 2.0]);
    assert_eq!(run(&[], 3.0), Vec::<f64>::new());
    assert_eq!(run(&demands[..1], 0.25), [0.25], "one workload");
}

#[test]
fn a_hundred_thousand_workloads() {
    let demands: Vec<Demand> = (0..100_000)
        .map(|i| demand(f64::from(i % 977) * 1e6, f64::from(1 + i % 13)))
        .collect();
    let total: f64 = demands.iter().map(|d| d.bytes_per_sec.get()).sum();
    let got = run(&demands, total * 0.4);
    assert_eq!(got.len(), demands.len());
    let sum: f64 = got.iter().sum();
    assert!((sum / (total * 0.4) - 1.0).abs() < 1e-9, "{sum}");
}

proptest! {
    #[test]
    fn a_split_gives_no_nonsense(
        demands in prop::collection::vec((any_rate(), any_weight()), 0..50),
        budget in any_rate(),
    ) {
        let demands: Vec<Demand> = demands.into_iter().map(|(r, w)| demand(r, w)).collect();
        let got = run(&demands, budget);
        prop_assert_eq!(got.len(), demands.len());
        for (part, demand) in got.iter().zip(&demands) {
            prop_assert!(part.is_finite() && *part >= 0.0, "{}", part);
            prop_assert!(*part <= demand.bytes_per_sec.get(), "more than was demanded");
        }
    }

    #[test]
    fn max_min_is_exact(demands in sane_demands(), budget in prop_oneof![0.0..2e3f64, 0.0..1e21f64]) {
        let got = run(&demands, budget);
        let (sum, demanded): (f64, f64) =
            (got.iter().sum(), demands.iter().map(|d| d.bytes_per_sec.get()).sum());
        let want = demanded.min(budget);
        prop_assert!((sum - want).abs() <= 1e-9 * want, "sum {} should be {}", sum, want);
    }

    #[test]
    fn water_stands_equally_high(demands in sane_demands(), budget in 0.0..2e3f64) {
        let got = run(&demands, budget);
        let limited = |i: usize| got[i] < demands[i].bytes_per_sec.get() * (1.0 - 1e-12);
        let level = |i: usize| got[i] / demands[i].weight;
        let highest = (0..got.len()).map(level).fold(0.0, f64::max);
        for i in (0..got.len()).filter(|&i| limited(i)) {
            prop_assert!(level(i) >= highest * (1.0 - 1e-9), "{} is limited below the water line", i);
        }
    }

    #[test]
    fn weights_hold(rate in 1e3..1e9f64, weights in prop::collection::vec(1.0..1e4f64, 2..20)) {
        // Each demand is more than the whole budget, so only the weights decide.
        let demands: Vec<Demand> = weights.iter().map(|&w| demand(rate, w)).collect();
        let got = run(&demands, rate);
        let total: f64 = weights.iter().sum();
        for (part, weight) in got.iter().zip(&weights) {
            prop_assert!((part / (rate * weight / total) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn order_does_not_matter(
        demands in prop::collection::btree_map(1u64..1 << 40, 1.0..1e4f64, 2..40),
        budget in 1.0..1e12f64,
        shift in 0usize..40,
    ) {
        let there: Vec<Demand> = demands.iter().map(|(&r, &w)| demand(r as f64, w)).collect();
        let mut back = there.clone();
        back.reverse();
        let shift = shift % back.len();
        back.rotate_left(shift);
        let straight = run(&there, budget);
        let mut turned = run(&back, budget);
        turned.rotate_right(shift);
        turned.reverse();
        for (a, b) in straight.iter().zip(&turned) {
            prop_assert!((a - b).abs() <= 1e-9 * a.max(*b), "{} and {}", a, b);
        }
    }
}
