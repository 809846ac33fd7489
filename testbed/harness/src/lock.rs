// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is made once and kept is made by one process at a time.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// Held until dropped, or until the process ends.
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock of this file, which is made if need be.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn of(path: &Path) -> Result<Self> {
        let file = open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(FileLock { _file: file })
    }

    /// The lock, if nothing else holds it.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn now(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FileLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    file.with_context(|| format!("cannot lock {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/lock");
        let held = FileLock::of(&path).unwrap();
        assert!(FileLock::now(&path).unwrap().is_none());
        drop(held);
        assert!(FileLock::now(&path).unwrap().is_some());
    }
}
