// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file is opened, and whether it may be. weir runs as root, and recordings are handed around:
//! nothing is followed, nothing that is something else is touched, nothing a file says is believed.
//!
//! The database library opens by name, and its companions (`-wal`, `-shm`, `-journal`) too; it does
//! not follow links itself. Directories of the path may be links of this user or root.

use crate::error::StoreError;
use crate::{APPLICATION_ID, FORMAT, format};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_files::{Access, CreatedFile, Folder};

/// No text or document of a recording is longer.
const VALUE_MAX_BYTES: i32 = 64 << 20;
const HEAD_BYTES: usize = 100;
/// Files that the database keeps beside a recording that is being written.
pub(crate) const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The file itself, with the links in its directory's path resolved.
pub(crate) fn settle(path: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name();
    let name =
        name.ok_or_else(|| StoreError::open(path, io::Error::from(io::ErrorKind::IsADirectory)))?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    // No link that another user can change may lead to it.
    Folder::open(dir)
        .and_then(|_| dir.canonicalize())
        .map(|dir| dir.join(name))
        .map_err(|error| StoreError::open(dir, error))
}

/// Whether a recording that is there may be continued: the database library writes by name to it and to its
/// companions. A second name may be that of a file of root that another user has given to it.
pub(crate) fn must_have_one_name(path: &Path) -> Result<(), StoreError> {
    let all = COMPANIONS.map(|suffix| companion(path, suffix));
    for file in std::iter::once(path).chain(all.iter().map(PathBuf::as_path)) {
        let Ok(found) = file.symlink_metadata() else {
            continue;
        };
        if !found.is_file() || found.nlink() > 1 {
            let why = "it is a link or has a second name, and is not written to: copy it first";
            return Err(StoreError::not_a_recording(file, why));
        }
    }
    Ok(())
}

pub(crate) fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn make(path: &Path) -> Result<CreatedFile, StoreError> {
    for suffix in COMPANIONS {
        let beside = companion(path, suffix);
        if beside.symlink_metadata().is_ok() {
            let why =
                "it is there without a recording, and would become a part of it: remove it first";
            return Err(StoreError::not_a_recording(&beside, why));
        }
    }
    let made = weir_files::create_new(path, Access::OwnerWrites);
    made.map_err(|error| StoreError::open(path, error))
}

/// The descriptor of a file that has the head of a recording that this weir knows, and all of its length.
pub(crate) fn inspect(path: &Path) -> Result<OwnedFd, StoreError> {
    match inspect_leniently(path)? {
        (_, Some(what)) => Err(StoreError::damaged(path, what)),
        (file, None) => Ok(file),
    }
}

/// The same where a part may be missing; says what.
pub(crate) fn inspect_leniently(path: &Path) -> Result<(OwnedFd, Option<String>), StoreError> {
    // NONBLOCK: opening a FIFO that another process put there must not hang.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(StoreError::not_a_recording(path, "it is a symbolic link")),
        other => other.map_err(|error| StoreError::open(path, error))?,
    };
    let stat = fstat(&file).map_err(|error| StoreError::open(path, error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(StoreError::not_a_recording(
            path,
            "it is not a regular file",
        ));
    }
    let mut head = [0; HEAD_BYTES];
    let count =
        rustix::io::pread(&file, &mut head, 0).map_err(|error| StoreError::open(path, error))?;
    let missing = check_head(
        path,
        &head[..count],
        u64::try_from(stat.st_size).unwrap_or(0),
    )?;
    Ok((file, missing))
}

/// Gives what of the file is missing. Offsets are those of the database file format
/// (sqlite.org/fileformat2.html, 1.3).
///
/// The head is read before the database library sees the file: what is no recording is refused with its
/// reason, and a file that is shorter than its head says is told as cut off, unless a write-ahead log may
/// have the rest.
fn check_head(path: &Path, head: &[u8], size: u64) -> Result<Option<String>, StoreError> {
    let number = |at: usize| {
        let bytes = head
            .get(at..at + 4)
            .and_then(|b| <[u8; 4]>::try_from(b).ok());
        bytes.map(u32::from_be_bytes)
    };
    if !head.starts_with(b"SQLite format 3\0") {
        let what = if head.is_empty() {
            "it is empty"
        } else {
            "it is no database"
        };
        return Err(StoreError::not_a_recording(path, what));
    }
    // Pages of the file, user version, application id; at 16 the size of a page, where 1 stands for 65 536.
    let (Some(pages), Some(format), Some(APPLICATION_ID)) = (number(28), number(60), number(68))
    else {
        return Err(StoreError::not_a_recording(
            path,
            "it is a database of something else",
        ));
    };
    if format == 0 {
        return Err(StoreError::damaged(
            path,
            "its head says format 0, which there never was",
        ));
    }
    if format != FORMAT {
        let (path, found) = (path.to_owned(), format);
        return Err(StoreError::OtherFormat { path, found });
    }
    let page = match head.get(16..18) {
        Some([0, 1]) => 65_536,
        Some(&[high, low]) => u64::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let wanted = u64::from(pages) * page;
    let is_truncated = size < wanted && !companion(path, "-wal").exists();
    let missing = format!("it is cut off: it should have {wanted} bytes and has {size}");
    Ok(is_truncated.then_some(missing))
}

pub(crate) fn connect(path: &Path, write: bool) -> Result<Connection, StoreError> {
    let access = if write {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let opened = Connection::open_with_flags(path, flags);
    let connection = opened.and_then(|connection| harden(&connection).map(|()| connection));
    connection.map_err(|error| trouble(path, &error))
}

/// Opens a database of which a part may be missing, to read what is left. The database library does
/// that only for a program that says it repairs schemas; nothing is written here.
pub(crate) fn connect_leniently(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, false)?;
    let mend = connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .and_then(|_| connection.execute_batch("PRAGMA writable_schema = ON"));
    mend.map_err(|error| trouble(path, &error))?;
    Ok(connection)
}

/// What the database's makers advise for files of unknown origin (sqlite.org/security.html).
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.busy_timeout(std::time::Duration::from_secs(2))?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
}

/// Whether the tables are those of the format, word for word. A table that only resembles ours could
/// be a view that never ends. Indices and views that the user added do no harm.
pub(crate) fn check_schema(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let read =
        || -> rusqlite::Result<[Objects; 2]> { Ok([made(format::SCHEMA)?, objects(connection)?]) };
    let [wanted, found] = read().map_err(|error| trouble(path, &error))?;
    if found.iter().any(|object| object.0 == "trigger") {
        return Err(StoreError::not_a_recording(path, "it has triggers"));
    }
    match wanted.iter().find(|object| !found.contains(object)) {
        Some((_, name, _)) => {
            let why = format!("{name} is missing in it, or not as format {FORMAT} has it");
            Err(StoreError::not_a_recording(path, why))
        }
        None => Ok(()),
    }
}

fn made(tables: &str) -> rusqlite::Result<Objects> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(tables)?;
    objects(&database)
}

type Object = (String, String, Option<String>);
type Objects = Vec<Object>;

fn objects(connection: &Connection) -> rusqlite::Result<Objects> {
    let mut statement = connection.prepare("SELECT type, name, sql FROM sqlite_schema")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// A fault of the database in words of ours.
pub(crate) fn trouble(path: &Path, error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode::{CannotOpen, DatabaseBusy, NotADatabase, PermissionDenied};
    match error.sqlite_error_code() {
        Some(NotADatabase) => StoreError::not_a_recording(path, "it is no database"),
        Some(DatabaseBusy) => StoreError::Busy {
            path: path.to_owned(),
        },
        Some(CannotOpen | PermissionDenied) => {
            StoreError::open(path, io::Error::other(error.to_string()))
        }
        _ => StoreError::damaged(path, error),
    }
}

/// Keeps other recorders out for as long as the descriptor is open.
pub(crate) fn lock(path: &Path, file: impl AsFd) -> Result<(), StoreError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(StoreError::Busy {
            path: path.to_owned(),
        }),
        other => other.map_err(|error| StoreError::open(path, error)),
    }
}
