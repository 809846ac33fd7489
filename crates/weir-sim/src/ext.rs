// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler (`bpf/sched/main.bpf.c`), what both of its modes share: a run queue, and a parking queue
//! for each workload.
//!
//! ```text
//!  wakes, or its slice ends ─► run queue ─► a CPU
//!                          └─► its workload is to wait: parked (see `parking`)
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

use crate::full::Full;
use crate::machine::{At, Machine};
use crate::partial::Partial;
use crate::scx_budgets::SchedStats;
use std::collections::VecDeque;

/// What goes for one mode only.
pub(crate) enum Rule {
    Partial(Partial),
    Full(Full),
}

/// Why a task comes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// It woke.
    Awake,
    /// A task of a higher class took its CPU (`SCX_ENQ_REENQ`).
    Displaced,
    /// Its slice is over.
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

/// The scheduler's state.
pub(crate) struct Ext {
    pub stats: SchedStats,
    pub rule: Rule,
    queue: RunQueue,
    /// By position of the workload: its parked tasks, and since when.
    pub parked: Vec<VecDeque<(u32, u64)>>,
    /// Device of each monitoring group.
    pub devices: Vec<usize>,
    pub ticked_ns: u64,
    /// The workload that is checked first at the next tick.
    pub next: usize,
    /// By position of the workload: time its tasks were parked.
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

    /// To the run queue, at its place in virtual time where there is one, which is returned.
    pub(crate) fn queue_up(&mut self, task: u32) -> u64 {
        let key = match &mut self.rule {
            Rule::Partial(_) => 0,
            Rule::Full(full) => full.place(task),
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

impl Machine {
    /// Whether a task is scheduled by weir.
    pub(crate) fn is_ext(&self, task: u32) -> bool {
        let t = &self.tasks[task as usize];
        let is_ours = |e: &Ext| match e.rule {
            Rule::Partial(_) => e.stats.accounts[t.workload as usize].is_some(),
            Rule::Full(_) => true,
        };
        !t.is_realtime && self.ext.as_deref().is_some_and(is_ours)
    }

    /// The current task of a CPU, if it is scheduled by weir.
    pub(crate) fn ext_on(&self, cpu: u32) -> Option<u32> {
        let current = self.cpus[cpu as usize].current;
        current.filter(|task| self.is_ext(*task))
    }

    /// Time a workload was held back so far, by its quota or by the scheduler.
    pub(crate) fn throttled_ns(&self, workload: usize) -> u64 {
        let parked = self.ext.as_deref().map_or(0, |e| e.parked_ns[workload]);
        parked + self.workloads[workload].quota.stat(self.now).throttled_ns
    }

    pub(crate) fn ext_wake(&mut self, task: u32) {
        let t = &self.tasks[task as usize];
        let (workload, is_new) = (t.workload as usize, t.exec_ns == 0);
        if let Some(full) = self.full() {
            full.begin_to_want(task, workload, is_new);
        }
        self.ext_enqueue(task, Comes::Awake);
    }

    /// To the run queue, or to the parking queue of its workload.
    pub(crate) fn ext_enqueue(&mut self, task: u32, comes: Comes) {
        let (now, workload) = (self.now, self.tasks[task as usize].workload as usize);
        self.tasks[task as usize].at = At::Dispatchable;
        let Some(ext) = self.ext.as_deref_mut() else {
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
        if !is_left && !self.ext_wake_a_cpu(task, comes) && comes == Comes::Awake {
            self.preempt_for(self.tasks[task as usize].last_cpu, vtime);
        }
    }

    /// An idle CPU takes what is first in the run queue; false if none is idle. The kernel's own choice: an
    /// idle core, its last before others; then an idle thread (`scx_select_cpu_dfl`).
    pub(crate) fn ext_wake_a_cpu(&mut self, task: u32, comes: Comes) -> bool {
        if self.idle_count == 0 {
            return false;
        }
        let last = self.tasks[task as usize].last_cpu;
        let (count, step) = (self.cpus.len() as u32, self.shape.threads_per_core);
        let is_idle = |c: &u32| {
            let c = &self.cpus[*c as usize];
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
        let free = idle.filter(|c| self.stepping != Some(*c));
        if let Some(cpu) = free {
            self.pick(cpu);
        }
        idle.is_some()
    }

    /// A CPU that has nothing else takes the first task of the run queue.
    pub(crate) fn ext_pick(&mut self, cpu: u32) {
        let next = self.ext.as_deref_mut().and_then(Ext::take_next);
        if let Some(task) = next {
            self.ext_run(cpu, task);
        }
    }

    pub(crate) fn ext_run(&mut self, cpu: u32, task: u32) {
        let (now, workload) = (self.now, self.tasks[task as usize].workload as usize);
        let Some(ext) = self.ext.as_deref_mut() else {
            return;
        };
        match &mut ext.rule {
            Rule::Partial(partial) => partial.is_served(cpu),
            Rule::Full(full) => full.begin(cpu, task, workload, now),
        }
        self.tasks[task as usize].slice_ns = ext.stats.settings.slice_ns;
        self.cpus[cpu as usize].is_choice_due = false;
        self.put_on(cpu, task);
        self.ext_plan(cpu);
    }

    /// Plans the tick at which the slice is over.
    pub(crate) fn ext_plan(&mut self, cpu: u32) {
        let Some(task) = self.ext_on(cpu) else { return };
        let end = self.now + self.tasks[task as usize].slice_ns;
        self.plan_tick(cpu, Some(self.tick_at(end)));
    }

    pub(crate) fn ext_charge(&mut self, cpu: u32) {
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        let Some(task) = c.current else { return };
        let delta = now - c.charged_at;
        c.charged_at = now;
        let t = &mut self.tasks[task as usize];
        t.exec_ns += delta;
        t.slice_ns = t.slice_ns.saturating_sub(delta);
        let workload = t.workload as usize;
        if let Some(ext) = self.ext.as_deref_mut()
            && let Some(account) = &mut ext.stats.accounts[workload]
        {
            account.run_ns += delta;
        }
    }

    pub(crate) fn ext_tick(&mut self, cpu: u32) {
        self.ext_charge(cpu);
        let is_over = self
            .ext_on(cpu)
            .is_some_and(|t| self.tasks[t as usize].slice_ns == 0);
        if is_over || self.ext_gives_way(cpu) {
            return self.ext_replace(cpu);
        }
        self.ext_plan(cpu);
    }

    /// The running task gives way to the next.
    pub(crate) fn ext_replace(&mut self, cpu: u32) {
        if self.full().is_some() {
            return self.full_replace(cpu);
        }
        self.ext_set_aside(cpu, Comes::SliceOver);
        // Where no other task waits it has taken itself already.
        if self.cpus[cpu as usize].current.is_none() {
            self.pick(cpu);
        }
    }

    /// The current task goes back to a queue; the CPU is free then.
    pub(crate) fn ext_set_aside(&mut self, cpu: u32, comes: Comes) {
        let Some(task) = self.ext_on(cpu) else { return };
        self.ext_stop(cpu);
        self.ext_enqueue(task, comes);
    }

    /// The current task stops; whether it stays runnable is the caller's choice.
    pub(crate) fn ext_stop(&mut self, cpu: u32) {
        self.ext_charge(cpu);
        let (now, task) = (self.now, self.take_off(cpu));
        if let Some(task) = task {
            let workload = self.tasks[task as usize].workload as usize;
            if let Some(full) = self.full() {
                full.end(cpu, task, workload, now);
            }
        }
    }

    /// The current task leaves of its own will.
    pub(crate) fn ext_leave(&mut self, cpu: u32) {
        let task = self.cpus[cpu as usize].current;
        self.ext_stop(cpu);
        if let Some(task) = task {
            self.ext_rests(task);
        }
    }

    fn ext_rests(&mut self, task: u32) {
        let workload = self.tasks[task as usize].workload as usize;
        if let Some(full) = self.full() {
            full.end_to_want(task, workload);
        }
    }

    /// A task that ends, or changes its class, leaves its queue.
    pub(crate) fn ext_forget(&mut self, task: u32) {
        self.ext_rests(task);
        if let Some(ext) = self.ext.as_deref_mut() {
            ext.queue.0.retain(|(_, t)| *t != task);
            let all = ext.parked.iter_mut();
            all.for_each(|p| p.retain(|(t, _)| *t != task));
        }
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
