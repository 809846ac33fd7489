// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that go into a guest that is up: they lie in the BAR of a PCI device, and the agent takes them from
//! there (`weir-agent unpack`). So one booted guest, kept as a snapshot, serves tests with different
//! programs.
//!
//! ```text
//! length of the list, 8 bytes │ the list: JSON, an entry a file │ the files' bytes, in its order
//! ```

use crate::vm::qemu::shm::SharedMemory;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the BAR: it distinguishes the device from the emulated counters'.
pub const BAR_BYTES: usize = 128 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// In the guest, without the leading slash.
    pub to: String,
    pub mode: u32,
    pub bytes: usize,
}

#[derive(Clone, Debug)]
pub struct GuestFile {
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

pub(crate) fn put(bar: &SharedMemory, files: &[GuestFile]) -> Result<()> {
    store(bar.words(), &packed(files)?)
}

fn packed(files: &[GuestFile]) -> Result<Vec<u8>> {
    let (mut list, mut contents) = (Vec::new(), Vec::new());
    for GuestFile { from, to } in files {
        let lacking = || from.display().to_string();
        let mode = from.metadata().with_context(lacking)?.permissions().mode() & 0o7777;
        let content = std::fs::read(from).with_context(lacking)?;
        let (to, bytes) = (to.clone(), content.len());
        list.push(Entry { to, mode, bytes });
        contents.extend(content);
    }
    let list = serde_json::to_vec(&list)?;
    let length = (list.len() as u64).to_le_bytes();
    Ok([&length[..], &list, &contents].concat())
}

fn store(words: &[AtomicU64], bytes: &[u8]) -> Result<()> {
    ensure!(
        bytes.len() <= words.len() * 8,
        "files for the guest take {} MiB, and the limit is {}",
        bytes.len() >> 20,
        (words.len() * 8) >> 20
    );
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
    }
    Ok(())
}

/// The files in a BAR: each with its bytes; nothing if it holds no such list.
pub fn unpacked(bar: &[u8]) -> Option<Vec<(Entry, &[u8])>> {
    let (length, rest) = bar.split_first_chunk()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (list, mut contents) = rest.split_at_checked(length)?;
    let list: Vec<Entry> = serde_json::from_slice(list).ok()?;
    let mut files = Vec::new();
    for entry in list {
        let (content, others) = contents.split_at_checked(entry.bytes)?;
        contents = others;
        files.push((entry, content));
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        for (name, mode, content) in [
            ("a", 0o755, &b"seven b"[..]),
            ("b", 0o600, b""),
            ("c", 0o644, b"x"),
        ] {
            let from = dir.path().join(name);
            std::fs::write(&from, content).unwrap();
            std::fs::set_permissions(&from, PermissionsExt::from_mode(mode)).unwrap();
            files.push(GuestFile::new(from, &format!("below/{name}")));
        }
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(u64::MAX)).collect();
        store(&words, &packed(&files).unwrap()).unwrap();
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        let seen = unpacked(&bytes).unwrap();
        let told = |(entry, content): &(Entry, &[u8])| {
            (
                entry.to.clone(),
                entry.mode,
                String::from_utf8_lossy(content).into_owned(),
            )
        };
        let wanted = [
            ("below/a", 0o755, "seven b"),
            ("below/b", 0o600, ""),
            ("below/c", 0o644, "x"),
        ];
        let wanted = wanted.map(|(to, mode, content)| (to.to_owned(), mode, content.to_owned()));
        assert_eq!(seen.iter().map(told).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn what_is_not_whole_is_nothing_and_what_is_too_much_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("file");
        std::fs::write(&from, [7; 100]).unwrap();
        let bytes = packed(&[GuestFile::new(from, "file")]).unwrap();
        for length in [0, 7, 20, bytes.len() - 1] {
            assert!(unpacked(&bytes[..length]).is_none(), "{length}");
        }
        assert!(unpacked(&[0xff; 64]).is_none());
        let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        assert!(store(&words, &bytes).is_err());
        assert!(packed(&[GuestFile::new("/nowhere", "file")]).is_err());
    }
}
