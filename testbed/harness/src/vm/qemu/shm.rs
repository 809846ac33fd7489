// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared files between harness, device model and guest: in `/dev/shm`, gone with the VM.

use anyhow::{Context, Result};
use rustix::mm::{MapFlags, ProtFlags};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use weir_files::Access;

/// A file of shared 64-bit words, removed when dropped.
pub struct SharedMemory {
    path: PathBuf,
    at: *mut AtomicU64,
    words: usize,
}
// SAFETY: the mapping is only handed out as atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Create and map a file of `words` zero words, readable by us alone.
    ///
    /// # Errors
    /// No `/dev/shm`, or no space there.
    pub fn create(name: &str, words: usize) -> Result<Self> {
        let path = Path::new("/dev/shm").join(name);
        let words = (words * 8).next_multiple_of(4096) / 8;
        let made = weir_files::create_new(&path, Access::Private);
        let made = made.with_context(|| format!("create {}", path.display()))?;
        let file = made.into_file();
        file.set_len(words as u64 * 8)?;
        // SAFETY: a fresh mapping of `words` words, unmapped only in drop.
        let at = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(
                std::ptr::null_mut(),
                words * 8,
                access,
                MapFlags::SHARED,
                &file,
                0,
            )
            .with_context(|| format!("map {}", path.display()))?
        };
        Ok(SharedMemory {
            path,
            at: at.cast(),
            words,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped with this many words until drop.
        unsafe { std::slice::from_raw_parts(self.at, self.words) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: our mapping; no code holds a borrow of `self` any more.
        let _ = unsafe { rustix::mm::munmap(self.at.cast(), self.words * 8) };
        let _ = std::fs::remove_file(&self.path);
    }
}
