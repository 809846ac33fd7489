// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Restores what a weir process that died had changed, from its journal.
//!
//! A value is restored only where it is still weir's: each kind of lease knows how that shows
//! ([`super::undo::Undo`]). A cgroup that is gone took its limit with it. A value that another program set
//! since is left alone and reported.

use super::BookSpec;
use super::journal::{self, Journal, read_trusted};
use super::replay::OpenBook;
use super::run_dir::{Lock, RunDir};
use super::undo::{UndoHost, UndoOutcome};
use crate::error::LinuxError;
use crate::options::Roots;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// What became of the limits of a weir process that died.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResetReport {
    /// Limits that were restored exactly as they were.
    pub restored: Vec<WorkloadId>,
    /// Limits that were as they should be already.
    pub unchanged: Vec<WorkloadId>,
    /// The cgroup or process is gone; its limit went with it.
    pub vanished: Vec<WorkloadId>,
    /// Another program set another value since: left alone.
    pub left_alone: Vec<NotRestored>,
    /// Could not be restored; they stay in the journal for another try.
    pub failed: Vec<NotRestored>,
    /// Lines of a journal that make no sense, and files that could not be read or replaced. A damaged file is
    /// kept under a name that ends with `.damaged`.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotRestored {
    pub workload: WorkloadId,
    pub why: String,
}

impl ResetReport {
    /// Whether there was nothing to do and nothing to complain of.
    pub fn is_empty(&self) -> bool {
        *self == ResetReport::default()
    }

    /// Whether a limit may have been left behind.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.problems.is_empty()
    }
}

/// Restores from the journals of these lease books, and removes each when everything in it is dealt with.
/// Without a journal there is nothing to do, and the report is empty. The right of the first is needed. Where
/// a weir has one of the others it is alive and restores by itself what it changed under that.
///
/// # Errors
/// [`LinuxError::Locked`] while a weir process is alive (stop it: it restores what it set),
/// [`LinuxError::Distrusted`] if another user could have written the journal, and errors of the operating
/// system.
pub(crate) fn reset(roots: &Roots, specs: &[BookSpec]) -> Result<ResetReport, LinuxError> {
    let mut report = ResetReport::default();
    let Some(dir) = RunDir::open(roots)? else {
        return Ok(report);
    };
    let Some((own, others)) = specs.split_first() else {
        return Ok(report);
    };
    let _lock: Lock = dir.lock_file(own.lock)?;
    restore(roots, &dir, own, &mut report)?;
    restore_free(roots, &dir, others, &mut report);
    Ok(report)
}

/// Restores from the journals of a weir process that is alive and limits. That one finds its limits changed
/// by another program, and may set them again; its journals are left as they are. If none limits this is
/// [`reset`]: what a living weir holds under another right stays.
///
/// # Errors
/// As [`reset`], except for the locks.
pub(crate) fn reset_even_if_running(
    roots: &Roots,
    specs: &[BookSpec],
) -> Result<ResetReport, LinuxError> {
    match reset(roots, specs) {
        Err(LinuxError::Locked { .. }) => {}
        other => return other,
    }
    let mut report = ResetReport::default();
    let Some(dir) = RunDir::open(roots)? else {
        return Ok(report);
    };
    let Some((own, others)) = specs.split_first() else {
        return Ok(report);
    };
    restore_even_if_held(roots, &dir, own, &mut report)?;
    for other in others {
        if let Err(e) = restore_even_if_held(roots, &dir, other, &mut report) {
            report.problems.push(e.to_string());
        }
    }
    Ok(report)
}

fn restore_even_if_held(
    roots: &Roots,
    dir: &RunDir,
    book: &BookSpec,
    report: &mut ResetReport,
) -> Result<(), LinuxError> {
    match dir.lock_file(book.lock) {
        Ok(_lock) => restore(roots, dir, book, report).map(drop),
        Err(LinuxError::Locked { .. }) => {
            let mut open = OpenBook::new(book.kinds);
            read(dir, book, &mut open, report)?;
            undo_open(roots, &mut open, report);
            Ok(())
        }
        Err(e) => Err(e),
    }
}

/// Restores what is left of each of these books if no living weir has its right. Trouble with one of them is
/// a problem in the report: others were restored already.
pub(super) fn restore_free(
    roots: &Roots,
    dir: &RunDir,
    books: &[BookSpec],
    report: &mut ResetReport,
) {
    for book in books.iter().filter(|book| has_journal(dir, book)) {
        let restored = match dir.lock_file(book.lock) {
            Ok(_lock) => restore(roots, dir, book, report).map(drop),
            Err(LinuxError::Locked { .. }) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = restored {
            report.problems.push(e.to_string());
        }
    }
}

fn has_journal(dir: &RunDir, book: &BookSpec) -> bool {
    dir.file(book.files.journal).symlink_metadata().is_ok()
}

/// Restores under a lock that the caller holds. Returns what could not be restored: it is in the journal
/// again, or there is none.
///
/// The host comes first. If a file cannot be replaced or removed afterwards, that is a problem in the report:
/// what the file says is restored again by the next try, which changes nothing.
///
/// # Errors
/// A journal cannot be read, or may have been written by another user.
pub(super) fn restore(
    roots: &Roots,
    dir: &RunDir,
    book: &BookSpec,
    report: &mut ResetReport,
) -> Result<OpenBook, LinuxError> {
    let mut open = OpenBook::new(book.kinds);
    if !has_journal(dir, book) {
        return Ok(open);
    }
    let is_damaged = read(dir, book, &mut open, report)?;
    undo_open(roots, &mut open, report);
    if let Err(e) = put_away(dir, book, is_damaged, &open) {
        report.problems.push(e.to_string());
    }
    Ok(open)
}

/// Leaves in the journal what is open still, and keeps a damaged one for people to read.
fn put_away(
    dir: &RunDir,
    book: &BookSpec,
    is_damaged: bool,
    open: &OpenBook,
) -> Result<(), LinuxError> {
    let files = book.files;
    match (open.is_empty(), is_damaged) {
        (true, true) => journal::set_aside(dir, files.journal, files.damaged),
        (true, false) => journal::remove(dir, files.journal),
        (false, is_damaged) => {
            if is_damaged {
                journal::keep_damaged(dir, files.journal, files.damaged)?;
            }
            write(dir, book, open)
        }
    }
}

fn write(dir: &RunDir, book: &BookSpec, open: &OpenBook) -> Result<(), LinuxError> {
    let text = open.text();
    let text = text.map_err(|e| LinuxError::io("write", dir.file(book.files.new), e))?;
    Journal::rewrite(dir, book.files, &text).map(drop)
}

/// Reads the journal of a weir process that may have died. Says whether a part of it makes no sense.
fn read(
    dir: &RunDir,
    book: &BookSpec,
    open: &mut OpenBook,
    report: &mut ResetReport,
) -> Result<bool, LinuxError> {
    let Some(text) = read_trusted(dir, book.files.journal, journal::SIZE_MAX)? else {
        return Ok(false);
    };
    let problems = open.replay_all(&text);
    let is_damaged = !problems.is_empty();
    report.problems.extend(problems);
    Ok(is_damaged)
}

/// Puts everything back that is open, and reports it. What fails stays open.
pub(super) fn undo_open(roots: &Roots, open: &mut OpenBook, report: &mut ResetReport) {
    if open.is_empty() {
        return;
    }
    // In the order of their first changes.
    let mut merged: Vec<(WorkloadId, UndoOutcome)> = Vec::new();
    let mut places: BTreeMap<WorkloadId, usize> = BTreeMap::new();
    for (workload, outcome) in open.undo_all(&mut UndoHost::new(roots)) {
        match places.get(&workload).and_then(|at| merged.get_mut(*at)) {
            Some((_, before)) => {
                let first = std::mem::replace(before, UndoOutcome::Vanished);
                *before = both(first, outcome);
            }
            None => {
                places.insert(workload.clone(), merged.len());
                merged.push((workload, outcome));
            }
        }
    }
    for (workload, outcome) in merged {
        match outcome {
            UndoOutcome::Restored => report.restored.push(workload),
            UndoOutcome::Unchanged => report.unchanged.push(workload),
            UndoOutcome::Vanished => report.vanished.push(workload),
            UndoOutcome::LeftAlone(why) => report.left_alone.push(NotRestored { workload, why }),
            UndoOutcome::Failed(why) => report.failed.push(NotRestored { workload, why }),
        }
    }
}

/// What is reported of a cgroup of which two things were changed: it is listed once. What is still to be done
/// comes first, then what another program changed, then the most that was done.
fn both(one: UndoOutcome, other: UndoOutcome) -> UndoOutcome {
    use UndoOutcome::{Failed, LeftAlone, Restored, Unchanged, Vanished};
    let and_rest = |why: String| format!("{why}; the rest is restored");
    match (one, other) {
        (Failed(why), Restored) | (Restored, Failed(why)) => Failed(and_rest(why)),
        (LeftAlone(why), Restored) | (Restored, LeftAlone(why)) => LeftAlone(and_rest(why)),
        (Failed(one), Failed(other)) => Failed(format!("{one}; {other}")),
        (Failed(why), _) | (_, Failed(why)) => Failed(why),
        (LeftAlone(one), LeftAlone(other)) => LeftAlone(format!("{one}; {other}")),
        (LeftAlone(why), _) | (_, LeftAlone(why)) => LeftAlone(why),
        (Restored, _) | (_, Restored) => Restored,
        (Unchanged, _) | (_, Unchanged) => Unchanged,
        (Vanished, Vanished) => Vanished,
    }
}

#[cfg(test)]
#[path = "restore_tests.rs"]
mod tests;
