// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which threads weir schedules: threads of a limited cgroup get the policy `SCHED_EXT`, and their own one
//! back. Children inherit it from their parents, so mostly there is nothing to do. A thread that joins the
//! cgroup from outside is found at one of the next scans.
//!
//! To read and change policies takes its time, on a slow machine two seconds for ten thousand threads, and
//! the scheduler waits no longer for a heartbeat. So it is done in portions ([`super::thread_scan`]).
//!
//! Only ordinary threads (`SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`) are moved. Real-time threads and
//! threads that chose `SCHED_EXT` themselves are left alone. Niceness stays as it is.

use crate::kernel::escape::unescape;
use crate::kernel::files::Buffer;
use crate::leases::undo::{LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use crate::workloads::cgroups::cgroup_type;
use crate::workloads::processes::sched_policy::{
    RESET_ON_FORK, SCHED_BATCH, SCHED_EXT, SCHED_IDLE, SCHED_OTHER, policy, set_policy,
};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// The lease on the threads of a cgroup that were moved under the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScxThread {
    pub(crate) path: String,
    pub(crate) inode: u64,
    /// The threads that had another policy than `SCHED_OTHER`, each with its policy.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "policies_from"
    )]
    pub(crate) policies: BTreeMap<u32, i32>,
}

/// In JSON the key of a map is a text, and serde does not make a number of it behind a tag.
fn policies_from<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<u32, i32>, D::Error> {
    let policies = BTreeMap::<String, i32>::deserialize(from)?;
    let sound = |(tid, policy): (String, i32)| {
        let tid: u32 = tid.parse().ok()?;
        let is_moved = [SCHED_BATCH, SCHED_IDLE].contains(&policy);
        is_moved.then_some((tid, policy))
    };
    let sound: Option<BTreeMap<u32, i32>> = policies.into_iter().map(sound).collect();
    sound.ok_or_else(|| D::Error::custom("a policy that weir would not note"))
}

/// Its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ThreadsRecord {
    /// On disk BEFORE the first thread is moved, and before one that had a policy of its own is.
    Moved(ScxThread),
    /// All have their policies again, or the cgroup is gone.
    Done { inode: u64 },
}

impl Undo for ScxThread {
    type Key = u64;
    type Record = ThreadsRecord;
    const OPS: &'static [(&'static str, RecordPhase)] =
        &[("moved", RecordPhase::Begin), ("done", RecordPhase::End)];

    fn replay(
        _: &BTreeMap<u64, Self>,
        record: ThreadsRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            ThreadsRecord::Moved(moved) => {
                Box::new(move |open| drop(open.insert(moved.inode, moved)))
            }
            ThreadsRecord::Done { inode } => Box::new(move |open| drop(open.remove(&inode))),
        })
    }

    fn records(&self) -> Vec<ThreadsRecord> {
        vec![ThreadsRecord::Moved(self.clone())]
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let outcome = match unescape(&self.path) {
            Some(path) => host.in_cgroup(&path, self.inode, |dir, buffer| {
                put_back_in(dir, self, buffer)
            }),
            None => UndoOutcome::Failed("a path that weir would not write".into()),
        };
        vec![(WorkloadId::new(self.path.clone()), outcome)]
    }
}

/// Moves a thread under the scheduler. False if it is not one that is moved.
pub(crate) fn take(
    tid: u32,
    moved: &mut ScxThread,
    note: impl FnOnce(&ScxThread) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let was = policy(tid)?;
    let bare = was & !RESET_ON_FORK;
    if ![SCHED_OTHER, SCHED_BATCH, SCHED_IDLE].contains(&bare) {
        return Ok(false);
    }
    // Also one that another program has given the ordinary policy since it was noted.
    let noted = moved.policies.get(&tid).copied().unwrap_or(SCHED_OTHER);
    if bare != noted {
        match bare {
            SCHED_OTHER => moved.policies.remove(&tid),
            bare => moved.policies.insert(tid, bare),
        };
        note(moved)?;
    }
    set_policy(tid, SCHED_EXT | was & RESET_ON_FORK)?;
    Ok(true)
}

/// Gives a thread its policy back. If it is not `SCHED_EXT` (any more), another program changed it, and it
/// stays.
pub(super) fn give(tid: u32, moved: &ScxThread) -> Result<bool, Errno> {
    let is = policy(tid)?;
    if is & !RESET_ON_FORK != SCHED_EXT {
        return Ok(false);
    }
    let own = moved.policies.get(&tid).copied().unwrap_or(SCHED_OTHER);
    set_policy(tid, own | is & RESET_ON_FORK)?;
    Ok(true)
}

/// Scans until no thread is left that is `SCHED_EXT`: a thread may be born between scan and change.
pub(crate) fn put_back_in(
    dir: BorrowedFd<'_>,
    moved: &ScxThread,
    buffer: &mut Buffer,
) -> UndoOutcome {
    let mut given = UndoOutcome::Unchanged;
    for _ in 0..16 {
        let threads = match list(dir, buffer) {
            Ok(threads) => threads,
            Err(Errno::NOENT | Errno::NODEV) => return UndoOutcome::Vanished,
            Err(e) => return UndoOutcome::Failed(format!("cgroup.threads: {e}")),
        };
        let mut is_changed = false;
        for tid in threads {
            match give(tid, moved) {
                Ok(done) => is_changed |= done,
                Err(Errno::SRCH) => {}
                Err(e) => return UndoOutcome::Failed(format!("scheduling policy: {e}")),
            }
        }
        if !is_changed {
            return given;
        }
        given = UndoOutcome::Restored;
    }
    given
}

/// The threads of a cgroup; of a threaded domain, those below it too.
pub(crate) fn list(dir: impl AsFd, buffer: &mut Buffer) -> Result<Vec<u32>, Errno> {
    cgroup_type::threads(dir, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::{inode, open_beneath, open_root};

    fn moved() -> ScxThread {
        ScxThread {
            path: "/a".into(),
            inode: 1,
            policies: BTreeMap::new(),
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
        let mut record = moved();
        assert_eq!(
            take(u32::MAX, &mut record, |_| Ok(())),
            Err(Errno::SRCH),
            "no thread has this number"
        );
        let took = take(me, &mut record, |_| Ok(()));
        if took == Err(Errno::INVAL) {
            // This kernel has no SCHED_EXT, and nothing was changed.
            assert_eq!(policy(me).unwrap(), before);
            return;
        }
        assert_eq!(took, Ok(true));
        assert_eq!(policy(me).unwrap(), SCHED_EXT);
        assert_eq!(give(me, &record), Ok(true));
        assert_eq!(policy(me).unwrap(), before);
        assert_eq!(give(me, &record), Ok(false));
    }

    #[test]
    fn a_policy_of_its_own_is_written_down_before_the_move() {
        let before = policy(own()).unwrap();
        if set_policy(own(), SCHED_BATCH).is_err() {
            return;
        }
        let (mut record, mut noted) = (moved(), 0);
        let took = take(own(), &mut record, |_| {
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

    /// After a kill these threads must have their own policies again.
    #[test]
    fn policies_are_read_as_they_were_written() {
        let record = ThreadsRecord::Moved(ScxThread {
            policies: [(7, SCHED_BATCH), (4_000_000, SCHED_IDLE)].into(),
            ..moved()
        });
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(
            serde_json::from_str::<ThreadsRecord>(&line).unwrap(),
            record
        );
        for strange in [
            r#""7":1"#,
            r#""7":-1"#,
            r#""x":3"#,
            r#""-1":3"#,
            r#""4294967296":3"#,
        ] {
            let line =
                format!(r#"{{"op":"moved","path":"/a","inode":1,"policies":{{{strange}}}}}"#);
            let why = serde_json::from_str::<ThreadsRecord>(&line).unwrap_err();
            assert!(
                why.to_string().contains("would not note"),
                "{strange}: {why}"
            );
        }
    }

    #[test]
    fn a_cgroup_that_is_gone_or_another_is_left_alone() {
        let fake = Fake::new();
        let roots = fake.roots();
        let root = open_root(&roots.cgroup).unwrap();
        let undone = |moved: &ScxThread| {
            let done = moved.undo(&mut UndoHost::new(&roots));
            done.into_iter().map(|(_, outcome)| outcome).next().unwrap()
        };
        assert_eq!(undone(&moved()), UndoOutcome::Vanished);
        fake.write("sys/fs/cgroup/a/cgroup.threads", "");
        assert_eq!(undone(&moved()), UndoOutcome::Vanished);
        let dir = open_beneath(&root, b"/a").unwrap();
        let same = ScxThread {
            inode: inode(&dir).unwrap().st_ino,
            ..moved()
        };
        assert_eq!(undone(&same), UndoOutcome::Unchanged);
    }
}
