// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is scheduled by weir: threads of a limited cgroup get the policy `SCHED_EXT`, and their own
//! one back. Children inherit it from their parents, so mostly there is nothing to do; who joins the
//! cgroup from outside is found at one of the next looks.
//!
//! Asking and moving takes its time, on a slow machine two seconds for ten thousand threads, and the scheduler waits
//! no longer for a word of weir's. So it is done in portions, and who is left has his turn at the next looks.
//!
//! Only ordinary threads (`SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`) are moved; real-time threads and
//! those that asked for `SCHED_EXT` themselves are left alone. Niceness stays as it is.

use crate::clock::now;
use crate::files::{Buffer, inode, open_beneath};
use crate::names::unescape;
use crate::parse::cgroup::pids;
use crate::policy::{
    RESET_ON_FORK, SCHED_BATCH, SCHED_EXT, SCHED_IDLE, SCHED_OTHER, policy, set_policy,
};
use crate::restore::Given;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::Nanos;

/// A cgroup whose threads were moved, in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub(crate) path: String,
    pub(crate) inode: u64,
    /// Threads whose policy was not `SCHED_OTHER`, with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) policies: BTreeMap<u32, i32>,
}

/// What one look at a cgroup did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Portion {
    /// Threads whose policy was changed.
    pub(crate) changed: usize,
    /// Nobody is left for the next look.
    pub(crate) is_whole: bool,
}

/// Does something with the threads that were not seen yet, at least with one, and with others while it is before
/// `until`. `seen` remembers who needs no second look.
fn each_unseen(
    threads: &[u32],
    seen: &mut BTreeSet<u32>,
    until: Nanos,
    mut act: impl FnMut(u32) -> Result<bool, Errno>,
) -> Result<Portion, Errno> {
    let mut done = Portion {
        changed: 0,
        is_whole: true,
    };
    let mut known = BTreeSet::new();
    let mut is_over = false;
    for &tid in threads {
        if seen.contains(&tid) {
            known.insert(tid);
        } else if is_over {
            done.is_whole = false;
        } else {
            is_over = now() >= until;
            match act(tid) {
                Ok(is_changed) => done.changed += usize::from(is_changed),
                Err(Errno::SRCH) => continue,
                Err(e) => return Err(e),
            }
            known.insert(tid);
        }
    }
    *seen = known;
    Ok(done)
}

/// Moves the threads of a cgroup that are not moved yet, as many as there is time for.
pub(crate) fn take(
    threads: &[u32],
    seen: &mut BTreeSet<u32>,
    moved: &mut Moved,
    until: Nanos,
    mut note: impl FnMut(&Moved) -> Result<(), Errno>,
) -> Result<Portion, Errno> {
    each_unseen(threads, seen, until, |tid| {
        let was = policy(tid)?;
        let bare = was & !RESET_ON_FORK;
        if ![SCHED_OTHER, SCHED_BATCH, SCHED_IDLE].contains(&bare) {
            return Ok(false);
        }
        if bare != SCHED_OTHER {
            moved.policies.insert(tid, bare);
            note(moved)?;
        }
        set_policy(tid, SCHED_EXT | was & RESET_ON_FORK)?;
        Ok(true)
    })
}

/// Gives the threads of a cgroup their policies back, as many as there is time for. Those that are not `SCHED_EXT`
/// (any more) are as somebody else wants them.
pub(crate) fn give(
    threads: &[u32],
    seen: &mut BTreeSet<u32>,
    moved: &Moved,
    until: Nanos,
) -> Result<Portion, Errno> {
    each_unseen(threads, seen, until, |tid| {
        let is = policy(tid)?;
        if is & !RESET_ON_FORK != SCHED_EXT {
            return Ok(false);
        }
        let own = moved.policies.get(&tid).copied().unwrap_or(SCHED_OTHER);
        set_policy(tid, own | is & RESET_ON_FORK)?;
        Ok(true)
    })
}

/// Looks until nobody is left who is `SCHED_EXT`: a thread may be born between look and change.
pub(crate) fn give_back_in(dir: BorrowedFd<'_>, moved: &Moved, buffer: &mut Buffer) -> Given {
    let mut given = Given::Unchanged;
    for _ in 0..16 {
        let threads = match list(dir, buffer) {
            Ok(threads) => threads,
            Err(Errno::NOENT | Errno::NODEV) => return Given::Vanished,
            Err(e) => return Given::Failed(format!("cgroup.threads: {e}")),
        };
        match give(&threads, &mut BTreeSet::new(), moved, Nanos(u64::MAX)) {
            Ok(done) if done.changed == 0 => return given,
            Ok(_) => given = Given::Restored,
            Err(e) => return Given::Failed(format!("scheduling policy: {e}")),
        }
    }
    given
}

/// The same for a cgroup that has yet to be opened.
pub(crate) fn give_back(root: BorrowedFd<'_>, moved: &Moved, buffer: &mut Buffer) -> Given {
    let Some(path) = unescape(&moved.path) else {
        return Given::Failed("a path that weir would not write".into());
    };
    match open_beneath(root, &path) {
        Ok(dir) => match inode(&dir) {
            Ok(stat) if stat.st_ino == moved.inode => give_back_in(dir.as_fd(), moved, buffer),
            _ => Given::Vanished,
        },
        Err(Errno::NOENT | Errno::NODEV) => Given::Vanished,
        Err(e) => Given::Failed(format!("not opened below the cgroup root: {e}")),
    }
}

/// The threads of a cgroup.
pub(crate) fn list(dir: impl AsFd, buffer: &mut Buffer) -> Result<Vec<u32>, Errno> {
    let text = buffer.read_at(dir, "cgroup.threads")?;
    pids(text).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::files::open_root;

    fn moved() -> Moved {
        Moved {
            path: "/a".into(),
            inode: 1,
            policies: BTreeMap::new(),
        }
    }

    const LATER: Nanos = Nanos(u64::MAX);

    fn whole(changed: usize) -> Portion {
        Portion {
            changed,
            is_whole: true,
        }
    }

    /// Our own thread, to be moved about: without privilege from ordinary to `SCHED_EXT` and back.
    fn own() -> u32 {
        // SAFETY: takes nothing and returns a number.
        u32::try_from(unsafe { libc::gettid() }).unwrap()
    }

    #[test]
    fn a_thread_goes_and_comes_back() {
        let (me, before) = (own(), policy(own()).unwrap());
        let (mut seen, mut record) = (BTreeSet::new(), moved());
        let took = take(&[me, u32::MAX], &mut seen, &mut record, LATER, |_| Ok(()));
        if took == Err(Errno::INVAL) {
            // This kernel has no SCHED_EXT, and nothing was changed.
            assert_eq!(policy(me).unwrap(), before);
            return;
        }
        assert_eq!(took, Ok(whole(1)));
        assert_eq!(policy(me).unwrap(), SCHED_EXT);
        let gave = give(&[me], &mut BTreeSet::new(), &record, LATER);
        assert_eq!(gave, Ok(whole(1)));
        assert_eq!(policy(me).unwrap(), before);
    }

    #[test]
    fn each_look_has_its_portion_and_nobody_is_forgotten() {
        let mut seen = BTreeSet::new();
        let mut look = |until, gone| {
            let mut asked = Vec::new();
            let act = |tid| {
                asked.push(tid);
                if tid == gone {
                    Err(Errno::SRCH)
                } else {
                    Ok(true)
                }
            };
            let done = each_unseen(&[1, 2, 3], &mut seen, until, act).unwrap();
            (asked, done.changed, done.is_whole)
        };
        assert_eq!(look(Nanos(0), 1), (vec![1], 0, false));
        assert_eq!(look(Nanos(0), 0), (vec![1], 1, false));
        assert_eq!(look(Nanos(0), 0), (vec![2], 1, false));
        assert_eq!(look(LATER, 0), (vec![3], 1, true));
        assert_eq!(look(LATER, 0), (vec![], 0, true));
    }

    #[test]
    fn a_policy_of_its_own_is_written_down_before_the_move() {
        let before = policy(own()).unwrap();
        if set_policy(own(), SCHED_BATCH).is_err() {
            return;
        }
        let (mut seen, mut record, mut noted) = (BTreeSet::new(), moved(), 0);
        let took = take(&[own()], &mut seen, &mut record, LATER, |_| {
            noted += 1;
            Err(Errno::NOSPC)
        });
        assert_eq!((took, noted), (Err(Errno::NOSPC), 1));
        assert_eq!(
            policy(own()).unwrap(),
            SCHED_BATCH,
            "not noted, so not moved"
        );
        assert_eq!(record.policies.get(&own()), Some(&SCHED_BATCH));
        set_policy(own(), before).unwrap();
    }

    #[test]
    fn a_cgroup_that_is_gone_or_another_is_left_alone() {
        let fake = Fake::new();
        let root = open_root(&fake.roots().cgroup).unwrap();
        let mut buffer = Buffer::new();
        assert_eq!(
            give_back(root.as_fd(), &moved(), &mut buffer),
            Given::Vanished
        );
        fake.write("sys/fs/cgroup/a/cgroup.threads", "");
        assert_eq!(
            give_back(root.as_fd(), &moved(), &mut buffer),
            Given::Vanished
        );
        let dir = open_beneath(&root, b"/a").unwrap();
        let same = Moved {
            inode: inode(&dir).unwrap().st_ino,
            ..moved()
        };
        assert_eq!(
            give_back(root.as_fd(), &same, &mut buffer),
            Given::Unchanged
        );
    }
}
