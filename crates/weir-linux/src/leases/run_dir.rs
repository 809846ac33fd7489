// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's own directory (`/run/weir`) and the lock in it: one weir limits on a host at a time.
//!
//! Files there decide what root writes into cgroups after a crash. So the directory and the files must have
//! weir's owner, be of the right type, and be writable by no other user.

use crate::error::LinuxError;
#[cfg(test)]
use crate::fake::kernel::{FileChange, answer};
use crate::options::Roots;
use rustix::fs::{FileType, FlockOperation, OFlags, Stat, fcntl_setfl, flock, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use weir_files::{Access, Folder};

/// Name of the lock file of the weir that limits.
pub(crate) const LOCK: &str = "lock";

/// `/run/weir`, opened and found sound.
#[derive(Debug)]
pub(crate) struct RunDir {
    folder: Folder,
    path: PathBuf,
}

impl RunDir {
    /// Opens it; nothing if it is not there.
    pub(crate) fn open(roots: &Roots) -> Result<Option<Self>, LinuxError> {
        let path = roots.run.clone();
        let found = Folder::containing(&path).and_then(|(parent, name)| parent.below(&name));
        match found {
            Ok(folder) => {
                let stat = fstat(folder.fd()).map_err(|e| LinuxError::io("check", &path, e))?;
                // It is as it should be, and not for this user.
                if stat.st_uid == 0 && !geteuid().is_root() {
                    return Err(LinuxError::io("open", &path, Errno::ACCESS));
                }
                distrust(&stat, FileType::Directory).map_or(Ok(()), |why| {
                    Err(LinuxError::Distrusted {
                        path: path.clone(),
                        why,
                    })
                })?;
                Ok(Some(RunDir { folder, path }))
            }
            Err(e) => match e.kind() {
                ErrorKind::NotFound => Ok(None),
                ErrorKind::NotADirectory => {
                    let why = "it is not a directory: remove it".into();
                    Err(LinuxError::Distrusted { path, why })
                }
                _ => Err(LinuxError::io("open", path, e)),
            },
        }
    }

    /// Opens it, made if need be, for its owner only.
    pub(crate) fn open_or_make(roots: &Roots) -> Result<Self, LinuxError> {
        if let Some(dir) = Self::open(roots)? {
            return Ok(dir);
        }
        let made = Folder::open_or_make_private(&roots.run);
        made.map_err(|e| LinuxError::io("make", &roots.run, e))?;
        let gone = || LinuxError::io("open", &roots.run, Errno::NOENT);
        Self::open(roots)?.ok_or_else(gone)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Path of a file in it, for messages.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Makes a file for its owner only.
    pub(super) fn create_to_append(&self, name: &str) -> io::Result<File> {
        #[cfg(test)]
        if let Some(Err(e)) = answer(self.folder.fd(), name, FileChange::Create) {
            return Err(e.into());
        }
        let made = self.folder.create_new(name, Access::Private)?;
        fcntl_setfl(made.file(), OFlags::APPEND)?;
        Ok(made.into_file())
    }

    pub(super) fn unlink(&self, name: &str) -> io::Result<()> {
        #[cfg(test)]
        if let Some(answer) = answer(self.folder.fd(), name, FileChange::Unlink) {
            return Ok(answer?);
        }
        self.folder.remove(name)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(test)]
        if let Some(answer) = answer(self.folder.fd(), from, FileChange::Rename) {
            return Ok(answer?);
        }
        self.folder.rename(from, to)
    }

    pub(super) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(test)]
        if let Some(answer) = answer(self.folder.fd(), from, FileChange::Link) {
            return Ok(answer?);
        }
        self.folder.link(from, to)
    }

    /// Takes the lock, or gives the process id of its holder.
    #[cfg(test)]
    pub(crate) fn lock(&self) -> Result<Lock, LinuxError> {
        self.lock_file(LOCK)
    }

    /// Takes the lock of this name, or says which process has it.
    pub(crate) fn lock_file(&self, name: &str) -> Result<Lock, LinuxError> {
        let path = self.file(name);
        let fd = self
            .folder
            .open_own(name, false, Access::Private)
            .map_err(|e| LinuxError::io("open", &path, e))?;
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = [0; 16];
                let count = pread(&fd, &mut text, 0).unwrap_or(0);
                let pid = crate::kernel::parse::decimal(&text[..count]).ok();
                let holder = pid.map_or_else(|| "unknown".into(), |pid| pid.to_string());
                return Err(LinuxError::Locked { holder, lock: path });
            }
            Err(e) => return Err(LinuxError::io("lock", path, e)),
        }
        let text = format!("{}\n", std::process::id());
        ftruncate(&fd, 0)
            .and_then(|()| pwrite(&fd, text.as_bytes(), 0))
            .map_err(|e| LinuxError::io("write", path, e))?;
        Ok(Lock { _fd: fd })
    }
}

/// Held as long as it lives: the kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _fd: File,
}

/// The process id of a weir process that runs and holds this lock, as it wrote it down. Nothing is made and
/// nothing stays locked.
pub(crate) fn holder(roots: &Roots, lock: &str) -> Option<String> {
    let dir = RunDir::open(roots).ok().flatten()?;
    let fd = dir.folder.open_to_read(lock).ok()?;
    match flock(&fd, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {
            let mut text = [0; 16];
            let count = pread(&fd, &mut text, 0).unwrap_or(0);
            let pid = crate::kernel::parse::decimal(&text[..count]).ok();
            Some(pid.map_or_else(|| "(of unknown process id)".into(), |pid| pid.to_string()))
        }
        // Ours goes with the descriptor.
        _ => None,
    }
}

/// Why a file or directory must not be used, if so.
pub(crate) fn distrust(stat: &Stat, want: FileType) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(stat.st_mode) != want {
        return Some(format!("it is not a {want:?}: remove it"));
    }
    if stat.st_uid != me {
        return Some(format!(
            "its owner is user {}, not {me}: check it, then remove it",
            stat.st_uid
        ));
    }
    if stat.st_mode & 0o022 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Some(format!(
            "others may write to it (mode {mode:o}): check it, then chmod go-w"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_holder_at_a_time_and_it_is_named() {
        let fake = Fake::new();
        assert!(RunDir::open(&fake.roots()).unwrap().is_none());
        let dir = RunDir::open_or_make(&fake.roots()).unwrap();
        let mode = fs::metadata(fake.path("run/weir"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        let lock = dir.lock().unwrap();
        let Err(LinuxError::Locked { holder, .. }) = dir.lock() else {
            panic!("two hold it")
        };
        assert_eq!(holder, std::process::id().to_string());
        fake.write("run/weir/lock", "rm -rf /\n");
        let text = dir.lock().unwrap_err().to_string();
        assert!(text.contains("pid unknown"), "{text}");
        drop(lock);
        dir.lock().unwrap();
    }

    #[test]
    fn the_holder_is_read_without_taking_it() {
        let fake = Fake::new();
        assert_eq!(holder(&fake.roots(), LOCK), None);
        let dir = RunDir::open_or_make(&fake.roots()).unwrap();
        assert_eq!(holder(&fake.roots(), LOCK), None);
        assert!(
            !fake.path("run/weir/lock").exists(),
            "reading makes nothing"
        );
        let lock = dir.lock().unwrap();
        let own = std::process::id().to_string();
        assert_eq!(holder(&fake.roots(), LOCK), Some(own));
        drop(lock);
        assert_eq!(holder(&fake.roots(), LOCK), None);
        dir.lock().unwrap();
    }

    #[test]
    fn a_directory_of_others_is_not_used() {
        let fake = Fake::new();
        RunDir::open_or_make(&fake.roots()).unwrap();
        let path = fake.path("run/weir");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let text = RunDir::open(&fake.roots()).unwrap_err().to_string();
        assert!(text.contains("mode 777"), "{text}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(RunDir::open(&fake.roots()).unwrap().is_some());
        fs::rename(&path, fake.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(fake.path("elsewhere"), &path).unwrap();
        assert!(matches!(
            RunDir::open(&fake.roots()),
            Err(LinuxError::Distrusted { .. })
        ));
    }

    #[test]
    fn the_lock_is_no_link() {
        let fake = Fake::new();
        let dir = RunDir::open_or_make(&fake.roots()).unwrap();
        fake.write("victim", "precious");
        std::os::unix::fs::symlink(fake.path("victim"), fake.path("run/weir/lock")).unwrap();
        assert!(dir.lock().is_err());
        assert_eq!(fake.read("victim"), "precious");
    }
}
