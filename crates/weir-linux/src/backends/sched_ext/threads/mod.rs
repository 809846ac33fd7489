// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which threads weir schedules: threads of a limited cgroup get the policy `SCHED_EXT`, and their own one
//! back. Children inherit it from their parents, so mostly there is nothing to do. A thread that joins the
//! cgroup from outside is found at one of the next scans.
//!
//! To read and change policies takes its time, on a slow machine two seconds for ten thousand threads, and
//! the scheduler waits no longer for a heartbeat. So it is done in portions ([`scan`]).
//!
//! Only ordinary threads (`SCHED_OTHER`, `SCHED_BATCH`, `SCHED_IDLE`) are moved. Real-time threads are left
//! alone. Threads that were `SCHED_EXT` before the first one of their cgroup was moved stay so. A later one
//! has inherited it. Niceness stays as it is.

pub(crate) mod moved;
mod noted;
pub(crate) mod scan;

use crate::kernel::escape::unescape;
use crate::leases::undo::{LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use crate::workloads::cgroups::cgroup_type::threads_within;
use crate::workloads::processes::sched_policy::{
    RESET_ON_FORK, SCHED_BATCH, SCHED_EXT, SCHED_IDLE, SCHED_OTHER, policy, set_policy, start_ticks,
};
use noted::{ChosenThread, NotedPolicy};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_core::WorkloadId;

/// Scans for threads that get their policies back. A child that is born while its parent is moved back is
/// found by a later scan; a program that forks for ever must not keep weir here for ever.
const SCANS_MAX: usize = 16;
/// Policies of ordinary threads, which are moved.
const MOVED: [i32; 3] = [SCHED_OTHER, SCHED_BATCH, SCHED_IDLE];

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
    pub(crate) policies: BTreeMap<u32, NotedPolicy>,
    /// The threads that were `SCHED_EXT` by themselves.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) chosen: BTreeSet<ChosenThread>,
}

/// In JSON the key of a map is a text, and serde does not make a number of it behind a tag.
fn policies_from<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<u32, NotedPolicy>, D::Error> {
    let policies = BTreeMap::<String, NotedPolicy>::deserialize(from)?;
    let sound = |(tid, noted): (String, NotedPolicy)| {
        let tid: u32 = tid.parse().ok()?;
        let is_moved = [SCHED_BATCH, SCHED_IDLE].contains(&noted.0);
        is_moved.then_some((tid, noted))
    };
    let sound: Option<BTreeMap<u32, NotedPolicy>> = policies.into_iter().map(sound).collect();
    sound.ok_or_else(|| D::Error::custom(NO_POLICY))
}

/// Why a record of a policy is refused.
const NO_POLICY: &str = "a policy that weir would not note";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ThreadsRecord {
    /// On disk BEFORE the first thread is moved.
    Moved(ScxThread),
    /// BEFORE a thread is moved that has another policy than the one that is noted.
    ThreadPolicy {
        inode: u64,
        tid: u32,
        policy: i32,
        start: u64,
    },
    /// All have their policies again, or the cgroup is gone.
    Done { inode: u64 },
}

impl Undo for ScxThread {
    type Key = u64;
    type Record = ThreadsRecord;
    const OPS: &'static [(&'static str, RecordPhase)] = &[
        ("moved", RecordPhase::Begin),
        ("thread_policy", RecordPhase::Write),
        ("done", RecordPhase::End),
    ];

    fn replay(
        open: &BTreeMap<u64, Self>,
        record: ThreadsRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            ThreadsRecord::Moved(moved) => {
                Box::new(move |open| drop(open.insert(moved.inode, moved)))
            }
            ThreadsRecord::ThreadPolicy {
                inode,
                tid,
                policy,
                start,
            } => {
                if !MOVED.contains(&policy) {
                    return Err(NO_POLICY.into());
                }
                open.get(&inode)
                    .ok_or("a policy in a cgroup that is not held")?;
                Box::new(move |open| {
                    open.entry(inode)
                        .and_modify(|moved| moved.set_noted(tid, policy, start));
                })
            }
            ThreadsRecord::Done { inode } => Box::new(move |open| drop(open.remove(&inode))),
        })
    }

    fn records(&self) -> Vec<ThreadsRecord> {
        vec![ThreadsRecord::Moved(self.clone())]
    }

    fn has_cgroup(open: &BTreeMap<u64, Self>, inode: u64) -> bool {
        open.contains_key(&inode)
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let outcome = match unescape(&self.path) {
            Some(path) => host.in_cgroup(&path, self.inode, |dir, _| put_back_in(dir, self)),
            None => UndoOutcome::Failed("a path that weir would not write".into()),
        };
        vec![(WorkloadId::new(self.path.clone()), outcome)]
    }
}

/// Whether a thread is `SCHED_EXT`. Before the first one of its cgroup is moved, it has not inherited that.
pub(in crate::backends::sched_ext) fn is_ext(tid: u32) -> bool {
    policy(tid).is_ok_and(|policy| policy & !RESET_ON_FORK == SCHED_EXT)
}

/// Moves a thread under the scheduler. False if it is not one that is moved.
pub(in crate::backends::sched_ext) fn take(
    tid: u32,
    moved: &mut ScxThread,
    note: impl FnOnce(&ThreadsRecord) -> Result<(), Errno>,
) -> Result<bool, Errno> {
    let was = policy(tid)?;
    let bare = was & !RESET_ON_FORK;
    if !MOVED.contains(&bare) {
        return Ok(false);
    }
    // This includes a thread that another program has given the ordinary policy since it was noted. What
    // could not be noted is not noted here either: the next scan tries again. One without a start has ended,
    // or cannot be noted.
    if bare != moved.noted(tid, start_ticks) {
        let inode = moved.inode;
        let (policy, start) = (bare, start_ticks(tid).ok_or(Errno::SRCH)?);
        note(&ThreadsRecord::ThreadPolicy {
            inode,
            tid,
            policy,
            start,
        })?;
        moved.set_noted(tid, policy, start);
    }
    set_policy(tid, SCHED_EXT | was & RESET_ON_FORK)?;
    Ok(true)
}

/// Gives a thread its policy back. If it is not `SCHED_EXT` (any more), another program changed it, and it
/// stays.
pub(in crate::backends::sched_ext) fn give(tid: u32, moved: &ScxThread) -> Result<bool, Errno> {
    let is = policy(tid)?;
    if is & !RESET_ON_FORK != SCHED_EXT {
        return Ok(false);
    }
    let noted = moved.noted(tid, start_ticks);
    if noted == SCHED_EXT {
        return Ok(false);
    }
    set_policy(tid, noted | is & RESET_ON_FORK)?;
    Ok(true)
}

/// Scans until no thread is left that is `SCHED_EXT`: a thread may be born between scan and change.
pub(in crate::backends::sched_ext) fn put_back_in(
    dir: BorrowedFd<'_>,
    moved: &ScxThread,
) -> UndoOutcome {
    let mut given = UndoOutcome::Unchanged;
    for _ in 0..SCANS_MAX {
        let threads = match threads_within(dir) {
            Ok(threads) => threads,
            Err(Errno::NOENT | Errno::NODEV) => return UndoOutcome::Vanished,
            Err(e) => return UndoOutcome::Failed(format!("cgroup.threads: {e}")),
        };
        let (mut is_changed, mut failed) = (false, None);
        for tid in threads {
            match give(tid, moved) {
                Ok(done) => is_changed |= done,
                Err(Errno::SRCH) => {}
                Err(e) => failed = Some(e),
            }
        }
        if let Some(e) = failed {
            return UndoOutcome::Failed(format!("scheduling policy: {e}"));
        }
        if !is_changed {
            return given;
        }
        given = UndoOutcome::Restored;
    }
    UndoOutcome::Failed(format!(
        "new SCHED_EXT threads at each of {SCANS_MAX} scans"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::kernel::files::{inode, open_beneath, open_root};
    use crate::leases::replay::OpenBook;
    use crate::leases::undo::LeaseKind;

    fn moved() -> ScxThread {
        ScxThread {
            path: "/a".into(),
            inode: 1,
            policies: BTreeMap::new(),
            chosen: BTreeSet::new(),
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
        assert!(record.policies.is_empty(), "the next scan notes it again");
        let took = take(own(), &mut record, |_| {
            noted += 1;
            Err(Errno::NOSPC)
        });
        assert_eq!((took, noted), (Err(Errno::NOSPC), 2));
        assert_eq!(policy(own()).unwrap(), SCHED_BATCH);
        set_policy(own(), before).unwrap();
    }

    /// Another program makes a noted thread ordinary: where that cannot be noted, the thread stays so.
    #[test]
    fn a_policy_that_was_set_since_is_not_overwritten_where_it_cannot_be_noted() {
        let before = policy(own()).unwrap();
        let noted = NotedPolicy(SCHED_BATCH, start_ticks(own()).unwrap());
        let mut record = ScxThread {
            policies: [(own(), noted)].into(),
            ..moved()
        };
        for _ in 0..2 {
            let took = take(own(), &mut record, |_| Err(Errno::NOSPC));
            assert_eq!(took, Err(Errno::NOSPC));
            assert_eq!(policy(own()).unwrap(), before);
            assert_eq!(record.policies.get(&own()), Some(&noted));
            assert_eq!(give(own(), &record), Ok(false));
        }
    }

    /// A record for each policy: with the whole map in each, some thousands of threads fill a journal.
    #[test]
    fn a_note_of_a_policy_is_as_long_with_many_threads_as_with_one() {
        if set_policy(own(), SCHED_BATCH).is_err() {
            return;
        }
        let mut record = ScxThread {
            policies: (1_000_000..1_010_000)
                .map(|tid| (tid, NotedPolicy(SCHED_IDLE, 70)))
                .collect(),
            ..moved()
        };
        let mut lines = Vec::new();
        let _ = take(own(), &mut record, |noted| {
            lines.push(serde_json::to_string(noted).unwrap());
            Err(Errno::NOSPC)
        });
        set_policy(own(), SCHED_OTHER).unwrap();
        let (tid, policy, start) = (own(), SCHED_BATCH, start_ticks(own()).unwrap());
        assert_eq!(
            lines,
            [format!(
                r#"{{"op":"thread_policy","inode":1,"tid":{tid},"policy":{policy},"start":{start}}}"#
            )]
        );
    }

    #[test]
    fn policies_that_are_noted_one_by_one_are_read_as_one_lease() {
        let mut open = OpenBook::new(&[LeaseKind::of::<ScxThread>()]);
        let lines = [
            r#"{"op":"moved","path":"/a","inode":1,"chosen":[[9,60],[11,70],[12,80]]}"#,
            r#"{"op":"thread_policy","inode":1,"tid":7,"policy":3,"start":50}"#,
            r#"{"op":"thread_policy","inode":1,"tid":8,"policy":5,"start":55}"#,
            r#"{"op":"thread_policy","inode":1,"tid":7,"policy":0,"start":50}"#,
            r#"{"op":"thread_policy","inode":1,"tid":9,"policy":0,"start":60}"#,
            r#"{"op":"thread_policy","inode":1,"tid":12,"policy":3,"start":90}"#,
        ];
        assert_eq!(
            open.replay_all((lines.join("\n") + "\n").as_bytes()),
            [""; 0]
        );
        let text = String::from_utf8(open.text().unwrap()).unwrap();
        let whole = r#"{"op":"moved","path":"/a","inode":1,"policies":{"8":[5,55],"12":[3,90]},"chosen":[[11,70]]}"#;
        assert_eq!(text.trim(), whole);
        for (strange, why) in [
            (
                r#""inode":1,"tid":7,"policy":1,"start":50"#,
                "would not note",
            ),
            (r#""inode":2,"tid":7,"policy":3,"start":50"#, "not held"),
            (r#""inode":1,"tid":7,"policy":3"#, "start"),
        ] {
            let line = format!("{{\"op\":\"thread_policy\",{strange}}}\n");
            let problems = open.replay_all(line.as_bytes());
            assert!(problems[0].contains(why), "{problems:?}");
        }
    }

    /// After a kill these threads must have their own policies again.
    #[test]
    fn policies_are_read_as_they_were_written() {
        let record = ThreadsRecord::Moved(ScxThread {
            policies: [
                (7, NotedPolicy(SCHED_BATCH, 70)),
                (4_000_000, NotedPolicy(SCHED_IDLE, 80)),
            ]
            .into(),
            ..moved()
        });
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(
            serde_json::from_str::<ThreadsRecord>(&line).unwrap(),
            record
        );
        for strange in [
            r#""7":[1,70]"#,
            r#""7":[-1,70]"#,
            r#""x":[3,70]"#,
            r#""-1":[3,70]"#,
            r#""4294967296":[3,70]"#,
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
    fn a_thread_that_chose_the_policy_itself_keeps_it() {
        let before = policy(own()).unwrap();
        if set_policy(own(), SCHED_EXT).is_err() {
            return;
        }
        let mut record = moved();
        assert!(is_ext(own()));
        record.chosen.extend(ChosenThread::now(own()));
        assert_eq!(give(own(), &record), Ok(false));
        assert_eq!(policy(own()).unwrap(), SCHED_EXT);
        set_policy(own(), before).unwrap();
        // Another program made it ordinary meanwhile: it is moved, and gets that back.
        assert_eq!(take(own(), &mut record, |_| Ok(())), Ok(true));
        assert_eq!(give(own(), &record), Ok(true));
        assert_eq!(policy(own()).unwrap(), before);
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
