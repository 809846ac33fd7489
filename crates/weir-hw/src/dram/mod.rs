// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A DDR channel at command level: banks, bank groups, ranks, refresh, and the controller in front of them.
//!
//! ```text
//! trace, sources ─► channel ─► queues ─► candidates ─► device
//! (requests,        (the time  (by bank   (of each      (banks: when each
//!  told the time)    moves from            bank, in an   command may come)
//!                    command to            order)
//!                    command)
//! ```
//!
//! [`DramProfile`] holds a part's figures, [`order`] says which request goes first, [`DramBounds`] what no
//! channel can exceed. Why it is built so: docs/explanation/dram-model.md.

mod bounds;
mod candidates;
mod channel;
mod closed_loop;
mod command;
mod device;
mod direction;
mod events;
mod front;
mod latency;
mod mapping;
pub mod order;
mod page_places;
mod profile;
mod queues;
mod refresh;
mod replay;
mod settings;
mod tally;
#[cfg(test)]
mod tests;
mod timing;
mod trace;
mod waiting;
mod write_filter;

pub use bounds::DramBounds;
pub use channel::DramChannel;
pub use closed_loop::{ClosedLoop, LoopPattern, LoopSource};
pub use command::{BurstKind, DramCommand, IssuedCommand};
pub use events::{ChannelStep, Offered, ServedBurst};
pub use latency::{LatencyBucket, LatencyHistogram, LatencyParts};
pub use mapping::{AddressMapping, BurstPlace};
pub use order::{DramOrder, OrderKind};
pub use profile::{
    BANKS_MAX, DramProfile, DramProfileError, DramTimings, Organisation, RefreshFigures,
    RefreshKind,
};
pub use queues::RowOutcome;
pub use replay::{ReplaySpan, replay};
pub use settings::{ChannelSettings, PagePolicy};
pub use tally::{SourceTally, Tallies};
pub use timing::Clock;
pub use trace::{PEERS_SEED, PatternTrace, TraceError, TraceLine, TracePattern, read_trace};
pub use waiting::{BurstRequest, SourceId, Standing, WaitingBurst};
