// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each user of a device keeps, whatever is not limited beside it.
//!
//! Workloads that weir may not limit, and traffic of no workload, take part in this division with their
//! weight. What one of them moves beyond its fair share is taken off the goal. A workload that uses no more
//! than its own fair share of the *whole* set-point keeps that. The others pay, as long as that holds the
//! set-point at a price that they can bear: with `left` for them, and `fair` the sum of their fair shares,
//! they have together
//!
//! ```text
//! left ≥ fair/2       left             the set-point is held
//! 0 < left < fair/2   fair − left      more and more is let go: it cannot be held
//! left ≤ 0            fair             nothing is limited harder than to its fair share
//! ```
//!
//! This never jumps, and none has less than half of its fair share. Where the set-point is held, an error of
//! attribution cancels: what is wrongly not theirs makes their part and their bytes per CPU-second smaller
//! alike. A guarantee of the whole fair share would not let it: it held a device at 133 % of its set-point.
//!
//! A limit must also be worth its cost. Let `excess` be what the device moves above the set-point when all
//! limits of this division are in force, and `gain` what these limits take away. Where `excess ≥ gain` the
//! limits remove less than half of the overload, and none is set; where `2·excess ≤ gain` they remove two
//! thirds or more, and all are set. Between the two they are set in part, so that a small change of what is
//! measured makes a small change of the limits.

use crate::policy::{Demand, fair_level};
use crate::units::BytesPerSec;

/// Above the set-point by less than this is no reason to say that it cannot be held.
const TOLERANCE: f64 = 0.01;

/// The users of a device, in bytes per second.
pub(super) struct Users<'a> {
    /// May be limited and claim a part.
    pub claims: &'a [Demand],
    pub unlimited: &'a [Demand],
}

#[derive(Clone, Debug, Default)]
pub(in crate::controller) struct KeptParts {
    /// One for each claim, in the same order, in bytes per second.
    pub each: Vec<f64>,
    /// What the device moves above its set-point when each claim has no more than it keeps, in bytes per
    /// second; zero where the set-point can be held.
    pub excess: f64,
}

/// The parts that claims keep of `set_point`, times `correction` where that is less than 1: those above
/// their fair share pay for what limits get wrong.
pub(super) fn keep(users: &Users<'_>, set_point: f64, correction: f64) -> KeptParts {
    let all = || users.claims.iter().chain(users.unlimited);
    let unlimited: f64 = users.unlimited.iter().map(|d| d.bytes_per_sec.get()).sum();
    let kept = |total: f64| {
        let level = fair_level(all(), total);
        let demand = |claim: &Demand| claim.bytes_per_sec.get();
        let is_large = move |claim: &&Demand| demand(claim) > level * claim.weight;
        let fair: f64 = users
            .claims
            .iter()
            .filter(is_large)
            .map(|c| level * c.weight)
            .sum();
        let small = users.claims.iter().filter(|claim| !is_large(claim));
        let left = (total - unlimited - small.map(demand).sum::<f64>()).max(0.0);
        let price = if fair > 0.0 {
            (left.max(fair - left) / fair).min(1.0)
        } else {
            1.0
        };
        move |claim: &Demand| {
            if is_large(&claim) {
                level * claim.weight * price
            } else {
                demand(claim)
            }
        }
    };
    let mut each = kept(set_point);
    let excess = users.claims.iter().map(&each).sum::<f64>() + unlimited - set_point;
    if correction < 1.0 {
        each = kept(set_point * correction);
    }
    KeptParts {
        excess: if excess > set_point * TOLERANCE {
            excess
        } else {
            0.0
        },
        each: users.claims.iter().map(each).collect(),
    }
}

/// Raises parts to what is kept. Those that have more than they keep pay for it, in proportion to that.
pub(super) fn raise(parts: &mut [BytesPerSec], kept: &[f64]) {
    let (mut raised, mut spare) = (0.0, 0.0);
    for (part, kept) in parts.iter().zip(kept) {
        raised += (kept - part.get()).max(0.0);
        spare += (part.get() - kept).max(0.0);
    }
    if raised <= 0.0 {
        return;
    }
    let left = if spare > raised {
        1.0 - raised / spare
    } else {
        0.0
    };
    for (part, kept) in parts.iter_mut().zip(kept) {
        *part = BytesPerSec::new(kept + (part.get() - kept).max(0.0) * left);
    }
}

/// Gives back what limits would take for nothing. `is_ours` says of a claim's position in the list whether
/// the device is what limits it.
pub(in crate::controller) fn give_back(
    parts: &mut [BytesPerSec],
    demands: &[f64],
    excess: f64,
    is_ours: impl Fn(usize) -> bool,
) {
    if excess <= 0.0 {
        return;
    }
    let short = |(part, demand): (&BytesPerSec, &f64)| (demand - part.get()).max(0.0);
    let each = parts.iter().zip(demands).enumerate();
    let gain: f64 = each
        .filter(|(i, _)| is_ours(*i))
        .map(|(_, of)| short(of))
        .sum();
    if gain <= 0.0 {
        return;
    }
    let in_force = (2.0 - 2.0 * excess / gain).clamp(0.0, 1.0);
    for (i, (part, demand)) in parts.iter_mut().zip(demands).enumerate() {
        if is_ours(i) {
            let given = short((part, demand)) * (1.0 - in_force);
            *part = BytesPerSec::new(part.get() + given);
        }
    }
}
