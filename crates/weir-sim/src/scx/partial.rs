// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Partial mode of weir's scheduler: tasks of limited workloads are `SCHED_EXT`, all others stay with the
//! fair class.
//!
//! Below the fair class: a fair task that wakes on a CPU takes it from a `SCHED_EXT` task, which goes
//! back to the run queue. The kernel's guarantee (`ext_server`, Linux 7.0): 50 ms after 950 ms in
//! which no such task ran on a CPU although one waits there. `sched-ext-served` shows the effect of a
//! larger guarantee.

use super::budgets::{Account, Mode, Rate};
use super::{self as scx, Comes, Ext, Rule, WeirScheduler, full};
use crate::cpu::{CpuScheduler, eevdf, realtime};
use crate::engine::machine::{At, Machine};

/// CPU time that is guaranteed to `SCHED_EXT` on each CPU, and in how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub runtime_ns: u64,
    pub period_ns: u64,
}

impl Server {
    /// The server's figures in Linux 7.0 and later.
    pub(crate) const USUAL: Server = Server {
        runtime_ns: 50_000_000,
        period_ns: 1_000_000_000,
    };
    /// The most that deadline tasks may have (95 %) beside the fair class's own 5 %.
    pub(crate) const RAISED: Server = Server {
        runtime_ns: 9_000_000,
        period_ns: 10_000_000,
    };
}

/// What the kernel does for tasks that rank below others.
pub(crate) struct Partial {
    server: Server,
    /// For each CPU: since when no task of ours ran there although one waits there, and until when the server
    /// protects the running task.
    starved: Vec<Option<u64>>,
    served: Vec<u64>,
}

impl Partial {
    pub(crate) fn new(server: Server, cpu_count: usize) -> Self {
        Partial {
            server,
            starved: vec![None; cpu_count],
            served: vec![0; cpu_count],
        }
    }

    /// One of ours runs there.
    pub(crate) fn is_served(&mut self, cpu: u32) {
        self.starved[cpu as usize] = None;
    }
}

impl Ext {
    fn partial(&self) -> Option<&Partial> {
        match &self.rule {
            Rule::Partial(partial) => Some(partial),
            Rule::Full(_) => None,
        }
    }
}

/// Whether a fair task that waits on a CPU takes it from one of ours.
pub(crate) fn gives_way(m: &Machine, cpu: u32) -> bool {
    let partial = m.ext.as_deref().and_then(Ext::partial);
    let served = partial.map_or(0, |p| p.served[cpu as usize]);
    scx::current_on(m, cpu).is_some() && !m.cpus[cpu as usize].queue.is_empty() && m.now >= served
}

/// From now on a workload may move this much; its tasks become ours if they are not yet.
pub(crate) fn hold(m: &mut Machine, workload: usize, rate: Rate) {
    let Some(ext) = m.ext.as_deref_mut() else {
        return;
    };
    if let Some(account) = &mut ext.stats.accounts[workload] {
        (account.rate, account.mode) = (rate, Mode::Limited);
        return;
    }
    let is_ours = matches!(ext.rule, Rule::Full(_));
    let moved = if is_ours {
        Vec::new()
    } else {
        leave_the_fair(m, workload)
    };
    if let Some(ext) = m.ext.as_deref_mut() {
        ext.stats.accounts[workload] = Some(Account::of(rate, Mode::Limited));
    }
    for (task, _) in &moved {
        scx::enqueue(m, *task, Comes::Awake);
    }
    for cpu in moved.into_iter().filter_map(|(_, cpu)| cpu) {
        if m.cpus[cpu as usize].current.is_none() {
            m.pick(cpu);
        }
    }
}

/// Takes a workload's ordinary tasks out of queues and off CPUs: them, and the CPUs they were on.
fn leave_the_fair(m: &mut Machine, workload: usize) -> Vec<(u32, Option<u32>)> {
    let mut moved = Vec::new();
    for task in m.workloads[workload].tasks.clone() {
        if realtime::has(m, task) {
            continue;
        }
        match m.tasks[task as usize].at {
            At::Running(cpu) => {
                m.charge(cpu);
                m.take_off(cpu);
                moved.push((task, Some(cpu)));
            }
            At::Queued(cpu) => {
                eevdf::unqueue(m, cpu, task);
                moved.push((task, None));
            }
            _ => {}
        }
    }
    moved
}

/// A workload is limited no more; in partial mode its tasks go back to the fair class.
pub(crate) fn let_go(m: &mut Machine, workload: usize) {
    let mut waiting = Vec::new();
    if full::of(m).is_none() {
        waiting = leave_ours(m, workload);
    }
    if let Some(ext) = m.ext.as_deref_mut() {
        ext.stats.accounts[workload] = None;
    }
    for (task, cpu) in waiting {
        m.wake(task);
        if let Some(cpu) = cpu
            && m.cpus[cpu as usize].current.is_none()
        {
            m.pick(cpu);
        }
    }
}

fn leave_ours(m: &mut Machine, workload: usize) -> Vec<(u32, Option<u32>)> {
    let mut waiting = Vec::new();
    for task in m.workloads[workload].tasks.clone() {
        match m.tasks[task as usize].at {
            At::Running(cpu) if scx::current_on(m, cpu) == Some(task) => {
                WeirScheduler.leave(m, cpu);
                waiting.push((task, Some(cpu)));
            }
            At::Dispatchable => waiting.push((task, None)),
            _ => {}
        }
        scx::forget(m, task);
    }
    waiting
}

/// The kernel's guarantee for tasks that wait behind others: after a time in which none of ours ran on a
/// CPU although one waits there, a time in which no other task comes before it. Where all waiting tasks
/// last ran on one CPU, they are handed to different ones.
pub(crate) fn serve(m: &mut Machine) {
    let now = m.now;
    let Some(mut ext) = m.ext.take() else {
        return;
    };
    let waits = waits_by_cpu(m, &ext);
    let mut due = Vec::new();
    if let Rule::Partial(partial) = &mut ext.rule {
        let server = partial.server;
        for (cpu, waits) in waits.into_iter().enumerate() {
            let since = &mut partial.starved[cpu];
            *since = waits.then(|| since.unwrap_or(now));
            if since.is_some_and(|s| now - s >= server.period_ns - server.runtime_ns) {
                partial.served[cpu] = now + server.runtime_ns;
                due.push(cpu as u32);
            }
        }
    }
    m.ext = Some(ext);
    for cpu in due {
        if m.ordinary_on(cpu).is_some() {
            m.set_aside(cpu);
            WeirScheduler.pick(m, cpu);
        }
    }
}

fn waits_by_cpu(m: &Machine, ext: &Ext) -> Vec<bool> {
    let count = m.cpus.len();
    let mut waits = vec![false; count];
    for task in ext.queued() {
        let last = m.tasks[task as usize].last_cpu as usize;
        let around = (0..count).map(|c| (last + c) % count);
        let is_ours = |c: usize| {
            let current = m.cpus[c].current.map(|t| m.tasks[t as usize].workload);
            current.is_some_and(|w| ext.stats.accounts[w as usize].is_some())
        };
        let free = around.clone().find(|c| !waits[*c] && !is_ours(*c));
        waits[free.unwrap_or(last)] = true;
    }
    waits
}
