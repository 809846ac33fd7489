// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a recording, with its path, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// It is there, and is something else. It has not been touched.
    #[error("{} is not a recording of weir: {why}", path.display())]
    NotARecording {
        path: PathBuf,
        /// What it is, or lacks.
        why: String,
    },
    #[error(
        "{} is a recording of format {found}, and this weir reads format {}: use the weir that wrote it",
        path.display(), crate::FORMAT
    )]
    OtherFormat { path: PathBuf, found: u32 },
    /// It was a recording, and a part of it is gone or wrong.
    #[error(
        "{} is damaged: {what}; `weir export --recover NEW {}` writes what can be read into a new recording",
        path.display(), path.display()
    )]
    Damaged {
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// Damaged so that nothing can be had of it.
    #[error("nothing can be recovered of {}: {why}", path.display())]
    Unrecoverable { path: PathBuf, why: String },
    #[error("another weir is recording into {}", path.display())]
    Busy { path: PathBuf },
    /// The database cannot go on: a full disk, a file that went away.
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        source: rusqlite::Error,
    },
    #[error("cannot write the export: {0}")]
    Export(String),
    /// The reader of an export has left, or its disk is full.
    #[error("cannot write the export")]
    ExportTo(#[source] io::Error),
}

impl StoreError {
    pub(crate) fn open(path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        StoreError::Open { path, source }
    }

    pub(crate) fn not_a_recording(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.to_owned(), why.into());
        StoreError::NotARecording { path, why }
    }

    pub(crate) fn damaged(path: &Path, what: impl ToString) -> Self {
        let (path, what) = (path.to_owned(), what.to_string());
        StoreError::Damaged { path, what }
    }

    /// What recovering `path` into `new` came to.
    pub(crate) fn recovering<T>(
        path: &Path,
        new: &Path,
        result: rusqlite::Result<Option<T>>,
    ) -> Result<T, StoreError> {
        match result {
            Ok(Some(recovered)) => Ok(recovered),
            Ok(None) => Err(StoreError::Unrecoverable {
                path: path.to_owned(),
                why: "no session and no tick can be read".to_owned(),
            }),
            Err(error) => Err(StoreError::write(new, error)),
        }
    }

    pub(crate) fn write(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        StoreError::Write { path, source }
    }
}
