// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that go into a guest that is up: an archive in the BAR of a PCI device, which the agent unpacks
//! (`weir-agent unpack`). So one booted guest, kept as a snapshot, serves tests with different programs.

use crate::guest_env::{copy, pack};
use crate::vm::qemu::shm::SharedMemory;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Size of the BAR: it distinguishes the device from the emulated counters'.
pub const BAR_BYTES: usize = 128 << 20;
/// Where the archive begins: before it stands its length.
pub const HEADER_BYTES: usize = 8;

/// A file to put into the guest.
#[derive(Clone, Debug)]
pub struct GuestFile {
    /// On the host.
    pub from: PathBuf,
    /// In the guest, without the leading slash.
    pub to: String,
}

impl GuestFile {
    /// `from` on the host becomes `to` in the guest.
    pub fn new(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            from: from.into(),
            to: to.into(),
        }
    }
}

/// Packs files into the BAR; `dir` is scratch.
pub(crate) fn put(bar: &SharedMemory, dir: &Path, files: &[GuestFile]) -> Result<()> {
    let stage = dir.join("files");
    for file in files {
        copy(&file.from, &stage.join(&file.to))?;
    }
    let archive = dir.join("files.cpio");
    pack(&stage, &archive)?;
    let bytes = std::fs::read(&archive)?;
    std::fs::remove_dir_all(&stage)?;
    std::fs::remove_file(&archive)?;
    ensure!(
        bytes.len() + HEADER_BYTES <= BAR_BYTES,
        "files for the guest take {} MiB, and the limit is {}",
        bytes.len() >> 20,
        BAR_BYTES >> 20
    );
    let words = bar.words();
    words[0].store(bytes.len() as u64, Ordering::Relaxed);
    for (word, chunk) in words[HEADER_BYTES / 8..].iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
    Ok(())
}
