// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::kernel::fd_budget::Budget;
use crate::kernel::files::{inode, open_root, read_path};
use crate::kernel::parse::cgroup::cpu_stat;
use crate::platform::LinuxPlatform;
use crate::workloads::cgroups::tree::CgroupTree;
use rustix::fd::AsFd;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use weir_core::{Observation, Platform};

/// More than its files say, so that it can be told where a figure is from.
const MORE: u64 = 321;

/// Cgroups made of files, read as a program in the kernel would read the kernel's.
#[derive(Clone, Default)]
struct SchedStats {
    dirs: Vec<PathBuf>,
    asked: Arc<Mutex<Vec<usize>>>,
    /// Microseconds that it says too much.
    skew_us: Arc<AtomicUsize>,
    is_broken: Arc<AtomicBool>,
}

fn id_of(dir: &Path) -> u64 {
    inode(open_root(dir).unwrap()).unwrap().st_ino
}

impl CpuTimeSource for SchedStats {
    fn read(&mut self, ids: &[u64]) -> Result<Vec<Option<Row>>, Missing> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(Missing::Lost("it broke".into()));
        }
        self.asked.lock().unwrap().push(ids.len());
        let skew = self.skew_us.load(Ordering::Relaxed) as u64;
        let one = |id: &u64| {
            let dir = self.dirs.iter().find(|dir| id_of(dir) == *id)?;
            let stat = cpu_stat(&read_path(&dir.join("cpu.stat")).unwrap()).unwrap();
            let throttled = stat.throttled_usec.map(|usec| Nanos(usec * 1000 + MORE));
            Some(Row {
                cpu: Nanos((stat.usage_usec + skew) * 1000 + MORE),
                throttled,
            })
        };
        Ok(ids.iter().map(one).collect())
    }
}

/// A machine with so many services, and a platform that reads them at once.
fn machine(services: usize) -> (Fake, LinuxPlatform, SchedStats) {
    let fake = Fake::new();
    let mut books = SchedStats::default();
    for number in 0..services {
        let path = format!("system.slice/s{number}.service");
        fake.cgroup(&path, &[]);
        books.dirs.push(fake.path("sys/fs/cgroup").join(path));
    }
    for name in ["fio", "stress"] {
        let path = format!("sys/fs/cgroup/system.slice/{name}.service");
        books.dirs.push(fake.path(path));
    }
    fake.write("sys/fs/cgroup/system.slice/cpu.stat", "usage_usec 1\n");
    let mut platform = LinuxPlatform::open_inline(fake.options(By::Cgroup)).unwrap();
    let source = Beside::settled(Ok(Box::new(books.clone()) as Box<dyn CpuTimeSource>));
    platform.workloads.usage = CpuTimeBpf::of(source, By::Cgroup);
    (fake, platform, books)
}

fn cpu(seen: &Observation, id: &str) -> u64 {
    let found = seen.workloads.iter().find(|w| w.id.as_str() == id).unwrap();
    found.cpu_ns.ok().unwrap().0
}

const FIO: &str = "/system.slice/fio.service";
const BY_FILE: u64 = 5_000_000;

#[test]
fn those_below_one_cgroup_are_read_at_once_and_others_by_file() {
    let (_fake, mut platform, books) = machine(10);
    let seen = platform.observe().unwrap();
    for id in [FIO, "/system.slice/s0.service", "/system.slice/s9.service"] {
        assert_eq!(cpu(&seen, id), BY_FILE + MORE, "{id}");
    }
    let fio = seen.workloads.iter().find(|w| w.id.as_str() == FIO);
    let throttled = &fio.unwrap().throttled_ns;
    assert_eq!(throttled.ok(), Some(&Nanos(70_000 + MORE)));
    // They are alone under the root.
    assert_eq!(cpu(&seen, "/init.scope"), BY_FILE);
    assert_eq!(cpu(&seen, "/weir.service"), BY_FILE);
    platform.observe().unwrap();
    // Four are compared, once.
    assert_eq!(*books.asked.lock().unwrap(), [1, 1, 1, 1, 12, 12]);
    assert!(
        platform
            .workloads
            .usage
            .told()
            .contains("all cgroups at once")
    );
}

#[test]
fn few_are_read_by_file_and_so_are_those_that_nobody_adds_up() {
    let (_fake, mut platform, books) = machine(5);
    assert_eq!(cpu(&platform.observe().unwrap(), FIO), BY_FILE);
    let (fake, mut other, others) = machine(10);
    fake.remove("sys/fs/cgroup/system.slice/cpu.stat");
    assert_eq!(cpu(&other.observe().unwrap(), FIO), BY_FILE);
    for books in [books, others] {
        assert!(books.asked.lock().unwrap().is_empty());
    }
}

#[test]
fn one_that_says_something_else_than_the_files_is_not_believed() {
    let (_fake, mut platform, books) = machine(10);
    books.skew_us.store(1, Ordering::Relaxed);
    assert_eq!(cpu(&platform.observe().unwrap(), FIO), BY_FILE);
    let told = platform.workloads.usage.told();
    assert!(
        told.contains("one by one; no BPF program") && told.contains("differs from its cpu.stat"),
        "{told}"
    );
    books.skew_us.store(0, Ordering::Relaxed);
    assert_eq!(cpu(&platform.observe().unwrap(), FIO), BY_FILE, "for good");
}

#[test]
fn one_that_does_not_find_them_or_breaks_is_left() {
    let (_fake, mut platform, books) = machine(10);
    books.is_broken.store(true, Ordering::Relaxed);
    assert_eq!(cpu(&platform.observe().unwrap(), FIO), BY_FILE);
    assert!(platform.workloads.usage.told().contains("it broke"));
    let (_fake, mut platform, _) = machine(10);
    let blind: Box<dyn CpuTimeSource> = Box::new(SchedStats::default());
    platform.workloads.usage = CpuTimeBpf::of(Beside::settled(Ok(blind)), By::Cgroup);
    assert_eq!(cpu(&platform.observe().unwrap(), FIO), BY_FILE);
    assert!(platform.workloads.usage.told().contains("what it finds"));
}

/// One that is gone from the kernel is gone from the files: they say so.
#[test]
fn who_is_not_found_later_is_read_by_file() {
    let (fake, mut platform, mut books) = machine(10);
    platform.observe().unwrap();
    let gone = fake.path("sys/fs/cgroup/system.slice/fio.service");
    books.dirs.retain(|dir| *dir != gone);
    platform.workloads.usage.source = Beside::settled(Ok(Box::new(books)));
    let seen = platform.observe().unwrap();
    assert_eq!(cpu(&seen, FIO), BY_FILE);
    assert_eq!(cpu(&seen, "/system.slice/s0.service"), BY_FILE + MORE);
}

#[test]
fn files_that_are_not_the_kernels_are_read_one_by_one() {
    let fake = Fake::new();
    let told = CpuTimeBpf::choose(&fake.options(By::Cgroup)).told();
    assert!(
        told.contains("one by one") && told.contains("is not cgroup v2"),
        "{told}"
    );
    let told = CpuTimeBpf::begin(&fake.options(By::Process)).told();
    assert!(told.contains("CPU clock"), "{told}");
}

/// A cgroup of the kernel's that is removed at the end, with its process.
struct Cgroup(PathBuf, Option<Child>);

impl Cgroup {
    fn new(dir: PathBuf) -> std::io::Result<Cgroup> {
        std::fs::create_dir(&dir).map(|()| Cgroup(dir, None))
    }

    /// Starts a process that uses the CPU all the time.
    fn spin(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 0 > \"$0\"; while :; do :; done"]);
        command
            .arg(self.0.join("cgroup.procs"))
            .stdin(Stdio::null());
        self.1 = Some(command.spawn().unwrap());
    }

    fn usage_usec(&self) -> u64 {
        let text = read_path(&self.0.join("cpu.stat")).unwrap();
        cpu_stat(&text).unwrap().usage_usec
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if let Some(child) = &mut self.1 {
            let _ = (child.kill(), child.wait());
        }
        // The kernel takes a moment to notice that it is empty.
        while std::fs::remove_dir(&self.0).is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            std::thread::yield_now();
        }
    }
}

/// The program on this machine's own cgroups, where it lets us.
fn program_here() -> Result<(Options, CpuTimeProgram), Missing> {
    let mut options = Options::default();
    let hybrid = PathBuf::from("/sys/fs/cgroup/unified");
    if hybrid.join("cgroup.procs").exists() {
        options.roots.cgroup = hybrid;
    }
    refusal(&options)?;
    let program = CpuTimeProgram::load()?;
    Ok((options, program))
}

#[test]
fn the_program_says_what_cpu_stat_says() {
    let skip = |what: &str| {
        let _ = writeln!(
            std::io::stderr(),
            "SKIP the program that adds up CPU time: {what}"
        );
    };
    let (options, mut program) = match program_here() {
        Ok(found) => found,
        Err(why) => return skip(&why.to_string()),
    };
    let name = format!("weir-test-{}", std::process::id());
    let top = options.roots.cgroup.join(name);
    let Ok(top) = Cgroup::new(top) else {
        return skip("no cgroups can be made here");
    };
    let mut below: Vec<Cgroup> = (0..3)
        .map(|n| Cgroup::new(top.0.join(format!("c{n}"))).unwrap())
        .collect();
    below[1].spin();
    let ids: Vec<u64> = below.iter().map(|c| id_of(&c.0)).collect();
    while below[1].usage_usec() < 50_000 {
        std::thread::yield_now();
    }
    let before = below[1].usage_usec();
    top.usage_usec();
    let many: Vec<u64> = ids
        .iter()
        .cycle()
        .take(page::ROWS * 2 + 5)
        .copied()
        .collect();
    let rows = program.read(&many).unwrap();
    let after = below[1].usage_usec();
    assert_eq!(rows.len(), many.len());
    let us = |row: &Option<Row>| row.unwrap().cpu.0 / 1000;
    assert!(
        (before..=after).contains(&us(&rows[1])),
        "{before} {rows:?} {after}"
    );
    assert!((before..=after).contains(&us(&rows[page::ROWS * 2 + 2])));
    assert_eq!((us(&rows[0]), us(&rows[2])), (0, 0));
    let old = ids[0];
    below.remove(0);
    assert_eq!(program.read(&[old, ids[1]]).unwrap()[0], None, "it is gone");
}

/// CPU time of the calling thread, in microseconds.
fn thread_cpu_us() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Both ways of reading the CPU time of a thousand cgroups, by turns: files that are kept open, and one file
/// and the program.
#[test]
#[ignore = "makes a thousand cgroups, and prints what reading their CPU time costs"]
fn what_reading_cpu_time_costs() {
    const TURNS: usize = 41;
    let (options, mut program) = program_here().unwrap();
    let name = format!("weir-cost-{}", std::process::id());
    let top = Cgroup::new(options.roots.cgroup.join(name)).unwrap();
    let below: Vec<Cgroup> = (0..1000)
        .map(|n| Cgroup::new(top.0.join(format!("c{n}"))).unwrap())
        .collect();
    let ids: Vec<u64> = below.iter().map(|c| id_of(&c.0)).collect();
    let proc = Arc::new(open_root(Path::new("/proc")).unwrap());
    let mut tree = CgroupTree::open(&top.0, proc, Budget::new(10_000)).unwrap();
    let mut buffer = Buffer::new();
    tree.refresh(Nanos(1), &mut buffer);
    let root = tree.root();
    let leaves: Vec<_> = tree.leaves().collect();
    assert_eq!(leaves.len(), ids.len());
    let mut costs: [Vec<i64>; 2] = Default::default();
    for _ in 0..TURNS {
        let start = thread_cpu_us();
        for leaf in &leaves {
            leaf.cpu_stat(root.as_fd(), &mut buffer).unwrap();
        }
        let read = thread_cpu_us();
        top.usage_usec();
        let rows = program.read(&ids).unwrap();
        let swept = thread_cpu_us();
        assert!(rows.iter().all(Option::is_some));
        costs[0].push(read - start);
        costs[1].push(swept - read);
    }
    let [files, program] = costs.map(|mut all| {
        all.sort_unstable();
        all[TURNS / 2]
    });
    let _ = writeln!(
        std::io::stderr(),
        "CPU time of 1000 cgroups: {files} us by files, {program} us by the program"
    );
}
