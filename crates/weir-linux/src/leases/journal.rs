// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The journal: what to put back if weir dies. `/run/weir/journal.jsonl`, one record a line.
//!
//! ```text
//! hold   cgroup (path and inode), what was there before    on disk BEFORE the first change
//! wrote  what we are about to write                        before each change
//! take   a process, where it was, where it goes            on disk BEFORE the move
//! moved  a cgroup whose threads weir schedules             on disk BEFORE the move
//! done   given back, or gone: nothing left to do
//!
//! weight       cgroup (path and inode), its weight before   on disk BEFORE the first change
//! weighed      the weight we are about to write             before each change
//! weight_done  given back, or gone
//! ```
//!
//! A reader puts a value back only if what is there is one of the last two that were written: the
//! last may not have reached the cgroup when weir died. A later `hold` of the same cgroup replaces
//! what to put back (somebody changed it meanwhile).
//!
//! The file is flushed to its device for `hold`, `take`, `moved` and `weight` only. A SIGKILL loses nothing that was
//! written; a power cut does, but it loses the cgroups, too.

use super::run_dir::{RunDir, distrust};
use crate::backends::cpu_max::weight::{NICES, WEIGHTS, WeightLease};
use crate::backends::sched_ext::threads::ScxThread;
use crate::error::LinuxError;
use crate::kernel::escape::{escape, unescape};
use crate::kernel::parse::cgroup::{CpuMax, cpu_max};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fdatasync, fstat, fsync, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;

pub(crate) const JOURNAL: &str = "journal.jsonl";
const NEW: &str = "journal.new";
/// A damaged journal is kept here for people to look at.
pub(crate) const DAMAGED: &str = "journal.damaged";
/// A journal beyond this size is not ours: it is rewritten long before.
const SIZE_MAX: u64 = 16 << 20;
/// Not rewritten below this size; in tests soon, so that it happens.
const COMPACT_AT: u64 = if cfg!(test) { 16 << 10 } else { 1 << 20 };
/// Kept for records that something is given back.
const DONE_ROOM: u64 = 1 << 20;
/// Damages that are told one by one.
const PROBLEMS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Record {
    Hold {
        path: String,
        inode: u64,
        max: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst_us: Option<u64>,
    },
    Wrote {
        inode: u64,
        max: String,
    },
    Take(Take),
    Moved(ScxThread),
    Done {
        inode: u64,
    },
    Weight {
        path: String,
        inode: u64,
        weight: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nice: Option<i64>,
    },
    Weighed {
        inode: u64,
        weight: u64,
    },
    WeightDone {
        inode: u64,
    },
}

impl Record {
    /// It tells that something is given back, and makes the journal shorter when that is rewritten.
    fn is_end(&self) -> bool {
        matches!(self, Record::Done { .. } | Record::WeightDone { .. })
    }

    /// It must be on the device before what it tells of is done.
    fn is_begin(&self) -> bool {
        matches!(
            self,
            Record::Hold { .. } | Record::Take(_) | Record::Moved(_) | Record::Weight { .. }
        )
    }
}

/// A process that was moved into a cgroup of its own, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Take {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
    pub(crate) from: String,
    pub(crate) from_inode: u64,
    pub(crate) to: String,
    pub(crate) inode: u64,
}

/// A cgroup whose limit we changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    /// What to put back.
    pub(crate) theirs: CpuMax,
    /// `cpu.max.burst` to put back, where the kernel has it.
    pub(crate) burst_us: Option<u64>,
    /// The last two values we wrote, oldest first.
    pub(crate) ours: Vec<CpuMax>,
}

impl Lease {
    pub(crate) fn hold(&self) -> Record {
        Record::Hold {
            path: escape(&self.path),
            inode: self.inode,
            max: self.theirs.to_string(),
            burst_us: self.burst_us,
        }
    }

    /// The records that tell it anew.
    pub(crate) fn records(&self) -> Vec<Record> {
        let wrote = |max: &CpuMax| Record::Wrote {
            inode: self.inode,
            max: max.to_string(),
        };
        std::iter::once(self.hold())
            .chain(self.ours.iter().map(wrote))
            .collect()
    }

    pub(crate) fn note_ours(&mut self, max: CpuMax) {
        self.ours.push(max);
        if self.ours.len() > 2 {
            self.ours.remove(0);
        }
    }
}

/// What a journal tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) leases: Vec<Lease>,
    pub(crate) takes: Vec<Take>,
    pub(crate) moves: Vec<ScxThread>,
    pub(crate) weights: Vec<WeightLease>,
    /// Lines that make no sense.
    pub(crate) problems: Vec<String>,
}

impl Story {
    /// The records that tell it anew.
    pub(crate) fn records(&self) -> Vec<Record> {
        let leases = self.leases.iter().flat_map(Lease::records);
        let weights = self.weights.iter().flat_map(WeightLease::records);
        let takes = self.takes.iter().cloned().map(Record::Take);
        let moves = self.moves.iter().cloned().map(Record::Moved);
        leases.chain(weights).chain(takes).chain(moves).collect()
    }
}

/// The journal of a living weir.
#[derive(Debug)]
pub(crate) struct Journal {
    file: OwnedFd,
    size: u64,
    /// Rewritten beyond this size: what is held may itself be longer than [`COMPACT_AT`], and to write that
    /// anew at each tick is to write all limits at each tick.
    compact_at: u64,
    text: Vec<u8>,
}

impl Journal {
    /// Replaces the journal by one with these records, so that at each moment one of the two is
    /// there as a whole.
    pub(crate) fn rewrite(dir: &RunDir, records: &[Record]) -> Result<Self, LinuxError> {
        let error = |e: Errno| LinuxError::io("write", dir.file(NEW), e);
        match unlinkat(dir.fd(), NEW, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(error(e)),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
        let file = openat(dir.fd(), NEW, flags, Mode::RUSR | Mode::WUSR).map_err(error)?;
        let mut journal = Journal {
            file,
            size: 0,
            compact_at: 0,
            text: Vec::new(),
        };
        for record in records {
            line(&mut journal.text, record).map_err(error)?;
        }
        journal.write().map_err(error)?;
        journal.compact_at = compact_at(journal.size);
        let put = fsync(&journal.file)
            .and_then(|()| renameat(dir.fd(), NEW, dir.fd(), JOURNAL))
            .and_then(|()| fsync(dir.fd()));
        put.map_err(error)?;
        Ok(journal)
    }

    /// Writes one record; one that something begins with is on the device when this returns.
    ///
    /// # Errors
    /// The kernel's; `EFBIG` where a reader would refuse the journal for its size: all but records of an end, which make
    /// it shorter when it is rewritten.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), Errno> {
        self.text.clear();
        line(&mut self.text, record)?;
        let size = self.size.saturating_add(self.text.len() as u64);
        if size > SIZE_MAX - DONE_ROOM && !record.is_end() {
            return Err(Errno::FBIG);
        }
        self.write()?;
        if record.is_begin() {
            fdatasync(&self.file)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Errno> {
        let mut rest = self.text.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        self.size += self.text.len() as u64;
        Ok(())
    }

    /// Whether it has grown so that it should be rewritten.
    pub(crate) fn is_long(&self) -> bool {
        self.size > self.compact_at
    }
}

/// Adds a record to the text.
fn line(text: &mut Vec<u8>, record: &Record) -> Result<(), Errno> {
    serde_json::to_writer(&mut *text, record).map_err(|_| Errno::INVAL)?;
    text.push(b'\n');
    Ok(())
}

/// When a journal that had this size after it was rewritten should be rewritten again: at twice that, and half-way to
/// where it would be refused at the latest.
fn compact_at(size: u64) -> u64 {
    let half_way = size + (SIZE_MAX - DONE_ROOM).saturating_sub(size) / 2;
    size.saturating_mul(2).max(COMPACT_AT).min(half_way)
}

/// Reads the journal of a weir that may have died; nothing if there is none.
pub(crate) fn read(dir: &RunDir) -> Result<Option<Story>, LinuxError> {
    let text = read_trusted(dir, JOURNAL, SIZE_MAX)?;
    Ok(text.map(|text| parse(&text)))
}

/// Reads a file of weir's own that decides what root writes: ours, writable by nobody else, and not too long.
pub(crate) fn read_trusted(
    dir: &RunDir,
    name: &str,
    most: u64,
) -> Result<Option<Vec<u8>>, LinuxError> {
    let path = dir.file(name);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let distrusted = |why: String| LinuxError::Distrusted {
        path: path.clone(),
        why,
    };
    let fd = match openat(dir.fd(), name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(distrusted("it is a link: remove it".into())),
        Err(e) => return Err(LinuxError::io("open", path, e)),
    };
    let stat = fstat(&fd).map_err(|e| LinuxError::io("look at", &path, e))?;
    if let Some(why) = distrust(&stat, FileType::RegularFile) {
        return Err(distrusted(why));
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
        let why = format!(
            "it has {} bytes: weir never writes so much; remove it",
            stat.st_size
        );
        return Err(distrusted(why));
    }
    let mut text = Vec::new();
    let read = std::fs::File::from(fd).take(most).read_to_end(&mut text);
    read.map_err(|e| LinuxError::io("read", &path, e))?;
    Ok(Some(text))
}

/// Removes it.
pub(crate) fn remove(dir: &RunDir) -> Result<(), LinuxError> {
    match unlinkat(dir.fd(), JOURNAL, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(LinuxError::io("remove", dir.file(JOURNAL), e)),
    }
}

/// Puts it aside for people to look at.
pub(crate) fn put_aside(dir: &RunDir) -> Result<(), LinuxError> {
    renameat(dir.fd(), JOURNAL, dir.fd(), DAMAGED)
        .map_err(|e| LinuxError::io("rename", dir.file(JOURNAL), e))
}

/// What the text tells. Lines that make no sense are problems, and the others count all the same.
pub(crate) fn parse(text: &[u8]) -> Story {
    let mut open = Open::default();
    let mut problems = Vec::new();
    let mut more = 0usize;
    for (number, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let told = match serde_json::from_slice::<Record>(line) {
            Ok(_) if !line.ends_with(b"\n") => Err("cut off in mid-write".to_owned()),
            Ok(record) => open.tell(record),
            Err(e) => Err(e.to_string()),
        };
        let Err(why) = told else { continue };
        if problems.len() < PROBLEMS_MAX {
            problems.push(format!("line {}: {why}", number + 1));
        } else {
            more += 1;
        }
    }
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    Story {
        leases: open.leases.into_values().collect(),
        takes: open.takes.into_values().collect(),
        moves: open.moves.into_values().collect(),
        weights: open.weights.into_values().collect(),
        problems,
    }
}

/// What is not given back so far, by inode.
#[derive(Default)]
struct Open {
    leases: BTreeMap<u64, Lease>,
    takes: BTreeMap<u64, Take>,
    moves: BTreeMap<u64, ScxThread>,
    weights: BTreeMap<u64, WeightLease>,
}

impl Open {
    fn tell(&mut self, record: Record) -> Result<(), String> {
        let value = |max: &str| cpu_max(max.as_bytes()).map_err(|e| e.to_string());
        match record {
            Record::Hold {
                path,
                inode,
                max,
                burst_us,
            } => {
                let theirs = value(&max)?;
                let path = unescape(&path).ok_or(PATH)?;
                let old = self.leases.remove(&inode);
                let lease = Lease {
                    path,
                    inode,
                    theirs,
                    burst_us,
                    ours: old.map(|old| old.ours).unwrap_or_default(),
                };
                self.leases.insert(inode, lease);
            }
            Record::Wrote { inode, max } => {
                let max = value(&max)?;
                let lease = self.leases.get_mut(&inode);
                lease.ok_or(NOT_HELD)?.note_ours(max);
            }
            Record::Take(take) => {
                self.takes.insert(take.inode, take);
            }
            Record::Moved(moved) => {
                self.moves.insert(moved.inode, moved);
            }
            Record::Done { inode } => {
                self.leases.remove(&inode);
                self.takes.remove(&inode);
                self.moves.remove(&inode);
            }
            Record::Weight {
                path,
                inode,
                weight,
                nice,
            } => {
                let lease = WeightLease {
                    path: unescape(&path).ok_or(PATH)?,
                    inode,
                    theirs: a_weight(weight)?,
                    nice: nice.filter(|nice| NICES.contains(nice)),
                    ours: Vec::new(),
                };
                self.weights.insert(inode, lease);
            }
            Record::Weighed { inode, weight } => {
                let weight = a_weight(weight)?;
                let lease = self.weights.get_mut(&inode);
                lease.ok_or(NOT_HELD)?.note_ours(weight);
            }
            Record::WeightDone { inode } => {
                self.weights.remove(&inode);
            }
        }
        Ok(())
    }
}

const PATH: &str = "a path that weir would not write";
const NOT_HELD: &str = "a value for a cgroup that is not held";

fn a_weight(weight: u64) -> Result<u64, String> {
    let is_one = WEIGHTS.contains(&weight);
    is_one
        .then_some(weight)
        .ok_or_else(|| format!("{weight} is no weight"))
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
