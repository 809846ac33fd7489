// SPDX-License-Identifier: Apache-2.0 OR MIT
//! I/Os by io_uring: each slot has its part of the buffer, and is filled again as soon as it is done. Each
//! I/O is submitted by itself, as fio does without `--iodepth_batch`.
//!
//! At first all I/Os that were done went back to the kernel as one batch. A disk of a virtual machine begins
//! with a batch when it has all of it, and reports it when all is done, so that disk and thread take turns:
//! 58 to 62 thousand reads a second, instead of 67 to 74 each by itself. What sequential reads lose by it is
//! that the kernel merges a batch: 75 thousand instead of 115 (docs/evidence/interference-bench.md).

use super::storage_stream::IoWork;
use crate::streams::Worker;
use crate::{BenchError, cpu};
use io_uring::{IoUring, opcode, squeue, types};
use std::os::fd::AsRawFd;

/// A ring that finishes its I/Os when the thread waits for them, and interrupts it for none before: as fio
/// and databases make theirs. Kernels before 6.1 do not know this, and interrupt it.
fn ring(entries: u32) -> std::io::Result<IoUring> {
    let deferred = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries);
    match deferred {
        Err(why) if why.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        made => made,
    }
}

pub(super) struct RingWorker {
    // Declared first: the ring is closed before the memory that it uses is given back.
    ring: IoUring,
    work: IoWork,
    /// When each slot was given to the kernel.
    begun_ns: Vec<u64>,
    in_flight: usize,
}

impl RingWorker {
    pub(super) fn new(work: IoWork, depth: u32) -> Result<RingWorker, BenchError> {
        let ring = ring(depth.next_power_of_two()).map_err(|answer| BenchError::Storage {
            path: work.path.clone(),
            doing: "make an io_uring for it",
            answer,
        })?;
        Ok(RingWorker {
            ring,
            begun_ns: vec![0; depth as usize],
            work,
            in_flight: 0,
        })
    }

    fn entry(&mut self, slot: usize) -> squeue::Entry {
        let block = self.work.block_bytes;
        let at = self.work.places.next() * block;
        let length = u32::try_from(block).unwrap_or(u32::MAX);
        let offset = usize::try_from(block).unwrap_or(0) * slot;
        let place = self.work.buffer.start().wrapping_add(offset);
        let file = types::Fd(self.work.file.as_raw_fd());
        let entry = if self.work.operation.is_write() {
            opcode::Write::new(file, place, length).offset(at).build()
        } else {
            opcode::Read::new(file, place, length).offset(at).build()
        };
        entry.user_data(slot as u64)
    }

    fn push(&mut self, slot: usize) -> Result<(), BenchError> {
        let entry = self.entry(slot);
        self.begun_ns[slot] = cpu::now_ns();
        // SAFETY: the slot's part of the buffer lives until its completion was seen (`finish`), and the file
        // as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|why| self.work.failed(std::io::Error::other(why)))?;
        self.in_flight += 1;
        self.submit()
    }

    /// Gives the kernel what was pushed. A disk of a virtual machine begins with the first I/O of a batch
    /// when it has the last one, and says that they are done when all are: so with a batch neither it nor
    /// this thread works while the other does.
    fn submit(&mut self) -> Result<(), BenchError> {
        match self.ring.submit() {
            Ok(_) => Ok(()),
            // `completed` gives it to the kernel.
            Err(why) if matches!(why.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => Ok(()),
            Err(why) => Err(self.work.failed(why)),
        }
    }

    /// Takes at least one completion: the slots, with what they moved.
    fn completed(&mut self) -> Result<Vec<(usize, i32)>, BenchError> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => break,
                Err(why) if why.raw_os_error() == Some(libc::EINTR) => {}
                Err(why) => return Err(self.work.failed(why)),
            }
        }
        let found = self.ring.completion();
        let found: Vec<(usize, i32)> = found
            .map(|done| {
                (
                    usize::try_from(done.user_data()).unwrap_or(0),
                    done.result(),
                )
            })
            .collect();
        self.in_flight -= found.len();
        Ok(found)
    }

    /// Whether a completion moved its block.
    fn judge(&self, result: i32) -> Result<(), BenchError> {
        match u64::try_from(result) {
            Ok(moved) if moved == self.work.block_bytes => Ok(()),
            Ok(_) => Err(self.work.short()),
            Err(_) => Err(self.work.failed(std::io::Error::from_raw_os_error(-result))),
        }
    }
}

impl Worker for RingWorker {
    fn step(&mut self, is_measuring: bool) -> Result<u64, BenchError> {
        self.work.recorder.follow(is_measuring);
        if self.in_flight == 0 {
            (0..self.begun_ns.len()).try_for_each(|slot| self.push(slot))?;
        }
        let done = self.completed()?;
        let now_ns = cpu::now_ns();
        for (slot, result) in &done {
            self.judge(*result)?;
            let took = now_ns.saturating_sub(self.begun_ns[*slot]);
            self.work.recorder.record(took);
            self.push(*slot)?;
        }
        Ok(done.len() as u64)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        while self.in_flight > 0 {
            self.completed()?;
        }
        self.work.recorder.hand_over();
        Ok(())
    }

    fn check(&self) -> Result<(), BenchError> {
        self.work.buffer.check(self.work.node)
    }
}

impl Drop for RingWorker {
    fn drop(&mut self) {
        // After an error some are still on their way, and the kernel writes into the buffer.
        while self.in_flight > 0 && self.completed().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use crate::storage::storage_stream::{IoTimes, Recorder};
    use crate::storage::{Engine, IoTarget, Places, StorageOperation};
    use std::sync::Arc;

    #[test]
    fn each_io_is_given_to_the_kernel_by_itself() {
        if Engine::found() != Engine::Ring {
            return eprintln!("SKIP storage: this machine forbids io_uring");
        }
        let target = IoTarget::create(&std::env::temp_dir(), 1 << 20, &|| false).unwrap();
        let Ok(buffer) = Buffer::on_node(4 * 4096, 0) else {
            return eprintln!("SKIP storage: no memory can be bound to node 0 here");
        };
        let work = IoWork {
            file: target.reopen(false).unwrap(),
            path: String::new(),
            operation: StorageOperation::RandRead,
            block_bytes: 4096,
            places: Places::new(StorageOperation::RandRead, 256, 0, 1, 1),
            buffer,
            node: 0,
            recorder: Recorder::new(&Arc::new(IoTimes::new())),
        };
        let mut worker = RingWorker::new(work, 4).unwrap();
        for slot in 0..4 {
            worker.push(slot).unwrap();
            assert!(worker.ring.submission().is_empty(), "{slot} waits");
        }
        assert_eq!(worker.in_flight, 4);
        worker.finish().unwrap();
        assert_eq!(worker.in_flight, 0);
    }
}
