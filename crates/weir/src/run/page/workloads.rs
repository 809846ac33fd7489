// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads as the page has them, and what changed since the last time. A thousand workloads at ten times a
//! second must cost next to nothing, so a workload that stays is compared number by number, and no text is
//! made of it but the sentence on its reason: of some workloads each time, in turn, and of those with another
//! reason than before at once.

use super::figures::{
    Figures, Smooth, UNKNOWN, Weight, bandwidth, kib_per_sec, milli, three_digits,
};
use super::message::EventMessage;
use crate::cli::output::labels;
use crate::cli::output::tag::tag;
use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;
use weir_core::WorkloadId;
use weir_core::owner::PodNames;
use weir_core::seam::plan::Decision;
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;

/// More are left out, and counted.
const WORKLOADS_MAX: usize = 5000;
/// Cells of a name; what the kernel takes is less.
const NAME_CELLS_MAX: usize = 4096;
/// Sentences of a reason that are looked at each time.
const SENTENCES: usize = 16;
/// Cells of a sentence.
const SENTENCE_CELLS_MAX: usize = 600;

struct Row {
    id: WorkloadId,
    /// Its number on the page, for as long as it is there.
    slot: u32,
    figures: Figures,
    bandwidth: Smooth,
    cpu: Smooth,
    throttled: Smooth,
    sentence: u64,
    is_new: bool,
}

/// All of them, in the order of the plan.
#[derive(Default)]
pub struct Workloads {
    rows: Vec<Row>,
    next_slot: u32,
    cursor: usize,
    left_out: usize,
    words: ReasonWords,
    gone: Vec<u32>,
}

/// Short reasons by their place, as they came up.
#[derive(Default)]
struct ReasonWords(Vec<&'static str>);

impl ReasonWords {
    /// The number of a word. There are few of them, because the program knows no more.
    fn place(&mut self, word: &'static str) -> i64 {
        let known = || self.0.iter();
        let same = known().position(|known| std::ptr::eq(*known, word));
        // One text may be in two places of the program.
        let found = same.or_else(|| known().position(|known| *known == word));
        let place = found.unwrap_or_else(|| {
            self.0.push(word);
            self.0.len() - 1
        });
        i64::try_from(place).unwrap_or(UNKNOWN)
    }
}

/// Values of a map in the order of the rows, one pass for all.
struct Along<'a, T>(Peekable<Iter<'a, WorkloadId, T>>);

impl<'a, T> Along<'a, T> {
    fn of(map: &'a BTreeMap<WorkloadId, T>) -> Along<'a, T> {
        Along(map.iter().peekable())
    }

    fn at(&mut self, id: &WorkloadId) -> Option<&'a T> {
        // Mostly they are the same, and then no text is compared.
        while self.0.next_if(|(at, _)| *at != id && *at < id).is_some() {}
        self.0.next_if(|(at, _)| *at == id).map(|(_, value)| value)
    }
}

impl Workloads {
    /// Takes in a snapshot that is so much later than the one before, and writes what changed.
    pub fn update(
        &mut self,
        snapshot: &Snapshot,
        weight: Weight,
        base_ms: u64,
        to: &mut EventMessage,
    ) {
        let all = &snapshot.plan.workloads;
        let shown = &all[..all.len().min(WORKLOADS_MAX)];
        self.left_out = all.len() - shown.len();
        let words = self.words.0.len();
        self.follow(shown);
        self.write_new(snapshot, shown, to);
        to.numbers("gone", self.gone.drain(..).map(i64::from));
        to.begin("f");
        let mut sentences = Vec::new();
        let turn = self.cursor..self.cursor + SENTENCES;
        let mut throttled = Along::of(&snapshot.throttled_cpus);
        let mut since = Along::of(&snapshot.limited_since_unix_ms);
        for (place, (row, decision)) in self.rows.iter_mut().zip(shown).enumerate() {
            let held = throttled.at(&row.id).map_or(0.0, |held| held.get());
            let since = since.at(&row.id).map(|ms| ms.saturating_sub(base_ms));
            let before = row.figures;
            row.figures = row.now(decision, held, since, weight, &mut self.words);
            let others = others(&row.figures, &before);
            if others != 0 {
                to.row(row.slot, others, &row.figures);
            }
            let is_other = row.figures.last() != before.last();
            if is_other || row.is_new || turn.contains(&place) {
                sentences.extend(row.new_sentence(decision));
            }
            row.is_new = false;
        }
        to.end();
        self.cursor = if turn.end < self.rows.len() {
            turn.end
        } else {
            0
        };
        to.pairs(
            "why",
            sentences.iter().map(|(slot, why)| (*slot, why.as_str())),
        );
        if self.words.0.len() != words {
            to.texts("words", self.words.0.iter().copied());
        }
        to.field("left_out", self.left_out);
    }

    /// Writes all, as it was taken in last.
    pub fn write_all(&self, snapshot: &Snapshot, to: &mut EventMessage) {
        let shown = &snapshot.plan.workloads;
        to.texts("words", self.words.0.iter().copied());
        to.names(
            "rows",
            self.rows.iter().map(|row| (row.slot, &row.id)),
            |id| name(id, &snapshot.pod_names),
        );
        to.begin("f");
        for row in &self.rows {
            let known = others(&row.figures, &[UNKNOWN; _]);
            to.row(row.slot, known, &row.figures);
        }
        to.end();
        let sentences = self
            .rows
            .iter()
            .zip(shown)
            .map(|(row, d)| (row.slot, sentence(d)));
        let sentences: Vec<_> = sentences.collect();
        to.pairs(
            "why",
            sentences.iter().map(|(slot, why)| (*slot, why.as_str())),
        );
        to.field("left_out", self.left_out);
    }

    /// Rows for these workloads. Those that stay keep theirs.
    fn follow(&mut self, shown: &[Decision]) {
        let is_same = self.rows.len() == shown.len()
            && self
                .rows
                .iter()
                .zip(shown)
                .all(|(row, decision)| row.id == decision.id);
        if is_same {
            return;
        }
        let mut before = std::mem::take(&mut self.rows).into_iter().peekable();
        for decision in shown {
            while let Some(row) = before.next_if(|row| row.id < decision.id) {
                self.gone.push(row.slot);
            }
            let stays = before.next_if(|row| row.id == decision.id);
            let row = stays.unwrap_or_else(|| {
                self.next_slot = self.next_slot.wrapping_add(1);
                Row::new(decision.id.clone(), self.next_slot)
            });
            self.rows.push(row);
        }
        self.gone.extend(before.map(|row| row.slot));
        self.cursor = 0;
    }

    fn write_new(&self, snapshot: &Snapshot, shown: &[Decision], to: &mut EventMessage) {
        debug_assert_eq!(self.rows.len(), shown.len());
        let new = self.rows.iter().filter(|row| row.is_new);
        let named = |id: &WorkloadId| name(id, &snapshot.pod_names);
        to.names("rows", new.map(|row| (row.slot, &row.id)), named);
    }
}

impl Row {
    fn new(id: WorkloadId, slot: u32) -> Row {
        Row {
            id,
            slot,
            figures: [UNKNOWN; _],
            bandwidth: Smooth::default(),
            cpu: Smooth::default(),
            throttled: Smooth::default(),
            sentence: 0,
            is_new: true,
        }
    }

    fn now(
        &mut self,
        decision: &Decision,
        held: f64,
        since_ms: Option<u64>,
        weight: Weight,
        words: &mut ReasonWords,
    ) -> Figures {
        let bytes = self.bandwidth.with(bandwidth(decision), weight);
        let cpu = self
            .cpu
            .with(decision.cpu_cpus.map(|cpu| cpu.get()), weight);
        let held = self.throttled.with(Some(held), weight);
        [
            three_digits(bytes.map(|bytes| bytes / 1024.0)),
            words.place(labels::provenance(decision.bandwidth.provenance)),
            three_digits(cpu.map(|cpus| cpus * 1000.0)),
            three_digits(held.map(|cpus| cpus * 1000.0)),
            milli(decision.limit_cpus),
            kib_per_sec(decision.allowed_bytes_per_sec),
            since_ms
                .and_then(|ms| i64::try_from(ms).ok())
                .unwrap_or(UNKNOWN),
            words.place(labels::verdict_short(decision)),
        ]
    }

    /// The sentence on its reason, if it is another one than before.
    fn new_sentence(&mut self, decision: &Decision) -> Option<(u32, String)> {
        let sentence = sentence(decision);
        let mut hasher = DefaultHasher::new();
        sentence.hash(&mut hasher);
        let hash = hasher.finish();
        let is_new = std::mem::replace(&mut self.sentence, hash) != hash;
        is_new.then_some((self.slot, sentence))
    }
}

/// A bit for each figure that is another one.
fn others(now: &Figures, before: &Figures) -> u32 {
    let pairs = now.iter().zip(before).enumerate();
    pairs.fold(0, |bits, (place, (now, before))| {
        bits | u32::from(now != before) << place
    })
}

fn sentence(decision: &Decision) -> String {
    text::fit(&labels::verdict_long(decision), SENTENCE_CELLS_MAX)
}

/// The workload's name, harmless, and what stands before it: pod and container.
fn name(id: &WorkloadId, names: &PodNames) -> (String, String) {
    let name = text::fit(&text::harmless(id.as_str()), NAME_CELLS_MAX);
    let (tag, _) = tag(id.as_str(), "", names);
    (name, tag.trim_end().to_owned())
}
