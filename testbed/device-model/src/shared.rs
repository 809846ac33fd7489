// SPDX-License-Identifier: GPL-2.0-or-later
//! Files mapped as shared 64-bit words: the BAR that the guest sees and the ground truth that the host sees.

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::sync::atomic::AtomicU64;

/// Map a whole file, for the life of the process.
pub fn map_words(path: &str) -> Result<&'static [AtomicU64], String> {
    let fail = |what: &str, e: rustix::io::Errno| format!("{what} {path}: {e}");
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| fail("open", e))?;
    let bytes = rustix::fs::fstat(&file)
        .map_err(|e| fail("stat", e))?
        .st_size;
    let bytes = usize::try_from(bytes).unwrap_or(0);
    if bytes < 4096 {
        return Err(format!("{path}: {bytes} bytes are too few"));
    }
    // SAFETY: a fresh mapping that is never unmapped; other processes only store whole words, which
    // is what atomics allow.
    unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let at = rustix::mm::mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            MapFlags::SHARED,
            &file,
            0,
        )
        .map_err(|e| fail("map", e))?;
        Ok(std::slice::from_raw_parts(
            at.cast::<AtomicU64>(),
            bytes / 8,
        ))
    }
}
