// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::process_table::tests as rows;
use super::*;
use crate::fake::Fake;
use crate::kernel::clock::process_cpu;
use crate::kernel::fd_budget::Budget;
use crate::workloads::cgroups::cache::PIDS_EVERY;
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::discovery::Discovery;
use crate::workloads::exclude::Rules;
use crate::workloads::processes::ProcessCache;
use crate::workloads::processes::proc_pid::signs_of;
use rustix::fd::AsFd;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use weir_core::Nanos;

/// The number of times that processes may come and go between two readings before a test gives up.
const TRIES: u32 = 200;

#[test]
fn files_that_are_not_the_machines_are_walked_and_it_says_why() {
    let fake = Fake::new();
    let told = Tasks::choose(&fake.options(By::Cgroup)).told();
    assert!(
        told.contains("one by one; no BPF iterator") && told.contains("is not our own"),
        "{told}"
    );
    let real = Options::default();
    let mixed = Options {
        roots: Roots {
            proc: real.roots.proc.clone(),
            ..fake.roots()
        },
        ..real.clone()
    };
    let told = Tasks::choose(&mixed).told();
    assert!(told.contains("is not cgroup v2"), "{told}");
    let told = Tasks::choose(&Options {
        by: By::Process,
        ..mixed
    })
    .told();
    assert!(
        told.contains("initial") || told.contains("CONFIG_DEBUG_INFO_BTF"),
        "{told}"
    );
    let unasked = Options {
        tasks: TaskSource::Walk,
        ..real
    };
    assert!(Tasks::choose(&unasked).told().contains("not selected"));
    assert!(Tasks::begin(&unasked).told().contains("not selected"));
}

/// Files are read until it is there; where it never comes they go on being read, for its reason and not for
/// that one.
#[test]
fn nobody_waits_while_it_is_loaded() {
    let options = Options {
        by: By::Process,
        ..Options::default()
    };
    let mut tasks = Tasks::begin(&options);
    if !matches!(tasks.source.lacking(), Some(Missing::NotYetRead)) {
        let _ = writeln!(std::io::stderr(), "SKIP loading beside: {}", tasks.told());
        return;
    }
    assert!(tasks.is_walk());
    while tasks.source.is_coming() {
        std::thread::yield_now();
    }
    let table = tasks.sweep(&mut || ());
    assert_eq!(table.is_none(), tasks.is_walk());
    assert!(!tasks.told().contains("not yet"), "{}", tasks.told());
}

#[test]
fn one_that_says_something_else_of_ourselves_is_not_believed() {
    let roots = Roots::default();
    let pid = std::process::id();
    let proc = open_root(&roots.proc).unwrap();
    let stat = read_stat(&proc, pid, &mut Buffer::new()).unwrap();
    let mut comm = [0; 16];
    comm[..stat.comm.len()].copy_from_slice(&stat.comm);
    let me = rows::Row {
        start_ns: stat.start_ticks * 10_000_000,
        nice: stat.nice,
        comm: comm.map(u8::cast_signed),
        ..rows::row(pid.into(), pid.into(), 1)
    };
    let ask = |row| {
        let table = rows::table(&[&rows::bytes(&[row])]).unwrap();
        agrees(&roots, By::Process, &table)
    };
    assert_eq!(ask(me), Ok(()));
    let start_ns = me.start_ns + 10_000_000;
    let wrong = [
        rows::Row { start_ns, ..me },
        rows::Row {
            comm: [b'x'.cast_signed(); 16],
            ..me
        },
        rows::Row {
            nice: me.nice - 1,
            ..me
        },
        rows::Row {
            pid: 1 << 20,
            tgid: 1 << 20,
            ..me
        },
    ];
    for row in wrong {
        assert!(matches!(ask(row), Err(Missing::Lost(_))));
    }
}

/// Where this machine has a cgroup v2 tree.
fn roots() -> Roots {
    let mut roots = Roots::default();
    let hybrid = PathBuf::from("/sys/fs/cgroup/unified");
    if hybrid.join("cgroup.procs").exists() {
        roots.cgroup = hybrid;
    }
    roots
}

/// The iterator, or a word on why there is none.
fn iterator(test: &str) -> Option<Whole<TaskIterProgram>> {
    let say = |what: &str| {
        let _ = writeln!(std::io::stderr(), "SKIP {test}: {what}");
    };
    let whole = |program| Whole::new(program, &roots(), By::Cgroup, false);
    let loaded =
        refusal(&roots(), By::Cgroup).and_then(|()| TaskIterProgram::load().and_then(whole));
    let mut program = loaded.map_err(|why| say(&why.to_string())).ok()?;
    let table = program.sweep(&mut || ()).unwrap();
    assert_eq!(agrees(&roots(), By::Cgroup, &table), Ok(()));
    Some(program)
}

/// A process that waits, until this goes.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> std::io::Result<Waiting> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Waiting(command.stderr(Stdio::null()).spawn()?))
    }

    /// Makes a process that waits under this name.
    fn named(dir: &std::path::Path, name: &str, nice: &str) -> Waiting {
        let program = dir.join(name);
        symlink("/bin/sleep", &program).unwrap();
        let mut command = Command::new("nice");
        Waiting::start(command.args(["-n", nice]).arg(program).arg("1000")).unwrap()
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

type Facts = (u64, String, i64, bool, bool);

fn facts_by(members: &ProcessCache, pid: u32) -> Option<Facts> {
    let m = members.get(pid)?;
    // What /proc adds to names of kernel threads is not in the task.
    let comm = if m.is_kernel { "" } else { &m.comm };
    Some((
        m.start_ticks,
        comm.to_owned(),
        m.nice,
        m.is_kernel,
        m.real_time,
    ))
}

/// All processes of `/proc`, by files.
fn walked() -> Vec<(u32, Facts)> {
    let proc = Arc::new(open_root(&roots().proc).unwrap());
    let mut pids = Vec::new();
    let pid = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u32>().ok();
    crate::kernel::files::for_each_dir(&proc, 100_000, |name| pids.extend(pid(name))).unwrap();
    pids.sort_unstable();
    let mut members = ProcessCache::new(proc, Vec::new());
    members.begin_round();
    pids.retain(|pid| members.meet(*pid, Nanos(1), &mut Buffer::new()));
    let facts = |pid| Some((pid, facts_by(&members, pid)?));
    pids.into_iter().filter_map(facts).collect()
}

fn swept(table: &ProcessTable) -> Vec<(u32, Facts)> {
    let proc = Arc::new(open_root(&roots().proc).unwrap());
    let mut members = ProcessCache::new(proc, Vec::new());
    members.begin_round();
    let all = table.pids();
    let facts = |pid| {
        members.meet_by(Some(table), pid, Nanos(1), &mut Buffer::new());
        Some((pid, facts_by(&members, pid)?))
    };
    all.filter_map(facts).collect()
}

fn listed(dir: &std::path::Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// On the kernel that runs the tests, where it lets us: two walks with a sweep between. What both walks say,
/// the sweep must say too, of every process there is.
#[test]
fn a_sweep_tells_what_a_walk_tells() {
    let Some(mut source) = iterator("a sweep against a walk") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let named = Waiting::named(dir.path(), "we\nir) R 1 \u{1b}[2J", "7");
    let zombie = Waiting::start(&mut Command::new("true")).unwrap();
    let id = WaitId::Pid(rustix::process::Pid::from_child(&zombie.0));
    waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let root = roots().cgroup;
    let inode = inode(open_root(&root).unwrap()).unwrap().st_ino;
    let mut agreed = false;
    for _ in 0..TRIES {
        let (before, list_before) = (walked(), listed(&root));
        let table = source.sweep(&mut || ()).unwrap();
        let (after, list_after) = (walked(), listed(&root));
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (before.into_iter().collect(), after.into_iter().collect());
        let ours: BTreeSet<_> = swept(&table).into_iter().collect();
        let lost: Vec<_> = before
            .intersection(&after)
            .filter(|row| !ours.contains(row))
            .collect();
        let theirs = |row: &&(u32, Facts)| ours.iter().find(|our| our.0 == row.0);
        let instead: Vec<_> = lost.iter().map(theirs).collect();
        assert!(
            lost.is_empty(),
            "{lost:?} in files, {instead:?} in the sweep"
        );
        assert!(before.len() > 2, "{before:?}");
        let (pid, of_zombie) = (named.pid(), zombie.pid());

        assert!(table.get(of_zombie).is_some(), "/proc has it");
        let of_root: BTreeSet<u32> = table.of_cgroup(inode).into_iter().collect();
        assert!(!of_root.contains(&of_zombie), "no list has it");
        let comm = table.get(pid).unwrap().comm().to_vec();
        if list_before == list_after && comm.starts_with(b"we\nir) R 1") {
            assert_eq!(of_root, list_before);
            agreed = true;
            break;
        }
    }
    assert!(
        agreed,
        "processes came and went between any two of {TRIES} looks"
    );
}

#[test]
fn a_sweep_has_the_policies_and_the_time_of_all_threads() {
    let Some(mut source) = iterator("threads in a sweep") else {
        return;
    };
    let pid = std::process::id();
    let burnt = || process_cpu(pid).unwrap();
    let from = burnt();
    std::thread::scope(|scope| {
        // It ends before the sweep: its time is the process's.
        let burn = || while burnt().0 < from.0 + 100_000_000 {};
        scope.spawn(burn).join().unwrap();
    });
    let before = burnt();
    let seen = source.sweep(&mut || ()).unwrap().get(pid).unwrap().cpu;
    let after = burnt();
    // For a thread that runs it is the time up to its CPU's last tick.
    assert!(
        before.0 / 2 <= seen.0 && seen.0 <= after.0,
        "{before} {seen} {after}"
    );
    let real_time = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let param = libc::sched_param { sched_priority: 1 };
            // SAFETY: reads `param`, which lives; 0 is the calling thread.
            let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const param) };
            (done == 0).then(|| {
                source
                    .sweep(&mut || ())
                    .unwrap()
                    .get(pid)
                    .unwrap()
                    .real_time
            })
        });
        thread.join().unwrap()
    });
    match real_time {
        None => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIP a real-time thread: not permitted here"
            );
        }
        Some(real_time) => assert!(real_time),
    }
}

/// What tells of a change of memory: on both ways a page of ours that is written shows in each sign.
#[test]
fn a_sweep_has_the_signs_of_a_change_of_memory() {
    const PAGES: usize = 20_000;
    let Some(mut source) = iterator("signs in a sweep") else {
        return;
    };
    let pid = std::process::id();
    let proc = open_root(&roots().proc).unwrap();
    let in_files = || signs_of(&read_stat(&proc, pid, &mut Buffer::new()).unwrap());
    let mut in_sweep = || {
        let table = source.sweep(&mut || ()).unwrap();
        table.get(pid).unwrap().signs.expect("of this kernel")
    };
    let before = [in_files(), in_sweep(), in_files()];
    assert!(before.is_sorted_by_key(|signs| signs.faults), "{before:?}");
    let mut pages = vec![0u8; PAGES * 4096];
    // This is a thread that ends.
    std::thread::scope(|scope| {
        scope.spawn(|| pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1));
    });
    let after = [in_files(), in_sweep(), in_files()];
    assert!(after.is_sorted_by_key(|signs| signs.faults), "{after:?}");
    for (before, after) in before.into_iter().zip(after) {
        // A huge page is one fault; and other tests run meanwhile.
        assert!(after.faults - before.faults >= PAGES as u64 / 512);
        let more = after.resident_pages.saturating_sub(before.resident_pages);
        assert!(more >= PAGES as u64 / 2, "{before:?} {after:?}");
    }
    assert_eq!(pages.iter().filter(|byte| **byte == 1).count(), PAGES);
}

/// A thousand cgroups with a process each, while this lives.
struct Thousand {
    dir: PathBuf,
    children: Vec<Waiting>,
}

impl Thousand {
    fn new() -> std::io::Result<Thousand> {
        let dir = roots()
            .cgroup
            .join(format!("weir-cost-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        let mut thousand = Thousand {
            dir,
            children: Vec::new(),
        };
        for number in 0..1000 {
            let leaf = thousand.dir.join(format!("{number:03}.service"));
            std::fs::create_dir(&leaf)?;
            let child = Waiting::start(Command::new("/bin/sleep").arg("1000"))?;
            let pid = child.pid().to_string();
            thousand.children.push(child);
            std::fs::write(leaf.join("cgroup.procs"), pid)?;
        }
        Ok(thousand)
    }
}

impl Drop for Thousand {
    fn drop(&mut self) {
        self.children.clear();
        for leaf in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let _ = std::fs::remove_dir(leaf.path());
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

fn cpu_of_thread() -> u64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(spent.tv_sec * 1_000_000_000 + spent.tv_nsec).unwrap()
}

/// Both ways of asking for all processes, by turns; and a whole round of discovery by each.
#[test]
#[ignore = "makes a thousand cgroups and processes, and prints what asking them costs"]
fn what_asking_costs() {
    const TURNS: u64 = 40;
    let Some(mut source) = iterator("what asking costs") else {
        return;
    };
    let thousand = Thousand::new().unwrap();
    let proc = Arc::new(open_root(&roots().proc).unwrap());
    let open = || CgroupTree::open(&thousand.dir, Arc::clone(&proc), Budget::new(10_000)).unwrap();
    let discovery = |tasks| {
        let rules = Rules::new(Vec::new(), None, None);
        // For limits: all are asked each time, settled or not.
        let discovery = Discovery::of_cgroups(open(), Arc::clone(&proc), rules);
        discovery.with_tasks(tasks).for_limits(true)
    };
    let mut both = [
        discovery(Tasks::walk()),
        discovery(Tasks::of(iterator("again").unwrap())),
    ];
    let mut buffer = Buffer::new();
    let mut tree = open();
    tree.refresh(Nanos(1), &mut buffer);
    let root = tree.root();
    let mut members = ProcessCache::new(proc, Vec::new());
    let mut costs: [Vec<u64>; 4] = Default::default();
    for turn in 1..=TURNS {
        let at = Nanos(turn * PIDS_EVERY.0);
        members.begin_round();
        let mut took = |place: usize, work: &mut dyn FnMut()| {
            let from = cpu_of_thread();
            work();
            costs[place].push(cpu_of_thread() - from);
        };
        let (mut walked, mut counted) = (0, 0);
        took(0, &mut || {
            for leaf in tree.leaves() {
                for pid in leaf.pids(None, root.as_fd(), &mut buffer).unwrap() {
                    walked += usize::from(members.meet(pid, at, &mut buffer));
                }
            }
        });
        took(1, &mut || {
            let table = source.sweep(&mut || ()).unwrap();
            for leaf in tree.leaves() {
                for pid in table.of_cgroup(leaf.inode) {
                    let seen = members.meet_by(Some(&table), pid, at, &mut buffer);
                    counted += usize::from(seen);
                }
            }
        });
        assert_eq!((walked, counted), (1000, 1000));
        for (place, discovery) in both.iter_mut().enumerate() {
            took(2 + place, &mut || {
                assert_eq!(discovery.round(at).workloads.len(), 1000);
            });
        }
    }
    let median = |place: usize| {
        let mut costs = costs[place].clone();
        costs.sort_unstable();
        costs[costs.len() / 2] / 1000
    };
    let [lists, sweep, round_by_lists, round_by_sweep] = [0, 1, 2, 3].map(median);
    println!("asking 1000 cgroups: lists {lists} us, iterator {sweep} us of CPU time");
    println!("a round of discovery: {round_by_lists} us, {round_by_sweep} us");
    assert!(sweep < lists, "the iterator is the dearer one");
}

/// Processes that come while the last row is read would else be rows after it.
#[test]
fn a_sweep_ends_while_processes_come() {
    let Some(mut source) = iterator("a sweep beside new processes") else {
        return;
    };
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = Command::new("true").status();
            }
        });
        let sweeps: Vec<_> = (0..300).map(|_| source.sweep(&mut || ())).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for sweep in sweeps {
            sweep.unwrap();
        }
    });
}
