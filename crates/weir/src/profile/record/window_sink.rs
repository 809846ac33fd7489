// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of windows while it grows: a line at a time, so that a recording that is killed leaves all windows but
//! the last.

use crate::profile::shown;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use weir_core::{Nanos, Window};
use weir_profile::window_file::{FILE_BYTES_MAX, Header};

/// Why no more windows can be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {why}; {kept}")]
pub struct SinkError {
    path: String,
    why: io::Error,
    kept: String,
}

/// A file of windows that is being written.
pub struct WindowSink {
    file: File,
    path: PathBuf,
    bytes: u64,
    window_count: usize,
    length: Nanos,
}

impl WindowSink {
    /// Writes the header. A file that cannot take it is removed.
    ///
    /// # Errors
    /// The disk is full, or takes nothing more.
    pub fn new(file: File, path: &Path, header: &Header) -> Result<WindowSink, SinkError> {
        let mut sink = WindowSink {
            file,
            path: path.to_path_buf(),
            bytes: 0,
            window_count: 0,
            length: Nanos(0),
        };
        let written = sink.line(header);
        match written {
            Ok(_) => Ok(sink),
            Err(why) => {
                // Nothing is in it; if it cannot be removed, it is an empty file.
                let _ = std::fs::remove_file(path);
                Err(sink.lost(why))
            }
        }
    }

    /// Appends a window; false where a reader would refuse the file with it.
    ///
    /// # Errors
    /// As [`WindowSink::new`]. What was written before is whole.
    pub fn write(&mut self, window: &Window) -> Result<bool, SinkError> {
        match self.line(window) {
            Ok(true) => {
                self.window_count += 1;
                let length = window.length().unwrap_or_default();
                self.length = Nanos(self.length.0.saturating_add(length.0));
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(why) => Err(self.lost(why)),
        }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<bool> {
        let line = serde_json::to_string(value)? + "\n";
        let bytes = self.bytes.saturating_add(line.len() as u64);
        if bytes > FILE_BYTES_MAX {
            return Ok(false);
        }
        let written = self.file.write_all(line.as_bytes());
        if written.is_err() {
            // A part of a line that stays is left out by the reader.
            let cut = self.file.set_len(self.bytes);
            let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)));
        }
        written?;
        self.bytes = bytes;
        Ok(true)
    }

    fn lost(&self, why: io::Error) -> SinkError {
        let path = shown(&self.path);
        let kept = match self.window_count {
            0 => "nothing is recorded: make room, or name a file on another disk".to_owned(),
            _ => format!("{} are in it: weir profile report {path}", self.so_far()),
        };
        SinkError { path, why, kept }
    }

    /// How many windows are in it.
    pub fn window_count(&self) -> usize {
        self.window_count
    }

    /// The same in words, with their length.
    pub fn so_far(&self) -> String {
        let windows = match self.window_count {
            1 => "1 window".to_owned(),
            n => format!("{n} windows"),
        };
        format!("{windows} ({:.1} s)", self.length.0 as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use weir_profile::WindowFile;

    fn header() -> Header {
        Header::new("a test")
    }

    fn window(from: u64) -> Window {
        Window {
            from: Nanos(from),
            to: Nanos(from + 1_000_000_000),
            ..Window::default()
        }
    }

    #[test]
    fn each_window_is_in_the_file_when_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.windows");
        let file = File::create(&path).unwrap();
        let mut sink = WindowSink::new(file, &path, &header()).unwrap();
        for number in 0..3u64 {
            assert!(sink.write(&window(number * 1_000_000_000)).unwrap());
            let text = std::fs::read_to_string(&path).unwrap();
            let read = WindowFile::parse(&text).unwrap();
            assert_eq!(read.windows.len() as u64, number + 1);
        }
        assert_eq!(sink.so_far(), "3 windows (3.0 s)");
    }

    #[test]
    fn a_full_disk_is_said_with_what_is_kept() {
        let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
        let none = Path::new("/no/such/file");
        let why = WindowSink::new(full(), none, &header())
            .err()
            .unwrap()
            .to_string();
        assert!(
            why.contains("No space left") && why.contains("nothing is recorded"),
            "{why}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.windows");
        let mut sink = WindowSink::new(File::create(&path).unwrap(), &path, &header()).unwrap();
        sink.write(&window(0)).unwrap();
        sink.file = full();
        let why = sink.write(&window(1_000_000_000)).unwrap_err().to_string();
        assert!(
            why.contains("1 window (1.0 s) are in it: weir profile report"),
            "{why}"
        );
        let read = WindowFile::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read.windows.len(), 1);
    }

    #[test]
    fn a_file_that_no_reader_takes_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.windows");
        let mut sink = WindowSink::new(File::create(&path).unwrap(), &path, &header()).unwrap();
        sink.bytes = FILE_BYTES_MAX - 3;
        assert!(!sink.write(&window(0)).unwrap());
        assert_eq!(sink.window_count(), 0);
    }
}
