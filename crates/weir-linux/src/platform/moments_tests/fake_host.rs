// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host of files that does with cgroups, resctrl and scheduling policies what a kernel does with them, and
//! in which weir dies at a chosen change.

use super::faults::Faults;
use crate::backends::cpu_max::weight_lease::PRIO_WEIGHTS;
use crate::fake::Fake;
use crate::fake::kernel::{Answer, FileChange, below};
use crate::kernel::parse::cgroup::cpu_max;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

pub(super) const CGROUPS: &str = "sys/fs/cgroup";
pub(super) const RESCTRL: &str = "sys/fs/resctrl";
const FREE: &str = "res:/\nmon:\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DeathPlace {
    /// In the middle of a line of a journal.
    Journal,
    Cgroup,
    Resctrl,
    Policy,
    /// While a journal was made, moved or removed.
    RunDir,
    /// Between two changes, after many.
    Idle,
}

pub(super) struct FakeHost {
    root: PathBuf,
    /// Changes until death; none is immortal.
    pub(super) left: Option<usize>,
    pub(super) died: Option<DeathPlace>,
    /// How much of the line arrives in which weir dies, of 256.
    pub(super) torn: usize,
    /// Changes that fail while weir lives on.
    pub(super) faults: Faults,
    /// A weir process that is not to be: each note reaches its journal only after the change that it
    /// announces.
    pub(super) notes_late: bool,
    late: Option<(PathBuf, Vec<u8>)>,
    /// The change was made, and the note is the next thing to do.
    is_due: bool,
    pub(super) policies: BTreeMap<u32, i32>,
    /// `tg->shares` of cgroups, finer than `cpu.weight` shows.
    shares: BTreeMap<PathBuf, u64>,
}

impl FakeHost {
    pub(super) fn new(fake: &Fake) -> Self {
        FakeHost {
            root: fs::canonicalize(fake.path("")).unwrap(),
            left: None,
            died: None,
            torn: 0,
            faults: Faults::default(),
            notes_late: false,
            late: None,
            is_due: false,
            policies: BTreeMap::new(),
            shares: BTreeMap::new(),
        }
    }

    pub(super) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A process of one or more threads in a cgroup.
    pub(super) fn process(&mut self, fake: &Fake, cgroup: &str, tids: &[u32]) {
        let pid = tids[0];
        fake.process(pid, "work", &format!("/{cgroup}"), 4000);
        for tid in tids {
            fs::create_dir_all(fake.path(format!("proc/{pid}/task/{tid}"))).unwrap();
            fake.write(format!("proc/{tid}/cpu_resctrl_groups"), FREE);
            self.policies.insert(*tid, 0);
        }
    }

    /// The files of a cgroup that hold lists and weights.
    pub(super) fn complete(&mut self, cgroup: &str, tids: &[u32]) {
        let dir = Path::new(CGROUPS).join(cgroup);
        write_set(
            &self.path(dir.join("cgroup.threads")),
            &tids.iter().copied().collect(),
        );
        self.set_shares(&dir, 1024);
    }

    /// Writes a value as the `echo` of another program does; it counts as no death. False if the kernel
    /// refuses the value.
    pub(super) fn write(&mut self, relative: &str, value: &str) -> bool {
        match self.as_kernel(Path::new(relative), FileChange::Write(value)) {
            None => fs::write(self.path(relative), format!("{value}\n")).unwrap(),
            Some(Ok(())) => {}
            Some(Err(Errno::INVAL)) => return false,
            Some(Err(e)) => panic!("another program's {value} for {relative}: {e}"),
        }
        true
    }

    pub(super) fn vanish(&mut self, cgroup: &str) {
        let gone = self.remove_cgroup(&Path::new(CGROUPS).join(cgroup));
        assert!(matches!(gone, Ok(()) | Err(Errno::NOENT)), "{gone:?}");
    }

    pub(super) fn revive(&mut self, left: Option<usize>) {
        (self.died, self.left) = (None, left);
        (self.notes_late, self.late, self.is_due) = (false, None, false);
        self.faults.random = None;
    }

    pub(super) fn change(&mut self, path: &Path, change: FileChange<'_>) -> Answer {
        let relative = below(&self.root, path);
        if self.died.is_none()
            && let Some(error) = self.fault(path, &relative, change)
        {
            return Some(Err(error));
        }
        if change == FileChange::Flush && self.died.is_none() {
            return Some(Ok(()));
        }
        if !self.lives_on(place(&relative, change)) {
            if let FileChange::Append(line) = change
                && self.left.take().is_some()
            {
                append(path, &line[..line.len() * self.torn / 256]);
            }
            return Some(Err(Errno::IO));
        }
        if let FileChange::Append(line) = change
            && self.notes_late
            && path.ends_with("journal.jsonl")
        {
            self.be_noted();
            self.late = Some((path.to_path_buf(), line.to_vec()));
            return Some(Ok(()));
        }
        self.is_due = true;
        self.as_kernel(&relative, change)
    }

    /// The error of a change that fails while weir lives on.
    fn fault(&mut self, path: &Path, relative: &Path, change: FileChange<'_>) -> Option<Errno> {
        if change == FileChange::Truncate && self.faults.partial > 0 {
            self.faults.partial -= 1;
            return None;
        }
        let random = self.faults.strikes(place(relative, change))?;
        Some(match change {
            FileChange::Append(line) => {
                append(path, &line[..random.below(line.len().max(1))]);
                // The next one of a journal, where it is being written, is removed as a whole.
                self.faults.partial += usize::from(path.extension().is_some_and(|e| e == "jsonl"));
                Errno::NOSPC
            }
            FileChange::Write(_) => *random.one_of(&[Errno::INVAL, Errno::BUSY, Errno::NOSPC]),
            // A process was born there.
            FileChange::RemoveDir => Errno::BUSY,
            FileChange::Create | FileChange::MakeDir | FileChange::Link => Errno::NOSPC,
            FileChange::Flush | FileChange::Truncate | FileChange::Unlink | FileChange::Rename => {
                Errno::IO
            }
        })
    }

    fn be_noted(&mut self) {
        self.is_due = false;
        if let Some((path, line)) = self.late.take() {
            append(&path, &line);
        }
    }

    pub(super) fn policy(&mut self, tid: u32, new: Option<i32>) -> Option<Result<i32, Errno>> {
        let Some(old) = self.policies.get(&tid).copied() else {
            return Some(Err(Errno::SRCH));
        };
        match new {
            None => Some(Ok(old)),
            Some(_) if self.died.is_none() && self.faults.strikes(DeathPlace::Policy).is_some() => {
                Some(Err(Errno::PERM))
            }
            Some(_) if !self.lives_on(DeathPlace::Policy) => Some(Err(Errno::IO)),
            Some(new) => {
                self.policies.insert(tid, new);
                self.is_due = true;
                Some(Ok(new))
            }
        }
    }

    /// Counts one change. A dead process changes nothing any more.
    fn lives_on(&mut self, place: DeathPlace) -> bool {
        if self.died.is_some() {
            self.left = None;
            return false;
        }
        match &mut self.left {
            None => true,
            Some(0) => {
                self.died = Some(place);
                false
            }
            Some(left) => {
                *left -= 1;
                if self.is_due {
                    self.be_noted();
                }
                true
            }
        }
    }

    fn as_kernel(&mut self, relative: &Path, change: FileChange<'_>) -> Answer {
        if relative.to_string_lossy().contains(" (deleted)") {
            return Some(Err(Errno::NODEV));
        }
        if relative.starts_with(CGROUPS) {
            return self.cgroup(relative, change);
        }
        match change {
            _ if !relative.starts_with(RESCTRL) => None,
            FileChange::Write(tid) if relative.ends_with("tasks") => {
                let group = relative.parent().unwrap_or(relative);
                let tid = tid.trim().parse().unwrap();
                if !self.policies.contains_key(&tid) {
                    return Some(Err(Errno::SRCH));
                }
                self.move_task(group, tid);
                Some(Ok(()))
            }
            FileChange::MakeDir => {
                let data = self.path(relative).join("mon_data/mon_L3_00");
                fs::create_dir_all(&data).unwrap();
                fs::write(data.join("mbm_total_bytes"), "0\n").unwrap();
                write_set(&self.path(relative).join("tasks"), &BTreeSet::new());
                Some(Ok(()))
            }
            FileChange::RemoveDir => {
                for tid in read_set(&self.path(relative).join("tasks")) {
                    self.move_task(Path::new(RESCTRL), tid);
                }
                fs::remove_dir_all(self.path(relative)).unwrap();
                Some(Ok(()))
            }
            _ => None,
        }
    }

    fn cgroup(&mut self, relative: &Path, change: FileChange<'_>) -> Answer {
        let dir = relative.parent().unwrap_or(relative).to_path_buf();
        let file = relative.file_name().unwrap_or_default().to_string_lossy();
        let number = |name: &str| fs::read_to_string(self.path(dir.join(name))).unwrap_or_default();
        let value = match change {
            FileChange::Write(value) => value,
            FileChange::MakeDir => return Some(self.make_cgroup(relative)),
            FileChange::RemoveDir => return Some(self.remove_cgroup(relative)),
            _ => return None,
        };
        match &*file {
            "cgroup.procs" => return Some(self.move_process(&dir, value.parse().unwrap())),
            "cpu.weight" => {
                let weight: u64 = value.parse().unwrap();
                self.set_shares(&dir, (weight * 1024 + 50) / 100);
                return Some(Ok(()));
            }
            "cpu.weight.nice" => {
                let nice: i64 = value.parse().unwrap();
                self.set_shares(&dir, PRIO_WEIGHTS[usize::try_from(nice + 20).unwrap()]);
                return Some(Ok(()));
            }
            "cpu.max" | "cpu.max.burst" => {}
            _ => return None,
        }
        // A burst above its quota is refused from either side.
        let (max, burst) = match &*file {
            "cpu.max" => (value.to_owned(), number("cpu.max.burst")),
            _ => (number("cpu.max"), value.to_owned()),
        };
        let quota = cpu_max(max.as_bytes()).unwrap().quota_us;
        let burst: u64 = burst.trim().parse().unwrap();
        if quota.is_some_and(|quota| burst > quota) {
            return Some(Err(Errno::INVAL));
        }
        fs::write(self.path(relative), format!("{value}\n")).unwrap();
        Some(Ok(()))
    }

    fn make_cgroup(&mut self, relative: &Path) -> Result<(), Errno> {
        let path = self.path(relative);
        fs::create_dir(&path).map_err(|_| Errno::EXIST)?;
        let stat = "usage_usec 0\nuser_usec 0\nsystem_usec 0\n";
        for (file, text) in [
            ("cpu.stat", stat),
            ("cpu.max", "max 100000\n"),
            ("cpu.max.burst", "0\n"),
            ("cgroup.procs", ""),
            ("cgroup.threads", ""),
        ] {
            fs::write(path.join(file), text).unwrap();
        }
        self.set_shares(relative, 1024);
        Ok(())
    }

    fn remove_cgroup(&mut self, relative: &Path) -> Result<(), Errno> {
        let path = self.path(relative);
        if !path.exists() {
            return Err(Errno::NOENT);
        }
        if !read_set(&path.join("cgroup.procs")).is_empty() {
            return Err(Errno::BUSY);
        }
        fs::remove_dir_all(path).unwrap();
        self.shares.remove(relative);
        Ok(())
    }

    /// Shows the shares as the kernel does: in `cpu.weight` and, less roughly, in `cpu.weight.nice`.
    fn set_shares(&mut self, dir: &Path, shares: u64) {
        let weight = (shares * 100 + 512) / 1024;
        let mut nice = 0;
        let mut nearest = u64::MAX;
        for (prio, at) in PRIO_WEIGHTS.iter().zip(-20i64..) {
            if prio.abs_diff(shares) < nearest {
                (nearest, nice) = (prio.abs_diff(shares), at);
            }
        }
        fs::write(self.path(dir.join("cpu.weight")), format!("{weight}\n")).unwrap();
        fs::write(self.path(dir.join("cpu.weight.nice")), format!("{nice}\n")).unwrap();
        self.shares.insert(dir.to_path_buf(), shares);
    }

    pub(super) fn threads(&self, pid: u32) -> Option<BTreeSet<u32>> {
        let tasks = fs::read_dir(self.path(format!("proc/{pid}/task"))).ok()?;
        let tid = |name: std::ffi::OsString| name.to_string_lossy().parse().unwrap();
        Some(tasks.map(|task| tid(task.unwrap().file_name())).collect())
    }

    pub(super) fn cgroup_of(&self, pid: u32) -> PathBuf {
        let link = fs::read_to_string(self.path(format!("proc/{pid}/cgroup"))).unwrap();
        Path::new(CGROUPS).join(link.trim().trim_start_matches("0::/"))
    }

    /// Adds a process to the lists of a cgroup, or takes it out.
    pub(super) fn list(&mut self, dir: &Path, pid: u32, tids: &BTreeSet<u32>, is_in: bool) {
        let pids = BTreeSet::from([pid]);
        for (file, ids) in [("cgroup.procs", &pids), ("cgroup.threads", tids)] {
            let path = self.path(dir.join(file));
            let there = read_set(&path);
            let now = if is_in {
                there.union(ids).copied().collect()
            } else {
                there.difference(ids).copied().collect()
            };
            write_set(&path, &now);
        }
    }

    pub(super) fn move_process(&mut self, to: &Path, pid: u32) -> Result<(), Errno> {
        let tids = self.threads(pid).ok_or(Errno::SRCH)?;
        self.list(&self.cgroup_of(pid), pid, &tids, false);
        self.list(to, pid, &tids, true);
        let place = to.strip_prefix(CGROUPS).unwrap().display().to_string();
        let link = self.path(format!("proc/{pid}/cgroup"));
        fs::write(link, format!("0::/{place}\n")).unwrap();
        Ok(())
    }

    /// Takes a task out of all monitoring groups.
    pub(super) fn leave_groups(&mut self, tid: u32) {
        let groups = fs::read_dir(self.path(RESCTRL).join("mon_groups")).unwrap();
        let mut lists: Vec<PathBuf> = groups.map(|g| g.unwrap().path().join("tasks")).collect();
        lists.push(self.path(RESCTRL).join("tasks"));
        for list in lists {
            let mut there = read_set(&list);
            if there.remove(&tid) {
                write_set(&list, &there);
            }
        }
    }

    pub(super) fn move_task(&mut self, group: &Path, tid: u32) {
        self.leave_groups(tid);
        let list = self.path(group).join("tasks");
        let mut there = read_set(&list);
        there.insert(tid);
        write_set(&list, &there);
        let standing = match group.file_name().filter(|_| group != Path::new(RESCTRL)) {
            Some(name) => format!("res:/\nmon:{}\n", name.to_string_lossy()),
            None => FREE.to_owned(),
        };
        fs::write(
            self.path(format!("proc/{tid}/cpu_resctrl_groups")),
            standing,
        )
        .unwrap();
    }

    /// All that weir may change: files by path, their lines in order, and the hidden part of weights.
    pub(super) fn all(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for place in [CGROUPS, RESCTRL, "proc"] {
            self.add_all(Path::new(place), &mut all);
        }
        let shares = |(dir, shares): (&PathBuf, &u64)| {
            (format!("{} shares", dir.display()), shares.to_string())
        };
        all.extend(self.shares.iter().map(shares));
        let policy = |(tid, policy): (&u32, &i32)| (format!("policy {tid}"), policy.to_string());
        all.extend(self.policies.iter().map(policy));
        all
    }

    fn add_all(&self, dir: &Path, all: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(self.path(dir)).unwrap() {
            let entry = entry.unwrap();
            let relative = dir.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                all.insert(format!("{}/", relative.display()), String::new());
                self.add_all(&relative, all);
            } else {
                let text = fs::read_to_string(entry.path()).unwrap();
                all.insert(relative.display().to_string(), text.trim().to_owned());
            }
        }
    }
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn place(relative: &Path, change: FileChange<'_>) -> DeathPlace {
    match change {
        FileChange::Append(_) | FileChange::Flush | FileChange::Truncate => DeathPlace::Journal,
        _ if relative.starts_with(CGROUPS) => DeathPlace::Cgroup,
        _ if relative.starts_with(RESCTRL) => DeathPlace::Resctrl,
        _ => DeathPlace::RunDir,
    }
}

pub(super) fn read_set(path: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

pub(super) fn write_set(path: &Path, ids: &BTreeSet<u32>) {
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    fs::write(path, text).unwrap();
}
