// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host as a [`Platform`]. One tick:
//!
//! 1. wait for the next point of the tick grid;
//! 2. read the counters of every device, then `cpu.stat` of every workload that can use one: close
//!    together, since rates are made of both (see [`crate::workloads::cpu_time`]);
//! 3. add what discovery last found (memory by group, weights, limits of others, exclusions).
//!
//! What cannot be read is missing with its reason; what is gone is skipped, counted once, and gone
//! from the next view. Only a machine without CXL memory and without counters cannot be opened.

use crate::backends::cpu_max::CpuMaxBackend;
use crate::backends::sched_ext::Scx;
use crate::backends::{BackendContext, Backends};
use crate::counters::Counters;
use crate::counters::idle_groups::Quiet;
use crate::counters::link_bound::Bounds;
use crate::counters::pmu::latency::Waits;
use crate::error::LinuxError;
use crate::inventory::group_nodes::groups_on_nodes;
use crate::kernel::clock::{Ticker, now};
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::{Buffer, open_root};
use crate::leases::LeaseBook;
use crate::options::{Options, Roots};
use crate::task_traffic::TaskTraffic;
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::cpu_time::bpf::CpuTimeBpf;
use crate::workloads::cpu_time::{self, CpuTimeReader, IdleSkips, Repose, kind};
use crate::workloads::discovery::{Discovery, View, WorkloadSource};
use crate::workloads::discovery_thread::Pace;
use crate::workloads::exclude::Rules;
use crate::workloads::operator_names::Wanted;
use crate::workloads::processes::node_balance::NodeBalance;
use crate::workloads::processes::sched_policy;
use adopt::Stale;
use cpus::CPUS_EVERY;
use hotplug::{ChangePace, Hotplug, ProbedMachine};
use page_migration::PageMigration;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weir_core::enforcement::overload_poll::OverloadPoll;
use weir_core::owner::PodNames;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::observation::{Skipped, WorkloadReading};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::processes::Processes;
use weir_core::seam::sched_stats::SchedStats;
use weir_core::seam::topology::Fact;
use weir_core::{
    CpuShare, Description, Missing, Nanos, Observation, Outcome, Plan, Platform, PlatformError,
    WorkloadId,
};

/// This machine.
pub struct LinuxPlatform {
    roots: Roots,
    description: Description,
    counters: Counters,
    /// What counts of them are held against.
    bounds: Bounds,
    /// Names that the operator gave.
    wanted: Arc<Wanted>,
    pace: Pace,
    /// Rules that count once a view was made with them, and the number of the first such view.
    next_rules: Option<(u64, Rules)>,
    view: Arc<View>,
    rests: IdleSkips,
    quiet: Quiet,
    pub(crate) usage: CpuTimeBpf,
    root: Arc<OwnedFd>,
    proc: Arc<OwnedFd>,
    /// Whether process ids in `proc` are those of weir's own PID namespace, so that the kernel's CPU clocks
    /// can be read by process id.
    own_proc: bool,
    backends: Backends,
    /// Counts for each task, where they are wanted and can be had.
    shares: Option<TaskTraffic>,
    /// Events that measure latency, where there are any.
    waits: Option<Waits>,
    ticker: Ticker,
    rush: OverloadPoll,
    is_limiting: bool,
    seq: u64,
    nodes_at: Nanos,
    /// When CPUs that are online are counted.
    cpus: ChangePace,
    hotplug: Hotplug,
    /// Facts of the machine itself come first among all; so many.
    fact_count: usize,
    stale: Stale,
    page_migration: PageMigration,
    balance: NodeBalance,
    buffer: Buffer,
    space: Vec<u8>,
}

/// Starts discovery, in a thread or not.
type Start = fn(Discovery) -> io::Result<Pace>;

impl LinuxPlatform {
    /// Opens the host. Unless `read_only`, this takes the lock, so that one weir limits at a time,
    /// and restores what a weir left that died.
    ///
    /// # Errors
    /// [`LinuxError::NoCxl`] if there is nothing to watch; [`LinuxError::Locked`] with the process
    /// id of another weir; an unsound lock or journal; `/proc` or the cgroup root not there.
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
        let shares = TaskTraffic::choose(&options, &mut found.description)?;
        let uncounted = adopt::uncounted(&found.topology, counters);
        hotplug.know(uncounted, shares.is_some());
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
            own_proc: sched_policy::is_own(&*proc),
            rests: IdleSkips::of(&view),
            view,
            quiet: Quiet::default(),
            usage: CpuTimeBpf::begin(&options),
            description: found.description,
            counters: found.counters,
            bounds: found.bounds,
            wanted: Arc::clone(&backends.context.rules.wanted),
            pace,
            next_rules: None,
            root,
            proc,
            backends,
            shares,
            waits,
            ticker: Ticker::new(options.interval).ending_after(options.duration),
            rush: OverloadPoll::default(),
            is_limiting: !options.read_only,
            seq: 0,
            nodes_at: now(),
            cpus: ChangePace::new(now(), CPUS_EVERY),
            hotplug,
            fact_count,
            stale: Stale::default(),
            page_migration: PageMigration::default(),
            balance: NodeBalance::of(&options),
            buffer: Buffer::new(),
            space: Vec::new(),
            roots,
        };
        platform.note_sources();
        platform.say_nodes(&found.topology);
        platform.claim().map(|()| platform)
    }

    /// Takes the right to limit where it is wanted, and notes what an earlier weir had left.
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
        let backend = self.backends.active();
        let (counters, space) = (&mut self.counters, &mut self.space);
        let bounds = &mut self.bounds;
        self.ticker.wait(backend.counts_every(), || {
            backend.on_counts(&bounds.read(counters, space).0);
        });
    }

    /// Reads all workloads of the view.
    fn read_workloads(&mut self, view: &View, skipped: &mut Vec<Skipped>) -> Vec<WorkloadReading> {
        let mut seen = Vec::with_capacity(view.workloads.len());
        let (backend, cpu_max) = (self.backends.active(), &self.backends.cpu_max);
        let holds = &cpu_max.holds;
        let mut requests = cpu_time::requests(view, holds, &mut self.rests, &self.quiet);
        let root = self.root.as_fd();
        self.usage.sweep(&mut requests, root, &mut self.buffer);
        let mut reader = CpuTimeReader {
            root,
            proc: &self.proc,
            own_proc: self.own_proc,
            buffer: &mut self.buffer,
            skipped,
            vanished: false,
        };
        for request in &mut requests {
            let (watched, is_idle) = (request.watched, request.repose == Repose::Idle);
            let mut uses_count = true;
            let parked = backend.throttled(&watched.id);
            let told = match request.is_resting {
                true => self.rests.last_times(request.place),
                false => None,
            };
            let times = match told {
                Some(told) => told,
                None => {
                    let Some(times) = reader.read(request) else {
                        continue;
                    };
                    uses_count = self.rests.note(request.place, &watched.source, &times);
                    times
                }
            };
            let (theirs, weight) = match request.hold {
                Some(hold) => (hold.theirs(), hold.weight.theirs()),
                None => match cpu_max.released.get(&watched.id) {
                    Some(released) => (released.limit_cpus, released.weight),
                    None => (watched.limit.and_then(|max| max.cpus()), None),
                },
            };
            // That of a process is its nice value.
            let weight = weight.filter(|_| matches!(watched.source, WorkloadSource::Cgroup(_)));
            seen.push(WorkloadReading {
                id: watched.id.clone(),
                kind: kind(watched),
                cpu_ns: times.0,
                throttled_ns: parked.unwrap_or(times.1),
                resident_bytes: watched.resident_bytes.filter(|_| uses_count && !is_idle),
                uses: match uses_count {
                    true => Arc::clone(&watched.uses),
                    false => Arc::default(),
                },
                weight: weight.unwrap_or(watched.weight),
                limited_weight: request.hold.and_then(|hold| hold.weight.seen()),
                their_limit_cpus: theirs.map(CpuShare::new),
                excluded: watched.excluded.clone(),
            });
        }
        if reader.vanished {
            self.pace.hurry();
        }
        seen
    }

    /// Names of devices are scanned at the next tick, and workloads too.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self) {
        self.hotplug.hurry();
        self.pace.hurry();
    }

    #[cfg(test)]
    pub(crate) fn rests(&self) -> &IdleSkips {
        &self.rests
    }
}

impl Platform for LinuxPlatform {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        self.wait();
        self.follow_machine(now());
        let (view, is_last) = self.pace.view();
        if view.round != self.view.round {
            self.backends.cpu_max.released.follow(&view);
            self.rests.follow(&self.view, &view);
            self.view = Arc::clone(&view);
            self.take_rules();
            self.note_sources();
        }
        let mut skipped = view.skipped.clone();
        if is_last {
            let why = Missing::Lost("discovery ended: workloads are as last seen".into());
            skipped.push(Skipped {
                what: "discovery".into(),
                why,
            });
        }
        skipped.extend(self.backends.unenforced());
        skipped.extend(self.hotplug.standing());
        let unowned_memory = self.balance.read(&view, &mut skipped, &mut self.buffer);
        if self.balance.wants_search() {
            self.balance.searches(self.pace.search());
        }
        if self.balance.wants_round() {
            self.pace.sweep();
        }
        let (mut groups, dropped) = self.bounds.read(&mut self.counters, &mut self.space);
        skipped.extend(dropped);
        self.stale.settle(&view);
        self.stale.hold_back(&mut groups);
        self.quiet.follow(&groups);
        self.backends.active().on_counts(&groups);
        skipped.extend(self.counters.scaled());
        let shares = self.shares.as_mut();
        let taken = shares.map(|shares| shares.take(&view, &mut skipped));
        let mut workloads = self.read_workloads(&view, &mut skipped);
        self.stale.take_out(&mut workloads);
        let task_counts = taken.map(|taken| taken.fill(&mut workloads));
        let seq = self.seq;
        self.seq += 1;
        Ok(Observation {
            seq,
            at: now(),
            groups,
            latencies: self.waits.iter_mut().map(Waits::read).collect(),
            devload: self.counters.loads(),
            running: self.counters.running(),
            probe_traffic: Vec::new(),
            page_migration: self.page_migration.read(&self.proc, &mut self.buffer),
            unowned_memory,
            workloads,
            task_counts: task_counts.unwrap_or_default(),
            skipped,
        })
    }

    fn on_plan(&mut self, plan: &Plan) {
        if let Some(shares) = &mut self.shares {
            shares.on_plan(&plan.devices);
        }
        let interval = self.ticker.interval();
        if let Some(early) = self.rush.next(plan, interval).filter(|_| self.is_limiting) {
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
mod page_migration;
pub(crate) mod trial;

#[cfg(test)]
mod moments_tests;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod view_tests;
