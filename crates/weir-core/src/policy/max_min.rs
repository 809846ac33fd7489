// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Weighted water-filling: pour the budget into vessels as wide as the weights and as high as
//! demand ÷ weight, all from one source. Those that run full have their demand; the water
//! stands equally high in all others.
//!
//! ```text
//! a_i = min(d_i, λ·w_i)    with λ such that Σ a_i = budget
//! ```
//!
//! This is weighted max-min fairness: no workload can get more unless one that has less (per
//! weight) losing. It is what the thesis wanted of its balance point: small users keep what they
//! have, the large ones pay, and the sum is exact. In ascending order of d/w the vessels fill one
//! after the other, so λ is found exactly in one pass after a sort; no bisection, no tolerance.

use super::{Claim, ascending};

/// Called only when the claims add up to more than `budget`.
pub(super) fn split(claims: &[Claim], budget: f64) -> Vec<f64> {
    let order = ascending(claims, |c| c.rate / c.weight);
    // Weight of all from this position on. Summed from the far end: taking away from the
    // total instead would leave nothing but rounding error when weights differ widely.
    let mut rest = vec![0.0; order.len()];
    let mut sum = 0.0;
    for (slot, &index) in rest.iter_mut().zip(&order).rev() {
        sum += claims.get(index).map_or(0.0, |c| c.weight);
        *slot = sum;
    }

    let mut given = vec![0.0; claims.len()];
    let mut left = budget;
    let mut level = None;
    for (&index, &weight_left) in order.iter().zip(&rest) {
        let (Some(claim), Some(slot)) = (claims.get(index), given.get_mut(index)) else {
            continue;
        };
        let water = level.unwrap_or(left / weight_left);
        if level.is_none() && claim.rate <= water * claim.weight {
            *slot = claim.rate;
            left = (left - claim.rate).max(0.0);
        } else {
            level = Some(water);
            *slot = water * claim.weight;
        }
    }
    given
}
