// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is made once and kept is made by one at a time: other threads and other processes wait, and find it made.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// Holds the lock at `path` until it is dropped; the folder is made if it is not there.
///
/// # Errors
/// No such file can be made.
pub fn hold(path: &Path) -> Result<File> {
    let lacking = || format!("cannot lock {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(lacking)?;
    }
    let file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(lacking)?;
    flock(&file, FlockOperation::LockExclusive).with_context(lacking)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn threads_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/it.lock");
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let _lock = hold(&path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}
