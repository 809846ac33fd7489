// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a file's pages lie in physical memory, from the kernel's own page tables
//! (`Documentation/admin-guide/mm/pagemap.rst`). Gives the owners of pages for the ground truth, so that the
//! truth per workload does not depend on anything weir measures.

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;

const PAGE_BYTES: usize = 4096;
/// Bit 63: present. Bits 0–54: page frame number.
const PRESENT: u64 = 1 << 63;
const FRAME_MASK: u64 = (1 << 55) - 1;

/// Print `first-last` physical addresses (hex, inclusive) of each run of pages of `path`.
pub fn print(path: &str) -> Result<()> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len() as usize;
    // SAFETY: a fresh read-only mapping that lives until the process ends.
    let at = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            bytes,
            ProtFlags::READ,
            MapFlags::SHARED | MapFlags::POPULATE,
            &file,
            0,
        )
    }? as usize;
    let pagemap = File::open("/proc/self/pagemap")?;
    let pages = bytes.div_ceil(PAGE_BYTES);
    let mut entries = vec![0u8; pages * 8];
    pagemap.read_exact_at(&mut entries, (at / PAGE_BYTES * 8) as u64)?;
    let mut frames = Vec::with_capacity(pages);
    for entry in entries.chunks_exact(8) {
        let entry = u64::from_ne_bytes(entry.try_into().map_err(Error::other)?);
        if entry & PRESENT == 0 || entry & FRAME_MASK == 0 {
            return Err(Error::other(format!(
                "{path}: a page is not present or hidden"
            )));
        }
        frames.push(entry & FRAME_MASK);
    }
    frames.sort_unstable();
    let page = PAGE_BYTES as u64;
    for run in frames.chunk_by(|a, b| a + 1 == *b) {
        println!(
            "{:x}-{:x}",
            run[0] * page,
            (run[run.len() - 1] + 1) * page - 1
        );
    }
    Ok(())
}
