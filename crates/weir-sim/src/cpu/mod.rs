// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What decides which task runs on which CPU.
//!
//! ```text
//!                           ┌─ realtime ── SCHED_RR
//!  a task wakes, a tick ──► ├─ ordinary ── eevdf (select, cpu_max), or a scheduler loaded in its place
//!  (the task's class)       └─ scx ─────── weir's scheduler, of the tasks that it has
//!                                 ▲
//!  a CPU without a task ──────────┘ asks them from above to below
//! ```
//!
//! A new scheduler is one more [`CpuScheduler`]: [`Machine::ordinary`] is the one that ordinary tasks have.

pub(crate) mod cpu_max;
pub(crate) mod eevdf;
pub(crate) mod realtime;
pub(crate) mod select;

use crate::engine::event_queue::Event;
use crate::engine::machine::{At, Machine};
use crate::scx::WeirScheduler;
use realtime::Realtime;

/// A class of tasks and what schedules them (`struct sched_class` of the kernel). Its state is in the
/// machine.
pub(crate) trait CpuScheduler: Sync {
    /// A task has work: it goes to a queue, or to a CPU.
    fn wake(&self, m: &mut Machine, task: u32);

    /// A CPU without a task takes the next one of this class. False if none can be had.
    fn pick(&self, m: &mut Machine, cpu: u32) -> bool;

    /// The current task leaves its CPU of its own will.
    fn leave(&self, m: &mut Machine, cpu: u32);

    /// A tick that was planned: is it another task's turn?
    fn tick(&self, m: &mut Machine, cpu: u32);

    /// The current task of a CPU, if it belongs to this class.
    fn current_on(&self, m: &Machine, cpu: u32) -> Option<u32> {
        m.ordinary_on(cpu)
    }

    /// Plans the tick at which something may change: here the end of the slice.
    fn plan(&self, m: &mut Machine, cpu: u32) {
        let Some(task) = self.current_on(m, cpu) else {
            return;
        };
        let end = m.now + m.tasks[task as usize].slice_ns;
        m.plan_tick(cpu, Some(m.tick_at(end)));
    }

    /// Charges the current task up to `until`. True when its group has no quota left here.
    fn charge(&self, m: &mut Machine, cpu: u32, until: u64) -> bool;

    /// The current task woke another one between two of its steps, and no real-time task waits: does it give
    /// way?
    fn give_way(&self, m: &mut Machine, cpu: u32);

    /// A task of another class takes the CPU: the current one stays first in line.
    fn set_aside(&self, m: &mut Machine, cpu: u32) {
        let now = m.now;
        self.charge(m, cpu, now);
        if let Some(task) = m.take_off(cpu) {
            m.tasks[task as usize].at = At::Queued(cpu);
            m.cpus[cpu as usize].queue.insert(0, task);
            m.waiting_count += 1;
        }
    }

    #[cfg(feature = "thesis")]
    fn handle(&self, _: &mut Machine, _event: Event) {}

    /// A task ends: it leaves the dispatch queue that it is in.
    fn forget(&self, _: &mut Machine, _task: u32) {}

    /// Whether CPUs have queues that the kernel balances, and `cpu.max` is enforced.
    fn is_fair_class(&self) -> bool {
        false
    }

    /// Limit of a workload, in CPUs; infinite if there is none.
    fn limit_cpus(&self, m: &Machine, workload: usize) -> f64 {
        let quota = &m.workloads[workload].quota;
        quota.limit().map_or(f64::INFINITY, |l| l.cpus())
    }
}

impl Machine {
    #[inline]
    fn class_of(&self, task: u32) -> &'static dyn CpuScheduler {
        if realtime::has(self, task) {
            &Realtime
        } else if crate::scx::has(self, task) {
            &WeirScheduler
        } else {
            self.ordinary
        }
    }

    /// The class of a CPU's current task. A CPU without one waits for real-time tasks only.
    #[inline]
    fn class_on(&self, cpu: u32) -> &'static dyn CpuScheduler {
        let current = self.cpus[cpu as usize].current;
        current.map_or(&Realtime, |task| self.class_of(task))
    }

    /// The current task of a CPU, if it belongs to the ordinary class.
    #[inline]
    pub(crate) fn ordinary_on(&self, cpu: u32) -> Option<u32> {
        let current = self.cpus[cpu as usize].current;
        current.filter(|task| !realtime::has(self, *task) && !crate::scx::has(self, *task))
    }

    pub(crate) fn wake(&mut self, task: u32) {
        self.tasks[task as usize].wants_since = self.now;
        self.class_of(task).wake(self, task);
    }

    /// A CPU without a task takes the next.
    pub(crate) fn pick(&mut self, cpu: u32) {
        let classes: [&dyn CpuScheduler; 3] = [&Realtime, self.ordinary, &WeirScheduler];
        classes.into_iter().any(|class| class.pick(self, cpu));
    }

    /// The current task leaves its CPU of its own will.
    pub(crate) fn leave(&mut self, cpu: u32) {
        if self.cpus[cpu as usize].current.is_some() {
            self.class_on(cpu).leave(self, cpu);
        }
    }

    /// Time of the first tick after now and not before `at`.
    pub(crate) fn tick_at(&self, at: u64) -> u64 {
        let tick = self.shape.tick_ns;
        at.max(self.now + 1).div_ceil(tick) * tick
    }

    /// Plans a CPU's next tick; one that is planned earlier stays and plans again.
    pub(crate) fn plan_tick(&mut self, cpu: u32, at: Option<u64>) {
        let Some(at) = at else { return };
        let c = &mut self.cpus[cpu as usize];
        if c.due.is_some_and(|due| due <= at) {
            return;
        }
        c.generation = c.generation.wrapping_add(1);
        c.due = Some(at);
        self.queue.push(
            at,
            Event::Tick {
                cpu,
                generation: c.generation,
            },
        );
    }

    /// A tick that was planned.
    pub(crate) fn tick(&mut self, cpu: u32) {
        self.class_on(cpu).tick(self, cpu);
    }

    /// Plans the tick at which something may change.
    pub(crate) fn plan(&mut self, cpu: u32) {
        self.class_on(cpu).plan(self, cpu);
    }

    /// Gives a task the run time of its CPU since it was charged last, off its slice, and says how much.
    pub(crate) fn charge_slice(&mut self, cpu: u32, task: u32) -> u64 {
        let c = &mut self.cpus[cpu as usize];
        let delta_ns = self.now - c.charged_at;
        c.charged_at = self.now;
        let t = &mut self.tasks[task as usize];
        t.exec_ns += delta_ns;
        t.slice_ns = t.slice_ns.saturating_sub(delta_ns);
        delta_ns
    }

    /// Charges the current task up to now. True when its group has no quota left here.
    pub(crate) fn charge(&mut self, cpu: u32) -> bool {
        self.charge_until(cpu, self.now)
    }

    /// The same up to a moment.
    #[inline]
    pub(crate) fn charge_until(&mut self, cpu: u32, until: u64) -> bool {
        let is_busy = self.cpus[cpu as usize].current.is_some();
        is_busy && self.class_on(cpu).charge(self, cpu, until)
    }

    /// The current task is interrupted: it stays first in line.
    pub(crate) fn set_aside(&mut self, cpu: u32) {
        self.class_on(cpu).set_aside(self, cpu);
    }

    /// The current task woke another between two of its steps: a task that is to take over does so now.
    pub(crate) fn give_way(&mut self, cpu: u32) {
        let has_waiting = !self.cpus[cpu as usize].realtime.is_empty();
        let current = self.cpus[cpu as usize].current;
        if has_waiting && current.is_some_and(|task| !realtime::has(self, task)) {
            self.set_aside(cpu);
            self.pick(cpu);
        } else {
            self.class_on(cpu).give_way(self, cpu);
        }
    }

    /// A task that ends leaves its dispatch queue.
    pub(crate) fn undispatch(&mut self, task: u32) {
        WeirScheduler.forget(self, task);
        self.ordinary.forget(self, task);
    }
}
