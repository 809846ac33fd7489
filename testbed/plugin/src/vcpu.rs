// SPDX-License-Identifier: GPL-2.0-or-later
//! The clock of one vCPU. Only the vCPU's own thread touches it.

use crate::tlb::Tlb;
use rustix::thread::ClockId;
use weir_hw::ledger::VcpuTally;
use weir_hw::{CoreWindow, Device};

/// Pace of the model against the wall.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Model time per instruction, picoseconds.
    pub instruction_ps: u64,
    /// How far a clock may run ahead of the wall before its thread sleeps.
    pub slack_ns: u64,
    /// How far it may fall behind before time is dropped.
    pub max_lag_ns: u64,
}

/// One vCPU. Aligned so that two vCPUs share no cache line of the host.
#[repr(align(128))]
pub struct Vcpu {
    /// Model time at the start of the running quantum.
    base_ns: u64,
    /// The clock value at which the wall must be looked at again.
    check_at_ns: u64,
    window: CoreWindow,
    last_line: u64,
    /// Its address translations.
    pub tlb: Box<Tlb>,
    /// What it did, for the ledger.
    pub tally: VcpuTally,
}

/// The wall: the host's monotonic clock.
pub fn wall_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Vcpu {
    /// A vCPU whose clock starts now.
    pub fn new(window_lines: usize) -> Self {
        Vcpu {
            base_ns: wall_ns(),
            check_at_ns: 0,
            window: CoreWindow::new(window_lines),
            last_line: u64::MAX,
            tlb: Tlb::new(),
            tally: VcpuTally::default(),
        }
    }

    /// Start over from the wall: the model was just switched on.
    pub fn restart(&mut self) {
        self.base_ns = wall_ns();
        self.check_at_ns = 0;
        self.tlb.flush();
    }

    /// The vCPU was halted: time passed without instructions.
    pub fn resume(&mut self) {
        self.base_ns = self.base_ns.max(wall_ns());
    }

    /// Whether this is the line touched last: no need to ask the cache again.
    pub fn is_last_line(&mut self, line: u64) -> bool {
        std::mem::replace(&mut self.last_line, line) == line
    }

    /// Read one line from the device; `quantum` instructions have run since `base_ns`. The vCPU goes on once it
    /// is issued, or, if it is awaited, once it is there. Returns the latency and whether the wall must be
    /// looked at.
    pub fn read_line(
        &mut self,
        device: &Device,
        quantum: u64,
        pace: &Pace,
        is_awaited: bool,
    ) -> (u64, bool) {
        let clock = self.clock_ns(quantum, pace);
        let at = self.window.issue_at_ns(clock);
        let done = device.access(at);
        self.window.issued(done);
        let goes_on = if is_awaited { done } else { at };
        self.base_ns += goes_on - clock;
        self.tally.stall_ns += goes_on - clock;
        (done - at, goes_on >= self.check_at_ns)
    }

    /// The vCPU's clock.
    pub fn clock_ns(&self, quantum: u64, pace: &Pace) -> u64 {
        self.base_ns + quantum * pace.instruction_ps / 1000
    }

    /// Close the quantum of `quantum` instructions and keep the clock near the wall: sleep when it
    /// is ahead, drop time when it is hopelessly behind.
    pub fn sync(&mut self, quantum: u64, pace: &Pace) {
        self.base_ns = self.clock_ns(quantum, pace);
        self.tally.instructions += quantum;
        let mut now = wall_ns();
        if self.base_ns > now + pace.slack_ns {
            sleep_until(self.base_ns);
            now = wall_ns();
        }
        if self.base_ns + pace.max_lag_ns < now {
            self.tally.dropped_ns += now - pace.max_lag_ns - self.base_ns;
            self.base_ns = now - pace.max_lag_ns;
        }
        self.check_at_ns = self.base_ns.max(now) + pace.slack_ns;
    }
}

/// Sleep until the monotonic clock shows `until_ns`; a signal only makes it shorter.
fn sleep_until(until_ns: u64) {
    let at = rustix::time::Timespec {
        tv_sec: (until_ns / 1_000_000_000) as i64,
        tv_nsec: (until_ns % 1_000_000_000) as i64,
    };
    let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &at);
}
