// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On which CPU a task of the fair class runs.
//!
//! - A task that wakes prefers its last CPU, then an idle core, then an idle thread.
//! - Work-conserving: a CPU that goes idle takes a waiting task from elsewhere; a CPU where tasks
//!   wait gives one to an idle CPU at its next tick.
//! - Where all CPUs are busy, each core compares itself with the others every 16 ms × CPUs
//!   (`busy_factor`, `sd_weight`), one core after the other, and its two threads with each other every
//!   32 ms. The load that is moved is bounded by what the *smaller* side lacks to the mean
//!   (`calculate_imbalance`): half of the difference between two threads of a core, but a fraction of a
//!   task between one core and all others. A task larger than that is moved only after failed attempts
//!   (`nr_balance_failed` shifts its load to the right): a chance of one in two, and of one in three.
//!   Loads are the runnable tasks of the moment, not the kernel's decaying means.

use crate::machine::{Machine, Scheduler};
use crate::queue::Event;

/// `busy_factor` × 1 ms of `sd_weight`.
const BALANCE_NS_PER_CPU: u64 = 16_000_000;
/// Attempts for one task between cores, and between the threads of a core that differ by one.
const PATIENCE: usize = 3;
const PATIENCE_OF_THREADS: usize = 2;

impl Machine {
    /// Where a task that wakes should run: where it was, an idle core, an idle thread.
    pub(crate) fn select_cpu(&mut self, task: u32) -> u32 {
        let last = self.tasks[task as usize].last_cpu;
        let is_idle = |c: u32| {
            self.cpus[c as usize].current.is_none() && self.cpus[c as usize].queue.is_empty()
        };
        let is_new = self.tasks[task as usize].exec_ns == 0;
        if is_idle(last) && !is_new {
            return last;
        }
        let count = self.cpus.len() as u32;
        if self.idle_count > 0 {
            let step = self.shape.threads_per_core;
            let from_last = |c: u32| (last / step * step + c) % count;
            let mut cores = (0..count).step_by(step as usize).map(from_last);
            if let Some(core) = cores.find(|c| (*c..c + step).all(is_idle)) {
                return core;
            }
            if let Some(cpu) = (0..count).map(from_last).find(|c| is_idle(*c)) {
                return cpu;
            }
        }
        if !is_new {
            return last;
        }
        // A new task goes to the shortest queue.
        let from = self.rng.below(self.cpus.len()) as u32;
        let around = (0..count).map(|c| (from + c) % count);
        around
            .min_by_key(|c| self.cpus[*c as usize].queue.len())
            .unwrap_or(last)
    }

    /// Begins the rounds of balancing: in each one core compares itself with all others.
    pub(crate) fn start_balancing(&mut self) {
        let every = BALANCE_NS_PER_CPU * u64::from(self.shape.threads_per_core);
        self.queue.push(self.now + every, Event::Balance);
    }

    /// One round.
    pub(crate) fn balance(&mut self) {
        self.start_balancing();
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return;
        }
        let step = self.shape.threads_per_core;
        let cores = self.cpus.len() as u32 / step;
        let round = self.now / (BALANCE_NS_PER_CPU * u64::from(step));
        let mine = (round % u64::from(cores)) as u32 * step;
        if self.idle_count > 1 && mine == 0 {
            self.leave_shared_cores();
        }
        if self.waiting_count == 0 {
            return;
        }
        for core in (0..cores).filter(|_| step == 2).map(|c| c * 2) {
            self.balance_threads(core);
        }
        self.balance_cores(mine);
    }

    /// Runnable tasks of a CPU.
    fn runnable(&self, cpu: u32) -> usize {
        let c = &self.cpus[cpu as usize];
        c.queue.len() + usize::from(c.current.is_some())
    }

    fn balance_threads(&mut self, core: u32) {
        let (a, b) = (self.runnable(core), self.runnable(core + 1));
        let (from, to) = if a > b {
            (core, core + 1)
        } else {
            (core + 1, core)
        };
        let more = a.abs_diff(b);
        let moves = match more {
            0 => 0,
            1 => usize::from(self.rng.below(PATIENCE_OF_THREADS) == 0),
            _ => more / 2,
        };
        for _ in 0..moves {
            self.hand_over(from, to);
        }
    }

    /// A core takes a task from the core that has most.
    fn balance_cores(&mut self, mine: u32) {
        let step = self.shape.threads_per_core;
        let load = |core: u32| -> usize { (core..core + step).map(|c| self.runnable(c)).sum() };
        let around = (step..self.cpus.len() as u32).step_by(step as usize);
        let others = around.map(|c| (mine + c) % self.cpus.len() as u32);
        let Some(busiest) = others.max_by_key(|c| load(*c)) else {
            return;
        };
        if load(busiest) <= load(mine) || self.rng.below(PATIENCE) != 0 {
            return;
        }
        let by_load = |c: &u32| self.runnable(*c);
        let from = (busiest..busiest + step).max_by_key(by_load);
        let to = (mine..mine + step).min_by_key(by_load);
        if let (Some(from), Some(to)) = (from, to) {
            self.hand_over(from, to);
        }
    }

    /// One of the waiting tasks goes to another CPU.
    fn hand_over(&mut self, from: u32, to: u32) {
        let count = self.cpus[from as usize].queue.len();
        if count > 0 {
            let at = self.rng.below(count);
            let task = self.cpus[from as usize].queue[at];
            self.move_to(from, to, task);
        }
    }

    /// Where two tasks run on one core and another core is idle, one moves (the kernel's active
    /// balancing between cores).
    fn leave_shared_cores(&mut self) {
        let step = self.shape.threads_per_core;
        let count = self.cpus.len() as u32;
        for from in (0..count).step_by(step as usize) {
            let is_free = |c: &u32| self.cpus[*c as usize].current.is_none();
            let is_busy = |c: u32| self.cpus[c as usize].current.is_some();
            let mut cores = (0..count).step_by(step as usize);
            let Some(to) = cores.find(|c| (*c..c + step).all(|c| is_free(&c))) else {
                return;
            };
            let last = from + step - 1;
            let Some(task) = self.ordinary_on(last) else {
                continue;
            };
            let group = self.tasks[task as usize].workload;
            if step == 1 || !is_busy(from) || self.workloads[group as usize].quota.is_throttled(to)
            {
                continue;
            }
            self.leave(last);
            self.enqueue(to, task);
            self.go_on(to);
            self.pick(last);
        }
    }

    /// A CPU that goes idle takes a task from its sibling, or from the longest queue. False if no task waits.
    pub(crate) fn pull(&mut self, cpu: u32) -> bool {
        if self.waiting_count == 0 {
            return false;
        }
        let count = self.cpus.len() as u32;
        let from = self.rng.below(count as usize) as u32;
        let around = (0..count).map(|c| (from + c) % count).filter(|c| *c != cpu);
        let waits = |c: &u32| !self.cpus[*c as usize].queue.is_empty();
        // Which of several is as good as any: the kernel compares loads that are never quite equal.
        let busiest = around.max_by_key(|c| self.cpus[*c as usize].queue.len());
        // The other thread of the core comes first, as the kernel goes from domain to domain.
        let sibling = self.sibling(cpu).filter(waits);
        let Some(from) = sibling.or(busiest.filter(waits)) else {
            return false;
        };
        let may_run = |t: &u32| {
            !self.workloads[self.tasks[*t as usize].workload as usize]
                .quota
                .is_throttled(cpu)
        };
        let Some(task) = self.cpus[from as usize]
            .queue
            .iter()
            .copied()
            .find(|t| may_run(t))
        else {
            return false;
        };
        self.charge(from);
        self.unqueue(from, task);
        self.enqueue(cpu, task);
        true
    }

    pub(crate) fn push_to_idle(&mut self, cpu: u32) {
        let idle = self
            .cpus
            .iter()
            .position(|c| c.current.is_none() && c.queue.is_empty());
        if let Some(to) = idle
            && let Some(task) = self.cpus[cpu as usize].queue.first().copied()
        {
            self.move_to(cpu, to as u32, task);
        }
    }

    fn move_to(&mut self, from: u32, to: u32, task: u32) {
        let group = self.tasks[task as usize].workload;
        if self.workloads[group as usize].quota.is_throttled(to) {
            return;
        }
        self.charge(from);
        self.unqueue(from, task);
        self.charge(to);
        self.enqueue(to, task);
        self.go_on(to);
    }
}
