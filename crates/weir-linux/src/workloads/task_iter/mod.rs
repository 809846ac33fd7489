// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes there are, in which cgroup, and what the scheduler knows of them: all in one read of the
//! kernel's tasks ([`program`], [`process_table`], [`completeness`]) where that can be had, else file by file
//! from `/proc` and the cgroup tree ([`crate::workloads::processes`], [`crate::workloads::cgroups::tree`]),
//! which costs several system calls for each cgroup, process and thread.
//!
//! ```text
//! may it be loaded here? ─► loaded ─► does it agree with /proc about ourselves, and show all? ─► read each time
//!        └──────────────────┴──────────────────┴─ no, because … ─► files ◄─ it failed ─────────────────┘
//! ```
//!
//! Both give the same answers; what the kernel counts itself (CPU time) is finer from the iterator. Its ids
//! are those of the initial namespaces, so it is only taken where `/proc` and the cgroup tree are those of
//! this machine.

mod completeness;
pub(crate) mod process_table;
mod program;

use crate::kernel::background_load::{Beside, LoadState};
use crate::kernel::bpf::{PROC, has_types, is_cgroup2, is_on};
use crate::kernel::files::{Buffer, inode, open_beneath, open_root, read_path};
use crate::kernel::parse::process::cgroup_path;
use crate::options::{By, Options, Roots, TaskSource};
use crate::workloads::cgroups::hierarchy::INITIAL_PIDS;
use crate::workloads::cgroups::walk::Delegated;
use crate::workloads::processes::proc_pid::read_stat;
use crate::workloads::processes::sched_policy;
use completeness::Whole;
use process_table::ProcessTable;
use program::TaskIterProgram;
use std::sync::Arc;
use weir_core::Missing;
use weir_core::seam::topology::Fact;

pub(crate) const FACT: &str = "processes.source";
/// Inode number of the initial time namespace (kernel, include/uapi/linux/nsfs.h).
const INITIAL_TIME: &str = "time:[4026531834]";

/// What tells of all processes at once.
pub(crate) trait TaskRows: Send {
    /// Reads all; calls `between` now and then, for others to have the CPU.
    ///
    /// # Errors
    /// It cannot be had any more.
    fn sweep(&mut self, between: &mut dyn FnMut()) -> Result<ProcessTable, Missing>;

    /// Processes below these cgroups are those of these.
    fn follow(&mut self, _: &Delegated) {}

    /// How many are asked by their files, because nothing else shows them.
    fn hidden(&self) -> usize {
        0
    }
}

pub(crate) struct Tasks {
    source: Beside<dyn TaskRows>,
    /// What the source goes by, and whether it was told.
    delegated: Arc<Delegated>,
    is_told: bool,
}

impl Tasks {
    /// Like [`Tasks::choose`], but without waiting: where all may be well the iterator is loaded beside (the
    /// kernel's types alone are megabytes to read), and until it is there files are read.
    pub(crate) fn begin(options: &Options) -> Tasks {
        if options.tasks == TaskSource::Walk || refusal(&options.roots, options.by).is_err() {
            return Tasks::choose(options);
        }
        let options = options.clone();
        Tasks::by(Beside::begin("weir-tasks", move || found(&options)))
    }

    /// The iterator, where it can be had and agrees with `/proc`.
    pub(crate) fn choose(options: &Options) -> Tasks {
        match options.tasks {
            TaskSource::Walk => Tasks::walk(),
            TaskSource::Auto => Tasks::by(Beside::settled(found(options))),
        }
    }

    fn by(source: Beside<dyn TaskRows>) -> Tasks {
        Tasks {
            source,
            delegated: Arc::default(),
            is_told: true,
        }
    }

    /// A source that reads files alone.
    pub(crate) fn walk() -> Tasks {
        let why = Missing::NotSupported("not selected".into());
        Tasks::by(Beside::settled(Err(why)))
    }

    #[cfg(test)]
    pub(crate) fn of(source: impl TaskRows + 'static) -> Tasks {
        Tasks::by(Beside::settled(Ok(Box::new(source))))
    }

    pub(crate) fn is_walk(&self) -> bool {
        self.source.lacking().is_some()
    }

    /// Processes below these cgroups are those of these, from the next read on.
    pub(crate) fn follow(&mut self, delegated: &Arc<Delegated>) {
        self.delegated = Arc::clone(delegated);
        self.is_told = false;
    }

    /// All processes; nothing where files are to be read. A source that fails is not asked again.
    pub(crate) fn sweep(&mut self, between: &mut dyn FnMut()) -> Option<ProcessTable> {
        let source = self.source.get()?;
        if !std::mem::replace(&mut self.is_told, true) {
            source.follow(&self.delegated);
        }
        match source.sweep(between) {
            Ok(table) => Some(table),
            Err(why) => {
                tracing::warn!(%why, "processes are looked up file by file from now on");
                self.source.fail(why);
                None
            }
        }
    }

    /// For people. Nothing is lacking without it: files are there.
    pub(crate) fn told(&self) -> String {
        match self.source.there().map(TaskRows::hidden) {
            Ok(0) => "a BPF iterator over all tasks".into(),
            Ok(hidden) => format!(
                "a BPF iterator over tasks, and files of {hidden} that this host hides from it; to limit, files of all"
            ),
            Err(why) => {
                format!("files of /proc and of cgroups, one by one; no BPF iterator: {why}")
            }
        }
    }
}

pub(crate) fn fact(options: &Options) -> Fact {
    fact_of(Tasks::choose(options).told())
}

pub(crate) fn fact_of(told: String) -> Fact {
    Fact {
        name: FACT.into(),
        value: Ok(told),
        next_move: None,
    }
}

fn found(options: &Options) -> LoadState<dyn TaskRows> {
    let (roots, by) = (&options.roots, options.by);
    refusal(roots, by)?;
    let mut all = Whole::new(TaskIterProgram::load()?, roots, by, !options.read_only)?;
    let table = all.sweep(&mut || ())?;
    agrees(roots, by, &table)?;
    Ok(Box::new(all))
}

/// Whether it may be loaded here, as far as can be said without trying.
fn refusal(roots: &Roots, by: By) -> Result<(), Missing> {
    if !is_on(&roots.proc, PROC) || !open_root(&roots.proc).is_ok_and(sched_policy::is_own) {
        let proc = roots.proc.display();
        return Err(Missing::NotSupported(format!("{proc} is not our own")));
    }
    if by == By::Cgroup {
        is_cgroup2(roots)?;
    }
    for (name, initial) in [("pid", INITIAL_PIDS), ("time", INITIAL_TIME)] {
        let link = std::fs::read_link(roots.proc.join("self/ns").join(name));
        // A kernel without such namespaces has no link, and one of each.
        if link.is_ok_and(|link| link.as_os_str() != initial) {
            let why = format!("not in the initial {name} namespace");
            return Err(Missing::NotSupported(why));
        }
    }
    has_types(roots)
}

/// What it says of ourselves must be what `/proc` says.
fn agrees(roots: &Roots, by: By, table: &ProcessTable) -> Result<(), Missing> {
    let differs = |what: &str| Missing::Lost(format!("{what} of weir itself differs from /proc"));
    let pid = std::process::id();
    let task = table.get(pid).ok_or_else(|| differs("the process id"))?;
    let proc = open_root(&roots.proc).map_err(|e| Missing::Lost(e.to_string()))?;
    let stat = read_stat(&proc, pid, &mut Buffer::new()).map_err(|_| differs("stat"))?;
    if stat.start_ticks != task.start_ticks {
        return Err(differs("the start time"));
    }
    if stat.comm != task.comm() || stat.nice != task.nice || task.is_kernel {
        return Err(differs("name or nice value"));
    }
    let text = read_path(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let Some(path) = cgroup_path(&text).ok().filter(|_| by == By::Cgroup) else {
        return Ok(());
    };
    let root = open_root(&roots.cgroup).map_err(|e| Missing::Lost(e.to_string()))?;
    let dir = match path {
        b"/" => Ok(root),
        path => open_beneath(&root, path),
    };
    // One outside what is mounted here cannot be compared.
    match dir.and_then(|dir| inode(&dir)) {
        Ok(found) if found.st_ino != task.cgroup => Err(differs("the cgroup")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
