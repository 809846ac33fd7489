// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are read. Opening a FIFO waits for a writer, opening a device may do something, and neither
//! needs to end.

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, stat};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file. Links to one are followed: its user named it.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything else, with what it is; else the kernel's.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before it is opened, which a device may notice; and after, as it may be another thing by then.
    is_regular(&stat(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    is_regular(&fstat(&file)?)?;
    Ok(file)
}

/// The bytes of a regular file.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] where it has more than `most` bytes.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_regular(path)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {most} bytes: is it the right file?");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Says what it is, where it is none.
pub(crate) fn is_regular(found: &Stat) -> io::Result<()> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "it is a directory: name a file",
        FileType::Fifo => {
            "it is a FIFO, and could have one wait for ever: write it to a file first"
        }
        FileType::Socket => "it is a socket: name a file",
        _ => "it is a device: name a file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}
