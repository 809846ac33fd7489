// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes of `weir run` and `weir record`: a service manager can tell what a restart may mend from what
//! it cannot. The numbers and names are those of systemd.exec(5) and sysexits.h.

use super::log_format::LogFormat;
use std::error::Error;
use std::fmt;
use std::io;
use weir_linux::LinuxError;
use weir_store::StoreError;

/// What this machine does not have, or not yet.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no CXL memory.
    #[error(
        "{0}; to try weir without such memory: `weir sim thesis-limit --top`, on a simulated host"
    )]
    Memory(LinuxError),
    /// A node that was named is not there.
    #[error("{0}")]
    Node(String),
    /// The device has no counters, which limits need.
    #[error("{0}")]
    Counters(String),
    /// Limits are not possible.
    #[error("{0}")]
    Limits(String),
}

impl Unavailable {
    /// Whether it comes with a device or its driver.
    pub fn may_come(&self) -> bool {
        !matches!(self, Unavailable::Limits(_))
    }
}

/// No CXL memory, or limits are not possible on this machine.
pub const UNAVAILABLE: u8 = 69;
/// A file or an output cannot be written: the disk is full, or the file system is read-only.
pub const IO_ERROR: u8 = 74;
/// Another weir process has what this one needs.
pub const TEMPORARY: u8 = 75;
/// weir lacks a right, or does not trust a file of its own.
pub const NOT_PERMITTED: u8 = 77;
/// The settings cannot be read or make no sense.
pub const SETTINGS: u8 = 78;
/// Exit code for every failure that has no code of its own.
pub const TROUBLE: u8 = 2;

/// An error with its exit code, and how it is to be printed.
#[derive(Debug)]
pub struct Failed {
    pub code: u8,
    pub format: LogFormat,
    error: anyhow::Error,
}

impl Failed {
    /// The error with the exit code that it has itself.
    pub fn new(error: anyhow::Error, format: LogFormat) -> Failed {
        let code = code_of(&error);
        Failed {
            code,
            format,
            error,
        }
    }

    /// The settings cannot be read or make no sense.
    pub fn of_settings(error: anyhow::Error, format: LogFormat) -> Failed {
        Failed {
            code: SETTINGS,
            format,
            error,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// The exit code, by the first link of the chain that says it.
fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(of_link).unwrap_or(TROUBLE)
}

fn of_link(link: &(dyn Error + 'static)) -> Option<u8> {
    if link.is::<Unavailable>() {
        return Some(UNAVAILABLE);
    }
    if let Some(failed) = link.downcast_ref::<Failed>() {
        return Some(failed.code);
    }
    if let Some(error) = link.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    match link.downcast_ref::<StoreError>() {
        Some(StoreError::Busy { .. }) => return Some(TEMPORARY),
        Some(StoreError::Write { .. }) => return Some(IO_ERROR),
        _ => {}
    }
    match link.downcast_ref::<LinuxError>()? {
        LinuxError::Io { answer, .. } => of_io(answer),
        LinuxError::NoCxl { .. } => Some(UNAVAILABLE),
        LinuxError::Locked { .. } => Some(TEMPORARY),
        LinuxError::Distrusted { .. } => Some(NOT_PERMITTED),
        LinuxError::NoScheduler(_)
        | LinuxError::NoShares(_)
        | LinuxError::NoResctrl(_)
        | LinuxError::NoSamples(_) => Some(UNAVAILABLE),
        LinuxError::NotBound(_) | LinuxError::Copies(_) => None,
    }
}

fn of_io(error: &io::Error) -> Option<u8> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Some(NOT_PERMITTED),
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::ReadOnlyFilesystem => Some(IO_ERROR),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn each_kind_of_trouble_has_its_code() {
        let path = || std::path::PathBuf::from("/run/weir");
        let linux = |answer| {
            let doing = "open";
            let path = path();
            anyhow::Error::from(LinuxError::Io {
                doing,
                path,
                answer,
            })
        };
        let (full, denied) = (io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied);
        let read_only = io::Error::from_raw_os_error(30);
        let locked = LinuxError::Locked {
            holder: "7".into(),
            lock: path(),
        };
        for (error, code) in [
            (anyhow::anyhow!("nothing in particular"), TROUBLE),
            (linux(io::ErrorKind::NotFound.into()), TROUBLE),
            (linux(denied.into()), NOT_PERMITTED),
            (linux(read_only), IO_ERROR),
            (anyhow::Error::from(io::Error::from(full)), IO_ERROR),
            (locked.into(), TEMPORARY),
            (Unavailable::Limits("no".into()).into(), UNAVAILABLE),
        ] {
            let wrapped = Err::<(), _>(error).context("cannot start").unwrap_err();
            assert_eq!(code_of(&wrapped), code, "{wrapped:#}");
        }
    }

    #[test]
    fn it_is_printed_as_the_error_itself() {
        let error = anyhow::anyhow!("inside").context("outside");
        let failed = anyhow::Error::from(Failed::of_settings(error, LogFormat::Text));
        let said: Vec<String> = failed.chain().map(ToString::to_string).collect();
        assert_eq!(said, ["outside", "inside"]);
    }
}
