// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir must undo. Each change of the host is a lease: it is noted in a journal before it is made, and
//! restored when weir ends, or by the next weir process, or by `weir reset`.
//!
//! ```text
//! run_dir   /run/weir and the locks in it: one weir process holds a lock at a time
//! journal   the file: one record a line
//! undo      trait Undo: what one kind of record says, and how it is restored
//! replay    lines of a journal ─► open leases
//! restore   what a weir process that died has left
//! ```
//!
//! A [`LeaseBook`] is lent to each part that changes the host. These parts register their kinds of leases
//! ([`BookSpec::kinds`]). Nothing here imports from a layer above.

pub(crate) mod journal;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod run_dir;
pub(crate) mod undo;

use crate::error::LinuxError;
use crate::options::Roots;
use journal::{Journal, JournalFiles};
use replay::OpenBook;
use restore::ResetReport;
use run_dir::{Lock, RunDir};
use serde::Serialize;
use undo::{LeaseKind, RecordPhase};
use weir_core::Missing;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::topology::Fact;

/// A book: the right to change something of the host, and where the leases under that right are noted.
#[derive(Clone, Copy)]
pub(crate) struct BookSpec {
    /// What a weir does that has this right, for messages.
    pub(crate) doing: &'static str,
    /// The lock that is the right.
    pub(crate) lock: &'static str,
    pub(crate) files: JournalFiles,
    /// The kinds of leases, in the order in which they are restored.
    pub(crate) kinds: &'static [LeaseKind],
}

pub(crate) struct LeaseBook {
    roots: Roots,
    /// The first is its own. Leases left in the others are restored, too, when the right is taken.
    specs: &'static [BookSpec],
    held: Option<HeldBook>,
}

struct HeldBook {
    dir: RunDir,
    journal: Journal,
    /// What the journal says, also of an earlier weir process where that could not be restored.
    open: OpenBook,
    line: Vec<u8>,
    _lock: Lock,
}

impl LeaseBook {
    /// A book without the right yet: nothing can be noted. The first of `specs` is the one it writes.
    pub(crate) fn new(roots: &Roots, specs: &'static [BookSpec]) -> Self {
        LeaseBook {
            roots: roots.clone(),
            specs,
            held: None,
        }
    }

    /// Takes the right, once, and restores what a weir process that died has left.
    ///
    /// # Errors
    /// [`LinuxError::Locked`] while another weir process holds the lock, [`LinuxError::Distrusted`] for files
    /// that another user could have written, and those of the operating system.
    pub(crate) fn claim(&mut self) -> Result<ResetReport, LinuxError> {
        let Some((own, others)) = self.specs.split_first() else {
            return Ok(ResetReport::default());
        };
        if self.held.is_some() {
            return Ok(ResetReport::default());
        }
        let dir = RunDir::open_or_make(&self.roots)?;
        let lock = dir.lock_file(own.lock)?;
        let mut report = ResetReport::default();
        let open = restore::restore(&self.roots, &dir, own, &mut report)?;
        restore::restore_free(&self.roots, &dir, others, &mut report);
        let write = |e| LinuxError::io("write", dir.file(own.files.journal), e);
        let journal = Journal::rewrite(&dir, own.files, &open.text().map_err(write)?)?;
        self.held = Some(HeldBook {
            dir,
            journal,
            open,
            line: Vec::new(),
            _lock: lock,
        });
        Ok(report)
    }

    /// Writes a record. What it announces must not be done if this fails. A record of an end that cannot be
    /// written is no failure: the journal lacks it until it is rewritten.
    ///
    /// # Errors
    /// [`OutcomeKind::Failed`], with the reason: the right is not taken, or the journal cannot be written.
    pub(crate) fn note(&mut self, record: &impl Serialize) -> Result<(), OutcomeKind> {
        let failed = |why: String| {
            let failed = "the journal cannot be written, so nothing is changed";
            OutcomeKind::Failed(format!("{failed}: {why}"))
        };
        let held = self.held.as_mut();
        let held = held.ok_or_else(|| OutcomeKind::Failed("no journal is open".into()))?;
        held.note(record).map_err(failed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.open.is_empty())
    }

    /// Whether this cgroup is changed already: by this process, or by an earlier weir process where that
    /// could not be restored. A second lease on it would take weir's own value for that of its owner.
    pub(crate) fn has_cgroup(&self, inode: u64) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.open.has_cgroup(inode))
    }

    /// Rewrites a journal that has grown long or lacks a record, from what is open now. Called at each tick.
    pub(crate) fn compact(&mut self) {
        let (Some(held), Some(own)) = (self.held.as_mut(), self.specs.first()) else {
            return;
        };
        if !held.journal.needs_rewrite() {
            return;
        }
        let text = held.open.text();
        let text = text.map_err(|e| LinuxError::io("write", held.dir.file(own.files.new), e));
        match text.and_then(|text| Journal::rewrite(&held.dir, own.files, &text)) {
            Ok(journal) => held.journal = journal,
            Err(e) => tracing::warn!("{e}"),
        }
    }

    /// Releases the right if nothing is left to restore, and removes the journal.
    pub(crate) fn end_if_empty(&mut self) {
        if !self.is_empty() {
            return;
        }
        if let (Some(held), Some(own)) = (self.held.take(), self.specs.first())
            && let Err(e) = journal::remove(&held.dir, own.files.journal)
        {
            tracing::warn!("{e}");
        }
    }

    /// Restores all that is open, by the records alone.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn undo_all(&mut self) -> Result<ResetReport, LinuxError> {
        let mut report = ResetReport::default();
        let (Some(held), Some(own)) = (self.held.as_mut(), self.specs.first()) else {
            return Ok(report);
        };
        if held.open.is_empty() {
            return Ok(report);
        }
        restore::undo_open(&self.roots, &mut held.open, &mut report);
        held.journal.lacks_an_end();
        let write = |e| LinuxError::io("write", held.dir.file(own.files.new), e);
        let text = held.open.text().map_err(write)?;
        held.journal = Journal::rewrite(&held.dir, own.files, &text)?;
        Ok(report)
    }

    /// weir is killed: the lock goes with the process, and nothing is restored.
    #[cfg(test)]
    pub(crate) fn crash(&mut self) {
        self.held = None;
    }
}

impl Drop for LeaseBook {
    fn drop(&mut self) {
        self.end_if_empty();
    }
}

impl HeldBook {
    fn note(&mut self, record: &impl Serialize) -> Result<(), String> {
        self.line.clear();
        undo::write_line(&mut self.line, record).map_err(|e| e.to_string())?;
        // What a reader would refuse must not come into the file.
        let phase = self.open.stage(&self.line)?;
        let written = self.journal.append(&self.line, phase);
        match (written, phase) {
            (Ok(()), _) => {}
            // The earlier value is back, so this holds whether it can be written or not. A reader that finds
            // the lease open finds nothing of it to restore.
            (Err(e), RecordPhase::End) => {
                tracing::warn!("the end of a change cannot be noted, it is tried again: {e}");
                self.journal.lacks_an_end();
            }
            (Err(e), _) => return Err(e.to_string()),
        }
        self.open.commit();
        Ok(())
    }
}

/// Whether all limits are in order: those of a weir process that runs are, those of one that died are not.
/// For `weir doctor`.
pub(crate) fn fact(roots: &Roots, specs: &[BookSpec]) -> Fact {
    let (mut held, mut left) = (Vec::new(), Vec::new());
    for book in specs {
        let path = roots.run.join(book.files.journal);
        if path.symlink_metadata().is_err() {
            continue;
        }
        let path = path.display();
        match run_dir::holder(roots, book.lock) {
            Some(holder) => held.push(format!("weir {holder} is running and holds {path}")),
            None => left.push(format!(
                "{path} is there: a weir died while it {}",
                book.doing
            )),
        }
    }
    let (value, next_move) = match (&left[..], &held[..]) {
        ([], []) => (Ok("no limits left behind".into()), None),
        ([], _) => (Ok(held.join("; ")), None),
        _ => (
            Err(Missing::Lost(left.join("; "))),
            Some(NextMove {
                act: Act::Command("weir reset".into()),
                why: "a weir that died left limits behind".into(),
                needs: Precondition::Seen("no weir that runs holds the lock".into()),
            }),
        ),
    };
    Fact {
        name: "leases.journal".into(),
        value,
        next_move,
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
