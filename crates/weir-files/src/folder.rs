// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handle of a directory: what is made, moved and removed by it stays in this directory, whatever its
//! path leads to by then.

use crate::entry::{Access, CreatedFile};
use crate::new_file::{NewFile, random_name};
use crate::regular::is_regular;
use crate::walk::{HANDLE, walk};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fstat, fsync, linkat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Folder(Arc<OwnedFd>);

impl Folder {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where the path has a link that another user can change: the message
    /// says what to do. Else the kernel's.
    pub fn open(path: &Path) -> io::Result<Folder> {
        walk(path, None).map(Folder::of)
    }

    /// The same, and makes what is missing of its path, with mode 0777 less the umask.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_or_make(path: &Path) -> io::Result<Folder> {
        walk(path, Some(Mode::from_raw_mode(0o777))).map(Folder::of)
    }

    /// The same; only this user may enter what is made.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_or_make_private(path: &Path) -> io::Result<Folder> {
        walk(path, Some(Mode::RWXU)).map(Folder::of)
    }

    /// The directory in which a file of this path is, and the file's name there.
    ///
    /// # Errors
    /// As [`Folder::open`], and where the path is that of a directory.
    pub fn containing(path: &Path) -> io::Result<(Folder, OsString)> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let dir = path.parent().unwrap_or(Path::new(""));
        Ok((Folder::open(dir)?, name.to_owned()))
    }

    fn of(fd: OwnedFd) -> Folder {
        Folder(Arc::new(fd))
    }

    /// The handle. It names entries, and cannot be read (`O_PATH`).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// A directory in this one, which is no link.
    ///
    /// # Errors
    /// The kernel's.
    pub fn below(&self, name: &OsStr) -> io::Result<Folder> {
        let fd = openat(self.fd(), single(name)?, HANDLE, Mode::empty())?;
        Ok(Folder::of(fd))
    }

    /// A new directory in this one for this user only.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where something has that name; the kernel's.
    pub fn make_below(&self, name: &OsStr) -> io::Result<Folder> {
        mkdirat(self.fd(), single(name)?, Mode::RWXU)?;
        self.below(name)
    }

    /// A file that was not there, under its final name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where something has that name, a link too; the kernel's.
    pub fn create_new(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<CreatedFile> {
        let name = single(name.as_ref())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_entry(name, flags, access)?;
        Ok(CreatedFile::new(file, self.clone(), name.to_owned()))
    }

    /// Begins a file that gets its name when it is whole.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<NewFile> {
        NewFile::begin(self, single(name.as_ref())?, access)
    }

    /// The same where a program publishes often: beside has one name, so that a kill leaves one file at most.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin_as(&self, name: &str, beside: &str, access: Access) -> io::Result<NewFile> {
        let (name, beside) = (single(name.as_ref())?, single(beside.as_ref())?);
        NewFile::begin_as(self, name, beside, access)
    }

    /// Replaces the file of this name, or makes it: a reader sees all of it or nothing.
    ///
    /// # Errors
    /// The kernel's.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        content: &[u8],
        access: Access,
    ) -> io::Result<()> {
        let mut new = self.begin(name, access)?;
        new.write_all(content)?;
        new.replace()
    }

    /// A file of weir's own that stays, as a lock or a list: opened, or made. It is refused unless it is a
    /// regular file of this user or root, with this name only.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] with what is wrong and the next move; the kernel's.
    pub fn open_own(
        &self,
        name: impl AsRef<OsStr>,
        append: bool,
        access: Access,
    ) -> io::Result<File> {
        let name = single(name.as_ref())?;
        let more = if append {
            OFlags::APPEND
        } else {
            OFlags::empty()
        };
        own(self.open_entry(name, OFlags::CREATE | OFlags::RDWR | more, access)?)
    }

    /// The same where there is one.
    ///
    /// # Errors
    /// As [`Folder::open_own`]; [`io::ErrorKind::NotFound`].
    pub fn reopen_own(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        own(self.open_entry(single(name.as_ref())?, OFlags::RDWR, Access::Private)?)
    }

    /// A file of weir's own, to be read: no link.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for anything but a regular file; the kernel's.
    pub fn open_to_read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = self.open_entry(single(name.as_ref())?, OFlags::RDONLY, Access::Private)?;
        is_regular(&fstat(&file)?)?;
        Ok(file)
    }

    /// A file without a name, for this user only. It is gone when it is closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn nameless(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(self.fd(), ".", flags, Access::Private.mode()) {
            Ok(fd) => return Ok(File::from(fd)),
            // File systems without such files, and kernels that take the flag for a directory's.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
            Err(e) => return Err(e.into()),
        }
        let made = self.create_new(random_name(OsStr::new("nameless"))?, Access::Private)?;
        made.remove()?;
        Ok(made.into_file())
    }

    /// Gives an entry another name in this directory. What has that name is replaced.
    ///
    /// # Errors
    /// The kernel's.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        Ok(renameat(self.fd(), from, self.fd(), to)?)
    }

    /// Gives an entry a second name, which must be free.
    ///
    /// # Errors
    /// The kernel's.
    pub fn link(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (single(from.as_ref())?, single(to.as_ref())?);
        Ok(linkat(self.fd(), from, self.fd(), to, AtFlags::empty())?)
    }

    /// Removes the name of a file.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(
            self.fd(),
            single(name.as_ref())?,
            AtFlags::empty(),
        )?)
    }

    /// Has the names in it on the disk.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fsync(openat(self.fd(), ".", flags, Mode::empty())?)?)
    }

    fn open_entry(&self, name: &OsStr, flags: OFlags, access: Access) -> io::Result<File> {
        // A FIFO that another user put there must not hang.
        let safe = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = flags | safe;
        Ok(File::from(openat(self.fd(), name, flags, access.mode())?))
    }
}

/// A file, if it can be one of weir's own.
fn own(file: File) -> io::Result<File> {
    let stat = fstat(&file)?;
    let me = rustix::process::geteuid().as_raw();
    let why = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if ![0, me].contains(&stat.st_uid) => {
            format!("its owner is user {}, not {me}", stat.st_uid)
        }
        FileType::RegularFile if stat.st_nlink > 1 => "it has a second name".into(),
        FileType::RegularFile => return Ok(file),
        _ => "it is no regular file".into(),
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{why}: check it, then remove it"),
    ))
}

/// A name of an entry, and no path.
fn single(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is no name of a file"),
        )),
    }
}
