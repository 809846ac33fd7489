// SPDX-License-Identifier: Apache-2.0 OR MIT
//! First ready, first come, first served.

use super::{BY_ARRIVAL, DramOrder, OrderRules};

/// Among the commands that are ready, the one of the first request goes: a hit waits if an earlier request
/// can close its row at the same clock. Ramulator 2.0 and 2.1 call this order FR-FCFS.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrFcfs;

impl DramOrder for FrFcfs {
    fn rules(&self) -> OrderRules {
        BY_ARRIVAL
    }
}
