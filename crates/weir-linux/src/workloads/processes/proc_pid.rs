// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process by its files in `/proc`: `stat`, and the policies of its threads.

use super::rescan::ChangeSigns;
use super::sched_policy;
use crate::kernel::fd_budget::is_want;
use crate::kernel::files::{Buffer, for_each_dir, open_file};
use crate::kernel::parse::process::{Stat, stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use weir_core::{Missing, Nanos};

const THREADS_MAX: usize = 4096;

/// `USER_HZ`: `/proc/PID/stat` counts time in hundredths of a second (proc(5)).
pub(crate) const NANOS_PER_TICK: u64 = 10_000_000;

pub(crate) fn cpu_of(stat: &Stat) -> Nanos {
    Nanos(stat.cpu_ticks.saturating_mul(NANOS_PER_TICK))
}

/// The weight of a nice value on the scale of `cpu.weight`: a step is a factor of 1.25, 100 is
/// normal (kernel, `sched_prio_to_weight`).
pub(crate) fn weight_of_nice(nice: i64) -> f64 {
    let nice = nice.clamp(-20, 19) as f64;
    (100.0 * 1.25f64.powf(-nice)).clamp(1.0, 10_000.0)
}

/// What changes with its memory.
pub(crate) fn signs_of(stat: &Stat) -> ChangeSigns {
    ChangeSigns {
        faults: stat.faults,
        resident_pages: stat.resident_pages,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It ended, or is not what it seems.
    Gone(Missing),
    /// For want of something of ours, which says nothing about it.
    Want(Errno),
}

/// `/proc/PID/stat`, parsed. Nothing of a process that ended is an error like any other.
pub(crate) fn read_stat(proc: &OwnedFd, pid: u32, buffer: &mut Buffer) -> Result<Stat, Unread> {
    let name = format!("{pid}/stat");
    let gone = |why: String| Unread::Gone(Missing::Lost(format!("/proc/{name}: {why}")));
    let text = buffer.read_once_at(proc, &name).map_err(|e| match e {
        e if is_want(e) => Unread::Want(e),
        e => gone(e.to_string()),
    })?;
    stat(text).map_err(|e| gone(e.to_string()))
}

/// `/proc/PID/stat`, to be kept open.
pub(crate) fn open_stat(proc: &OwnedFd, pid: u32) -> Result<OwnedFd, Errno> {
    open_file(proc, &format!("{pid}/stat"))
}

/// The same by such a file. Nothing of a process that ended, also where another has its number by now.
pub(crate) fn read_kept_stat(kept: impl AsFd, buffer: &mut Buffer) -> Option<Stat> {
    stat(buffer.read(kept).ok()?).ok()
}

/// Whether one of its threads is; each has a policy of its own. The only error is a want of ours.
pub(crate) fn is_real_time(
    proc: &OwnedFd,
    pid: u32,
    stat_of_process: &Stat,
    buffer: &mut Buffer,
) -> Result<bool, Unread> {
    if stat_of_process.is_real_time() || stat_of_process.threads <= 1 {
        return Ok(stat_of_process.is_real_time());
    }
    let tasks = match crate::kernel::files::open_path_dir(proc, &format!("{pid}/task")) {
        Ok(tasks) => tasks,
        Err(e) if is_want(e) => return Err(Unread::Want(e)),
        Err(_) => return Ok(false),
    };
    let mut names = Vec::new();
    // Threads above the bound are taken to be like the first.
    let _ = for_each_dir(&tasks, THREADS_MAX, |name| names.push(name.to_vec()));
    if sched_policy::is_own(proc) {
        let tid = |name: &Vec<u8>| std::str::from_utf8(name).ok()?.parse().ok();
        return Ok(sched_policy::any_real_time(names.iter().filter_map(tid)));
    }
    for name in names.iter().filter_map(|n| std::str::from_utf8(n).ok()) {
        match buffer.read_at(&tasks, &format!("{name}/stat")) {
            Ok(text) if stat(text).is_ok_and(|s| s.is_real_time()) => return Ok(true),
            Err(e) if is_want(e) => return Err(Unread::Want(e)),
            // An ordinary thread, or one that ended.
            _ => {}
        }
    }
    Ok(false)
}
