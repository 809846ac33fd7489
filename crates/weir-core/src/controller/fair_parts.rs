// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each user of a device keeps, whatever the policy: its demand, up to its fair share of the *whole*
//! set-point.
//!
//! Workloads that weir may not limit, and traffic of no workload, take part in this division with their
//! weight. What they move beyond their fair share is taken off the goal and not off the others: to cut these
//! would bring the device nothing. If the parts that are kept and what is not limited are together more than
//! the set-point, the set-point cannot be held (*unenforceable*). Then nothing is limited harder than to its
//! fair share.

use crate::policy::{Demand, fair_level};
use crate::units::BytesPerSec;

/// Above the set-point by less than this is no reason to say that it cannot be held.
const TOLERANCE: f64 = 0.01;

/// Who uses a device, in bytes per second.
pub(super) struct Users<'a> {
    /// May be limited and claim a part.
    pub claims: &'a [Demand],
    /// Are not limited.
    pub unlimited: &'a [Demand],
}

/// What the claims keep.
pub(super) struct KeptParts {
    /// One for each claim, in the same order.
    pub each: Vec<f64>,
    /// The set-point cannot be held.
    pub is_unenforceable: bool,
}

/// The parts that claims keep. Of one above its fair share a correction of less than 1 takes more, because
/// those that use most pay for what limits get wrong.
pub(super) fn keep(users: &Users<'_>, set_point: f64, correction: f64) -> KeptParts {
    let level = fair_level(users.claims.iter().chain(users.unlimited), set_point);
    let least = |claim: &Demand, factor: f64| {
        let (demand, share) = (claim.bytes_per_sec.get(), level * claim.weight);
        if demand <= share {
            demand
        } else {
            share * factor
        }
    };
    let kept: f64 = users.claims.iter().map(|claim| least(claim, 1.0)).sum();
    let of = |demand: &Demand| demand.bytes_per_sec.get();
    let unlimited: f64 = users.unlimited.iter().map(of).sum();
    let factor = correction.min(1.0);
    KeptParts {
        each: users.claims.iter().map(|c| least(c, factor)).collect(),
        is_unenforceable: kept + unlimited > set_point * (1.0 + TOLERANCE),
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
