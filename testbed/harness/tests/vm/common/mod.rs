// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests on a real kernel share: a guest with the driver and weir in it, and questions put
//! to it one after the other, because a boot is dear.
//!
//! A test that lacks something says so (`SKIP …` on stderr, past the test runner's capture) and is
//! counted there by the program that runs the tests; with `WEIR_VM_TESTS=required` lacking something is a
//! failure. A guest that does not boot is a failure always.
//!
//! Time is the guest's. Waiting has an end, so that a broken guest is noticed, and that end is far away.

pub mod both;
mod budgets;
pub mod evidence;
mod kernels;
mod lines;
pub mod nice_boost;
mod questions;
mod scheduler;
mod waiting;

pub use lines::{lines_more, newest, next_line, snapshots};
pub use questions::{Questions, ask_one};
pub use scheduler::{
    SET_POINT, STATE, ask_about_scheduler, both_are_limited, is_held,
    is_held_beside_ordinary_tasks, is_held_closely, kill_named, say_why, signal_named, state,
};
pub use waiting::{filled, has_processes, holds, is, last_line_says, max_is, said, says, until};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::guest_env::kernel_modules::{self, Driver};
use weir_testbed::guest_env::lock;
use weir_testbed::guest_env::{Environment, copy, hash_file};
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::protocol::Reply;
use weir_testbed::vm::{BootOptions, GuestFile, Vm, beside};

/// Where the driver's module lies in the guest.
pub const MODULE: &str = "/lib/weir_cxl.ko";
/// Where the cgroups of the workloads lie.
pub const SLICE: &str = "/sys/fs/cgroup/work.slice";
/// weir's JSON lines; what it says on stderr is beside, `.err`.
pub const LINES: &str = "/run/weir.jsonl";
/// Bytes read from the device's first group, from the driver.
pub const READ: &str = "/sys/class/weir_cxl/weir_cxl0/group0/read_bytes";
/// Size of a reader's file.
const READER_MIB: u64 = 16;
/// What `numa_maps` says of a file on the device: all of its pages are in a task's memory, or some.
pub const ALL: &str = "N1=4096 ";
pub const SOME: &str = "N1=";
/// weir's exit status, once it has ended.
pub const STATUS: &str = "/run/weir.status";
/// Places in which something was compiled.
static STAGES: AtomicU32 = AtomicU32::new(0);

pub struct Bench {
    pub env: Environment,
    driver: Option<Driver>,
    weir: PathBuf,
}

impl Bench {
    /// What tests need; nothing, said aloud, where it cannot be had.
    ///
    /// # Errors
    /// The environment or the driver does not build.
    pub fn ready(test: &str) -> Result<Option<Bench>> {
        let root = rustix::process::geteuid().is_root();
        let weir = beside("weir").and_then(|weir| beside("libweir_device_model.so").map(|_| weir));
        let weir = match (root, weir) {
            (true, Ok(weir)) => weir,
            (true, Err(lacking)) => return skip(test, &format!("{lacking:#}")),
            (false, _) => return skip(test, "booting guests needs root"),
        };
        let say = &mut |line: &str| println!("{line}");
        let env = Environment::ready(say)?;
        let driver = kernel_modules::build(&env, say)?;
        Ok(Some(Bench {
            env,
            driver: Some(driver),
            weir,
        }))
    }

    /// A guest with weir and, if there is one, the driver's module in it; the module is not loaded.
    ///
    /// # Errors
    /// It does not boot.
    pub fn boot(
        &self,
        machine: &TestbedMachine,
        more: Vec<GuestFile>,
        options: &BootOptions,
    ) -> Result<Vm> {
        let mut files = vec![GuestFile::new(&self.weir, "usr/local/bin/weir")];
        let module = |d: &Driver| GuestFile::new(&d.module, MODULE.trim_start_matches('/'));
        files.extend(self.driver.as_ref().map(module));
        files.extend(more);
        // A question that failed elsewhere was put to another guest, if one of these differs.
        for file in &files {
            println!("in the guest: {} {:016x}", file.to, hash_file(&file.from)?);
        }
        let vm = Vm::boot_with(&self.env, machine, &files, options)?;
        if let Ok(seed) = std::env::var("WEIR_VM_SEED") {
            another_run(&vm, seed.parse().context("WEIR_VM_SEED")?)?;
        }
        Ok(vm)
    }

    /// A guest of [`machine_with_a_device`] with weir, the driver's module and all test programs in it, which
    /// no module changes: one snapshot does for all of them.
    ///
    /// # Errors
    /// A program does not compile, or the guest does not boot.
    pub fn guest(&self) -> Result<Vm> {
        let mut files = Vec::new();
        for (name, define, to) in [
            ("scx", "FULL", "full"),
            ("scx", "PARTIAL", "partial"),
            ("fifo", "FIFO", "fifo"),
            ("nothing", "LEAST", "nothing"),
        ] {
            let object = self.bpf(name, define)?;
            files.push(GuestFile::new(object, &format!("tests/{to}.bpf.o")));
        }
        for name in ["dump", "faults", "threads"] {
            files.push(GuestFile::new(
                self.program(name)?,
                &format!("tests/{name}"),
            ));
        }
        self.boot(&machine_with_a_device(), files, &BootOptions::default())
    }

    /// perf, for [`Bench::boot`]. Not in every guest: with its libraries it is a third as large as
    /// all the rest.
    ///
    /// # Errors
    /// The environment has none.
    pub fn perf(&self) -> Result<Vec<GuestFile>> {
        let files = self.env.extra_program("usr/bin/perf")?;
        let root = self.env.root();
        let into_guest = |file: &String| GuestFile::new(root.join(file), file);
        Ok(files.iter().map(into_guest).collect())
    }

    /// Compiles `tests/guest/NAME.bpf.c` with `-D` for each define.
    ///
    /// # Errors
    /// The compiler's, with its output.
    pub fn bpf(&self, name: &str, define: &str) -> Result<PathBuf> {
        let compiler =
            format!("clang -O2 -g -target bpf -D{define} -I/usr/include/x86_64-linux-gnu -c");
        self.compile(
            &format!("{name}.bpf.c"),
            &compiler,
            &format!("{name}-{define}.bpf.o"),
        )
    }

    /// Compiles `tests/guest/NAME.c` to a program that needs no library.
    ///
    /// # Errors
    /// The compiler's, with its output.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        self.compile(&format!("{name}.c"), "gcc -O2 -Wall -static -pthread", name)
    }

    /// Compiles `tests/guest/SOURCE` with the environment's compiler and keeps the result as `kept`.
    fn compile(&self, source: &str, compiler: &str, kept: &str) -> Result<PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/guest")
            .join(source);
        let _lock = lock::hold(&self.env.build_dir().join(format!("{kept}.lock")))?;
        // Environments of several kernels have one root, and this process may compile for some of them at
        // once.
        let number = STAGES.fetch_add(1, Ordering::Relaxed);
        let stage = format!("tmp/weir-tests-{}-{number}", std::process::id());
        let inside = self.env.root().join(&stage);
        copy(&path, &inside.join(source))?;
        let made = self
            .env
            .chroot(&format!("cd /{stage} && {compiler} {source} -o out"));
        let object = self.env.build_dir().join(kept);
        let copied = made.and_then(|_| copy(&inside.join("out"), &object));
        std::fs::remove_dir_all(&inside)?;
        copied
            .with_context(|| format!("{source} does not compile"))
            .map(|()| object)
    }
}

/// Two guests of one build are equal, and the next build's are not: process numbers, addresses and the
/// moments of timers are others. This makes them others now, so that a verdict that hangs on them is found
/// before the next build finds it.
///
/// # Errors
/// The guest's.
fn another_run(vm: &Vm, seed: u32) -> Result<()> {
    let processes = seed * 7;
    vm.run(&format!(
        "echo {seed} > /dev/urandom; i=0; while [ $i -lt {processes} ]; do /bin/true; i=$((i+1)); done"
    ))
    .map(drop)
}

/// A test that cannot run says what is lacking.
///
/// # Errors
/// It must run.
pub fn skip<T>(test: &str, lacking: &str) -> Result<Option<T>> {
    let required = std::env::var("WEIR_VM_TESTS").is_ok_and(|v| v == "required");
    ensure!(!required, "{test}: {lacking}");
    // Not println: the runner would keep it to itself.
    writeln!(std::io::stderr(), "SKIP {test}: {lacking}")?;
    Ok(None)
}

/// Runs a command, whatever its exit status.
///
/// # Errors
/// The guest is gone.
pub fn attempt(vm: &Vm, shell: &str) -> Result<Reply> {
    vm.try_run(shell, Duration::from_secs(120))
}

/// Runs a command that must end with `status`; returns both outputs.
///
/// # Errors
/// It ended otherwise.
pub fn ends_with(vm: &Vm, status: i32, shell: &str) -> Result<String> {
    let reply = attempt(vm, shell)?;
    let said = format!("{}{}", reply.stdout, reply.stderr);
    ensure!(
        reply.status == Some(status),
        "{shell}: {:?}, not {status}:\n{said}",
        reply.status
    );
    Ok(said)
}

/// The output of a command that prints JSON and succeeds.
///
/// # Errors
/// It fails, or prints something else.
pub fn json(vm: &Vm, shell: &str) -> Result<Value> {
    let text = vm.run(shell)?;
    serde_json::from_str(&text).with_context(|| format!("{shell} printed no JSON: {text}"))
}

/// Starts weir in a cgroup of its own and returns its process id. Its exit status will stand in
/// [`STATUS`].
///
/// # Errors
/// The guest's.
pub fn start_weir(vm: &Vm, arguments: &str) -> Result<u32> {
    let pid = vm.run(&format!(
        "mkdir -p /sys/fs/cgroup/weir.service; rm -f {STATUS} /run/weir.pid
         : > {LINES}; : > {LINES}.err
         sh -c 'echo $$ > /sys/fs/cgroup/weir.service/cgroup.procs
                weir run --json {arguments} > {LINES} 2> {LINES}.err & echo $! > /run/weir.pid
                wait $!; echo $? > {STATUS}' > /dev/null 2>&1 < /dev/null &
         while ! [ -s /run/weir.pid ]; do sleep 0.05; done; cat /run/weir.pid"
    ))?;
    pid.trim()
        .parse()
        .with_context(|| format!("no process id: '{pid}'"))
}

/// The same while the workloads of [`SLICE`] stand and the device model is off: to load a scheduler takes a
/// program half a milliard instructions, which are slow and dear under the model. The workloads go on, and
/// the model, once weir is up.
///
/// # Errors
/// The guest's.
pub fn load_weir(vm: &Vm, arguments: &str) -> Result<u32> {
    aside(vm, || {
        let pid = start_weir(vm, arguments)?;
        until(vm, Condition::Any(vec![filled(LINES), filled(STATUS)]))?;
        Ok(pid)
    })
}

/// Does something while the workloads of [`SLICE`] stand, as fast as the guest booted: the time it takes
/// matters to no question, and the device model would make it long and dear.
///
/// # Errors
/// The guest's, or what was done.
pub fn aside<T>(vm: &Vm, what: impl FnOnce() -> Result<T>) -> Result<T> {
    let freeze = |word: u8| {
        vm.run(&format!(
            "mkdir -p {SLICE}; echo {word} > {SLICE}/cgroup.freeze"
        ))?;
        until(
            vm,
            says(&format!("{SLICE}/cgroup.events"), &format!("frozen {word}")),
        )
    };
    freeze(1)?;
    let done = hurried(vm, what);
    freeze(0)?;
    done
}

/// Sends a signal to weir, waits for its end and returns its exit status, as a shell gives it.
///
/// # Errors
/// It does not end.
pub fn signal_weir(vm: &Vm, pid: u32, signal: &str) -> Result<i32> {
    vm.run(&format!("kill -{signal} {pid}"))?;
    until(vm, filled(STATUS))?;
    let status = vm.run(&format!("cat {STATUS}"))?;
    status
        .trim()
        .parse()
        .with_context(|| format!("no exit status: '{status}'"))
}

/// Pages of a process by node, from the kernel: `N3=` of all its anonymous memory. Where a file is
/// mapped, its pages are counted in with the private ones, and they belong to all processes.
///
/// # Errors
/// The process is gone.
pub fn pages(vm: &Vm, pid: &str, node: u32) -> Result<u64> {
    let text = vm.run(&format!("cat /proc/{pid}/numa_maps"))?;
    let key = format!("N{node}=");
    let anonymous = text
        .lines()
        .filter(|l| l.contains(" anon=") && !l.contains(" file="));
    let counts = anonymous
        .flat_map(str::split_whitespace)
        .filter_map(|w| w.strip_prefix(&key));
    Ok(counts.filter_map(|n| n.parse::<u64>().ok()).sum())
}

/// Makes the slice and, in it, the cgroup of one workload.
///
/// # Errors
/// The guest's.
pub fn make_cgroup(vm: &Vm, name: &str) -> Result<String> {
    let path = format!("{SLICE}/{name}.service");
    vm.run(&format!(
        "mkdir -p {SLICE}; echo '+cpu +memory' > {SLICE}/cgroup.subtree_control; mkdir -p {path}"
    ))?;
    Ok(path)
}

/// Ends everything in a cgroup, now.
///
/// # Errors
/// The guest's.
pub fn empty_cgroup(vm: &Vm, path: &str) -> Result<()> {
    vm.run(&format!("echo 1 > {path}/cgroup.kill"))?;
    // Not its processes: a dying one is gone from that list before the cgroup may be removed.
    until(vm, says(&format!("{path}/cgroup.events"), "populated 0"))
}

/// Starts `command` inside the cgroup at `path`; its process.
///
/// # Errors
/// The guest's.
pub fn start_in(vm: &Vm, path: &str, command: &str) -> Result<u32> {
    let pid = vm.run(&format!(
        "sh -c 'echo $$ > {path}/cgroup.procs; exec {command}' > /run/out.txt 2>&1 < /dev/null & echo $!"
    ))?;
    pid.trim()
        .parse()
        .with_context(|| format!("no process id: '{pid}'"))
}

/// Mounts group 0's node as a file system at `/cxl0`.
///
/// # Errors
/// The guest's.
pub fn mount_group(vm: &Vm) -> Result<()> {
    vm.run("mkdir -p /cxl0 && mount -t tmpfs -o size=100%,mpol=bind:1 cxl /cxl0")
        .map(drop)
}

/// Starts readers that take all they can get from the device, each in a cgroup of its own, and waits until
/// they read. The guest is hurried meanwhile: under the device model a program's start takes ten seconds.
///
/// # Errors
/// The guest's.
pub fn start_readers(vm: &Vm, names: &[&str]) -> Result<()> {
    let command = |name: &str| {
        format!(
            "fio --name={name} --filename=/cxl0/{name} --thread --ioengine=mmap --rw=randread \
             --bs=256k --size=16m --time_based --runtime=3600 --norandommap --disk_util=0"
        )
    };
    let each: Vec<_> = names.iter().map(|name| (*name, command(name))).collect();
    start_on_device(vm, &each, ALL)
}

/// Starts these commands, each in the cgroup of its name, on a file of that name on the device, and waits
/// until each of them has touched its file: [`SOME`] of its pages, or [`ALL`].
///
/// # Errors
/// The guest's.
pub fn start_on_device(vm: &Vm, commands: &[(&str, String)], touched: &str) -> Result<()> {
    hurried(vm, || {
        let mut begun = Vec::new();
        for (name, command) in commands {
            let path = make_cgroup(vm, name)?;
            vm.run(&format!(
                "dd if=/dev/zero of=/cxl0/{name} bs=1M count={READER_MIB} 2> /dev/null"
            ))?;
            begun.push((*name, start_in(vm, &path, command)?));
        }
        for (name, pid) in begun {
            let pattern = format!("file=/cxl0/{name} *{touched}");
            until(vm, says(&format!("/proc/{pid}/numa_maps"), &pattern))?;
        }
        Ok(())
    })
}

/// Does something as fast as the guest booted, if the device model is on.
///
/// # Errors
/// The guest's, or what was done.
pub fn hurried<T>(vm: &Vm, what: impl FnOnce() -> Result<T>) -> Result<T> {
    if !vm.is_model_on() {
        return what();
    }
    vm.hurry();
    let done = what();
    vm.switch_model_on()?;
    done
}

/// Stops the readers `a` and `b` where they are, or lets them go on.
///
/// # Errors
/// The guest's.
pub fn freeze(vm: &Vm, is_frozen: bool) -> Result<()> {
    for name in ["a", "b"] {
        let dir = format!("{SLICE}/{name}.service");
        let word = u8::from(is_frozen);
        vm.run(&format!("echo {word} > {dir}/cgroup.freeze"))?;
        until(
            vm,
            says(&format!("{dir}/cgroup.events"), &format!("frozen {word}")),
        )?;
    }
    Ok(())
}

/// A machine with a device that two readers fill many times over what [`SET_POINT`] allows. Its CPUs are
/// slow, and so cheap to emulate while they are busy, from the first time on that the device model is on:
/// until then an instruction takes a nanosecond.
pub fn machine_with_a_device() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128],
        cache_lines: 4096,
        instruction_ps: 40_000,
        ..TestbedMachine::default()
    }
}

/// Bytes a second that the device's first group moves for reads, by the ground truth, over so many seconds
/// from now. The guest handles no request meanwhile, and so is not disturbed.
///
/// # Errors
/// The guest is gone.
pub fn bytes_per_sec(vm: &Vm, sec: u64) -> Result<f64> {
    let lines = || vm.ground_truth().group(0).read_lines as f64;
    let (before, begun) = (lines(), vm.now());
    vm.sleep(Duration::from_secs(sec))?;
    Ok((lines() - before) * 64.0 / (vm.now() - begun).as_secs_f64())
}
