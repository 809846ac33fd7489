// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's sched_ext schedulers (5.4.1) with their own rules inside: they control by themselves.
//!
//! ```text
//!  wake / slice over ─► enqueue: counters (at most each 1 ms), limit by eq. 4, slice = 20 ms · limit
//!                          │                                │ throttle queue (5.4.1.5): limit < 1
//!                          ▼                                ▼
//!                    dispatch queue                   throttle queue
//!                (FIFO, or by vtime)                        │ only while there is no overload,
//!                          └──────────► a CPU ◄─────────────┘ and the other queue is empty
//! ```
//!
//! - One queue for all CPUs, as in `scx_simple`. A slice's end is seen at a tick: a slice of 0.2 ms
//!   runs to the end of its tick.
//! - Ticks of all CPUs come at the same moment. At the end of a slice a CPU takes the next task first
//!   and enqueues its own after that (`balance_scx` before `put_prev_task_scx`), and enqueueing takes
//!   10.7 µs: a CPU that dispatches meanwhile finds what is left, or nothing. So a queue of four is empty
//!   after four CPUs have dispatched, and the fifth keeps its task for another 20 ms, limited or not. That is
//!   the thesis's suspicion that its queue was too empty for virtual time to sort anything (6.3).
//! - A CPU that finds no task to follow keeps its task with a fresh slice of 20 ms and without an enqueue, so
//!   without a limit (the kernel's `SCX_SLICE_DFL`): that is why an idle system is not limited
//!   (thesis 6.3.1).
//! - While such a scheduler is loaded `cpu.max` is not enforced.
//!
//! What the text leaves open:
//! - Limits multiply the last limit, as eq. 4 says, at each enqueue of the task. An overload that slices
//!   cannot end drives them to their floor.
//! - Limits are kept within 1 % (the lowest value of 5.4.2) and 100 %.
//! - The workloads to be throttled (5.4.1.5) are those with a limit below 100 %.
//! - Any task's enqueue refreshes the counters, since otherwise nothing would ever end an overload in
//!   which all users of the device are parked.

use crate::cpu::{CpuScheduler, eevdf, select};
use crate::engine::event_queue::Event;
use crate::engine::machine::{At, Machine};
use std::collections::VecDeque;

/// `SCX_SLICE_DFL`.
const SLICE_NS: f64 = weir_sched::THESIS_SLICE_NS as f64;
/// How long `enqueue` takes until the task is in its queue (thesis 6.8.1).
const ENQUEUE_NS: u64 = 10_700;
/// Timer interrupts of all CPUs come at the same moment; their handlers reach `dispatch` within this
/// time, in any order.
const TICK_SPREAD_NS: usize = 2_000;
/// Weight of a new value.
pub(crate) const ALPHA: f64 = weir_sched::THESIS_ALPHA_TENTHS as f64 / 10.0;
pub(crate) const LIMIT_MIN: f64 = weir_sched::THESIS_LIMIT_MIN_PERCENT as f64 / 100.0;
const NORMAL: f64 = 100.0;

/// What a task's limit is computed from, at each of its enqueues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitRule {
    /// The last limit × threshold ÷ bandwidth, as eq. 4 says.
    #[default]
    OfLastLimit,
    /// The limit is threshold ÷ bandwidth alone.
    OfNothing,
    /// The CPU time that the task had since its last enqueue, as a part of that time, × threshold ÷
    /// bandwidth: the text of 4.3.3.2 has a limit "multiplied with the current CPU usage".
    OfUsage,
}

/// Readings of the thesis's text that another reading may replace, to see what hangs on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScxReading {
    pub limit_rule: LimitRule,
    /// How long `enqueue` takes until the task is in its queue.
    pub enqueue_ns: u64,
}

impl Default for ScxReading {
    fn default() -> Self {
        ScxReading {
            limit_rule: LimitRule::default(),
            enqueue_ns: ENQUEUE_NS,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SchedulerCalls {
    pub enqueues: u64,
    /// Those that read the device's counters.
    pub counter_reads: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScxVariant {
    /// Round robin with scaled slices (5.4.1.3).
    RoundRobin,
    /// Virtual time, running faster for limited workloads (5.4.1.4).
    Vtime,
    /// A queue of its own for limited workloads (5.4.1.5).
    ThrottleQueue,
}

pub(crate) struct ThesisSched {
    variant: ScxVariant,
    reading: ScxReading,
    pub(crate) calls: SchedulerCalls,
    /// For each task: when it was enqueued last, and its CPU time then.
    enqueued: Vec<(u64, u64)>,
    set_point: f64,
    queue: VecDeque<u32>,
    parked: VecDeque<u32>,
    /// CPU limit of each task, 0 to 1.
    pub(crate) limits: Vec<f64>,
    vtime_now: f64,
    /// Running average of the device's bandwidth, once there is one.
    bandwidth: Option<f64>,
    counted: (u64, f64),
}

impl ThesisSched {
    pub(crate) fn new(
        variant: ScxVariant,
        reading: ScxReading,
        set_point_bytes_per_sec: f64,
        tasks: usize,
    ) -> Self {
        ThesisSched {
            variant,
            reading,
            calls: SchedulerCalls::default(),
            enqueued: vec![(0, 0); tasks],
            set_point: set_point_bytes_per_sec,
            queue: VecDeque::new(),
            parked: VecDeque::new(),
            limits: vec![1.0; tasks],
            vtime_now: 0.0,
            bandwidth: None,
            counted: (0, 0.0),
        }
    }

    fn is_overloaded(&self) -> bool {
        self.bandwidth.is_some_and(|b| b > self.set_point)
    }

    fn refresh(&mut self, now: u64, bytes: f64) {
        let (then, before) = self.counted;
        let value = (bytes - before) / (now - then).max(1) as f64 * 1e9;
        self.counted = (now, bytes);
        self.calls.counter_reads += 1;
        self.bandwidth = Some(
            self.bandwidth
                .map_or(value, |b| ALPHA * value + (1.0 - ALPHA) * b),
        );
    }
}

impl ThesisSched {
    /// What the limit of a task that is enqueued now is a part of.
    fn basis(&mut self, task: usize, now: u64, exec_ns: u64) -> f64 {
        let (then, before) = std::mem::replace(&mut self.enqueued[task], (now, exec_ns));
        match self.reading.limit_rule {
            LimitRule::OfLastLimit => self.limits[task],
            LimitRule::OfNothing => 1.0,
            LimitRule::OfUsage => {
                (exec_ns - before) as f64 / now.saturating_sub(then).max(1) as f64
            }
        }
    }
}

/// The class of ordinary tasks while one of these schedulers is loaded.
pub(crate) struct ThesisClass;

impl CpuScheduler for ThesisClass {
    fn wake(&self, m: &mut Machine, task: u32) {
        let cpu = select::select_cpu(m, task);
        begin_enqueue(m, task, cpu);
    }

    fn pick(&self, m: &mut Machine, cpu: u32) -> bool {
        pick(m, cpu)
    }

    fn leave(&self, m: &mut Machine, cpu: u32) {
        charge(m, cpu);
        m.take_off(cpu);
    }

    fn tick(&self, m: &mut Machine, cpu: u32) {
        let Some(task) = m.cpus[cpu as usize].current else {
            return;
        };
        charge(m, cpu);
        if m.tasks[task as usize].slice_ns == 0 {
            let spread = m.rng.below(TICK_SPREAD_NS) as u64;
            m.queue.push(m.now + spread, Event::Dispatch { cpu });
            return;
        }
        self.plan(m, cpu);
    }

    /// Up to now, whatever the moment: it charges at each switch.
    fn charge(&self, m: &mut Machine, cpu: u32, _: u64) -> bool {
        charge(m, cpu);
        false
    }

    /// A task that wakes takes no CPU from another.
    fn give_way(&self, _: &mut Machine, _cpu: u32) {}

    fn handle(&self, m: &mut Machine, event: Event) {
        match event {
            Event::Enqueue { task, cpu } => end_enqueue(m, task, cpu),
            Event::Dispatch { cpu } => replace(m, cpu),
            _ => {}
        }
    }

    fn forget(&self, m: &mut Machine, task: u32) {
        let state = state(m);
        state.queue.retain(|t| *t != task);
        state.parked.retain(|t| *t != task);
    }

    fn limit_cpus(&self, m: &Machine, workload: usize) -> f64 {
        let Some(state) = m.thesis.as_deref() else {
            return f64::INFINITY;
        };
        let tasks = m.workloads[workload].tasks.clone();
        tasks.map(|task| state.limits[task as usize]).sum()
    }
}

/// Puts a scheduler into the kernel, in place of the fair class.
pub(crate) fn load(m: &mut Machine, scheduler: ThesisSched) {
    m.thesis = Some(Box::new(scheduler));
    m.ordinary = &ThesisClass;
}

fn state(m: &mut Machine) -> &mut ThesisSched {
    m.thesis.as_deref_mut().expect("its class is the machine's")
}

fn begin_enqueue(m: &mut Machine, task: u32, cpu: u32) {
    m.tasks[task as usize].at = At::Dispatchable;
    let event = Event::Enqueue { task, cpu };
    let takes_ns = state(m).reading.enqueue_ns;
    m.queue.push(m.now + takes_ns, event);
}

/// `enqueue` returns. An idle CPU reads the queues: the base implementation of
/// `select_cpu` only hints at it, and it takes what is first.
fn end_enqueue(m: &mut Machine, task: u32, cpu: u32) {
    if m.tasks[task as usize].at == At::Dispatchable {
        enqueue(m, task);
    }
    if m.cpus[cpu as usize].current.is_none() {
        pick(m, cpu);
    }
}

fn enqueue(m: &mut Machine, task: u32) {
    let now = m.now;
    state(m).calls.enqueues += 1;
    if now - state(m).counted.0 >= weir_sched::THESIS_REFRESH_NS {
        m.settle_all();
        let bytes = m.groups.iter().flatten().sum();
        state(m).refresh(now, bytes);
    }
    let t = &mut m.tasks[task as usize];
    let is_bound = m.workloads[t.workload as usize].is_bound;
    let Some(scx) = m.thesis.as_deref_mut() else {
        return;
    };
    if is_bound {
        let total = scx.bandwidth.filter(|b| *b > 0.0);
        let factor = total.map_or(f64::INFINITY, |b| scx.set_point / b);
        let basis = scx.basis(task as usize, now, t.exec_ns);
        scx.limits[task as usize] = (basis * factor).clamp(LIMIT_MIN, 1.0);
    }
    t.slice_ns = (SLICE_NS * scx.limits[task as usize]) as u64;
    let is_limited = scx.limits[task as usize] < 1.0;
    match scx.variant {
        ScxVariant::ThrottleQueue if is_limited => scx.parked.push_back(task),
        ScxVariant::Vtime => {
            // At most one slice of credit.
            t.vruntime = t.vruntime.max(scx.vtime_now - SLICE_NS);
            let later =
                |other: &u32| m.tasks[*other as usize].vruntime > m.tasks[task as usize].vruntime;
            let at = scx.queue.iter().position(later).unwrap_or(scx.queue.len());
            scx.queue.insert(at, task);
        }
        _ => scx.queue.push_back(task),
    }
}

fn dispatch(m: &mut Machine) -> Option<u32> {
    let scx = state(m);
    if let Some(task) = scx.queue.pop_front() {
        return Some(task);
    }
    if scx.is_overloaded() {
        return None;
    }
    scx.parked.pop_front()
}

fn pick(m: &mut Machine, cpu: u32) -> bool {
    // Tasks that `dispatch` moved to the CPU's own queue come first.
    if let Some(task) = m.cpus[cpu as usize].queue.first().copied() {
        eevdf::unqueue(m, cpu, task);
        run(m, cpu, task);
        return true;
    }
    let next = dispatch(m);
    if let Some(task) = next {
        run(m, cpu, task);
    }
    next.is_some()
}

fn run(m: &mut Machine, cpu: u32, task: u32) {
    let vtime = m.tasks[task as usize].vruntime;
    let scx = state(m);
    scx.vtime_now = scx.vtime_now.max(vtime);
    m.put_on(cpu, task);
    ThesisClass.plan(m, cpu);
}

/// Charges the current task; its virtual time runs faster the less it may have.
fn charge(m: &mut Machine, cpu: u32) {
    let Some(task) = m.cpus[cpu as usize].current else {
        return;
    };
    let delta = m.charge_slice(cpu, task);
    let limit = state(m).limits[task as usize];
    let t = &mut m.tasks[task as usize];
    t.vruntime += delta as f64 * NORMAL / t.weight / limit;
}

/// A slice is over: the CPU dispatches the next task *before* its own is enqueued.
fn replace(m: &mut Machine, cpu: u32) {
    let Some(task) = m.ordinary_on(cpu) else {
        return;
    };
    if m.tasks[task as usize].slice_ns > 0 {
        return ThesisClass.plan(m, cpu);
    }
    charge(m, cpu);
    if let Some(next) = dispatch(m) {
        m.take_off(cpu);
        eevdf::queue_as_is(m, cpu, next);
        return begin_enqueue(m, task, cpu);
    }
    m.tasks[task as usize].slice_ns = SLICE_NS as u64;
    ThesisClass.plan(m, cpu);
}
