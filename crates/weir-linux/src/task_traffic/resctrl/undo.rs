// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lease on what weir changes of resctrl to count by it: groups it makes, and an event that it sets
//! otherwise.
//!
//! ```text
//! resctrl       the mark that names of its groups begin with, and the setting   on disk BEFORE the first change
//! resctrl_done  restored, or gone
//! ```
//!
//! Groups are known by their names (`weir-` and the mark), so a new one needs no new record. A setting is put
//! back only where weir's still stands.
//!
//! The book is one of its own: a weir process that only observes may count while another one limits.

use super::tree::{self, Directories, ENTRIES_MAX, Knob, Maker, PREFIX, are_same, text};
use crate::kernel::files::{Buffer, for_each_dir, open_path_dir, open_root, write_at};
use crate::leases::BookSpec;
use crate::leases::journal::JournalFiles;
use crate::leases::undo::{LeaseChange, LeaseKind, RecordPhase, Undo, UndoHost, UndoOutcome};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// The leases of counting, under the right to count by resctrl.
pub(crate) const COUNTING: BookSpec = BookSpec {
    doing: "counted by resctrl",
    lock: "resctrl.lock",
    files: JournalFiles {
        journal: "counting.jsonl",
        new: "counting.new",
        damaged: "counting.damaged",
    },
    kinds: &[LeaseKind::of::<ResctrlLease>()],
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResctrlLease {
    /// Names of groups begin with it.
    pub(super) mark: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) setting: Option<Setting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(super) file: String,
    pub(super) theirs: String,
    pub(super) ours: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum ResctrlRecord {
    Resctrl(ResctrlLease),
    ResctrlDone { mark: String },
}

impl ResctrlLease {
    fn is_sound(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_mark = self.mark.len() > PREFIX.len() && self.mark.chars().all(is_plain);
        let is_known = |s: &Setting| Knob::ALL.iter().any(|knob| knob.file() == s.file);
        self.mark.starts_with(PREFIX) && is_mark && self.setting.iter().all(is_known)
    }
}

impl Undo for ResctrlLease {
    type Key = String;
    type Record = ResctrlRecord;
    const OPS: &'static [(&'static str, RecordPhase)] = &[
        ("resctrl", RecordPhase::Begin),
        ("resctrl_done", RecordPhase::End),
    ];

    fn replay(
        _: &BTreeMap<String, Self>,
        record: ResctrlRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            ResctrlRecord::Resctrl(lease) if lease.is_sound() => {
                Box::new(move |open| drop(open.insert(lease.mark.clone(), lease)))
            }
            ResctrlRecord::Resctrl(_) => return Err("a name that weir would not write".into()),
            ResctrlRecord::ResctrlDone { mark } => Box::new(move |open| drop(open.remove(&mark))),
        })
    }

    fn records(&self) -> Vec<ResctrlRecord> {
        vec![ResctrlRecord::Resctrl(self.clone())]
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let path = tree::path(host.roots);
        let root = open_root(&path).ok();
        let Some(root) = root.filter(|root| open_path_dir(root, "info").is_ok()) else {
            // Groups went with the mount. A setting is the CPU's.
            let why = format!("not mounted: mount -t resctrl resctrl {}", path.display());
            let unset = |setting: &Setting| (id(&setting.file), UndoOutcome::Failed(why));
            return self.setting.as_ref().map(unset).into_iter().collect();
        };
        let mut done = remove_groups(&root, &self.mark);
        if let Some(setting) = &self.setting {
            done.push((id(&setting.file), setting.put_back(&root)));
        }
        done
    }
}

fn id(what: &str) -> WorkloadId {
    WorkloadId::new(format!("resctrl:{what}"))
}

fn remove_groups(root: &OwnedFd, mark: &str) -> Vec<(WorkloadId, UndoOutcome)> {
    let mut names = Vec::new();
    let listed = open_path_dir(root, "mon_groups").and_then(|dir| {
        for_each_dir(&dir, ENTRIES_MAX, |name| {
            let name = std::str::from_utf8(name).ok().map(str::to_owned);
            let is_ours = |n: &String| {
                n.strip_prefix(mark)
                    .is_some_and(|rest| rest.starts_with('-'))
            };
            names.extend(name.filter(is_ours));
        })?;
        Ok(dir)
    });
    let dir = match listed {
        Ok(dir) => dir,
        Err(e) => return vec![(id("mon_groups"), UndoOutcome::Failed(e.to_string()))],
    };
    let removed = |name: String| {
        let outcome = match Directories.remove(&dir, &name) {
            Ok(()) => UndoOutcome::Restored,
            Err(Errno::NOENT) => return None,
            Err(e) => UndoOutcome::Failed(e.to_string()),
        };
        Some((id(&format!("mon_groups/{name}")), outcome))
    };
    names.into_iter().filter_map(removed).collect()
}

impl Setting {
    fn put_back(&self, root: &OwnedFd) -> UndoOutcome {
        let now = match text(root, &self.file, &mut Buffer::new()) {
            Ok(now) => now,
            Err(e) => return UndoOutcome::Failed(e.to_string()),
        };
        if are_same(&now, &self.theirs) {
            return UndoOutcome::Unchanged;
        }
        if !are_same(&now, &self.ours) {
            let theirs = &self.theirs;
            return UndoOutcome::LeftAlone(format!(
                "another program set {now} since; it was {theirs}"
            ));
        }
        match set(root, &self.file, &self.theirs) {
            Ok(()) => UndoOutcome::Restored,
            Err(why) => UndoOutcome::Failed(why),
        }
    }
}

/// Writes a setting, and checks whether the kernel took it.
pub(super) fn set(root: &OwnedFd, file: &str, value: &str) -> Result<(), String> {
    // The kernel wants the line's end.
    write_at(root, file, &format!("{value}\n")).map_err(|e| {
        let said = text(root, "info/last_cmd_status", &mut Buffer::new());
        format!(
            "{file} does not take {value:?}: {e} ({})",
            said.unwrap_or_default()
        )
    })?;
    let now = text(root, file, &mut Buffer::new()).map_err(|e| e.to_string())?;
    if are_same(&now, value) {
        Ok(())
    } else {
        Err(format!("{file} has {now:?} after {value:?} was written"))
    }
}
