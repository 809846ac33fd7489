// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scheduling policies of threads, by sched_getscheduler(2): one call, where a read of `/proc` takes four. A
//! limit may have to read those of ten thousand threads. The numbers must be those of our own `/proc`
//! ([`is_own`]).

use crate::kernel::parse::process::stat;
use rustix::fd::AsFd;
use rustix::fs::readlinkat;
use rustix::io::Errno;

pub(crate) const SCHED_OTHER: i32 = 0;
pub(crate) const SCHED_BATCH: i32 = 3;
pub(crate) const SCHED_IDLE: i32 = 5;
pub(crate) const SCHED_EXT: i32 = 7;
/// Beside the policy: children start with the ordinary one.
pub(crate) const RESET_ON_FORK: i32 = 0x4000_0000;

/// Whether the numbers of processes in this `/proc` are those that system calls take: `self` there is us.
pub(crate) fn is_own(proc: impl AsFd) -> bool {
    let link = readlinkat(proc, "self", Vec::new());
    link.is_ok_and(|l| l.to_bytes() == std::process::id().to_string().as_bytes())
}

/// `SCHED_FIFO`, `SCHED_RR` or `SCHED_DEADLINE`.
pub(crate) fn is_real_time(policy: i32) -> bool {
    matches!(policy & !RESET_ON_FORK, 1 | 2 | 6)
}

/// Whether one of these threads is real-time; those that ended are not.
pub(crate) fn any_real_time(mut tids: impl Iterator<Item = u32>) -> bool {
    tids.any(|tid| policy(tid).is_ok_and(is_real_time))
}

/// Lists of a cgroup name a thread of another PID namespace 0, which to system calls is the caller.
fn number(tid: u32) -> Result<libc::pid_t, Errno> {
    match libc::pid_t::try_from(tid) {
        Ok(0) | Err(_) => Err(Errno::SRCH),
        Ok(tid) => Ok(tid),
    }
}

pub(crate) fn policy(tid: u32) -> Result<i32, Errno> {
    #[cfg(test)]
    if let Some(policy) = crate::fake::kernel::policy(tid, None) {
        return policy;
    }
    let tid = number(tid)?;
    // SAFETY: takes a number and returns one.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    if policy < 0 {
        Err(last_error())
    } else {
        Ok(policy)
    }
}

/// Sets the policy with priority 0, which ordinary policies want.
pub(crate) fn set_policy(tid: u32, policy: i32) -> Result<(), Errno> {
    #[cfg(test)]
    if let Some(answer) = crate::fake::kernel::policy(tid, Some(policy)) {
        return answer.map(drop);
    }
    let tid = number(tid)?;
    // SAFETY: all its members are numbers, and 0 is one.
    let param: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: reads `param`, which lives.
    let done = unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
    if done < 0 { Err(last_error()) } else { Ok(()) }
}

/// When a thread was started, in ticks since boot: differs where its number was given to another one.
pub(crate) fn start_ticks(tid: u32) -> Option<u64> {
    #[cfg(test)]
    if crate::fake::kernel::policy(tid, None).is_some() {
        return Some(u64::from(tid));
    }
    let text = std::fs::read(format!("/proc/{tid}/stat")).ok()?;
    Some(stat(&text).ok()?.start_ticks)
}

fn last_error() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(code.unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_thread_has_a_start_of_its_own() {
        let tick = Duration::from_millis(10);
        // SAFETY: takes nothing and returns a number.
        let own = || u32::try_from(unsafe { libc::gettid() }).unwrap();
        let main = start_ticks(std::process::id()).unwrap();
        // A thread is born in a later tick than its process at some time.
        let later = (0..1000).any(|_| {
            std::thread::park_timeout(tick);
            std::thread::spawn(move || start_ticks(own()).unwrap() > main)
                .join()
                .unwrap()
        });
        assert!(later);
        assert_eq!(start_ticks(u32::MAX), None);
    }

    use crate::kernel::files::open_root;

    #[test]
    fn only_a_proc_with_weir_as_self_is_its_own() {
        assert!(is_own(open_root("/proc".as_ref()).unwrap()));
        let dir = tempfile::tempdir().unwrap();
        let other = || open_root(dir.path()).unwrap();
        assert!(!is_own(other()));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
        std::os::unix::fs::symlink(parent.to_string(), dir.path().join("self")).unwrap();
        assert!(!is_own(other()));
    }

    #[test]
    fn policies_of_our_own_and_of_a_thread_that_is_not_there() {
        assert_eq!(policy(std::process::id()), Ok(SCHED_OTHER));
        assert_eq!(policy(u32::MAX), Err(Errno::SRCH));
        assert_eq!(policy(0), Err(Errno::SRCH), "not ours");
        assert_eq!(set_policy(0, SCHED_BATCH), Err(Errno::SRCH));
        assert_eq!(policy(std::process::id()), Ok(SCHED_OTHER));
        assert_eq!(policy(0x3fff_ffff), Err(Errno::SRCH));
        assert!(is_real_time(2) && is_real_time(1 | RESET_ON_FORK) && is_real_time(6));
        assert!(!is_real_time(SCHED_OTHER) && !is_real_time(SCHED_EXT | RESET_ON_FORK));
    }
}
