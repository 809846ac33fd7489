// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The right to limit on this host: the lock, the journal behind it, and what an earlier weir has
//! left. Taken before the first limit, given back after the last.

pub(crate) mod journal;
pub(crate) mod restore;
pub(crate) mod run_dir;

use crate::error::LinuxError;
use crate::options::Roots;
use journal::{Journal, Record};
use restore::ResetReport;
use run_dir::{Lock, RunDir};
use weir_core::seam::plan::OutcomeKind;

pub(crate) struct Claim {
    dir: RunDir,
    journal: Journal,
    /// What an earlier weir left and could not be put back: told on for `weir reset`.
    leftovers: Vec<Record>,
    _lock: Lock,
}

impl Claim {
    /// Takes the lock and puts back what a weir that died has left.
    pub(crate) fn take(roots: &Roots) -> Result<(Self, ResetReport), LinuxError> {
        let dir = RunDir::open_or_make(roots)?;
        let lock = dir.lock()?;
        let report = restore::restore(roots, &dir)?;
        let again = journal::read(&dir)?.unwrap_or_default();
        let leftovers = again.records();
        let journal = Journal::rewrite(&dir, &leftovers)?;
        Ok((
            Claim {
                dir,
                journal,
                leftovers,
                _lock: lock,
            },
            report,
        ))
    }

    /// Writes a record. What it announces must not be done if this fails.
    pub(crate) fn note(&mut self, record: &Record) -> Result<(), OutcomeKind> {
        let failed = "the journal cannot be written, so nothing is changed";
        let noted = self.journal.append(record);
        noted.map_err(|e| OutcomeKind::Failed(format!("{failed}: {e}")))
    }

    /// Rewrites a journal that has grown long, from what is held now.
    pub(crate) fn compact(&mut self, held: impl FnOnce() -> Vec<Record>) {
        if !self.journal.is_long() {
            return;
        }
        let mut records = self.leftovers.clone();
        records.extend(held());
        match Journal::rewrite(&self.dir, &records) {
            Ok(journal) => self.journal = journal,
            Err(e) => tracing::warn!("{e}"),
        }
    }

    /// Removes the journal if nothing is left in it, and lets go of the lock.
    pub(crate) fn end(self) {
        let told = journal::read(&self.dir);
        let is_over = told.is_ok_and(|story| story.is_none_or(|story| story.records().is_empty()));
        if is_over && let Err(e) = journal::remove(&self.dir) {
            tracing::warn!("{e}");
        }
    }
}
