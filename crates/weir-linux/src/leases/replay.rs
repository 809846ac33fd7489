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

    /// Whether a lease on this cgroup is open.
    pub(crate) fn has_cgroup(&self, inode: u64) -> bool {
        self.0.iter().any(|kind| kind.has_cgroup(inode))
    }

    /// Checks a record as a reader of the journal would, and says when it is written. It takes effect with
    /// [`OpenBook::commit`].
    ///
    /// # Errors
    /// Why it makes no sense. It takes no effect then.
    pub(crate) fn stage(&mut self, line: &[u8]) -> Result<RecordPhase, String> {
        self.discard();
        let staged = self.stage_all(line);
        if staged.is_err() {
            self.discard();
        }
        staged
    }

    fn stage_all(&mut self, line: &[u8]) -> Result<RecordPhase, String> {
        let head: RecordHead<'_> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let mut found = Err(format!("unknown record {:?}", head.op));
        for kind in &mut self.0 {
            if let Some((_, phase)) = kind.ops().iter().find(|(op, _)| *op == head.op) {
                kind.stage(line)?;
                found = Ok(*phase);
            }
        }
        found
    }

    fn discard(&mut self) {
        self.0.iter_mut().for_each(|kind| kind.discard());
    }

    /// The record that was staged last takes effect.
    pub(crate) fn commit(&mut self) {
        self.0.iter_mut().for_each(|kind| kind.commit());
    }

    /// Reads one record, which takes effect.
    ///
    /// # Errors
    /// Why it makes no sense.
    fn replay(&mut self, line: &[u8]) -> Result<(), String> {
        self.stage(line)?;
        self.commit();
        Ok(())
    }

    /// Reads all lines of a journal. Lines that make no sense are returned by their number, and the others
    /// take effect all the same.
    pub(crate) fn replay_all(&mut self, text: &[u8]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut more = 0usize;
        for (number, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
            let taken = match line.strip_suffix(b"\n") {
                Some(line) => self.replay(line),
                None => self
                    .stage(line)
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

    /// The lines of all open leases, for a journal that is rewritten.
    pub(crate) fn text(&self) -> Result<Vec<u8>, Errno> {
        let mut text = Vec::new();
        self.0
            .iter()
            .try_for_each(|kind| kind.write_to(&mut text))?;
        Ok(text)
    }

    /// Restores all of them, kind by kind in the order of the book; those with a failure stay open.
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
