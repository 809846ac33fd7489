// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that is written beside its final name first, so that a reader sees the old file or the new one and
//! never half of it.

use crate::entry::{Access, CreatedFile};
use crate::folder::Folder;
use rustix::fs::{AtFlags, FileType, RenameFlags, renameat_with, statat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};

/// How often another random name is tried. A name is 64 random bits, so that even one retry is not expected.
const TRIES: usize = 8;

/// It is removed when it is dropped before it has its name.
#[derive(Debug)]
pub struct NewFile {
    made: CreatedFile,
    folder: Folder,
    beside: OsString,
    name: OsString,
    is_in_place: bool,
}

impl NewFile {
    pub(crate) fn begin(folder: &Folder, name: &OsStr, access: Access) -> io::Result<NewFile> {
        let mut tries = 0;
        loop {
            let beside = random_name(name)?;
            match folder.create_new(&beside, access) {
                Ok(made) => {
                    return Ok(NewFile {
                        made,
                        folder: folder.clone(),
                        beside,
                        name: name.to_owned(),
                        is_in_place: false,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Begins a file under a fixed name beside, where only this program writes: what an earlier one left is
    /// removed.
    pub(crate) fn begin_as(
        folder: &Folder,
        name: &OsStr,
        beside: &OsStr,
        access: Access,
    ) -> io::Result<NewFile> {
        match folder.remove(beside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        Ok(NewFile {
            made: folder.create_new(beside, access)?,
            folder: folder.clone(),
            beside: beside.to_owned(),
            name: name.to_owned(),
            is_in_place: false,
        })
    }

    pub fn file(&self) -> &File {
        self.made.file()
    }

    /// Has its bytes on the disk.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sync(&self) -> io::Result<()> {
        self.file().sync_all()
    }

    /// Gives it its name. A file or a symbolic link that had it is replaced, and never written to.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] where something else has that name: a rename would remove `/dev/null`
    /// as well. Else the kernel's.
    pub fn replace(mut self) -> io::Result<()> {
        match statat(self.folder.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => can_be_replaced(FileType::from_raw_mode(found.st_mode))?,
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        self.folder.rename(&self.beside, &self.name)?;
        self.is_in_place = true;
        Ok(())
    }

    /// Gives it its name, which must be free.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] where something has that name, a link too; the kernel's.
    pub fn place(mut self) -> io::Result<()> {
        let fd = self.folder.fd();
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(fd, &self.beside, fd, &self.name, flags) {
            Ok(()) => self.is_in_place = true,
            // The file system cannot. The name beside goes when this is dropped.
            Err(Errno::INVAL | Errno::NOSYS) => self.folder.link(&self.beside, &self.name)?,
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.made.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.made.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Whatever ended it is the error to report. What stays has a name that begins with a dot.
            let _ = self.made.remove();
        }
    }
}

fn can_be_replaced(found: FileType) -> io::Result<()> {
    let what = match found {
        FileType::RegularFile | FileType::Symlink => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    let why = format!("{what} has that name, and only a file is replaced: name another");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// A name that no other user can have taken before.
pub(crate) fn random_name(name: &OsStr) -> io::Result<OsString> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let number = u64::from_ne_bytes(random);
    // NAME_MAX is 255 bytes, and a name of that length is possible.
    let shown: String = name.to_string_lossy().chars().take(32).collect();
    Ok(format!(".{shown}.{number:016x}.new").into())
}
