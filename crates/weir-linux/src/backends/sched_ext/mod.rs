// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The back end `sched-ext`: limits in device bytes, kept by weir's own scheduler in the kernel (`bpf/`).
//!
//! ```text
//!  Plan ─► rate of each limited workload ─┐
//!          bytes for all others          ─┼─► maps ─► scheduler: budgets, each millisecond
//!          a heartbeat at each tick      ─┘
//!  threads of limited cgroups ─► SCHED_EXT (only those: all others stay where they are)
//! ```
//!
//! - A limited workload may move what the plan says, in device bytes. That follows each plan, also where no
//!   action changes the limit.
//! - The part of the set-point that limited workloads do not get is for the others. All budgets and that part
//!   make the set-point, so the device is held there even where an estimate is wrong.
//! - A thread of `SCHED_EXT` is not under the `cpu.max` of its cgroup, so a workload that has one set
//!   by others is refused.
//! - The scheduler is loaded when weir starts, because that takes its time, and leaves when weir ends. It
//!   begins to schedule at the first tick: a daemon that is one of ten thousand tasks must first write which
//!   share each cgroup has, its own too. While no workload is limited the scheduler has no tasks, and its
//!   timer runs ten times a second.

mod cgroup_map;
mod cpu_room;
mod device_counts;
mod hweight;
mod intf;
mod limited;
pub(crate) mod loader;
mod overload_cap;
mod rate;
mod slots;
mod stats;
pub(crate) mod threads;

use crate::backends::{Backend, BackendContext};
use crate::error::LinuxError;
use crate::kernel::clock::{self, now};
use crate::options::{Backend as BackendChoice, CounterSource, Options, Roots};
use crate::workloads::discovery::View;
use cgroup_map::Owners;
use device_counts::DeviceCounts;
use hweight::Hweights;
use intf::{DeviceCfg, Heartbeat, SchedStats, Settings, WorkloadCtx};
use limited::LimitedWorkload;
use loader::{Loaded, Rule, ScxError};
use overload_cap::Guarded;
use rate::rate_of;
use rustix::fd::AsFd;
use slots::Slots;
pub(crate) use stats::REPORT;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::enforcement::byte_budget::{WholeBudget, others_room, whole};
use weir_core::enforcement::sched_settings::{CARRY, MIN_CPUS, OVERLOAD_CAP, SchedSettings};
use weir_core::seam::observation::{GroupReading, Skipped};
use weir_core::seam::plan::OutcomeKind;
use weir_core::{Description, DeviceId, Missing, Nanos, Plan, Reading, WorkloadId};

/// Ticks of the daemon that may be missed before no workload is limited any more, and the least time.
const PATIENCE_TICKS: u64 = 10;
const PATIENCE_LEAST: Nanos = Nanos::from_millis(2000);
/// Time until the scheduler is loaded again after the kernel has thrown it out. Since Linux 7 the kernel does
/// that at a stall of RCU or a lockup of a CPU, whatever the cause.
const RETRY_AFTER: Nanos = Nanos::from_millis(10_000);
/// There while the driver is loaded and offers functions to BPF programs (`kernel/access_counters/bpf.c`).
const DRIVER_TYPES: &str = "kernel/btf/weir_cxl";
/// Time for bringing threads under the scheduler in one interval: a hundredth of the shortest time that the
/// scheduler waits for weir. Ten thousand threads that were moved or given back at once kept weir silent for
/// seconds, and the scheduler suspends limits then.
const MOVING: Nanos = Nanos::from_millis(20);
/// Cgroups of which the threads are checked at one tick.
const FOLLOWED_AT_ONCE: usize = 32;

/// Why this back end cannot be used here, as far as can be said without trying.
pub(crate) fn refusal(roots: &Roots) -> Option<String> {
    loader::refusal(roots).map(|e| e.to_string())
}

pub(crate) fn settings_for(options: &Options) -> Settings {
    let interval = clock::nanos(options.interval);
    let patience = interval
        .0
        .saturating_mul(PATIENCE_TICKS)
        .max(PATIENCE_LEAST.0);
    let set = SchedSettings::for_period(clock::nanos(options.period));
    Settings {
        tick_ns: set.tick.0,
        burst_ns: set.burst.0,
        debt_ns: set.debt.0,
        starvation_ns: set.starvation.0,
        starvation_each_ns: set.starvation_each.0,
        starvation_max_ns: set.starvation_max.0,
        run_ns: set.run.0,
        heartbeat_timeout_ns: patience,
        cpu_count: 0,
        queue_count: 0,
    }
}

pub(crate) struct Scx {
    roots: Roots,
    settings: Settings,
    loaded: Option<Loaded>,
    rule: Rule,
    counts: DeviceCounts,
    slots: Slots,
    owners: Owners,
    /// Shares of leaves; used in full mode only.
    shares: Hweights,
    holds: BTreeMap<WorkloadId, LimitedWorkload>,
    /// Full mode only: workloads that are not limited.
    guarded: BTreeMap<WorkloadId, Guarded>,
    beat: Heartbeat,
    /// How often the scheduler had suspended all limits for want of a heartbeat.
    opened: u64,
    followed: Option<WorkloadId>,
    /// A thread that is not under the scheduler by then has to wait for the next interval.
    moving_until: Nanos,
    /// Why it is not in the kernel although it should be, and when to try again.
    trouble: Option<(String, Nanos)>,
}

impl Scx {
    /// This back end, if it is chosen and can be used. `is_counted`: weir can read what devices move.
    ///
    /// # Errors
    /// It is chosen by name, and something stands in its way.
    pub(crate) fn choose(options: &Options, is_counted: bool) -> Result<Option<Self>, LinuxError> {
        if options.read_only || options.backend == BackendChoice::CpuMax {
            return Ok(None);
        }
        if options.backend == BackendChoice::Auto
            && let Some(why) = cpu_room::shortage(&options.roots)
        {
            tracing::info!("limits by cpu.max: {why}");
            return Ok(None);
        }
        if options.backend == BackendChoice::SchedExt
            && let Some(why) = cpu_room::shortage(&options.roots)
        {
            tracing::warn!("limited tasks may get less than their limit: {why}");
        }
        let mut scx = Scx::new(options, is_counted);
        match scx.load() {
            Ok(()) => Ok(Some(scx)),
            Err(why) if options.backend != BackendChoice::Auto => Err(LinuxError::NoScheduler(why)),
            Err(why) => {
                tracing::info!("limits by cpu.max: {why}");
                Ok(None)
            }
        }
    }

    /// What the controller has to know of it. A write costs nothing and is exact.
    pub(crate) fn describe(&self) -> weir_core::seam::topology::Actuator {
        weir_core::seam::topology::Actuator {
            name: "sched-ext".into(),
            levers: vec![weir_core::seam::topology::Lever::DeviceBytes],
            min_cpus: MIN_CPUS,
            grain_ns: Nanos(self.settings.tick_ns),
            refill_on_write_ratio: 0.0,
            period_ns: Nanos(self.settings.burst_ns),
            min_quota_ns: Nanos(0),
            // What an estimate missed is charged later.
            is_exact: matches!(self.rule, Rule::Partial | Rule::Full)
                && self.counts != DeviceCounts::Not,
        }
    }

    /// Whether all ordinary tasks are the scheduler's.
    pub(crate) fn takes_all(&self) -> bool {
        self.rule.takes_all()
    }

    fn new(options: &Options, is_counted: bool) -> Self {
        let settings = settings_for(options);
        Scx {
            roots: options.roots.clone(),
            settings,
            loaded: None,
            rule: match options.backend {
                BackendChoice::SchedExtFull => Rule::Full,
                #[cfg(feature = "thesis")]
                BackendChoice::Thesis(variant) => Rule::Thesis(variant),
                BackendChoice::CpuMax | BackendChoice::SchedExt | BackendChoice::Auto => {
                    Rule::Partial
                }
            },
            // Where events of perf are used, the device is counted by them alone.
            counts: if options.counters != CounterSource::Perf
                && options.roots.sys.join(DRIVER_TYPES).exists()
            {
                DeviceCounts::Itself
            } else if is_counted {
                DeviceCounts::ByUs
            } else {
                DeviceCounts::Not
            },
            slots: Slots::below(intf::MAX_SLOTS),
            owners: Owners::default(),
            shares: Hweights::new(),
            holds: BTreeMap::new(),
            guarded: BTreeMap::new(),
            beat: Heartbeat {
                slots: 1,
                ..Heartbeat::default()
            },
            opened: 0,
            followed: None,
            moving_until: Nanos(0),
            trouble: None,
        }
    }

    /// Puts the scheduler into the kernel, if it is not there.
    ///
    /// All that weir remembers of the scheduler's maps is forgotten with it: the maps of the new one are
    /// empty. After a failure the reason stands for [`RETRY_AFTER`], so that not each tick loads a program
    /// that the kernel refuses.
    fn load(&mut self) -> Result<(), String> {
        if self.loaded.is_some() {
            return Ok(());
        }
        if let Some((why, until)) = &self.trouble
            && now() < *until
        {
            return Err(why.clone());
        }
        let loaded = match loader::refusal(&self.roots) {
            Some(why) => Err(why),
            None => Loaded::new(self.settings, self.rule),
        };
        match loaded {
            Ok(loaded) => {
                self.trouble = None;
                self.opened = 0;
                self.slots = Slots::below(intf::MAX_SLOTS);
                self.owners = Owners::default();
                self.shares = Hweights::new();
                self.guarded = BTreeMap::new();
                self.beat.slots = 1;
                self.loaded = Some(loaded);
                Ok(())
            }
            Err(why) => {
                let why = why.to_string();
                self.trouble = Some((why.clone(), Nanos(now().0.saturating_add(RETRY_AFTER.0))));
                Err(why)
            }
        }
    }

    /// Has it schedule, if it does not yet.
    fn start(&mut self) -> Result<(), String> {
        let Some(loaded) = &mut self.loaded else {
            return Ok(());
        };
        if !loaded.start().map_err(|why| why.to_string())? {
            return Ok(());
        }
        let tasks = self.rule.scheduled_tasks();
        tracing::info!("weir's scheduler is in the kernel, for {tasks}");
        // With many tasks that takes longer than it waits for us; its clock ran already.
        self.say_we_live().map_err(|why| why.to_string())?;
        self.opened = self.life().map_or(0, |life| life.suspensions);
        Ok(())
    }

    /// Before and after what may take long.
    fn say_we_live(&mut self) -> Result<(), ScxError> {
        self.beat.count += 1;
        let loaded = self.loaded.as_ref();
        loaded.map_or(Ok(()), |loaded| loaded.set_beat(self.beat))
    }

    /// It schedules no task any more, and is not loaded again at once.
    fn lose(&mut self, why: String, context: &mut BackendContext) {
        tracing::warn!("{why}");
        self.trouble = Some((why, Nanos(now().0.saturating_add(RETRY_AFTER.0))));
        self.loaded = None;
        self.release_all(context);
    }

    /// If the kernel has thrown the scheduler out, all tasks run under the kernel's own again; what is
    /// left is to say so and to give them their policies back.
    fn notice_the_end(&mut self, context: &mut BackendContext) {
        let Some(end) = self.loaded.as_ref().and_then(Loaded::end) else {
            return;
        };
        let why = format!("the kernel took weir's scheduler out: {}", end.text);
        self.report(&end);
        self.lose(why, context);
    }

    /// If weir was silent for too long, no workload was limited meanwhile. The log must say so: the bandwidth
    /// of that time shows it.
    fn notice_silence(&mut self) {
        let Some(life) = self.life() else { return };
        if life.suspensions > self.opened {
            let patience_ms = self.settings.heartbeat_timeout_ns / 1_000_000;
            tracing::warn!(
                "scheduler lost weir's heartbeat for {patience_ms} ms and suspended all limits {} times",
                life.suspensions - self.opened
            );
        }
        self.opened = life.suspensions;
    }

    fn life(&self) -> Option<SchedStats> {
        self.loaded.as_ref().and_then(Loaded::life)
    }

    /// Full mode: gives the scheduler the share of the CPUs of each cgroup.
    fn share(
        &mut self,
        plan: &Plan,
        view: &View,
        context: &mut BackendContext,
    ) -> Result<(), ScxError> {
        let Some(loaded) = self.loaded.as_ref().filter(|_| self.rule == Rule::Full) else {
            return Ok(());
        };
        let root = Arc::clone(&context.root);
        let news = self
            .shares
            .update(view, plan, root.as_fd(), &mut context.buffer);
        for (index, weight) in news.weights {
            loaded.set_share(index, weight)?;
        }
        if !news.indices.is_empty() {
            self.beat.epoch += 1;
        }
        for (cgroup, share) in news.indices {
            let slot = self.owners.set_share(cgroup, share);
            loaded.own(cgroup, slot, share)?;
        }
        Ok(())
    }

    /// Gives the scheduler all rates, and a heartbeat.
    fn feed(&mut self, plan: &Plan, machine: &Description) -> Result<(), ScxError> {
        let Some(loaded) = &self.loaded else {
            return Ok(());
        };
        let mut given: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for (id, hold) in self.holds.iter_mut().filter(|(_, h)| !h.is_leaving) {
            let budget = plan.budget_of(id).map(WholeBudget::from);
            if let Some(rate) = budget.map(|budget| rate_of(budget, hold.rate.device))
                && rate != hold.rate
            {
                hold.rate = rate;
                loaded.set_rate(hold.slot, rate)?;
            }
            *given.entry(hold.device).or_default() += hold.rate.bytes_per_sec;
        }
        let fits = |d: &&weir_core::seam::topology::Device| (d.id.0 as usize) < intf::MAX_DEVICES;
        let mut devices = 0;
        for device in machine.devices.iter().filter(fits) {
            devices = devices.max(device.id.0 + 1);
            let state = plan.devices.iter().find(|d| d.id == device.id);
            let target = state.and_then(weir_core::seam::plan::DeviceState::target);
            let target = target.map_or(0, |t| whole(t.get()));
            let given = given.get(&device.id).copied().unwrap_or(0);
            let groups = machine.groups.iter().filter(|g| g.id.device == device.id);
            let nodes: Option<Vec<u64>> = groups.map(|g| g.node.map(|n| u64::from(n.0))).collect();
            let nodes = nodes
                .filter(|_| self.counts == DeviceCounts::Itself)
                .unwrap_or_default();
            let cfg = DeviceCfg {
                set_point_bytes_per_sec: target,
                others_bytes_per_sec: state.map_or(0, |d| others_room(d, given)),
                // While no workload is limited all of it is for the others, and what they leave of it is no
                // credit.
                carry_bytes: if given > 0 {
                    whole(target as f64 * CARRY.secs_f64())
                } else {
                    0
                },
                overload_cap_bytes: if self.rule == Rule::Full {
                    whole(target as f64 * OVERLOAD_CAP.secs_f64())
                } else {
                    0
                },
                ..intf::device_of(&nodes)
            };
            loaded.set_device(device.id.0, &cfg)?;
        }
        // A device that went has neither counters nor a set-point.
        for gone in (0..devices).filter(|n| machine.devices.iter().all(|d| d.id.0 != *n)) {
            loaded.set_device(gone, &DeviceCfg::default())?;
        }
        self.beat.count += 1;
        self.beat.devices = u64::from(devices);
        loaded.set_beat(self.beat)
    }

    /// What it cannot follow of a machine that has changed, and what to do.
    pub(crate) fn outgrown(
        &self,
        devices: &[weir_core::seam::topology::Device],
        is_counted: bool,
    ) -> Option<String> {
        if let Some(device) = devices
            .iter()
            .find(|d| d.id.0 as usize >= intf::MAX_DEVICES)
        {
            let (id, last) = (device.id, intf::MAX_DEVICES - 1);
            return Some(format!(
                "it knows devices 0 to {last}, and {id} came: restart weir with --backend cpu-max to limit for that one"
            ));
        }
        (is_counted && self.counts == DeviceCounts::Not).then(|| {
            "counters came after it was loaded, and it goes by estimates: restart weir to use them".into()
        })
    }

    fn count(&self, id: &WorkloadId) -> Option<WorkloadCtx> {
        let held = self.holds.get(id).map(|h| h.slot);
        let slot = held.or_else(|| self.guarded.get(id).map(|g| g.slot))?;
        self.loaded.as_ref()?.count(slot)
    }
}

impl Backend for Scx {
    fn apply(
        &mut self,
        plan: &Plan,
        view: &View,
        machine: &Description,
        context: &mut BackendContext,
    ) -> Vec<OutcomeKind> {
        self.notice_the_end(context);
        let was_limiting = !(self.holds.is_empty() && self.guarded.is_empty());
        if was_limiting {
            self.notice_silence();
        }
        self.drop_the_gone(view, context);
        self.moving_until = Nanos(now().0.saturating_add(MOVING.0));
        let mut outcomes = Vec::with_capacity(plan.actions.len());
        for action in &plan.actions {
            outcomes.push(self.change(action, view, context));
        }
        let fed = self
            .share(plan, view, context)
            .and_then(|()| self.guard(plan, view))
            .and_then(|()| self.feed(plan, machine));
        if let Err(why) = fed {
            tracing::warn!("{why}");
        }
        if let Err(why) = self.start() {
            self.lose(why, context);
        }
        if !was_limiting {
            // Without a limit, a silence until now did no harm.
            self.opened = self.life().map_or(0, |life| life.suspensions);
        }
        self.follow(context);
        outcomes
    }

    fn release_all(&mut self, context: &mut BackendContext) -> Vec<(WorkloadId, OutcomeKind)> {
        let ids: Vec<_> = self.holds.keys().cloned().collect();
        let outcomes = ids.into_iter().map(|id| {
            let released = self.release_now(&id, context);
            (id, released)
        });
        outcomes.collect()
    }

    fn unenforced(&mut self) -> Option<Skipped> {
        let (why, _) = self.trouble.as_ref()?;
        Some(Skipped {
            what: "weir's scheduler".into(),
            why: Missing::NotSupported(why.clone()),
        })
    }

    /// Time its tasks were parked.
    fn throttled(&self, id: &WorkloadId) -> Option<Reading<Nanos>> {
        let count = self.count(id)?;
        Some(Reading::new(now(), Nanos(count.parked_ns)))
    }

    fn counts_every(&self) -> Option<Nanos> {
        self.looks_every()
    }

    fn on_counts(&self, groups: &[GroupReading]) {
        self.look(groups);
    }

    fn sched_stats(&self) -> Option<weir_core::seam::sched_stats::SchedStats> {
        self.books()
    }
}
