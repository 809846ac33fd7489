// SPDX-License-Identifier: GPL-2.0-or-later
//! What one vCPU has of its own beside its clock: outstanding lines, address translations, tallies.

use crate::tlb::Tlb;
use weir_hw::{CoreWindow, QueueModel};
use weir_ipc::ground_truth::VcpuCounts;

pub struct Vcpu {
    window: CoreWindow,
    last_line: u64,
    pub tlb: Box<Tlb>,
    /// What it did, for the ground truth.
    pub tally: VcpuCounts,
}

/// What a read of one line costs.
pub struct Read {
    /// From issue to the line's arrival.
    pub latency_ns: u64,
    /// How long the vCPU waits.
    pub stall_ns: u64,
}

impl Vcpu {
    pub fn new(window_lines: usize) -> Self {
        Vcpu {
            window: CoreWindow::new(window_lines),
            last_line: u64::MAX,
            tlb: Tlb::new(),
            tally: VcpuCounts::default(),
        }
    }

    /// Whether this is the line touched last: no need to query the cache again.
    pub fn is_last_line(&mut self, line: u64) -> bool {
        std::mem::replace(&mut self.last_line, line) == line
    }

    /// Read one line from the device at `clock_ns`. The vCPU goes on once it is issued, or, if it is
    /// awaited, once it is there.
    pub fn read_line(&mut self, device: &QueueModel, clock_ns: u64, is_awaited: bool) -> Read {
        let at = self.window.issue_at_ns(clock_ns);
        let done = device.access(at);
        self.window.issued(done);
        let goes_on = if is_awaited { done } else { at };
        let stall_ns = goes_on - clock_ns;
        self.tally.stall_ns += stall_ns;
        Read {
            latency_ns: done - at,
            stall_ns,
        }
    }
}
