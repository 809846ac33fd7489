// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The access trace's file: made here, mapped, locked while this program takes from it (the device model
//! checks the lock), and removed at the end.

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use weir_files::Access;
use weir_ipc::access_trace::{AccessTrace, TraceLayout};

pub struct TraceFile {
    path: PathBuf,
    at: *mut AtomicU64,
    layout: TraceLayout,
    /// The open file holds the lock.
    _file: File,
}

impl TraceFile {
    /// Create the file, readable by this user alone, with an empty trace of this layout.
    ///
    /// # Errors
    /// It exists, or there is no space.
    pub fn create(path: &Path, layout: TraceLayout) -> Result<Self> {
        let file = match weir_files::create_new(path, Access::Private) {
            Ok(made) => made.into_file(),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => bail!(
                "{} exists: another weir-cosim uses it, or one was killed and left it; remove it then",
                path.display()
            ),
            Err(e) => return Err(e).with_context(|| format!("cannot create {}", path.display())),
        };
        // Whole pages: a mapping has no less.
        let bytes = (layout.words() * 8).next_multiple_of(4096);
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
        let made = TraceFile {
            path: path.to_path_buf(),
            at: at.cast(),
            layout,
            _file: file,
        };
        let created = AccessTrace::create(made.words(), layout);
        created.with_context(|| format!("no trace can be {layout:?}"))?;
        Ok(made)
    }

    pub fn trace(&self) -> Result<AccessTrace<'_>> {
        AccessTrace::open(self.words()).context("the access trace is broken")
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this many words until drop; others store whole words, as atomics may.
        unsafe { std::slice::from_raw_parts(self.at, self.layout.words()) }
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        // SAFETY: our mapping; no code holds a borrow of `self` any more.
        let _ = unsafe { munmap(self.at.cast(), self.layout.words() * 8) };
        let _ = std::fs::remove_file(&self.path);
    }
}
