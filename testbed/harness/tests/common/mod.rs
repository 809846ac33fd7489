// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests on a real kernel share: a guest with the driver and weir in it, and questions put
//! to it one after the other, because a boot is dear.
//!
//! A test that lacks something says so (`SKIP …` on stderr, past the test runner's capture) and is
//! counted there by whoever runs the tests; with `WEIR_VM_TESTS=required` lacking something is a
//! failure. A guest that does not boot is a failure always.
//!
//! Nothing here judges time: waiting has an end, so that a broken guest is noticed, and that end is
//! far away.
#![allow(dead_code, reason = "each test file uses its part of this")]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_testbed::driver::{self, Driver};
use weir_testbed::env::{Environment, copy};
use weir_testbed::machine::Machine;
use weir_testbed::protocol::Reply;
use weir_testbed::vm::{BootOptions, GuestFile, Vm, beside};

/// Where the driver's module lies in the guest.
pub const MODULE: &str = "/lib/weir_cxl.ko";
/// Where the cgroups of the workloads lie.
pub const SLICE: &str = "/sys/fs/cgroup/work.slice";
/// weir's JSON lines; what it says on stderr is beside, `.err`.
pub const LINES: &str = "/run/weir.jsonl";
/// weir's exit status, once it has ended.
pub const STATUS: &str = "/run/weir.status";
/// How often a condition is looked at before nobody waits any more: a minute, and several on a busy
/// host.
const LOOKS: u32 = 600;
/// Far longer than that.
const PATIENCE: Duration = Duration::from_secs(600);

/// What is there to boot.
pub struct Bench {
    /// Kernel, QEMU, programs.
    pub env: Environment,
    /// The counter driver of this checkout.
    pub driver: Driver,
    weir: PathBuf,
}

impl Bench {
    /// What tests need; nothing, said aloud, where it cannot be had.
    ///
    /// # Errors
    /// The environment or the driver does not build.
    pub fn ready(test: &str) -> Result<Option<Bench>> {
        let root = rustix::process::geteuid().is_root();
        let weir = beside("weir").and_then(|weir| beside("libweir_plugin.so").map(|_| weir));
        let weir = match (root, weir) {
            (true, Ok(weir)) => weir,
            (true, Err(lacking)) => return skip(test, &format!("{lacking:#}")),
            (false, _) => return skip(test, "booting guests needs root"),
        };
        let say = &mut |line: &str| println!("{line}");
        let env = Environment::ready(say)?;
        let driver = driver::build(&env, say)?;
        Ok(Some(Bench { env, driver, weir }))
    }

    /// A guest with weir and the driver's module in it; the module is not loaded.
    ///
    /// # Errors
    /// It does not boot.
    pub fn boot(
        &self,
        machine: &Machine,
        more: Vec<GuestFile>,
        options: &BootOptions,
    ) -> Result<Vm> {
        let mut files = vec![
            GuestFile::new(&self.weir, "usr/local/bin/weir"),
            GuestFile::new(&self.driver.module, MODULE.trim_start_matches('/')),
        ];
        files.extend(more);
        Vm::boot_with(&self.env, machine, &files, options)
    }

    /// Compiles `tests/guest/NAME.bpf.c` with `-D` for each define.
    ///
    /// # Errors
    /// The compiler's, with its output.
    pub fn bpf(&self, name: &str, define: &str) -> Result<PathBuf> {
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/guest/{name}.bpf.c"));
        let stage = format!("tmp/weir-tests-{}-{name}-{define}", std::process::id());
        let inside = self.env.root().join(&stage);
        copy(&source, &inside.join("in.bpf.c"))?;
        let made = self.env.chroot(&format!(
            "cd /{stage} && clang -O2 -g -target bpf -D{define} -I/usr/include/x86_64-linux-gnu \
             -c in.bpf.c -o out.bpf.o"
        ));
        let object = self.env.build_dir().join(format!("{name}-{define}.bpf.o"));
        let kept = made.and_then(|_| copy(&inside.join("out.bpf.o"), &object));
        std::fs::remove_dir_all(&inside)?;
        kept.with_context(|| format!("{name}.bpf.c does not compile"))
            .map(|()| object)
    }
}

fn skip<T>(test: &str, lacking: &str) -> Result<Option<T>> {
    let required = std::env::var("WEIR_VM_TESTS").is_ok_and(|v| v == "required");
    ensure!(!required, "{test}: {lacking}");
    // Not println: the runner would keep it to itself.
    writeln!(std::io::stderr(), "SKIP {test}: {lacking}")?;
    Ok(None)
}

/// Questions put to one guest; one that fails does not hide the next. With `WEIR_VM_ASK=part of a
/// name` only some are asked.
#[derive(Default)]
pub struct Questions {
    asked: usize,
    failed: Vec<String>,
}

impl Questions {
    /// Asks one.
    pub fn ask(&mut self, name: &str, question: impl FnOnce() -> Result<()>) {
        if std::env::var("WEIR_VM_ASK").is_ok_and(|part| !name.contains(&part)) {
            return println!("not asked - {name}");
        }
        self.asked += 1;
        let answer = catch_unwind(AssertUnwindSafe(question));
        match answer.unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))) {
            Ok(()) => println!("ok - {name}"),
            Err(why) => {
                println!("not ok - {name}\n{why:#}");
                self.failed.push(name.to_owned());
            }
        }
    }

    /// The verdict.
    ///
    /// # Errors
    /// One failed: with its name.
    pub fn done(self) -> Result<()> {
        ensure!(self.asked > 0, "nothing was asked");
        ensure!(self.failed.is_empty(), "failed: {}", self.failed.join("; "));
        Ok(())
    }
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

/// Waits until a condition holds in the guest.
///
/// # Errors
/// It never does: with weir's last words.
pub fn until(vm: &Vm, condition: &str) -> Result<()> {
    let script = format!(
        "for i in $(seq {LOOKS}); do {{ {condition}; }} && exit 0; sleep 0.1; done; exit 1"
    );
    let reply = vm.try_run(&script, PATIENCE)?;
    if reply.status != Some(0) {
        let log = format!("tail -n 20 {LINES}.err; tail -n 1 {LINES}; ps ax; cat /run/out.txt");
        let log = attempt(vm, &log)?.stdout;
        anyhow::bail!(
            "it never came to this: {condition}\n{}\nthe last words: {log}",
            reply.stderr
        );
    }
    Ok(())
}

/// Starts weir in a cgroup of its own and returns its process id. Its exit status will stand in
/// [`STATUS`].
///
/// # Errors
/// The guest's.
pub fn start_weir(vm: &Vm, arguments: &str) -> Result<u32> {
    let pid = vm.run(&format!(
        "mkdir -p /sys/fs/cgroup/weir.service; rm -f {STATUS} /run/weir.pid
         sh -c 'echo $$ > /sys/fs/cgroup/weir.service/cgroup.procs
                weir run --json {arguments} > {LINES} 2> {LINES}.err & echo $! > /run/weir.pid
                wait $!; echo $? > {STATUS}' > /dev/null 2>&1 < /dev/null &
         while ! [ -s /run/weir.pid ]; do sleep 0.05; done; cat /run/weir.pid"
    ))?;
    pid.trim()
        .parse()
        .with_context(|| format!("no process id: '{pid}'"))
}

/// Waits until weir has written its next line, so that it has seen what is now.
///
/// # Errors
/// It does not.
pub fn next_line(vm: &Vm) -> Result<()> {
    // Two more: the tick under way when this began may have looked already.
    let lines = vm.run(&format!("wc -l < {LINES}"))?;
    let wanted = lines.trim().parse::<u64>()? + 2;
    until(vm, &format!("[ $(wc -l < {LINES}) -ge {wanted} ]"))
}

/// Sends a signal to weir, waits for its end and returns its exit status, as a shell tells it.
///
/// # Errors
/// It does not end.
pub fn signal_weir(vm: &Vm, pid: u32, signal: &str) -> Result<i32> {
    vm.run(&format!("kill -{signal} {pid}"))?;
    until(vm, &format!("[ -s {STATUS} ]"))?;
    let status = vm.run(&format!("cat {STATUS}"))?;
    status
        .trim()
        .parse()
        .with_context(|| format!("no exit status: '{status}'"))
}

/// weir's snapshots so far. The last line may be half written.
///
/// # Errors
/// There is none.
pub fn snapshots(vm: &Vm) -> Result<Vec<Value>> {
    let text = vm.run(&format!("cat {LINES}"))?;
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect();
    if lines.is_empty() {
        let said = vm.run(&format!("cat {LINES}.err"))?;
        anyhow::bail!("weir wrote no line, but said: {said}");
    }
    Ok(lines)
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
    until(vm, &format!("! grep -q . {path}/cgroup.procs"))
}

/// Starts `command` inside the cgroup at `path`.
///
/// # Errors
/// The guest's.
pub fn start_in(vm: &Vm, path: &str, command: &str) -> Result<()> {
    vm.run(&format!(
        "sh -c 'echo $$ > {path}/cgroup.procs; exec {command}' > /run/out.txt 2>&1 < /dev/null &"
    ))
    .map(drop)
}

/// Mounts group 0's node as a file system at `/cxl0`.
///
/// # Errors
/// The guest's.
pub fn mount_group(vm: &Vm) -> Result<()> {
    vm.run("mkdir -p /cxl0 && mount -t tmpfs -o size=100%,mpol=bind:1 cxl /cxl0")
        .map(drop)
}

/// Starts a reader that takes all it can get from the device, in a cgroup of its own, and returns
/// that cgroup's path.
///
/// # Errors
/// The guest's.
pub fn start_reader(vm: &Vm, name: &str) -> Result<String> {
    let path = make_cgroup(vm, name)?;
    vm.run(&format!(
        "dd if=/dev/zero of=/cxl0/{name} bs=1M count=16 2> /dev/null"
    ))?;
    let fio = format!(
        "fio --name={name} --filename=/cxl0/{name} --thread --ioengine=mmap --rw=randread \
         --bs=256k --size=16m --time_based --runtime=3600 --norandommap --disk_util=0"
    );
    start_in(vm, &path, &fio)?;
    Ok(path)
}

/// A machine whose device two readers fill many times over what [`SET_POINT`] allows.
pub fn machine_with_a_device() -> Machine {
    Machine {
        cpu_count: 3,
        dram_mib: 512,
        groups_mib: vec![128],
        cache_lines: 4096,
        instruction_ps: 10_000,
        ..Machine::default()
    }
}

/// A twelfth of the device's capacity.
pub const SET_POINT: &str = "8MiB/s";
