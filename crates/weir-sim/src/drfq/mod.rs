// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler of shares: one fair share of CPUs, DRAM and CXL for each workload.
//!
//! ```text
//!  wakes, or its slice ends ─► queue of its flow ─► a CPU: the flow that leads least
//!                          └─► waits at the gate: it leads, and a memory that it uses is saturated
//!  tick, 1 ms: run time, bytes and DMA of each flow ─► clocks ─► levels ─► gates ─► rates of controllers
//! ```
//!
//! The arithmetic is the kernel's (`bpf/sched/dove_tail.h` by way of `weir-sched`): clocks, the wake rule,
//! delta, gates. A flow is a workload. Turns of tasks that come late are as full mode's: whatever their lead,
//! they get a short one.
//!
//! - *Order*: on a CPU the flow with the smallest lead goes, measured from the level of the CPUs.
//! - *Level* of the CPUs: the mean of the dominant times of the flows that want a CPU, by weight; of a
//!   saturated memory: that of its users, because they stop where it is full and others go on. A memory that
//!   is not saturated has the level of the CPUs.
//! - A flow that does not wait for anything and still falls behind cannot use more: it keeps a lag of C, as
//!   one that slept.
//!
//! In reading order: this file (the class), [`flow_table`], [`tick`], [`rates`], [`thesis_rules`],
//! [`variant`], [`fair_shares`].

pub(crate) mod fair_shares;
pub(crate) mod flow_table;
pub(crate) mod rates;
pub(crate) mod thesis_rules;
pub(crate) mod tick;
pub(crate) mod variant;

use crate::cpu::CpuScheduler;
use crate::engine::event_queue::Event;
use crate::engine::machine::{At, Machine};
pub(crate) use flow_table::DrfqSched;
use weir_sched::{FLOW_SLICE_NS, PREEMPT_LAG_NS};

/// Slice of a task that has waited too long, nanoseconds.
const LATE_SLICE_NS: u64 = 1_000_000;

/// The class of ordinary tasks while the scheduler is loaded.
pub(crate) struct FlowClass;

/// Puts the scheduler into the kernel, in place of the fair class; without its half at the source it only
/// observes, and sets rates.
pub(crate) fn load(m: &mut Machine, scheduler: DrfqSched) {
    m.queue.push(m.now + scheduler.tick_ns, Event::Flows);
    if scheduler.halves.has_source {
        m.ordinary = &FlowClass;
    }
    m.drfq = Some(Box::new(scheduler));
}

impl CpuScheduler for FlowClass {
    fn wake(&self, m: &mut Machine, task: u32) {
        let workload = m.tasks[task as usize].workload as usize;
        if is_by_thesis(m) {
            thesis_rules::wake(m, workload);
        }
        let sched = state(m);
        sched.begin_to_want(workload);
        enqueue(m, task);
        let lead = state(m).lead(workload);
        if wake_a_cpu(m, task) || state(m).is_held(workload) {
            return;
        }
        let cpu = m.tasks[task as usize].last_cpu;
        preempt(m, cpu, lead);
    }

    fn pick(&self, m: &mut Machine, cpu: u32) -> bool {
        let now = m.now;
        let is_idle = m.idle_count == m.cpus.len();
        let next = state(m).take_next(now, is_idle);
        if let Some((task, is_late)) = next {
            run(m, cpu, task, is_late);
        }
        next.is_some()
    }

    fn leave(&self, m: &mut Machine, cpu: u32) {
        charge(m, cpu);
        if let Some(task) = m.take_off(cpu) {
            let workload = m.tasks[task as usize].workload as usize;
            state(m).end_to_want(workload);
        }
    }

    fn tick(&self, m: &mut Machine, cpu: u32) {
        charge(m, cpu);
        let current = m.cpus[cpu as usize].current;
        if current.is_some_and(|task| m.tasks[task as usize].slice_ns == 0) {
            return replace(m, cpu);
        }
        self.plan(m, cpu);
    }

    /// Up to now, whatever the moment: it charges at each switch.
    fn charge(&self, m: &mut Machine, cpu: u32, _: u64) -> bool {
        charge(m, cpu);
        false
    }

    fn give_way(&self, m: &mut Machine, cpu: u32) {
        if std::mem::take(&mut m.cpus[cpu as usize].is_choice_due) {
            replace(m, cpu);
        }
    }

    fn set_aside(&self, m: &mut Machine, cpu: u32) {
        set_aside(m, cpu);
    }

    fn forget(&self, m: &mut Machine, task: u32) {
        let workload = m.tasks[task as usize].workload as usize;
        state(m).forget(workload, task);
    }
}

pub(crate) fn state(m: &mut Machine) -> &mut DrfqSched {
    m.drfq.as_deref_mut().expect("its class is the machine's")
}

fn is_by_thesis(m: &Machine) -> bool {
    m.drfq.as_deref().is_some_and(|s| s.thesis.is_some())
}

fn slice_ns(m: &Machine) -> u64 {
    if is_by_thesis(m) {
        thesis_rules::SLICE_NS
    } else {
        FLOW_SLICE_NS
    }
}

fn enqueue(m: &mut Machine, task: u32) {
    let (now, workload) = (m.now, m.tasks[task as usize].workload as usize);
    m.tasks[task as usize].at = At::Dispatchable;
    state(m).queue_up(workload, task, now);
}

fn is_idle(m: &Machine, cpu: u32) -> bool {
    let c = &m.cpus[cpu as usize];
    c.current.is_none() && c.realtime.is_empty()
}

/// An idle CPU chooses, first the task's last one; false if none is idle.
pub(crate) fn wake_a_cpu(m: &mut Machine, task: u32) -> bool {
    let (last, count) = (m.tasks[task as usize].last_cpu, m.cpus.len() as u32);
    let mut cpus = (0..count).map(|i| (last + i) % count);
    let Some(cpu) = cpus.find(|cpu| is_idle(m, *cpu)) else {
        return false;
    };
    // A CPU that is between two steps of its task picks by itself.
    if m.stepping != Some(cpu) {
        m.pick(cpu);
    }
    true
}

pub(crate) fn wake_idle_cpus(m: &mut Machine) {
    for cpu in 0..m.cpus.len() as u32 {
        if is_idle(m, cpu) && m.stepping != Some(cpu) {
            m.pick(cpu);
        }
    }
}

/// The running task gives way to one with this lead, if it leads by so much more.
fn preempt(m: &mut Machine, cpu: u32, lead_ns: i64) {
    let Some(current) = m.ordinary_on(cpu) else {
        return;
    };
    charge(m, cpu);
    let workload = m.tasks[current as usize].workload as usize;
    if state(m).lead(workload) <= lead_ns + PREEMPT_LAG_NS as i64 {
        return;
    }
    if m.stepping == Some(cpu) {
        m.cpus[cpu as usize].is_choice_due = true;
    } else {
        replace(m, cpu);
    }
}

fn run(m: &mut Machine, cpu: u32, task: u32, is_late: bool) {
    let slice = slice_ns(m);
    let slice = if is_late {
        slice.min(LATE_SLICE_NS)
    } else {
        slice
    };
    m.tasks[task as usize].slice_ns = slice;
    m.cpus[cpu as usize].is_choice_due = false;
    m.put_on(cpu, task);
    FlowClass.plan(m, cpu);
}

pub(crate) fn charge(m: &mut Machine, cpu: u32) {
    let Some(task) = m.ordinary_on(cpu) else {
        return;
    };
    let delta = m.charge_slice(cpu, task);
    let workload = m.tasks[task as usize].workload as usize;
    if is_by_thesis(m) {
        m.settle(cpu);
        thesis_rules::charge_run(m, workload, delta);
    } else {
        state(m).flows[workload].flow.run(delta);
    }
}

/// A slice is over: the flow that leads least goes next, which may be the same.
fn replace(m: &mut Machine, cpu: u32) {
    let Some(task) = m.ordinary_on(cpu) else {
        return;
    };
    charge(m, cpu);
    let (now, workload) = (m.now, m.tasks[task as usize].workload as usize);
    let sched = state(m);
    if !sched.is_held(workload) && !sched.has_better(workload, now) {
        m.tasks[task as usize].slice_ns = slice_ns(m);
        return FlowClass.plan(m, cpu);
    }
    set_aside(m, cpu);
    if m.cpus[cpu as usize].current.is_none() {
        m.pick(cpu);
    }
}

/// The current task goes back to its queue; the CPU is free then.
pub(crate) fn set_aside(m: &mut Machine, cpu: u32) {
    if m.ordinary_on(cpu).is_none() {
        return;
    }
    charge(m, cpu);
    if let Some(task) = m.take_off(cpu) {
        enqueue(m, task);
    }
}
