// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hundreds of random moments of death. Random changes (limits, weights, moves of processes, policies of
//! threads, groups and a setting of resctrl) end at a random write to a file. In each second moment some
//! changes fail before, and weir lives on. Meanwhile processes start others, end, and are moved. Then a fresh
//! process restores, and may die too. In the end each file is as before, or as another program set it.

mod fake_host;
mod faults;
mod processes;
mod random;
mod tally;
mod weir;

use super::lease_books::{BOOKS, reset};
use crate::backends::BackendContext;
use crate::backends::cpu_max::CpuMaxBackend;
use crate::error::LinuxError;
use crate::fake::{Fake, kernel};
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::open_root;
use crate::leases::LeaseBook;
use crate::leases::restore::ResetReport;
use crate::options::{AttributionSource, By, Options};
use crate::task_traffic::TaskTraffic;
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::discovery::{Discovery, View, Watched};
use crate::workloads::exclude::Rules;
use fake_host::{CGROUPS, DeathPlace, FakeHost, RESCTRL};
use faults::Faults;
use processes::Processes;
use random::Random;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use tally::Tally;
use weir::Weir;
use weir_core::seam::observation::Use;
use weir_core::{Bytes, CpuShare, Description, DeviceId, GroupId, Nanos, Reading, WorkloadId};

const MOMENTS: u64 = 500;
const SETTING: &str = "sys/fs/resctrl/info/L3_MON/mbm_total_bytes_config";
/// Cgroups that are limited, and the threads in them; the first of each process is the process.
const LEAVES: [(&str, &[&[u32]]); 5] = [
    ("a.service", &[&[110], &[111], &[112, 113]]),
    ("b.service", &[&[120]]),
    ("c.service", &[&[130], &[131]]),
    ("d.service", &[]),
    ("s.service", &[&[140, 141, 142], &[143]]),
];
/// The threads of `s.service` are scheduled by weir, and nothing else is changed.
const SCHEDULED: &str = "s.service";
const POLICIES: [i32; 3] = [0, 3, 5];
const SCHED_EXT: i32 = 7;

/// One host and what should be there in the end.
struct World {
    fake: Fake,
    host: Rc<RefCell<FakeHost>>,
    random: Random,
    expected: BTreeMap<String, String>,
    /// Values of other programs are all different, and none is one of weir's.
    others: u64,
    processes: Processes,
    by: By,
}

fn host_of(fake: &Fake, random: &mut Random) -> FakeHost {
    let mut host = FakeHost::new(fake);
    let mut all = BTreeSet::new();
    for (leaf, processes) in LEAVES {
        let pids: Vec<u32> = processes.iter().map(|tids| tids[0]).collect();
        let tids: Vec<u32> = processes
            .iter()
            .flat_map(|tids| tids.iter().copied())
            .collect();
        fake.cgroup(leaf, &pids);
        host.complete(leaf, &tids);
        for tids in processes {
            host.process(fake, leaf, tids);
        }
        all.extend(tids);
    }
    for tid in [140, 141, 142, 143] {
        let policy = *random.one_of(&[0, 3, 5, SCHED_EXT]);
        host.policies.insert(tid, policy);
    }
    host.write(&format!("{CGROUPS}/b.service/cpu.max"), "70000 100000");
    host.write(&format!("{CGROUPS}/b.service/cpu.max.burst"), "20000");
    host.write(&format!("{CGROUPS}/b.service/cpu.weight"), "10");
    // Finer than a weight: 17 reads as weight 2, and a written 2 reads as nice 18.
    host.write(&format!("{CGROUPS}/c.service/cpu.weight.nice"), "17");
    fake.write(SETTING, "0=0x7f;1=0x15\n");
    let features = "llc_occupancy\nmbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n";
    fake.write(format!("{RESCTRL}/info/L3_MON/mon_features"), features);
    std::fs::create_dir_all(fake.path(format!("{RESCTRL}/mon_groups"))).unwrap();
    fake_host::write_set(&fake.path(format!("{RESCTRL}/tasks")), &all);
    host
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let fake = Fake::new();
        let host = host_of(&fake, &mut random);
        let expected = host.all();
        let host = Rc::new(RefCell::new(host));
        let (files, policies) = (Rc::clone(&host), Rc::clone(&host));
        kernel::install(
            Box::new(move |path, change| files.borrow_mut().change(path, change)),
            Box::new(move |tid, new| policies.borrow_mut().policy(tid, new)),
        );
        let by = *random.one_of(&[By::Cgroup, By::Process]);
        World {
            fake,
            host,
            random,
            expected,
            others: 9000,
            processes: Processes::new(),
            by,
        }
    }

    fn options(&self) -> Options {
        let mut options = self.fake.options(self.by);
        options.attribution = AttributionSource::Resctrl;
        options
    }

    fn died(&self) -> Option<DeathPlace> {
        self.host.borrow().died
    }

    fn start(&self) -> Weir {
        let options = self.options();
        let proc = Arc::new(open_root(&options.roots.proc).unwrap());
        let budget = Budget::new(100);
        let tree = CgroupTree::open(
            &options.roots.cgroup,
            Arc::clone(&proc),
            Arc::clone(&budget),
        )
        .unwrap();
        let root = tree.root();
        let rules = Rules::new(Vec::new(), None, None);
        let mut discovery = match self.by {
            By::Cgroup => Discovery::of_cgroups(tree, Arc::clone(&proc), rules.clone()),
            By::Process => Discovery::of_processes(Arc::clone(&proc), rules.clone()),
        };
        let leases = LeaseBook::new(&options.roots, BOOKS);
        let mut weir = Weir {
            view: discovery.round(Nanos(1)),
            discovery,
            backend: CpuMaxBackend::new(&options, budget),
            context: BackendContext::new([root, proc], rules, leases),
            scheduled: None,
            traffic: None,
        };
        // A weir process that limits does so at its start.
        let _ = weir.context.leases.claim();
        weir
    }

    /// A workload that may be limited.
    fn workload(&mut self, view: &View) -> WorkloadId {
        let limited = &LEAVES[..LEAVES.len() - 1];
        match self.by {
            By::Cgroup => WorkloadId::new(format!("/{}", self.random.one_of(limited).0)),
            By::Process => {
                let ours = self.processes.ids();
                let is_limited = |id: &&WorkloadId| ours.contains(*id);
                let ids = view.workloads.iter().map(|watched| &watched.id);
                let ids: Vec<&WorkloadId> = ids.filter(is_limited).collect();
                // The view may be older than the end of all that it shows.
                let id = ids.get(self.random.below(ids.len().max(1)));
                id.map_or_else(|| WorkloadId::new("pid:1@1"), |id| (*id).clone())
            }
        }
    }

    fn act(&mut self, weir: &mut Weir) {
        if self.random.below(10) == 0 {
            weir.view = weir
                .discovery
                .round(Nanos(weir.view.round * 10_000_000_000));
        }
        let id = self.workload(&weir.view);
        let cpus = CpuShare::new(0.05 + 0.6 * self.random.ratio());
        let context = &mut weir.context;
        match self.random.below(22) {
            0..6 => {
                weir.backend.limit(&id, weir.view.get(&id), cpus, context);
            }
            6..11 => {
                let ratio = *self.random.one_of(&[0.1, 0.3, 0.5, 0.9, 1.0]);
                weir.backend.weigh(&id, ratio, context);
            }
            11..13 => drop(weir.backend.release(&id, context)),
            13..15 => weir.backend.tend(&weir.view, context),
            15 => weir.release_all(),
            16..18 => {
                let until = *self.random.one_of(&[Nanos(0), Nanos(u64::MAX)]);
                weir.schedule(until);
            }
            18 => weir.unschedule(),
            19..21 => self.count(weir),
            _ => weir.traffic = None,
        }
    }

    /// Counts some workloads by resctrl.
    fn count(&mut self, weir: &mut Weir) {
        if weir.traffic.is_none() {
            let begun = TaskTraffic::choose(&self.options(), &mut Description::default());
            weir.traffic = begun.ok().flatten();
        }
        let Some(traffic) = &mut weir.traffic else {
            return;
        };
        let with_memory = |watched: &Arc<Watched>| {
            Arc::new(Watched {
                uses: [Use {
                    group: GroupId {
                        device: DeviceId(0),
                        index: 0,
                    },
                    resident_bytes: Reading::new(Nanos(1), Bytes(4096)),
                    sampled_read_bytes: None,
                    sampled_write_bytes: None,
                }]
                .into(),
                ..(**watched).clone()
            })
        };
        let users = weir.view.workloads.iter().map(with_memory);
        let view = View {
            workloads: users.filter(|_| self.random.below(3) > 0).collect(),
            ..View::default()
        };
        traffic.take(&view, &mut Vec::new());
    }

    /// Something that another program does: what it sets is to stay.
    fn disturb(&mut self) {
        if self.random.below(4) == 0 {
            let (host, random) = (&mut *self.host.borrow_mut(), &mut self.random);
            let (fake, expected) = (&self.fake, &mut self.expected);
            return self.processes.disturb(fake, host, random, expected);
        }
        self.others += 1;
        let unique = self.others;
        let leaf = self.random.one_of(&LEAVES[..4]).0;
        let dir = format!("{CGROUPS}/{leaf}");
        if !self.fake.path(&dir).exists() {
            return;
        }
        let mut host = self.host.borrow_mut();
        let (path, value) = match self.random.below(6) {
            // Less than any quota that another program sets, so that it can come back.
            5 => (format!("{dir}/cpu.max.burst"), (unique - 8000).to_string()),
            // Not below the burst that may come back.
            0 => (
                format!("{dir}/cpu.max"),
                format!("{} 77000", unique + 20_000),
            ),
            1 => (format!("{dir}/cpu.weight"), unique.min(10_000).to_string()),
            2 => (SETTING.to_owned(), format!("0=0x{unique};1=0x1")),
            3 => {
                let tid = *self.random.one_of(&[140, 141, 142, 143]);
                let policy = *self.random.one_of(&POLICIES);
                host.policies.insert(tid, policy);
                self.expected
                    .insert(format!("policy {tid}"), policy.to_string());
                return;
            }
            _ => {
                // d.service has no processes, and may be removed.
                host.vanish("d.service");
                let is_of = |path: &String| path.starts_with(&format!("{CGROUPS}/d.service"));
                self.expected.retain(|path, _| !is_of(path));
                return;
            }
        };
        if !host.write(&path, &value) {
            return;
        }
        let now = host.all();
        self.expected.insert(path.clone(), now[&path].clone());
        if path.ends_with("cpu.weight") {
            for path in [format!("{dir}/cpu.weight.nice"), format!("{dir} shares")] {
                self.expected.insert(path.clone(), now[&path].clone());
            }
        }
    }

    /// A fresh process restores what the dead one left.
    fn restore(&mut self, left: Option<usize>) -> Option<ResetReport> {
        self.host.borrow_mut().revive(left);
        if left.is_some() && self.random.below(2) == 0 {
            // The next weir does so when it starts.
            let mut weir = self.start();
            self.count(&mut weir);
            return None;
        }
        // A program that another test starts holds the locks too, from its fork to its exec. While it has the
        // second one, that book looks as if a living weir counted, and is left alone.
        let is_left = |report: &ResetReport| {
            let is_there = self.fake.path("run/weir/counting.jsonl").exists();
            self.died().is_none() && report.failed.is_empty() && is_there
        };
        let mut whole = ResetReport::default();
        for _ in 0..10_000 {
            let report = match reset(&self.fake.roots()) {
                Err(LinuxError::Locked { .. }) => ResetReport::default(),
                Err(why) if left.is_none() => panic!("{why}"),
                Err(_) => return None,
                Ok(report) if is_left(&report) => report,
                Ok(mut report) => {
                    report.restored.append(&mut whole.restored);
                    report.left_alone.append(&mut whole.left_alone);
                    report.problems.append(&mut whole.problems);
                    return Some(report);
                }
            };
            whole.restored.extend(report.restored);
            whole.left_alone.extend(report.left_alone);
            whole.problems.extend(report.problems);
            std::thread::yield_now();
        }
        None
    }

    fn differences(&self) -> Vec<String> {
        let found = self.host.borrow().all();
        let names: BTreeSet<&String> = found.keys().chain(self.expected.keys()).collect();
        let differs = |name: &&&String| found.get(**name) != self.expected.get(**name);
        let line = |name: &String| {
            let (is, should) = (found.get(name), self.expected.get(name));
            format!("{name}: {is:?} instead of {should:?}")
        };
        let differing = names.iter().filter(differs);
        differing.map(|name| line(name)).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        kernel::uninstall();
    }
}

/// A weir process until it dies, or ends by itself. What is not as it should be then.
fn life(world: &mut World, ends_itself: bool) -> Vec<String> {
    let mut weir = world.start();
    for _ in 0..200 {
        if world.died().is_some() {
            break;
        }
        match world.random.below(6) {
            0 => world.disturb(),
            _ => world.act(&mut weir),
        }
    }
    let mut wrong = Vec::new();
    if ends_itself {
        world.host.borrow_mut().revive(None);
        weir.end();
        // What could not be restored when counting ended is in its journal, for the next weir process.
        let is_left = world.fake.path("run/weir/counting.jsonl").exists();
        let is_known = |line: &String| is_left && line.contains("resctrl");
        let differences = world.differences().into_iter();
        wrong.extend(differences.filter(|line| !is_known(line)));
    }
    let mut host = world.host.borrow_mut();
    host.died.get_or_insert(DeathPlace::Idle);
    drop(host);
    wrong
}

/// One moment; an error says what is wrong.
fn moment(seed: u64, notes_late: bool, tally: &mut Tally) -> Result<(), String> {
    let mut world = World::new(seed);
    let has_faults = !notes_late && seed % 2 == 1;
    let ends_itself = !notes_late && seed % 8 < 2;
    let left = world.random.below(if has_faults { 120 } else { 60 });
    let left = if ends_itself { usize::MAX } else { left };
    world.host.borrow_mut().torn = world.random.below(256);
    world.host.borrow_mut().revive(Some(left));
    world.host.borrow_mut().notes_late = notes_late;
    if has_faults {
        world.host.borrow_mut().faults = Faults::of(seed);
    }
    let mut wrong = life(&mut world, ends_itself);
    tally.ends += usize::from(ends_itself);
    let place = world.died().unwrap();
    *tally.deaths.entry(place).or_default() += 1;
    let mut torn_lines = usize::from(place == DeathPlace::Journal);
    torn_lines += world.host.borrow().faults.partial;
    for (place, count) in &world.host.borrow().faults.count {
        *tally.faults.entry(*place).or_default() += count;
    }
    for _ in 0..world.random.below(3) {
        world.disturb();
    }
    if world.random.below(2) == 0 {
        let left = world.random.below(12);
        world.restore(Some(left));
        tally.second_deaths += usize::from(world.died().is_some());
        torn_lines += usize::from(world.died() == Some(DeathPlace::Journal));
    }
    let report = world.restore(None).ok_or("it cannot be restored")?;
    tally.left_alone += report.left_alone.len();
    tally.restored += report.restored.len();
    tally.torn += report.problems.len();
    wrong.extend(world.differences());
    wrong.extend(report.failed.iter().map(|failed| format!("{failed:?}")));
    // One for each line in the middle of which weir died.
    if report.problems.len() > torn_lines {
        wrong.extend(report.problems.iter().cloned());
    }
    for file in ["journal.jsonl", "counting.jsonl"] {
        let is_there = world.fake.path("run/weir").join(file).exists();
        wrong.extend(is_there.then(|| format!("{file} is left")));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "died at {place:?}:\n{}\n{report:?}",
            wrong.join("\n")
        ))
    }
}

/// One seed says all that happens in a moment; to see one again, put its number here.
#[test]
fn at_hundreds_of_moments_of_death_all_is_put_back() {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for seed in 0..MOMENTS {
        if let Err(why) = moment(seed, false, &mut tally) {
            wrong.push(format!("seed {seed}: {why}"));
        }
    }
    let first: Vec<&str> = wrong.iter().take(12).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} of {MOMENTS}:\n{}",
        wrong.len(),
        first.join("\n\n")
    );
    // Each kind of place was met.
    for place in [
        DeathPlace::Journal,
        DeathPlace::Cgroup,
        DeathPlace::Resctrl,
        DeathPlace::Policy,
        DeathPlace::RunDir,
    ] {
        for met in [&tally.deaths, &tally.faults] {
            assert!(met.get(&place).is_some_and(|n| *n >= 10), "{tally:?}");
        }
    }
    assert!(
        tally.second_deaths >= 50 && tally.restored >= 250,
        "{tally:?}"
    );
    assert!(tally.left_alone >= 25 && tally.torn >= 25, "{tally:?}");
    assert!(tally.ends >= 50, "{tally:?}");
    eprintln!("{tally:?}");
}

/// What the moments are for: a note that comes after its change is noticed.
#[test]
fn a_note_after_its_change_is_noticed() {
    let mut tally = Tally::default();
    let mut noticed = String::new();
    let all = ["/cpu.max", "/cpu.weight", "policy 1"];
    for seed in 0..MOMENTS {
        if let Err(why) = moment(seed, true, &mut tally) {
            noticed += &why;
        }
        if all.iter().all(|what| noticed.contains(what)) {
            return;
        }
    }
    panic!("of {all:?} only: {noticed}");
}
