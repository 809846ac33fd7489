// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's fair scheduler, in what matters here: EEVDF's choice, ticks, `cpu.max`, balancing.
//!
//! - Each CPU has a queue. A task is *eligible* when it has had no more than its part (virtual time
//!   at most the weighted mean); of the eligible the one with the earliest deadline runs. Lag is kept
//!   over sleep, throttling and migration. A task that runs is not replaced before its slice is used
//!   up (`RUN_TO_PARITY`), and that is noticed at a tick.
//! - Work-conserving: a CPU that goes idle takes a waiting task from elsewhere; a CPU where tasks
//!   wait gives one to an idle CPU at its next tick.
//! - Where all CPUs are busy and some have one task more, the kernel moves one only after several
//!   failed attempts (`nr_balance_failed`), each an interval of 16 ms × CPUs (`busy_factor`,
//!   `sd_weight`) apart: modelled as a chance of one in three at each such interval.

use crate::machine::{At, Machine, Scheduler};
use crate::queue::Event;

/// EEVDF needs no state beside that of CPUs and tasks.
pub(crate) struct Eevdf;

/// Weight of nice 0, on the scale of `cpu.weight`.
const NORMAL: f64 = 100.0;
/// `busy_factor` × 1 ms of `sd_weight`.
const BALANCE_NS_PER_CPU: u64 = 16_000_000;
/// Failed attempts before a task moves between CPUs that differ by one.
const PATIENCE: usize = 3;

impl Machine {
    /// A task that has work becomes runnable.
    pub(crate) fn wake(&mut self, task: u32) {
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_wake(task);
        }
        let cpu = self.select_cpu(task);
        let group = self.tasks[task as usize].workload;
        if self.workloads[group as usize].quota.is_throttled(cpu) {
            self.tasks[task as usize].at = At::Throttled(cpu);
            return;
        }
        // A current task that finds its quota used up here loses the CPU at its next tick.
        self.charge(cpu);
        self.enqueue(cpu, task);
        self.go_on(cpu);
    }

    /// A tick that was planned: is the quota, or the slice, used up?
    pub(crate) fn tick(&mut self, cpu: u32) {
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_tick(cpu);
        }
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        let is_short = self.charge(cpu);
        if is_short && self.throttle(cpu, self.tasks[task as usize].workload) {
            return self.pick(cpu);
        }
        let slice = self.slice_of(task);
        let t = &mut self.tasks[task as usize];
        if t.vruntime >= t.deadline {
            t.deadline = t.vruntime + slice;
            if let Some(next) = self.best(cpu)
                && next != task
            {
                self.take_off(cpu);
                self.queue_as_is(cpu, task);
                return self.pick(cpu);
            }
        }
        if self.idle_count > 0 && !self.cpus[cpu as usize].queue.is_empty() {
            self.push_to_idle(cpu);
        }
        self.plan(cpu);
    }

    /// A CPU without a task takes the next.
    pub(crate) fn pick(&mut self, cpu: u32) {
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_pick(cpu);
        }
        loop {
            if self.cpus[cpu as usize].queue.is_empty() && !self.pull(cpu) {
                return;
            }
            let Some(task) = self.best(cpu) else { continue };
            let group = self.tasks[task as usize].workload;
            let now = self.now;
            if self.workloads[group as usize].quota.is_short(cpu, now) && self.throttle(cpu, group)
            {
                continue;
            }
            self.arm(group);
            self.cpus[cpu as usize].queue.retain(|t| *t != task);
            self.waiting_count -= 1;
            self.put_on(cpu, task);
            return self.plan(cpu);
        }
    }

    /// The current task leaves its CPU of its own will.
    pub(crate) fn leave(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_leave(cpu);
        }
        self.charge(cpu);
        self.keep_lag(cpu, task);
        self.take_off(cpu);
        let group = self.tasks[task as usize].workload;
        let is_last = !self.cpus[cpu as usize]
            .queue
            .iter()
            .any(|t| self.tasks[*t as usize].workload == group);
        if is_last {
            self.workloads[group as usize].quota.give_back(cpu);
        }
        self.arm(group);
    }

    /// CPUs on which a group may run again.
    pub(crate) fn release(&mut self, group: u32, cpus: &[u32]) {
        self.arm(group);
        for &cpu in cpus {
            for task in self.workloads[group as usize].tasks.clone() {
                if self.tasks[task as usize].at == At::Throttled(cpu) {
                    self.charge(cpu);
                    self.enqueue(cpu, task);
                }
            }
            self.go_on(cpu);
        }
    }

    /// A write of `cpu.max`. CPUs have charged the group up to their last tick only.
    pub(crate) fn write_cpu_max(&mut self, group: u32, limit: Option<crate::quota::CpuMax>) {
        let last_tick = self.now / self.shape.tick_ns * self.shape.tick_ns;
        for task in self.workloads[group as usize].tasks.clone() {
            if let At::Running(cpu) = self.tasks[task as usize].at
                && self.cpus[cpu as usize].charged_at < last_tick
            {
                self.charge_until(cpu, last_tick);
            }
        }
        let now = self.now;
        let released = self.workloads[group as usize].quota.write(limit, now);
        self.release(group, &released);
        if matches!(self.scheduler, Scheduler::Eevdf(_)) {
            for task in self.workloads[group as usize].tasks.clone() {
                if let At::Running(cpu) = self.tasks[task as usize].at {
                    self.plan(cpu);
                }
            }
        }
    }

    /// Begins the rounds of balancing.
    pub(crate) fn start_balancing(&mut self) {
        let every = BALANCE_NS_PER_CPU * self.cpus.len() as u64;
        self.queue.push(self.now + every, Event::Balance);
    }

    /// One round: CPUs with more tasks may give one to a CPU with fewer.
    pub(crate) fn balance(&mut self) {
        self.start_balancing();
        if matches!(self.scheduler, Scheduler::Eevdf(_)) && self.idle_count > 1 {
            self.leave_shared_cores();
        }
        if self.waiting_count == 0 || matches!(self.scheduler, Scheduler::Scx(_)) {
            return;
        }
        for from in 0..self.cpus.len() as u32 {
            let to = self.rng.below(self.cpus.len()) as u32;
            let is_patient = self.rng.below(PATIENCE) == 0;
            let load = |c: u32| {
                self.cpus[c as usize].queue.len()
                    + usize::from(self.cpus[c as usize].current.is_some())
            };
            let more = load(from).saturating_sub(load(to));
            if self.cpus[from as usize].queue.is_empty() || !(more > 1 || more == 1 && is_patient) {
                continue;
            }
            let at = self.rng.below(self.cpus[from as usize].queue.len());
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
            let Some(task) = self.cpus[last as usize].current else {
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

    fn slice_of(&self, task: u32) -> f64 {
        self.shape.slice_ns as f64 * NORMAL / self.tasks[task as usize].weight
    }

    /// Charges the current task up to now. True when its group has no quota left here.
    fn charge(&mut self, cpu: u32) -> bool {
        self.charge_until(cpu, self.now)
    }

    fn charge_until(&mut self, cpu: u32, until: u64) -> bool {
        let c = &mut self.cpus[cpu as usize];
        let Some(task) = c.current else { return false };
        let delta = until.saturating_sub(c.charged_at);
        c.charged_at = until.max(c.charged_at);
        let t = &mut self.tasks[task as usize];
        t.exec_ns += delta;
        t.vruntime += delta as f64 * NORMAL / t.weight;
        let group = t.workload;
        let is_short = self.workloads[group as usize]
            .quota
            .charge(cpu, delta, self.now);
        self.arm(group);
        is_short
    }

    /// Sum of weights and weighted mean of virtual time on a CPU.
    fn load(&self, cpu: u32) -> (f64, f64) {
        let c = &self.cpus[cpu as usize];
        let all = c.queue.iter().chain(&c.current);
        let (mut weight, mut sum) = (0.0, 0.0);
        for t in all.map(|t| &self.tasks[*t as usize]) {
            weight += t.weight;
            sum += t.weight * t.vruntime;
        }
        (weight, if weight > 0.0 { sum / weight } else { 0.0 })
    }

    /// Of the eligible the one with the earliest deadline; the current one takes part.
    fn best(&self, cpu: u32) -> Option<u32> {
        let (_, mean) = self.load(cpu);
        let c = &self.cpus[cpu as usize];
        let key = |task: &u32| (self.tasks[*task as usize].deadline, *task);
        let eligible = |task: &&u32| self.tasks[**task as usize].vruntime <= mean + 1.0;
        let all = c.queue.iter().chain(&c.current).filter(eligible);
        all.copied()
            .min_by(|a, b| key(a).0.total_cmp(&key(b).0).then(a.cmp(b)))
    }

    /// Puts a task into a CPU's queue, in the place its lag gives it.
    fn enqueue(&mut self, cpu: u32, task: u32) {
        let (weight, mean) = self.load(cpu);
        let slice = self.slice_of(task);
        let t = &mut self.tasks[task as usize];
        // Its own arrival moves the mean: the lag is scaled so that it is what it was afterwards.
        let lag = if weight > 0.0 {
            t.lag * (weight + t.weight) / weight
        } else {
            0.0
        };
        t.vruntime = mean - lag;
        t.deadline = t.vruntime + slice;
        self.queue_as_is(cpu, task);
    }

    fn queue_as_is(&mut self, cpu: u32, task: u32) {
        self.tasks[task as usize].at = At::Queued(cpu);
        self.cpus[cpu as usize].queue.push(task);
        self.waiting_count += 1;
    }

    /// Takes a waiting task out of a queue.
    pub(crate) fn unqueue(&mut self, cpu: u32, task: u32) {
        self.keep_lag(cpu, task);
        self.cpus[cpu as usize].queue.retain(|t| *t != task);
        self.waiting_count -= 1;
    }

    /// Remembers how much a task is owed, or owes, at most two slices.
    fn keep_lag(&mut self, cpu: u32, task: u32) {
        let (_, mean) = self.load(cpu);
        let most = (2.0 * self.shape.slice_ns as f64).max(self.shape.tick_ns as f64);
        let t = &mut self.tasks[task as usize];
        let most = most * NORMAL / t.weight;
        t.lag = (mean - t.vruntime).clamp(-most, most);
    }

    /// Stops a group on a CPU. False if quota came in at the last moment.
    fn throttle(&mut self, cpu: u32, group: u32) -> bool {
        let now = self.now;
        let is_throttled = self.workloads[group as usize].quota.throttle(cpu, now);
        self.arm(group);
        if !is_throttled {
            return false;
        }
        for task in self.workloads[group as usize].tasks.clone() {
            match self.tasks[task as usize].at {
                At::Running(c) if c == cpu => {
                    self.keep_lag(cpu, task);
                    self.take_off(cpu);
                }
                At::Queued(c) if c == cpu => self.unqueue(cpu, task),
                _ => continue,
            }
            self.tasks[task as usize].at = At::Throttled(cpu);
        }
        true
    }

    /// An idle CPU takes up what is in its queue; a busy one plans its next tick.
    fn go_on(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].current.is_none() {
            self.pick(cpu);
        } else {
            self.plan(cpu);
        }
    }

    /// Plans the tick at which something may change.
    fn plan(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let Some(task) = c.current else { return };
        let t = &self.tasks[task as usize];
        let quota = &self.workloads[t.workload as usize].quota;
        let mut at = None;
        if quota.limit().is_some() {
            at = Some(c.charged_at + quota.remaining(cpu).max(0) as u64);
        }
        if !c.queue.is_empty() {
            let left = ((t.deadline - t.vruntime).max(0.0) * t.weight / NORMAL) as u64;
            let slice_end = if self.idle_count > 0 {
                self.now
            } else {
                c.charged_at + left
            };
            at = Some(at.map_or(slice_end, |at| at.min(slice_end)));
        }
        self.plan_tick(cpu, at.map(|at| self.tick_at(at)));
    }

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

    /// A CPU that goes idle takes a task from the longest queue. False if nobody waits.
    fn pull(&mut self, cpu: u32) -> bool {
        if self.waiting_count == 0 {
            return false;
        }
        let count = self.cpus.len() as u32;
        let around = (1..count).map(|c| (cpu + c) % count);
        let busiest = around.max_by_key(|c| self.cpus[*c as usize].queue.len());
        let Some(from) = busiest.filter(|c| !self.cpus[*c as usize].queue.is_empty()) else {
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

    fn push_to_idle(&mut self, cpu: u32) {
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
