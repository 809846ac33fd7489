// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries of a directory that are made under their final name.

use crate::folder::Folder;
use rustix::fs::{AtFlags, Mode, fstat, statat};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};

/// Which users may read and write a new file, less what the umask takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mode 0666 less the umask, as programs usually make files.
    Shared,
    /// All may read it, its owner may write: 0644.
    OwnerWrites,
    /// Nothing for others: 0600.
    Private,
}

impl Access {
    pub(crate) fn mode(self) -> Mode {
        Mode::from_raw_mode(match self {
            Access::Shared => 0o666,
            Access::OwnerWrites => 0o644,
            Access::Private => 0o600,
        })
    }
}

/// A file that was not there, under its final name. It stays where it is when this is dropped.
#[derive(Debug)]
pub struct CreatedFile {
    file: File,
    folder: Folder,
    name: OsString,
}

impl CreatedFile {
    pub(crate) fn new(file: File, folder: Folder, name: OsString) -> CreatedFile {
        CreatedFile { file, folder, name }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The open file alone.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Removes its name, if that still is the name of this file. Another file that has it now stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&self) -> io::Result<()> {
        let ours = fstat(&self.file)?;
        let named = statat(self.folder.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) {
            self.folder.remove(&self.name)?;
        }
        Ok(())
    }
}

impl Write for CreatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
