// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How one kind of lease is restored.
//!
//! A part that changes the host has one file for each kind of change: the records that stand in the journal,
//! and an [`Undo`] that says how the change is restored. It registers the kind in the list of a book
//! ([`super::BookSpec`]). This folder knows no kind by its name, and uses nothing of the layers above it.
//!
//! ```text
//!  back end ── note(record) ─► journal line {"op": …} ─► replay ─► open leases of that kind
//!                                                                        │ undo
//!  next start, weir reset ── lines of the journal ─────► replay ─► open ─┴─► the host as it was
//! ```

use crate::kernel::files::{Buffer, inode, open_beneath, open_root};
use crate::options::Roots;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Debug;
use weir_core::WorkloadId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordPhase {
    /// Before the first change: what was there. On the disk before the change is made.
    Begin,
    /// Before each change: the value that is about to be written.
    Write,
    /// After the earlier value is back, or the place is gone.
    End,
}

/// What one change of the host was, and how it is restored. Each type is one kind of lease.
pub(crate) trait Undo: Debug + Send + Sized + 'static {
    /// Distinguishes leases of the kind: the inode of a cgroup, the number of a CPU.
    type Key: Ord + Debug + Send;
    /// Its records, one a line of the journal. serde's tag is `op`.
    type Record: Serialize + DeserializeOwned;
    /// The `op` of each record, and when it is written. A record that several kinds have is given to each of
    /// them.
    const OPS: &'static [(&'static str, RecordPhase)];

    /// What a record makes of the open leases of this kind. This changes nothing: a record is checked before
    /// it is written, and takes effect after that. The record may be forged: values that weir would not write
    /// are refused.
    ///
    /// # Errors
    /// Why the record makes no sense, in a few words; the caller adds the line.
    fn replay(
        open: &BTreeMap<Self::Key, Self>,
        record: Self::Record,
    ) -> Result<LeaseChange<Self>, String>;

    /// The records of this lease, for a journal that is rewritten.
    fn records(&self) -> Vec<Self::Record>;

    /// Whether one of the open leases is a change of the cgroup with this inode. It is asked before each new
    /// limit.
    fn has_cgroup(_open: &BTreeMap<Self::Key, Self>, _inode: u64) -> bool {
        false
    }

    /// Puts the earlier state back where what is there is still weir's. One entry for each thing that it
    /// changed. A lease with a failure stays in the journal for another try.
    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)>;
}

/// What a record makes of the open leases of its kind.
pub(crate) type LeaseChange<L> = Box<dyn FnOnce(&mut BTreeMap<<L as Undo>::Key, L>) + Send>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UndoOutcome {
    /// The earlier value is back.
    Restored,
    /// The earlier value stood there already.
    Unchanged,
    /// The place is gone, and the change with it.
    Vanished,
    /// Another program has changed the value since.
    LeftAlone(String),
    /// It failed, and is tried again.
    Failed(String),
}

/// The last two values that weir wrote somewhere, oldest first: the last may not have arrived when weir died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastTwo<T>(Vec<T>);

impl<T> Default for LastTwo<T> {
    fn default() -> Self {
        LastTwo(Vec::new())
    }
}

impl<T: PartialEq> LastTwo<T> {
    pub(crate) fn push(&mut self, value: T) {
        if self.0.len() >= 2 {
            self.0.remove(0);
        }
        self.0.push(value);
    }

    /// What must be noted before `next` is written where `stands` is in force, so that both are among the
    /// last two. A value that was noted and could not be written must not push out the one that is in force.
    pub(crate) fn to_note(&self, stands: T, next: T) -> Vec<T> {
        match (self.contains(&stands), self.contains(&next)) {
            (true, true) => Vec::new(),
            (true, false) if self.0.last() != Some(&stands) => vec![stands, next],
            _ => vec![next],
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, value: &T) -> bool {
        self.0.contains(value)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }
}

/// What putting back needs of the host.
pub(crate) struct UndoHost<'a> {
    pub(crate) roots: &'a Roots,
    cgroup: Result<OwnedFd, Errno>,
    pub(crate) buffer: Buffer,
}

impl<'a> UndoHost<'a> {
    pub(crate) fn new(roots: &'a Roots) -> Self {
        UndoHost {
            roots,
            cgroup: open_root(&roots.cgroup),
            buffer: Buffer::new(),
        }
    }

    /// Puts one thing back in the cgroup at this path, if that is still the one with this inode.
    pub(crate) fn in_cgroup(
        &mut self,
        path: &[u8],
        wanted: u64,
        put_back: impl FnOnce(BorrowedFd<'_>, &mut Buffer) -> UndoOutcome,
    ) -> UndoOutcome {
        self.below_cgroup_root(|root, buffer| match open_beneath(root, path) {
            Ok(dir) => match inode(&dir) {
                Ok(stat) if stat.st_ino == wanted => put_back(dir.as_fd(), buffer),
                _ => UndoOutcome::Vanished,
            },
            Err(Errno::NOENT | Errno::NODEV) => UndoOutcome::Vanished,
            Err(e) => UndoOutcome::Failed(format!("not opened below the cgroup root: {e}")),
        })
    }

    /// The same for what finds its cgroups itself.
    pub(crate) fn below_cgroup_root(
        &mut self,
        put_back: impl FnOnce(BorrowedFd<'_>, &mut Buffer) -> UndoOutcome,
    ) -> UndoOutcome {
        match &self.cgroup {
            Ok(root) => put_back(root.as_fd(), &mut self.buffer),
            Err(e) => UndoOutcome::Failed(format!("{}: {e}", self.roots.cgroup.display())),
        }
    }
}

/// The open leases of one kind.
pub(super) trait OpenLeases: Debug + Send {
    fn ops(&self) -> &'static [(&'static str, RecordPhase)];
    /// Checks a record, and remembers what it makes of the leases.
    fn stage(&mut self, line: &[u8]) -> Result<(), String>;
    /// What was remembered takes effect.
    fn commit(&mut self);
    /// What was remembered takes no effect.
    fn discard(&mut self);
    /// Adds the lines of all of them, for a journal that is rewritten.
    fn write_to(&self, text: &mut Vec<u8>) -> Result<(), Errno>;
    fn is_empty(&self) -> bool;
    fn has_cgroup(&self, inode: u64) -> bool;
    /// Puts all of them back, and keeps those with a failure.
    fn undo_all(&mut self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)>;
}

struct LeasesOf<L: Undo> {
    open: BTreeMap<L::Key, L>,
    /// The change of a record that is not written yet; it takes effect only with the record.
    staged: Option<LeaseChange<L>>,
}

impl<L: Undo> Debug for LeasesOf<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.open.fmt(f)
    }
}

impl<L: Undo> OpenLeases for LeasesOf<L> {
    fn ops(&self) -> &'static [(&'static str, RecordPhase)] {
        L::OPS
    }

    fn stage(&mut self, line: &[u8]) -> Result<(), String> {
        let record = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        self.staged = Some(L::replay(&self.open, record)?);
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(change) = self.staged.take() {
            change(&mut self.open);
        }
    }

    fn discard(&mut self) {
        self.staged = None;
    }

    fn write_to(&self, text: &mut Vec<u8>) -> Result<(), Errno> {
        let mut records = self.open.values().flat_map(L::records);
        records.try_for_each(|record| write_line(text, &record))
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn has_cgroup(&self, inode: u64) -> bool {
        L::has_cgroup(&self.open, inode)
    }

    fn undo_all(&mut self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let mut all = Vec::new();
        self.open.retain(|_, lease| {
            let done = lease.undo(host);
            let has_failed = |(_, one): &(_, UndoOutcome)| matches!(one, UndoOutcome::Failed(_));
            let is_kept = done.iter().any(has_failed);
            all.extend(done);
            is_kept
        });
        all
    }
}

/// A kind of lease, as it stands in the list of a book.
#[derive(Clone, Copy)]
pub(crate) struct LeaseKind(fn() -> Box<dyn OpenLeases>);

impl LeaseKind {
    pub(crate) const fn of<L: Undo>() -> Self {
        LeaseKind(none_of::<L>)
    }

    pub(super) fn none(self) -> Box<dyn OpenLeases> {
        (self.0)()
    }
}

fn none_of<L: Undo>() -> Box<dyn OpenLeases> {
    Box::new(LeasesOf::<L> {
        open: BTreeMap::new(),
        staged: None,
    })
}

pub(super) fn write_line(text: &mut Vec<u8>, record: &impl Serialize) -> Result<(), Errno> {
    serde_json::to_writer(&mut *text, record).map_err(|_| Errno::INVAL)?;
    text.push(b'\n');
    Ok(())
}
