// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that adds up by cgroup, in the kernel that runs the tests: two cgroups, and events of
//! software, which each kernel has.

use crate::counters::pmu::{Counted, PerfScope};
use crate::counters::windows::by_cgroup::counter::{CgroupCounter, CgroupCounterBpf};
use crate::counters::windows::perf::{GroupRequest, KernelPerf, Perf, PerfGroup};
use crate::fake::Fake;
use crate::inventory::numa::online;
use crate::kernel::clock::thread_cpu;
use crate::options::Roots;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_events::Config;

/// Events of software: the clock of a CPU, and page faults.
const CLOCK_AND_FAULTS: [Config; 2] = [Config([0; 4]), Config([2, 0, 0, 0])];
const SWITCHES: Config = Config([3, 0, 0, 0]);
const SOFTWARE: u32 = 1;

/// A tree of cgroups of its own, mounted as long as this lives.
struct Mounted {
    fake: Fake,
    root: PathBuf,
}

impl Mounted {
    fn new() -> Option<Mounted> {
        let fake = Fake::new();
        let root = fake.path("sys/fs/cgroup");
        std::fs::create_dir_all(&root).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "cgroup2", "none"])
            .arg(&root)
            .stderr(Stdio::null())
            .status();
        match mount {
            Ok(status) if status.success() => Some(Mounted { fake, root }),
            _ => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIP program by cgroup: cgroup2 cannot be mounted"
                );
                None
            }
        }
    }

    fn roots(&self) -> Roots {
        Roots {
            cgroup: self.root.clone(),
            ..Roots::default()
        }
    }

    /// A cgroup with a name that no other run of this test has, and its id.
    fn cgroup(&self, name: &str) -> (PathBuf, u64) {
        let dir = self
            .root
            .join(format!("weir-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let id = std::fs::metadata(&dir).unwrap().ino();
        (dir, id)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let entries = std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten();
        let ours = format!("weir-test-{}-", std::process::id());
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours))
        {
            let _ = std::fs::remove_dir(entry.path().join("below"));
            let _ = std::fs::remove_dir(entry.path());
        }
        let _ = Command::new("umount").arg(&self.root).status();
        let _ = &self.fake;
    }
}

/// A shell in a cgroup, which sleeps until it reads a line and then runs `script`.
fn shell(cgroup: &Path, script: &str) -> Child {
    let procs = cgroup.join("cgroup.procs");
    let script = format!(
        "echo $$ > {} && echo in && read go && {script}",
        procs.display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = [0; 3];
    let out = child.stdout.as_mut().unwrap();
    out.read_exact(&mut word).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
        std::thread::yield_now();
    }
    child
}

/// The program with sets open on all CPUs, or nothing and the reason where it cannot be loaded.
struct Loaded {
    counter: CgroupCounterBpf,
    groups: Vec<Vec<Box<dyn PerfGroup>>>,
}

fn loaded(roots: &Roots, cgroups: &[u64], sets: &[&[Config]]) -> Option<Loaded> {
    let load = || -> Result<Loaded, String> {
        let mut counter = CgroupCounterBpf::load(roots).map_err(|why| why.to_string())?;
        for cgroup in cgroups {
            counter.count_for(*cgroup).map_err(|why| why.to_string())?;
        }
        counter.attach().map_err(|why| why.to_string())?;
        let mut groups: Vec<Vec<Box<dyn PerfGroup>>> = sets.iter().map(|_| Vec::new()).collect();
        for cpu in online(&Roots::default()).map_err(|why| why.to_string())? {
            for (set, configs) in sets.iter().enumerate() {
                let on = PerfScope::Cpu(cpu);
                let request = GroupRequest {
                    kind: SOFTWARE,
                    configs,
                    on,
                };
                let group = KernelPerf.open(&request).map_err(|why| why.to_string())?;
                let events = group.descriptors();
                counter
                    .read_on(cpu, set, &events)
                    .map_err(|why| why.to_string())?;
                groups[set].push(group);
            }
        }
        Ok(Loaded { counter, groups })
    };
    load()
        .inspect_err(|why| drop(writeln!(std::io::stderr(), "SKIP program by cgroup: {why}")))
        .ok()
}

impl Loaded {
    fn turn(&mut self, to: usize) {
        self.counter.begin_turn();
        for (set, groups) in self.groups.iter_mut().enumerate() {
            groups
                .iter_mut()
                .for_each(|group| group.switch(set == to).unwrap());
        }
        self.counter.turn(to);
    }

    /// What a set has counted for a cgroup, on all sockets.
    fn sum(&mut self, cgroup: u64, set: usize) -> Counted {
        let sockets = self.counter.sum(cgroup, set).unwrap();
        let mut all = Counted::default();
        for sum in sockets.values() {
            all.counts.resize(sum.counts.len(), 0);
            all.counts
                .iter_mut()
                .zip(&sum.counts)
                .for_each(|(all, more)| *all += more);
            all.enabled_ns += sum.enabled_ns;
            all.running_ns += sum.running_ns;
        }
        all
    }

    /// CPU time of a cgroup, in which no set but `set` counted.
    fn time_ns(&mut self, cgroup: u64, set: usize) -> u64 {
        self.counter.count_now();
        let sum = self.sum(cgroup, set);
        assert_eq!(sum.enabled_ns, sum.running_ns, "nothing is multiplexed");
        sum.enabled_ns
    }
}

/// CPU time of a process that has ended, and of what it started, from its cgroup.
fn used_ns(cgroup: &Path) -> u64 {
    let stat = std::fs::read_to_string(cgroup.join("cpu.stat")).unwrap();
    let used = stat
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    used.unwrap().parse::<u64>().unwrap() * 1000
}

#[test]
fn the_kernel_adds_to_the_cgroup_that_runs() {
    let Some(tree) = Mounted::new() else { return };
    let ((a, a_id), (b, b_id), (c, _)) = (tree.cgroup("a"), tree.cgroup("b"), tree.cgroup("c"));
    let below = a.join("below");
    std::fs::create_dir_all(&below).unwrap();
    let sets: [&[Config]; 3] = [&CLOCK_AND_FAULTS, &CLOCK_AND_FAULTS[..1], &CLOCK_AND_FAULTS];
    let Some(mut loaded) = loaded(&tree.roots(), &[a_id, b_id], &sets) else {
        return;
    };
    // A cgroup below a counted one is part of it; one beside it is not.
    let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let forks = "i=0; while [ $i -lt 200 ]; do (:); i=$((i+1)); done";
    let children = [shell(&below, work), shell(&b, "true"), shell(&c, forks)];
    let (before, b_before) = (used_ns(&a), used_ns(&b));
    loaded.turn(0);
    let [mut worker, mut waiting, mut beside] = children;
    for child in [&mut worker, &mut beside] {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        child.wait().unwrap();
    }
    let (used, counted) = (used_ns(&a) - before, loaded.time_ns(a_id, 0));
    // Perf's time passes also while a host takes the CPU away, so it is no less.
    assert!(
        counted as f64 > 0.9 * used as f64 && used > 0,
        "{counted} of {used} ns"
    );
    // Each fork of the one beside has some dozens of faults.
    let faults = loaded.sum(a_id, 0).counts[1];
    assert!(faults < 1000, "{faults} faults");
    assert_eq!(loaded.time_ns(b_id, 0), used_ns(&b) - b_before, "it waits");
    // A turn that no switch notices: this process keeps its CPU, and sets that had no turn have no counts.
    let from = thread_cpu();
    loaded.turn(2);
    while thread_cpu().0 < from.0 + 5_000_000 {
        std::hint::spin_loop();
    }
    loaded.turn(0);
    waiting.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    waiting.wait().unwrap();
    assert!(
        loaded.time_ns(b_id, 0) > 0,
        "it ended in the turn of the first set"
    );
    let sum = |loaded: &mut Loaded, id, set| loaded.sum(id, set);
    assert_eq!(
        sum(&mut loaded, b_id, 2).enabled_ns,
        0,
        "it did not run in that turn"
    );
    let second = sum(&mut loaded, a_id, 1).counts;
    assert!(
        second.iter().all(|count| *count == 0),
        "it had no turn: {second:?}"
    );
    assert!(sum(&mut loaded, a_id, 0).counts[0] > 0);
    assert_eq!(loaded.counter.count_now(), 0, "no run was lost");
}

/// Nanoseconds that a switch between cgroups takes in the program with events of software, by the kernel's
/// statistics of programs. Prints it; run by hand.
#[test]
#[ignore = "prints what a switch costs"]
fn what_a_switch_costs() {
    let tree = Mounted::new().unwrap();
    let ((a, a_id), (b, b_id)) = (tree.cgroup("a"), tree.cgroup("b"));
    for events in [1, 2, 4, 8, 12] {
        let set = vec![SWITCHES; events];
        let mut loaded = loaded(&tree.roots(), &[a_id, b_id], &[&set]).unwrap();
        loaded.turn(0);
        let pipes = [tree.fake.path("there"), tree.fake.path("back")];
        for pipe in &pipes {
            let _ = std::fs::remove_file(pipe);
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        let [there, back] = pipes.each_ref().map(|pipe| pipe.display());
        let ping = format!(
            "exec taskset -c 0 sh -c 'i=0; while [ $i -lt 100000 ]; do echo; read x; i=$((i+1)); done > {there} < {back}'"
        );
        let pong =
            format!("exec taskset -c 0 sh -c 'while read x; do echo; done < {there} > {back}'");
        let children = [shell(&a, &ping), shell(&b, &pong)];
        let statistics = "/proc/sys/kernel/bpf_stats_enabled";
        std::fs::write(statistics, "1").unwrap();
        let (count, time_ns) = runs();
        for mut child in children {
            child.stdin.take().unwrap().write_all(b"\n").unwrap();
            child.stdout = None;
            std::mem::forget(child);
        }
        while used_ns(&a) == 0
            || !std::fs::read_to_string(a.join("cgroup.procs"))
                .unwrap()
                .is_empty()
        {
            std::thread::yield_now();
        }
        let (count, time_ns) = (runs().0 - count, runs().1 - time_ns);
        std::fs::write(statistics, "0").unwrap();
        println!(
            "{events} events: {} ns, mean of {count} switches",
            time_ns / count
        );
    }
}

/// Runs of the program at switches, and their time.
fn runs() -> (u64, u64) {
    let mut programs = libbpf_rs::query::ProgInfoIter::default();
    let found = programs.find(|program| {
        program
            .name
            .to_string_lossy()
            .starts_with("weir_set_switch")
    });
    found.map_or((0, 0), |program| (program.run_cnt, program.run_time_ns))
}
