// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory on one node. Pages are bound to that node (`mbind(2)`, `MPOL_BIND`), touched so that they exist,
//! and then checked (`move_pages(2)` without targets): memory that lies elsewhere is an error, so that
//! nothing is measured on a wrong node.
//!
//! A full node makes the kernel's OOM killer end a process. It must not end one that was there before us: see
//! [`prefer_oom_kill`].

use crate::BenchError;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

const WORD_BITS: usize = 64;
/// Above every `CONFIG_NODES_SHIFT` in use.
const NODE_MAX: usize = 1024;
/// Pages queried at a time.
const PAGES_AT_ONCE: usize = 1024;
/// Buffers begin and end where a huge page may. Rates are those with huge pages: mbw copies 11 to 16 % faster
/// with them than without, and is within 10 % of weir only then (docs/evidence/interference-bench.md).
const HUGE_BYTES: usize = 2 << 20;

/// Fail rather than leave pages elsewhere (`linux/mempolicy.h`).
const MPOL_MF_STRICT: u32 = 1;

fn page_bytes() -> usize {
    // SAFETY: a question without arguments of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes)
        .ok()
        .filter(|b| *b > 0)
        .unwrap_or(4096)
}

/// Memory on one node, zeroed.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory of this value alone.
unsafe impl Send for Buffer {}

impl Buffer {
    /// So much of it, in whole huge pages, at least one.
    ///
    /// # Errors
    /// The kernel's; or pages came from somewhere else.
    pub fn on_node(bytes: usize, node: u32) -> Result<Buffer, BenchError> {
        let bytes = bytes.max(1).next_multiple_of(HUGE_BYTES);
        let no = |doing: &'static str| {
            move |answer: io::Error| BenchError::Memory {
                bytes,
                node,
                doing,
                answer,
            }
        };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, rights, flags) };
        let start = start.map_err(|e| no("map them")(e.into()))?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| no("map them")(io::ErrorKind::OutOfMemory.into()))?;
        let buffer = Buffer { start, bytes };
        bind(start, bytes, node).map_err(no("bind them"))?;
        // Fewer address translations, where there are huge pages; without them it is only slower.
        // SAFETY: our own mapping.
        let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        buffer.touch();
        buffer.check(node)?;
        Ok(buffer)
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all its pages still are on the node.
    ///
    /// # Errors
    /// Some are not, or the kernel does not say.
    pub fn check(&self, node: u32) -> Result<(), BenchError> {
        let found = self.find(node).map_err(|answer| BenchError::Memory {
            bytes: self.bytes,
            node,
            doing: "find their node",
            answer,
        })?;
        found.check(node)
    }

    fn touch(&self) {
        for page in (0..self.bytes).step_by(page_bytes()) {
            // SAFETY: within the mapping.
            unsafe { self.start().add(page).write_volatile(0) };
        }
    }

    /// The number of pages for which the kernel agrees.
    fn find(&self, node: u32) -> io::Result<Found> {
        let mut found = Found::default();
        let all: Vec<usize> = (0..self.bytes).step_by(page_bytes()).collect();
        for part in all.chunks(PAGES_AT_ONCE) {
            // SAFETY: within the mapping.
            let pages = part.iter().map(|page| unsafe { self.start().add(*page) });
            let pages: Vec<*mut u8> = pages.collect();
            let mut status = vec![-1_i32; pages.len()];
            // SAFETY: both lists are as long as we say; without targets nothing is moved.
            let done = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    0,
                    pages.len(),
                    pages.as_ptr(),
                    std::ptr::null::<i32>(),
                    status.as_mut_ptr(),
                    0,
                )
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
            let there = |s: &&i32| u32::try_from(**s).is_ok_and(|s| s == node);
            found.pages += status.len();
            found.there += status.iter().filter(there).count();
        }
        Ok(found)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no reference into it is left.
        let _ = unsafe { munmap(self.start().cast::<c_void>(), self.bytes) };
    }
}

#[derive(Default)]
struct Found {
    pages: usize,
    there: usize,
}

impl Found {
    fn check(&self, node: u32) -> Result<(), BenchError> {
        if self.there == self.pages {
            return Ok(());
        }
        Err(BenchError::Elsewhere {
            node,
            elsewhere: self.pages - self.there,
            pages: self.pages,
        })
    }
}

fn bind(start: NonNull<u8>, bytes: usize, node: u32) -> io::Result<()> {
    let place = usize::try_from(node).ok().filter(|n| *n < NODE_MAX);
    let place = place.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut mask = [0_u64; NODE_MAX / WORD_BITS];
    mask[place / WORD_BITS] = 1 << (place % WORD_BITS);
    // The kernel reads one bit less than `maxnode`.
    let bits = NODE_MAX + 1;
    // SAFETY: the mask outlives the call and holds the bits that are read of it; the range is ours.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start.as_ptr(),
            bytes,
            libc::MPOL_BIND,
            mask.as_ptr(),
            bits,
            MPOL_MF_STRICT,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes this process the OOM killer's first choice (`oom_score_adj` 1000).
///
/// # Errors
/// There is no `/proc`, or it is closed.
pub fn prefer_oom_kill() -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "1000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_on_the_requested_node() {
        // Every machine that runs Linux has node 0; a container may not be allowed to bind.
        match Buffer::on_node(1, 0) {
            Ok(buffer) => {
                assert_eq!(buffer.bytes(), HUGE_BYTES);
                let found = buffer.find(0).unwrap();
                assert!(found.pages > 0 && found.there == found.pages);
                let wrong = buffer.find(1).unwrap().check(1).unwrap_err().to_string();
                assert!(
                    wrong.contains("not there") && wrong.contains("node1"),
                    "{wrong}"
                );
            }
            Err(BenchError::Memory { answer, .. }) => {
                let why = answer.raw_os_error();
                assert!(matches!(why, Some(libc::EPERM | libc::ENOSYS)), "{answer}");
                eprintln!("SKIP memory on a node: {answer}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_node_that_cannot_be_is_refused() {
        for node in [1023, 1 << 20, u32::MAX] {
            assert!(Buffer::on_node(1, node).is_err(), "{node}");
        }
    }
}
