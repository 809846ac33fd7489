// SPDX-License-Identifier: Apache-2.0 OR MIT
//! I/Os by `preadv2` and `pwritev2`: one at a time for each thread.

use super::storage_stream::IoWork;
use crate::streams::Worker;
use crate::{BenchError, cpu};
use std::io;
use std::os::fd::AsRawFd;

pub(super) struct CallWorker {
    work: IoWork,
}

impl CallWorker {
    pub(super) fn new(work: IoWork) -> CallWorker {
        CallWorker { work }
    }

    /// Bytes that one I/O moved.
    fn io(&mut self) -> io::Result<u64> {
        let block = self.work.block_bytes;
        let at = self.work.places.next() * block;
        let at =
            libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let part = libc::iovec {
            iov_base: self.work.buffer.start().cast(),
            iov_len: usize::try_from(block).unwrap_or(0),
        };
        let file = self.work.file.as_raw_fd();
        loop {
            // SAFETY: the buffer holds a block, and nothing else uses it meanwhile.
            let moved = unsafe {
                if self.work.operation.is_write() {
                    libc::pwritev2(file, &raw const part, 1, at, 0)
                } else {
                    libc::preadv2(file, &raw const part, 1, at, 0)
                }
            };
            match u64::try_from(moved) {
                Ok(moved) => return Ok(moved),
                Err(_) => {
                    let why = io::Error::last_os_error();
                    if why.kind() != io::ErrorKind::Interrupted {
                        return Err(why);
                    }
                }
            }
        }
    }
}

impl Worker for CallWorker {
    fn step(&mut self, is_measuring: bool) -> Result<u64, BenchError> {
        self.work.recorder.follow(is_measuring);
        let begun_ns = cpu::now_ns();
        let moved = self.io().map_err(|why| self.work.failed(why))?;
        if moved != self.work.block_bytes {
            return Err(self.work.short());
        }
        self.work
            .recorder
            .record(cpu::now_ns().saturating_sub(begun_ns));
        Ok(1)
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.work.recorder.hand_over();
        Ok(())
    }

    fn check(&self) -> Result<(), BenchError> {
        self.work.buffer.check(self.work.node)
    }
}
