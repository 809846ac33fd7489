// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What comes out of a channel: served bursts, their latencies, and sums by source.

pub(crate) mod events;
pub(crate) mod latency;
pub(crate) mod tally;
