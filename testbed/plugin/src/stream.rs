// SPDX-License-Identifier: GPL-2.0-or-later
//! The access stream's producing end. A vCPU whose ring is full waits until there is room, so nothing is
//! lost while somebody takes: back pressure, which its clock sees as a host that is late.
//!
//! Who takes holds a lock on the file (`flock`), which the kernel drops with the process. When it can
//! be had from here, nobody takes any more: what no longer fits is counted as lost, and the guest goes on.

use crate::shared::map_words;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_hw::stream::{Record, Stream};

/// How long to wait for room.
const WAIT: Duration = Duration::from_micros(50);
/// Waits between two looks at whether anybody takes.
const WAITS_A_LOOK: u32 = 200;

/// The stream, and whether somebody is there.
pub struct Publisher {
    stream: Stream<'static>,
    file: OwnedFd,
    path: String,
    abandoned: AtomicBool,
}

impl Publisher {
    /// Open the stream at `path`, which somebody takes.
    pub fn open(path: &str, vcpu_count: usize) -> Result<Self, String> {
        let stream = Stream::open(map_words(path)?)
            .ok_or_else(|| format!("{path} is not an access stream of this version"))?;
        let rings = stream.shape().ring_count;
        if rings < vcpu_count {
            return Err(format!("{path} has {rings} rings for {vcpu_count} vCPUs"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| format!("open {path}: {e}"))?;
        let publisher = Publisher {
            stream,
            file,
            path: path.to_string(),
            abandoned: AtomicBool::new(false),
        };
        if !publisher.somebody_takes() {
            return Err(format!(
                "nobody takes the accesses from {path}: weir-cosim has ended"
            ));
        }
        Ok(publisher)
    }

    /// Add an access of vCPU `ring`, on its thread.
    pub fn publish(&self, ring: usize, record: Record) {
        let mut waits = 0;
        while !self.stream.push(ring, record) {
            if self.abandoned.load(Ordering::Relaxed) {
                return self.stream.lose();
            }
            self.stream.wait();
            std::thread::sleep(WAIT);
            waits += 1;
            if waits % WAITS_A_LOOK == 0 && !self.somebody_takes() {
                self.give_up();
            }
        }
    }

    fn give_up(&self) {
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            let path = &self.path;
            eprintln!(
                "weir-plugin: nobody takes the accesses from {path} any more: from now on they are lost"
            );
        }
    }

    fn somebody_takes(&self) -> bool {
        let got = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        if got {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
        !got
    }
}
