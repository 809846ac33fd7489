// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a running `weir run` costs the machine it watches: CPU time, threads of its own included, and memory, with
//! 1000 workloads that all have memory on the device and whose figures change all the time.
//!
//! ```console
//! $ cargo bench -p weir --bench overhead
//! ```
//!
//! The machine is made of files in memory, so this is weir's own work and the system calls; the kernel's of
//! making up `cpu.stat` and `numa_maps` comes on top.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code)]
#[path = "../src/fake.rs"]
mod fake;

use fake::Fake;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WORKLOADS: usize = 1000;
/// Between two changes of all figures.
const CHANGES_EVERY: Duration = Duration::from_millis(500);
/// Left out at the beginning: the first look is at everything.
const WARM_UP: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(20);

fn name(number: usize) -> String {
    format!("/system.slice/bench-{number:04}.service")
}

/// Figures go on until `stop`.
fn live(fake: &Fake, stop: &AtomicBool) {
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

fn measure(root: &Path, what: &str, args: &[&str]) {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("--root")
        .arg(root)
        .arg("run")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(WARM_UP);
    let (before, began) = (cpu_time(weir.id()), Instant::now());
    std::thread::sleep(MEASURED);
    let used = cpu_time(weir.id()) - before;
    println!(
        "{what:<32} {:>6.2} % of a CPU   {:>6.1} MiB   {:>6.1} MiB at most",
        used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0,
        memory_mib(weir.id(), "VmRSS"),
        memory_mib(weir.id(), "VmHWM"),
    );
    weir.kill().unwrap();
    weir.wait().unwrap();
}

fn main() {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory
    } else {
        Path::new("/tmp")
    };
    let dir = tempfile::tempdir_in(place).unwrap();
    let fake = Fake::new(dir.path(), 8).unwrap();
    for number in 0..WORKLOADS {
        fake.add(number, &name(number), 1000).unwrap();
    }
    // As a kernel has it: the tree is walked when this changes, and now and then.
    let count = format!("nr_descendants {}\n", WORKLOADS + 1);
    std::fs::write(dir.path().join("sys/fs/cgroup/cgroup.stat"), count).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| live(&fake, &stop));
        println!("{WORKLOADS} workloads, {} s each", MEASURED.as_secs());
        for interval in ["1s", "50ms"] {
            measure(
                dir.path(),
                &format!("every {interval}"),
                &["--interval", interval],
            );
            // A new one each time: what a killed writer leaves belongs to its file.
            let file = dir.path().join(format!("{interval}.weir"));
            let args = ["--interval", interval, "--record", file.to_str().unwrap()];
            measure(dir.path(), &format!("every {interval}, recorded"), &args);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
