// SPDX-License-Identifier: Apache-2.0 OR MIT
//! First come, first served.

use super::{BY_ARRIVAL, DramOrder, OrderRules};

/// Commands go to the first request of a direction alone. Once its row is open, the next one begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl DramOrder for Fcfs {
    fn rules(&self) -> OrderRules {
        OrderRules {
            is_in_order: true,
            ..BY_ARRIVAL
        }
    }
}
