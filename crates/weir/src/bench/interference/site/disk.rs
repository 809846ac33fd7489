// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file or device plays the SSD.

use crate::bench::cli::BenchInterferenceArgs;
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use weir_bench::storage::IoTarget;
use weir_figures::text::harmless;
use weir_linux::Roots;

/// One part in so many of a disk's free space is the most that a file takes.
const SPACE_PART: u64 = 4;
/// Where a file is made if nothing is said, the first that lies on a disk.
const USUAL: [&str; 3] = ["/var/tmp", "/var/lib", "/root"];

/// What plays the SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskChoice {
    /// A file is made in this directory.
    FileIn(PathBuf),
    /// This device, and whether it may be written.
    Device(PathBuf, bool),
}

/// The choice by the arguments, else by what the machine has; or why there is none.
///
/// # Errors
/// What was named cannot be used.
pub fn choose(args: &BenchInterferenceArgs, roots: &Roots) -> Result<Result<DiskChoice, String>> {
    let Some(path) = &args.ssd else {
        return Ok(usual(roots, args.ssd_size.0));
    };
    let choice = named(path)?;
    match (&choice, &args.write_device) {
        (DiskChoice::Device(device, _), Some(again)) => {
            ensure!(
                device == again,
                "--write-device {} is not the device of --ssd {}: both must have the same name",
                harmless(&again.display().to_string()),
                harmless(&device.display().to_string())
            );
            Ok(Ok(DiskChoice::Device(device.clone(), true)))
        }
        (DiskChoice::FileIn(_), Some(_)) => {
            bail!("--write-device is for block devices; a file of weir's own is always written")
        }
        (DiskChoice::FileIn(dir), None) => {
            check_space(dir, args.ssd_size.0)?;
            Ok(Ok(choice))
        }
        _ => Ok(Ok(choice)),
    }
}

fn named(path: &Path) -> Result<DiskChoice> {
    let name = harmless(&path.display().to_string());
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
            ensure!(
                std::fs::symlink_metadata(path).is_err(),
                "--ssd {name} is a link to nothing: name a directory, a new file or a block device"
            );
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            ensure!(
                parent.is_dir(),
                "--ssd {name}: there is no directory {}",
                harmless(&parent.display().to_string())
            );
            return Ok(DiskChoice::FileIn(parent.to_owned()));
        }
        Err(why) => return Err(why).with_context(|| format!("--ssd {name}")),
    };
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_dir() => return Ok(DiskChoice::FileIn(path.to_owned())),
        _ if kind.is_block_device() => return Ok(DiskChoice::Device(path.to_owned(), false)),
        _ if kind.is_file() => bail!(
            "--ssd {name} is there already, and weir overwrites no file: name a directory, or a file that is not there"
        ),
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a character device",
    };
    bail!("--ssd {name} is {what}: name a directory, a new file or a block device")
}

/// Room for a file, with most of the disk left free.
fn check_space(dir: &Path, bytes: u64) -> Result<()> {
    let name = || harmless(&dir.display().to_string());
    let space = rustix::fs::statvfs(dir).with_context(|| format!("--ssd {}", name()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    ensure!(
        bytes <= free / SPACE_PART,
        "{} has {} MiB free, and a quarter of that is the most that is used: --ssd-size {} MiB is too many",
        name(),
        free >> 20,
        bytes >> 20
    );
    Ok(())
}

/// A directory on a real disk with room.
fn usual(roots: &Roots, bytes: u64) -> Result<DiskChoice, String> {
    let mut reasons = Vec::new();
    for dir in USUAL.map(Path::new) {
        let name = dir.display();
        let Ok(found) = std::fs::metadata(dir) else {
            continue;
        };
        if disk_name(roots, found.dev()).is_none() {
            reasons.push(format!("{name} is on no disk that the kernel names"));
        } else if let Err(why) = check_space(dir, bytes) {
            reasons.push(why.to_string());
        } else {
            return Ok(DiskChoice::FileIn(dir.to_owned()));
        }
    }
    Err(format!(
        "{}; --ssd names a directory or a device",
        reasons.join("; ")
    ))
}

/// Name of the block device behind a device number; none for tmpfs, overlays and network file systems.
fn disk_name(roots: &Roots, number: u64) -> Option<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = roots.sys.join(format!("dev/block/{major}:{minor}"));
    let found = std::fs::canonicalize(link).ok()?;
    Some(found.file_name()?.to_string_lossy().into_owned())
}

/// The device that the target is, or lies on, in words for people.
pub fn described(roots: &Roots, target: &IoTarget) -> String {
    let disk = target
        .device_number()
        .ok()
        .and_then(|number| disk_name(roots, number));
    let path = harmless(&target.path.display().to_string());
    match (target.kind, disk) {
        (weir_bench::storage::TargetKind::OwnFile, Some(disk)) => {
            format!("a file in {path} on /dev/{disk}")
        }
        (weir_bench::storage::TargetKind::OwnFile, None) => format!("a file in {path}"),
        _ => path,
    }
}

/// Opens or makes it.
///
/// # Errors
/// The disk is full, the device is in use, a signal came.
pub fn open(choice: &DiskChoice, bytes: u64, is_stopped: &dyn Fn() -> bool) -> Result<IoTarget> {
    Ok(match choice {
        DiskChoice::FileIn(dir) => IoTarget::create(dir, bytes, is_stopped)?,
        DiskChoice::Device(path, to_write) => IoTarget::device(path, *to_write)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &Path) -> String {
        format!("{:#}", named(path).unwrap_err())
    }

    #[test]
    fn what_is_named_is_a_directory_a_new_file_or_a_device() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            named(dir.path()).unwrap(),
            DiskChoice::FileIn(dir.path().into())
        );
        let new = dir.path().join("new");
        assert_eq!(named(&new).unwrap(), DiskChoice::FileIn(dir.path().into()));
        assert!(!new.exists());
        let file = dir.path().join("file");
        std::fs::write(&file, "theirs").unwrap();
        assert!(said(&file).contains("overwrites no file"));
        let (link, fifo) = (dir.path().join("link"), dir.path().join("fifo\u{1b}[2J"));
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
        assert!(said(&link).contains("a link to nothing"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let text = said(&fifo);
        assert!(
            text.contains("a FIFO") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(said(Path::new("/dev/null")).contains("a character device"));
        assert!(said(Path::new("/nowhere/at/all")).contains("no directory /nowhere/at"));
        assert!(
            said(&file.join("below")).contains("Not a directory"),
            "{}",
            said(&file.join("below"))
        );
        assert_eq!(std::fs::read(&file).unwrap(), b"theirs");
    }

    #[test]
    fn a_file_leaves_most_of_the_disk_free() {
        let dir = tempfile::tempdir().unwrap();
        let said = check_space(dir.path(), u64::MAX).unwrap_err().to_string();
        assert!(said.contains("--ssd-size"), "{said}");
        check_space(dir.path(), 0).unwrap();
    }

    #[test]
    fn disks_are_known_by_their_number_and_others_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::beneath(dir.path());
        std::fs::create_dir_all(roots.sys.join("devices/pci/nvme0n1")).unwrap();
        std::fs::create_dir_all(roots.sys.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(
            "../../devices/pci/nvme0n1",
            roots.sys.join("dev/block/259:1"),
        )
        .unwrap();
        assert_eq!(
            disk_name(&roots, rustix::fs::makedev(259, 1)).as_deref(),
            Some("nvme0n1")
        );
        assert_eq!(disk_name(&roots, rustix::fs::makedev(0, 1)), None);
    }
}
