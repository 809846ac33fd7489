// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is recorded.

use super::checksum::Sum;
use serde::{Deserialize, Serialize};
use weir_core::seam::plan::{Outcome, Plan};
use weir_core::seam::snapshot::SelfCost;
use weir_core::{Config, Description, Observation};

/// What is known when a run begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Start {
    /// Wall-clock time, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    pub writer_version: String,
    pub writer_pid: u32,
    pub interval_ms: u64,
    pub policy: String,
    pub config: Config,
    pub description: Description,
}

impl Start {
    /// Whether this session goes on where the one before it ended: the same run of weir, on a machine or with
    /// settings that have changed. `seq` and `last_seq` are the numbers of its first tick and of the other's
    /// last. A run begins with tick 0.
    pub fn goes_on(&self, before: &Start, seq: u64, last_seq: u64) -> bool {
        seq > last_seq && self.is_like(before)
    }

    /// Whether it may belong to the same run, by all but its ticks. Settings of the controller change in a
    /// run.
    pub fn is_like(&self, before: &Start) -> bool {
        let of = |start: &Start| (start.writer_pid, start.interval_ms);
        of(self) == of(before)
    }
}

/// One tick: what was seen, what was decided, what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// Wall-clock time, milliseconds since the Unix epoch.
    #[serde(skip)]
    pub wall_unix_ms: u64,
    /// Ticks between the one before and this one that could not be recorded.
    #[serde(skip)]
    pub lost_before: u64,
    pub observation: Observation,
    pub plan: Plan,
    pub outcomes: Vec<Outcome>,
    pub self_cost: Option<SelfCost>,
}

/// What is in a tick's document.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    observation: &'a Observation,
    plan: &'a Plan,
    outcomes: &'a [Outcome],
    self_cost: Option<SelfCost>,
    /// In the first tick of a session: a copy of what the session's own row says, on another page.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a Start>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(tick: &'a Tick, session: Option<&'a Start>) -> Document<'a> {
        Document {
            observation: &tick.observation,
            plan: &tick.plan,
            outcomes: &tick.outcomes,
            self_cost: tick.self_cost,
            session,
        }
    }
}

/// A row of `tick`, as it is in a file: anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawTick {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) wall_unix_ms: i64,
    /// Whether the document begins a frame: 0 or 1.
    pub(crate) is_key: i64,
    pub(crate) lost_before: i64,
    pub(crate) document: Vec<u8>,
    /// Whether it is as it was written, by its checksum.
    pub(crate) is_sound: bool,
}

impl RawTick {
    /// A row of the table: five numbers, the document and the sum.
    ///
    /// # Errors
    /// A column is not of its type.
    pub(crate) fn read(row: &rusqlite::Row) -> rusqlite::Result<RawTick> {
        let mut numbers = [0; 5];
        for (column, number) in numbers.iter_mut().enumerate() {
            *number = row.get(column)?;
        }
        Ok(RawTick::new(numbers, row.get(5)?, row.get(6)?))
    }

    pub(crate) fn new(
        [id, session, wall_unix_ms, is_key, lost_before]: [i64; 5],
        document: Vec<u8>,
        sum: i64,
    ) -> RawTick {
        let mut row = RawTick {
            id,
            session,
            wall_unix_ms,
            is_key,
            lost_before,
            document,
            is_sound: false,
        };
        row.is_sound = sum == i64::from(row.sum());
        row
    }

    pub(crate) fn insert(&self, database: &rusqlite::Connection) -> rusqlite::Result<()> {
        let row = rusqlite::params![
            self.id,
            self.session,
            self.wall_unix_ms,
            self.is_key,
            self.lost_before,
            self.document,
            self.sum(),
        ];
        database
            .prepare_cached("INSERT INTO tick VALUES (?, ?, ?, ?, ?, ?, ?)")?
            .execute(row)
            .map(drop)
    }

    fn sum(&self) -> u32 {
        let mut sum = Sum::of("tick");
        let row = [
            self.id,
            self.session,
            self.wall_unix_ms,
            self.is_key,
            self.lost_before,
        ];
        row.into_iter().for_each(|number| sum.whole(number));
        sum.blob(&self.document);
        sum.end()
    }
}
