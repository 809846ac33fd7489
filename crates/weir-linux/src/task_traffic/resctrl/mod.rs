// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shares by resctrl: each workload with memory on a device gets a monitoring group of its own, and the CPU
//! counts the group's traffic.
//!
//! ```text
//! mon_groups/weir-PID-TIME-N/tasks                       its threads, followed once a second   (tasks)
//! mon_groups/weir-…/mon_data/mon_L3_*/mbm_total_bytes    read at each tick, summed over caches (counter)
//! info/L3_MON/mbm_total_bytes_config                     set to slow memory alone              (tree)
//! ```
//!
//! AMD's CPUs can count reads of slow memory, which is CXL memory. Others know *local* traffic and *all*: the
//! difference is CXL memory and the DRAM of other sockets, good for a ratio where the latter is little.
//!
//! Groups and the setting are a lease ([`undo`]). Groups of others stay as they are, and so do tasks in them:
//! a workload that has such tasks is not counted, nor is one for which the CPU has no id left.

mod counter;
mod tasks;
mod tree;
pub(crate) mod undo;

use super::counting_intf::Sum;
use super::{Key, TrafficSource};
use crate::error::LinuxError;
use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, open_dir, open_root, write_at};
use crate::leases::LeaseBook;
use crate::leases::restore::ResetReport;
use crate::options::{Options, Roots};
use crate::workloads::discovery::WorkloadSource as Watches;
use counter::Counter;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use tasks::{Ground, GroupTasks};
use tree::{Directories, Events, Knob, Maker, ResctrlTree};
use undo::{COUNTING, ResctrlLease, ResctrlRecord, Setting};
use weir_core::seam::observation::{EventCount, Skipped};
use weir_core::seam::plan::OutcomeKind;
use weir_core::seam::topology::{Fact, TaskEvent};
use weir_core::{Missing, Nanos};

/// How often tasks that came and left are searched.
const FOLLOW_EVERY: Nanos = Nanos::from_millis(1000);
/// How often the kernel's lists are read of the tasks in a group and of the caches.
const RECOUNT_EVERY: Nanos = Nanos::from_millis(10_000);
/// How long a group without use is kept: memory comes and goes.
const KEPT: Nanos = Nanos::from_millis(5000);
/// When it is tried again to make a group.
const AGAIN: Nanos = Nanos::from_millis(5000);
const FACT: &str = "attribution.resctrl";

struct Group {
    name: String,
    members: GroupTasks,
    counter: Counter,
    born: Nanos,
    recount_at: Nanos,
    wanted_at: Nanos,
    trouble: Option<Missing>,
}

enum GroupState {
    Counted(Box<Group>),
    Not { why: Missing, again_at: Nanos },
}

pub(crate) struct Resctrl {
    tree: ResctrlTree,
    maker: Box<dyn Maker>,
    leases: LeaseBook,
    mark: String,
    cgroup: OwnedFd,
    proc: OwnedFd,
    groups: BTreeMap<Key, GroupState>,
    made: u64,
    follow_at: Nanos,
    buffer: Buffer,
    said: BTreeSet<String>,
    /// Why counts are not those of slow memory any more.
    event_lost: Option<Missing>,
}

pub(crate) fn fact(options: &Options) -> Fact {
    let value = ResctrlTree::open(&options.roots).map(|tree| {
        let ids = tree.id_count.map_or("?".into(), |n| n.to_string());
        let others = tree.foreign_groups;
        let is_auto = match auto_refusal(&tree, false) {
            None => "chosen automatically while limiting".into(),
            Some(why) => format!("not chosen automatically: {why}"),
        };
        format!(
            "can be used (--attribution resctrl): {}; ids for groups: {ids}, groups of others: {others}; {is_auto}",
            tree.name()
        )
    });
    Fact {
        name: FACT.into(),
        value,
        next_move: None,
    }
}

/// Why it is not for `--attribution auto`.
fn auto_refusal(tree: &ResctrlTree, is_read_only: bool) -> Option<String> {
    match () {
        () if is_read_only => Some("weir only observes, and this makes groups".into()),
        () if tree.events == Events::Remote => {
            Some("it has no event for slow memory, only for all that is remote".into())
        }
        () if tree.foreign_groups > 0 => Some("another program has groups there".into()),
        () => None,
    }
}

impl Resctrl {
    /// Begins to count.
    ///
    /// # Errors
    /// It cannot be used, or (`is_auto`) should not be.
    pub(super) fn open(options: &Options, is_auto: bool) -> Result<Resctrl, Missing> {
        let tree = ResctrlTree::open(&options.roots)?;
        if let Some(why) = auto_refusal(&tree, options.read_only).filter(|_| is_auto) {
            return Err(Missing::NotSupported(why));
        }
        Resctrl::with(&options.roots, tree, Box::new(Directories))
    }

    /// Takes the right to count, and what an earlier weir has left is undone by that first. Where some of it
    /// could not be undone nothing is counted, and the reason names `weir reset`.
    fn with(roots: &Roots, tree: ResctrlTree, maker: Box<dyn Maker>) -> Result<Resctrl, Missing> {
        let refused = |e: LinuxError| Missing::NotPermitted(e.to_string());
        let mut leases = LeaseBook::new(roots, &[COUNTING]);
        let left = leases.claim().map_err(refused)?;
        if !left.is_empty() {
            tracing::warn!(report = ?left, "a weir died while it counted by resctrl");
        }
        if !left.is_clean() {
            let said = left
                .problems
                .iter()
                .chain(left.failed.iter().map(|f| &f.why));
            let said: Vec<&str> = said.map(String::as_str).collect();
            let why = format!("a weir before left: {}; try weir reset", said.join("; "));
            return Err(Missing::Lost(why));
        }
        let open = |path: &std::path::Path| {
            let failed = |e| Missing::Lost(format!("{}: {e}", path.display()));
            open_root(path).map_err(failed)
        };
        let mut resctrl = Resctrl {
            cgroup: open(&roots.cgroup)?,
            proc: open(&roots.proc)?,
            mark: format!("{}{}-{:x}", tree::PREFIX, std::process::id(), now().0),
            tree,
            maker,
            leases,
            groups: BTreeMap::new(),
            made: 0,
            follow_at: Nanos(0),
            buffer: Buffer::new(),
            said: BTreeSet::new(),
            event_lost: None,
        };
        resctrl.begin()?;
        Ok(resctrl)
    }

    /// Notes what will be changed, and sets the event.
    fn begin(&mut self) -> Result<(), Missing> {
        let Events::Slow(knob) = self.tree.events else {
            return self.note(None);
        };
        let Err(why) = self.set(knob) else {
            return Ok(());
        };
        // What is noted and did not come about is found unchanged. A setting that does not come back stays
        // noted, and nothing is counted by it.
        let _ = self.put_back();
        if !self.tree.has_local || !self.leases.is_empty() {
            return Err(why);
        }
        tracing::warn!(%why, "resctrl does not distinguish slow memory: all that is remote is counted");
        self.tree.events = Events::Remote;
        self.note(None)
    }

    fn note(&mut self, setting: Option<Setting>) -> Result<(), Missing> {
        let lease = ResctrlLease {
            mark: self.mark.clone(),
            setting,
        };
        let noted = self.leases.note(&ResctrlRecord::Resctrl(lease));
        noted.map_err(|why| match why {
            OutcomeKind::Failed(why) | OutcomeKind::Refused(why) => Missing::Lost(why),
            why => Missing::Lost(format!("nothing is changed: {why:?}")),
        })
    }

    fn set(&mut self, knob: Knob) -> Result<(), Missing> {
        let file = knob.file();
        let theirs = tree::text(&self.tree.root, file, &mut self.buffer)?;
        let ours = knob.slow(&theirs);
        if tree::are_same(&theirs, &ours) {
            return self.note(None);
        }
        self.note(Some(Setting {
            file: file.into(),
            theirs,
            ours: ours.clone(),
        }))?;
        undo::set(&self.tree.root, file, &ours).map_err(Missing::NotSupported)
    }

    /// Restores all that was changed.
    fn put_back(&mut self) -> Result<ResetReport, LinuxError> {
        let keys: Vec<Key> = self.groups.keys().copied().collect();
        for key in keys {
            self.remove(key);
        }
        self.leases.undo_all()
    }

    /// Finds out whether the event still counts slow memory alone: another program may set it otherwise. What
    /// was counted since then includes other traffic, so none of it is used from then on.
    ///
    /// The event was set once and never read at first. After `weir reset --force`, or a write of an operator,
    /// all traffic was counted as that of slow memory, and workloads were charged for it.
    fn check_event(&mut self) {
        let Events::Slow(knob) = self.tree.events else {
            return;
        };
        if self.event_lost.is_some() {
            return;
        }
        let file = knob.file();
        if let Ok(now) = tree::text(&self.tree.root, file, &mut self.buffer)
            && !tree::are_same(&now, &knob.slow(&now))
        {
            let why =
                format!("resctrl: another program set {file} to {now}; restart weir to count");
            tracing::warn!(why, "no workload is counted any more");
            self.event_lost = Some(Missing::Lost(why));
        }
    }

    /// Makes a group for a workload. A group whose caches are not found is removed again: it would use up an
    /// id (RMID) of the CPU and count nothing. A lack of ids is told from one that passes.
    fn make(&mut self, at: Nanos) -> Result<Group, Missing> {
        let name = format!("{}-{}", self.mark, self.made);
        self.made += 1;
        let made = self.maker.make(&self.tree.mon_groups, &name);
        made.map_err(|e| match e {
            Errno::NOSPC => {
                let count = self.tree.id_count.map_or("all".into(), |n| n.to_string());
                Missing::NotSupported(format!(
                    "resctrl: no id (RMID) is left, of {count}: its group is shared out otherwise"
                ))
            }
            Errno::BUSY => Missing::NotSupported(
                "resctrl: ids (RMIDs) of groups that ended are still in caches: waiting".into(),
            ),
            e => Missing::Lost(format!("resctrl: mon_groups/{name}: {e}")),
        })?;
        let mut counter = Counter::default();
        let opened = open_dir(&self.tree.mon_groups, name.as_bytes())
            .and_then(|dir| counter.find_caches(&dir));
        match opened {
            Ok(()) => Ok(Group {
                name,
                members: GroupTasks::default(),
                counter,
                born: at,
                recount_at: Nanos(at.0.saturating_add(RECOUNT_EVERY.0)),
                wanted_at: at,
                trouble: None,
            }),
            Err(e) => {
                let _ = self.maker.remove(&self.tree.mon_groups, &name);
                Err(Missing::Lost(format!("resctrl: mon_groups/{name}: {e}")))
            }
        }
    }

    /// One workload: a group if it has none, and its threads in it.
    fn attend(&mut self, key: Key, source: &Watches, at: Nanos) {
        let is_due = match self.groups.get(&key) {
            None => true,
            Some(GroupState::Not { again_at, .. }) => *again_at <= at,
            Some(GroupState::Counted(_)) => false,
        };
        if is_due {
            let state = match self.make(at) {
                Ok(group) => GroupState::Counted(Box::new(group)),
                Err(why) => {
                    self.say(&why);
                    let again_at = Nanos(at.0.saturating_add(AGAIN.0));
                    GroupState::Not { why, again_at }
                }
            };
            self.groups.insert(key, state);
        }
        let Some(GroupState::Counted(group)) = self.groups.get_mut(&key) else {
            return;
        };
        let Ok(dir) = open_dir(&self.tree.mon_groups, group.name.as_bytes()) else {
            // Another program has removed it: a new one next time.
            self.groups.remove(&key);
            return;
        };
        let ground = Ground {
            cgroup: &self.cgroup,
            proc: &self.proc,
            tree: &self.tree,
        };
        let recount = group.recount_at <= at;
        if recount {
            group.recount_at = Nanos(at.0.saturating_add(RECOUNT_EVERY.0));
            let _ = group.counter.find_caches(&dir);
        }
        group.wanted_at = at;
        let names = (group.name.as_str(), self.mark.as_str(), &dir);
        let buffer = &mut self.buffer;
        let followed = group
            .members
            .follow(&ground, source, names, recount, buffer);
        group.trouble = match (followed, group.members.foreign.len()) {
            (Ok(()), 0) => None,
            (Ok(()), count) => Some(Missing::NotSupported(format!(
                "resctrl: {count} of its tasks are in groups of others"
            ))),
            // The next tick finds out whether it is gone.
            (Err(e), _) => Some(Missing::Lost(format!("resctrl: its tasks: {e}"))),
        };
        if let Some(why @ Missing::NotSupported(_)) = group.trouble.clone() {
            self.say(&why);
        }
    }

    /// Says it, once.
    fn say(&mut self, why: &Missing) {
        let why = why.to_string();
        if self.said.len() < 100 && self.said.insert(why.clone()) {
            tracing::warn!(why, "a workload is not counted");
        }
    }

    fn count(&mut self, id: Key) -> Result<Sum, Missing> {
        if let Some(why) = &self.event_lost {
            return Err(why.clone());
        }
        let group = match self.groups.get_mut(&id) {
            None => return Err(Missing::NotYetRead),
            Some(GroupState::Not { why, .. }) => return Err(why.clone()),
            Some(GroupState::Counted(group)) => group,
        };
        let dir = open_dir(&self.tree.mon_groups, group.name.as_bytes());
        let dir = dir.map_err(|e| Missing::Lost(format!("resctrl: {}: {e}", group.name)))?;
        let counted = group.counter.read(&dir, self.tree.events, &mut self.buffer);
        if matches!(&counted, Err(Missing::NotSupported(_))) {
            // Not all get one at their birth (mbm_assign_on_mkdir). The next reading shows it.
            for event in ["mbm_total_bytes", "mbm_local_bytes"]
                .iter()
                .take(self.tree.events.count())
            {
                let _ = write_at(&dir, "mbm_L3_assignments", &format!("{event}:*=e\n"));
            }
        }
        let count = counted?;
        if let Some(why) = &group.trouble {
            return Err(why.clone());
        }
        // Always counting; begun anew with a new group.
        let age = now().0.saturating_sub(group.born.0);
        let mut sum = Sum::default();
        sum.0[0] = EventCount {
            count,
            enabled_ns: age,
            running_ns: age,
        };
        Ok(sum)
    }

    fn remove(&mut self, key: Key) {
        if let Some(GroupState::Counted(group)) = self.groups.remove(&key)
            && let Err(e) = self.maker.remove(&self.tree.mon_groups, &group.name)
        {
            tracing::warn!(group = group.name, %e, "resctrl group left behind until weir ends");
        }
    }
}

impl TrafficSource for Resctrl {
    fn name(&self) -> &str {
        self.tree.name()
    }

    fn events(&self) -> Vec<TaskEvent> {
        // The kernel gives bytes.
        vec![TaskEvent {
            bytes_per_count: 1,
            counts_stores: false,
        }]
    }

    fn follow(&mut self, watched_by_key: &BTreeMap<Key, &Watches>) {
        let at = now();
        let is_new = watched_by_key
            .keys()
            .any(|key| !self.groups.contains_key(key));
        if at < self.follow_at && !is_new {
            return;
        }
        self.follow_at = Nanos(at.0.saturating_add(FOLLOW_EVERY.0));
        self.check_event();
        // First those that go: their ids are for those that come.
        let old = |state: &GroupState| match state {
            GroupState::Counted(group) => group.wanted_at.0.saturating_add(KEPT.0) <= at.0,
            GroupState::Not { .. } => true,
        };
        let gone = self.groups.iter();
        let gone = gone.filter(|(key, state)| !watched_by_key.contains_key(key) && old(state));
        for key in gone.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.remove(key);
        }
        for (key, source) in watched_by_key {
            self.attend(*key, source, at);
        }
    }

    fn refresh(&mut self, _: &BTreeSet<Key>) -> u64 {
        0
    }

    fn goes_by_cgroups(&self) -> bool {
        false
    }

    fn of_cgroup(&mut self, id: Key) -> Result<Sum, Missing> {
        self.count(id)
    }

    fn of_process(&mut self, id: Key) -> Result<Sum, Missing> {
        self.count(id)
    }

    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool) {
        let gone: Vec<Key> = self
            .groups
            .keys()
            .copied()
            .filter(|k| !is_there(*k))
            .collect();
        for key in gone {
            self.remove(key);
        }
    }

    fn notes(&self) -> Vec<Skipped> {
        let mut notes = Vec::new();
        if self.tree.events == Events::Remote {
            notes.push(
                "CXL memory apart: shares are of all that is not local, other sockets' DRAM too"
                    .to_owned(),
            );
        }
        let of = |state: &GroupState| match state {
            GroupState::Not { why, .. } => Some(why.to_string()),
            GroupState::Counted(group) => group.trouble.as_ref().map(ToString::to_string),
        };
        let mut whys: BTreeMap<String, usize> = BTreeMap::new();
        for why in self.groups.values().filter_map(of) {
            *whys.entry(why).or_default() += 1;
        }
        notes.extend(
            whys.into_iter()
                .map(|(why, count)| format!("{count} workloads: {why}")),
        );
        let skipped = |note| Skipped {
            what: "resctrl".into(),
            why: Missing::NotSupported(note),
        };
        notes.into_iter().map(skipped).collect()
    }
}

impl Drop for Resctrl {
    fn drop(&mut self) {
        match self.put_back() {
            Ok(report) if report.is_clean() => {}
            Ok(report) => tracing::warn!(?report, "resctrl is not as it was: weir reset"),
            Err(e) => tracing::warn!("{e}"),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod undo_tests;
