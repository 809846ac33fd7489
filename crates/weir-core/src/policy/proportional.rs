// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All workloads are reduced by the same factor.
//!
//! Thesis 4.3.3.1, eq. 4: `limit(t) = limit(t) · b_thres / b_total`; the workload's own bandwidth
//! cancels out. Weights have no place in it, so they are ignored. Its weakness, named in the thesis:
//! a workload that hardly touches the device loses as large a part as the one that floods it.

use super::Claim;

/// Called only when `total`, the sum of the claims, is above `budget`.
pub(super) fn split(claims: &[Claim], total: f64, budget: f64) -> Vec<f64> {
    let factor = budget / total;
    claims.iter().map(|c| c.rate * factor).collect()
}
