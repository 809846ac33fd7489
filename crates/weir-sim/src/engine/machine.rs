// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine in virtual time: tasks on CPUs, and the loop over events.
//!
//! ```text
//!  calendar (ticks, timers, wake-ups) ─┐
//!                                      ├─► earliest ─► time passes (fluid) ─► handle ─► plan again
//!  end of a task's block ──────────────┘
//! ```
//!
//! A CPU on which nothing can change has no tick in the calendar: ticks are planned where a quota or
//! a slice may run out, and fall on the grid of HZ all the same.

use super::accounting::{self, Accounting};
use super::ceil_ns;
use super::cpu_speed::{self, SpeedChanges};
use super::event_queue::{Event, EventQueue};
use super::program::{Cursor, Phase, Work};
use super::rng::Rng;
use super::task_exec;
use crate::cpu::cpu_max::{self, Quota};
use crate::cpu::eevdf::{self, Eevdf};
use crate::cpu::{CpuScheduler, select};
use crate::drfq::{self, DrfqSched};
use crate::engine::memory::dma::{self, DmaDisk};
use crate::engine::memory::fluid::Fluid;
use crate::scx::{self, Ext};
#[cfg(feature = "thesis")]
use crate::thesis::sched_ext::ThesisSched;
use std::collections::VecDeque;

/// Less than this many lines or nanoseconds is nothing.
const EPSILON: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Not begun, or ended.
    Off,
    /// Asleep, or waiting for work.
    Sleeping,
    Blocked,
    /// Runnable on this CPU's queue.
    Queued(u32),
    Running(u32),
    /// Its group has no quota on this CPU.
    Throttled(u32),
    /// In a dispatch queue of a sched_ext scheduler.
    Dispatchable,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub workload: u32,
    pub at: At,
    pub weight: f64,
    /// `SCHED_RR` instead of the fair class.
    pub is_realtime: bool,
    /// EEVDF's state, in nanoseconds of virtual time.
    pub vruntime: f64,
    pub deadline: f64,
    pub lag: f64,
    /// Its deadline when it was picked: up to there no task takes the CPU from it while it is eligible.
    pub protected: f64,
    pub slept_at: u64,
    /// sched_ext: CPU time left of the slice.
    pub slice_ns: u64,
    /// CPU time it was charged.
    pub exec_ns: u64,
    pub last_cpu: u32,
    /// Since when it is runnable without a CPU.
    pub wants_since: u64,
    pub cursor: Cursor,
    pub work: Work,
    /// Left of the current work: lines, or nanoseconds at full speed.
    pub remaining: f64,
    /// While it runs: its kind, and the kind's integral when it was last settled.
    pub kind: u32,
    pub reference: f64,
    /// Wake-ups of before are void.
    pub generation: u32,
    /// Work given to a daemon and not yet done, in nanoseconds.
    pub given: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub current: Option<u32>,
    pub queue: Vec<u32>,
    /// Until when `current` has been charged.
    pub charged_at: u64,
    /// The tick that is planned, if any.
    pub due: Option<u64>,
    pub generation: u32,
    /// Virtual time goes on from here after all tasks have left, and when that was over.
    pub base: f64,
    pub busy_since: u64,
    /// The current task's slice is over, or a better one woke: the next choice is due.
    pub is_choice_due: bool,
    /// Real-time tasks that wait, and when the current one's time slice ends.
    pub realtime: VecDeque<u32>,
    pub slice_ends: u64,
}

/// A group of tasks: one cgroup.
pub(crate) struct Workload {
    pub tasks: std::ops::Range<u32>,
    pub phases: Vec<Phase>,
    pub quota: Quota,
    pub ops_per_ns: f64,
    pub rng: Rng,
    pub tally: Accounting,
    pub is_alive: bool,
    /// It has memory on a device: the thesis's controllers search for such processes (`numa_maps`).
    #[cfg(feature = "thesis")]
    pub is_bound: bool,
}

/// A mutex: first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    pub owner: Option<u32>,
    pub waiting: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub threads_per_core: u32,
    pub tick_ns: u64,
    /// EEVDF's base slice.
    pub slice_ns: u64,
    /// What a CPU takes of a quota at once.
    pub bandwidth_slice_ns: i64,
    pub window_ns: u64,
}

pub(crate) struct Machine {
    pub now: u64,
    pub shape: Shape,
    pub cpus: Vec<Cpu>,
    pub tasks: Vec<Task>,
    pub workloads: Vec<Workload>,
    pub locks: Vec<Lock>,
    pub disks: Vec<DmaDisk>,
    pub fluid: Fluid,
    pub queue: EventQueue,
    pub ordinary: &'static dyn CpuScheduler,
    /// State of one of the thesis's schedulers, while it is that.
    #[cfg(feature = "thesis")]
    pub thesis: Option<Box<ThesisSched>>,
    /// weir's scheduler, beside the fair class or in its place.
    pub ext: Option<Box<Ext>>,
    /// State of the scheduler of shares, while it is that.
    pub drfq: Option<Box<DrfqSched>>,
    pub rng: Rng,
    pub speed_changes: Option<SpeedChanges>,
    pub idle_count: usize,
    /// Tasks that wait for a CPU.
    pub waiting_count: usize,
    /// The CPU with its task between two steps: a task that it wakes there takes over after that.
    pub stepping: Option<u32>,
    /// Bytes of each monitoring group: read, written.
    pub groups: Vec<[f64; 2]>,
    pub faults: Vec<(u32, f64)>,
    /// Counts of each workload when the measured time began.
    pub before: Vec<accounting::UseCounts>,
    /// Device bytes at each window's end, one row a window.
    pub windows: Vec<accounting::Window>,
    /// Events handled: what a run costs.
    pub events: u64,
    next_end: u64,
}

impl Machine {
    pub(crate) fn new(
        shape: Shape,
        cpu_count: usize,
        fluid: Fluid,
        group_count: usize,
        rng: Rng,
    ) -> Self {
        let mut queue = EventQueue::default();
        queue.push(shape.window_ns, Event::Window);
        Machine {
            now: 0,
            shape,
            cpus: vec![Cpu::default(); cpu_count],
            tasks: Vec::new(),
            workloads: Vec::new(),
            locks: Vec::new(),
            disks: Vec::new(),
            fluid,
            queue,
            ordinary: &Eevdf,
            #[cfg(feature = "thesis")]
            thesis: None,
            ext: None,
            drfq: None,
            rng,
            speed_changes: None,
            idle_count: cpu_count,
            waiting_count: 0,
            stepping: None,
            groups: vec![[0.0; 2]; group_count],
            faults: Vec::new(),
            before: Vec::new(),
            windows: Vec::new(),
            events: 0,
            next_end: u64::MAX,
        }
    }

    /// Lets time pass until `until`; everything that is due by then has happened.
    pub(crate) fn run_until(&mut self, until: u64) {
        loop {
            if self.fluid.refresh() {
                self.next_end = self.earliest_end();
            }
            let next = self.queue.next_at().min(self.next_end);
            if next > until {
                break;
            }
            self.pass(next);
            self.events += 1;
            // Ends of work first: a block that is done at a tick is done.
            if self.next_end <= next {
                self.end_work();
            } else if let Some(event) = self.queue.pop() {
                self.handle(event);
            }
        }
        self.pass(until);
    }

    /// Lets time pass until a daemon has done the work it was given, but not longer than `until`.
    pub(crate) fn run_until_served(&mut self, task: u32, until: u64) {
        while self.tasks[task as usize].given > 0.0 && self.now < until {
            if self.fluid.refresh() {
                self.next_end = self.earliest_end();
            }
            let next = self.queue.next_at().min(self.next_end).min(until);
            self.run_until(next);
        }
    }

    fn pass(&mut self, to: u64) {
        if to > self.now {
            self.fluid.advance(to - self.now);
            self.now = to;
        }
    }

    /// Lets an event happen. Events of ticks and wake-ups carry the number of the plan that they belong to: a
    /// plan that was changed leaves its event in the queue, and the event is void when it comes.
    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick { cpu, generation } => {
                if self.cpus[cpu as usize].generation == generation {
                    self.cpus[cpu as usize].due = None;
                    self.tick(cpu);
                }
            }
            Event::Period {
                group,
                generation: _,
            } => {
                let released = self.workloads[group as usize].quota.period(self.now);
                eevdf::release(self, group, &released);
            }
            Event::Slack { group } => {
                let released = self.workloads[group as usize].quota.hand_out(self.now);
                eevdf::release(self, group, &released);
            }
            Event::Wake { task, generation } => {
                let t = &self.tasks[task as usize];
                if t.generation == generation && t.at == At::Sleeping {
                    task_exec::carry_on(self, task);
                }
            }
            Event::Start { task } => task_exec::begin(self, task),
            Event::Stop { workload } => task_exec::stop(self, workload),
            #[cfg(feature = "thesis")]
            Event::Enqueue { .. } | Event::Dispatch { .. } => self.ordinary.handle(self, event),
            Event::Budgets => scx::tick::budgets(self),
            Event::Flows => drfq::tick::tick(self),
            Event::Balance => select::balance(self),
            Event::Speed => cpu_speed::change_speed(self),
            Event::Window => {
                accounting::note_window(self);
                self.queue
                    .push(self.now + self.shape.window_ns, Event::Window);
            }
            Event::Measure => accounting::begin_measuring(self),
            Event::Fault { index } => {
                let (device, ratio) = self.faults[index as usize];
                self.fluid.degrade(device as usize, ratio);
            }
        }
    }

    /// The first moment at which a task's work ends, with the rates of now.
    fn earliest_end(&self) -> u64 {
        let mut earliest = u64::MAX;
        for cpu in &self.cpus {
            let Some(task) = cpu.current else { continue };
            let t = &self.tasks[task as usize];
            if t.remaining.is_infinite() {
                continue;
            }
            let left = t.remaining - (self.fluid.integral(t.kind) - t.reference);
            let rate = self.fluid.rate(t.kind);
            if left <= EPSILON {
                return self.now;
            }
            if rate > 0.0 {
                earliest = earliest.min(self.now + ceil_ns(left / rate));
            }
        }
        earliest.min(dma::earliest_end(self))
    }

    /// Tasks that have done their work go on with their programs.
    fn end_work(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            let Some(task) = self.cpus[cpu as usize].current else {
                continue;
            };
            let t = &self.tasks[task as usize];
            let left = t.remaining - (self.fluid.integral(t.kind) - t.reference);
            if left <= EPSILON {
                self.settle(cpu);
                task_exec::continue_on(self, cpu, task);
            }
        }
        dma::end_blocks(self);
        // This is done also where the mix stayed the same.
        self.fluid.refresh();
        self.next_end = self.earliest_end();
    }

    pub(crate) fn sibling(&self, cpu: u32) -> Option<u32> {
        (self.shape.threads_per_core == 2).then_some(cpu ^ 1)
    }

    fn work_on(&self, cpu: u32) -> Option<Work> {
        let task = self.cpus[cpu as usize].current?;
        Some(self.tasks[task as usize].work)
    }

    /// Accounts for what the current task of a CPU has done since it was last settled.
    pub(crate) fn settle(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        let t = &mut self.tasks[task as usize];
        let integral = self.fluid.integral(t.kind);
        let done = integral - t.reference;
        t.reference = integral;
        t.remaining -= done;
        let (workload, work) = (t.workload as usize, t.work);
        match work {
            Work::Compute => {
                let workload = &mut self.workloads[workload];
                workload.tally.ops += done * workload.ops_per_ns;
            }
            Work::Access(class) => {
                self.account_lines(workload, class, done);
            }
        }
    }

    /// Everything that runs is accounted up to now.
    pub(crate) fn settle_all(&mut self) {
        (0..self.cpus.len() as u32).for_each(|cpu| self.settle(cpu));
        dma::settle_disks(self);
    }

    pub(crate) fn put_on(&mut self, cpu: u32, task: u32) {
        debug_assert!(self.cpus[cpu as usize].current.is_none());
        self.idle_count -= 1;
        let c = &mut self.cpus[cpu as usize];
        c.current = Some(task);
        c.charged_at = self.now;
        let beside = self.sibling(cpu).and_then(|s| self.work_on(s));
        let t = &mut self.tasks[task as usize];
        let waited = self.now - t.wants_since;
        self.workloads[t.workload as usize].tally.end_wait(waited);
        t.at = At::Running(cpu);
        t.last_cpu = cpu;
        t.kind = self.fluid.kind(t.work, beside);
        t.reference = self.fluid.integral(t.kind);
        self.fluid.enter(t.kind);
        self.change_sibling_of(cpu);
    }

    /// A CPU lets go of its task. Charge it before.
    pub(crate) fn take_off(&mut self, cpu: u32) -> Option<u32> {
        let task = self.cpus[cpu as usize].current?;
        self.settle(cpu);
        self.fluid.leave(self.tasks[task as usize].kind);
        self.tasks[task as usize].wants_since = self.now;
        self.cpus[cpu as usize].current = None;
        self.idle_count += 1;
        self.change_sibling_of(cpu);
        Some(task)
    }

    /// The task on the sibling may have another kind now, because this CPU's task has changed.
    fn change_sibling_of(&mut self, cpu: u32) {
        if let Some(sibling) = self.sibling(cpu) {
            self.rekind(sibling);
        }
    }

    fn rekind(&mut self, cpu: u32) {
        let Some(task) = self.cpus[cpu as usize].current else {
            return;
        };
        let beside = self.sibling(cpu).and_then(|s| self.work_on(s));
        let (work, old) = (
            self.tasks[task as usize].work,
            self.tasks[task as usize].kind,
        );
        let kind = self.fluid.kind(work, beside);
        if kind == old {
            return;
        }
        self.settle(cpu);
        self.fluid.leave(old);
        self.fluid.enter(kind);
        let t = &mut self.tasks[task as usize];
        t.kind = kind;
        t.reference = self.fluid.integral(kind);
    }

    /// A task that keeps its CPU has other work from now on.
    pub(crate) fn change_work(&mut self, cpu: u32, task: u32, work: Work, amount: f64) {
        let t = &mut self.tasks[task as usize];
        // Work after the end of the last piece counts.
        let surplus = if t.remaining.is_finite() && t.work == work {
            t.remaining.min(0.0)
        } else {
            0.0
        };
        t.remaining = amount + surplus;
        if t.work != work {
            // Settled already: the kind changes with nothing in between.
            t.work = work;
            self.rekind(cpu);
            self.change_sibling_of(cpu);
        }
    }

    /// Arms the timers that a group's bandwidth needs.
    pub(crate) fn arm(&mut self, group: u32) {
        let quota = &mut self.workloads[group as usize].quota;
        if std::mem::take(&mut quota.wants_timer) {
            let at = quota.expires().max(self.now + 1);
            self.queue.push(
                at,
                Event::Period {
                    group,
                    generation: 0,
                },
            );
        }
        if std::mem::take(&mut quota.wants_slack) {
            self.queue
                .push(self.now + cpu_max::SLACK_NS, Event::Slack { group });
        }
    }
}
