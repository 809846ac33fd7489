// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file is opened, and whether it may be. weir runs as root, and recordings are handed around:
//! nothing is followed, nothing that is something else is touched, nothing a file says is believed.
//!
//! The database library opens by name, and its companions (`-wal`, `-shm`, `-journal`) too; it does
//! not follow links itself. Directories of the path may be links: the operator chose the path.

use crate::error::StoreError;
use crate::{APPLICATION_ID, FORMAT, format, format1};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

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
    let dir = dir
        .canonicalize()
        .map_err(|error| StoreError::open(dir, error))?;
    Ok(dir.join(name))
}

/// The name of a companion.
pub(crate) fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// A new, empty file of ours.
pub(crate) fn make(path: &Path) -> Result<OwnedFd, StoreError> {
    for suffix in COMPANIONS {
        let beside = companion(path, suffix);
        if beside.symlink_metadata().is_ok() {
            let why =
                "it is there without a recording, and would become a part of it: remove it first";
            return Err(StoreError::not_a_recording(&beside, why));
        }
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::from_raw_mode(0o644))
        .map_err(|error| StoreError::open(path, error))
}

/// The descriptor of a file that has the head of a recording that this weir knows, and all of its length; and
/// the number of its format.
pub(crate) fn inspect(path: &Path) -> Result<(OwnedFd, u32), StoreError> {
    match inspect_leniently(path)? {
        (_, _, Some(what)) => Err(StoreError::damaged(path, what)),
        (file, format, None) => Ok((file, format)),
    }
}

/// The same where a part may be missing; says what.
pub(crate) fn inspect_leniently(path: &Path) -> Result<(OwnedFd, u32, Option<String>), StoreError> {
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
    let (format, missing) = check_head(
        path,
        &head[..count],
        u64::try_from(stat.st_size).unwrap_or(0),
    )?;
    Ok((file, format, missing))
}

/// Old formats are exported and converted, and nothing else.
pub(crate) fn must_be_newest(path: &Path, format: u32) -> Result<(), StoreError> {
    match format {
        FORMAT => Ok(()),
        found => Err(StoreError::TooOld {
            path: path.to_owned(),
            found,
        }),
    }
}

/// Gives the format, and what of the file is missing. Offsets are those of the database file format
/// (sqlite.org/fileformat2.html, 1.3).
fn check_head(path: &Path, head: &[u8], size: u64) -> Result<(u32, Option<String>), StoreError> {
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
    let (Some(pages), Some(format), Some(APPLICATION_ID)) = (number(28), number(60), number(68))
    else {
        return Err(StoreError::not_a_recording(
            path,
            "it is a database of something else",
        ));
    };
    if format > FORMAT {
        let (path, found) = (path.to_owned(), format);
        return Err(StoreError::TooNew { path, found });
    }
    if format == 0 {
        return Err(StoreError::damaged(
            path,
            "its head says format 0, which there never was",
        ));
    }
    let page = match head.get(16..18) {
        Some([0, 1]) => 65_536,
        Some(&[high, low]) => u64::from(u16::from_be_bytes([high, low])),
        _ => 0,
    };
    let wanted = u64::from(pages) * page;
    let is_truncated = size < wanted && !companion(path, "-wal").exists();
    let missing = format!("it is cut off: it should have {wanted} bytes and has {size}");
    Ok((format, is_truncated.then_some(missing)))
}

/// Opens the database.
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
///
/// Says whether there are tables of checksums: the first writers of format 1 had none.
pub(crate) fn check_schema(
    path: &Path,
    connection: &Connection,
    format: u32,
) -> Result<bool, StoreError> {
    let (tables, checks) = match format {
        format1::FORMAT => (format1::SCHEMA, format1::CHECKS),
        _ => (format::SCHEMA, ""),
    };
    let read = || -> rusqlite::Result<[Objects; 3]> {
        Ok([made(tables)?, made(checks)?, objects(connection)?])
    };
    let [wanted, checks, found] = read().map_err(|error| trouble(path, &error))?;
    if found.iter().any(|object| object.0 == "trigger") {
        return Err(StoreError::not_a_recording(path, "it has triggers"));
    }
    let is_named = |(_, name, _): &Object| found.iter().any(|(_, found, _)| found == name);
    let has_checks = checks.iter().any(is_named);
    let checks = checks.iter().filter(|_| has_checks);
    match wanted
        .iter()
        .chain(checks)
        .find(|object| !found.contains(object))
    {
        Some((_, name, _)) => {
            let why = format!("{name} is missing in it, or not as format {format} has it");
            Err(StoreError::not_a_recording(path, why))
        }
        None => Ok(has_checks || format == FORMAT),
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
pub(crate) fn lock(path: &Path, file: &OwnedFd) -> Result<(), StoreError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::AGAIN) => Err(StoreError::Busy {
            path: path.to_owned(),
        }),
        other => other.map_err(|error| StoreError::open(path, error)),
    }
}
