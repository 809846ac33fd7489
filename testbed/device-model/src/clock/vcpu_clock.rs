// SPDX-License-Identifier: GPL-2.0-or-later
//! One vCPU's clock: instructions counted by translated code, times their length, and what it waited.

use crate::internals::Cpu;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed};

/// A vCPU's counter of instructions reaches this at the end of its window.
pub const LIMIT: u64 = 1 << 40;

/// One vCPU's clock. The thread of the vCPUs writes it, or the main loop while all are idle.
#[repr(align(64))]
#[derive(Default)]
pub struct VcpuClock {
    /// QEMU's own vCPU.
    pub cpu: AtomicPtr<Cpu>,
    /// Where translated code counts this vCPU's instructions.
    pub counter: AtomicPtr<u64>,
    /// Its clock when the counter showed `from`.
    base_ps: AtomicI64,
    from: AtomicU64,
    /// Instructions until then.
    instructions: AtomicU64,
    /// It has used up the window.
    pub has_arrived: AtomicBool,
    /// It has requested its turn since time stood or was moved on.
    pub has_met: AtomicBool,
    /// The block it last began with its counter at the limit.
    pub pc: AtomicU64,
}

impl VcpuClock {
    /// What it shows, where an instruction takes `instruction_ps`.
    pub fn now_ps(&self, instruction_ps: i64) -> i64 {
        let since = (self.count() - self.from.load(Relaxed)) as i64;
        self.base_ps.load(Relaxed) + since * instruction_ps
    }

    pub fn instructions(&self) -> u64 {
        self.instructions.load(Relaxed) + (self.count() - self.from.load(Relaxed))
    }

    /// What has run so far is in its base from here on.
    pub fn settle(&self, instruction_ps: i64) {
        let now = self.count();
        self.base_ps.store(self.now_ps(instruction_ps), Relaxed);
        self.instructions
            .fetch_add(now - self.from.load(Relaxed), Relaxed);
        self.from.store(now, Relaxed);
    }

    /// Settled, it waits for so long.
    pub fn stall(&self, ns: u64) {
        self.base_ps
            .store(self.base_ps.load(Relaxed) + ns as i64 * 1000, Relaxed);
    }

    /// Whether it is, settled, before this moment.
    pub fn is_before(&self, at_ps: i64) -> bool {
        self.base_ps.load(Relaxed) < at_ps
    }

    /// Settled, it may run until `end_ps`.
    pub fn budget(&self, end_ps: i64, instruction_ps: i64) {
        let left_ps = (end_ps - self.base_ps.load(Relaxed)).max(0);
        let instructions = (left_ps + instruction_ps - 1) / instruction_ps;
        self.set_count(LIMIT - (instructions as u64).min(LIMIT));
        self.from.store(self.count(), Relaxed);
    }

    /// Settled, it requests its turn before it runs on, no earlier than `at_ps`.
    pub fn wake(&self, at_ps: i64) {
        self.base_ps
            .store(self.base_ps.load(Relaxed).max(at_ps), Relaxed);
        self.set_count(LIMIT);
        self.from.store(LIMIT, Relaxed);
    }

    fn count(&self) -> u64 {
        match self.counter.load(Relaxed) {
            at if at.is_null() => 0,
            // SAFETY: a cell of QEMU's scoreboard, of this vCPU; null only before it is added.
            at => unsafe { at.read() },
        }
    }

    fn set_count(&self, value: u64) {
        let at = self.counter.load(Relaxed);
        if !at.is_null() {
            // SAFETY: as in `count`.
            unsafe { at.write(value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock, and the cell that its translated code counts in.
    fn clock() -> (VcpuClock, Box<u64>) {
        let mut cell = Box::new(0);
        let clock = VcpuClock::default();
        clock.counter.store(&raw mut *cell, Relaxed);
        (clock, cell)
    }

    fn execute(clock: &VcpuClock, instructions: u64) {
        clock.set_count(clock.count() + instructions);
    }

    #[test]
    fn it_may_run_to_the_end_of_a_window_and_no_further() {
        let (clock, _cell) = clock();
        clock.wake(1_000_000);
        clock.settle(40_000);
        clock.budget(1_200_000, 40_000);
        execute(&clock, 4);
        assert!(clock.count() < LIMIT);
        assert_eq!(clock.now_ps(40_000), 1_160_000);
        execute(&clock, 1);
        assert_eq!(clock.count(), LIMIT);
        clock.settle(40_000);
        assert!(!clock.is_before(1_200_000));
        assert_eq!(clock.instructions(), 5);
    }

    #[test]
    fn a_stall_is_time_without_instructions() {
        let (clock, _cell) = clock();
        clock.wake(0);
        clock.budget(1_000_000, 10_000);
        execute(&clock, 10);
        clock.settle(10_000);
        clock.stall(700);
        clock.budget(1_000_000, 10_000);
        assert_eq!(clock.now_ps(10_000), 800_000);
        execute(&clock, 20);
        assert_eq!((clock.count(), clock.instructions()), (LIMIT, 30));
        clock.settle(10_000);
        clock.stall(5_000);
        clock.budget(1_000_000, 10_000);
        assert_eq!(clock.count(), LIMIT, "nothing is left of the window");
    }

    #[test]
    fn one_that_is_woken_is_no_earlier_than_that_and_never_goes_back() {
        let (clock, _cell) = clock();
        clock.wake(500);
        assert_eq!((clock.now_ps(1), clock.count()), (500, LIMIT));
        clock.wake(200);
        assert_eq!(clock.now_ps(1), 500);
        assert_eq!(clock.instructions(), 0);
    }
}
