// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real-time tasks (`SCHED_RR`, one priority): above the fair class and above sched_ext.
//!
//! - One that wakes runs where it ran last, at once, unless a real-time task is there: then on
//!   another CPU without one (`select_task_rq_rt`, `find_lowest_rq`). The task that it interrupts waits in
//!   that CPU's queue, in its place.
//! - `cpu.max` neither counts nor stops it, and weir never limits it.
//! - Where all CPUs have one they run in slices of 100 ms, and a CPU without one takes a waiting task.
//!
//! Not here: priorities among them, and the kernel's reserve for others (`rt_runtime`, the fair
//! server): a scenario with more endless real-time tasks than CPUs would starve all others.

use crate::ext::Comes;
use crate::machine::{At, Machine, Scheduler};

/// `RR_TIMESLICE`.
const SLICE_NS: u64 = 100_000_000;

impl Machine {
    pub(crate) fn is_realtime(&self, task: u32) -> bool {
        self.tasks[task as usize].is_realtime
    }

    /// The current task of a CPU, if it is neither a real-time task nor one of weir's scheduler.
    pub(crate) fn ordinary_on(&self, cpu: u32) -> Option<u32> {
        let current = self.cpus[cpu as usize].current;
        current.filter(|task| !self.is_realtime(*task) && !self.is_ext(*task))
    }

    fn realtime_on(&self, cpu: u32) -> Option<u32> {
        let current = self.cpus[cpu as usize].current;
        current.filter(|task| self.is_realtime(*task))
    }

    pub(crate) fn realtime_wake(&mut self, task: u32) {
        let last = self.tasks[task as usize].last_cpu;
        let count = self.cpus.len() as u32;
        let from_last = (0..count).map(|c| (last + c) % count);
        let free =
            |c: &u32| self.realtime_on(*c).is_none() && self.cpus[*c as usize].realtime.is_empty();
        let cpu = from_last.clone().find(free).unwrap_or(last);
        self.tasks[task as usize].at = At::Queued(cpu);
        self.cpus[cpu as usize].realtime.push_back(task);
        if self.ordinary_on(cpu).is_some() || self.ext_on(cpu).is_some() {
            if self.stepping == Some(cpu) {
                return;
            }
            self.set_aside(cpu);
        }
        match self.cpus[cpu as usize].current {
            None => self.pick(cpu),
            Some(_) => self.realtime_plan(cpu),
        }
    }

    /// The current task is interrupted: it stays first in line.
    pub(crate) fn set_aside(&mut self, cpu: u32) {
        if self.ext_on(cpu).is_some() {
            return self.ext_set_aside(cpu, Comes::Displaced);
        }
        if matches!(self.scheduler, Scheduler::Scx(_)) {
            self.scx_charge(cpu);
        } else {
            self.charge(cpu);
        }
        if let Some(task) = self.take_off(cpu) {
            self.queue_as_is(cpu, task);
            // sched_ext: the head of the CPU's own queue, with what is left of its slice.
            self.cpus[cpu as usize].queue.rotate_right(1);
        }
    }

    /// Begins with the real-time task that has waited longest, here or elsewhere. False if none waits.
    pub(crate) fn realtime_pick(&mut self, cpu: u32) -> bool {
        let waits = |c: &usize| !self.cpus[*c].realtime.is_empty();
        let own = Some(cpu as usize).filter(|c| waits(c));
        let Some(from) = own.or_else(|| (0..self.cpus.len()).find(waits)) else {
            return false;
        };
        let Some(task) = self.cpus[from].realtime.pop_front() else {
            return false;
        };
        self.put_on(cpu, task);
        self.cpus[cpu as usize].slice_ends = self.now + SLICE_NS;
        self.realtime_plan(cpu);
        true
    }

    /// Its CPU time counts for it and its cgroup, not for a quota.
    pub(crate) fn realtime_charge(&mut self, cpu: u32, until: u64) {
        let c = &mut self.cpus[cpu as usize];
        let Some(task) = c.current else { return };
        let delta = until.saturating_sub(c.charged_at);
        c.charged_at = until.max(c.charged_at);
        self.tasks[task as usize].exec_ns += delta;
    }

    /// A tick in which a task waits for the CPU of a real-time task.
    pub(crate) fn realtime_tick(&mut self, cpu: u32) {
        self.realtime_charge(cpu, self.now);
        let is_over = self.now >= self.cpus[cpu as usize].slice_ends;
        if is_over
            && !self.cpus[cpu as usize].realtime.is_empty()
            && let Some(task) = self.take_off(cpu)
        {
            self.tasks[task as usize].at = At::Queued(cpu);
            self.cpus[cpu as usize].realtime.push_back(task);
            return self.pick(cpu);
        }
        if self.idle_count > 0 && matches!(self.scheduler, Scheduler::Eevdf(_)) {
            self.push_to_idle(cpu);
        }
        self.realtime_plan(cpu);
    }

    /// Plans the tick at which its slice ends, or a waiting task may go elsewhere.
    pub(crate) fn realtime_plan(&mut self, cpu: u32) {
        let c = &self.cpus[cpu as usize];
        let slice = (!c.realtime.is_empty()).then_some(c.slice_ends);
        let rescue = (!c.queue.is_empty() && self.idle_count > 0).then_some(self.now);
        let at = slice.into_iter().chain(rescue).min();
        self.plan_tick(cpu, at.map(|at| self.tick_at(at)));
    }
}
