// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file behind a book: one record a line, JSON with the tag `op`. What its records changed must be
//! restored if weir dies.
//!
//! ```text
//! {"op":"hold","path":"/a.service","inode":7,"max":"max 100000"}   Begin: on disk BEFORE the first change
//! {"op":"wrote","inode":7,"max":"2000 20000"}                      Write: BEFORE each change
//! {"op":"done","inode":7}                                          End: restored, or gone
//! ```
//!
//! Each kind of lease ([`super::undo::Undo`]) defines its records. A value is restored only where one of the
//! last two that were written still stands: the last may not have arrived when weir died. A second Begin of
//! the same place replaces what is restored there: another program changed it meanwhile.
//!
//! The file is flushed to the disk at each Begin only. A SIGKILL loses nothing that was written. A power
//! failure does, but then the cgroups are lost too.

use super::run_dir::{RunDir, distrust};
use super::undo::RecordPhase;
use crate::error::LinuxError;
#[cfg(test)]
use crate::fake::kernel::FileChange;
use rustix::fs::{FileType, Mode, OFlags, fdatasync, fstat, fsync, ftruncate, openat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Read};

/// A journal larger than this is not weir's: it is rewritten long before.
pub(crate) const SIZE_MAX: u64 = 16 << 20;
/// The journal is not rewritten below this size; in tests it is smaller, so that it happens. Above it, it is
/// rewritten at twice what must stand in it. With this size alone ten thousand limits wrote the journal anew
/// at each tick, because what had to stand in it was longer.
pub(crate) const COMPACT_AT: u64 = if cfg!(test) { 16 << 10 } else { 1 << 20 };
/// Space that is kept for records of an end. A journal that is full to what a reader takes could not note
/// that a lease is restored, and the next weir process would restore it once more.
const DONE_ROOM: u64 = 1 << 20;

/// The names of a journal and of the files beside it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JournalFiles {
    pub(crate) journal: &'static str,
    /// Its successor, while that is written.
    pub(crate) new: &'static str,
    /// A damaged one is kept here for people to read.
    pub(crate) damaged: &'static str,
}

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    size: u64,
    /// Rewritten above this size: what is open may itself be longer than [`COMPACT_AT`], and to write that
    /// anew at each tick is to write all limits at each tick.
    compact_at: u64,
    /// A line was not written as a whole and could not be truncated: nothing may follow it.
    is_torn: bool,
    /// The end of a change could not be written.
    lacks_an_end: bool,
}

impl Journal {
    /// Replaces the journal by one with this text, so that at each moment one of the two is there as a whole.
    pub(crate) fn rewrite(
        dir: &RunDir,
        files: JournalFiles,
        text: &[u8],
    ) -> Result<Self, LinuxError> {
        let error = |e: io::Error| LinuxError::io("write", dir.file(files.new), e);
        match dir.unlink(files.new) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(error(e)),
            _ => {}
        }
        let file = dir.create_to_append(files.new).map_err(error)?;
        let mut journal = Journal {
            file,
            size: 0,
            compact_at: 0,
            is_torn: false,
            lacks_an_end: false,
        };
        journal.write(text).map_err(|e| error(e.into()))?;
        journal.compact_at = compact_at(journal.size);
        fsync(&journal.file).map_err(|e| error(e.into()))?;
        dir.rename(files.new, files.journal).map_err(error)?;
        // The new one is the journal from here on, also where the directory cannot be flushed: records in the
        // old one would be lost.
        if let Err(e) = dir.folder().sync() {
            tracing::warn!("{}", LinuxError::io("flush", dir.file(""), e));
        }
        Ok(journal)
    }

    /// Writes one record. A Begin is on the disk when this returns.
    ///
    /// # Errors
    /// The kernel's, and the record is not in the file then. `EFBIG` where a reader would refuse the journal
    /// for its size; a record of an end is written all the same, because it makes the rewritten journal
    /// shorter.
    pub(crate) fn append(&mut self, line: &[u8], phase: RecordPhase) -> Result<(), Errno> {
        let size = self.size.saturating_add(line.len() as u64);
        if size > SIZE_MAX - DONE_ROOM && phase != RecordPhase::End {
            return Err(Errno::FBIG);
        }
        if self.is_torn {
            return Err(Errno::IO);
        }
        let before = self.size;
        let written = self.write(line).and_then(|()| match phase {
            RecordPhase::Begin => self.flush(),
            RecordPhase::Write | RecordPhase::End => Ok(()),
        });
        if written.is_err() {
            // What failed must not be read later, and the next line must not be appended to a part of it.
            self.size = before;
            self.is_torn = self.cut_off().is_err();
        }
        written
    }

    /// Flushes the file to the disk.
    fn flush(&self) -> Result<(), Errno> {
        #[cfg(test)]
        if let Some(answer) = crate::fake::kernel::answer(&self.file, "", FileChange::Flush) {
            return answer;
        }
        fdatasync(&self.file)
    }

    /// Truncates what was not written as a whole.
    fn cut_off(&self) -> Result<(), Errno> {
        #[cfg(test)]
        if let Some(answer) = crate::fake::kernel::answer(&self.file, "", FileChange::Truncate) {
            return answer;
        }
        ftruncate(&self.file, self.size)
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Errno> {
        #[cfg(test)]
        if let Some(answer) = crate::fake::kernel::answer(&self.file, "", FileChange::Append(text))
        {
            return answer;
        }
        let mut rest = text;
        while !rest.is_empty() {
            match rustix::io::write(&self.file, rest) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        self.size += text.len() as u64;
        Ok(())
    }

    /// It says of something that it is changed which is as it was.
    pub(crate) fn lacks_an_end(&mut self) {
        self.lacks_an_end = true;
    }

    pub(crate) fn needs_rewrite(&self) -> bool {
        self.is_torn || self.lacks_an_end || self.size > self.compact_at
    }
}

/// When a journal that had this size after it was rewritten should be rewritten again: at twice that, and
/// half-way to where it would be refused at the latest.
fn compact_at(size: u64) -> u64 {
    let half_way = size + (SIZE_MAX - DONE_ROOM).saturating_sub(size) / 2;
    size.saturating_mul(2).max(COMPACT_AT).min(half_way)
}

/// Reads a file of weir's own that decides what root writes. It must have weir's owner, be writable by no
/// other user, and not be too long.
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
    let fd = match openat(dir.folder().fd(), name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(distrusted("it is a link: remove it".into())),
        Err(e) => return Err(LinuxError::io("open", path, e)),
    };
    let stat = fstat(&fd).map_err(|e| LinuxError::io("check", &path, e))?;
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
    let read = File::from(fd).take(most).read_to_end(&mut text);
    read.map_err(|e| LinuxError::io("read", &path, e))?;
    Ok(Some(text))
}

pub(crate) fn remove(dir: &RunDir, name: &str) -> Result<(), LinuxError> {
    match dir.unlink(name) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(LinuxError::io("remove", dir.file(name), e))
        }
        _ => Ok(()),
    }
}

/// Keeps a damaged file under another name, for people to read.
pub(crate) fn set_aside(dir: &RunDir, name: &str, damaged: &str) -> Result<(), LinuxError> {
    dir.rename(name, damaged)
        .map_err(|e| LinuxError::io("rename", dir.file(damaged), e))
}

/// The same where the file stays until its successor is written.
pub(crate) fn keep_damaged(dir: &RunDir, name: &str, damaged: &str) -> Result<(), LinuxError> {
    remove(dir, damaged)?;
    dir.link(name, damaged)
        .map_err(|e| LinuxError::io("make", dir.file(damaged), e))
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
