// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FR-FCFS with a cap on hits.

use super::{BY_ARRIVAL, Clock, DramOrder, HitRule, OrderRules};

/// Hits go first, but a row has at most so many column commands while an earlier request waits for another
/// row of its bank (the FR-FCFS+Cap of Mutlu and Moscibroda, MICRO 2007).
#[derive(Clone, Copy, Debug)]
pub struct FrFcfsCap {
    columns_max: u32,
}

impl FrFcfsCap {
    pub fn new(columns_max: u32) -> FrFcfsCap {
        FrFcfsCap { columns_max }
    }
}

impl DramOrder for FrFcfsCap {
    fn rules(&self) -> OrderRules {
        OrderRules {
            hits: HitRule::First {
                columns_max: self.columns_max,
                open_max: Clock::MAX,
            },
            ..BY_ARRIVAL
        }
    }
}
