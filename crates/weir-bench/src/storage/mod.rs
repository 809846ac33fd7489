// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of storage traffic: pinned threads that keep so many I/Os in flight on one file or device.
//!
//! ```text
//! target (what is read and written) ─► ring    io_uring, all I/Os of a thread in one ring
//!                                   └► caller  preadv2, pwritev2: a thread for each I/O in flight
//! ```
//!
//! [`Engine::found`] says which of the two this machine allows: containers and `kernel.io_uring_disabled`
//! switch io_uring off.

mod caller;
mod ring;
mod storage_stream;
mod target;

pub use storage_stream::{StoragePlan, StorageStream};
pub use target::{IoTarget, TargetKind};

use std::str::FromStr;
use weir_core::random::SplitMix;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StorageOperation {
    RandRead,
    RandWrite,
    /// Reads one block after the other.
    Read,
    /// Writes one block after the other.
    Write,
}

impl StorageOperation {
    pub const ALL: [StorageOperation; 4] = [
        StorageOperation::RandRead,
        StorageOperation::RandWrite,
        StorageOperation::Read,
        StorageOperation::Write,
    ];

    /// Its name in documents, as in fio.
    pub fn name(self) -> &'static str {
        match self {
            StorageOperation::RandRead => "randread",
            StorageOperation::RandWrite => "randwrite",
            StorageOperation::Read => "read",
            StorageOperation::Write => "write",
        }
    }

    pub fn is_write(self) -> bool {
        matches!(self, StorageOperation::RandWrite | StorageOperation::Write)
    }

    fn is_random(self) -> bool {
        matches!(
            self,
            StorageOperation::RandRead | StorageOperation::RandWrite
        )
    }
}

impl FromStr for StorageOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = StorageOperation::ALL.into_iter();
        all.find(|one| one.name() == text).ok_or_else(|| {
            format!(
                "{text:?} is no operation on storage: there are randread, randwrite, read, write"
            )
        })
    }
}

/// How I/Os reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`.
    Ring,
    /// `preadv2` and `pwritev2`, a thread for each I/O in flight.
    Caller,
}

impl Engine {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Ring => "io_uring",
            Engine::Caller => "preadv2 and pwritev2",
        }
    }

    /// io_uring where the kernel lets us, else the other.
    pub fn found() -> Engine {
        match io_uring::IoUring::new(2) {
            Ok(_) => Engine::Ring,
            Err(_) => Engine::Caller,
        }
    }
}

/// Places of a thread's I/Os, in blocks of its part of the target.
#[derive(Clone, Debug)]
struct Places {
    first: u64,
    blocks: u64,
    order: PlaceOrder,
}

#[derive(Clone, Debug)]
enum PlaceOrder {
    Random(SplitMix),
    /// The next block of the part.
    Sequential(u64),
}

impl Places {
    /// Places of thread `thread` of `threads`: random ones are anywhere, others in a part for each thread.
    /// There is at least one block.
    fn new(
        operation: StorageOperation,
        all_blocks: u64,
        thread: u64,
        threads: u64,
        seed: u64,
    ) -> Places {
        let is_random = operation.is_random();
        let part = (all_blocks / threads.max(1)).max(1);
        let (first, blocks) = if is_random {
            (0, all_blocks.max(1))
        } else {
            ((thread * part).min(all_blocks.saturating_sub(part)), part)
        };
        Places {
            first,
            blocks,
            order: if is_random {
                PlaceOrder::Random(SplitMix::new(
                    seed ^ (thread + 1).wrapping_mul(0xd6e8_feb8_6659_fd93),
                ))
            } else {
                PlaceOrder::Sequential(0)
            },
        }
    }

    fn next(&mut self) -> u64 {
        let place = match &mut self.order {
            PlaceOrder::Random(random) => random.below(self.blocks),
            PlaceOrder::Sequential(next) => {
                let place = *next;
                *next = (place + 1) % self.blocks;
                place
            }
        };
        self.first + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sequential_places_are_a_part_for_each_thread() {
        let mut all = Vec::new();
        for thread in 0..3 {
            let mut places = Places::new(StorageOperation::Read, 10, thread, 3, 1);
            all.push((0..4).map(|_| places.next()).collect::<Vec<_>>());
        }
        assert_eq!(all, [[0, 1, 2, 0], [3, 4, 5, 3], [6, 7, 8, 6]]);
        // More threads than blocks: each has one.
        let mut last = Places::new(StorageOperation::Write, 2, 7, 8, 1);
        assert_eq!((last.next(), last.next()), (1, 1));
    }

    #[test]
    fn random_places_cover_the_target_and_differ_by_thread() {
        let seen = |thread| -> Vec<u64> {
            let mut places = Places::new(StorageOperation::RandRead, 100, thread, 2, 7);
            (0..2000).map(|_| places.next()).collect()
        };
        let (one, two) = (seen(0), seen(1));
        assert_ne!(one, two);
        let distinct: BTreeSet<u64> = one.iter().copied().collect();
        assert_eq!(distinct.len(), 100);
        assert!(one.iter().all(|block| *block < 100));
        assert_eq!(one, seen(0), "the same seed, the same places");
    }
}
