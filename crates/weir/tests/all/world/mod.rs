// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine made of files with a plant that lives: readers use CPU as far as `cpu.max` lets them,
//! and move bytes on the device in proportion. The real `weir` binary runs over it.
//!
//! Shortcuts: no ticks of a scheduler, no stalls (bandwidth is CPU × intensity, without a knee), a
//! write of `cpu.max` acts at once and refills nothing. It tests the command, not the controller.

pub mod desk;
#[path = "../../../../weir-lab/src/bench/fake_host.rs"]
mod fake_host;
pub mod manager;
pub mod server;

use fake_host::FakeHost;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub const MIB: f64 = 1_048_576.0;
pub const HEAVY: [&str; 3] = [
    "/system.slice/heavy-a.service",
    "/system.slice/heavy-b.service",
    "/batch.slice/heavy-c",
];
pub const LIGHT: &str = "/system.slice/light.service";
/// Where there is one: as heavy as the others, on a second device.
pub const LATE: &str = "/system.slice/late.service";

/// As long as the path of a cgroup gets (4096 bytes) with what lies above and below it, of names as long as
/// they get.
pub fn long_name() -> String {
    let name = "\n".to_owned() + &"é".repeat(127);
    format!("/{}", [name.as_str(); 15].join("/"))
}

/// Each reader's bytes per CPU-second.
pub const INTENSITY: f64 = 400.0 * MIB;
const HEAVY_CPUS: f64 = 1.0;
const LIGHT_CPUS: f64 = 0.05;

/// Only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(600);

pub struct World {
    dir: tempfile::TempDir,
    plant: Arc<Plant>,
    thread: Option<JoinHandle<()>>,
}

/// In memory where that can be: the plant writes its files at each turn, and weir flushes its own.
pub fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    dir.unwrap()
}

/// What the plant and its machine share.
#[derive(Default)]
struct Plant {
    stop: AtomicBool,
    broken: AtomicBool,
    /// Moved on the device so far.
    bytes: AtomicU64,
    /// What the counter of reads shows on top: nonsense.
    jump: AtomicU64,
    /// The holder changes files.
    turn: Mutex<()>,
}

impl Plant {
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Reader {
    cgroup: String,
    device: usize,
    wants_cpus: f64,
    cpu_usec: f64,
    throttled_usec: f64,
}

impl World {
    /// Three heavy readers and a light one: 1220 MiB/s in all without limits.
    pub fn new() -> World {
        Self::with(&[])
    }

    /// A world with more heavy readers of these names.
    pub fn with(more: &[&str]) -> World {
        Self::made(folder(), more, false)
    }

    /// A world with [`LATE`]. Its node and device are not there until they come.
    pub fn with_late() -> World {
        let world = Self::made(folder(), &[LATE], true);
        let pid = fs::read_to_string(world.path(&format!("sys/fs/cgroup{LATE}/cgroup.procs")));
        let maps =
            "7f0000000000 bind:2 file=/dev/shm/data mapped=10000 N2=10000 kernelpagesize_kB=4\n";
        let pid = pid.unwrap();
        world.write(&format!("proc/{}/numa_maps", pid.trim()), maps);
        world
    }

    /// Below no directory of a system, as `/dev` is one.
    pub fn on_disk(more: &[&str]) -> World {
        Self::made(tempfile::tempdir().unwrap(), more, false)
    }

    fn made(dir: tempfile::TempDir, more: &[&str], is_late: bool) -> World {
        let fake = FakeHost::new(dir.path(), 8).unwrap();
        let mut readers = Vec::new();
        let heavy = HEAVY.iter().chain(more).map(|name| (*name, HEAVY_CPUS));
        for (number, (name, cpus)) in heavy.chain([(LIGHT, LIGHT_CPUS)]).enumerate() {
            // All their memory is there, so that the estimate by CPU × memory is right.
            fake.add(number, name, 10_000).unwrap();
            readers.push(Reader {
                cgroup: name.to_owned(),
                device: usize::from(is_late && name == LATE),
                wants_cpus: cpus,
                cpu_usec: 0.0,
                throttled_usec: 0.0,
            });
        }
        let plant = Arc::new(Plant::default());
        let its = Arc::clone(&plant);
        let thread = thread::spawn(move || live(&fake, readers, &its));
        World {
            dir,
            plant,
            thread: Some(thread),
        }
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative.trim_start_matches('/'))
    }

    pub fn cpu_max(&self, cgroup: &str) -> String {
        let path = self.path(&format!("sys/fs/cgroup{cgroup}/cpu.max"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    pub fn set_cpu_max(&self, cgroup: &str, text: &str) {
        fs::write(self.path(&format!("sys/fs/cgroup{cgroup}/cpu.max")), text).unwrap();
    }

    /// Every file of the cgroup tree that weir could write, with its content and time of change.
    pub fn limits(&self) -> Vec<(PathBuf, String, std::time::SystemTime)> {
        let mut found = Vec::new();
        let mut dirs = vec![self.path("sys/fs/cgroup")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else if !path.ends_with("cpu.stat") {
                    let changed = path.metadata().unwrap().modified().unwrap();
                    found.push((path.clone(), fs::read_to_string(path).unwrap(), changed));
                }
            }
        }
        found.sort();
        found
    }

    /// While true the counter file holds nonsense.
    pub fn break_counters(&self, broken: bool) {
        self.plant.broken.store(broken, Ordering::Relaxed);
    }

    /// From now on the counter of reads shows so much more than there was.
    pub fn jump_counters(&self, bytes: u64) {
        self.plant.jump.store(bytes, Ordering::Relaxed);
    }

    /// What the readers have moved on the device so far.
    pub fn moved_bytes(&self) -> f64 {
        self.plant.bytes.load(Ordering::Acquire) as f64
    }

    /// Takes a directory out of the machine, between two turns of its plant: a file that is written anew
    /// meanwhile would keep its directory from going.
    pub fn take_away(&self, relative: &str) {
        let _turn = self.plant.turn();
        fs::remove_dir_all(self.path(relative)).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .arg("--root")
            .arg(self.dir.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Writes a file of the machine.
    pub fn write(&self, relative: &str, text: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Node 2 comes online.
    pub fn node_comes(&self) {
        let meminfo = "Node 2 MemTotal: 524288 kB\n";
        self.write("sys/devices/system/node/node2/meminfo", meminfo);
        self.write("sys/devices/system/node/has_memory", "0-2\n");
    }

    /// The second device's driver comes.
    pub fn counters_come(&self) {
        let dir = "sys/class/weir_cxl/weir_cxl1";
        for (name, text) in [
            ("group0/node", "2\n"),
            ("group0/base", "0x200000000\n"),
            ("group0/size_bytes", "536870912\n"),
            ("group_count", "1\n"),
            ("counters", &"\0".repeat(16)),
        ] {
            self.write(&format!("{dir}/{name}"), text);
        }
    }

    /// The second device goes, with its node.
    pub fn device_goes(&self) {
        self.take_away("sys/class/weir_cxl/weir_cxl1");
        self.write("sys/devices/system/node/has_memory", "0-1\n");
        self.take_away("sys/devices/system/node/node2");
    }

    /// Runs to the end.
    pub fn weir(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Starts a daemon, and keeps its output for later.
    pub fn start(&self, args: &[&str]) -> Daemon {
        let mut command = self.command(args);
        Daemon::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Limits at a quarter of what the readers want.
    pub fn start_limiting(&self) -> Daemon {
        let daemon = self.start(&["run", "--limit", "--set-point", "300MiB/s", "--json"]);
        self.wait("a heavy reader is limited", || {
            self.cpu_max(HEAVY[0]) != "max 100000"
        });
        daemon
    }

    pub fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        wait(what, &mut until);
    }

    /// What the running weir publishes; nothing before it does.
    pub fn snapshot(&self) -> Value {
        let text = fs::read_to_string(self.path("run/weir/snapshot.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The number of its last published tick.
    pub fn seq(&self) -> Option<u64> {
        self.snapshot()["plan"]["seq"].as_u64()
    }

    /// Waits for `count` more ticks.
    pub fn wait_for_ticks(&self, count: u64) {
        let from = self.seq().unwrap_or(0);
        self.wait("more ticks", || {
            self.seq().is_some_and(|seq| seq >= from + count)
        });
    }

    /// Starts a daemon, ends it after `count` ticks, and returns what it printed.
    pub fn weir_for_ticks(&self, count: u64, args: &[&str]) -> Ended {
        let daemon = self.start(args);
        self.wait_for_ticks(count);
        daemon.signal(rustix::process::Signal::TERM);
        let ended = daemon.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended
    }
}

pub fn wait(what: &str, until: &mut dyn FnMut() -> bool) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.plant.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live(fake: &FakeHost, mut readers: Vec<Reader>, plant: &Plant) {
    let mut moved = [0.0; 2];
    let mut last = Instant::now();
    let mut was_broken = false;
    while !plant.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(2));
        let _turn = plant.turn();
        let now = Instant::now();
        let usec = (now - std::mem::replace(&mut last, now)).as_secs_f64() * 1e6;
        for reader in &mut readers {
            let Some(limit) = limit_cpus(fake, &reader.cgroup) else {
                continue;
            };
            let cpus = reader.wants_cpus.min(limit);
            reader.cpu_usec += cpus * usec;
            reader.throttled_usec += (reader.wants_cpus - cpus) * usec;
            moved[reader.device] += cpus * usec / 1e6 * INTENSITY;
            // A cgroup that has gone is part of some tests.
            let _ = fake.set_cpu(
                &reader.cgroup,
                reader.cpu_usec as u64,
                reader.throttled_usec as u64,
            );
        }
        let [bytes, later] = moved;
        count_later(fake, later as u64);
        let counters = fake.path("sys/class/weir_cxl/weir_cxl0/counters");
        let is_broken = plant.broken.load(Ordering::Relaxed);
        if is_broken && !was_broken {
            fs::OpenOptions::new()
                .write(true)
                .open(&counters)
                .unwrap()
                .set_len(3)
                .unwrap();
        }
        if !is_broken {
            // A quarter of the traffic is writes.
            let jump = plant.jump.load(Ordering::Relaxed);
            // A device that has gone is part of some tests.
            let _ = fake.set_counters((bytes * 0.75) as u64 + jump, (bytes * 0.25) as u64);
        }
        plant.bytes.store(bytes as u64, Ordering::Release);
        was_broken = is_broken;
    }
}

/// The second device counts, where it is there: reads alone.
fn count_later(fake: &FakeHost, bytes: u64) {
    let path = fake.path("sys/class/weir_cxl/weir_cxl1/counters");
    if let Ok(file) = fs::OpenOptions::new().write(true).open(path) {
        file.write_all_at(&bytes.to_ne_bytes(), 0).unwrap();
    }
}

fn limit_cpus(fake: &FakeHost, cgroup: &str) -> Option<f64> {
    let text = fs::read_to_string(fake.path(&format!("sys/fs/cgroup{cgroup}/cpu.max"))).ok()?;
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next()?, words.next()?);
    if quota == "max" {
        return Some(f64::INFINITY);
    }
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

pub struct Daemon {
    pub child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Daemon {
    pub fn start(command: &mut Command) -> Daemon {
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().map(drain);
        let err = child.stderr.take().map(drain);
        Daemon { child, out, err }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ended {
        let mut status = None;
        wait("weir ends", &mut || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let text = |thread: Option<JoinHandle<String>>| {
            thread.map(|t| t.join().unwrap()).unwrap_or_default()
        };
        Ended {
            code: status.and_then(|status| status.code()),
            stdout: text(self.out.take()),
            stderr: text(self.err.take()),
        }
    }
}

/// A test that fails must not leave a daemon behind.
impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
