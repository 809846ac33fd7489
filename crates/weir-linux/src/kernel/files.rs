// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading and opening with bounds: small kernel files in one `pread` on a descriptor that may be
//! kept, directories in one `openat2`, or component by component where that is refused.
//!
//! Below a root nothing follows a symbolic link and no component may be `..`: a cgroup path comes
//! from a journal or from another process, and weir writes as root.

#[cfg(test)]
use crate::fake::kernel::FileChange;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, fstat, mkdirat, openat,
    openat2, statat, unlinkat,
};
use rustix::io::{Errno, pread};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

/// Most a small kernel file may hold; one that is longer is not what it seems to be.
pub(crate) const SMALL: usize = 64 * 1024;

/// A read of a list of ids that brings no more than this has brought all: the kernel fills a page at a time
/// (`seq_file`), and stops before its end only where the next id does not fit in.
const LIST_END: usize = 2048;

const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
// NONBLOCK: opening a FIFO that another program put there must not hang.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A buffer that is allocated once and used for every small file.
pub(crate) struct Buffer(Box<[u8]>);

impl Buffer {
    pub(crate) fn new() -> Self {
        Buffer(vec![0; SMALL].into_boxed_slice())
    }

    /// The whole of a small file. One `pread`: the kernel makes a file of one record up anew, and whole, for
    /// a read from its start (`single_open`, and all of a cgroup's but lists of processes).
    pub(crate) fn read(&mut self, fd: impl AsFd) -> Result<&[u8], Errno> {
        let count = retry(|| pread(&fd, &mut *self.0, 0))?;
        if count == self.0.len() {
            Err(Errno::FBIG)
        } else {
            Ok(&self.0[..count])
        }
    }

    /// A file that may need several reads, such as a list of many processes.
    pub(crate) fn read_all(&mut self, fd: impl AsFd) -> Result<&[u8], Errno> {
        self.read_until(fd, 0)
    }

    /// Reads until a read brings no more than `least` bytes.
    fn read_until(&mut self, fd: impl AsFd, least: usize) -> Result<&[u8], Errno> {
        let mut count = 0;
        loop {
            let more = retry(|| pread(&fd, &mut self.0[count..], count as u64))?;
            count += more;
            if more <= least && count < self.0.len() {
                return Ok(&self.0[..count]);
            }
            if count == self.0.len() {
                return Err(Errno::FBIG);
            }
        }
    }

    /// Opens `name` in `dir`, reads it as [`Buffer::read`] does, closes it.
    pub(crate) fn read_once_at(&mut self, dir: impl AsFd, name: &str) -> Result<&[u8], Errno> {
        let fd = open_file(dir, name)?;
        self.read(fd)
    }

    /// A list of ids. Mostly that is one read.
    pub(crate) fn read_list(&mut self, fd: impl AsFd) -> Result<&[u8], Errno> {
        self.read_until(fd, LIST_END)
    }

    /// Opens `name` in `dir`, reads it as a list of ids, closes it.
    pub(crate) fn read_list_at(&mut self, dir: impl AsFd, name: &str) -> Result<&[u8], Errno> {
        let fd = open_file(dir, name)?;
        self.read_list(fd)
    }

    /// Opens `name` in `dir`, reads it whole, closes it.
    pub(crate) fn read_at(&mut self, dir: impl AsFd, name: &str) -> Result<&[u8], Errno> {
        let fd = open_file(dir, name)?;
        self.read_all(fd)
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// A small file by path, links followed: for sysfs and procfs paths that weir itself made up.
pub(crate) fn read_path(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat(CWD, path, flags, Mode::empty())?;
    let mut buffer = Buffer::new();
    Ok(buffer.read_all(fd)?.to_vec())
}

/// The first page of a file that may be far longer, as read at once.
pub(crate) fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = openat(CWD, path, flags, Mode::empty())?;
    let mut space = vec![0; 4096];
    let count = retry(|| pread(&fd, &mut *space, 0))?;
    space.truncate(count);
    Ok(space)
}

/// A file in `dir` that may be longer than a [`Buffer`], such as a list of all threads.
///
/// # Errors
/// It is longer than `most` (`EFBIG`), or the kernel's.
pub(crate) fn read_long(dir: impl AsFd, name: &str, most: usize) -> Result<Vec<u8>, Errno> {
    let fd = open_file(dir, name)?;
    let mut text = Vec::new();
    loop {
        let held = text.len();
        if held > most {
            return Err(Errno::FBIG);
        }
        text.resize(held + SMALL, 0);
        let more = retry(|| pread(&fd, &mut text[held..], held as u64))?;
        text.truncate(held + more);
        if more == 0 {
            return Ok(text);
        }
    }
}

/// Reads a file of any length in chunks and calls `each` with its lines. A line longer than the
/// buffer is passed over; so is everything after `most` bytes.
pub(crate) fn for_each_line(
    fd: &OwnedFd,
    chunk: &mut [u8],
    most: u64,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let (mut held, mut offset, mut too_long) = (0, 0u64, false);
    while offset < most {
        let count = match pread(fd, &mut chunk[held..], offset) {
            Ok(0) => break,
            Ok(count) => count,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e),
        };
        offset += count as u64;
        let filled = held + count;
        let mut begin = 0;
        while let Some(length) = chunk[begin..filled].iter().position(|b| *b == b'\n') {
            let line = &chunk[begin..begin + length];
            let is_tail = std::mem::take(&mut too_long);
            if !line.is_empty() && !is_tail {
                each(line);
            }
            begin += length + 1;
        }
        chunk.copy_within(begin..filled, 0);
        held = filled - begin;
        if held == chunk.len() {
            (held, too_long) = (0, true);
        }
    }
    if held > 0 && !too_long {
        each(&chunk[..held]);
    }
    Ok(())
}

/// Opens a root directory. Links are followed: the operator named it.
pub(crate) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, DIR.difference(OFlags::NOFOLLOW), Mode::empty())
}

/// Opens a directory in `dir`: one component, no links.
pub(crate) fn open_dir(dir: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(Errno::INVAL);
    }
    openat(dir, name, DIR, Mode::empty())
}

/// Opens a directory in `dir` by a path that weir made up itself.
pub(crate) fn open_path_dir(dir: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    openat(dir, path, DIR, Mode::empty())
}

/// Opens a file in `dir` for reading. `name` is weir's own and may have slashes.
pub(crate) fn open_file(dir: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(dir, name, READ, Mode::empty())
}

/// The `stat` of a directory in `dir`, or of a file in one: `name` is one component, or one with a name of
/// weir's own after it. Links are not followed.
pub(crate) fn stat_at(dir: impl AsFd, name: &[u8]) -> Result<Stat, Errno> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens a file in `dir` for reading and for [`overwrite`]. `name` is weir's own.
pub(crate) fn open_to_change(dir: impl AsFd, name: &str) -> Result<OwnedFd, Errno> {
    openat(dir, name, READ.union(OFlags::RDWR), Mode::empty())
}

/// Opens a directory below `root` by an absolute path within it, each component checked, and never
/// on another file system.
pub(crate) fn open_beneath(root: impl AsFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let relative = path
        .strip_prefix(b"/")
        .filter(|p| !p.is_empty())
        .ok_or(Errno::INVAL)?;
    let is_sound = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    if !relative.split(|b| *b == b'/').all(is_sound) {
        return Err(Errno::INVAL);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(&root, relative, DIR, Mode::empty(), resolve) {
        // No such call, or one that a container is not let make; a path too long for one call.
        Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => open_step_by_step(root, relative),
        opened => opened,
    }
}

fn open_step_by_step(root: impl AsFd, relative: &[u8]) -> Result<OwnedFd, Errno> {
    let device = fstat(&root)?.st_dev;
    let mut dir: Option<OwnedFd> = None;
    for name in relative.split(|b| *b == b'/') {
        let next = match &dir {
            Some(dir) => open_dir(dir, name)?,
            None => open_dir(&root, name)?,
        };
        dir = Some(next);
    }
    let dir = dir.ok_or(Errno::INVAL)?;
    if fstat(&dir)?.st_dev == device {
        Ok(dir)
    } else {
        Err(Errno::XDEV)
    }
}

/// Opens the cgroup at `path` below `root` if it still is the one with this inode.
///
/// # Errors
/// [`Errno::NODEV`] if it is gone, or another has that path by now.
pub(crate) fn open_same(root: impl AsFd, path: &[u8], wanted: u64) -> Result<OwnedFd, Errno> {
    let dir = open_beneath(root, path).map_err(gone_if_absent)?;
    if inode(&dir)?.st_ino == wanted {
        Ok(dir)
    } else {
        Err(Errno::NODEV)
    }
}

/// A directory that is not there means the cgroup is gone; and so does a file that each has.
pub(crate) fn gone_if_absent(error: Errno) -> Errno {
    if error == Errno::NOENT {
        Errno::NODEV
    } else {
        error
    }
}

/// Writes a whole small file in `dir` as `echo` does: truncated, then one write. A kernel file takes the
/// value as a whole or refuses it.
pub(crate) fn write_at(dir: impl AsFd, name: &str, value: &str) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(answer) = crate::fake::kernel::answer(&dir, name, FileChange::Write(value)) {
        return answer;
    }
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(dir, name, flags, Mode::empty())?;
    let count = retry(|| rustix::io::write(&fd, value.as_bytes()))?;
    if count == value.len() {
        Ok(())
    } else {
        Err(Errno::IO)
    }
}

/// Writes a whole small file on a kept descriptor. A kernel file has no size and takes the value as a whole.
/// In a file that has one the rest of the old value is blank before it is truncated, so that a reader never
/// sees a mixture of two values.
pub(crate) fn overwrite(fd: impl AsFd, value: &str) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(answer) = crate::fake::kernel::answer(&fd, "", FileChange::Write(value)) {
        return answer;
    }
    let size = usize::try_from(fstat(&fd)?.st_size).unwrap_or(0);
    let mut padded = [b'\n'; 128];
    let length = size.clamp(value.len(), padded.len().max(value.len()));
    let bytes = match padded.get_mut(..value.len()) {
        Some(start) => {
            start.copy_from_slice(value.as_bytes());
            padded.get(..length).unwrap_or(value.as_bytes())
        }
        None => value.as_bytes(),
    };
    if retry(|| rustix::io::pwrite(&fd, bytes, 0))? != bytes.len() {
        return Err(Errno::IO);
    }
    if size > value.len() {
        rustix::fs::ftruncate(&fd, value.len() as u64)?;
    }
    Ok(())
}

/// Makes a directory in `dir`: a cgroup, a group of resctrl.
pub(crate) fn make_dir(dir: impl AsFd, name: &str) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(answer) = crate::fake::kernel::answer(&dir, name, FileChange::MakeDir) {
        return answer;
    }
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    mkdirat(dir, name, mode)
}

/// Removes an empty directory in `dir`; the files that the kernel has put into it do not count.
pub(crate) fn remove_dir(dir: impl AsFd, name: &str) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(answer) = crate::fake::kernel::answer(&dir, name, FileChange::RemoveDir) {
        return answer;
    }
    unlinkat(dir, name, AtFlags::REMOVEDIR)
}

/// Calls `each` with the name of every directory in `dir`, up to `most` entries of any kind.
///
/// # Errors
/// The directory went away, or has more entries than `most` (`EFBIG`).
pub(crate) fn for_each_dir(
    dir: impl AsFd,
    most: usize,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let dir = dir.as_fd();
    rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))?;
    let mut space = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(dir, &mut space);
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        count += 1;
        if count > most {
            return Err(Errno::FBIG);
        }
        let is_dir = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
                stat.is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Directory)
            }
            _ => false,
        };
        if is_dir {
            each(name.to_bytes());
        }
    }
    Ok(())
}

/// The inode number: for a cgroup its id, which is not used again until a reboot.
pub(crate) fn inode(fd: impl AsFd) -> Result<Stat, Errno> {
    fstat(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_leads_out_of_a_root() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("root/a/b")).unwrap();
        fs::create_dir_all(dir.path().join("outside")).unwrap();
        symlink(dir.path().join("outside"), dir.path().join("root/link")).unwrap();
        symlink("a", dir.path().join("root/inner")).unwrap();
        let root = open_root(&dir.path().join("root")).unwrap();
        assert!(open_beneath(&root, b"/a/b").is_ok());
        for path in [
            &b""[..],
            b"/",
            b"a",
            b"/..",
            b"/a/..",
            b"/a/../../outside",
            b"/./a",
            b"/a//b",
            b"/a/",
            b"/link",
            b"/inner/b",
            b"//a",
            b"/a\0",
            b"/nothing",
        ] {
            assert!(
                open_beneath(&root, path).is_err(),
                "{}",
                String::from_utf8_lossy(path)
            );
        }
    }

    #[test]
    fn a_shorter_value_leaves_no_tail() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cpu.max"), "max 100000\n").unwrap();
        let fd = open_root(dir.path()).unwrap();
        write_at(&fd, "cpu.max", "1 2").unwrap();
        assert_eq!(fs::read(dir.path().join("cpu.max")).unwrap(), b"1 2");
        assert_eq!(write_at(&fd, "absent", "1"), Err(Errno::NOENT));
        let kept = open_to_change(&fd, "cpu.max").unwrap();
        for value in [
            "max 100000",
            "1 2",
            "3 4",
            "50000 20000",
            &"9".repeat(300),
            "5",
        ] {
            overwrite(&kept, value).unwrap();
            let text = fs::read_to_string(dir.path().join("cpu.max")).unwrap();
            assert_eq!(text, value);
        }
        symlink("cpu.max", dir.path().join("link")).unwrap();
        assert_eq!(write_at(&fd, "link", "1"), Err(Errno::LOOP));
    }

    #[test]
    fn files_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        for (name, size, fits) in [("just", SMALL - 1, true), ("over", SMALL, false)] {
            fs::write(dir.path().join(name), vec![b'1'; size]).unwrap();
            let fd = open_root(dir.path()).unwrap();
            let mut buffer = Buffer::new();
            assert_eq!(
                buffer.read(open_file(&fd, name).unwrap()).is_ok(),
                fits,
                "{name}"
            );
            assert_eq!(buffer.read_at(&fd, name).is_ok(), fits, "{name}");
            assert_eq!(buffer.read_list_at(&fd, name).is_ok(), fits, "{name}");
            assert_eq!(read_path(&dir.path().join(name)).is_ok(), fits, "{name}");
            assert_eq!(read_long(&fd, name, size).unwrap().len(), size);
            assert_eq!(read_long(&fd, name, size - 1), Err(Errno::FBIG));
        }
    }

    #[test]
    fn only_directories_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..300 {
            fs::create_dir(dir.path().join(format!("d{n}"))).unwrap();
        }
        fs::write(dir.path().join("file"), "").unwrap();
        symlink("d0", dir.path().join("link")).unwrap();
        let fd = open_root(dir.path()).unwrap();
        for _ in 0..2 {
            let mut names = 0;
            for_each_dir(&fd, 302, |_| names += 1).unwrap();
            assert_eq!(names, 300);
        }
        assert_eq!(for_each_dir(&fd, 301, |_| ()), Err(Errno::FBIG));
    }
}
