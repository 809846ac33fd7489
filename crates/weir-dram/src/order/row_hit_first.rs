// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FR-FCFS that keeps a row for requests that came earlier.

use super::{BY_ARRIVAL, DramOrder, HitRule, OrderRules};

/// FR-FCFS, and a row is not closed while a request that came earlier hits it: `FRFCFSRowHit` of Ramulator
/// 2.1.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowHitFirst;

impl DramOrder for RowHitFirst {
    fn rules(&self) -> OrderRules {
        OrderRules {
            hits: HitRule::KeptForEarlier,
            ..BY_ARRIVAL
        }
    }
}
