// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of a journal, replayed: which leases are open. A living weir replays what it writes, so that it
//! holds what a reader would find.

use super::undo::{LeaseKind, OpenLeases, RecordPhase, UndoHost, UndoOutcome};
use rustix::io::Errno;
use serde::Deserialize;
use std::borrow::Cow;
use weir_core::WorkloadId;

/// Damaged lines that are reported one by one.
pub(crate) const PROBLEMS_MAX: usize = 20;
/// Longest description of one, in bytes: a line of a hostile journal may be long, and may be in it.
const PROBLEM_LENGTH_MAX: usize = 200;

/// All leases that are open, by kind.
#[derive(Debug)]
pub(crate) struct OpenBook(Vec<Box<dyn OpenLeases>>);

/// The part of a record that says which kind it is of.
#[derive(Deserialize)]
struct RecordHead<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
}

impl OpenBook {
    pub(crate) fn new(kinds: &[LeaseKind]) -> Self {
        OpenBook(kinds.iter().map(|kind| kind.none()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|kind| kind.is_empty())
    }

    /// When a record of this line is written.
    ///
    /// # Errors
    /// It is no record of any kind.
    pub(crate) fn phase(&self, line: &[u8]) -> Result<RecordPhase, String> {
        let head: RecordHead<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let mut ops = self.0.iter().flat_map(|kind| kind.ops());
        let found = ops.find(|(op, _)| *op == head.op);
        found.map_or_else(
            || Err(format!("unknown record {:?}", head.op)),
            |(_, phase)| Ok(*phase),
        )
    }

    /// Takes one line in.
    ///
    /// # Errors
    /// Why it makes no sense.
    pub(crate) fn replay(&mut self, line: &[u8]) -> Result<(), String> {
        let head: RecordHead<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let is_of =
            |kind: &&mut Box<dyn OpenLeases>| kind.ops().iter().any(|(op, _)| *op == head.op);
        let mut found = 0;
        for kind in self.0.iter_mut().filter(is_of) {
            kind.replay(line)?;
            found += 1;
        }
        match found {
            0 => Err(format!("unknown record {:?}", head.op)),
            _ => Ok(()),
        }
    }

    /// Takes all lines of a journal in. Lines that make no sense are returned by their number, and the others
    /// count all the same.
    pub(crate) fn replay_all(&mut self, text: &[u8]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut more = 0usize;
        for (number, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
            let taken = match line.strip_suffix(b"\n") {
                Some(line) => self.replay(line),
                None => self
                    .phase(line)
                    .and(Err("truncated in mid-write".to_owned())),
            };
            let Err(why) = taken else { continue };
            if problems.len() < PROBLEMS_MAX {
                problems.push(format!("line {}: {}", number + 1, shortened(&why)));
            } else {
                more += 1;
            }
        }
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        problems
    }

    /// The lines that say the same anew.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        self.0
            .iter()
            .try_for_each(|kind| kind.write_to(&mut text))?;
        Ok(text)
    }

    /// Puts all of them back, kind by kind in the order of the book; those with a failure stay open.
    pub(crate) fn undo_all(&mut self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        self.0
            .iter_mut()
            .flat_map(|kind| kind.undo_all(host))
            .collect()
    }
}

fn shortened(why: &str) -> &str {
    let mut end = why.len().min(PROBLEM_LENGTH_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why[..end]
}
