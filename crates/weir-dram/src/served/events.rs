// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a channel says of requests and steps.

use crate::part::timing::Clock;
use crate::queues::RowOutcome;
use crate::queues::waiting::BurstRequest;

/// What became of a request that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    Queued,
    /// A waiting write to the same burst answers the read, or absorbs the write, one clock later.
    Merged,
    /// No entry is free, or the order keeps the source out. It may be offered again.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedBurst {
    pub request: BurstRequest,
    pub arrived: Clock,
    /// When its last data have moved.
    pub done: Clock,
    pub outcome: RowOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStep {
    /// Nothing could be issued up to the given clock, which has passed.
    Idle,
    /// A command for a row, or a refresh.
    Row,
    Served(ServedBurst),
}
