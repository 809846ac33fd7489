// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A request of the channel, and its place among others.

use crate::banks::command::BurstKind;
use crate::part::timing::Clock;

/// A core or device that requests bursts; a dense number from 0.
pub type SourceId = u16;

/// A request for one burst, as a source makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstRequest {
    pub source: SourceId,
    pub kind: BurstKind,
    /// Address ÷ bytes of a burst.
    pub burst: u64,
}

/// Place of a request among those that wait: the smaller goes first.
///
/// A request with a smaller `before` goes first even if another one hits the open row; then come row hits
/// (for orders that prefer them), then the smaller `after`, then the one that came first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// Counts before row hits.
    pub before: u32,
    /// Counts after row hits, at most 2⁴⁷ − 1.
    pub after: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct WaitingBurst {
    pub request: BurstRequest,
    /// The bank, counted over all ranks.
    pub bank: u32,
    pub row: u32,
    /// Number in the order of arrival.
    pub number: u64,
    pub arrived: Clock,
    pub standing: Standing,
}

/// The bit of a key that is set for requests that do not hit the open row.
///
/// A key is one number, so that a comparison is one too: from the highest bit on [`Standing::before`], this
/// bit, 47 bits of [`Standing::after`], and 48 bits of the number of arrival.
const NO_HIT: u128 = 1 << 95;
const AFTER_MAX: u64 = (1 << 47) - 1;
const NUMBER_MAX: u64 = (1 << 48) - 1;

/// A standing and the time of arrival as one number: the smaller goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderKey(u128);

impl OrderKey {
    pub(crate) const LAST: OrderKey = OrderKey(u128::MAX);

    pub(crate) fn of(waiting: &WaitingBurst) -> OrderKey {
        let standing = waiting.standing;
        let after = standing.after.min(AFTER_MAX);
        OrderKey(
            u128::from(standing.before) << 96
                | u128::from(after) << 48
                | u128::from(waiting.number & NUMBER_MAX),
        )
    }

    /// The same for a request that hits no open row, in an order that prefers hits.
    pub(crate) fn without_hit(self) -> OrderKey {
        OrderKey(self.0 | NO_HIT)
    }

    pub(crate) fn before(self) -> u32 {
        (self.0 >> 96) as u32
    }

    pub(crate) fn standing(self) -> Standing {
        Standing {
            before: self.before(),
            after: (self.0 >> 48) as u64 & AFTER_MAX,
        }
    }
}
