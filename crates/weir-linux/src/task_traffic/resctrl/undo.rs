// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir owes to resctrl: groups it has made, and an event it has set otherwise. Written down in
//! `/run/weir/resctrl.json` before the first of it, given back at the end, and after a kill by the next weir or by
//! `weir reset`. The lock beside it is held while somebody counts.
//!
//! Groups are known by their names (`weir-` and a mark that is written down), so a new one needs no new note. A setting is put
//! back only where ours still stands.

use super::tree::{self, ENTRIES_MAX, Knob, Maker, PREFIX, are_same, text};
use crate::error::LinuxError;
use crate::kernel::files::{Buffer, for_each_dir, open_path_dir, open_root, write_at};
use crate::leases::journal::read_trusted;
use crate::leases::restore::{NotRestored, ResetReport};
use crate::leases::run_dir::{Lock, RunDir};
use crate::options::Roots;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use weir_core::WorkloadId;

pub(crate) const FILE: &str = "resctrl.json";
const NEW: &str = "resctrl.new";
/// One that makes no sense is kept here for people to look at.
const DAMAGED: &str = "resctrl.damaged";
pub(crate) const LOCK: &str = "resctrl.lock";
/// More is not ours.
const SIZE_MAX: u64 = 64 * 1024;

/// What is owed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResctrlLeases {
    /// Names of groups begin with it.
    pub(super) mark: String,
    /// A setting that was changed.
    pub(super) setting: Option<Setting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) file: String,
    pub(super) theirs: String,
    pub(super) ours: String,
}

/// The right to count by resctrl, and the note of what is owed.
pub(super) struct UndoFile {
    dir: RunDir,
    _lock: Lock,
}

impl UndoFile {
    /// Takes the lock, and settles what a weir that died has left.
    pub(super) fn open(
        roots: &Roots,
        maker: &dyn Maker,
    ) -> Result<(UndoFile, ResetReport), LinuxError> {
        let dir = RunDir::open_or_make(roots)?;
        let lock = dir.lock_file(LOCK)?;
        let mut report = ResetReport::default();
        settle_under_lock(roots, &dir, maker, &mut report)?;
        Ok((UndoFile { dir, _lock: lock }, report))
    }

    /// Writes it down. What it announces must not be done if this fails.
    pub(super) fn note(&self, debts: &ResctrlLeases) -> Result<(), LinuxError> {
        let error = |e: Errno| LinuxError::io("write", self.dir.file(NEW), e);
        let text = serde_json::to_vec(debts).map_err(|_| error(Errno::INVAL))?;
        match unlinkat(self.dir.fd(), NEW, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(error(e)),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(self.dir.fd(), NEW, flags, Mode::RUSR | Mode::WUSR).map_err(error)?;
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(0) => return Err(error(Errno::IO)),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(error(e)),
            }
        }
        fsync(&file)
            .and_then(|()| renameat(self.dir.fd(), NEW, self.dir.fd(), FILE))
            .and_then(|()| fsync(self.dir.fd()))
            .map_err(error)
    }

    /// Gives back all that is noted; the note goes when nothing is owed any more.
    pub(super) fn settle(
        &self,
        roots: &Roots,
        maker: &dyn Maker,
    ) -> Result<ResetReport, LinuxError> {
        let mut report = ResetReport::default();
        settle_under_lock(roots, &self.dir, maker, &mut report)?;
        Ok(report)
    }
}

/// Settles what a weir that died has left. One that is alive does so itself; `force` does not wait for it, and leaves its note.
///
/// # Errors
/// The note cannot be trusted or read.
pub(crate) fn settle(
    roots: &Roots,
    dir: &RunDir,
    force: bool,
    report: &mut ResetReport,
) -> Result<(), LinuxError> {
    if read_trusted(dir, FILE, SIZE_MAX)?.is_none() {
        return Ok(());
    }
    let maker = &tree::Directories;
    match dir.lock_file(LOCK) {
        Ok(_lock) => settle_under_lock(roots, dir, maker, report),
        Err(LinuxError::Locked { .. }) if force => {
            if let Some(Ok(debts)) = read(dir)? {
                give_back(roots, &debts, maker, report);
            }
            Ok(())
        }
        Err(LinuxError::Locked { .. }) => Ok(()),
        Err(e) => Err(e),
    }
}

fn settle_under_lock(
    roots: &Roots,
    dir: &RunDir,
    maker: &dyn Maker,
    report: &mut ResetReport,
) -> Result<(), LinuxError> {
    let debts = match read(dir)? {
        None => return Ok(()),
        Some(Ok(debts)) => debts,
        Some(Err(why)) => {
            report.problems.push(format!(
                "{FILE}: {why}; it is kept as {DAMAGED}: look for groups {PREFIX}… in mon_groups"
            ));
            let aside = renameat(dir.fd(), FILE, dir.fd(), DAMAGED);
            return aside.map_err(|e| LinuxError::io("rename", dir.file(FILE), e));
        }
    };
    if !give_back(roots, &debts, maker, report) {
        return Ok(());
    }
    match unlinkat(dir.fd(), FILE, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(LinuxError::io("remove", dir.file(FILE), e)),
    }
}

/// What is noted, if anything is; the inner error says why it makes no sense.
fn read(dir: &RunDir) -> Result<Option<Result<ResctrlLeases, String>>, LinuxError> {
    let Some(bytes) = read_trusted(dir, FILE, SIZE_MAX)? else {
        return Ok(None);
    };
    let debts = serde_json::from_slice::<ResctrlLeases>(&bytes).map_err(|e| e.to_string());
    Ok(Some(debts.and_then(|debts| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_mark = debts.mark.len() > PREFIX.len() && debts.mark.chars().all(is_plain);
        let is_known = |s: &Setting| Knob::ALL.iter().any(|knob| knob.file() == s.file);
        match debts.mark.starts_with(PREFIX) && is_mark && debts.setting.iter().all(is_known) {
            true => Ok(debts),
            false => Err("a name that weir would not write".into()),
        }
    })))
}

/// Whether nothing is owed any more.
fn give_back(
    roots: &Roots,
    debts: &ResctrlLeases,
    maker: &dyn Maker,
    report: &mut ResetReport,
) -> bool {
    let failures = report.failed.len();
    let path = tree::path(roots);
    let failed = |what: &str, why: String| NotRestored {
        workload: WorkloadId::new(format!("resctrl:{what}")),
        why,
    };
    let Ok(root) = open_root(&path).map_err(|_| ()).and_then(|root| {
        let is_there = open_path_dir(&root, "info").is_ok();
        is_there.then_some(root).ok_or(())
    }) else {
        // Groups went with the mount. A setting is the CPU's.
        let Some(setting) = &debts.setting else {
            return true;
        };
        let why = format!("not mounted: mount -t resctrl resctrl {}", path.display());
        report.failed.push(failed(&setting.file, why));
        return false;
    };
    for name in groups_of(&root, &debts.mark, report) {
        let what = format!("mon_groups/{name}");
        let removed = open_path_dir(&root, "mon_groups").and_then(|dir| maker.remove(&dir, &name));
        match removed {
            Ok(()) => report
                .restored
                .push(WorkloadId::new(format!("resctrl:{what}"))),
            Err(Errno::NOENT) => {}
            Err(e) => report.failed.push(failed(&what, e.to_string())),
        }
    }
    if let Some(setting) = &debts.setting {
        let id = WorkloadId::new(format!("resctrl:{}", setting.file));
        match put_back(&root, setting) {
            Ok(true) => report.restored.push(id),
            Ok(false) => report.unchanged.push(id),
            Err(UndoRefusal::Theirs(now)) => report.left_alone.push(failed(
                &setting.file,
                format!("somebody set {now} since; it was {}", setting.theirs),
            )),
            Err(UndoRefusal::Failed(why)) => report.failed.push(failed(&setting.file, why)),
        }
    }
    report.failed.len() == failures
}

/// Groups with this mark.
fn groups_of(root: &OwnedFd, mark: &str, report: &mut ResetReport) -> Vec<String> {
    let mut names = Vec::new();
    let listed = open_path_dir(root, "mon_groups").and_then(|dir| {
        for_each_dir(&dir, ENTRIES_MAX, |name| {
            let name = std::str::from_utf8(name).ok().map(str::to_owned);
            let is_ours = |n: &String| {
                n.strip_prefix(mark)
                    .is_some_and(|rest| rest.starts_with('-'))
            };
            names.extend(name.filter(is_ours));
        })
    });
    if let Err(e) = listed {
        report.failed.push(NotRestored {
            workload: WorkloadId::new("resctrl:mon_groups"),
            why: e.to_string(),
        });
    }
    names
}

enum UndoRefusal {
    Theirs(String),
    Failed(String),
}

/// Whether it had to be.
fn put_back(root: &OwnedFd, setting: &Setting) -> Result<bool, UndoRefusal> {
    let mut buffer = Buffer::new();
    let now =
        text(root, &setting.file, &mut buffer).map_err(|e| UndoRefusal::Failed(e.to_string()))?;
    if are_same(&now, &setting.theirs) {
        return Ok(false);
    }
    if !are_same(&now, &setting.ours) {
        return Err(UndoRefusal::Theirs(now));
    }
    set(root, &setting.file, &setting.theirs).map_err(UndoRefusal::Failed)?;
    Ok(true)
}

/// Writes a setting, and looks whether the kernel took it.
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
    match are_same(&now, value) {
        true => Ok(()),
        false => Err(format!("{file} has {now:?} after {value:?} was written")),
    }
}
