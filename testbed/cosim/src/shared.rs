// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access stream's file: made here, mapped, locked while this program takes from it (the plugin looks
//! at the lock), and removed at the end.

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use weir_hw::stream::{Shape, Stream};

/// The file.
pub struct StreamFile {
    path: PathBuf,
    at: *mut AtomicU64,
    shape: Shape,
    /// Holds the lock.
    _file: File,
}

impl StreamFile {
    /// Create the file, readable by this user alone, with an empty stream of this shape.
    ///
    /// # Errors
    /// It exists, or there is no room.
    pub fn create(path: &Path, shape: Shape) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => bail!(
                "{} exists: another weir-cosim uses it, or one was killed and left it; remove it then",
                path.display()
            ),
            Err(e) => return Err(e).with_context(|| format!("cannot create {}", path.display())),
        };
        // Whole pages: a mapping has no less.
        let bytes = (shape.words() * 8).next_multiple_of(4096);
        file.set_len(bytes as u64)?;
        let lock = flock(&file, FlockOperation::NonBlockingLockExclusive);
        lock.with_context(|| format!("cannot lock {}", path.display()))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping of the file's whole length, unmapped only in drop.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let at = at.with_context(|| format!("cannot map {}", path.display()))?;
        let made = StreamFile {
            path: path.to_path_buf(),
            at: at.cast(),
            shape,
            _file: file,
        };
        let created = Stream::create(made.words(), shape);
        created.with_context(|| format!("no stream can be {shape:?}"))?;
        Ok(made)
    }

    /// The stream in it.
    pub fn stream(&self) -> Result<Stream<'_>> {
        Stream::open(self.words()).context("the access stream is broken")
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this many words until drop; others store whole words, as atomics may.
        unsafe { std::slice::from_raw_parts(self.at, self.shape.words()) }
    }
}

impl Drop for StreamFile {
    fn drop(&mut self) {
        // SAFETY: our mapping; nobody holds a borrow of `self` any more.
        let _ = unsafe { munmap(self.at.cast(), self.shape.words() * 8) };
        let _ = std::fs::remove_file(&self.path);
    }
}
