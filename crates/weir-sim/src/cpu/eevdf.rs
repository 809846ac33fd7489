// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's fair scheduler, in what matters here: EEVDF's choice, wake-ups, ticks, `cpu.max`
//! (kernel/sched/fair.c, 6.18). Where tasks are put is in `select`.
//!
//! - Each CPU has a queue. A task is *eligible* when it has had no more than its part (virtual time
//!   at most the weighted mean); of the eligible the one with the earliest deadline runs.
//! - Lag is kept over sleep, throttling and migration (`PLACE_LAG`). A task that leaves with a debt works it
//!   off while others run, and comes back without one at the latest when the mean has passed it or
//!   its CPU was idle (`DELAY_DEQUEUE`, `DELAY_ZERO`).
//! - `RUN_TO_PARITY`: a task that was picked is protected while it is eligible, up to the deadline it
//!   had then. The end of the protection is noticed when the CPU is charged: at a tick, or when a task
//!   wakes there.
//! - *Wake-up preemption*: a task that wakes takes the CPU at once if the choice would fall on it now. A task
//!   that uses little has lag and does so until the lag is used up; then it waits, and earns some.
//!   (`PREEMPT_SHORT` is about slices that differ; here all have the base length.)

use super::cpu_max::CpuMax;
use super::{CpuScheduler, realtime, select};
use crate::engine::machine::{At, Machine};
use crate::scx::{self, Comes, partial};

/// EEVDF needs no state beside that of CPUs and tasks.
pub(crate) struct Eevdf;

/// Weight of nice 0, on the scale of `cpu.weight`.
const NORMAL: f64 = 100.0;

impl CpuScheduler for Eevdf {
    /// A task that wakes first works off its debt, where it left, and then looks for a CPU; its place there
    /// is made of the lag that is left. A task of a group that is throttled on that CPU waits for the refill
    /// and not for the CPU.
    fn wake(&self, m: &mut Machine, task: u32) {
        let left = m.tasks[task as usize].last_cpu;
        work_off(m, left, task);
        let cpu = select::select_cpu(m, task);
        let group = m.tasks[task as usize].workload;
        if m.workloads[group as usize].quota.is_throttled(cpu) {
            let (_, mean) = load(m, cpu);
            let (t, now) = (&mut m.tasks[task as usize], m.now);
            (t.at, t.vruntime, t.slept_at) = (At::Throttled(cpu), mean - t.lag, now);
            return;
        }
        // A current task that finds its quota used up here loses the CPU at its next tick.
        m.charge(cpu);
        enqueue(m, cpu, task);
        if best(m, cpu) == Some(task) {
            m.cpus[cpu as usize].is_choice_due = true;
        }
        go_on(m, cpu);
    }

    fn pick(&self, m: &mut Machine, cpu: u32) -> bool {
        loop {
            if m.cpus[cpu as usize].queue.is_empty() && !select::pull(m, cpu) {
                return false;
            }
            // The kernel does so where none is eligible. Else it would look for one for ever.
            let Some(task) = best(m, cpu).or_else(|| leftmost(m, cpu)) else {
                return false;
            };
            let group = m.tasks[task as usize].workload;
            let now = m.now;
            if m.workloads[group as usize].quota.is_short(cpu, now) && throttle(m, cpu, group) {
                continue;
            }
            m.arm(group);
            m.cpus[cpu as usize].queue.retain(|t| *t != task);
            m.waiting_count -= 1;
            let t = &mut m.tasks[task as usize];
            t.protected = t.deadline;
            m.cpus[cpu as usize].is_choice_due = false;
            m.put_on(cpu, task);
            m.plan(cpu);
            return true;
        }
    }

    fn leave(&self, m: &mut Machine, cpu: u32) {
        let Some(task) = m.cpus[cpu as usize].current else {
            return;
        };
        m.charge(cpu);
        keep_lag(m, cpu, task);
        m.tasks[task as usize].slept_at = m.now;
        m.take_off(cpu);
        let group = m.tasks[task as usize].workload;
        let is_last = !m.cpus[cpu as usize]
            .queue
            .iter()
            .any(|t| m.tasks[*t as usize].workload == group);
        if is_last {
            m.workloads[group as usize].quota.give_back(cpu);
        }
        m.arm(group);
    }

    fn tick(&self, m: &mut Machine, cpu: u32) {
        let Some(task) = m.cpus[cpu as usize].current else {
            return;
        };
        let is_short = m.charge(cpu);
        let group = m.tasks[task as usize].workload;
        if is_short && throttle(m, cpu, group) {
            return m.pick(cpu);
        }
        if m.cpus[cpu as usize].is_choice_due && choose(m, cpu) {
            return;
        }
        if m.idle_count > 0 && !m.cpus[cpu as usize].queue.is_empty() {
            select::push_to_idle(m, cpu);
        }
        m.plan(cpu);
    }

    fn plan(&self, m: &mut Machine, cpu: u32) {
        let c = &m.cpus[cpu as usize];
        let Some(task) = c.current else { return };
        let t = &m.tasks[task as usize];
        let quota = &m.workloads[t.workload as usize].quota;
        let mut at = None;
        if quota.limit().is_some() {
            at = Some(c.charged_at + quota.remaining(cpu).max(0) as u64);
        }
        if !c.queue.is_empty() {
            let left = ((t.protected - t.vruntime).max(0.0) * t.weight / NORMAL) as u64;
            let slice_end = if m.idle_count > 0 {
                m.now
            } else {
                c.charged_at + left
            };
            at = Some(at.map_or(slice_end, |at| at.min(slice_end)));
        }
        m.plan_tick(cpu, at.map(|at| m.tick_at(at)));
    }

    fn charge(&self, m: &mut Machine, cpu: u32, until: u64) -> bool {
        let Some(task) = m.cpus[cpu as usize].current else {
            return false;
        };
        let c = &mut m.cpus[cpu as usize];
        let delta = until.saturating_sub(c.charged_at);
        c.charged_at = until.max(c.charged_at);
        let t = &mut m.tasks[task as usize];
        t.exec_ns += delta;
        t.vruntime += delta as f64 * NORMAL / t.weight;
        // A task that is alone has no other task to give way to.
        c.is_choice_due |= t.vruntime >= t.protected && !c.queue.is_empty();
        if t.vruntime >= t.deadline {
            begin_slice(m, task, until);
        }
        let group = m.tasks[task as usize].workload;
        let is_short = m.workloads[group as usize].quota.charge(cpu, delta, m.now);
        m.arm(group);
        is_short
    }

    fn give_way(&self, m: &mut Machine, cpu: u32) {
        if m.cpus[cpu as usize].is_choice_due {
            choose(m, cpu);
        }
    }

    fn is_fair_class(&self) -> bool {
        true
    }
}

/// A debt becomes smaller while others run on the CPU whose queue the task left. Its virtual time belongs to
/// that queue, and says nothing beside the mean of another.
///
/// It was worked off by the mean of the queue of the task's last CPU, also where the task had been queued or
/// throttled elsewhere. Virtual times of two CPUs have nothing in common, so a debt could become any number.
/// Queues ran away from each other until no task was eligible, and the simulator never came back; a random
/// scenario found it.
fn work_off(m: &mut Machine, cpu: u32, task: u32) {
    let t = &m.tasks[task as usize];
    let (debt, slept_at) = (t.lag, t.slept_at);
    if debt >= 0.0 {
        return;
    }
    m.charge(cpu);
    let (weight, mean) = load(m, cpu);
    let t = &mut m.tasks[task as usize];
    t.lag = if weight > 0.0 && m.cpus[cpu as usize].busy_since <= slept_at {
        // Beside the task the mean is nearer to it.
        ((mean - t.vruntime) * weight / (weight + t.weight)).clamp(debt, 0.0)
    } else {
        0.0
    };
}

/// Chooses the task that should run. True if it is another one than before.
fn choose(m: &mut Machine, cpu: u32) -> bool {
    m.cpus[cpu as usize].is_choice_due = false;
    let (best, current) = (best(m, cpu), m.ordinary_on(cpu));
    let Some(task) = current.filter(|_| best.is_some() && best != current) else {
        return false;
    };
    m.take_off(cpu);
    queue_as_is(m, cpu, task);
    m.pick(cpu);
    true
}

/// CPUs on which a group may run again.
pub(crate) fn release(m: &mut Machine, group: u32, cpus: &[u32]) {
    m.arm(group);
    for &cpu in cpus {
        for task in m.workloads[group as usize].tasks.clone() {
            if m.tasks[task as usize].at == At::Throttled(cpu) {
                m.charge(cpu);
                work_off(m, cpu, task);
                enqueue(m, cpu, task);
            }
        }
        go_on(m, cpu);
    }
}

/// A write of `cpu.max`. CPUs have charged the group up to their last tick only.
pub(crate) fn write_cpu_max(m: &mut Machine, group: u32, limit: Option<CpuMax>) {
    let last_tick = m.now / m.shape.tick_ns * m.shape.tick_ns;
    for task in m.workloads[group as usize].tasks.clone() {
        if let At::Running(cpu) = m.tasks[task as usize].at
            && m.cpus[cpu as usize].charged_at < last_tick
        {
            m.charge_until(cpu, last_tick);
        }
    }
    let now = m.now;
    let released = m.workloads[group as usize].quota.write(limit, now);
    release(m, group, &released);
    if m.ordinary.is_fair_class() {
        for task in m.workloads[group as usize].tasks.clone() {
            if let At::Running(cpu) = m.tasks[task as usize].at {
                m.plan(cpu);
            }
        }
    }
}

fn slice_of(m: &Machine, task: u32) -> f64 {
    m.shape.slice_ns as f64 * NORMAL / m.tasks[task as usize].weight
}

/// A slice is over and the next begins (`update_deadline`). That is noticed at ticks. The ticks of a task
/// that is alone are not in the calendar; they are counted here.
fn begin_slice(m: &mut Machine, task: u32, now: u64) {
    let (tick, slice) = (m.shape.tick_ns, slice_of(m, task));
    let t = &mut m.tasks[task as usize];
    let per_ns = NORMAL / t.weight;
    let over_ns = ((t.vruntime - t.deadline) / per_ns) as u64;
    let noticed = now.saturating_sub(over_ns).div_ceil(tick) * tick;
    let every = m.shape.slice_ns.div_ceil(tick) * tick;
    let last = noticed + now.saturating_sub(noticed) / every * every;
    t.deadline = t.vruntime - now.saturating_sub(last) as f64 * per_ns + slice;
    if noticed > now || t.vruntime >= t.deadline {
        t.deadline = t.vruntime + slice;
    }
}

/// Sum of weights and weighted mean of virtual time on a CPU.
fn load(m: &Machine, cpu: u32) -> (f64, f64) {
    let c = &m.cpus[cpu as usize];
    let current = m.ordinary_on(cpu);
    let all = c.queue.iter().chain(&current);
    let (mut weight, mut sum) = (0.0, 0.0);
    for t in all.map(|t| &m.tasks[*t as usize]) {
        weight += t.weight;
        sum += t.weight * t.vruntime;
    }
    (weight, if weight > 0.0 { sum / weight } else { c.base })
}

/// The eligible task with the earliest deadline. The current task takes part, and is kept while it is
/// protected (`pick_eevdf`).
fn best(m: &Machine, cpu: u32) -> Option<u32> {
    let (_, mean) = load(m, cpu);
    let c = &m.cpus[cpu as usize];
    let current = m.ordinary_on(cpu);
    let is_kept = |task: &u32| {
        let t = &m.tasks[*task as usize];
        t.vruntime <= mean + 1.0 && t.vruntime < t.protected
    };
    if current.as_ref().is_some_and(is_kept) {
        return current;
    }
    let key = |task: &u32| (m.tasks[*task as usize].deadline, *task);
    let eligible = |task: &&u32| m.tasks[**task as usize].vruntime <= mean + 1.0;
    let all = c.queue.iter().chain(&current).filter(eligible);
    all.copied()
        .min_by(|a, b| key(a).0.total_cmp(&key(b).0).then(a.cmp(b)))
}

/// The task of a queue that has had least.
fn leftmost(m: &Machine, cpu: u32) -> Option<u32> {
    let vruntime = |task: &u32| m.tasks[*task as usize].vruntime;
    let all = m.cpus[cpu as usize].queue.iter().copied();
    all.min_by(|a, b| vruntime(a).total_cmp(&vruntime(b)))
}

/// Puts a task into a CPU's queue, in the place its lag gives it.
pub(crate) fn enqueue(m: &mut Machine, cpu: u32, task: u32) {
    let (weight, mean) = load(m, cpu);
    if weight <= 0.0 {
        m.cpus[cpu as usize].busy_since = m.now;
    }
    let slice = slice_of(m, task);
    let t = &mut m.tasks[task as usize];
    // Its own arrival moves the mean: the lag is scaled so that it is what it was afterwards.
    let lag = if weight > 0.0 {
        t.lag * (weight + t.weight) / weight
    } else {
        0.0
    };
    t.vruntime = mean - lag;
    t.deadline = t.vruntime + slice;
    queue_as_is(m, cpu, task);
}

pub(crate) fn queue_as_is(m: &mut Machine, cpu: u32, task: u32) {
    m.tasks[task as usize].at = At::Queued(cpu);
    m.cpus[cpu as usize].queue.push(task);
    m.waiting_count += 1;
}

/// Takes a waiting task out of a queue.
pub(crate) fn unqueue(m: &mut Machine, cpu: u32, task: u32) {
    if realtime::has(m, task) {
        return m.cpus[cpu as usize].realtime.retain(|t| *t != task);
    }
    keep_lag(m, cpu, task);
    m.cpus[cpu as usize].queue.retain(|t| *t != task);
    m.waiting_count -= 1;
}

/// Remembers how much a task is owed, or owes, at most two slices.
fn keep_lag(m: &mut Machine, cpu: u32, task: u32) {
    let (_, mean) = load(m, cpu);
    m.cpus[cpu as usize].base = mean;
    let most = (2.0 * m.shape.slice_ns as f64).max(m.shape.tick_ns as f64);
    let t = &mut m.tasks[task as usize];
    let most = most * NORMAL / t.weight;
    t.lag = (mean - t.vruntime).clamp(-most, most);
}

/// Stops a group on a CPU. False if quota came in at the last moment.
fn throttle(m: &mut Machine, cpu: u32, group: u32) -> bool {
    let now = m.now;
    let is_throttled = m.workloads[group as usize].quota.throttle(cpu, now);
    m.arm(group);
    if !is_throttled {
        return false;
    }
    for task in m.workloads[group as usize].tasks.clone() {
        match m.tasks[task as usize].at {
            _ if realtime::has(m, task) => continue,
            At::Running(c) if c == cpu => {
                keep_lag(m, cpu, task);
                m.take_off(cpu);
            }
            At::Queued(c) if c == cpu => unqueue(m, cpu, task),
            _ => continue,
        }
        let t = &mut m.tasks[task as usize];
        t.at = At::Throttled(cpu);
        t.slept_at = now;
    }
    true
}

/// An idle CPU takes up what is in its queue; a busy one plans its next tick.
pub(crate) fn go_on(m: &mut Machine, cpu: u32) {
    if m.stepping != Some(cpu) && partial::gives_way(m, cpu) {
        scx::set_aside(m, cpu, Comes::Displaced);
    }
    if m.cpus[cpu as usize].current.is_none() {
        m.pick(cpu);
    } else if !m.cpus[cpu as usize].is_choice_due || m.stepping == Some(cpu) || !choose(m, cpu) {
        m.plan(cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_scenario::build;
    use weir_scenario::Scenario;

    const FOUR_ON_TWO: &str = "name = \"four\"\nabout = \"four\"\n[machine]\ncores = 2\n\
        threads_per_core = 1\n[[device]]\n\
        profile = \"agilex-thesis\"\ngroups = 1\n[control]\nset_point_bytes_per_sec = 4e9\nsettle_sec = 1.0\n\
        measure_sec = 1.0\n[[workload]]\n\
        name = \"work\"\ncount = 4\nrole = \"beside\"\n[[workload.phase]]\nkind = \"compute\"\n";

    /// Queues have virtual times of their own. A task may leave one on whose CPU it never ran: what it owes
    /// is told from that queue, and never becomes more.
    #[test]
    fn a_debt_is_worked_off_in_the_queue_in_which_it_was_made() {
        let scenario = Scenario::parse(FOUR_ON_TWO, "test").unwrap_or_else(|e| panic!("{e}"));
        let built = build(&scenario, 1, None).unwrap_or_else(|e| panic!("{e}"));
        let mut m = built.machine;
        m.run_until(100_000_000);
        let task = *m.cpus[1].queue.first().expect("two tasks for each CPU");
        for other in m.cpus[1].queue.clone().iter().chain(&m.ordinary_on(1)) {
            m.tasks[*other as usize].vruntime += 1e12;
        }
        unqueue(&mut m, 1, task);
        let (_, mean) = load(&m, 1);
        let now = m.now;
        let t = &mut m.tasks[task as usize];
        (t.lag, t.vruntime, t.slept_at, t.last_cpu) = (-1e6, mean + 1e6, now, 0);
        work_off(&mut m, 1, task);
        // Beside the task the mean is half as far away.
        let lag = m.tasks[task as usize].lag;
        assert!((lag + 0.5e6).abs() < 1.0, "{lag}");
        m.tasks[task as usize].vruntime = mean + 9e6;
        work_off(&mut m, 1, task);
        assert!(
            (m.tasks[task as usize].lag + 0.5e6).abs() < 1.0,
            "it is no more"
        );
    }
}
