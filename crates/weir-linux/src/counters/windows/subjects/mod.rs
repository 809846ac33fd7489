// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tasks for which cores count: all of the machine, those of cgroups, or a process with all that it
//! starts.

mod command;
mod sockets;

pub use command::HeldCommand;
pub(super) use sockets::CpuSockets;

use super::error::RecordError;
use crate::kernel::files::read_path;
use crate::options::Roots;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::path::{Path, PathBuf};
use weir_core::WorkloadId;

#[derive(Debug)]
pub enum Asked {
    Machine,
    /// Tasks of these cgroups, by their paths in the tree of version 2.
    Cgroups(Vec<String>),
    /// A process, with the processes that it starts from now on.
    Process(u32),
    /// A command, from its start on.
    Command(HeldCommand),
}

/// A workload whose tasks are counted.
#[derive(Debug)]
pub(super) enum Subject {
    Cgroup {
        id: WorkloadId,
        path: PathBuf,
        dir: File,
        is_gone: bool,
    },
    Process {
        id: WorkloadId,
        pid: i32,
        fd: OwnedFd,
        /// It has not started its program yet.
        is_held: bool,
    },
}

impl Subject {
    pub(super) fn id(&self) -> &WorkloadId {
        match self {
            Subject::Cgroup { id, .. } | Subject::Process { id, .. } => id,
        }
    }

    pub(super) fn is_over(&mut self) -> bool {
        match self {
            Subject::Cgroup { path, is_gone, .. } => {
                *is_gone = *is_gone || !path.is_dir();
                *is_gone
            }
            Subject::Process { fd, .. } => {
                let mut polled = [PollFd::new(fd, PollFlags::IN)];
                let at_once = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
            }
        }
    }

    pub(super) fn threads(roots: &Roots, pid: i32) -> Vec<i32> {
        let dir = roots.proc.join(pid.to_string()).join("task");
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut ids: Vec<i32> = ids.collect();
        ids.sort_unstable();
        ids
    }
}

/// Finds what is asked for.
///
/// # Errors
/// It is not there.
pub(super) fn subjects(roots: &Roots, asked: &Asked) -> Result<Vec<Subject>, RecordError> {
    match asked {
        Asked::Machine => Ok(Vec::new()),
        Asked::Cgroups(names) => {
            let mut all: Vec<Subject> = Vec::new();
            for name in names {
                let found = cgroup(roots, name)?;
                if all.iter().all(|known| known.id() != found.id()) {
                    all.push(found);
                }
            }
            Ok(all)
        }
        Asked::Process(pid) => {
            let pid = i32::try_from(*pid).unwrap_or(i32::MAX);
            let comm = read_path(&roots.proc.join(pid.to_string()).join("comm"));
            let comm = comm.map_err(|_| RecordError::NoProcess { pid })?;
            let comm = String::from_utf8_lossy(comm.trim_ascii()).into_owned();
            Ok(vec![process(pid, &comm, false)?])
        }
        Asked::Command(command) => {
            let pid = command.pid();
            Ok(vec![process(pid, command.name(), true)?])
        }
    }
}

/// Named as perf names threads.
fn process(pid: i32, comm: &str, is_held: bool) -> Result<Subject, RecordError> {
    let none = RecordError::NoProcess { pid };
    let Some(valid) = Pid::from_raw(pid) else {
        return Err(none);
    };
    let fd = pidfd_open(valid, PidfdFlags::empty()).map_err(|_| none)?;
    Ok(Subject::Process {
        id: WorkloadId::new(format!("{comm}-{pid}")),
        pid,
        fd,
        is_held,
    })
}

fn cgroup(roots: &Roots, name: &str) -> Result<Subject, RecordError> {
    let none = |why: String| RecordError::NoCgroup {
        name: name.to_owned(),
        why,
    };
    let tree = roots.cgroup.to_string_lossy().into_owned();
    let prefixes = [tree.as_str(), "/sys/fs/cgroup"];
    let inside = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix));
    let inside = inside.unwrap_or(name).trim_matches('/');
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if inside.is_empty() || !inside.split('/').all(is_plain) {
        return Err(none(
            "a path such as system.slice/db.service is wanted".into(),
        ));
    }
    let path = roots.cgroup.join(inside);
    if !path.join("cgroup.procs").is_file() {
        let near = alike(&path).map(|near| format!("; there is {near}"));
        let near = near.unwrap_or_default();
        return Err(none(format!("no cgroup in {tree} has that path{near}")));
    }
    let dir = File::open(&path).map_err(|e| none(e.to_string()))?;
    Ok(Subject::Cgroup {
        id: WorkloadId::new(format!("/{inside}")),
        path,
        dir,
        is_gone: false,
    })
}

/// A cgroup beside it with the same name but for its kind: `db` for `db.service`.
fn alike(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let beside = std::fs::read_dir(path.parent()?).ok()?.flatten();
    let mut names = beside.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|other| other.split('.').next() == Some(name))
}
