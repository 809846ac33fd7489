// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full mode of weir's scheduler (`bpf/sched/full.bpf.h`): all ordinary tasks are its own, in one queue in
//! order of virtual time, with the kernel's own arithmetic (`bpf/sched/weir_sched.h`).
//!
//! - The kernel calls for the next task before it queues the one with an expired slice: a task that is still
//!   first goes on.
//! - A task that wakes, or is released, and finds no idle CPU has the task that runs on its last CPU checked
//!   again, if that one has had half a millisecond more than it.
//! - A workload's tasks share its part of the CPUs, however many they are. As cgroups lie side by side here,
//!   its part is the sum of its threads' weights.
//!
//! Not here: memory nodes (one queue), kernel threads of one CPU, CPUs that leave, the starvation guard
//! (`bpf/sched/stall_guard.bpf.h`), and what a decision costs.

use super::{self as scx, Comes, Ext, Rule};
use crate::cpu::CpuScheduler;
use crate::engine::machine::Machine;
use weir_sched::{PREEMPT_LAG_NS, RELEASE_CREDIT_NS, WAKEUP_CREDIT_NS};

/// The task that runs on a CPU: since when, and its virtual time and its workload's sum then (`struct
/// cpu_ctx`).
#[derive(Clone, Copy, Debug)]
struct Run {
    since: u64,
    vtime: u64,
    sum: u64,
}

/// A task (`struct task_ctx`).
#[derive(Clone, Copy, Debug, Default)]
struct FullModeTask {
    weight: u64,
    vtime: u64,
    /// Its weight, while it runs or waits for a CPU.
    counted: u64,
}

/// A workload's part of the CPUs, and the weights of its tasks that run or wait for one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub part: u64,
    pub sum: u64,
}

pub(crate) struct Full {
    /// The furthest that any task has begun to run at.
    vtime_now: u64,
    /// One entry for each task of the machine.
    members: Vec<FullModeTask>,
    /// One entry for each workload, at its position.
    shares: Vec<Share>,
    /// For each CPU, the run that goes on there.
    runs: Vec<Option<Run>>,
}

impl Full {
    /// For tasks of these weights, each in its workload; a workload's part of the CPUs is the sum of theirs.
    pub(crate) fn new(tasks: &[(usize, u64)], workloads: usize, cpu_count: usize) -> Self {
        let mut shares = vec![Share::default(); workloads];
        for (workload, weight) in tasks {
            shares[*workload].part += weight;
        }
        let member = |(_, weight): &(usize, u64)| FullModeTask {
            weight: *weight,
            ..FullModeTask::default()
        };
        Full {
            vtime_now: 0,
            members: tasks.iter().map(member).collect(),
            shares,
            runs: vec![None; cpu_count],
        }
    }

    /// A task wakes: it counts among those that share its workload's part.
    pub(crate) fn begin_to_want(&mut self, task: u32, workload: usize, is_new: bool) {
        let member = &mut self.members[task as usize];
        if is_new {
            member.vtime = self.vtime_now;
        }
        self.shares[workload].sum += member.weight - member.counted;
        member.counted = member.weight;
    }

    pub(crate) fn end_to_want(&mut self, task: u32, workload: usize) {
        let member = &mut self.members[task as usize];
        self.shares[workload].sum -= std::mem::take(&mut member.counted);
    }

    pub(crate) fn place(&mut self, task: u32) -> u64 {
        let member = &mut self.members[task as usize];
        member.vtime = weir_sched::vtime_resume(member.vtime, self.vtime_now, WAKEUP_CREDIT_NS);
        member.vtime
    }

    /// Its place when its workload's budget lets it go on: behind tasks that woke meanwhile
    /// (`release_task`).
    pub(crate) fn place_released(&mut self, task: u32) -> u64 {
        let member = &mut self.members[task as usize];
        member.vtime = weir_sched::vtime_resume(member.vtime, self.vtime_now, RELEASE_CREDIT_NS);
        member.vtime
    }

    pub(crate) fn begin(&mut self, cpu: u32, task: u32, workload: usize, now: u64) {
        let vtime = self.place(task);
        self.run_from(cpu, workload, now, vtime);
    }

    fn run_from(&mut self, cpu: u32, workload: usize, since: u64, vtime: u64) {
        self.vtime_now = self.vtime_now.max(vtime);
        let sum = self.shares[workload].sum;
        self.runs[cpu as usize] = Some(Run { since, vtime, sum });
    }

    pub(crate) fn end(&mut self, cpu: u32, task: u32, workload: usize, now: u64) {
        let grown = self.grown(cpu, task, workload, now);
        self.members[task as usize].vtime += grown;
        self.runs[cpu as usize] = None;
    }

    /// It keeps its CPU: its run so far is accounted.
    fn stay(&mut self, cpu: u32, task: u32, workload: usize, now: u64) {
        let vtime = self.members[task as usize].vtime + self.grown(cpu, task, workload, now);
        self.members[task as usize].vtime = vtime;
        self.run_from(cpu, workload, now, vtime);
    }

    /// What its virtual time has grown by in the run that goes on. The workload's part is shared with
    /// the tasks that were runnable all the time.
    fn grown(&self, cpu: u32, task: u32, workload: usize, now: u64) -> u64 {
        let run = self.runs[cpu as usize];
        let run_ns = run.map_or(0, |r| now.saturating_sub(r.since));
        let share = self.shares[workload];
        weir_sched::vtime(
            run_ns,
            self.members[task as usize].weight,
            share.part,
            run.map_or(share.sum, |r| r.sum.min(share.sum)),
        )
    }

    /// Whether the running task is before the first one of the queue.
    fn is_first(&self, cpu: u32, task: u32, workload: usize, now: u64, head: Option<u64>) -> bool {
        let own = self.members[task as usize].vtime + self.grown(cpu, task, workload, now);
        head.is_none_or(|head| head > own)
    }

    /// Whether the task that runs on a CPU has had so much more than the one that is to come.
    fn is_ahead(&self, cpu: u32, vtime: u64, now: u64) -> bool {
        let has_had = |run: Run| run.vtime + now.saturating_sub(run.since) > vtime + PREEMPT_LAG_NS;
        self.runs[cpu as usize].is_some_and(has_had)
    }
}

pub(crate) fn of(m: &mut Machine) -> Option<&mut Full> {
    match m.ext.as_deref_mut().map(|e| &mut e.rule) {
        Some(Rule::Full(full)) => Some(full),
        _ => None,
    }
}

/// Preempts the task that runs on a CPU, if it has had more than the one that is to come.
pub(crate) fn preempt_for(m: &mut Machine, cpu: u32, vtime: u64) {
    let now = m.now;
    if !of(m).is_some_and(|full| full.is_ahead(cpu, vtime, now)) {
        return;
    }
    if m.stepping == Some(cpu) {
        m.cpus[cpu as usize].is_choice_due = true;
    } else {
        replace(m, cpu);
    }
}

/// The next task, or the same once more.
pub(crate) fn replace(m: &mut Machine, cpu: u32) {
    let Some(task) = scx::current_on(m, cpu) else {
        return;
    };
    scx::charge(m, cpu);
    m.cpus[cpu as usize].is_choice_due = false;
    let (now, workload) = (m.now, m.tasks[task as usize].workload as usize);
    let Some(ext) = m.ext.as_deref_mut() else {
        return;
    };
    let (may_stay, head) = (!ext.stats.waits(workload), ext.first());
    if let Rule::Full(full) = &mut ext.rule
        && may_stay
        && full.is_first(cpu, task, workload, now, head)
    {
        full.stay(cpu, task, workload, now);
        m.tasks[task as usize].slice_ns = ext.stats.settings.slice_ns;
        return scx::WeirScheduler.plan(m, cpu);
    }
    let next = m.ext.as_deref_mut().and_then(Ext::take_next);
    scx::stop(m, cpu);
    if let Some(next) = next {
        scx::run(m, cpu, next);
    }
    scx::enqueue(m, task, Comes::SliceOver);
    if m.cpus[cpu as usize].current.is_none() {
        m.pick(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tasks of one workload have its part together, and one of them alone has all of it.
    #[test]
    fn a_workload_has_its_part_however_many_of_it_run() {
        let mut full = Full::new(&[(0, 100), (0, 100), (1, 100)], 2, 1);
        let grown = |full: &mut Full| {
            full.begin(0, 0, 0, 0);
            let vtime = full.grown(0, 0, 0, 1000);
            full.end(0, 0, 0, 0);
            vtime
        };
        full.begin_to_want(0, 0, true);
        assert_eq!(grown(&mut full), 500);
        full.begin_to_want(1, 0, true);
        assert_eq!(grown(&mut full), 1000);
        full.end_to_want(1, 0);
        assert_eq!(grown(&mut full), 500);
    }

    /// A task that takes its CPU wakes before the running task stops. Were that one counted, a run with no
    /// task beside it would cost a hundred times its length, where the other weighs so much more.
    #[test]
    fn a_run_is_shared_only_with_tasks_that_were_runnable_throughout() {
        let mut full = Full::new(&[(0, 100), (0, 8668)], 1, 2);
        full.begin_to_want(0, 0, true);
        full.begin(0, 0, 0, 0);
        full.begin_to_want(1, 0, true);
        let alone = full.grown(0, 0, 0, 1000);
        full.stay(0, 0, 0, 1000);
        let together = full.grown(0, 0, 0, 2000);
        full.end_to_want(1, 0);
        let left = full.grown(0, 0, 0, 2000);
        assert_eq!((alone, together, left), (11, 1000, alone));
    }

    #[test]
    fn a_sleeper_comes_back_with_a_bounded_credit_and_a_new_task_with_none() {
        let mut full = Full::new(&[(0, 100), (1, 100), (2, 100)], 3, 2);
        full.members[0].vtime = 50_000_000;
        full.begin(0, 0, 0, 0);
        full.begin_to_want(1, 1, false);
        assert_eq!(full.place(1), 50_000_000 - WAKEUP_CREDIT_NS);
        // A task that a budget lets go on runs only until one wakes.
        full.members[2].vtime = 1;
        let released = full.place_released(2);
        full.begin(1, 2, 2, 0);
        assert!(
            full.is_ahead(1, 50_000_000 - WAKEUP_CREDIT_NS, 0),
            "{released}"
        );
        full.end(1, 2, 2, 0);
        full.begin_to_want(2, 2, true);
        assert_eq!(full.place(2), 50_000_000);
        assert!(!full.is_ahead(0, 50_000_000 - PREEMPT_LAG_NS, 0));
        assert!(full.is_ahead(0, 50_000_000 - PREEMPT_LAG_NS, 1));
    }
}
