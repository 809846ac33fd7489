// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An SSD's figures, and the requests to memory that its I/O is made of.
//!
//! Direct I/O is DMA alone. Buffered I/O adds one thing: the CPU copies each block between page cache and
//! user buffer, `copy_lines` lines at a time, and each line has to be admitted. That added time per I/O is
//! the only difference between patterns: a pattern that the SSD limits hides it, one that the CPU limits does
//! not.

use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::from_to;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct SsdFigures {
    /// Bytes of one I/O.
    #[garde(custom(from_to(512, 1 << 20)))]
    pub block_bytes: u64,
    /// Direct I/Os that a thread keeps in flight. A buffered thread has one.
    #[garde(custom(from_to(1, 256)))]
    pub depth: u32,
    /// Whether streams pass by the page cache unless they say otherwise.
    #[serde(default)]
    #[garde(skip)]
    pub is_direct: bool,
    /// Random reads of 4 KiB or a block, per second.
    #[garde(custom(from_to(1.0, 1e9)))]
    pub random_read_iops: f64,
    /// Random writes, per second.
    #[garde(custom(from_to(1.0, 1e9)))]
    pub random_write_iops: f64,
    /// Sequential reads, bytes per second.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub read_bytes_per_sec: f64,
    /// Sequential writes, bytes per second.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub write_bytes_per_sec: f64,
    /// A read while all is idle, nanoseconds.
    #[garde(custom(from_to(1.0, 1e9)))]
    pub read_latency_ns: f64,
    /// A write while all is idle, nanoseconds.
    #[garde(custom(from_to(1.0, 1e9)))]
    pub write_latency_ns: f64,
    /// A thread's own time for one I/O, the copy not included, nanoseconds at `cores.ghz`.
    #[garde(custom(from_to(1.0, 1e9)))]
    pub cpu_ns: f64,
    /// Lines of a copy that are under way at once.
    #[garde(custom(from_to(1, 1024)))]
    pub copy_lines: u32,
}

/// What a thread of an SSD stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoragePattern {
    pub is_write: bool,
    pub is_random: bool,
}

impl SsdFigures {
    pub(super) fn lines(&self) -> f64 {
        self.block_bytes as f64 / 64.0
    }

    /// I/Os per second that device and link can do, whatever the threads are.
    pub(super) fn most_iops(&self, pattern: StoragePattern, link_bytes_per_sec: f64) -> f64 {
        let block = self.block_bytes as f64;
        let (iops, rate) = if pattern.is_write {
            (self.random_write_iops, self.write_bytes_per_sec)
        } else {
            (self.random_read_iops, self.read_bytes_per_sec)
        };
        let rate = rate.min(link_bytes_per_sec) / block;
        if pattern.is_random {
            iops.min(rate)
        } else {
            rate
        }
    }

    /// What a slot waits for besides memory, nanoseconds for an I/O: the device where the thread waits for
    /// it, and of buffered I/O the thread's own time. Buffered writes and read-ahead wait for no device.
    pub(super) fn own_ns(&self, pattern: StoragePattern, is_direct: bool, cpu_ns: f64) -> f64 {
        let device = if pattern.is_write {
            self.write_latency_ns
        } else {
            self.read_latency_ns
        };
        match (is_direct, pattern.is_write, pattern.is_random) {
            (true, ..) => device,
            (false, false, true) => device + cpu_ns,
            (false, ..) => cpu_ns,
        }
    }
}
