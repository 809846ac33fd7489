// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine with two nodes of device memory, as its files show it. Which process has which page is made
//! first.
//!
//! * A process has private memory, huge pages of its own, and files mapped: whole, in one or two mappings. Of
//!   some it has copies of pages that it wrote to. Its first thread may have ended.
//! * Files have few names, so that many have one, and differ by device or inode. A file that no process has
//!   mapped is known to the cgroup that it is charged to alone.
//! * A cgroup may have processes of another PID namespace, and no memory controller.

use crate::fake::{Fake, stat_line};
use std::collections::BTreeMap;
use std::fmt::Write;
use weir_core::random::SplitMix;

/// Nodes with device memory.
pub(super) const NODES: [u32; 2] = [1, 2];
const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 2 << 20;
/// Above all that a kernel gives.
const FIRST_PID: u32 = 5_000_000;

/// Names of cgroups, none of which is written in another way.
const CGROUPS: [&str; 5] = [
    "plain.service",
    "kubepods-pod1.slice:cri-containerd:4f2a",
    "dev-disk\\x2dby.service",
    "a b.service",
    "snow-☃.scope",
];
/// Names of files as the kernel writes them.
const NAMES: [&str; 6] = [
    "/dev/shm/data",
    "/memfd:heap\\040(deleted)",
    "/srv/a\\040N1=99\\040huge",
    "/srv/x:y",
    "/srv/two\\012lines",
    "/usr/lib/lib.so",
];
const HUGE_NAMES: [&str; 2] = ["/dev/hugepages/pool", "/anon_hugepage\\040(deleted)"];

/// A file with pages on nodes.
#[derive(Debug)]
struct MadeFile {
    name: &'static str,
    number: usize,
    pages: [u64; 2],
    is_huge: bool,
    /// The cgroup that it is charged to.
    cgroup: usize,
}

impl MadeFile {
    /// Its device and inode as `maps` writes them: no two have both, many have one.
    fn identity(&self) -> String {
        let device = ["00:01", "00:2f", "fe:01"][self.number % 3];
        format!("{device} {}", 40 + self.number / 3)
    }

    fn bytes(&self) -> [u64; 2] {
        let page = if self.is_huge { HUGE_PAGE } else { PAGE };
        self.pages.map(|pages| pages * page)
    }
}

#[derive(Debug)]
pub(super) struct MadeProcess {
    cgroup: usize,
    private: [u64; 2],
    elsewhere: u64,
    huge: [u64; 2],
    /// Files that it has mapped, by position, with how many mappings each and with how many copied pages.
    files: BTreeMap<usize, (bool, u64)>,
    /// Its first thread has ended, and this one lives.
    thread: Option<u32>,
}

#[derive(Debug)]
pub(super) struct MadeCgroup {
    name: &'static str,
    /// What processes of another PID namespace have, in pages.
    hidden: Option<[u64; 2]>,
    has_controller: bool,
}

impl MadeCgroup {
    pub(super) fn id(&self) -> String {
        format!("/system.slice/{}", self.name)
    }
}

/// What a cgroup has, in bytes.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) here: [u64; 2],
    pub(super) elsewhere: u64,
}

impl Placed {
    fn add(&mut self, bytes: [u64; 2]) {
        for (sum, more) in self.here.iter_mut().zip(bytes) {
            *sum += more;
        }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) cgroups: Vec<MadeCgroup>,
    pub(super) processes: BTreeMap<u32, MadeProcess>,
    files: Vec<MadeFile>,
    /// Private pages that no process has.
    stray: [u64; 2],
    migrated: u64,
    /// Processes so far.
    started: u32,
    random: SplitMix,
}

fn one_in(random: &mut SplitMix, count: u64) -> bool {
    random.below(count) == 0
}

fn one_of<T: Copy>(random: &mut SplitMix, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

impl Machine {
    pub(super) fn new(seed: u64) -> Machine {
        let mut random = SplitMix::new(seed);
        let count = 2 + random.below(CGROUPS.len() as u64 - 1) as usize;
        let cgroup = |name: &&'static str| MadeCgroup {
            name,
            hidden: one_in(&mut random, 6).then(|| [random.below(9000), random.below(9000)]),
            has_controller: !one_in(&mut random, 4),
        };
        let cgroups: Vec<MadeCgroup> = CGROUPS[..count].iter().map(cgroup).collect();
        let mut machine = Machine {
            cgroups,
            processes: BTreeMap::new(),
            files: Vec::new(),
            stray: [0; 2].map(|_| random.below(3) * 30_000),
            migrated: 5,
            started: 0,
            random,
        };
        for number in 0..machine.random.below(7) as usize {
            machine.add_file(number);
        }
        for _ in 0..1 + machine.random.below(8) {
            machine.add_process();
        }
        machine
    }

    /// One with hidden processes has no files, so that what is charged to it is all that it has.
    fn add_file(&mut self, number: usize) {
        let random = &mut self.random;
        let cgroup = random.below(self.cgroups.len() as u64) as usize;
        if self.cgroups[cgroup].hidden.is_some() {
            return;
        }
        let is_huge = one_in(random, 3);
        let names = if is_huge { &HUGE_NAMES[..] } else { &NAMES[..] };
        let sizes = if is_huge {
            [0, 1, 8, 40]
        } else {
            [0, 256, 3000, 20_000]
        };
        self.files.push(MadeFile {
            name: one_of(random, names),
            number,
            pages: [0; 2].map(|_| one_of(random, &sizes)),
            is_huge,
            cgroup,
        });
    }

    fn add_process(&mut self) {
        let random = &mut self.random;
        self.started += 1;
        let pid = FIRST_PID + 10 * self.started;
        let cgroup = random.below(self.cgroups.len() as u64) as usize;
        let mut files = BTreeMap::new();
        for (position, file) in self.files.iter().enumerate() {
            // A huge page is charged to the cgroup that has it mapped.
            let may_map =
                self.cgroups[cgroup].hidden.is_none() && (!file.is_huge || file.cgroup == cgroup);
            if may_map && one_in(random, 2) {
                // On which node a copy is, the maps say where all pages are on one.
                let has_copies = !file.is_huge && file.pages[1] == 0 && one_in(random, 3);
                let copies = if has_copies { random.below(5000) } else { 0 };
                files.insert(position, (one_in(random, 3), copies));
            }
        }
        let huge = one_in(random, 4).then(|| [random.below(9), random.below(9)]);
        self.processes.insert(
            pid,
            MadeProcess {
                cgroup,
                private: [0; 2].map(|_| one_of(random, &[0, 0, 1, 700, 90_000])),
                elsewhere: random.below(1000),
                huge: huge.unwrap_or_default(),
                files,
                thread: one_in(random, 4).then_some(pid + 1),
            },
        );
    }

    /// A process goes, one comes, and pages are migrated: private ones, and those of a file.
    pub(super) fn change(&mut self, fake: &Fake) {
        self.migrated += 100;
        let gone = self.processes.keys().next().copied();
        if let Some(pid) = gone.filter(|_| one_in(&mut self.random, 2)) {
            self.processes.remove(&pid);
            fake.remove(format!("proc/{pid}"));
        }
        for process in self.processes.values_mut() {
            process.private.reverse();
        }
        let files = self.files.iter_mut();
        // What was copied stays where it is.
        let mut whole = files.filter(|file| file.pages[1] > 0);
        if let Some(file) = whole.next() {
            file.pages[1] += std::mem::take(&mut file.pages[0]);
        }
        self.add_process();
    }

    fn members(&self, cgroup: usize) -> impl Iterator<Item = (&u32, &MadeProcess)> {
        let all = self.processes.iter();
        all.filter(move |(_, process)| process.cgroup == cgroup)
    }

    /// Whether there is a process in it.
    pub(super) fn is_inhabited(&self, cgroup: usize) -> bool {
        self.cgroups[cgroup].hidden.is_some() || self.members(cgroup).next().is_some()
    }

    fn is_mapped(&self, file: usize, by: impl Fn(&MadeProcess) -> bool) -> bool {
        let mut all = self.processes.values();
        all.any(|process| process.files.contains_key(&file) && by(process))
    }

    /// What a cgroup has; nothing where that cannot be known. One without processes has nothing.
    pub(super) fn placed(&self, index: usize) -> Option<Placed> {
        let cgroup = &self.cgroups[index];
        let mut sum = Placed::default();
        if !self.is_inhabited(index) {
            return Some(sum);
        }
        if let Some(hidden) = cgroup.hidden {
            sum.add(hidden.map(|pages| pages * PAGE));
            if !cgroup.has_controller {
                return None;
            }
        }
        for (_, process) in self.members(index) {
            sum.add(self.private(process));
            sum.add(process.huge.map(|pages| pages * HUGE_PAGE));
            sum.elsewhere += process.elsewhere * PAGE;
        }
        for (position, file) in self.files.iter().enumerate() {
            let is_unmapped = !self.is_mapped(position, |_| true);
            let is_charged = is_unmapped && file.cgroup == index && cgroup.has_controller;
            if is_charged || self.is_mapped(position, |process| process.cgroup == index) {
                sum.add(file.bytes());
            }
        }
        Some(sum)
    }

    /// Small pages of the process that belong to no file.
    fn private(&self, process: &MadeProcess) -> [u64; 2] {
        let copies: u64 = process.files.values().map(|(_, copies)| copies).sum();
        let [first, second] = process.private;
        [(first + copies) * PAGE, second * PAGE]
    }

    /// What is in use on a node: private memory, files, and huge pages.
    fn used(&self, node: usize) -> [u64; 3] {
        let of = |is_huge: bool, process: &MadeProcess| {
            if is_huge {
                process.huge[node] * HUGE_PAGE
            } else {
                self.private(process)[node]
            }
        };
        let sum = |is_huge: bool| -> u64 { self.processes.values().map(|p| of(is_huge, p)).sum() };
        let files = |is_huge: bool| -> u64 {
            let all = self.files.iter().filter(|file| file.is_huge == is_huge);
            all.map(|file| file.bytes()[node]).sum()
        };
        let hidden = self.cgroups.iter().filter_map(|cgroup| cgroup.hidden);
        let hidden: u64 = hidden.map(|pages| pages[node] * PAGE).sum();
        [
            sum(false) + hidden + self.stray[node] * PAGE,
            files(false),
            sum(true) + files(true),
        ]
    }

    /// All of it.
    pub(super) fn in_use(&self, node: usize) -> u64 {
        self.used(node).iter().sum()
    }

    /// Writes the machine as files of a made-up `/proc` and `/sys`.
    pub(super) fn write(&self, fake: &Fake) {
        fake.write(
            "proc/vmstat",
            format!("pgmigrate_success {}\n", self.migrated),
        );
        fake.numa_maps(100, &[]);
        for (node, number) in NODES.iter().enumerate() {
            let [anon, file, huge] = self.used(node);
            let dir = format!("sys/devices/system/node/node{number}");
            let [anon, file] = [anon, file].map(|bytes| bytes / 1024);
            let lines = [
                ("MemTotal", 1 << 30),
                ("MemFree", 0),
                ("AnonPages", anon),
                ("FilePages", file),
            ];
            let lines = lines.map(|(name, kib)| format!("Node {number} {name}: {kib} kB\n"));
            fake.write(format!("{dir}/meminfo"), lines.concat());
            let pages = format!("{dir}/hugepages/hugepages-2048kB");
            fake.write(
                format!("{pages}/nr_hugepages"),
                format!("{}\n", huge / HUGE_PAGE + 3),
            );
            fake.write(format!("{pages}/free_hugepages"), "3\n");
        }
        for index in 0..self.cgroups.len() {
            self.write_cgroup(fake, index);
        }
        for (pid, process) in &self.processes {
            self.write_process(fake, *pid, process);
        }
    }

    fn write_cgroup(&self, fake: &Fake, index: usize) {
        let cgroup = &self.cgroups[index];
        let hidden = cgroup.hidden.map(|_| 0);
        let pids = self.members(index).map(|(pid, _)| *pid);
        let path = &cgroup.id()[1..];
        fake.cgroup(path, &pids.chain(hidden).collect::<Vec<u32>>());
        if !cgroup.has_controller {
            return;
        }
        let (mut anon, mut huge) = (Placed::default(), Placed::default());
        anon.add(cgroup.hidden.unwrap_or_default().map(|pages| pages * PAGE));
        for (_, process) in self.members(index) {
            anon.add(self.private(process));
            anon.elsewhere += process.elsewhere * PAGE;
            huge.add(process.huge.map(|pages| pages * HUGE_PAGE));
        }
        let (mut file, mut mapped) = (Placed::default(), Placed::default());
        for (position, made) in self.files.iter().enumerate() {
            if made.cgroup != index {
                continue;
            }
            if made.is_huge {
                huge.add(made.bytes())
            } else {
                file.add(made.bytes())
            }
            if !made.is_huge && self.is_mapped(position, |_| true) {
                mapped.add(made.bytes());
            }
        }
        let line = |name: &str, of: &Placed| {
            let [first, second] = of.here;
            format!("{name} N0={} N1={first} N2={second}\n", of.elsewhere)
        };
        let text = line("anon", &anon) + &line("file", &file) + &line("kernel_stack", &anon);
        let text = text + &line("shmem", &file) + &line("file_mapped", &mapped);
        let dir = format!("sys/fs/cgroup/{path}");
        fake.write(format!("{dir}/memory.numa_stat"), text);
        let total: u64 = huge.here.iter().sum();
        let text = line(&format!("total={total}"), &huge);
        fake.write(format!("{dir}/hugetlb.2MB.numa_stat"), text);
    }

    fn write_process(&self, fake: &Fake, pid: u32, process: &MadeProcess) {
        let id = self.cgroups[process.cgroup].id();
        fake.process(pid, "made up", &id, u64::from(pid));
        let mut maps = MapsText::default();
        let [first, second] = process.private;
        maps.add("heap anon=9", [process.elsewhere, first, second], 4, None);
        let [first, second] = process.huge;
        if first + second > 0 {
            let own = format!(
                "file=/anon_hugepage\\040(deleted) huge anon={}",
                first + second
            );
            maps.add(
                &own,
                [0, first, second],
                2048,
                Some(&format!("00:0f {pid}")),
            );
        }
        for (position, (is_split, copies)) in &process.files {
            let file = &self.files[*position];
            let (huge, page_kib) = if file.is_huge {
                (" huge", 2048)
            } else {
                ("", 4)
            };
            let [first, second] = file.pages;
            let half = if *is_split {
                [first / 2, second / 2]
            } else {
                [0, 0]
            };
            let rest = [first - half[0], second - half[1]];
            for (pages, copies) in [(half, 0), (rest, *copies)] {
                let anon = if copies > 0 {
                    format!(" anon={copies}")
                } else {
                    String::new()
                };
                let what = format!("file={}{huge}{anon} mapped=7", file.name);
                let pages = [0, pages[0] + copies, pages[1]];
                maps.add(&what, pages, page_kib, Some(&file.identity()));
            }
        }
        let dir = match process.thread {
            Some(thread) => {
                let stat = stat_line(pid, "made up", 0, u64::from(pid), 2);
                fake.write(format!("proc/{pid}/stat"), stat);
                fake.write(format!("proc/{pid}/task/{pid}/numa_maps"), "");
                format!("proc/{pid}/task/{thread}")
            }
            None => format!("proc/{pid}"),
        };
        fake.write(format!("{dir}/numa_maps"), maps.numa_maps);
        fake.write(format!("{dir}/maps"), maps.maps);
    }
}

/// `numa_maps` and `maps` of a process.
#[derive(Default)]
struct MapsText {
    numa_maps: String,
    maps: String,
    count: u64,
}

impl MapsText {
    /// A mapping with so many pages on nodes 0, 1 and 2.
    fn add(&mut self, what: &str, pages: [u64; 3], page_kib: u64, identity: Option<&str>) {
        self.count += 1;
        let start = 0x7f00_0000_0000 + self.count * 0x1_0000_0000;
        let _ = write!(self.numa_maps, "{start:x} default {what}");
        for (node, pages) in pages.iter().enumerate().filter(|(_, pages)| **pages > 0) {
            let _ = write!(self.numa_maps, " N{node}={pages}");
        }
        let _ = writeln!(self.numa_maps, " kernelpagesize_kB={page_kib}");
        let identity = identity.unwrap_or("00:00 0");
        let end = start + 0x1000_0000;
        let _ = writeln!(
            self.maps,
            "{start:x}-{end:x} rw-p 00000000 {identity}  /a name (deleted)"
        );
    }
}
