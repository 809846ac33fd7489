// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one guest leaves on the host while it runs: gone with it.

use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use weir_files::Folder;

static VM_NUMBER: AtomicU32 = AtomicU32::new(0);

/// A name of its own on this host, and a directory that goes with it.
pub(crate) struct Scratch {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
}

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let number = VM_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        // New, and for this user only: files in it can be made by name.
        Folder::open(&std::env::temp_dir())?.make_below(name.as_ref())?;
        Ok(Scratch { name, dir })
    }

    /// A file of the guest's own in memory, if it wants one.
    pub(crate) fn own_file(&self) -> PathBuf {
        Path::new("/dev/shm").join(format!("{}.own", self.name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        let _ = std::fs::remove_file(self.own_file());
    }
}
