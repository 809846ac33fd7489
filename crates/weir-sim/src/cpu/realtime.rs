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

use super::{CpuScheduler, select};
use crate::engine::machine::{At, Machine};

/// `RR_TIMESLICE`.
const SLICE_NS: u64 = 100_000_000;

#[inline]
pub(crate) fn has(m: &Machine, task: u32) -> bool {
    m.tasks[task as usize].is_realtime
}

fn current_on(m: &Machine, cpu: u32) -> Option<u32> {
    let current = m.cpus[cpu as usize].current;
    current.filter(|task| has(m, *task))
}

pub(crate) struct Realtime;

impl CpuScheduler for Realtime {
    fn wake(&self, m: &mut Machine, task: u32) {
        let last = m.tasks[task as usize].last_cpu;
        let count = m.cpus.len() as u32;
        let from_last = (0..count).map(|c| (last + c) % count);
        let free = |c: &u32| current_on(m, *c).is_none() && m.cpus[*c as usize].realtime.is_empty();
        let cpu = from_last.clone().find(free).unwrap_or(last);
        m.tasks[task as usize].at = At::Queued(cpu);
        m.cpus[cpu as usize].realtime.push_back(task);
        let current = m.cpus[cpu as usize].current;
        if current.is_some_and(|task| !has(m, task)) {
            if m.stepping == Some(cpu) {
                return;
            }
            m.set_aside(cpu);
        }
        match m.cpus[cpu as usize].current {
            None => m.pick(cpu),
            Some(_) => self.plan(m, cpu),
        }
    }

    /// Begins with the real-time task that has waited longest, here or elsewhere.
    fn pick(&self, m: &mut Machine, cpu: u32) -> bool {
        let waits = |c: &usize| !m.cpus[*c].realtime.is_empty();
        let own = Some(cpu as usize).filter(|c| waits(c));
        let Some(from) = own.or_else(|| (0..m.cpus.len()).find(waits)) else {
            return false;
        };
        let Some(task) = m.cpus[from].realtime.pop_front() else {
            return false;
        };
        m.put_on(cpu, task);
        m.cpus[cpu as usize].slice_ends = m.now + SLICE_NS;
        self.plan(m, cpu);
        true
    }

    fn leave(&self, m: &mut Machine, cpu: u32) {
        let now = m.now;
        self.charge(m, cpu, now);
        m.take_off(cpu);
    }

    /// A tick in which a task waits for the CPU of a real-time task.
    fn tick(&self, m: &mut Machine, cpu: u32) {
        let now = m.now;
        self.charge(m, cpu, now);
        let is_over = m.now >= m.cpus[cpu as usize].slice_ends;
        if is_over
            && !m.cpus[cpu as usize].realtime.is_empty()
            && let Some(task) = m.take_off(cpu)
        {
            m.tasks[task as usize].at = At::Queued(cpu);
            m.cpus[cpu as usize].realtime.push_back(task);
            return m.pick(cpu);
        }
        if m.idle_count > 0 && m.ordinary.is_fair_class() {
            select::push_to_idle(m, cpu);
        }
        self.plan(m, cpu);
    }

    /// Plans the tick at which its slice ends, or a waiting task may go elsewhere.
    fn plan(&self, m: &mut Machine, cpu: u32) {
        let c = &m.cpus[cpu as usize];
        let slice = (!c.realtime.is_empty()).then_some(c.slice_ends);
        let rescue = (!c.queue.is_empty() && m.idle_count > 0).then_some(m.now);
        let at = slice.into_iter().chain(rescue).min();
        m.plan_tick(cpu, at.map(|at| m.tick_at(at)));
    }

    /// Its CPU time counts for it and its cgroup, not for a quota.
    fn charge(&self, m: &mut Machine, cpu: u32, until: u64) -> bool {
        let c = &mut m.cpus[cpu as usize];
        let Some(task) = c.current else { return false };
        let delta = until.saturating_sub(c.charged_at);
        c.charged_at = until.max(c.charged_at);
        m.tasks[task as usize].exec_ns += delta;
        false
    }

    /// It does not: what is due for ordinary tasks is chosen when the CPU has one.
    fn give_way(&self, m: &mut Machine, cpu: u32) {
        m.cpus[cpu as usize].is_choice_due = false;
    }
}
