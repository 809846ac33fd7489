// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thing that is made once and kept is made by one thread at a time: other threads and other processes
//! wait, and find it made.

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::Path;

/// Holds the lock at `path` until it is dropped; the folder is made if it is not there.
///
/// # Errors
/// No such file can be made.
pub fn hold(path: &Path) -> Result<File> {
    let file = open(path)?;
    flock(&file, FlockOperation::LockExclusive).with_context(|| lacking(path))?;
    Ok(file)
}

/// The same, if nothing else holds it now.
///
/// # Errors
/// As [`hold`].
pub fn try_hold(path: &Path) -> Result<Option<File>> {
    let file = open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(why) => Err(why).with_context(|| lacking(path)),
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(|| lacking(path))?;
    }
    let mut options = File::options();
    let file = options.create(true).append(true).open(path);
    file.with_context(|| lacking(path))
}

fn lacking(path: &Path) -> String {
    format!("cannot lock {}", path.display())
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
    #[test]
    fn it_is_had_at_once_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("it.lock");
        let held = hold(&path).unwrap();
        assert!(try_hold(&path).unwrap().is_none());
        drop(held);
        assert!(try_hold(&path).unwrap().is_some());
    }
}
