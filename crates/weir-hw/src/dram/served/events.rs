// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a channel says of requests and steps.

use crate::dram::part::timing::Clock;
use crate::dram::queues::RowOutcome;
use crate::dram::queues::waiting::BurstRequest;

/// What became of a request that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits.
    Queued,
    /// A waiting write to the same burst answers the read, or absorbs the write, one clock later.
    Merged,
    /// No entry is free, or the order keeps the source out. It may be offered again.
    Refused,
}

/// A request that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedBurst {
    /// The request.
    pub request: BurstRequest,
    /// When it was accepted.
    pub arrived: Clock,
    /// When its last data have moved.
    pub done: Clock,
    /// What its first command was.
    pub outcome: RowOutcome,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelStep {
    /// Nothing could be issued up to the given clock, which has passed.
    Idle,
    /// A command for a row, or a refresh.
    Row,
    /// A column command.
    Served(ServedBurst),
}
