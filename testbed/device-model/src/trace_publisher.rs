// SPDX-License-Identifier: GPL-2.0-or-later
//! Producer of the access trace. A vCPU with a full ring waits until there is space, so nothing is
//! lost while a consumer runs: back pressure, which its clock sees as a host that is late.
//!
//! The consumer holds a lock on the file (`flock`), which the kernel drops with the process. When it can be
//! taken here, the consumer has ended: accesses without space are counted as lost, and the guest goes on.

use crate::shared::map_words;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_ipc::access_trace::{AccessTrace, TraceRecord};

/// How long to wait for space.
const WAIT: Duration = Duration::from_micros(50);
/// Waits between two checks of whether there is a consumer.
const WAITS_A_CHECK: u32 = 200;

/// The trace, and whether its consumer runs.
pub struct TracePublisher {
    trace: AccessTrace<'static>,
    file: OwnedFd,
    path: String,
    abandoned: AtomicBool,
}

impl TracePublisher {
    /// Opens the trace at `path`; its consumer runs already.
    pub fn open(path: &str, vcpu_count: usize) -> Result<Self, String> {
        let trace = AccessTrace::open(map_words(path)?)
            .ok_or_else(|| format!("{path} is not an access trace of this version"))?;
        let rings = trace.layout().ring_count;
        if rings < vcpu_count {
            return Err(format!("{path} has {rings} rings for {vcpu_count} vCPUs"));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| format!("open {path}: {e}"))?;
        let publisher = TracePublisher {
            trace,
            file,
            path: path.to_string(),
            abandoned: AtomicBool::new(false),
        };
        if !publisher.has_consumer() {
            return Err(format!(
                "no program takes the accesses from {path}: weir-cosim has ended"
            ));
        }
        Ok(publisher)
    }

    /// Add an access of vCPU `ring`, on its thread.
    pub fn publish(&self, ring: usize, record: TraceRecord) {
        let mut waits = 0;
        while !self.trace.push(ring, record) {
            if self.abandoned.load(Ordering::Relaxed) {
                return self.trace.count_lost();
            }
            self.trace.count_wait();
            std::thread::sleep(WAIT);
            waits += 1;
            if waits % WAITS_A_CHECK == 0 && !self.has_consumer() {
                self.abandon();
            }
        }
    }

    fn abandon(&self) {
        if !self.abandoned.swap(true, Ordering::Relaxed) {
            let path = &self.path;
            eprintln!(
                "weir-device-model: no program takes the accesses from {path} any more: from now on they are lost"
            );
        }
    }

    fn has_consumer(&self) -> bool {
        let got = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        if got {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
        !got
    }
}
