// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DDR channel at command level: banks, bank groups, ranks, refresh, and the controller in front of them.
//!
//! ```text
//! traffic ─────► channel ─► queues ─► candidates ─► banks ────────► served
//! (requests,     (the time  (by bank   (of each      (when each      (latencies,
//!  told the time) moves from            bank, in an   command may     sums)
//!                 command to            order)        come)
//!                 command)
//! ```
//!
//! `part` holds a part's figures and [`DramBounds`], which no channel can exceed; [`order`] says which
//! request goes first. Why it is built so: docs/explanation/dram-model.md.

mod banks;
mod channel;
pub mod order;
mod part;
mod queues;
mod served;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;

pub use banks::command::{BurstKind, DramCommand, IssuedCommand};
pub use channel::DramChannel;
pub use order::{DramOrder, OrderKind};
pub use part::bounds::DramBounds;
pub use part::mapping::{AddressMapping, BurstPlace};
pub use part::profile::{
    BANKS_MAX, DramProfile, DramTimings, Organisation, RefreshFigures, RefreshKind,
};
pub use part::timing::Clock;
pub use queues::RowOutcome;
pub use queues::waiting::{BurstRequest, SourceId, Standing, WaitingBurst};
pub use served::events::{ChannelStep, Offered, ServedBurst};
pub use served::latency::{LatencyBucket, LatencyHistogram, LatencyParts};
pub use served::tally::{SourceTally, Tallies};
pub use settings::{ChannelSettings, PagePolicy};
pub use traffic::closed_loop::{ClosedLoop, LoopPattern, LoopSource};
pub use traffic::replay::{ReplaySpan, replay};
pub use traffic::trace::{
    PEERS_SEED, PatternTrace, TraceError, TraceLine, TracePattern, read_trace,
};
