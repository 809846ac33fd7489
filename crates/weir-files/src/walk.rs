// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a path to the handle of a directory, step by step. The kernel's own walk would follow any link.

use rustix::fd::OwnedFd;
use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, fstat, fstatfs, mkdirat, openat, readlinkat,
};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Links followed in one path at most; the kernel's own limit (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Only to name entries below it: such a directory need not be readable.
pub(crate) const HANDLE: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

struct Walk {
    at: OwnedFd,
    /// Where that is, for messages.
    path: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
    /// The mode of a directory that is not there, if it is to be made.
    making: Option<Mode>,
}

/// Opens a directory; with a mode, makes what is missing of its path.
pub(crate) fn walk(path: &Path, making: Option<Mode>) -> io::Result<OwnedFd> {
    let mut walk = Walk {
        at: openat(CWD, ".", HANDLE, Mode::empty())?,
        path: PathBuf::new(),
        rest: VecDeque::new(),
        links: 0,
        making,
    };
    walk.prepend(path)?;
    while let Some(name) = walk.rest.pop_front() {
        walk.step(&name)?;
    }
    Ok(walk.at)
}

impl Walk {
    /// The components of this path come next.
    fn prepend(&mut self, path: &Path) -> io::Result<()> {
        for component in path.components().rev() {
            match component {
                Component::RootDir => {
                    self.at = openat(CWD, "/", HANDLE, Mode::empty())?;
                    self.path = PathBuf::from("/");
                }
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::Normal(name) => self.rest.push_front(name.to_owned()),
            }
        }
        Ok(())
    }

    fn step(&mut self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = match (openat(&self.at, name, flags, Mode::empty()), self.making) {
            (Err(Errno::NOENT), Some(mode)) => {
                match mkdirat(&self.at, name, mode) {
                    // Another program made it meanwhile.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(e) => return Err(e.into()),
                }
                openat(&self.at, name, flags, Mode::empty())?
            }
            (found, _) => found?,
        };
        let stat = fstat(&next)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.at = next;
                self.path.push(name);
                Ok(())
            }
            FileType::Symlink => self.follow(&next, name, stat.st_uid),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn follow(&mut self, link: &OwnedFd, name: &OsStr, owner: u32) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let of_directory = fstat(&self.at)?.st_uid;
        let me = rustix::process::geteuid().as_raw();
        if let Some(other) = [owner, of_directory]
            .into_iter()
            .find(|&uid| uid != 0 && uid != me)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{:?} is a symbolic link that user {other} can change, and is not followed: give \
                     the path of the directory itself (`realpath` prints it)",
                    self.path.join(name)
                ),
            ));
        }
        if fstatfs(&self.at)?.f_type == PROC_SUPER_MAGIC {
            // What such a link says is not always a path.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.at = openat(&self.at, name, flags, Mode::empty())?;
            self.path.push(name);
            return Ok(());
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.prepend(Path::new(&OsString::from_vec(target.into_bytes())))
    }
}
