// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What processes do meanwhile: they start others, end, and are moved by other programs.

use super::fake_host::{CGROUPS, FakeHost, RESCTRL};
use super::random::Random;
use super::{LEAVES, SCHEDULED};
use crate::fake::Fake;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use weir_core::WorkloadId;

/// Into which other programs move processes.
const HOMES: [&str; 3] = ["a.service", "b.service", "c.service"];

/// The processes, and where each should be in the end.
pub(super) struct Processes {
    homes: BTreeMap<u32, String>,
    next: u32,
}

impl Processes {
    /// All but those of which weir schedules the threads.
    pub(super) fn new() -> Self {
        let limited = LEAVES.iter().filter(|(leaf, _)| *leaf != SCHEDULED);
        let each =
            limited.flat_map(|(leaf, all)| all.iter().map(|tids| (tids[0], leaf.to_string())));
        Processes {
            homes: each.collect(),
            next: 300,
        }
    }

    /// Their ids as workloads.
    pub(super) fn ids(&self) -> BTreeSet<WorkloadId> {
        let ids = self.homes.keys().map(|pid| format!("pid:{pid}@4000"));
        ids.map(WorkloadId::new).collect()
    }

    /// One of them does something, or it is done to it. `expected`: all files, as they should be in the end.
    pub(super) fn disturb(
        &mut self,
        fake: &Fake,
        host: &mut FakeHost,
        random: &mut Random,
        expected: &mut BTreeMap<String, String>,
    ) {
        let all: Vec<u32> = self.homes.keys().copied().collect();
        let pid = *random.one_of(&all);
        match random.below(6) {
            0..3 => self.fork(fake, host, pid, expected),
            3 if all.len() > 4 => self.exit(host, pid, expected),
            _ => {
                let to: &str = HOMES[random.below(HOMES.len())];
                self.be_moved(host, pid, to, expected);
            }
        }
    }

    fn fork(
        &mut self,
        fake: &Fake,
        host: &mut FakeHost,
        parent: u32,
        expected: &mut BTreeMap<String, String>,
    ) {
        let child = self.next;
        self.next += 1;
        let (dir, home) = (host.cgroup_of(parent), self.homes[&parent].clone());
        let place = dir.strip_prefix(CGROUPS).unwrap().display().to_string();
        host.process(fake, &place, &[child]);
        host.list(&dir, child, &BTreeSet::from([child]), true);
        // In the group of its parent.
        let groups = fake.read(format!("proc/{parent}/cpu_resctrl_groups"));
        let group = groups.split("mon:").nth(1).unwrap().trim().to_owned();
        let group = match group.as_str() {
            "" => Path::new(RESCTRL).to_path_buf(),
            group => Path::new(RESCTRL).join("mon_groups").join(group),
        };
        host.move_task(&group, child);
        let own = format!("proc/{child}/");
        let files = host.all().into_iter();
        expected.extend(files.filter(|(path, _)| path.starts_with(&own)));
        expected.insert(format!("{own}cgroup"), format!("0::/{home}"));
        expected.insert(format!("{own}cpu_resctrl_groups"), "res:/\nmon:".into());
        expected.insert(format!("policy {child}"), "0".into());
        let tids = BTreeSet::from([child]);
        expect_in(expected, &home, child, &tids, true);
        expect_ids(expected, format!("{RESCTRL}/tasks"), &tids, true);
        self.homes.insert(child, home);
    }

    fn exit(&mut self, host: &mut FakeHost, pid: u32, expected: &mut BTreeMap<String, String>) {
        let tids = host.threads(pid).unwrap();
        let home = self.homes.remove(&pid).unwrap();
        host.list(&host.cgroup_of(pid), pid, &tids, false);
        expect_in(expected, &home, pid, &tids, false);
        expect_ids(expected, format!("{RESCTRL}/tasks"), &tids, false);
        for tid in tids {
            host.leave_groups(tid);
            host.policies.remove(&tid);
            std::fs::remove_dir_all(host.path(format!("proc/{tid}"))).unwrap();
            let own = format!("proc/{tid}/");
            expected.retain(|path, _| !path.starts_with(&own) && *path != format!("policy {tid}"));
        }
    }

    fn be_moved(
        &mut self,
        host: &mut FakeHost,
        pid: u32,
        to: &str,
        expected: &mut BTreeMap<String, String>,
    ) {
        let tids = host.threads(pid).unwrap();
        host.move_process(&Path::new(CGROUPS).join(to), pid)
            .unwrap();
        let home = self.homes.insert(pid, to.to_owned()).unwrap();
        expect_in(expected, &home, pid, &tids, false);
        expect_in(expected, to, pid, &tids, true);
        expected.insert(format!("proc/{pid}/cgroup"), format!("0::/{to}"));
    }
}

fn expect_in(
    expected: &mut BTreeMap<String, String>,
    cgroup: &str,
    pid: u32,
    tids: &BTreeSet<u32>,
    is_in: bool,
) {
    let dir = format!("{CGROUPS}/{cgroup}");
    expect_ids(
        expected,
        format!("{dir}/cgroup.procs"),
        &BTreeSet::from([pid]),
        is_in,
    );
    expect_ids(expected, format!("{dir}/cgroup.threads"), tids, is_in);
}

fn expect_ids(
    expected: &mut BTreeMap<String, String>,
    path: String,
    ids: &BTreeSet<u32>,
    is_in: bool,
) {
    let list = expected.get_mut(&path).unwrap();
    let there: BTreeSet<u32> = list.lines().map(|id| id.parse().unwrap()).collect();
    let now: BTreeSet<u32> = if is_in {
        there.union(ids).copied().collect()
    } else {
        there.difference(ids).copied().collect()
    };
    let lines: Vec<String> = now.iter().map(u32::to_string).collect();
    *list = lines.join("\n");
}
