// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slow half of observing: which workloads there are, and their slow facts. It runs in a
//! thread of its own, about once a second (every two where weir only observes), and leaves its findings as
//! one [`View`]; a tick takes the newest view and never waits for a walk or for page tables.
//!
//! One round:
//! 1. *find* workloads: leaves of the cgroup tree, or processes;
//! 2. *read* the processes: all at once, where the kernel lets us ([`crate::workloads::task_iter`]), else
//!    those of each workload. Read the weight and the limit of each (see
//!    [`crate::workloads::cgroups::cache`], new ones at once);
//! 3. *scan* the memory of processes, within a time budget (see [`crate::workloads::processes`]);
//! 4. *classify* each workload: how much memory it has in which group, and whether it may be limited.

use super::cgroups::cache::{CachedCgroup, OWNER_EVERY, OWNER_SELDOM, PIDS_EVERY, PidSource};
use super::cgroups::inner::Inner;
use super::cgroups::non_leaf::{Lists, Outside, hidden};
use super::cgroups::pod_names::PodLogs;
use super::cgroups::tree::{CgroupTree, Leaf, LeafKind};
use super::cgroups::walk::Delegated;
use super::classify::{Classifier, processes, uses};
use super::cond_resched::CondResched;
use super::exclude::Rules;
use super::processes::ProcessCache;
use super::processes::node_balance::owned;
use super::processes::proc_pid::weight_of_nice;
use super::processes::process_set::ProcessSet;
use super::task_iter::Tasks;
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::clock::now;
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::Buffer;
use crate::kernel::parse::cgroup::CpuMax;
use crate::options::{By, Options};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_core::seam::observation::{Excluded, Use};
use weir_core::seam::processes::Processes;
use weir_core::{Bytes, Nanos, WorkloadId};

use super::view::listed;
pub(crate) use super::view::{Process, View};

/// Time for scans of memory in the first round and in later ones.
const FIRST_BUDGET: Nanos = Nanos::from_millis(2000);
const BUDGET: Nanos = Nanos::from_millis(50);

/// A workload and the slow facts about it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) id: WorkloadId,
    pub(crate) source: WorkloadSource,
    pub(crate) weight: f64,
    pub(crate) limit: Option<CpuMax>,
    pub(crate) excluded: Option<Excluded>,
    pub(crate) uses: Arc<[Use]>,
    /// All its memory, where that is known.
    pub(crate) resident_bytes: Option<Bytes>,
    /// The processes in it, if it has memory on a device.
    pub(crate) processes: Option<Processes>,
}

#[derive(Clone, Debug)]
pub(crate) enum WorkloadSource {
    Cgroup(Arc<Leaf>),
    Process(Arc<Process>),
    Set(Arc<ProcessSet>),
    Inner(Arc<Inner>),
}

impl WorkloadSource {
    /// Whether a tick found that it is gone.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            WorkloadSource::Cgroup(leaf) => leaf.is_gone(),
            WorkloadSource::Process(process) => process.gone.load(Ordering::Relaxed),
            // Once these are gone, they are not in the next view.
            WorkloadSource::Set(_) | WorkloadSource::Inner(_) => false,
        }
    }
}

/// What workloads are, and what remembers them.
enum Finder {
    Cgroups {
        tree: CgroupTree,
        /// The leaves with what is known of each, in the order of their paths.
        cached: Vec<(Arc<Leaf>, CachedCgroup)>,
    },
    Processes {
        known: BTreeMap<WorkloadId, Arc<Process>>,
    },
}

pub(crate) struct Discovery {
    finder: Finder,
    members: ProcessCache,
    groups: Vec<GroupOnNode>,
    rules: Rules,
    proc: Arc<OwnedFd>,
    tasks: Tasks,
    pod_logs: PodLogs,
    /// When all of them are to be read at once again.
    sweep_at: Nanos,
    outside: Outside,
    delegated: Arc<Delegated>,
    buffer: Buffer,
    round: u64,
    rests: CondResched,
    /// Whether it rests at all: where it has a thread of its own.
    may_rest: bool,
    is_for_limits: bool,
    /// For files of what is settled.
    kept: Arc<Budget>,
}

impl Discovery {
    /// Makes the discovery that `options` ask for.
    pub(crate) fn choose(
        options: &Options,
        tree: CgroupTree,
        proc: Arc<OwnedFd>,
        rules: Rules,
    ) -> Self {
        let discovery = match options.by {
            By::Cgroup => Self::of_cgroups(tree, proc, rules),
            By::Process => Self::of_processes(proc, rules),
        };
        let tasks = Tasks::begin(options);
        let mut discovery = discovery.with_tasks(tasks).for_limits(!options.read_only);
        discovery.pod_logs = PodLogs::of(&options.roots);
        discovery
    }

    pub(crate) fn of_cgroups(tree: CgroupTree, proc: Arc<OwnedFd>, rules: Rules) -> Self {
        let tree = tree.by_rules(&rules);
        Self::new(
            Finder::Cgroups {
                tree,
                cached: Vec::new(),
            },
            proc,
            rules,
        )
    }

    pub(crate) fn of_processes(proc: Arc<OwnedFd>, rules: Rules) -> Self {
        Self::new(
            Finder::Processes {
                known: BTreeMap::new(),
            },
            proc,
            rules,
        )
    }

    fn new(finder: Finder, proc: Arc<OwnedFd>, rules: Rules) -> Self {
        let members = ProcessCache::new(Arc::clone(&proc), Vec::new());
        Discovery {
            finder,
            members,
            groups: Vec::new(),
            rules,
            proc,
            tasks: Tasks::walk(),
            pod_logs: PodLogs::default(),
            sweep_at: Nanos(0),
            outside: Outside::default(),
            delegated: Arc::default(),
            buffer: Buffer::new(),
            round: 0,
            rests: CondResched::default(),
            may_rest: false,
            is_for_limits: false,
            kept: Budget::new(0),
        }
    }

    /// Processes are learned from there, and no more from files alone.
    pub(crate) fn with_tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// What it finds is for limits.
    pub(crate) fn for_limits(mut self, is_for_limits: bool) -> Self {
        self.is_for_limits = is_for_limits;
        self.members.hurries = is_for_limits;
        self
    }

    /// Files of what is settled stay open out of `budget`.
    pub(crate) fn keeping(mut self, budget: Arc<Budget>) -> Self {
        self.kept = budget;
        self
    }

    pub(crate) fn is_for_limits(&self) -> bool {
        self.is_for_limits
    }

    /// From now on it keeps no CPU busy for long. While there is a process of unknown memory, it does not
    /// pause.
    pub(crate) fn take_time(&mut self) {
        self.may_rest = true;
    }

    /// The groups of which the nodes count from now on.
    pub(crate) fn watch(&mut self, groups: Vec<GroupOnNode>) {
        let mut nodes: Vec<_> = groups.iter().map(|g| g.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.members.watch(nodes);
        self.groups = groups;
        if let Finder::Cgroups { cached, .. } = &mut self.finder {
            for (_, cgroup) in cached {
                (cgroup.charged, cgroup.watched) = (None, None);
            }
        }
    }

    pub(crate) fn follow_rules(&mut self, rules: Rules) {
        self.rules = rules;
        if let Finder::Cgroups { cached, .. } = &mut self.finder {
            for (_, cgroup) in cached {
                cgroup.watched = None;
            }
        }
    }

    /// Memory has come, and it is not known which workload has it: what may have grown is read again in the
    /// next round. All processes are met in it.
    pub(crate) fn search(&mut self) {
        self.members.search();
        self.sweep_at = Nanos(0);
        if let Finder::Cgroups { cached, .. } = &mut self.finder {
            cached.iter_mut().for_each(|(_, cgroup)| cgroup.search());
        }
    }

    /// The next round reads all processes at once, where it can.
    pub(crate) fn sweep(&mut self) {
        self.sweep_at = Nanos(0);
    }

    /// Whether there is a process of which the memory was never read.
    pub(crate) fn has_unread(&self) -> bool {
        self.members.has_unread()
    }

    pub(crate) fn round(&mut self, at: Nanos) -> View {
        self.round += 1;
        let budget = if self.round == 1 {
            FIRST_BUDGET
        } else {
            BUDGET
        };
        self.rests.begin(self.may_rest && !self.has_unread());
        self.members.begin_round();
        let mut view = View {
            round: self.round,
            ..View::default()
        };
        match &mut self.finder {
            Finder::Cgroups { .. } => self.cgroups(at, budget, &mut view),
            Finder::Processes { .. } => self.processes(at, budget, &mut view),
        }
        view.tasks = self.tasks.told();
        view.pod_names = self.pod_logs.names();
        view.delegated = Arc::clone(&self.delegated);
        view.workloads.sort_by(|a, b| a.id.cmp(&b.id));
        view.owned = owned(&self.groups, &view.workloads);
        view
    }

    fn cgroups(&mut self, at: Nanos, budget: Nanos, view: &mut View) {
        self.read_cgroups(at);
        let until = Nanos(now().0.saturating_add(budget.0));
        self.members.scan(at, until, &mut self.buffer);
        self.classify_cgroups(at, view);
    }

    /// The cgroups, and the processes in them.
    fn read_cgroups(&mut self, at: Nanos) {
        let Finder::Cgroups { tree, cached } = &mut self.finder else {
            return;
        };
        tree.refresh(at, &mut self.buffer);
        let delegated = tree.delegated();
        if *self.delegated != delegated {
            self.delegated = Arc::new(delegated);
            self.tasks.follow(&self.delegated);
            // Processes of cgroups that became parts of others, or are none any more.
            self.sweep_at = at;
        }
        let root = tree.root();
        let mut table = None;
        if at >= self.sweep_at {
            table = self.tasks.sweep(&mut || self.rests.rest());
            self.sweep_at = Nanos(at.0.saturating_add(PIDS_EVERY.0));
        }
        let how = match &table {
            Some(table) => PidSource::Table(table),
            None if self.tasks.is_walk() => PidSource::Lists,
            None => PidSource::NewOnes,
        };
        let owner_every = if self.is_for_limits {
            OWNER_EVERY
        } else {
            OWNER_SELDOM
        };
        let mut before = std::mem::take(cached).into_iter().peekable();
        for leaf in tree.leaves() {
            // Both are in the order of paths.
            while before.next_if(|(old, _)| old.path < leaf.path).is_some() {}
            let old = before.next_if(|(old, _)| old.path == leaf.path);
            let mut cgroup = CachedCgroup::of(
                leaf,
                old.map(|(_, cgroup)| cgroup),
                root.as_fd(),
                at,
                how,
                owner_every,
                &mut self.buffer,
            );
            let mut is_unchanged = true;
            for pid in cgroup.pids.iter().flatten() {
                // A process that was met when the list was read is there as far as the list knows.
                if cgroup.at != at && self.members.still_known(*pid) {
                    continue;
                }
                self.members
                    .meet_by(table.as_ref(), *pid, at, &mut self.buffer);
                is_unchanged &= self.members.is_calm(*pid);
                self.rests.rest();
            }
            if cgroup.at == at
                && matches!(how, PidSource::Lists)
                && !self.is_for_limits
                && cgroup.settle(is_unchanged)
            {
                cgroup.keep_list(leaf, root.as_fd(), &self.kept);
                for pid in cgroup.pids.iter().flatten() {
                    self.members.keep_stat(*pid, &self.kept);
                }
            }
            cached.push((Arc::clone(leaf), cgroup));
        }
        self.read_outside(how, at);
    }

    /// Finds processes that are in no leaf: in the root cgroup, in inner cgroups, and below delegated ones.
    ///
    /// They are looked for whenever the list of a delegated cgroup was read in the same round. Between that
    /// list and this look a process could move, and was then in neither; its bytes were charged to a
    /// neighbour for two seconds.
    fn read_outside(&mut self, how: PidSource<'_>, at: Nanos) {
        let Finder::Cgroups { tree, cached } = &mut self.finder else {
            return;
        };
        let in_leaves = cached.iter().flat_map(|(_, cgroup)| cgroup.listed());
        let is_read = |(leaf, cgroup): &(Arc<Leaf>, CachedCgroup)| {
            leaf.kind == LeafKind::Delegated && cgroup.at == at
        };
        let (proc, is_due) = (&self.proc, cached.iter().any(is_read));
        let lists = Lists {
            tree,
            proc,
            how,
            at,
            in_leaves,
            is_due,
        };
        self.outside.read(lists, &mut self.buffer);
        let delegated = cached.iter_mut();
        for (leaf, cgroup) in delegated.filter(|(leaf, _)| leaf.kind == LeafKind::Delegated) {
            cgroup.add_below(self.outside.below(leaf.inode));
        }
        let table = how.table();
        for pid in self.outside.pids() {
            if !matches!(how, PidSource::NewOnes) || !self.members.still_known(pid) {
                self.members.meet_by(table, pid, at, &mut self.buffer);
                self.rests.rest();
            }
        }
    }

    /// What the cgroups have, and whether they may be limited. A cgroup that was not read in this round, and
    /// of whose processes none was scanned, keeps what was made of it before.
    fn classify_cgroups(&mut self, at: Nanos, view: &mut View) {
        let Finder::Cgroups { tree, cached } = &mut self.finder else {
            return;
        };
        let root = tree.root();
        view.skipped.extend_from_slice(tree.skipped());
        let (mut stands_in, mut charged) = (0usize, 0usize);
        for (leaf, cgroup) in cached {
            let is_as_before = cgroup.at != at
                && !self
                    .members
                    .is_any_fresh(cgroup.pids.as_deref().unwrap_or_default());
            let watched = match cgroup.watched.take() {
                Some(watched) if is_as_before => watched,
                _ => {
                    let with = Classifier {
                        members: &self.members,
                        groups: &self.groups,
                        rules: &self.rules,
                        root: &root,
                        at,
                    };
                    let watched = Arc::new(with.leaf(leaf, cgroup, &mut self.buffer));
                    self.rests.rest();
                    watched
                }
            };
            cgroup.watched = Some(Arc::clone(&watched));
            view.workloads.push(watched);
            stands_in += usize::from(cgroup.stands_in);
            charged += usize::from(matches!(cgroup.charged, Some(Ok(_))));
        }
        let (outside, said) = self.outside.classify(&Classifier {
            members: &self.members,
            groups: &self.groups,
            rules: &self.rules,
            root: &root,
            at,
        });
        view.workloads.extend(outside.into_iter().map(Arc::new));
        view.skipped.extend(said);
        view.residency = format!(
            "numa_maps of processes; memory.numa_stat for {stands_in} of {count} cgroups, and for page cache \
             that no process has mapped of {charged}",
            count = view.workloads.len()
        );
    }

    fn processes(&mut self, at: Nanos, budget: Nanos, view: &mut View) {
        let Finder::Processes { known } = &mut self.finder else {
            return;
        };
        let table = self.tasks.sweep(&mut || self.rests.rest());
        let mut found: Vec<u32> = match &table {
            Some(table) => table.pids().collect(),
            None => listed(&self.proc, known, view),
        };
        found.retain(|pid| {
            self.rests.rest();
            self.members
                .meet_by(table.as_ref(), *pid, at, &mut self.buffer)
        });
        let until = Nanos(now().0.saturating_add(budget.0));
        self.members.scan(at, until, &mut self.buffer);
        let mut before = std::mem::take(known);
        for pid in found {
            let Some(member) = self.members.get(pid).filter(|m| !m.is_kernel) else {
                continue;
            };
            let gone = AtomicBool::new(false);
            let process = Process {
                pid,
                start_ticks: member.start_ticks,
                gone,
            };
            let id = process.id();
            let process = before.remove(&id).unwrap_or_else(|| Arc::new(process));
            known.insert(id.clone(), Arc::clone(&process));
            let resident = self.members.resident(&[pid]);
            let uses = uses(&self.groups, &resident, at);
            view.workloads.push(Arc::new(Watched {
                weight: weight_of_nice(member.nice),
                limit: None,
                excluded: self.rules.on_process(id.as_str(), pid, member),
                processes: processes(&uses, at, &[(pid, member)]),
                uses,
                resident_bytes: resident.all_bytes(),
                source: WorkloadSource::Process(process),
                id,
            }));
        }
        view.residency = format!("numa_maps of {} processes", view.workloads.len());
        let hidden = hidden(&self.proc, &self.groups, at);
        view.workloads.extend(hidden.map(Arc::new));
    }
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
pub(crate) mod tests;
