// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler (`bpf/sched/main.bpf.c`), what both of its modes share: a run queue, and a parking queue
//! for each workload.
//!
//! ```text
//!  wakes, or its slice ends ─► run queue ─► a CPU
//!                          └─► its workload is to wait: parked (see `tick`)
//! ```
//!
//! - Partial mode (`partial`): tasks of limited workloads only, below the fair class; first come, first
//!   served.
//! - Full mode (`full`): all ordinary tasks, in order of virtual time.
//! - Slices of 4 ms; the end of one is seen at the kernel's tick.
//!
//! Not here: the cost of the tick and of decisions, and a lost heartbeat of the daemon (it never hangs here).
//! The scheduler's own tick is never late, so no CPU has to find a used-up budget by itself
//! (`budget_exhausted`).
//!
//! In reading order: this file, [`budgets`] (what each workload and device has left), [`tick`], [`partial`],
//! [`full`], [`backend`] (weir's plans become budgets), [`cpu_shortage`].

pub(crate) mod backend;
pub(crate) mod budgets;
pub(crate) mod cpu_shortage;
pub(crate) mod full;
pub(crate) mod partial;
pub(crate) mod tick;

use crate::cpu::CpuScheduler;
use crate::engine::machine::{At, Machine};
use budgets::SchedStats;
use full::Full;
use partial::Partial;
use std::collections::VecDeque;

pub(crate) enum Rule {
    Partial(Partial),
    Full(Full),
}

/// Why a task comes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    Awake,
    /// A task of a higher class took its CPU (`SCX_ENQ_REENQ`).
    Displaced,
    SliceOver,
}

/// Tasks by a key, and of the same key in the order in which they came.
#[derive(Default)]
struct RunQueue(VecDeque<(u64, u32)>);

impl RunQueue {
    fn push(&mut self, key: u64, task: u32) {
        let at = self.0.partition_point(|(other, _)| *other <= key);
        self.0.insert(at, (key, task));
    }
}

pub(crate) struct Ext {
    pub stats: SchedStats,
    pub rule: Rule,
    queue: RunQueue,
    /// For each workload, at its position: its parked tasks, and since when each is parked.
    pub parked: Vec<VecDeque<(u32, u64)>>,
    /// Device of each monitoring group.
    pub devices: Vec<usize>,
    pub ticked_ns: u64,
    /// The workload that is checked first at the next tick.
    pub next: usize,
    /// For each workload, at its position: the time that its tasks were parked.
    pub parked_ns: Vec<u64>,
}

impl Ext {
    pub(crate) fn new(stats: SchedStats, rule: Rule, devices: Vec<usize>) -> Self {
        let workloads = stats.accounts.len();
        Ext {
            stats,
            rule,
            queue: RunQueue::default(),
            parked: vec![VecDeque::new(); workloads],
            devices,
            ticked_ns: 0,
            next: 0,
            parked_ns: vec![0; workloads],
        }
    }

    /// Puts a task into the run queue, at its place in virtual time where there is one, which is returned.
    pub(crate) fn queue_up(&mut self, task: u32) -> u64 {
        self.queue_at(task, Full::place)
    }

    /// The same for a task that was parked.
    fn queue_released(&mut self, task: u32) -> u64 {
        self.queue_at(task, Full::place_released)
    }

    fn queue_at(&mut self, task: u32, place: fn(&mut Full, u32) -> u64) -> u64 {
        let key = match &mut self.rule {
            Rule::Partial(_) => 0,
            Rule::Full(full) => place(full, task),
        };
        self.queue.push(key, task);
        key
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = u32> + '_ {
        self.queue.0.iter().map(|(_, task)| *task)
    }

    pub(crate) fn take_next(&mut self) -> Option<u32> {
        self.queue.0.pop_front().map(|(_, task)| task)
    }

    /// Virtual time of the first task in the queue.
    pub(crate) fn first(&self) -> Option<u64> {
        self.queue.0.front().map(|(key, _)| *key)
    }
}

pub(crate) struct WeirScheduler;

impl CpuScheduler for WeirScheduler {
    fn wake(&self, m: &mut Machine, task: u32) {
        let t = &m.tasks[task as usize];
        let (workload, is_new) = (t.workload as usize, t.exec_ns == 0);
        if let Some(full) = full::of(m) {
            full.begin_to_want(task, workload, is_new);
        }
        enqueue(m, task, Comes::Awake);
    }

    fn pick(&self, m: &mut Machine, cpu: u32) -> bool {
        let next = m.ext.as_deref_mut().and_then(Ext::take_next);
        if let Some(task) = next {
            run(m, cpu, task);
        }
        next.is_some()
    }

    fn leave(&self, m: &mut Machine, cpu: u32) {
        let task = m.cpus[cpu as usize].current;
        stop(m, cpu);
        if let Some(task) = task {
            end_to_want(m, task);
        }
    }

    fn tick(&self, m: &mut Machine, cpu: u32) {
        charge(m, cpu);
        let is_over = current_on(m, cpu).is_some_and(|t| m.tasks[t as usize].slice_ns == 0);
        if is_over || partial::gives_way(m, cpu) {
            return replace(m, cpu);
        }
        self.plan(m, cpu);
    }

    fn current_on(&self, m: &Machine, cpu: u32) -> Option<u32> {
        current_on(m, cpu)
    }

    /// Up to now, whatever the moment: it charges at each switch, not at ticks.
    fn charge(&self, m: &mut Machine, cpu: u32, _: u64) -> bool {
        charge(m, cpu);
        false
    }

    fn give_way(&self, m: &mut Machine, cpu: u32) {
        let is_due = m.cpus[cpu as usize].is_choice_due;
        if partial::gives_way(m, cpu) {
            set_aside(m, cpu, Comes::Displaced);
            m.pick(cpu);
        } else if full::of(m).is_none() {
            m.cpus[cpu as usize].is_choice_due = false;
        } else if is_due {
            full::replace(m, cpu);
        }
    }

    fn set_aside(&self, m: &mut Machine, cpu: u32) {
        set_aside(m, cpu, Comes::Displaced);
    }

    fn forget(&self, m: &mut Machine, task: u32) {
        forget(m, task);
    }
}

#[inline]
pub(crate) fn has(m: &Machine, task: u32) -> bool {
    let t = &m.tasks[task as usize];
    let is_ours = |e: &Ext| match e.rule {
        Rule::Partial(_) => e.stats.accounts[t.workload as usize].is_some(),
        Rule::Full(_) => true,
    };
    !t.is_realtime && m.ext.as_deref().is_some_and(is_ours)
}

/// The current task of a CPU, if it is scheduled by weir.
#[inline]
pub(crate) fn current_on(m: &Machine, cpu: u32) -> Option<u32> {
    let current = m.cpus[cpu as usize].current;
    current.filter(|task| has(m, *task))
}

/// Time a workload was held back so far, by its quota or by the scheduler.
pub(crate) fn throttled_ns(m: &Machine, workload: usize) -> u64 {
    let parked = m.ext.as_deref().map_or(0, |e| e.parked_ns[workload]);
    parked + m.workloads[workload].quota.stat(m.now).throttled_ns
}

/// Puts a task into the run queue, or into the parking queue of its workload.
pub(crate) fn enqueue(m: &mut Machine, task: u32, comes: Comes) {
    let (now, workload) = (m.now, m.tasks[task as usize].workload as usize);
    m.tasks[task as usize].at = At::Dispatchable;
    let Some(ext) = m.ext.as_deref_mut() else {
        return;
    };
    if ext.stats.waits(workload) {
        ext.parked[workload].push_back((task, now));
        return;
    }
    let is_full = matches!(ext.rule, Rule::Full(_));
    let vtime = ext.queue_up(task);
    // In full mode, after the end of a slice, the task's own CPU chooses next.
    let is_left = is_full && comes == Comes::SliceOver;
    if !is_left && !wake_a_cpu(m, task, comes) && comes == Comes::Awake {
        full::preempt_for(m, m.tasks[task as usize].last_cpu, vtime);
    }
}

/// An idle CPU takes what is first in the run queue; false if none is idle. The kernel's own choice: an
/// idle core, its last before others; then an idle thread (`scx_select_cpu_dfl`).
pub(crate) fn wake_a_cpu(m: &mut Machine, task: u32, comes: Comes) -> bool {
    if m.idle_count == 0 {
        return false;
    }
    let last = m.tasks[task as usize].last_cpu;
    let (count, step) = (m.cpus.len() as u32, m.shape.threads_per_core);
    let is_idle = |c: &u32| {
        let c = &m.cpus[*c as usize];
        c.current.is_none() && c.queue.is_empty() && c.realtime.is_empty()
    };
    let core = last / step * step;
    let is_core_idle = |c: &u32| (*c..c + step).all(|c| is_idle(&c));
    let from_last = |c: u32| (core + c) % count;
    let mut cores = (0..count).step_by(step as usize).map(from_last);
    let stays = comes == Comes::SliceOver || is_core_idle(&core);
    let own = Some(last).filter(|c| is_idle(c));
    let idle = own
        .filter(|_| stays)
        .or_else(|| cores.find(is_core_idle))
        .or(own)
        .or_else(|| (0..count).map(from_last).find(|c| is_idle(c)));
    // A CPU that is between two steps of its task picks by itself.
    let free = idle.filter(|c| m.stepping != Some(*c));
    if let Some(cpu) = free {
        m.pick(cpu);
    }
    idle.is_some()
}

pub(crate) fn run(m: &mut Machine, cpu: u32, task: u32) {
    let (now, workload) = (m.now, m.tasks[task as usize].workload as usize);
    let Some(ext) = m.ext.as_deref_mut() else {
        return;
    };
    match &mut ext.rule {
        Rule::Partial(partial) => partial.is_served(cpu),
        Rule::Full(full) => full.begin(cpu, task, workload, now),
    }
    m.tasks[task as usize].slice_ns = ext.stats.settings.slice_ns;
    m.cpus[cpu as usize].is_choice_due = false;
    m.put_on(cpu, task);
    WeirScheduler.plan(m, cpu);
}

pub(crate) fn charge(m: &mut Machine, cpu: u32) {
    let Some(task) = m.cpus[cpu as usize].current else {
        return;
    };
    let delta = m.charge_slice(cpu, task);
    let workload = m.tasks[task as usize].workload as usize;
    if let Some(ext) = m.ext.as_deref_mut()
        && let Some(account) = &mut ext.stats.accounts[workload]
    {
        account.run_ns += delta;
    }
}

/// The running task gives way to the next.
pub(crate) fn replace(m: &mut Machine, cpu: u32) {
    if full::of(m).is_some() {
        return full::replace(m, cpu);
    }
    set_aside(m, cpu, Comes::SliceOver);
    // Where no other task waits it has taken itself already.
    if m.cpus[cpu as usize].current.is_none() {
        m.pick(cpu);
    }
}

/// The current task goes back to a queue; the CPU is free then.
pub(crate) fn set_aside(m: &mut Machine, cpu: u32, comes: Comes) {
    let Some(task) = current_on(m, cpu) else {
        return;
    };
    stop(m, cpu);
    enqueue(m, task, comes);
}

/// The current task stops; whether it stays runnable is the caller's choice.
pub(crate) fn stop(m: &mut Machine, cpu: u32) {
    charge(m, cpu);
    let (now, task) = (m.now, m.take_off(cpu));
    if let Some(task) = task {
        let workload = m.tasks[task as usize].workload as usize;
        if let Some(full) = full::of(m) {
            full.end(cpu, task, workload, now);
        }
    }
}

fn end_to_want(m: &mut Machine, task: u32) {
    let workload = m.tasks[task as usize].workload as usize;
    if let Some(full) = full::of(m) {
        full.end_to_want(task, workload);
    }
}

/// A task that ends, or changes its class, leaves its queue.
pub(crate) fn forget(m: &mut Machine, task: u32) {
    end_to_want(m, task);
    if let Some(ext) = m.ext.as_deref_mut() {
        ext.queue.0.retain(|(_, t)| *t != task);
        let all = ext.parked.iter_mut();
        all.for_each(|p| p.retain(|(t, _)| *t != task));
    }
}

#[cfg(test)]
mod tests {
    use super::RunQueue;

    #[test]
    fn the_least_key_comes_first_and_of_equal_ones_the_oldest() {
        let mut queue = RunQueue::default();
        for (key, task) in [(5, 1), (3, 2), (5, 3), (0, 4), (3, 5)] {
            queue.push(key, task);
        }
        let order: Vec<u32> = queue.0.iter().map(|(_, task)| *task).collect();
        assert_eq!(order, [4, 2, 5, 1, 3]);
    }
}
