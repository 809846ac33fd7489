// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On which CPU a task of the fair class runs.
//!
//! - A task that wakes prefers its last CPU, then an idle core, then an idle thread.
//! - Work-conserving: a CPU that goes idle takes a waiting task from elsewhere; a CPU where tasks
//!   wait gives one to an idle CPU at its next tick.
//! - Where all CPUs are busy, each core compares itself with the others every 16 ms × CPUs
//!   (`busy_factor`, `sd_weight`), one core after the other, and its two threads with each other every
//!   32 ms. The load that is moved is bounded by what the *smaller* side lacks to the mean
//!   (`calculate_imbalance`): half of the difference between two threads of a core, but a fraction of a
//!   task between one core and all others. A task larger than that is moved only after failed attempts
//!   (`nr_balance_failed` shifts its load to the right): a chance of one in two, and of one in three.
//!   Loads are the runnable tasks of the moment, not the kernel's decaying means.

use super::eevdf;
use crate::engine::event_queue::Event;
use crate::engine::machine::Machine;

/// `busy_factor` × 1 ms of `sd_weight`.
const BALANCE_NS_PER_CPU: u64 = 16_000_000;
/// Attempts for one task between cores, and between the threads of a core that differ by one.
const PATIENCE: usize = 3;
const PATIENCE_OF_THREADS: usize = 2;

/// Where a task that wakes should run: where it was, an idle core, an idle thread.
pub(crate) fn select_cpu(m: &mut Machine, task: u32) -> u32 {
    let last = m.tasks[task as usize].last_cpu;
    let is_idle =
        |c: u32| m.cpus[c as usize].current.is_none() && m.cpus[c as usize].queue.is_empty();
    let is_new = m.tasks[task as usize].exec_ns == 0;
    if is_idle(last) && !is_new {
        return last;
    }
    let count = m.cpus.len() as u32;
    if m.idle_count > 0 {
        let step = m.shape.threads_per_core;
        let from_last = |c: u32| (last / step * step + c) % count;
        let mut cores = (0..count).step_by(step as usize).map(from_last);
        if let Some(core) = cores.find(|c| (*c..c + step).all(is_idle)) {
            return core;
        }
        if let Some(cpu) = (0..count).map(from_last).find(|c| is_idle(*c)) {
            return cpu;
        }
    }
    if !is_new {
        return last;
    }
    // A new task goes to the shortest queue.
    let from = m.rng.below(m.cpus.len()) as u32;
    let around = (0..count).map(|c| (from + c) % count);
    around
        .min_by_key(|c| m.cpus[*c as usize].queue.len())
        .unwrap_or(last)
}

/// Begins the rounds of balancing: in each one core compares itself with all others.
pub(crate) fn start_balancing(m: &mut Machine) {
    let every = BALANCE_NS_PER_CPU * u64::from(m.shape.threads_per_core);
    m.queue.push(m.now + every, Event::Balance);
}

pub(crate) fn balance(m: &mut Machine) {
    start_balancing(m);
    if !m.ordinary.is_fair_class() {
        return;
    }
    let step = m.shape.threads_per_core;
    let cores = m.cpus.len() as u32 / step;
    let round = m.now / (BALANCE_NS_PER_CPU * u64::from(step));
    let mine = (round % u64::from(cores)) as u32 * step;
    if m.idle_count > 1 && mine == 0 {
        leave_shared_cores(m);
    }
    if m.waiting_count == 0 {
        return;
    }
    for core in (0..cores).filter(|_| step == 2).map(|c| c * 2) {
        balance_threads(m, core);
    }
    balance_cores(m, mine);
}

fn runnable(m: &Machine, cpu: u32) -> usize {
    let c = &m.cpus[cpu as usize];
    c.queue.len() + usize::from(c.current.is_some())
}

fn balance_threads(m: &mut Machine, core: u32) {
    let (a, b) = (runnable(m, core), runnable(m, core + 1));
    let (from, to) = if a > b {
        (core, core + 1)
    } else {
        (core + 1, core)
    };
    let more = a.abs_diff(b);
    let moves = match more {
        0 => 0,
        1 => usize::from(m.rng.below(PATIENCE_OF_THREADS) == 0),
        _ => more / 2,
    };
    for _ in 0..moves {
        hand_over(m, from, to);
    }
}

/// A core takes a task from the core that has most.
fn balance_cores(m: &mut Machine, mine: u32) {
    let step = m.shape.threads_per_core;
    let load = |core: u32| -> usize { (core..core + step).map(|c| runnable(m, c)).sum() };
    let around = (step..m.cpus.len() as u32).step_by(step as usize);
    let others = around.map(|c| (mine + c) % m.cpus.len() as u32);
    let Some(busiest) = others.max_by_key(|c| load(*c)) else {
        return;
    };
    if load(busiest) <= load(mine) || m.rng.below(PATIENCE) != 0 {
        return;
    }
    let by_load = |c: &u32| runnable(m, *c);
    let from = (busiest..busiest + step).max_by_key(by_load);
    let to = (mine..mine + step).min_by_key(by_load);
    if let (Some(from), Some(to)) = (from, to) {
        hand_over(m, from, to);
    }
}

/// One of the waiting tasks goes to another CPU.
fn hand_over(m: &mut Machine, from: u32, to: u32) {
    let count = m.cpus[from as usize].queue.len();
    if count > 0 {
        let at = m.rng.below(count);
        let task = m.cpus[from as usize].queue[at];
        move_to(m, from, to, task);
    }
}

/// Where two tasks run on one core and another core is idle, one moves (the kernel's active
/// balancing between cores).
fn leave_shared_cores(m: &mut Machine) {
    let step = m.shape.threads_per_core;
    let count = m.cpus.len() as u32;
    for from in (0..count).step_by(step as usize) {
        let is_free = |c: &u32| m.cpus[*c as usize].current.is_none();
        let is_busy = |c: u32| m.cpus[c as usize].current.is_some();
        let mut cores = (0..count).step_by(step as usize);
        let Some(to) = cores.find(|c| (*c..c + step).all(|c| is_free(&c))) else {
            return;
        };
        let last = from + step - 1;
        let Some(task) = m.ordinary_on(last) else {
            continue;
        };
        let group = m.tasks[task as usize].workload;
        if step == 1 || !is_busy(from) || m.workloads[group as usize].quota.is_throttled(to) {
            continue;
        }
        m.leave(last);
        eevdf::enqueue(m, to, task);
        eevdf::go_on(m, to);
        m.pick(last);
    }
}

/// A CPU that goes idle takes a task from its sibling, or from the longest queue. False if no task waits.
pub(crate) fn pull(m: &mut Machine, cpu: u32) -> bool {
    if m.waiting_count == 0 {
        return false;
    }
    let count = m.cpus.len() as u32;
    let from = m.rng.below(count as usize) as u32;
    let around = (0..count).map(|c| (from + c) % count).filter(|c| *c != cpu);
    let waits = |c: &u32| !m.cpus[*c as usize].queue.is_empty();
    // Any of several will do: the kernel compares loads that are never quite equal.
    let busiest = around.max_by_key(|c| m.cpus[*c as usize].queue.len());
    // The other thread of the core comes first, as the kernel goes from domain to domain.
    let sibling = m.sibling(cpu).filter(waits);
    let Some(from) = sibling.or(busiest.filter(waits)) else {
        return false;
    };
    let may_run = |t: &u32| {
        !m.workloads[m.tasks[*t as usize].workload as usize]
            .quota
            .is_throttled(cpu)
    };
    let Some(task) = m.cpus[from as usize]
        .queue
        .iter()
        .copied()
        .find(|t| may_run(t))
    else {
        return false;
    };
    m.charge(from);
    eevdf::unqueue(m, from, task);
    eevdf::enqueue(m, cpu, task);
    true
}

pub(crate) fn push_to_idle(m: &mut Machine, cpu: u32) {
    let idle = m
        .cpus
        .iter()
        .position(|c| c.current.is_none() && c.queue.is_empty());
    if let Some(to) = idle
        && let Some(task) = m.cpus[cpu as usize].queue.first().copied()
    {
        move_to(m, cpu, to as u32, task);
    }
}

fn move_to(m: &mut Machine, from: u32, to: u32, task: u32) {
    let group = m.tasks[task as usize].workload;
    if m.workloads[group as usize].quota.is_throttled(to) {
        return;
    }
    m.charge(from);
    eevdf::unqueue(m, from, task);
    m.charge(to);
    eevdf::enqueue(m, to, task);
    eevdf::go_on(m, to);
}
