// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is recorded.

use serde::{Deserialize, Serialize};
use weir_core::plan::{Outcome, Plan};
use weir_core::snapshot::SelfCost;
use weir_core::{Config, Description, Observation};

/// What is known when a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Wall-clock time, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// Version of the weir that records.
    pub writer_version: String,
    /// Its process id.
    pub writer_pid: u32,
    /// Time between ticks.
    pub interval_ms: u64,
    /// The policy's name.
    pub policy: String,
    /// Settings of the controller.
    pub config: Config,
    /// The machine.
    pub description: Description,
}

impl Start {
    /// Whether this session goes on where the one before it ended: the same run of weir, on a machine that has changed.
    /// `seq` and `last_seq` are the numbers of its first look and of the other's last. A run begins with look 0.
    pub fn goes_on(&self, before: &Start, seq: u64, last_seq: u64) -> bool {
        seq > last_seq && self.is_like(before)
    }

    /// Whether it may be of the same run, by all but its ticks.
    pub fn is_like(&self, before: &Start) -> bool {
        let of = |start: &Start| (start.writer_pid, start.interval_ms);
        of(self) == of(before) && self.policy == before.policy && self.config == before.config
    }
}

/// One tick: what was seen, what was decided, what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Wall-clock time, milliseconds since the Unix epoch.
    #[serde(skip)]
    pub wall_unix_ms: u64,
    /// Ticks between the one before and this one that could not be recorded.
    #[serde(skip)]
    pub lost_before: u64,
    /// What was seen.
    pub observation: Observation,
    /// What was decided.
    pub plan: Plan,
    /// What became of its actions.
    pub outcomes: Vec<Outcome>,
    /// What weir itself cost.
    pub self_cost: Option<SelfCost>,
}
