// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a device's budget is split over the workloads that use it.
//!
//! A policy is a pure function of the demands, their weights and the budget. It answers
//! with what each workload may have, never more than its demand. Two of them, by name; both hold the budget
//! exactly and leave small users what they have:
//!
//! | name | rule |
//! |---|---|
//! | [`max_min`] | weighted water-filling of one device after the other, the default |
//! | [`drf`] | the same of what each needs most, of all devices and CPU time together |
//!
//! For one device alone `drf` ([`drf::fill`]) is max-min, and [`split`] gives that.
//!
//! The thesis's policies, the same factor for all (eq. 4) and the balance point (4.3.3.2), need the demand of
//! a workload that is limited. It cannot be seen while the limit is in force, so they are unequal to equal
//! users for ever, or do not hold the budget. They are comparators of the simulator alone.
//!
//! Inputs are made harmless first, so that no policy can give NaN, a negative number or more than
//! demanded: rates above [`MAX_RATE`] count as that, weights are brought into
//! [`MIN_WEIGHT`] to [`MAX_WEIGHT`].

pub mod drf;
pub mod max_min;
pub(crate) mod order;

use crate::units::BytesPerSec;
use order::{in_order, positions_by};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Rates above this count as this, in bytes per second: a hundred thousand of them still add up
/// without overflow, and no link comes near.
pub const MAX_RATE: f64 = 1e30;

pub const MIN_WEIGHT: f64 = 1e-3;

pub const MAX_WEIGHT: f64 = 1e6;

/// Weight of a workload that has none set, on the scale of `cpu.weight` (kernel, cgroup-v2.rst), where 100 is
/// the default.
pub const NORMAL_WEIGHT: f64 = 100.0;

/// Rounds after which [`fair_level`] is near enough. Two or three are usual: each round fixes at least one
/// demand below the level.
const LEVEL_ROUNDS: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Weighted water-filling: exact, small users untouched.
    #[default]
    MaxMin,
    /// Dominant-resource fairness over all devices and CPU time.
    Drf,
}

impl Policy {
    pub const ALL: [Policy; 2] = [Policy::MaxMin, Policy::Drf];

    /// Its name in flags, files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::MaxMin => "max-min",
            Policy::Drf => "drf",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is called {0:?}: choose max-min or drf")]
pub struct UnknownPolicy(pub String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let found = Policy::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bandwidth it would use if no limit held it back.
    pub bytes_per_sec: BytesPerSec,
    /// Its weight against the others; 100 is normal.
    pub weight: f64,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    rate: f64,
    weight: f64,
}

impl From<&Demand> for Claim {
    fn from(demand: &Demand) -> Self {
        Claim {
            rate: demand.bytes_per_sec.get().min(MAX_RATE),
            weight: harmless_weight(demand.weight),
        }
    }
}

/// A weight that counts: one that is no number is normal.
fn harmless_weight(weight: f64) -> f64 {
    if weight.is_nan() {
        return NORMAL_WEIGHT;
    }
    weight.clamp(MIN_WEIGHT, MAX_WEIGHT)
}

/// What each may have of `budget`, in the order of `demands`: between nothing and its demand. One resource
/// alone, of which all policies give the same.
/// O(n log n) time, O(n) memory, whatever the input.
pub fn split(demands: &[Demand], budget: BytesPerSec) -> Vec<BytesPerSec> {
    let claims: Vec<Claim> = demands.iter().map(Claim::from).collect();
    let total: f64 = claims.iter().map(|c| c.rate).sum();
    let budget = budget.get();
    let given = if total <= budget {
        claims.iter().map(|c| c.rate).collect()
    } else {
        max_min::split(&claims, budget)
    };
    // Rounding may lift a part above its demand by the last bit.
    given
        .iter()
        .zip(&claims)
        .map(|(g, c)| BytesPerSec::new(g.min(c.rate)))
        .collect()
}

/// The level of max-min fairness for each unit of weight: a fair share is this times the weight. Infinity
/// where all demands fit. It is found in rounds; each raises it by what those below it leave, so that it is
/// never above the exact level, and never below `total` ÷ the sum of weights.
pub fn fair_level<'a>(demands: impl Iterator<Item = &'a Demand> + Clone, total: f64) -> f64 {
    let mut level = 0.0;
    for _ in 0..LEVEL_ROUNDS {
        let (mut left, mut weights) = (total, 0.0);
        for claim in demands.clone().map(Claim::from) {
            if claim.rate <= level * claim.weight {
                left -= claim.rate;
            } else if claim.rate > 0.0 {
                weights += claim.weight;
            }
        }
        if weights == 0.0 {
            return f64::INFINITY;
        }
        let risen = left / weights;
        if risen <= level {
            break;
        }
        level = risen;
    }
    level
}

/// Positions of the claims by ascending `key`, equal ones in their own order.
fn ascending(claims: &[Claim], key: impl Fn(&Claim) -> f64) -> Vec<usize> {
    let keys = claims.iter().map(|claim| in_order(key(claim)));
    positions_by(keys)
}

#[cfg(test)]
mod tests;
