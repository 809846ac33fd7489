// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's own rule (4.3.3.2): larger users are reduced by a larger factor.
//!
//! 1. Start with the reduction that every workload would need: `r = 1 − budget/total`.
//! 2. Sort by bandwidth. The *balance point* is the first place where the left part's sum exceeds
//!    the right part's, each part having at least one member.
//! 3. `d = 1 − avg(left)/avg(right)`. The left part goes on with `r·(1 − d)`, the right part with
//!    `min(1, r·(1 + d))`.
//! 4. Repeat in each part until it has one member: that one is reduced by its r.
//!
//! Worked example of the thesis (figure 3): 0.5, 1.2 and 3.3 GiB/s at 4 GiB/s give 3.74 GiB/s. The
//! sum is met only roughly, because the two parts never weigh the same; the error grows with the
//! overload. The rule knows no weights. It is here to be compared with.
//!
//! The thesis recurses and scans. A geometric series of demands would make that as deep as there
//! are workloads and quadratic in time. Here the parts wait on an explicit stack, sums come from
//! one table of prefix sums, and the balance point from a binary search, which is allowed because
//! prefix sums only rise.

use super::{Claim, ascending};

/// A part of the sorted workloads that is still to be divided.
struct Part {
    from: usize,
    to: usize,
    reduction: f64,
}

/// Called only when `total`, the sum of the claims, is above `budget`.
pub(super) fn split(claims: &[Claim], total: f64, budget: f64) -> Vec<f64> {
    let order = ascending(claims, |c| c.rate);
    let mut prefix = Vec::with_capacity(order.len() + 1);
    let mut sum = 0.0;
    prefix.push(sum);
    for &index in &order {
        sum += claims.get(index).map_or(0.0, |c| c.rate);
        prefix.push(sum);
    }

    let mut given = vec![0.0; claims.len()];
    let mut parts = vec![Part {
        from: 0,
        to: order.len(),
        reduction: 1.0 - budget / total,
    }];
    while let Some(part) = parts.pop() {
        if part.to - part.from > 1 {
            let (left, right) = divide(&part, &prefix);
            parts.extend([right, left]);
        } else if let Some(&index) = order.get(part.from)
            && let (Some(slot), Some(claim)) = (given.get_mut(index), claims.get(index))
        {
            *slot = claim.rate * (1.0 - part.reduction.clamp(0.0, 1.0));
        }
    }
    given
}

fn divide(part: &Part, prefix: &[f64]) -> (Part, Part) {
    let sum = |from: usize, to: usize| match (prefix.get(from), prefix.get(to)) {
        (Some(low), Some(high)) => high - low,
        _ => 0.0,
    };
    let (mut low, mut high) = (part.from + 1, part.to);
    while low < high {
        let middle = low.midpoint(high);
        if sum(part.from, middle) > sum(middle, part.to) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let at = low.min(part.to - 1);

    let mean = |from: usize, to: usize| sum(from, to) / (to - from) as f64;
    let (left, right) = (mean(part.from, at), mean(at, part.to));
    let difference = if right > 0.0 {
        (1.0 - left / right).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let reduction = part.reduction;
    (
        Part {
            from: part.from,
            to: at,
            reduction: reduction * (1.0 - difference),
        },
        Part {
            from: at,
            to: part.to,
            reduction: (reduction * (1.0 + difference)).min(1.0),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claims(rates: &[f64]) -> Vec<Claim> {
        rates
            .iter()
            .map(|&rate| Claim { rate, weight: 1.0 })
            .collect()
    }

    fn run(rates: &[f64], budget: f64) -> Vec<f64> {
        split(&claims(rates), rates.iter().sum(), budget)
    }

    /// The thesis's recursion, word for word and slow: the reference for the fast version.
    fn plain(sorted: &[f64], reduction: f64) -> Vec<f64> {
        let n = sorted.len();
        if n == 1 {
            return vec![reduction];
        }
        let total: f64 = sorted.iter().sum();
        let first = (1..n).find(|&k| {
            let left: f64 = sorted[..k].iter().sum();
            left > total - left
        });
        let (left, right) = sorted.split_at(first.unwrap_or(n - 1));
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let d = if mean(right) > 0.0 {
            1.0 - mean(left) / mean(right)
        } else {
            0.0
        };
        let mut all = plain(left, reduction * (1.0 - d));
        all.extend(plain(right, (reduction * (1.0 + d)).min(1.0)));
        all
    }

    #[test]
    fn the_worked_example_of_the_thesis() {
        let rates = [0.5, 1.2, 3.3];
        let part = Part {
            from: 0,
            to: 3,
            reduction: 0.2,
        };
        let (left, right) = divide(&part, &[0.0, 0.5, 1.7, 5.0]);
        assert_eq!((left.to, right.from), (2, 2));
        let difference = 1.0 - left.reduction / 0.2;
        assert!(
            (difference - 0.7424).abs() < 5e-5,
            "first split: {difference}"
        );
        assert!(
            (left.reduction - 0.0515).abs() < 5e-5,
            "left: {}",
            left.reduction
        );
        assert!(
            (right.reduction - 0.3485).abs() < 5e-5,
            "right: {}",
            right.reduction
        );
        let total: f64 = run(&rates, 4.0).iter().sum();
        assert!((total - 3.74).abs() < 5e-3, "new total: {total}");
    }

    #[test]
    fn order_of_the_input_does_not_matter() {
        let (up, down) = (run(&[0.5, 1.2, 3.3], 4.0), run(&[3.3, 1.2, 0.5], 4.0));
        assert_eq!(up, down.into_iter().rev().collect::<Vec<_>>());
    }

    #[test]
    fn the_deepest_input_ends_soon() {
        // Each is larger than all before it together, so each division takes off one.
        let mut rates: Vec<f64> = (0..1000).map(|i| 2f64.powi(i)).collect();
        rates.extend(std::iter::repeat_n(0.0, 99_000));
        let given = run(&rates, 2f64.powi(990));
        assert_eq!(given.len(), 100_000);
        assert!(given.iter().zip(&rates).all(|(g, r)| *g >= 0.0 && g <= r));
    }

    proptest! {
        #[test]
        fn fast_and_plain_agree(
            mut rates in prop::collection::vec(1u32..1_000_000, 1..60),
            part in 0.05..0.99f64,
        ) {
            rates.sort_unstable();
            let rates: Vec<f64> = rates.into_iter().map(f64::from).collect();
            let total: f64 = rates.iter().sum();
            let fast = run(&rates, total * part);
            let slow = plain(&rates, 1.0 - part);
            for ((rate, fast), reduction) in rates.iter().zip(fast).zip(slow) {
                let slow = rate * (1.0 - reduction);
                prop_assert!((fast - slow).abs() <= 1e-9 * rate, "{} is not {}", fast, slow);
            }
        }
    }
}
