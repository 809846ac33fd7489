// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one way in which weir's programs make files, and open files that a user named.
//!
//! weir often runs as root, and writes into directories where other users can make, rename and remove
//! entries. An entry of such a directory may become a link between two system calls. So nothing here trusts
//! a name:
//!
//! ```text
//! path ─► Folder: a handle of the directory ─┬─► NewFile: a random name beside, then moved into place
//!         (no link that another user owns)   ├─► CreatedFile: the final name, which must be free
//!                                            └─► open_own: appended to; of this user, with one name
//! path ─► open_regular: no FIFO, no device, no directory
//! ```
//!
//! - A new file is made by `O_EXCL`, which follows no link. An entry is replaced by a rename inside the
//!   handle, so that what a link of that name leads to stays as it is.
//! - A directory is reached step by step. A symbolic link is followed only if it and the directory that it is
//!   in belong to this user or to root. Another user could have it lead to a directory of root.
//! - What the owner of a directory can still do is to put another file in the place of a result. Files of
//!   others stay as they are.
//!
//! `xtask/tests/all/file_access.rs` forbids every other way.

mod entry;
mod folder;
mod new_file;
mod regular;
#[cfg(test)]
mod tests;
mod walk;

pub use entry::{Access, CreatedFile};
pub use folder::Folder;
pub use new_file::NewFile;
pub use regular::{open_regular, read_at_most};

use std::io;
use std::path::Path;

/// Makes a file of this name that was not there, to be written for as long as it takes.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] where something has that name, a link too; what [`Folder::open`] says.
pub fn create_new(path: &Path, access: Access) -> io::Result<CreatedFile> {
    let (folder, name) = Folder::containing(path)?;
    folder.create_new(&name, access)
}

/// Begins a file that gets its name when it is whole.
///
/// # Errors
/// No file can be made in its directory; what [`Folder::open`] says.
pub fn begin(path: &Path, access: Access) -> io::Result<NewFile> {
    let (folder, name) = Folder::containing(path)?;
    folder.begin(&name, access)
}

/// Replaces the file of this name, or makes it: a reader sees all of it or nothing. A symbolic link is not
/// replaced: its user means the file that it leads to, or an output as `/dev/stdout`.
///
/// # Errors
/// As [`begin`]; what [`NewFile::replace`] says; the disk's.
pub fn replace(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    if path.is_symlink() {
        let why = "it is a symbolic link, which is not followed: name the file that it leads to";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let (folder, name) = Folder::containing(path)?;
    folder.replace(&name, content, access)
}
