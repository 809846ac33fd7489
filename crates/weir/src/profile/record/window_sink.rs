// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of windows while it grows: a window at a time, so that a recording that is killed leaves all
//! windows but the last.

use crate::profile::shown;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use weir_core::{Nanos, Window};
use weir_profile::window_file::{Header, WindowEncoder};

/// Why no more windows can be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {why}; {kept}")]
pub struct SinkError {
    path: String,
    why: io::Error,
    kept: String,
}

impl SinkError {
    /// `kept`: the windows that are in it, if there are any.
    fn new(path: &Path, why: io::Error, kept: Option<String>) -> SinkError {
        let path = shown(path);
        let kept = match kept {
            None => "nothing is recorded: make room, or name a file on another disk".to_owned(),
            Some(kept) => format!("{kept} are in it: weir profile report {path}"),
        };
        SinkError { path, why, kept }
    }
}

/// A file of windows that is being written.
pub struct WindowSink {
    file: File,
    path: PathBuf,
    encoder: WindowEncoder,
    bytes: u64,
    window_count: usize,
    length: Nanos,
}

impl WindowSink {
    /// Writes the header.
    ///
    /// # Errors
    /// The disk is full, or takes nothing more.
    pub fn new(file: File, path: &Path, header: &Header) -> Result<WindowSink, SinkError> {
        let begun = WindowEncoder::new(header).and_then(|mut encoder| {
            let bytes = encoder.begin()?;
            Ok((encoder, bytes))
        });
        let made = begun.and_then(|(encoder, bytes)| {
            let mut sink = WindowSink {
                file,
                path: path.to_path_buf(),
                encoder,
                bytes: 0,
                window_count: 0,
                length: Nanos(0),
            };
            sink.append(&bytes)?;
            Ok(sink)
        });
        made.map_err(|why| SinkError::new(path, why, None))
    }

    /// Appends a window; false where a reader would refuse the file with it.
    ///
    /// # Errors
    /// As [`WindowSink::new`]. What was written before is whole.
    pub fn write(&mut self, window: &Window) -> Result<bool, SinkError> {
        let is_written = self.add(window);
        if let Ok(true) = is_written {
            self.window_count += 1;
            let length = window.length().unwrap_or_default();
            self.length = Nanos(self.length.0.saturating_add(length.0));
        }
        is_written.map_err(|why| SinkError::new(&self.path, why, self.kept()))
    }

    fn add(&mut self, window: &Window) -> io::Result<bool> {
        let Some(bytes) = self.encoder.add(window)? else {
            return Ok(false);
        };
        self.append(&bytes)?;
        Ok(true)
    }

    /// All of it, or nothing.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        if written.is_err() {
            // A part of a window that stays is left out by the reader.
            let cut = self.file.set_len(self.bytes);
            let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)));
        }
        written?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Ends the file, which gives its last windows their checksum.
    ///
    /// # Errors
    /// The disk is full. All windows can be read in spite of it.
    pub fn finish(&mut self) -> Result<(), SinkError> {
        let bytes = self.encoder.finish();
        let ended = bytes.and_then(|bytes| self.append(&bytes));
        ended.map_err(|why| SinkError::new(&self.path, why, self.kept()))
    }

    fn kept(&self) -> Option<String> {
        (self.window_count > 0).then(|| self.so_far())
    }

    pub fn window_count(&self) -> usize {
        self.window_count
    }

    /// The number of windows in words, with their length.
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
            let read = WindowFile::read(&std::fs::read(&path).unwrap()).unwrap();
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
        let read = WindowFile::read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.windows.len(), 1);
    }
}
