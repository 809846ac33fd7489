// SPDX-License-Identifier: GPL-2.0-or-later
//! Virtual time: the device model is the clock of the guest.
//!
//! ```text
//!            instructions × ps + stalls                 window used up by all that run
//!  vCPUs ────────────────────────────► a clock each ───────────────┐
//!    ▲  (one thread, in turn)                                      ▼
//!    │   window: to the next multiple of its length      now := its end; timers run (big lock)
//!    └─────────────────────────────────────────────────────────────┤
//!  all idle: bottom half on the main loop, now := next timer ──────┤
//!                                                                  ▼
//!  ground truth (shared):  stood_ns, until_ns ◄── the harness grants time
//! ```
//!
//! Each vCPU runs until its own clock has come to the end of the window; then it is the next one's turn, in
//! the order of their numbers, beginning with another one each window. A vCPU that is not in turn never
//! executes a block: it leaves the block again that it has begun. Its interrupts it takes before, when
//! QEMU's thread comes round to it: so after time stood, or was moved on by the main loop, all come round
//! once before any executes. The guest's behaviour depends on nothing but what was put into it, whatever else
//! makes QEMU's thread go round. Windows end at multiples of their length, and timers run at their ends.
//!
//! Time stands at the moment that the harness has granted; then the ground truth says so, and input from
//! outside meets a guest that does not move.

pub mod grant;
pub mod host_clock;
pub mod vcpu_clock;

use crate::internals::{BottomHalf, Cpu, Internals};
use grant::Grant;
use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use std::time::Duration;
use vcpu_clock::VcpuClock;

/// No vCPU is in turn: the window is over.
const NO_TURN: usize = usize::MAX;
/// What the clock shows where QEMU itself arms a timer for its own time slices: such a timer never fires.
const NEVER_NS: i64 = 1 << 61;
/// How often the vCPU that waits for time to be granted checks whether QEMU wants to stop.
const STAND: Duration = Duration::from_millis(2);
/// How often idle vCPUs without an HLT are searched for.
const IDLE_POLL: Duration = Duration::from_millis(2);
/// How often a bottom half schedules another one, while the vCPU that executes HLT is not yet halted.
const HALTING_POLLS: u32 = 50;

thread_local! {
    /// Whether this is the thread of QEMU's main loop.
    static RUNS_MAIN_LOOP: Cell<bool> = const { Cell::new(false) };
    /// Whether timers run on this thread: they read the common clock.
    static RUNS_TIMERS: Cell<bool> = const { Cell::new(false) };
}

/// What happens when a vCPU has come to the end of a window or begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VcpuTurn {
    /// The vCPU runs on in its window.
    Runs,
    /// It is another's turn: it leaves the block.
    Leaves,
}

/// What is done once in a window.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// At its end, before the harness is notified: the counts of the vCPUs go to the ground truth.
    pub publish: fn(&Clock),
    /// On the thread of the vCPUs, before the next one begins.
    pub begin: fn(),
}

pub struct Clock {
    internals: Internals,
    grant: Grant,
    vcpus: Box<[VcpuClock]>,
    vcpu_count: AtomicUsize,
    window_ps: i64,
    instruction_ps: AtomicI64,
    /// The common clock: where the window began.
    now_ps: AtomicI64,
    window_end_ps: AtomicI64,
    /// The newest moment a vCPU has read from its TSC: none reads less than another has read before.
    newest_ns: AtomicI64,
    hooks: Hooks,
    turn: AtomicUsize,
    /// The harness was notified that time stands.
    has_stood: AtomicBool,
    /// All vCPUs have to request their turn before one is given to any.
    gathers: AtomicBool,
    /// The vCPU in turn executes its blocks.
    is_executing: AtomicBool,
    /// The main loop moves the clock on while all are idle.
    is_jumping: AtomicBool,
    halting_polls: AtomicU32,
    idle_half: AtomicPtr<BottomHalf>,
}

// SAFETY: pointers to QEMU's objects, which live as long as QEMU and are used on its threads.
unsafe impl Send for Clock {}
// SAFETY: as above; all else is atomic.
unsafe impl Sync for Clock {}

impl Clock {
    /// A clock that stands at `start_ns`, made on the thread of the main loop.
    pub fn new(
        internals: Internals,
        grant: Grant,
        hooks: Hooks,
        vcpu_count: usize,
        window_ns: u64,
        start_ns: u64,
    ) -> Self {
        RUNS_MAIN_LOOP.set(true);
        let start_ps = start_ns as i64 * 1000;
        Clock {
            internals,
            grant,
            vcpus: (0..vcpu_count).map(|_| VcpuClock::default()).collect(),
            vcpu_count: AtomicUsize::new(0),
            window_ps: window_ns as i64 * 1000,
            instruction_ps: AtomicI64::new(1000),
            now_ps: AtomicI64::new(start_ps),
            window_end_ps: AtomicI64::new(start_ps),
            newest_ns: AtomicI64::new(start_ns as i64),
            hooks,
            turn: AtomicUsize::new(NO_TURN),
            has_stood: AtomicBool::new(false),
            gathers: AtomicBool::new(true),
            is_executing: AtomicBool::new(false),
            is_jumping: AtomicBool::new(false),
            halting_polls: AtomicU32::new(0),
            idle_half: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    pub fn internals(&self) -> &Internals {
        &self.internals
    }

    /// A vCPU comes into being. `counter` yields where each vCPU's instructions are counted.
    pub fn add_vcpu(&self, index: usize, counter: impl Fn(usize) -> *mut u64) {
        let Some(vcpu) = self.vcpus.get(index) else {
            return;
        };
        let cpu = self.internals.cpu(index);
        vcpu.cpu.store(cpu, Relaxed);
        self.internals.translate_for_parallel_use(cpu);
        self.vcpu_count.fetch_max(index + 1, SeqCst);
        // A new vCPU may move the counters of all.
        for (index, other) in self.vcpus().iter().enumerate() {
            other.counter.store(counter(index), Relaxed);
        }
        vcpu.wake(self.now_ps.load(Relaxed));
    }

    /// The bottom half that moves time on while all vCPUs are idle.
    pub fn set_idle_half(&self, half: *mut BottomHalf) {
        self.idle_half.store(half, SeqCst);
    }

    /// From here on an instruction takes this long. What has been executed so far is settled at the old pace
    /// first, or the change would move the past.
    pub fn set_pace(&self, instruction_ps: u64) {
        self.vcpus()
            .iter()
            .for_each(|vcpu| vcpu.settle(self.pace_ps()));
        self.instruction_ps.store(instruction_ps as i64, Relaxed);
        self.vcpus().iter().for_each(|vcpu| vcpu.wake(i64::MIN));
    }

    /// The common clock, in microseconds: where the window began.
    pub fn common_us(&self) -> i64 {
        self.now_ps.load(Relaxed) / 1_000_000
    }

    pub fn vcpu_ns(&self, index: usize) -> u64 {
        (self.vcpus[index].now_ps(self.pace_ps()) / 1000) as u64
    }

    pub fn instructions(&self, index: usize) -> u64 {
        self.vcpus[index].instructions()
    }

    pub fn vcpu_count(&self) -> usize {
        self.vcpu_count.load(Relaxed)
    }

    /// Where a vCPU was when it last requested its turn.
    pub fn pc(&self, index: usize) -> u64 {
        self.vcpus[index].pc.load(Relaxed)
    }

    pub fn cpu(&self, index: usize) -> *mut Cpu {
        self.vcpus[index].cpu.load(Relaxed)
    }

    /// The vCPU in turn waits for so long.
    pub fn stall(&self, index: usize, ns: u64) {
        let vcpu = &self.vcpus[index];
        vcpu.settle(self.pace_ps());
        vcpu.stall(ns);
        self.budget(vcpu);
    }

    fn vcpus(&self) -> &[VcpuClock] {
        &self.vcpus[..self.vcpu_count.load(Relaxed)]
    }

    fn pace_ps(&self) -> i64 {
        self.instruction_ps.load(Relaxed)
    }

    fn budget(&self, vcpu: &VcpuClock) {
        vcpu.budget(self.window_end_ps.load(Relaxed), self.pace_ps());
    }

    /// A vCPU begins the block at `pc` with its counter at the limit.
    ///
    /// The vCPUs of one window run one after the other, so that what one of them sees of another does not
    /// depend on the host. One that is not in turn leaves its block again. One that has come to the end of
    /// the window, or has halted in its turn, passes the turn on.
    pub fn turn(&self, index: usize, pc: u64) -> VcpuTurn {
        self.vcpus[index].pc.store(pc, Relaxed);
        if self.is_jumping.load(SeqCst) {
            // The main loop has woken this vCPU, and goes on to others.
            self.internals.with_big_lock(|| ());
        }
        loop {
            match self.turn.load(Relaxed) {
                NO_TURN => {
                    if let VcpuTurn::Leaves = self.open_window(index) {
                        return VcpuTurn::Leaves;
                    }
                }
                turn if turn == index => {
                    let vcpu = &self.vcpus[index];
                    vcpu.settle(self.pace_ps());
                    if vcpu.is_before(self.window_end_ps.load(Relaxed)) {
                        self.budget(vcpu);
                        self.is_executing.store(true, Relaxed);
                        return VcpuTurn::Runs;
                    }
                    self.rest(vcpu);
                    vcpu.has_arrived.store(true, Relaxed);
                    self.pass_on(index);
                }
                turn if self.can_run(&self.vcpus[turn]) => return VcpuTurn::Leaves,
                turn => {
                    self.rest(&self.vcpus[turn]);
                    self.pass_on(turn);
                }
            }
        }
    }

    /// A vCPU that has used up its window, or halted in its turn: it requests a turn before it runs on.
    fn rest(&self, vcpu: &VcpuClock) {
        vcpu.settle(self.pace_ps());
        vcpu.wake(i64::MIN);
        self.is_executing.store(false, Relaxed);
    }

    fn can_run(&self, vcpu: &VcpuClock) -> bool {
        !vcpu.has_arrived.load(Relaxed) && !self.internals.is_idle(vcpu.cpu.load(Relaxed))
    }

    /// The turn goes to the next vCPU that has not used up its window.
    fn pass_on(&self, from: usize) {
        let count = self.vcpu_count.load(Relaxed);
        let next = (1..=count).map(|step| from.wrapping_add(step) % count);
        let next = { next }.find(|next| self.can_run(&self.vcpus[*next]));
        self.turn.store(next.unwrap_or(NO_TURN), Relaxed);
    }

    /// All have used up the window: time goes on to its end, and as far as is granted.
    ///
    /// The order makes two runs equal. Timers run before any vCPU executes, with the big lock held, and all
    /// vCPUs stand meanwhile. A vCPU that a timer woke once went on with what its window had left, beside the
    /// main loop: of eight traces of 1054 steps one in four differed, and none does since.
    fn open_window(&self, index: usize) -> VcpuTurn {
        let now_ps = self.window_end_ps.load(Relaxed);
        self.now_ps.store(now_ps, Relaxed);
        if now_ps >= self.granted_ps() {
            self.stand(now_ps);
            self.wait_while_time_stands(now_ps);
            return VcpuTurn::Leaves;
        }
        if self.gathers.load(Relaxed) && !self.have_all_met(index) {
            return VcpuTurn::Leaves;
        }
        if !self.has_stood.swap(false, Relaxed) {
            (self.hooks.publish)(self);
        }
        self.internals.with_big_lock(|| self.run_timers());
        (self.hooks.begin)();
        self.begin_window(now_ps, self.granted_ps());
        VcpuTurn::Runs
    }

    fn granted_ps(&self) -> i64 {
        self.grant.until_ns() as i64 * 1000
    }

    /// No vCPU takes an interrupt before more is granted: it might take one of two that are about to come.
    fn wait_while_time_stands(&self, now_ps: i64) {
        while now_ps >= self.granted_ps() && self.internals.is_running() {
            self.grant.wait_past(now_ps as u64 / 1000, STAND);
        }
        self.gather();
    }

    /// From here on no vCPU executes anything before all have met what came in: an interrupt is taken when
    /// QEMU's thread comes round to its vCPU, and where the thread is after time stood, or was moved on by
    /// the main loop, is chance. Without this, of four runs of the live scenario one differed.
    fn gather(&self) {
        for vcpu in self.vcpus() {
            vcpu.has_met.store(false, Relaxed);
        }
        self.gathers.store(true, Relaxed);
    }

    /// This vCPU has met it. Whether it was the last one.
    fn have_all_met(&self, index: usize) -> bool {
        self.vcpus[index].has_met.store(true, Relaxed);
        let has_met = |vcpu: &VcpuClock| {
            vcpu.has_met.load(Relaxed) || self.internals.is_idle(vcpu.cpu.load(Relaxed))
        };
        let have_all = self.vcpus().iter().all(has_met);
        self.gathers.store(!have_all, Relaxed);
        have_all
    }

    fn begin_window(&self, now_ps: i64, until_ps: i64) {
        let grid_ps = (now_ps / self.window_ps + 1) * self.window_ps;
        self.window_end_ps.store(grid_ps.min(until_ps), Relaxed);
        self.grant.now(now_ps as u64 / 1000);
        for vcpu in self.vcpus() {
            let is_idle = self.internals.is_idle(vcpu.cpu.load(Relaxed));
            vcpu.settle(self.pace_ps());
            vcpu.wake(if is_idle { now_ps } else { i64::MIN });
            vcpu.has_arrived.store(false, Relaxed);
        }
        // Each window another vCPU is the first: the first finds the device idle, and the last meets the
        // lines of all.
        let first = (now_ps / self.window_ps) as usize % self.vcpus().len().max(1);
        self.pass_on(first.wrapping_sub(1));
    }

    /// Notifies the harness that time stands.
    fn stand(&self, now_ps: i64) {
        if !self.has_stood.swap(true, Relaxed) {
            (self.hooks.publish)(self);
        }
        self.grant.stand_at(now_ps as u64 / 1000);
    }

    /// All timers that are due. Big lock held.
    fn run_timers(&self) {
        RUNS_TIMERS.set(true);
        loop {
            self.internals.run_timers();
            if self.internals.next_timer_ns() != Some(0) {
                break;
            }
        }
        RUNS_TIMERS.set(false);
    }

    /// A vCPU executes HLT. If it is the last one, the main loop has to move time on.
    pub fn halts(&self, index: usize) {
        let is_other_idle = |(other, vcpu): (usize, &VcpuClock)| {
            other == index || self.internals.is_idle(vcpu.cpu.load(Relaxed))
        };
        if self.vcpus().iter().enumerate().all(is_other_idle) {
            self.halting_polls.store(0, Relaxed);
            self.search_idleness();
        }
    }

    fn search_idleness(&self) {
        let half = self.idle_half.load(SeqCst);
        if !half.is_null() {
            self.internals.schedule(half);
        }
    }

    /// While all vCPUs are idle, time goes from timer to timer. On the main loop, big lock held.
    pub fn jump(&self) {
        if !self.internals.is_running() {
            return;
        }
        if !self.internals.are_all_idle() {
            // The one that executes HLT is about to halt.
            if self.halting_polls.fetch_add(1, Relaxed) < HALTING_POLLS {
                self.search_idleness();
            }
            return;
        }
        self.is_jumping.store(true, SeqCst);
        while self.internals.is_running() && self.internals.are_all_idle() && self.jump_once() {}
        self.is_jumping.store(false, SeqCst);
    }

    /// On to the next timer, or to what is granted; false where time stands. No vCPU has anything left of a
    /// window before timers run: one that a timer wakes requests its turn first, and waits there for the
    /// end of the jump.
    fn jump_once(&self) -> bool {
        let now_ps = self.now_ps.load(Relaxed);
        let until_ps = self.granted_ps();
        self.turn.store(NO_TURN, Relaxed);
        self.gather();
        if now_ps >= until_ps {
            self.rest_all_at(now_ps);
            self.stand(now_ps);
            return false;
        }
        RUNS_TIMERS.set(true);
        let next = self.internals.next_timer_ns();
        RUNS_TIMERS.set(false);
        // Without any timer time goes on all the same, to what is granted.
        let next_ps = next.map_or(until_ps, |left| now_ps + left.min(until_ps / 1000) * 1000);
        let now_ps = next_ps.min(until_ps);
        self.now_ps.store(now_ps, Relaxed);
        self.grant.now(now_ps as u64 / 1000);
        self.rest_all_at(now_ps);
        self.run_timers();
        true
    }

    /// The window of all vCPUs is over, and their clocks show no less than `now_ps`.
    fn rest_all_at(&self, now_ps: i64) {
        self.is_executing.store(false, Relaxed);
        self.window_end_ps.store(now_ps, Relaxed);
        for vcpu in self.vcpus() {
            vcpu.settle(self.pace_ps());
            vcpu.wake(now_ps);
        }
    }

    /// Polls for idleness for as long as QEMU lives: after each grant, and now and then.
    pub fn keep_polling(&self) -> ! {
        let mut seen = 0;
        loop {
            self.grant.wait_past(seen, IDLE_POLL);
            seen = self.grant.until_ns();
            if self.internals.are_all_idle() {
                self.search_idleness();
            }
        }
    }

    /// `QEMU_CLOCK_VIRTUAL`, nanoseconds.
    pub fn virtual_ns(&self) -> i64 {
        if RUNS_TIMERS.get() {
            return self.now_ps.load(Relaxed) / 1000;
        }
        match self.executing() {
            // The main loop must find no timer due, nor wait for one: timers are run here.
            _ if RUNS_MAIN_LOOP.get() && self.internals.is_running() => 0,
            Some(vcpu) if !RUNS_MAIN_LOOP.get() => {
                (vcpu.now_ps(self.pace_ps()) / 1000).max(self.newest_ns.load(Relaxed))
            }
            // The vCPUs' thread arms the timer that would end each time slice after 100 ms: at moments that
            // the host chooses.
            None if self.internals.is_running() => NEVER_NS,
            _ => self.now_ps.load(Relaxed) / 1000,
        }
    }

    /// The TSC, at 1 GHz.
    pub fn ticks(&self) -> i64 {
        let mine_ns = match self.executing() {
            Some(vcpu) if !RUNS_MAIN_LOOP.get() => vcpu.now_ps(self.pace_ps()) / 1000,
            _ => return self.now_ps.load(Relaxed) / 1000,
        };
        let newest_ns = mine_ns.max(self.newest_ns.load(Relaxed));
        self.newest_ns.store(newest_ns, Relaxed);
        newest_ns
    }

    fn executing(&self) -> Option<&VcpuClock> {
        self.is_executing
            .load(Relaxed)
            .then(|| self.vcpus.get(self.turn.load(Relaxed)))
            .flatten()
    }
}
