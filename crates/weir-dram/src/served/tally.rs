// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each source was served.

use crate::banks::command::BurstKind;
use crate::queues::RowOutcome;
use crate::queues::waiting::SourceId;
use crate::served::latency::{LatencyHistogram, LatencyParts};

#[derive(Clone, Debug, Default)]
pub struct SourceTally {
    /// Bursts that the part moved, reads and writes.
    pub bursts: [u64; 2],
    /// Reads that a waiting write answered, and writes that another one to the same burst absorbed.
    pub merged: [u64; 2],
    /// Requests whose first command was a column command, an activate, a precharge: reads, then writes.
    pub outcomes: [[u64; 3]; 2],
    /// Rows that were opened for its requests.
    pub activates: u64,
    /// Latencies of reads, acceptance to last data.
    pub read_latency: LatencyHistogram,
    /// Latencies of writes, acceptance to last data.
    pub write_latency: LatencyHistogram,
}

impl SourceTally {
    pub(crate) fn served(&mut self, kind: BurstKind, outcome: RowOutcome, parts: &LatencyParts) {
        self.bursts[kind.index()] += 1;
        self.outcomes[kind.index()][outcome as usize] += 1;
        match kind {
            BurstKind::Read => self.read_latency.add(parts),
            BurstKind::Write => self.write_latency.add(parts),
        }
    }

    pub fn merge(&mut self, other: &SourceTally) {
        for kind in 0..2 {
            self.bursts[kind] += other.bursts[kind];
            self.merged[kind] += other.merged[kind];
            for outcome in 0..3 {
                self.outcomes[kind][outcome] += other.outcomes[kind][outcome];
            }
        }
        self.activates += other.activates;
        self.read_latency.merge(&other.read_latency);
        self.write_latency.merge(&other.write_latency);
    }

    /// Part of the served requests whose first command was a column command; none without requests.
    pub fn row_hit_ratio(&self) -> Option<f64> {
        let all: u64 = self.outcomes.iter().flatten().sum();
        let hits: u64 = self.outcomes.iter().map(|of_kind| of_kind[0]).sum();
        (all > 0).then(|| hits as f64 / all as f64)
    }

    /// Part of the column commands that needed no activate of their own; none without column commands.
    pub fn row_reuse_ratio(&self) -> Option<f64> {
        let all: u64 = self.bursts.iter().sum();
        (all > 0).then(|| 1.0 - self.activates as f64 / all as f64)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Tallies(Vec<SourceTally>);

impl Tallies {
    pub(crate) fn of_mut(&mut self, source: SourceId) -> &mut SourceTally {
        let index = usize::from(source);
        if index >= self.0.len() {
            self.0.resize(index + 1, SourceTally::default());
        }
        &mut self.0[index]
    }

    /// Tally of a source; none if it was served nothing.
    pub fn of(&self, source: SourceId) -> Option<&SourceTally> {
        self.0.get(usize::from(source))
    }

    pub fn total(&self) -> SourceTally {
        let mut sum = SourceTally::default();
        self.0.iter().for_each(|tally| sum.merge(tally));
        sum
    }
}
