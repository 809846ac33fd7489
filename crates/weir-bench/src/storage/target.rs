// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read and written: a file of ours, or a device.
//!
//! A file of ours has no name from its first byte on (`O_TMPFILE`, or unlinked at once): it is gone when the
//! last descriptor is closed, also after a panic or a SIGKILL. All of it is written, with data that no device
//! compresses: reads of holes would not reach the device.

use crate::BenchError;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use weir_core::random::mix;
use weir_files::Folder;

/// Bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Least size of a target: one of the largest blocks.
const BYTES_MIN: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A file that was made for the purpose.
    OwnFile,
    /// A block device that is read only.
    DeviceToRead,
    /// A block device that may be written.
    DeviceToWrite,
}

/// A file or device that is open.
#[derive(Debug)]
pub struct IoTarget {
    file: File,
    pub kind: TargetKind,
    pub bytes: u64,
    /// Its name, for people; a file of ours has the name of its directory.
    pub path: PathBuf,
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.display().to_string();
    move |answer| BenchError::Storage {
        path,
        doing,
        answer,
    }
}

fn refused(path: &Path, why: &'static str) -> BenchError {
    BenchError::Refused {
        path: path.display().to_string(),
        why,
    }
}

impl IoTarget {
    /// Makes a file of so many bytes in a directory, and writes all of it.
    ///
    /// # Errors
    /// The directory cannot be written, the disk is full, or a signal came.
    pub fn create(
        dir: &Path,
        bytes: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<IoTarget, BenchError> {
        let bytes = bytes.max(BYTES_MIN).next_multiple_of(PIECE_BYTES as u64);
        let made = Folder::open(dir).and_then(|dir| dir.nameless());
        let mut file = made.map_err(failed(dir, "make a file there"))?;
        let mut piece = vec![0_u8; PIECE_BYTES];
        for number in 0..bytes / PIECE_BYTES as u64 {
            if is_stopped() {
                return Err(BenchError::Stopped);
            }
            fill(&mut piece, number);
            file.write_all(&piece)
                .map_err(failed(dir, "fill the file there"))?;
        }
        file.sync_all()
            .map_err(failed(dir, "write the file there"))?;
        Ok(IoTarget {
            file,
            kind: TargetKind::OwnFile,
            bytes,
            path: dir.to_owned(),
        })
    }

    /// Opens a block device, to be read; or to be written, which the kernel refuses for one that is in use
    /// (`O_EXCL`: mounted, swap, part of another device).
    ///
    /// # Errors
    /// It is no block device, is in use, or cannot be opened.
    pub fn device(path: &Path, to_write: bool) -> Result<IoTarget, BenchError> {
        let no_device = |found: &std::fs::Metadata| {
            (!found.file_type().is_block_device()).then(|| {
                refused(
                    path,
                    "is no block device; name one, or a directory for a file",
                )
            })
        };
        // Asked before it is opened: opening a FIFO waits for its other end.
        let found = std::fs::metadata(path).map_err(failed(path, "look at it"))?;
        no_device(&found).map_or(Ok(()), Err)?;
        let exclusive = if to_write { libc::O_EXCL } else { 0 };
        let opened = OpenOptions::new()
            .read(true)
            .write(to_write)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | exclusive)
            .open(path);
        let file = opened.map_err(|answer| match answer.raw_os_error() {
            Some(libc::EBUSY) => refused(
                path,
                "is in use (mounted, swap, or part of another device), and is not written; unmount it, or \
                 leave --write-device out",
            ),
            _ => failed(path, "open it")(answer),
        })?;
        // What was opened may be another thing than what was looked at.
        let found = file.metadata().map_err(failed(path, "look at it"))?;
        no_device(&found).map_or(Ok(()), Err)?;
        let bytes = {
            use std::io::{Seek, SeekFrom};
            let mut file = &file;
            file.seek(SeekFrom::End(0))
                .map_err(failed(path, "find its size"))?
        };
        if bytes < BYTES_MIN {
            return Err(refused(
                path,
                "has less than 1 MiB: is there a medium in it?",
            ));
        }
        Ok(IoTarget {
            file,
            kind: if to_write {
                TargetKind::DeviceToWrite
            } else {
                TargetKind::DeviceToRead
            },
            bytes,
            path: path.to_owned(),
        })
    }

    pub fn is_writable(&self) -> bool {
        self.kind != TargetKind::DeviceToRead
    }

    /// Number of the device that it is or lies on (stat(2), `st_dev`).
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn device_number(&self) -> io::Result<u64> {
        let found = self.file.metadata()?;
        Ok(match self.kind {
            TargetKind::OwnFile => found.dev(),
            _ => found.rdev(),
        })
    }

    /// Another descriptor for it, past the page cache or not.
    ///
    /// # Errors
    /// The file system has no direct I/O, or there is no /proc.
    pub fn reopen(&self, direct: bool) -> Result<File, BenchError> {
        let name = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = if direct { libc::O_DIRECT } else { 0 } | libc::O_CLOEXEC;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(self.is_writable())
            .custom_flags(flags);
        let doing = if direct {
            "open it past the page cache (direct I/O)"
        } else {
            "open it again"
        };
        options.open(name).map_err(failed(&self.path, doing))
    }

    /// Waits until what was written to the page cache is on the device.
    ///
    /// # Errors
    /// The kernel's.
    pub fn settle(&self) -> Result<(), BenchError> {
        self.file
            .sync_data()
            .map_err(failed(&self.path, "write it back"))
    }
}

/// Data of piece `number` that does not compress.
fn fill(piece: &mut [u8], number: u64) {
    let words = piece.len() as u64 / 8;
    for (word, bytes) in piece.chunks_exact_mut(8).enumerate() {
        bytes.copy_from_slice(&mix(number * words + word as u64 + 1).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// A directory of this test alone, removed at its end.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Dir {
            let path = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Dir(path)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_file_has_data_everywhere_and_no_name() {
        let dir = Dir::new("file");
        let target = IoTarget::create(&dir.0, (3 << 20) + 1, &|| false).unwrap();
        assert_eq!(target.bytes, 4 << 20);
        assert_eq!(
            std::fs::read_dir(&dir.0).unwrap().count(),
            0,
            "it has a name"
        );
        let file = target.reopen(false).unwrap();
        let mut block = [0; 4096];
        for at in (0..target.bytes).step_by(4096) {
            file.read_exact_at(&mut block, at).unwrap();
            assert!(block.iter().any(|byte| *byte != 0), "a hole at {at}");
        }
        // Data of two places differs: a device that looks for equal blocks finds none.
        let mut other = [0; 4096];
        file.read_exact_at(&mut other, 0).unwrap();
        assert_ne!(block, other);
        file.write_all_at(b"x", 0).unwrap();
        target.settle().unwrap();
    }

    #[test]
    fn a_signal_while_it_is_filled_leaves_nothing() {
        let dir = Dir::new("stopped");
        let said = IoTarget::create(&dir.0, 8 << 20, &|| true).unwrap_err();
        assert!(matches!(said, BenchError::Stopped));
        assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_device_is_refused_and_named() {
        let dir = Dir::new("refused");
        let fifo = dir.0.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let link = dir.0.join("link");
        std::os::unix::fs::symlink(&fifo, &link).unwrap();
        for path in [&fifo, &link, &dir.0, Path::new("/dev/null")] {
            for to_write in [false, true] {
                let said = IoTarget::device(path, to_write).unwrap_err().to_string();
                assert!(said.contains("no block device"), "{said}");
                assert!(said.contains(&path.display().to_string()), "{said}");
            }
        }
        let said = IoTarget::device(&dir.0.join("gone"), false)
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("gone") && said.contains("look at it"),
            "{said}"
        );
        let said = IoTarget::create(&fifo, 1, &|| false)
            .unwrap_err()
            .to_string();
        assert!(said.contains("fifo"), "{said}");
    }
}
