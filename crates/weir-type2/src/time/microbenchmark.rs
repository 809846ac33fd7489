// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's microbenchmarks: some accesses to different lines, from the first one's beginning to the last
//! one's end. Lines are put into their states before, and the latency is that of one access alone.
//!
//! The emulated device is a core of the other socket. It is a variant of the same stages, without DCOH and
//! with UPI for the link.

use super::line_cache::LINE_BYTES;
use super::machine::Type2Machine;
use super::profile::Type2Profile;
use crate::words::{Bias, CacheState, DeviceOp, HostOp, LineHome, TimedStage};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    pub count: u32,
    /// From the first one's beginning to the last one's end, ns.
    pub total_ns: f64,
}

impl Burst {
    pub fn bytes_per_sec(&self) -> f64 {
        f64::from(self.count) * f64::from(LINE_BYTES) / self.total_ns * 1e9
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// The memory that they lie in.
    pub home: LineHome,
    pub bias: Bias,
    /// State in HMC or DMC.
    pub device: CacheState,
    pub llc: CacheState,
}

/// Accesses of a core to device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAccesses {
    pub op: HostOp,
    pub is_type3: bool,
    pub dmc: CacheState,
    pub llc: CacheState,
    /// A posted store ends where the host's CXL port has it; otherwise when device memory has answered (a
    /// fence behind it).
    pub is_posted: bool,
}

/// Line of the n-th access: all different, in an order without a stride. Places in a direct-mapped cache are
/// different for as many as it has.
fn line(n: u32) -> u64 {
    // An odd factor permutes the numbers below a power of two.
    let block = u64::from(n >> 16);
    (block << 16) | ((u64::from(n) * 40_503) & 0xffff)
}

pub fn device_burst(profile: &Type2Profile, op: DeviceOp, place: DevicePlace, count: u32) -> Burst {
    let mut machine = Type2Machine::new(profile);
    machine.set_bias(place.bias);
    for n in 0..count {
        machine.place(place.home, line(n), place.device, place.llc);
    }
    let mut last: f64 = 0.0;
    for n in 0..count {
        let at = f64::from(n) * profile.pace.accelerator_clock_ns;
        let finished = machine.device_access(at, op, place.home, line(n));
        last = last.max(finished.ended_ns);
    }
    Burst {
        count,
        total_ns: last,
    }
}

/// Accesses of a core to device memory: one a clock while it has a fill buffer.
pub fn host_burst(profile: &Type2Profile, accesses: HostAccesses, count: u32) -> Burst {
    let mut machine = if accesses.is_type3 {
        Type2Machine::type3(profile)
    } else {
        Type2Machine::new(profile)
    };
    let home = LineHome::DeviceMemory;
    for n in 0..count {
        machine.place(home, line(n), accesses.dmc, accesses.llc);
    }
    let mut window = CoreWindowTimes::new(profile);
    for n in 0..count {
        let at = window.begin();
        let finished = machine.host_access(at, accesses.op, home, line(n));
        window.end(if accesses.is_posted {
            finished.posted_ns
        } else {
            finished.ended_ns
        });
    }
    window.burst(count)
}

/// Accesses of a core of the other socket to host memory, as the emulated device; `is_hit`: its LLC has the
/// lines, shared.
pub fn remote_burst(profile: &Type2Profile, op: HostOp, is_hit: bool, count: u32) -> Burst {
    let ns = |stage| profile.ns(stage);
    let way = ns(TimedStage::CorePath) + ns(TimedStage::LlcLook) + 2.0 * ns(TimedStage::Upi);
    let memory = match (op, is_hit) {
        (HostOp::Load | HostOp::NtLoad, false) => ns(TimedStage::HostRead),
        (HostOp::Store, true) => ns(TimedStage::SocketInvalidate),
        (HostOp::NtStore, _) => ns(TimedStage::HostAccept),
        _ => 0.0,
    };
    let mut window = CoreWindowTimes::new(profile);
    let mut queue = VecDeque::new();
    for _ in 0..count {
        let at = window.begin();
        let mut end = at + way + memory;
        if op == HostOp::NtStore {
            end = accepted(profile, &mut queue, end);
        }
        window.end(end);
    }
    window.burst(count)
}

/// When the write queue of host memory has a line that came at this time.
fn accepted(profile: &Type2Profile, queue: &mut VecDeque<f64>, at: f64) -> f64 {
    let is_full = queue.len() == profile.sizes.host_write_queue_lines as usize;
    let first = if is_full { queue.pop_front() } else { None };
    let begin = at.max(first.unwrap_or(at));
    let last = queue.back().copied().unwrap_or(begin);
    queue.push_back(last.max(begin) + profile.pace.host_write_line_ns);
    begin
}

/// Times of a core's accesses: when the next may begin.
struct CoreWindowTimes {
    ends: VecDeque<f64>,
    entries: usize,
    clock_ns: f64,
    next_ns: f64,
    last_ns: f64,
}

impl CoreWindowTimes {
    fn new(profile: &Type2Profile) -> Self {
        CoreWindowTimes {
            ends: VecDeque::new(),
            entries: profile.pace.fill_buffers as usize,
            clock_ns: profile.pace.core_clock_ns,
            next_ns: 0.0,
            last_ns: 0.0,
        }
    }

    fn begin(&mut self) -> f64 {
        let is_full = self.ends.len() == self.entries;
        let freed = if is_full { self.ends.pop_front() } else { None };
        let at = self.next_ns.max(freed.unwrap_or(0.0));
        self.next_ns = at + self.clock_ns;
        at
    }

    fn end(&mut self, at_ns: f64) {
        self.ends.push_back(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
    }

    fn burst(&self, count: u32) -> Burst {
        Burst {
            count,
            total_ns: self.last_ns,
        }
    }
}

/// Latency of one access alone, ns.
pub fn latency(burst_of: impl Fn(u32) -> Burst) -> f64 {
    burst_of(1).total_ns
}
