// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks going through their programs: blocks, rates, locks, sleep.

use super::ceil_ns;
use super::event_queue::Event;
use super::machine::{At, Machine};
use super::program::{Cursor, Phase, Stage, Step, What, Work};
use crate::cpu::eevdf;
use crate::engine::memory::dma;

/// A task that missed its rate catches up at most this much (fio's linear rate process).
const BACKLOG_NS: f64 = 1e9;
/// A program without any work would go round for ever: after so many empty phases it sleeps a tick.
const EMPTY_PHASES_MAX: u32 = 64;

pub(crate) fn begin(m: &mut Machine, task: u32) {
    let t = &mut m.tasks[task as usize];
    if t.at == At::Off && m.workloads[t.workload as usize].is_alive {
        t.cursor = Cursor::default();
        t.at = At::Sleeping;
        carry_on(m, task);
    }
}

/// A task that is not runnable finds its next work, and becomes runnable if there is some.
pub(crate) fn carry_on(m: &mut Machine, task: u32) {
    loop {
        match next_step(m, task) {
            Step::Run(work, amount) => {
                let t = &mut m.tasks[task as usize];
                t.work = work;
                t.remaining = amount;
                m.wake(task);
                return;
            }
            Step::Lock(lock) if try_lock(m, lock, task) => {}
            Step::Lock(_) => {
                m.tasks[task as usize].at = At::Blocked;
                return;
            }
            Step::Sleep(until) => return sleep(m, task, Some(until)),
            Step::Dma { disk, class, lines } => {
                sleep(m, task, None);
                return dma::submit(m, disk, task, class, lines);
            }
            Step::Wait => return sleep(m, task, None),
        }
    }
}

/// A running task has done its work (and is settled): it goes on, or leaves the CPU.
pub(crate) fn continue_on(m: &mut Machine, cpu: u32, task: u32) {
    loop {
        m.stepping = Some(cpu);
        let step = next_step(m, task);
        m.stepping = None;
        match step {
            Step::Run(work, amount) => {
                m.change_work(cpu, task, work, amount);
                return m.give_way(cpu);
            }
            Step::Lock(lock) if try_lock(m, lock, task) => continue,
            _ => {}
        }
        m.leave(cpu);
        match step {
            Step::Sleep(until) => sleep(m, task, Some(until)),
            Step::Lock(_) => m.tasks[task as usize].at = At::Blocked,
            Step::Dma { disk, class, lines } => {
                sleep(m, task, None);
                dma::submit(m, disk, task, class, lines);
            }
            _ => sleep(m, task, None),
        }
        m.pick(cpu);
        return;
    }
}

fn sleep(m: &mut Machine, task: u32, until: Option<u64>) {
    let t = &mut m.tasks[task as usize];
    t.at = At::Sleeping;
    t.generation = t.generation.wrapping_add(1);
    if let Some(until) = until {
        let event = Event::Wake {
            task,
            generation: t.generation,
        };
        m.queue.push(until.max(m.now + 1), event);
    }
}

fn try_lock(m: &mut Machine, lock: u32, task: u32) -> bool {
    let lock = &mut m.locks[lock as usize];
    if lock.owner.is_none() {
        lock.owner = Some(task);
        return true;
    }
    lock.waiting.push_back(task);
    false
}

/// The first in line gets it and goes on.
fn unlock(m: &mut Machine, lock: u32) {
    let lock = &mut m.locks[lock as usize];
    lock.owner = lock.waiting.pop_front();
    if let Some(next) = lock.owner {
        m.tasks[next as usize].at = At::Sleeping;
        carry_on(m, next);
    }
}

/// Work for a daemon: `ns` of CPU time at full speed.
pub(crate) fn give(m: &mut Machine, task: u32, ns: f64) {
    let t = &mut m.tasks[task as usize];
    t.given += ns;
    if t.at == At::Sleeping {
        carry_on(m, task);
    }
}

pub(crate) fn stop(m: &mut Machine, workload: u32) {
    m.workloads[workload as usize].is_alive = false;
    for task in m.workloads[workload as usize].tasks.clone() {
        match m.tasks[task as usize].at {
            At::Running(cpu) => {
                m.leave(cpu);
                m.tasks[task as usize].at = At::Off;
                m.pick(cpu);
            }
            At::Queued(cpu) => eevdf::unqueue(m, cpu, task),
            At::Dispatchable => m.undispatch(task),
            At::Blocked => m
                .locks
                .iter_mut()
                .for_each(|l| l.waiting.retain(|w| *w != task)),
            At::Off | At::Sleeping | At::Throttled(_) => {}
        }
        m.tasks[task as usize].at = At::Off;
        let owned = |l: &super::machine::Lock| l.owner == Some(task);
        if let Some(lock) = m.locks.iter().position(owned) {
            unlock(m, lock as u32);
        }
    }
}

/// The next thing a task does; its cursor moves.
fn next_step(m: &mut Machine, task: u32) -> Step {
    for _ in 0..EMPTY_PHASES_MAX {
        let workload = m.tasks[task as usize].workload as usize;
        let index = m.tasks[task as usize].cursor.phase;
        let Phase {
            what,
            for_ns,
            times,
        } = m.workloads[workload].phases[index].clone();
        let now = m.now;
        let cursor = &mut m.tasks[task as usize].cursor;
        if cursor.stage == Stage::Enter {
            cursor.until = for_ns.map_or(u64::MAX, |ns| now + ns);
            cursor.due = now as f64;
            cursor.left = times;
            cursor.stage = Stage::Ready;
        }
        if let Some(step) = step_of(m, task, workload, &what) {
            return step;
        }
        let count = m.workloads[workload].phases.len();
        let cursor = &mut m.tasks[task as usize].cursor;
        cursor.phase = (index + 1) % count;
        cursor.stage = Stage::Enter;
    }
    Step::Sleep(m.now + m.shape.tick_ns)
}

/// The next step within a phase; nothing when it is over.
fn step_of(m: &mut Machine, task: u32, workload: usize, what: &What) -> Option<Step> {
    let now = m.now;
    match *what {
        What::Sleep { mean_ns, random } => {
            let ns = if random {
                m.workloads[workload].rng.exponential(mean_ns)
            } else {
                mean_ns
            };
            let cursor = &mut m.tasks[task as usize].cursor;
            let is_over = cursor.stage == Stage::Issue || now >= cursor.until;
            cursor.stage = Stage::Issue;
            let until = (now + ns as u64).min(cursor.until);
            (!is_over).then_some(Step::Sleep(until))
        }
        What::Served => {
            let t = &mut m.tasks[task as usize];
            if t.cursor.stage == Stage::Issue {
                t.given = 0.0;
                t.cursor.stage = Stage::Ready;
            }
            if t.given <= 0.0 {
                return Some(Step::Wait);
            }
            t.cursor.stage = Stage::Issue;
            Some(Step::Run(Work::Compute, t.given))
        }
        What::Compute { chunk_ns, lock } => chunk(m, task, chunk_ns, lock),
        What::Dma {
            disk,
            class,
            lines,
            think_ns,
        } => disk_block(m, task, Step::Dma { disk, class, lines }, think_ns),
        What::Access {
            class,
            lines,
            every_ns,
            think_ns,
            lock,
        } => {
            let every = every_ns.unwrap_or(0.0);
            block(m, task, class, lines, every, think_ns, lock)
        }
    }
}

/// The next step of a piece of computing, with its lock around it where it has one. A piece is cut off at the
/// end of its phase, also one that is endless.
fn chunk(m: &mut Machine, task: u32, chunk_ns: f64, lock: Option<u32>) -> Option<Step> {
    let now = m.now;
    let cursor = &mut m.tasks[task as usize].cursor;
    match (cursor.stage, lock) {
        (Stage::Ready, _) if now >= cursor.until || cursor.left == 0 => None,
        (Stage::Ready, Some(lock)) => {
            cursor.stage = Stage::Locked;
            Some(Step::Lock(lock))
        }
        (Stage::Ready | Stage::Locked, _) => {
            cursor.stage = Stage::Done;
            cursor.left = cursor.left.saturating_sub(1);
            // An endless chunk still ends with its phase.
            let left = cursor.until.saturating_sub(now).max(1) as f64;
            let left = if cursor.until == u64::MAX {
                f64::INFINITY
            } else {
                left
            };
            Some(Step::Run(Work::Compute, chunk_ns.min(left)))
        }
        _ => {
            cursor.stage = Stage::Ready;
            if let Some(lock) = lock {
                unlock(m, lock);
            }
            chunk(m, task, chunk_ns, lock)
        }
    }
}

/// A block of a disk: the task prepares it, sleeps while it is moved, and goes on.
fn disk_block(m: &mut Machine, task: u32, moved: Step, think_ns: f64) -> Option<Step> {
    let now = m.now;
    let t = &mut m.tasks[task as usize];
    let cursor = &mut t.cursor;
    if cursor.stage == Stage::Locked {
        cursor.stage = Stage::Ready;
        let latency = now - cursor.issued;
        m.workloads[t.workload as usize].tally.end_block(latency);
    }
    if cursor.stage == Stage::Ready {
        if now >= cursor.until || cursor.left == 0 {
            return None;
        }
        cursor.left = cursor.left.saturating_sub(1);
        cursor.issued = now;
        cursor.stage = Stage::Issue;
        if think_ns > 0.0 {
            return Some(Step::Run(Work::Compute, think_ns));
        }
    }
    cursor.stage = Stage::Locked;
    Some(moved)
}

/// The next step of a block: it waits until it is due, takes the lock, moves its lines, gives the lock back
/// and thinks. Its latency is counted from the moment it is issued, so that waiting for the lock is a part of
/// it and thinking is not. A task that is late has its next blocks due at once, but catches up [`BACKLOG_NS`]
/// at most.
fn block(
    m: &mut Machine,
    task: u32,
    class: u32,
    lines: f64,
    every_ns: f64,
    think_ns: f64,
    lock: Option<u32>,
) -> Option<Step> {
    let now = m.now;
    let t = &mut m.tasks[task as usize];
    let cursor = &mut t.cursor;
    match cursor.stage {
        Stage::Enter | Stage::Ready => {
            if now >= cursor.until || cursor.left == 0 {
                return None;
            }
            cursor.left = cursor.left.saturating_sub(1);
            cursor.stage = Stage::Issue;
            if cursor.due > now as f64 {
                return Some(Step::Sleep(ceil_ns(cursor.due).min(cursor.until)));
            }
            block(m, task, class, lines, every_ns, think_ns, lock)
        }
        Stage::Issue => {
            if now >= cursor.until {
                return None;
            }
            cursor.issued = now;
            cursor.due = (cursor.due + every_ns).max(now as f64 - BACKLOG_NS);
            cursor.stage = Stage::Locked;
            match lock {
                Some(lock) => Some(Step::Lock(lock)),
                None => block(m, task, class, lines, every_ns, think_ns, lock),
            }
        }
        Stage::Locked => {
            cursor.stage = Stage::Done;
            Some(Step::Run(Work::Access(class), lines))
        }
        Stage::Done => {
            cursor.stage = Stage::Ready;
            let latency = now - cursor.issued;
            m.workloads[t.workload as usize].tally.end_block(latency);
            if let Some(lock) = lock {
                unlock(m, lock);
            }
            if think_ns > 0.0 {
                return Some(Step::Run(Work::Compute, think_ns));
            }
            block(m, task, class, lines, every_ns, think_ns, lock)
        }
    }
}
