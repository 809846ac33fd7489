// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host as a [`Platform`]. One tick waits for the next point of the tick grid, takes over what came or
//! went (`adopt`), and reads ([`readings`]: what discovery last found, then devices, then workloads).
//!
//! What cannot be read is missing with its reason; what is gone is skipped, counted once, and gone
//! from the next view. Only a machine without CXL memory and without counters cannot be opened.

use crate::backends::cpu_max::CpuMaxBackend;
use crate::backends::sched_ext::Scx;
use crate::backends::{BackendContext, Backends};
use crate::error::LinuxError;
use crate::inventory::group_nodes::groups_on_nodes;
use crate::kernel::clock::{Ticker, now};
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::{Buffer, open_root};
use crate::leases::LeaseBook;
use crate::options::{Options, Roots};
use crate::task_traffic::TaskTraffic;
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::cpu_time::IdleSkips;
use crate::workloads::cpu_time::bpf::CpuTimeBpf;
use crate::workloads::discovery::{Discovery, View};
use crate::workloads::discovery_thread::Pace;
use crate::workloads::exclude::Rules;
use crate::workloads::operator_names::Wanted;
use crate::workloads::processes::node_balance::NodeBalance;
use crate::workloads::processes::sched_policy;
use cpus::CPUS_EVERY;
use hotplug::{ChangePace, Hotplug, ProbedMachine};
use readings::devices::DeviceReader;
use readings::page_migration::PageMigration;
use readings::workloads::WorkloadReader;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weir_core::enforcement::overload_poll::OverloadPoll;
use weir_core::owner::PodNames;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::processes::Processes;
use weir_core::seam::sched_stats::SchedStats;
use weir_core::seam::topology::Fact;
use weir_core::{
    Description, Missing, Nanos, Observation, Outcome, Plan, Platform, PlatformError, WorkloadId,
};

pub struct LinuxPlatform {
    roots: Roots,
    description: Description,
    devices: DeviceReader,
    pub(crate) workloads: WorkloadReader,
    /// Names that the operator gave.
    wanted: Arc<Wanted>,
    pace: Pace,
    /// Rules that count once a view was made with them, and the number of the first such view.
    next_rules: Option<(u64, Rules)>,
    view: Arc<View>,
    backends: Backends,
    /// Counts for each task, where they are wanted and can be had.
    task_traffic: Option<TaskTraffic>,
    ticker: Ticker,
    /// Ticks that come early while a device is overloaded.
    overload_poll: OverloadPoll,
    is_limiting: bool,
    seq: u64,
    nodes_at: Nanos,
    /// When CPUs that are online are counted.
    cpus: ChangePace,
    hotplug: Hotplug,
    /// Facts of the machine itself come first among all; so many.
    fact_count: usize,
    page_migration: PageMigration,
    balance: NodeBalance,
    buffer: Buffer,
}

/// Starts discovery, in a thread or not.
type Start = fn(Discovery) -> io::Result<Pace>;

impl LinuxPlatform {
    /// Opens the host. Unless `read_only`, this takes the lock, so that one weir process limits at a
    /// time, and restores what one that died has left.
    ///
    /// # Errors
    /// [`LinuxError::NoCxl`] if there is nothing to watch; [`LinuxError::Locked`] with the process
    /// id of another weir process; an unsound lock or journal; `/proc` or the cgroup root not there.
    pub fn open(options: Options) -> Result<Self, LinuxError> {
        Self::open_with(options, Pace::thread)
    }

    /// Opens the host with discovery between ticks instead of beside them: for benchmarks and tests, which
    /// need each tick to cost the same and see the same.
    ///
    /// # Errors
    /// As [`LinuxPlatform::open`].
    pub fn open_inline(options: Options) -> Result<Self, LinuxError> {
        Self::open_with(options, Pace::inline)
    }

    /// Opens the machine.
    ///
    /// Names in sysfs are noted before the machine is probed, so that what comes while it is probed counts as
    /// new and is taken up later. The right to limit is taken last: that restores what an earlier weir has
    /// left, and a machine that cannot be opened must not have such an effect.
    fn open_with(options: Options, run: Start) -> Result<Self, LinuxError> {
        let roots = options.roots.clone();
        let mut hotplug = Hotplug::begin(&options);
        let mut found = ProbedMachine::probe(&options, &[]);
        if found.counters.devices.is_empty() {
            return Err(LinuxError::no_cxl(&roots, &found.topology));
        }
        let scx = Scx::choose(&options, found.counters.are_counted())?;
        found.limited_by(scx.as_ref());
        let fact_count = found.description.facts.len();
        let (counters, facts) = (&found.counters, &mut found.description.facts);
        let waits = crate::counters::latency::open(&roots, &found.topology, counters, facts);
        let task_traffic = TaskTraffic::choose(&options, &mut found.description)?;
        let uncounted = adopt::uncounted(&found.topology, counters);
        hotplug.know(uncounted, task_traffic.is_some());
        let proc = open_root(&roots.proc).map_err(|e| LinuxError::io("open", &roots.proc, e));
        let proc = Arc::new(proc?);
        let (budget, for_settled) = Budget::of_process();
        let tree = CgroupTree::open(&roots.cgroup, Arc::clone(&proc), Arc::clone(&budget))
            .map_err(|e| LinuxError::io("open", &roots.cgroup, e))?;
        let (root, rules) = (tree.root(), Rules::to_run(&options, scx.is_some()));
        let mut discovery = Discovery::choose(&options, tree, Arc::clone(&proc), rules.clone())
            .keeping(for_settled);
        discovery.watch(groups_on_nodes(&found.counters.groups));
        let leases = LeaseBook::new(&roots, lease_books::BOOKS);
        let backends = Backends {
            cpu_max: CpuMaxBackend::new(&options, budget),
            sched_ext: scx,
            context: BackendContext::new([&root, &proc].map(Arc::clone), rules, leases),
        };
        let mut pace = run(discovery)
            .map_err(|e| LinuxError::io("start a thread to watch", &roots.proc, e))?;
        hotplug.is_beside = matches!(pace, Pace::Thread { .. });
        let view = pace.view().0;
        let mut platform = LinuxPlatform {
            devices: DeviceReader::new(found.counters, found.bounds, waits),
            workloads: WorkloadReader {
                root,
                own_proc: sched_policy::is_own(&*proc),
                proc,
                usage: CpuTimeBpf::begin(&options),
                idle_skips: IdleSkips::of(&view),
                has_vanished: false,
            },
            view,
            description: found.description,
            wanted: Arc::clone(&backends.context.rules.wanted),
            pace,
            next_rules: None,
            backends,
            task_traffic,
            ticker: Ticker::new(options.interval).ending_after(options.duration),
            overload_poll: OverloadPoll::default(),
            is_limiting: !options.read_only,
            seq: 0,
            nodes_at: now(),
            cpus: ChangePace::new(now(), CPUS_EVERY),
            hotplug,
            fact_count,
            page_migration: PageMigration::default(),
            balance: NodeBalance::of(&options),
            buffer: Buffer::new(),
            roots,
        };
        platform.note_sources();
        platform.say_nodes(&found.topology);
        platform.claim().map(|()| platform)
    }

    /// Takes the right to limit where it is wanted, and notes what an earlier weir process had left.
    fn claim(&mut self) -> Result<(), LinuxError> {
        if !self.is_limiting {
            return Ok(());
        }
        let report = self.backends.claim()?;
        if report.is_empty() {
            return Ok(());
        }
        tracing::warn!(?report, "a weir died while it was limiting");
        let text = format!(
            "restored {}, gone {}, left alone {}, failed {}",
            report.restored.len() + report.unchanged.len(),
            report.vanished.len(),
            report.left_alone.len(),
            report.failed.len()
        );
        let value = if report.is_clean() {
            Ok(text)
        } else {
            let problems = report.problems.join("; ");
            Err(Missing::Lost(format!("{text}; {problems}")))
        };
        let next_move = value.is_err();
        let next_move = next_move.then(|| NextMove {
            act: Act::Deed("read the journal, then: weir reset".into()),
            why: "limits of a weir that died were not all restored".into(),
            needs: Precondition::Operator("this weir has ended".into()),
        });
        let name = "leases.recovered".into();
        self.description.facts.push(Fact {
            name,
            value,
            next_move,
        });
        Ok(())
    }

    /// Sleeps until the next tick is due, and samples the counters for the scheduler meanwhile, if it needs
    /// that.
    fn wait(&mut self) {
        let (backend, devices) = (self.backends.active(), &mut self.devices);
        self.ticker.wait(backend.counts_every(), || {
            backend.on_counts(&devices.plausible().0);
        });
    }

    fn take_over(&mut self, view: &Arc<View>) {
        self.backends.cpu_max.released.follow(view);
        self.workloads.idle_skips.follow(&self.view, view);
        self.view = Arc::clone(view);
        self.take_rules();
        self.note_sources();
    }

    /// Names of devices are scanned at the next tick, and workloads too.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.hotplug.hurry();
        self.pace.hurry();
    }
}

impl Platform for LinuxPlatform {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        self.wait();
        self.follow_machine(now());
        let seen = self.discovered();
        let seen = self.with_unowned_memory(seen);
        let seen = self.counted(seen);
        let seen = self.attributed(seen);
        Ok(self.observation(seen))
    }

    fn on_plan(&mut self, plan: &Plan) {
        if let Some(traffic) = &mut self.task_traffic {
            traffic.on_plan(&plan.devices);
        }
        let interval = self.ticker.interval();
        let early = self.overload_poll.next(plan, interval);
        if let Some(early) = early.filter(|_| self.is_limiting) {
            self.ticker.pull(early);
        }
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        let view = Arc::clone(&self.view);
        let outcomes = self.backends.apply(plan, &view, &self.description);
        let outcome = |(action, result): (&weir_core::Action, OutcomeKind)| Outcome {
            workload: action.workload.clone(),
            result,
        };
        plan.actions.iter().zip(outcomes).map(outcome).collect()
    }

    fn limit_rewrites(&self) -> Option<u64> {
        self.backends.active().limit_rewrites()
    }

    fn scheduler(&self) -> Option<SchedStats> {
        self.backends.active().sched_stats()
    }

    fn processes(&self) -> Arc<BTreeMap<WorkloadId, Processes>> {
        self.view.processes()
    }

    fn pod_names(&self) -> Arc<PodNames> {
        Arc::clone(&self.view.pod_names)
    }

    fn exclude(&mut self, patterns: &[String], weighted: &[String]) {
        let rules = self.backends.context.rules.with_names(patterns, weighted);
        self.wanted = Arc::clone(&rules.wanted);
        self.forget_names();
        let number = self.pace.follow_rules(rules.clone());
        self.next_rules = Some((number, rules));
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        let outcome = |(workload, result)| Outcome { workload, result };
        self.backends
            .release_all()
            .into_iter()
            .map(outcome)
            .collect()
    }
}

impl Drop for LinuxPlatform {
    fn drop(&mut self) {
        for outcome in self.release_all() {
            if let OutcomeKind::Failed(why) = outcome.result {
                tracing::warn!(workload = %outcome.workload, why, "limit left behind: weir reset");
            }
        }
    }
}

#[path = "adopt.rs"]
mod adopt;
mod cpus;
pub(crate) mod description;
mod hotplug;
pub(crate) mod lease_books;
mod readings;
pub(crate) mod trial;

#[cfg(test)]
mod moments_tests;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod view_tests;
