// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tick of weir's scheduler (1 ms), in the order of `bpf/sched/budget_timer.bpf.h`: share out what
//! devices moved, preempt the tasks of throttled workloads, release the tasks that may run. A preemption
//! takes effect at once, as a kick of another CPU does within microseconds.

use super::budgets::{Meter, Rate};
use super::{self as scx, Comes, Ext, Rule, full, partial};
use crate::engine::accounting;
use crate::engine::event_queue::Event;
use crate::engine::machine::Machine;

impl Ext {
    /// Moves those parked tasks of a workload that may go to the run queue: them and their virtual times.
    ///
    /// Two kinds may go, in the order in which they were parked: as many as the workload's budget and the
    /// device's set-point can feed, and those that have been parked for so long that they run whatever the
    /// debt is. The second kind keeps a task with a tiny budget from being parked until the kernel's watchdog
    /// unloads the scheduler.
    fn release(&mut self, workload: usize, now: u64) -> Vec<(u32, u64)> {
        let waiting = self.parked[workload].len() as u64;
        let starvation_ns = self.stats.settings.starvation_ns(waiting);
        let mut left = self.stats.may_go(workload);
        let rate = self.stats.accounts[workload].map(|a| a.rate);
        if self.parked[workload].is_empty() {
            self.stats.open_if_it_may(workload, left);
        }
        let run_ns = self.stats.settings.run_ns;
        let mut going = Vec::new();
        while let Some(&(task, since)) = self.parked[workload].front() {
            let mut meter = rate.map(|r| (&mut self.stats.meters[r.device], r));
            let takes = |(m, _): &(&mut Meter, Rate)| m.takes_one(run_ns);
            let is_fed = left > 0 && meter.as_ref().is_none_or(takes);
            if !is_fed && !weir_sched::starvation_due(since, now, starvation_ns) {
                break;
            }
            if let Some((meter, rate)) = &mut meter {
                meter.load_bytes_per_sec += rate.intensity_bytes_per_sec;
            }
            if is_fed {
                left -= 1;
                self.next = workload + 1;
                self.stats.open(workload);
            }
            self.parked[workload].pop_front();
            going.push((task, self.queue_released(task)));
        }
        going
    }
}

/// Puts the scheduler into the kernel; that alone limits no workload.
pub(crate) fn load(m: &mut Machine, ext: Ext) {
    let at = m.now + ext.stats.settings.tick_ns;
    m.queue.push(at, Event::Budgets);
    m.ext = Some(Box::new(ext));
}

/// One tick, in the order of the BPF program: CPUs are charged first, so that each workload's run time is
/// known; the device's bytes are shared out by it; throttled tasks are preempted; parked ones are released.
pub(crate) fn budgets(m: &mut Machine) {
    for cpu in 0..m.cpus.len() as u32 {
        if scx::current_on(m, cpu).is_some() {
            scx::charge(m, cpu);
        }
    }
    m.settle_all();
    let mut counted = vec![0; m.fluid.device_count()];
    let Some(mut ext) = m.ext.take() else {
        return;
    };
    for (group, device) in ext.devices.iter().enumerate() {
        counted[*device] += accounting::counter(m, group).iter().sum::<u64>();
    }
    let elapsed = m.now - ext.ticked_ns;
    ext.ticked_ns = m.now;
    ext.stats.share_out(&counted, m.now, elapsed);
    for (sum, parked) in ext.parked_ns.iter_mut().zip(&ext.parked) {
        *sum += elapsed * parked.len() as u64;
    }
    m.queue
        .push(m.now + ext.stats.settings.tick_ns, Event::Budgets);
    let is_partial = matches!(ext.rule, Rule::Partial(_));
    m.ext = Some(ext);
    preempt_throttled(m);
    release_parked(m);
    if is_partial {
        partial::serve(m);
    }
}

/// A running task of a throttled workload stops; its CPU takes another one.
fn preempt_throttled(m: &mut Machine) {
    for cpu in 0..m.cpus.len() as u32 {
        let over = scx::current_on(m, cpu).filter(|task| {
            let workload = m.tasks[*task as usize].workload as usize;
            let ext = m.ext.as_deref();
            ext.is_some_and(|e| e.stats.waits(workload))
        });
        if over.is_some() {
            scx::set_aside(m, cpu, Comes::SliceOver);
            m.pick(cpu);
        }
    }
}

/// What the running tasks can move. A task that waits for a CPU moves nothing: were it counted, the
/// device would be left idle for it.
fn weigh_load(m: &mut Machine) {
    let Some(ext) = m.ext.as_deref_mut() else {
        return;
    };
    let stats = &mut ext.stats;
    for meter in &mut stats.meters {
        meter.load_bytes_per_sec = 0;
    }
    for task in m.cpus.iter().filter_map(|c| c.current) {
        let workload = m.tasks[task as usize].workload as usize;
        if let Some(account) = &stats.accounts[workload] {
            let meter = &mut stats.meters[account.rate.device];
            meter.load_bytes_per_sec += account.rate.intensity_bytes_per_sec;
        }
    }
}

/// Workloads round-robin, and of each its oldest task first, as many as its budget feeds and the device
/// takes; those that the starvation guard releases in any case.
fn release_parked(m: &mut Machine) {
    weigh_load(m);
    let count = m.workloads.len();
    let Some(first) = m.ext.as_deref().map(|e| e.next) else {
        return;
    };
    for workload in (0..count).map(|i| (first + i) % count) {
        let now = m.now;
        let ext = m.ext.as_deref_mut();
        let going = ext.map_or(Vec::new(), |e| e.release(workload, now));
        for (task, vtime) in going {
            if !scx::wake_a_cpu(m, task, Comes::Awake) {
                full::preempt_for(m, m.tasks[task as usize].last_cpu, vtime);
            }
        }
    }
}
