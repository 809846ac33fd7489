// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cgroup that one process is in. A process that is alone in its leaf is limited there. One that shares
//! its leaf is refused: its leaf belongs to systemd or to a container runtime, and weir moves no process out
//! of it.

use crate::kernel::escape::escape;
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, for_each_dir, open_beneath};
use crate::kernel::parse::cgroup::pids;
use crate::kernel::parse::process::cgroup_path;
use crate::workloads::cgroups::cgroup_type::is_threaded_domain;
use crate::workloads::discovery::Process;
use crate::workloads::processes::proc_pid::{Unread, read_stat};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use weir_core::seam::plan::OutcomeKind;

/// Most entries of a cgroup's directory that are read.
const BELOW_MAX: usize = 8192;

pub(crate) struct Home {
    pub(crate) path: Vec<u8>,
    /// Nothing in the root cgroup, which has no limit.
    pub(crate) dir: Option<OwnedFd>,
    /// Other processes that share the cgroup.
    pub(crate) others: usize,
    /// Whether cgroups below it would be limited with it. Those of a threaded domain have no processes of
    /// their own.
    pub(crate) has_below: bool,
}

/// Finds the cgroup of a process that is still the one that was seen.
///
/// The cgroup of a process is asked each time and never remembered, because processes are moved. How many
/// others are in it, and whether there are cgroups below, decides whether a limit would hit the process alone
/// (ADR 13).
pub(crate) fn home(
    root: BorrowedFd<'_>,
    proc: &OwnedFd,
    process: &Process,
    buffer: &mut Buffer,
) -> Result<Home, OutcomeKind> {
    still_there(proc, process.pid, process.start_ticks, buffer)?;
    let text = buffer.read_at(proc, &format!("{}/cgroup", process.pid));
    let path = match text.map(cgroup_path) {
        Ok(Ok(path)) => path.to_vec(),
        Ok(Err(e)) => return Err(OutcomeKind::Refused(format!("not in a cgroup v2: {e}"))),
        Err(e) if is_want(e) => {
            return Err(OutcomeKind::Failed(format!("process {}: {e}", process.pid)));
        }
        Err(_) => return Err(OutcomeKind::Vanished),
    };
    if path == b"/" {
        return Ok(Home {
            path,
            dir: None,
            others: 0,
            has_below: false,
        });
    }
    let dir = open_beneath(root, &path).map_err(|e| {
        OutcomeKind::Refused(format!(
            "its cgroup {} cannot be opened: {e}",
            escape(&path)
        ))
    })?;
    let inside = buffer
        .read_at(&dir, "cgroup.procs")
        .map_err(|_| Errno::NODEV);
    let inside = inside.ok().and_then(|text| pids(text).ok());
    let inside = inside.ok_or_else(|| {
        OutcomeKind::Refused(format!(
            "the processes of {} cannot be listed",
            escape(&path)
        ))
    })?;
    let others = inside.iter().filter(|pid| **pid != process.pid).count();
    let has_below = has_cgroups_below(&dir, buffer)
        .map_err(|e| OutcomeKind::Failed(format!("the cgroups below {}: {e}", escape(&path))))?;
    Ok(Home {
        path,
        dir: Some(dir),
        others,
        has_below,
    })
}

fn has_cgroups_below(dir: &OwnedFd, buffer: &mut Buffer) -> Result<bool, Errno> {
    let mut has_below = false;
    match for_each_dir(dir, BELOW_MAX, |_| has_below = true) {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
        Err(e) => return Err(e),
    }
    Ok(has_below && !is_threaded_domain(dir, buffer))
}

fn still_there(
    proc: &OwnedFd,
    pid: u32,
    start_ticks: u64,
    buffer: &mut Buffer,
) -> Result<(), OutcomeKind> {
    let stat = read_stat(proc, pid, buffer).map_err(|why| match why {
        Unread::Gone(_) => OutcomeKind::Vanished,
        Unread::Want(e) => OutcomeKind::Failed(format!("process {pid}: {e}")),
    })?;
    if stat.start_ticks == start_ticks {
        Ok(())
    } else {
        Err(OutcomeKind::Vanished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::open_root;
    use rustix::fd::AsFd;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn home_is_where_the_process_is() {
        let fake = Fake::new();
        let root = open_root(&fake.roots().cgroup).unwrap();
        let proc = open_root(&fake.roots().proc).unwrap();
        let find = |pid, start_ticks| {
            let gone = AtomicBool::new(false);
            let process = Process {
                pid,
                start_ticks,
                gone,
            };
            home(root.as_fd(), &proc, &process, &mut Buffer::new())
        };
        let fio = find(100, 4000).unwrap();
        assert_eq!(
            (fio.path.as_slice(), fio.others),
            (&b"/system.slice/fio.service"[..], 0)
        );
        assert_eq!(
            find(100, 4001).err(),
            Some(OutcomeKind::Vanished),
            "recycled"
        );
        assert_eq!(find(99, 1).err(), Some(OutcomeKind::Vanished));
        fake.write("proc/100/cgroup", "0::/../other\n");
        assert!(
            matches!(find(100, 4000), Err(OutcomeKind::Refused(_))),
            "outside our namespace"
        );
        fake.write("proc/100/cgroup", "1:cpu:/\n");
        assert!(matches!(find(100, 4000), Err(OutcomeKind::Refused(_))));
        fake.write("proc/100/cgroup", "0::/\n");
        assert!(find(100, 4000).unwrap().dir.is_none());
    }
}
