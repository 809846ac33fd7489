// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir's scheduler in partial mode (`bpf/weir.bpf.c`): tasks of limited workloads are `SCHED_EXT`, all
//! others stay with the fair class.
//!
//! ```text
//!  wakes, or its slice ends ─► run queue ─► a CPU without a fair or real-time task
//!                          └─► its workload is to wait: parked, until a tick finds budget for a run and
//!                              room on the device, or it is its turn
//! ```
//!
//! - One run queue, first come, first served; slices of 4 ms, whose end is seen at the kernel's tick.
//! - The scheduler's own tick (1 ms) takes its steps in the order of `bpf/weir_tick.bpf.h`: share out,
//!   cut, release. A cut takes effect at once, as a kick of another CPU does within microseconds.
//! - Below the fair class: a fair task that wakes on a CPU takes it from a `SCHED_EXT` task, which goes
//!   back to the run queue. What the kernel guarantees (`ext_server`, Linux 7.0): 50 ms after 950 ms in
//!   which no such task ran on a CPU although one waits there. `scx-served` asks what would be if weir raised that.
//!
//! Not here: the cost of the tick and of decisions, and the daemon's silence (it never hangs here).

use crate::books::{Account, Books, Rate};
use crate::machine::{At, Machine};
use crate::queue::Event;
use std::collections::VecDeque;

/// The scheduler's state.
pub(crate) struct Partial {
    pub books: Books,
    queue: VecDeque<u32>,
    /// By position of the workload: its parked tasks, and since when.
    parked: Vec<VecDeque<(u32, u64)>>,
    /// Device of each monitoring group.
    devices: Vec<usize>,
    ticked_ns: u64,
    /// The workload that is asked first at the next tick.
    next: usize,
    /// By CPU: since when nobody of ours ran there although somebody of there waits, and until when the
    /// server protects who runs.
    starved: Vec<Option<u64>>,
    served: Vec<u64>,
    /// Longest time a task was parked.
    pub worst_ns: u64,
    /// By position of the workload: time its tasks were parked.
    pub parked_ns: Vec<u64>,
}

impl Partial {
    pub(crate) fn new(books: Books, devices: Vec<usize>, cpu_count: usize) -> Self {
        let workloads = books.accounts.len();
        Partial {
            books,
            queue: VecDeque::new(),
            parked: vec![VecDeque::new(); workloads],
            devices,
            ticked_ns: 0,
            next: 0,
            starved: vec![None; cpu_count],
            served: vec![0; cpu_count],
            worst_ns: 0,
            parked_ns: vec![0; workloads],
        }
    }
}

impl Partial {
    /// Moves those parked tasks of a workload that may go to the run queue.
    fn release(&mut self, workload: usize, now: u64) -> Vec<u32> {
        let waiting = self.parked[workload].len() as u64;
        let turn_ns = self.books.settings.turn(waiting);
        let mut left = self.books.may_go(workload);
        let rate = self.books.accounts[workload].map(|a| a.rate);
        if self.parked[workload].is_empty() {
            self.books.open(workload);
        }
        let mut going = Vec::new();
        while let Some(&(task, since)) = self.parked[workload].front() {
            let mut meter = rate.map(|r| (&mut self.books.meters[r.device], r));
            let takes = |(m, _): &(&mut crate::books::Meter, Rate)| {
                weir_sched::takes_one(m.load_bytes_per_sec, m.set_point_bytes_per_sec)
            };
            let is_fed = left > 0 && meter.as_ref().is_none_or(takes);
            if !is_fed && !weir_sched::has_turn(since, now, turn_ns) {
                break;
            }
            if let Some((meter, rate)) = &mut meter {
                meter.load_bytes_per_sec += rate.intensity_bytes_per_sec;
            }
            if is_fed {
                self.next = workload + 1;
                self.books.open(workload);
            }
            left = left.saturating_sub(1);
            self.parked[workload].pop_front();
            self.worst_ns = self.worst_ns.max(now - since);
            self.queue.push_back(task);
            going.push(task);
        }
        going
    }
}

impl Machine {
    /// Puts the scheduler into the kernel; nobody is limited by that.
    pub(crate) fn load_partial(&mut self, partial: Partial) {
        self.queue
            .push(self.now + partial.books.settings.tick_ns, Event::Budgets);
        self.partial = Some(Box::new(partial));
    }

    /// Whether a task is scheduled by weir.
    pub(crate) fn is_ext(&self, task: u32) -> bool {
        let t = &self.tasks[task as usize];
        let is_held = |p: &Partial| p.books.accounts[t.workload as usize].is_some();
        !t.is_realtime && self.partial.as_deref().is_some_and(is_held)
    }

    /// The current task of a CPU, if it is scheduled by weir.
    pub(crate) fn ext_on(&self, cpu: u32) -> Option<u32> {
        let current = self.cpus[cpu as usize].current;
        current.filter(|task| self.is_ext(*task))
    }

    /// Whether a fair task that waits on a CPU takes it from one of ours.
    pub(crate) fn ext_gives_way(&self, cpu: u32) -> bool {
        let served = self
            .partial
            .as_deref()
            .map_or(0, |p| p.served[cpu as usize]);
        self.ext_on(cpu).is_some()
            && !self.cpus[cpu as usize].queue.is_empty()
            && self.now >= served
    }

    /// From now on a workload may move this much; its tasks change their class if they have not yet.
    pub(crate) fn hold(&mut self, workload: usize, rate: Rate) {
        let Some(partial) = self.partial.as_deref_mut() else {
            return;
        };
        if let Some(account) = &mut partial.books.accounts[workload] {
            account.rate = rate;
            return;
        }
        let tasks = self.workloads[workload].tasks.clone();
        let mut moved = Vec::new();
        for task in tasks {
            if self.is_realtime(task) {
                continue;
            }
            match self.tasks[task as usize].at {
                At::Running(cpu) => {
                    self.charge(cpu);
                    self.take_off(cpu);
                    moved.push((task, Some(cpu)));
                }
                At::Queued(cpu) => {
                    self.unqueue(cpu, task);
                    moved.push((task, None));
                }
                _ => {}
            }
        }
        if let Some(partial) = self.partial.as_deref_mut() {
            partial.books.accounts[workload] = Some(Account {
                rate,
                ..Account::default()
            });
        }
        for (task, _) in &moved {
            self.ext_enqueue(*task);
        }
        for cpu in moved.into_iter().filter_map(|(_, cpu)| cpu) {
            if self.cpus[cpu as usize].current.is_none() {
                self.pick(cpu);
            }
        }
    }

    /// Time a workload was held back so far, by whoever does that.
    pub(crate) fn throttled_ns(&self, workload: usize) -> u64 {
        let parked = self.partial.as_deref().map_or(0, |p| p.parked_ns[workload]);
        parked + self.workloads[workload].quota.stat(self.now).throttled_ns
    }

    /// A workload's tasks go back to the fair class.
    pub(crate) fn let_go(&mut self, workload: usize) {
        let mut waiting = Vec::new();
        for task in self.workloads[workload].tasks.clone() {
            match self.tasks[task as usize].at {
                At::Running(cpu) if self.ext_on(cpu) == Some(task) => {
                    self.ext_leave(cpu);
                    waiting.push((task, Some(cpu)));
                }
                At::Dispatchable => waiting.push((task, None)),
                _ => {}
            }
            self.ext_forget(task);
        }
        if let Some(partial) = self.partial.as_deref_mut() {
            partial.books.accounts[workload] = None;
        }
        for (task, cpu) in waiting {
            self.wake(task);
            if let Some(cpu) = cpu
                && self.cpus[cpu as usize].current.is_none()
            {
                self.pick(cpu);
            }
        }
    }

    pub(crate) fn ext_wake(&mut self, task: u32) {
        self.ext_enqueue(task);
    }

    /// To the run queue, or to the parking queue of its workload.
    fn ext_enqueue(&mut self, task: u32) {
        let (now, workload) = (self.now, self.tasks[task as usize].workload as usize);
        self.tasks[task as usize].at = At::Dispatchable;
        let Some(partial) = self.partial.as_deref_mut() else {
            return;
        };
        if partial.books.waits(workload) {
            partial.parked[workload].push_back((task, now));
            return;
        }
        partial.queue.push_back(task);
        self.ext_wake_a_cpu(task);
    }

    /// An idle CPU takes what is first in the run queue.
    fn ext_wake_a_cpu(&mut self, task: u32) {
        if self.idle_count == 0 {
            return;
        }
        let last = self.tasks[task as usize].last_cpu;
        let (count, step) = (self.cpus.len() as u32, self.shape.threads_per_core);
        let is_idle = |c: &u32| {
            let c = &self.cpus[*c as usize];
            c.current.is_none() && c.queue.is_empty() && c.realtime.is_empty()
        };
        let from_last = |c: u32| (last / step * step + c) % count;
        let mut cores = (0..count).step_by(step as usize).map(from_last);
        let idle = Some(last)
            .filter(|c| is_idle(c))
            .or_else(|| cores.find(|c| (*c..c + step).all(|c| is_idle(&c))))
            .or_else(|| (0..count).map(from_last).find(|c| is_idle(c)));
        // A CPU that is between two steps of its task picks by itself.
        if let Some(cpu) = idle.filter(|c| self.stepping != Some(*c)) {
            self.pick(cpu);
        }
    }

    /// A CPU that has nothing else takes the oldest of the run queue.
    pub(crate) fn ext_pick(&mut self, cpu: u32) {
        let Some(partial) = self.partial.as_deref_mut() else {
            return;
        };
        let Some(task) = partial.queue.pop_front() else {
            return;
        };
        partial.starved[cpu as usize] = None;
        self.tasks[task as usize].slice_ns = partial.books.settings.slice_ns;
        self.put_on(cpu, task);
        self.ext_plan(cpu);
    }

    /// Plans the tick at which the slice is over.
    pub(crate) fn ext_plan(&mut self, cpu: u32) {
        let Some(task) = self.ext_on(cpu) else { return };
        let end = self.now + self.tasks[task as usize].slice_ns;
        self.plan_tick(cpu, Some(self.tick_at(end)));
    }

    pub(crate) fn ext_charge(&mut self, cpu: u32) {
        let now = self.now;
        let c = &mut self.cpus[cpu as usize];
        let Some(task) = c.current else { return };
        let delta = now - c.charged_at;
        c.charged_at = now;
        let t = &mut self.tasks[task as usize];
        t.exec_ns += delta;
        t.slice_ns = t.slice_ns.saturating_sub(delta);
        let workload = t.workload as usize;
        if let Some(partial) = self.partial.as_deref_mut()
            && let Some(account) = &mut partial.books.accounts[workload]
        {
            account.run_ns += delta;
        }
    }

    pub(crate) fn ext_tick(&mut self, cpu: u32) {
        self.ext_charge(cpu);
        let is_over = self
            .ext_on(cpu)
            .is_some_and(|t| self.tasks[t as usize].slice_ns == 0);
        if is_over || self.ext_gives_way(cpu) {
            self.ext_set_aside(cpu);
            // Where nobody else waits it has taken itself already.
            if self.cpus[cpu as usize].current.is_none() {
                self.pick(cpu);
            }
            return;
        }
        self.ext_plan(cpu);
    }

    /// The current task goes back to a queue; the CPU is free then.
    pub(crate) fn ext_set_aside(&mut self, cpu: u32) {
        let Some(task) = self.ext_on(cpu) else { return };
        self.ext_leave(cpu);
        self.ext_enqueue(task);
    }

    pub(crate) fn ext_leave(&mut self, cpu: u32) {
        self.ext_charge(cpu);
        self.take_off(cpu);
    }

    /// A task that ends, or changes its class, leaves its queue.
    pub(crate) fn ext_forget(&mut self, task: u32) {
        if let Some(partial) = self.partial.as_deref_mut() {
            partial.queue.retain(|t| *t != task);
            partial
                .parked
                .iter_mut()
                .for_each(|p| p.retain(|(t, _)| *t != task));
        }
    }

    /// The scheduler's tick.
    pub(crate) fn budgets(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            if self.ext_on(cpu).is_some() {
                self.ext_charge(cpu);
            }
        }
        self.settle_all();
        let mut counted = vec![0; self.fluid.device_count()];
        let Some(mut partial) = self.partial.take() else {
            return;
        };
        for (group, device) in partial.devices.iter().enumerate() {
            counted[*device] += self.counter(group).iter().sum::<u64>();
        }
        let elapsed = self.now - partial.ticked_ns;
        partial.ticked_ns = self.now;
        partial.books.share_out(&counted, elapsed);
        for (sum, parked) in partial.parked_ns.iter_mut().zip(&partial.parked) {
            *sum += elapsed * parked.len() as u64;
        }
        self.queue
            .push(self.now + partial.books.settings.tick_ns, Event::Budgets);
        self.partial = Some(partial);
        self.cut();
        self.release_parked();
        self.serve();
    }

    /// Who runs although its workload is in debt stops; its CPU takes somebody else.
    fn cut(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            let over = self.ext_on(cpu).filter(|task| {
                let workload = self.tasks[*task as usize].workload as usize;
                let partial = self.partial.as_deref();
                partial.is_some_and(|p| p.books.waits(workload))
            });
            if over.is_some() {
                self.ext_set_aside(cpu);
                self.pick(cpu);
            }
        }
    }

    /// What those who run can move. Who waits for a CPU moves nothing: were it counted, the device would
    /// be left idle for it.
    fn weigh_load(&mut self) {
        let Some(partial) = self.partial.as_deref_mut() else {
            return;
        };
        let books = &mut partial.books;
        for meter in &mut books.meters {
            meter.load_bytes_per_sec = 0;
        }
        for task in self.cpus.iter().filter_map(|c| c.current) {
            let workload = self.tasks[task as usize].workload as usize;
            if let Some(account) = &books.accounts[workload] {
                let meter = &mut books.meters[account.rate.device];
                meter.load_bytes_per_sec += account.rate.intensity_bytes_per_sec;
            }
        }
    }

    /// Workloads in turns, and of each its oldest first, as many as its budget feeds and the device
    /// takes; those whose turn it is in any case.
    fn release_parked(&mut self) {
        self.weigh_load();
        let count = self.workloads.len();
        let Some(first) = self.partial.as_deref().map(|p| p.next) else {
            return;
        };
        for workload in (0..count).map(|i| (first + i) % count) {
            let going = self
                .partial
                .as_deref_mut()
                .map_or(Vec::new(), |p| p.release(workload, self.now));
            for task in going {
                self.ext_wake_a_cpu(task);
            }
        }
    }

    /// What the kernel guarantees who waits behind others: after a time in which none of ours ran on a CPU
    /// although one waits there, a time in which nobody comes before it. Where all who wait last ran on
    /// one CPU, they are handed to different ones.
    fn serve(&mut self) {
        let now = self.now;
        let Some(mut partial) = self.partial.take() else {
            return;
        };
        let server = partial.books.settings.server;
        let count = self.cpus.len();
        let mut waits = vec![false; count];
        for task in &partial.queue {
            let last = self.tasks[*task as usize].last_cpu as usize;
            let around = (0..count).map(|c| (last + c) % count);
            let is_ours = |c: usize| {
                let current = self.cpus[c]
                    .current
                    .map(|t| self.tasks[t as usize].workload);
                current.is_some_and(|w| partial.books.accounts[w as usize].is_some())
            };
            let free = around.clone().find(|c| !waits[*c] && !is_ours(*c));
            waits[free.unwrap_or(last)] = true;
        }
        let mut due = Vec::new();
        for (cpu, waits) in waits.into_iter().enumerate() {
            let since = &mut partial.starved[cpu];
            *since = waits.then(|| since.unwrap_or(now));
            if since.is_some_and(|s| now - s >= server.period_ns - server.runtime_ns) {
                partial.served[cpu] = now + server.runtime_ns;
                due.push(cpu as u32);
            }
        }
        self.partial = Some(partial);
        for cpu in due {
            if self.ordinary_on(cpu).is_some() {
                self.set_aside(cpu);
                self.ext_pick(cpu);
            }
        }
    }
}
