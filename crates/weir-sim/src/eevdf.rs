// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's fair scheduler, in what matters here: EEVDF's choice, wake-ups, ticks, `cpu.max`
//! (kernel/sched/fair.c, 6.18). Where tasks are put is in `balance`.
//!
//! - Each CPU has a queue. A task is *eligible* when it has had no more than its part (virtual time
//!   at most the weighted mean); of the eligible the one with the earliest deadline runs.
//! - Lag is kept over sleep, throttling and migration (`PLACE_LAG`). A task that leaves with a debt works it
//!   off while others run, and comes back without one at the latest when the mean has passed it or
//!   its CPU was idle (`DELAY_DEQUEUE`, `DELAY_ZERO`).
//! - `RUN_TO_PARITY`: a task that was picked is protected while it is eligible, up to the deadline it
//!   had then. The end of the protection is noticed when the CPU is charged: at a tick, or when a task
//!   wakes there.
//! - *Wake-up preemption*: a task that wakes takes the CPU at once if the choice would fall on it now. A task
//!   that uses little has lag and does so until the lag is used up; then it waits, and earns some.
//!   (`PREEMPT_SHORT` is about slices that differ; here all are of the base length.)

use crate::ext::Comes;
use crate::machine::{At, Machine, Scheduler};

/// EEVDF needs no state beside that of CPUs and tasks.
pub(crate) struct Eevdf;

/// Weight of nice 0, on the scale of `cpu.weight`.
const NORMAL: f64 = 100.0;

impl Machine {
    /// A task that has work becomes runnable.
    pub(crate) fn wake(&mut self, task: u32) {
        self.tasks[task as usize].wants_since = self.now;
        if self.is_realtime(task) {
            return self.realtime_wake(task);
        }
        if self.is_ext(task) {
            return self.ext_wake(task);
        }
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_wake(task);
        }
        self.work_off(task);
        let cpu = self.select_cpu(task);
        let group = self.tasks[task as usize].workload;
        if self.workloads[group as usize].quota.is_throttled(cpu) {
            self.tasks[task as usize].at = At::Throttled(cpu);
            return;
        }
        // A current task that finds its quota used up here loses the CPU at its next tick.
        self.charge(cpu);
        self.enqueue(cpu, task);
        if self.best(cpu) == Some(task) {
            self.cpus[cpu as usize].is_choice_due = true;
        }
        self.go_on(cpu);
    }

    /// A debt becomes smaller while others run on the CPU where the task went to sleep.
    fn work_off(&mut self, task: u32) {
        let t = &self.tasks[task as usize];
        if t.lag >= 0.0 {
            return;
        }
        let (cpu, slept_at) = (t.last_cpu, t.slept_at);
        self.charge(cpu);
        let (weight, mean) = self.load(cpu);
        let t = &mut self.tasks[task as usize];
        t.lag = if weight > 0.0 && self.cpus[cpu as usize].busy_since <= slept_at {
            // Beside the task the mean is nearer to it.
            ((mean - t.vruntime) * weight / (weight + t.weight)).min(0.0)
        } else {
            0.0
        };
    }

    /// A tick that was planned: is the quota, or the slice, used up?
    pub(crate) fn tick(&mut self, cpu: u32) {
        if self.ext_on(cpu).is_some() {
            return self.ext_tick(cpu);
        }
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_tick(cpu);
        }
        let Some(task) = self.ordinary_on(cpu) else {
            return self.realtime_tick(cpu);
        };
        let is_short = self.charge(cpu);
        if is_short && self.throttle(cpu, self.tasks[task as usize].workload) {
            return self.pick(cpu);
        }
        if self.cpus[cpu as usize].is_choice_due && self.choose(cpu) {
            return;
        }
        if self.idle_count > 0 && !self.cpus[cpu as usize].queue.is_empty() {
            self.push_to_idle(cpu);
        }
        self.plan(cpu);
    }

    /// Chooses the task that should run. True if it is another one than before.
    fn choose(&mut self, cpu: u32) -> bool {
        self.cpus[cpu as usize].is_choice_due = false;
        let (best, current) = (self.best(cpu), self.ordinary_on(cpu));
        let Some(task) = current.filter(|_| best.is_some() && best != current) else {
            return false;
        };
        self.take_off(cpu);
        self.queue_as_is(cpu, task);
        self.pick(cpu);
        true
    }

    /// A CPU without a task takes the next.
    pub(crate) fn pick(&mut self, cpu: u32) {
        if self.realtime_pick(cpu) {
            return;
        }
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_pick(cpu);
        }
        loop {
            if self.cpus[cpu as usize].queue.is_empty() && !self.pull(cpu) {
                return self.ext_pick(cpu);
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
            let t = &mut self.tasks[task as usize];
            t.protected = t.deadline;
            self.cpus[cpu as usize].is_choice_due = false;
            self.put_on(cpu, task);
            return self.plan(cpu);
        }
    }

    /// The current task leaves its CPU of its own will.
    pub(crate) fn leave(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        if self.is_realtime(task) {
            self.realtime_charge(cpu, self.now);
            self.take_off(cpu);
            return;
        }
        if self.is_ext(task) {
            return self.ext_leave(cpu);
        }
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            return self.scx_leave(cpu);
        }
        self.charge(cpu);
        self.keep_lag(cpu, task);
        self.tasks[task as usize].slept_at = self.now;
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
                    self.work_off(task);
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

    fn slice_of(&self, task: u32) -> f64 {
        self.shape.slice_ns as f64 * NORMAL / self.tasks[task as usize].weight
    }

    /// Charges the current task up to now. True when its group has no quota left here.
    pub(crate) fn charge(&mut self, cpu: u32) -> bool {
        self.charge_until(cpu, self.now)
    }

    fn charge_until(&mut self, cpu: u32, until: u64) -> bool {
        let Some(task) = self.cpus[cpu as usize].current else {
            return false;
        };
        if self.is_realtime(task) {
            self.realtime_charge(cpu, until);
            return false;
        }
        if self.is_ext(task) {
            self.ext_charge(cpu);
            return false;
        }
        let c = &mut self.cpus[cpu as usize];
        let delta = until.saturating_sub(c.charged_at);
        c.charged_at = until.max(c.charged_at);
        let t = &mut self.tasks[task as usize];
        t.exec_ns += delta;
        t.vruntime += delta as f64 * NORMAL / t.weight;
        // A task that is alone has no other task to give way to.
        c.is_choice_due |= t.vruntime >= t.protected && !c.queue.is_empty();
        if t.vruntime >= t.deadline {
            self.begin_slice(task, until);
        }
        let group = self.tasks[task as usize].workload;
        let is_short = self.workloads[group as usize]
            .quota
            .charge(cpu, delta, self.now);
        self.arm(group);
        is_short
    }

    /// A slice is over and the next begins (`update_deadline`). That is noticed at ticks. The ticks of a task
    /// that is alone are not in the calendar; they are counted here.
    fn begin_slice(&mut self, task: u32, now: u64) {
        let (tick, slice) = (self.shape.tick_ns, self.slice_of(task));
        let t = &mut self.tasks[task as usize];
        let per_ns = NORMAL / t.weight;
        let over_ns = ((t.vruntime - t.deadline) / per_ns) as u64;
        let noticed = now.saturating_sub(over_ns).div_ceil(tick) * tick;
        let every = self.shape.slice_ns.div_ceil(tick) * tick;
        let last = noticed + now.saturating_sub(noticed) / every * every;
        t.deadline = t.vruntime - now.saturating_sub(last) as f64 * per_ns + slice;
        if noticed > now || t.vruntime >= t.deadline {
            t.deadline = t.vruntime + slice;
        }
    }

    /// Sum of weights and weighted mean of virtual time on a CPU.
    fn load(&self, cpu: u32) -> (f64, f64) {
        let c = &self.cpus[cpu as usize];
        let current = self.ordinary_on(cpu);
        let all = c.queue.iter().chain(&current);
        let (mut weight, mut sum) = (0.0, 0.0);
        for t in all.map(|t| &self.tasks[*t as usize]) {
            weight += t.weight;
            sum += t.weight * t.vruntime;
        }
        (weight, if weight > 0.0 { sum / weight } else { c.base })
    }

    /// Of the eligible the one with the earliest deadline; the current one takes part, and is kept
    /// while it is protected (`pick_eevdf`).
    fn best(&self, cpu: u32) -> Option<u32> {
        let (_, mean) = self.load(cpu);
        let c = &self.cpus[cpu as usize];
        let current = self.ordinary_on(cpu);
        let is_kept = |task: &u32| {
            let t = &self.tasks[*task as usize];
            t.vruntime <= mean + 1.0 && t.vruntime < t.protected
        };
        if current.as_ref().is_some_and(is_kept) {
            return current;
        }
        let key = |task: &u32| (self.tasks[*task as usize].deadline, *task);
        let eligible = |task: &&u32| self.tasks[**task as usize].vruntime <= mean + 1.0;
        let all = c.queue.iter().chain(&current).filter(eligible);
        all.copied()
            .min_by(|a, b| key(a).0.total_cmp(&key(b).0).then(a.cmp(b)))
    }

    /// Puts a task into a CPU's queue, in the place its lag gives it.
    pub(crate) fn enqueue(&mut self, cpu: u32, task: u32) {
        let (weight, mean) = self.load(cpu);
        if weight <= 0.0 {
            self.cpus[cpu as usize].busy_since = self.now;
        }
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

    pub(crate) fn queue_as_is(&mut self, cpu: u32, task: u32) {
        self.tasks[task as usize].at = At::Queued(cpu);
        self.cpus[cpu as usize].queue.push(task);
        self.waiting_count += 1;
    }

    /// Takes a waiting task out of a queue.
    pub(crate) fn unqueue(&mut self, cpu: u32, task: u32) {
        if self.is_realtime(task) {
            return self.cpus[cpu as usize].realtime.retain(|t| *t != task);
        }
        self.keep_lag(cpu, task);
        self.cpus[cpu as usize].queue.retain(|t| *t != task);
        self.waiting_count -= 1;
    }

    /// Remembers how much a task is owed, or owes, at most two slices.
    fn keep_lag(&mut self, cpu: u32, task: u32) {
        let (_, mean) = self.load(cpu);
        self.cpus[cpu as usize].base = mean;
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
                _ if self.is_realtime(task) => continue,
                At::Running(c) if c == cpu => {
                    self.keep_lag(cpu, task);
                    self.take_off(cpu);
                }
                At::Queued(c) if c == cpu => self.unqueue(cpu, task),
                _ => continue,
            }
            let t = &mut self.tasks[task as usize];
            t.at = At::Throttled(cpu);
            t.slept_at = now;
        }
        true
    }

    /// An idle CPU takes up what is in its queue; a busy one plans its next tick.
    pub(crate) fn go_on(&mut self, cpu: u32) {
        if self.stepping != Some(cpu) && self.ext_gives_way(cpu) {
            self.ext_set_aside(cpu, Comes::Displaced);
        }
        if self.cpus[cpu as usize].current.is_none() {
            self.pick(cpu);
        } else if !self.cpus[cpu as usize].is_choice_due
            || self.stepping == Some(cpu)
            || !self.choose(cpu)
        {
            self.plan(cpu);
        }
    }

    /// The current task woke another between two of its steps: a task that is to take over does so now.
    pub(crate) fn give_way(&mut self, cpu: u32) {
        let is_ext = self.ext_on(cpu).is_some();
        let is_beaten = !self.cpus[cpu as usize].realtime.is_empty();
        if is_beaten && (is_ext || self.ordinary_on(cpu).is_some()) {
            self.set_aside(cpu);
            self.pick(cpu);
        } else if self.ext_gives_way(cpu) {
            self.ext_set_aside(cpu, Comes::Displaced);
            self.pick(cpu);
        } else if is_ext && self.full().is_some() {
            if self.cpus[cpu as usize].is_choice_due {
                self.full_replace(cpu);
            }
        } else if matches!(self.scheduler, Scheduler::Eevdf(_))
            && self.cpus[cpu as usize].is_choice_due
        {
            self.choose(cpu);
        }
    }

    /// Plans the tick at which something may change.
    fn plan(&mut self, cpu: u32) {
        if self.ext_on(cpu).is_some() {
            return self.ext_plan(cpu);
        }
        let c = &self.cpus[cpu as usize];
        let Some(task) = self.ordinary_on(cpu) else {
            return self.realtime_plan(cpu);
        };
        let t = &self.tasks[task as usize];
        let quota = &self.workloads[t.workload as usize].quota;
        let mut at = None;
        if quota.limit().is_some() {
            at = Some(c.charged_at + quota.remaining(cpu).max(0) as u64);
        }
        if !c.queue.is_empty() {
            let left = ((t.protected - t.vruntime).max(0.0) * t.weight / NORMAL) as u64;
            let slice_end = if self.idle_count > 0 {
                self.now
            } else {
                c.charged_at + left
            };
            at = Some(at.map_or(slice_end, |at| at.min(slice_end)));
        }
        self.plan_tick(cpu, at.map(|at| self.tick_at(at)));
    }
}
