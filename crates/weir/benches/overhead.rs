// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a running `weir run` costs the machine that it measures: CPU time, with that of its threads, and
//! memory. 1000 workloads have memory on the device, and their figures change all the time.
//!
//! ```console
//! $ cargo bench -p weir --bench overhead
//! $ WEIR_AGAINST=/path/to/another/weir cargo bench -p weir --bench overhead -- "files, every 1s"
//! ```
//!
//! The second compares with another build, by turns, in the rows of these names.
//!
//! First the machine is made of files in memory (which in the last of these rows stand still), so that is
//! weir's own work and the system calls; the kernel's of making up `cpu.stat` and `numa_maps` comes on top.
//! Then, as root where there is a cgroup v2 tree, cgroups and processes are this machine's own, a thousand of
//! them that do next to nothing, and only the device is made of files: once with programs of weir's in the
//! kernel, and once with files alone.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "../../weir-lab/src/bench/fake_host.rs"]
mod fake_host;

use fake_host::FakeHost;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WORKLOADS: usize = 1000;
/// Time between two changes of all figures.
const CHANGES_EVERY: Duration = Duration::from_millis(500);
/// Left out at the beginning: the first scan reads everything.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(20);
/// Every process is read once, and programs are loaded meanwhile.
const REAL_WARM_UP: Duration = Duration::from_secs(30);
/// Rows with cgroups of this machine, and whether kernels have types there, without which no program is
/// loaded.
const REAL: [(&str, bool); 2] = [
    ("cgroups, every 1s, programs", true),
    ("cgroups, every 1s, files alone", false),
];
/// The row with files that stand still.
const STILL: &str = "still, every 50ms, metrics";
/// The row with a client of the page that comes and goes.
const PAGE: &str = "files, every 100ms, page";
/// Turns with a client; there are as many without one.
const PAGE_TURNS: usize = 40;
/// Length of each turn. What a client gets before it, at its beginning, is not counted.
const PAGE_TURN: Duration = Duration::from_secs(3);
const PAGE_SETTLES: Duration = Duration::from_millis(700);
/// Ticks until all cgroups count as idle, and the time for which a new weir assumes a reader.
const STILL_WARM_UP: Duration = Duration::from_secs(12);
/// Turns of each build, where two are compared.
const TURNS: usize = 3;
/// What this program is called with to be one of the processes.
const IDLER: &str = "--idle";

fn name(number: usize) -> String {
    format!("/system.slice/bench-{number:04}.service")
}

/// Figures go on until `stop`.
fn live(fake: &FakeHost, stop: &AtomicBool) {
    let mut usec = 0;
    while !stop.load(Ordering::Relaxed) {
        usec += 400_000;
        for number in 0..WORKLOADS {
            let own = usec + (number * 37) as u64;
            fake.set_cpu(&name(number), own, 0).unwrap();
        }
        fake.set_counters(usec * 4000, usec * 1000).unwrap();
        std::thread::sleep(CHANGES_EVERY);
    }
}

/// CPU time of a process so far, all threads.
fn cpu_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let one = |path: &Path| -> u64 {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ')
            .next()
            .and_then(|ns| ns.parse().ok())
            .unwrap_or(0)
    };
    Duration::from_nanos(threads.map(|t| one(&t.unwrap().path())).sum())
}

/// A number of kB in `/proc/<pid>/status`.
fn memory_mib(pid: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(field)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1024.0
}

/// Whether the arguments name a row.
fn is_wanted(what: &str) -> bool {
    // Those with dashes are cargo's.
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    let first = words.next();
    first.is_none_or(|first| what == first || words.any(|word| what == word))
}

struct Took {
    cpu_percent: f64,
    memory_mib: f64,
    memory_mib_max: f64,
}

/// A row: this build, or this and another by turns. `args` are for the turn with this number.
fn measure(root: &Path, what: &str, args: &dyn Fn(usize) -> Vec<String>, warm_up: Duration) {
    if !is_wanted(what) {
        return;
    }
    let run = |binary: &str, turn: usize| {
        let mut weir = Command::new(binary);
        weir.arg("--root").arg(root).arg("run").args(args(turn));
        watch(weir, warm_up)
    };
    let ours = env!("CARGO_BIN_EXE_weir");
    let Ok(theirs) = std::env::var("WEIR_AGAINST") else {
        return say(what, &run(ours, 0));
    };
    let mut turns = Vec::new();
    for turn in 0..TURNS {
        let other = run(&theirs, 2 * turn);
        turns.push((other, run(ours, 2 * turn + 1)));
    }
    for (other, own) in &turns {
        say(&format!("{what}, the other"), other);
        say(what, own);
    }
    let (other, own): (Vec<f64>, Vec<f64>) = turns
        .iter()
        .map(|(other, own)| (other.cpu_percent, own.cpu_percent))
        .unzip();
    let (other, own) = (median(other), median(own));
    println!(
        "{what}: {own:.2} % against {other:.2} % ({:.2})",
        own / other
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn say(what: &str, took: &Took) {
    println!(
        "{what:<42} {:>6.2} % of a CPU   {:>6.1} MiB   {:>6.1} MiB at most",
        took.cpu_percent, took.memory_mib, took.memory_mib_max,
    );
}

fn watch(mut weir: Command, warm_up: Duration) -> Took {
    weir.stdin(Stdio::null()).stdout(Stdio::null());
    let mut weir = weir.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(warm_up);
    let (before, began) = (cpu_time(weir.id()), Instant::now());
    std::thread::sleep(MEASURED);
    let used = cpu_time(weir.id()) - before;
    let took = Took {
        cpu_percent: used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0,
        memory_mib: memory_mib(weir.id(), "VmRSS"),
        memory_mib_max: memory_mib(weir.id(), "VmHWM"),
    };
    weir.kill().unwrap();
    weir.wait().unwrap();
    took
}

/// What a page more costs: the difference of turns with a client from those before and after, in one run of
/// weir, so that its memory lies where it lay.
fn measure_page(root: &Path) {
    if !is_wanted(PAGE) {
        return;
    }
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg("--root").arg(root).arg("run");
    weir.args(["--interval", "100ms", "--page=127.0.0.1:0"]);
    weir.stdin(Stdio::null()).stdout(Stdio::null());
    let mut weir = weir.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(weir.stderr.take().unwrap()).lines();
    let address = said.by_ref().find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("http://")?;
        Some(address.split('/').next()?.to_owned())
    });
    let address = address.expect("where the page is");
    std::thread::spawn(move || said.for_each(drop));
    std::thread::sleep(WARM_UP);
    let turn = |pid| {
        std::thread::sleep(PAGE_SETTLES);
        let (before, began) = (cpu_time(pid), Instant::now());
        std::thread::sleep(PAGE_TURN);
        (cpu_time(pid) - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0
    };
    let (mut closed, mut differences) = (vec![turn(weir.id())], Vec::new());
    let (mut events, mut bytes) = (0, 0);
    for _ in 0..PAGE_TURNS {
        let (open, got) = with_client(&address, || turn(weir.id()));
        closed.push(turn(weir.id()));
        let beside = &closed[closed.len() - 2..];
        differences.push(open - (beside[0] + beside[1]) / 2.0);
        bytes += got.len();
        events += got.windows(7).filter(|w| w == b"event: ").count();
    }
    weir.kill().unwrap();
    weir.wait().unwrap();
    let (mean, error) = mean_and_error(&differences);
    let span = (PAGE_TURN + PAGE_SETTLES).as_secs_f64() * PAGE_TURNS as f64;
    println!(
        "{PAGE:<42} {:>+6.3} % of a CPU for a page, standard error {error:.3}, {PAGE_TURNS} turns; without {:.2} %; \
         {:.1} events a second of {} bytes",
        mean,
        mean_and_error(&closed).0,
        events as f64 / span,
        bytes / events.max(1),
    );
}

/// Does something while there is a client; what that got. It shows nothing, so that it is not in the way.
fn with_client<T>(address: &str, does: impl FnOnce() -> T) -> (T, Vec<u8>) {
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut reading = client.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        reading.read_to_end(&mut got).map(|_| got)
    });
    let done = does();
    client.shutdown(Shutdown::Both).unwrap();
    (done, reader.join().unwrap().unwrap())
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// This machine's cgroups with a process each, as long as this lives.
struct Real {
    slice: PathBuf,
    idlers: Vec<Child>,
}

impl Real {
    /// Where the tree of cgroups is, and them; or why there are none.
    fn new() -> Result<(PathBuf, Real), String> {
        let trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
        let is_v2 = |tree: &PathBuf| tree.join("cgroup.controllers").exists();
        let tree = trees.into_iter().find(is_v2).ok_or("no cgroup v2 tree")?;
        let slice = tree.join("weir-bench.slice");
        std::fs::create_dir(&slice).map_err(|e| format!("{}: {e}", slice.display()))?;
        let mut real = Real {
            slice,
            idlers: Vec::new(),
        };
        let me = std::env::current_exe().map_err(|e| e.to_string())?;
        for number in 0..WORKLOADS {
            let dir = real.slice.join(format!("bench-{number:04}.service"));
            std::fs::create_dir(&dir).map_err(|e| e.to_string())?;
            let idler = Command::new(&me).arg(IDLER).stdin(Stdio::null()).spawn();
            let idler = idler.map_err(|e| e.to_string())?;
            let moved = std::fs::write(dir.join("cgroup.procs"), idler.id().to_string());
            real.idlers.push(idler);
            moved.map_err(|e| e.to_string())?;
        }
        Ok((tree, real))
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        for idler in &mut self.idlers {
            let _ = (idler.kill(), idler.wait());
        }
        for dir in std::fs::read_dir(&self.slice)
            .into_iter()
            .flatten()
            .flatten()
        {
            let _ = std::fs::remove_dir(dir.path());
        }
        let _ = std::fs::remove_dir(&self.slice);
    }
}

/// A little, twice a second.
fn idle() {
    loop {
        let until = Instant::now() + Duration::from_micros(20);
        while Instant::now() < until {}
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The device of `fake`, on node 0, and all else of this machine.
fn measure_real(fake: &FakeHost) {
    let (tree, _real) = match Real::new() {
        Ok(real) => real,
        Err(why) => return println!("SKIP cgroups of this machine: {why}"),
    };
    for (ours, theirs) in [("proc", Path::new("/proc")), ("sys/fs/cgroup", &tree)] {
        std::fs::remove_dir_all(fake.path(ours)).unwrap();
        std::os::unix::fs::symlink(theirs, fake.path(ours)).unwrap();
    }
    let types = fake.path("sys/kernel/btf/vmlinux");
    std::fs::create_dir_all(types.parent().unwrap()).unwrap();
    for (what, has_types) in REAL {
        if has_types {
            std::fs::write(&types, "").unwrap()
        } else {
            std::fs::remove_file(&types).unwrap()
        }
        let args = |_| vec!["--interval".to_owned(), "1s".to_owned()];
        measure(&fake.path("/"), what, &args, REAL_WARM_UP);
    }
}

fn main() {
    if std::env::args().any(|argument| argument == IDLER) {
        idle();
    }
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory
    } else {
        Path::new("/tmp")
    };
    let dir = tempfile::tempdir_in(place).unwrap();
    let fake = FakeHost::new(dir.path(), 8).unwrap();
    for number in 0..WORKLOADS {
        fake.add(number, &name(number), 1000).unwrap();
    }
    // This is as a kernel has it: the tree is walked when this changes, and now and then.
    let count = format!("nr_descendants {}\n", WORKLOADS + 1);
    std::fs::write(dir.path().join("sys/fs/cgroup/cgroup.stat"), count).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| live(&fake, &stop));
        println!("{WORKLOADS} workloads, {} s each", MEASURED.as_secs());
        for interval in ["1s", "50ms"] {
            let plain = |_| vec!["--interval".to_owned(), interval.to_owned()];
            let what = format!("files, every {interval}");
            measure(dir.path(), &what, &plain, WARM_UP);
            // A new one each time: what a killed writer leaves belongs to its file.
            let file = |turn| dir.path().join(format!("{interval}-{turn}.weir"));
            let record = |turn| vec!["--record".to_owned(), file(turn).display().to_string()];
            let args = |turn| [plain(turn), record(turn)].concat();
            measure(dir.path(), &format!("{what}, recorded"), &args, WARM_UP);
        }
        measure_page(dir.path());
        stop.store(true, Ordering::Relaxed);
    });
    // No workload runs, and the device moves nothing, from here on. A port of the kernel's choice.
    let still = |_| ["--interval", "50ms", "--metrics=127.0.0.1:0"].map(str::to_owned);
    let args = |turn| still(turn).to_vec();
    measure(dir.path(), STILL, &args, STILL_WARM_UP);
    if !REAL.iter().any(|(what, _)| is_wanted(what)) {
        return;
    }
    println!("{WORKLOADS} cgroups of this machine");
    let dir = tempfile::tempdir_in(place).unwrap();
    let fake = FakeHost::new(dir.path(), 8).unwrap();
    let group = "sys/class/weir_cxl/weir_cxl0/group0/node";
    std::fs::write(fake.path(group), "0\n").unwrap();
    let nodes = "sys/devices/system/node";
    std::fs::create_dir_all(fake.path(&format!("{nodes}/node0"))).unwrap();
    measure_real(&fake);
}
