// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads in the guest: each in a leaf cgroup of its own below `work.slice`, as a service manager
//! would put them; started together, stopped together; their files on a tmpfs bound to the node of
//! their group.

use crate::live::fio::{Block, parse_log};
use crate::vm::Vm;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_ipc::core_fills;
use weir_scenario::testbed::Load;
use weir_scenario::{Role, TestbedScenario};

/// The cgroup all workloads lie below.
pub const SLICE: &str = "/sys/fs/cgroup/work.slice";
/// Where logs are kept in the guest.
const LOGS: &str = "/run/work";
/// Readers end on a signal; this only keeps a forgotten one from running for ever.
const READER_LIFE_SEC: u64 = 600;

#[derive(Clone, Debug)]
pub struct Instance {
    /// Its name: cgroup, file and log are called so.
    pub name: String,
    pub role: Role,
    pub load: Load,
    /// Its `cpu.weight`.
    pub weight: u32,
    /// Its number in the ground truth's owner map; 0 for one without device memory.
    pub owner: u8,
}

impl Instance {
    /// Its cgroup below the cgroup root, as weir names it.
    pub fn cgroup(&self) -> String {
        format!("/work.slice/{}.service", self.name)
    }

    fn file(&self) -> Option<String> {
        match &self.load {
            Load::Fio { group, .. } => Some(format!("/cxl{group}/{}", self.name)),
            Load::StressNg { .. } => None,
        }
    }

    fn command(&self, seed: u64, run_sec: u64) -> String {
        let log = format!("{LOGS}/{}", self.name);
        match &self.load {
            Load::Fio {
                rw,
                file_mib,
                block_kib,
                think_us,
                burst_blocks,
                pause_ms,
                rate_iops,
                realtime,
                ..
            } => {
                let file = self.file().unwrap_or_default();
                let mut line = String::new();
                if *realtime {
                    line += "chrt --rr 1 ";
                }
                line += &format!(
                    "fio --name={name} --filename={file} --thread --ioengine=mmap --rw={rw} \
                     --bs={block_kib}k --size={file_mib}m --time_based --runtime={run_sec} \
                     --norandommap --randseed={seed} --write_lat_log={log} --log_unix_epoch=1 \
                     --disable_slat=1 --disable_clat=1 --clocksource=clock_gettime --disk_util=0 \
                     --output-format=json --output={log}.json",
                    name = self.name,
                    seed = seed * 1000 + u64::from(self.owner),
                );
                if *think_us > 0 {
                    line += &format!(" --thinktime={think_us} --thinktime_spin={think_us}");
                }
                if *burst_blocks > 0 {
                    let pause_us = pause_ms * 1000;
                    line += &format!(" --thinktime={pause_us} --thinktime_blocks={burst_blocks}");
                }
                if *rate_iops > 0 {
                    line += &format!(" --rate_iops={rate_iops}");
                }
                line
            }
            Load::StressNg { workers, method } => format!(
                "stress-ng --cpu {workers} --cpu-method {method} --timeout {run_sec}s \
                 --metrics-brief --yaml {log}.yaml --seed {seed}"
            ),
        }
    }
}

/// The instances of a scenario, numbered in its order.
pub fn instances(scenario: &TestbedScenario) -> Vec<Instance> {
    let mut all = Vec::new();
    let mut owner = 0;
    for workload in &scenario.workloads {
        for i in 1..=workload.count {
            let has_file = matches!(workload.load, Load::Fio { .. });
            owner += u8::from(has_file);
            let name = match workload.count {
                1 => workload.name.clone(),
                _ => format!("{}{i}", workload.name),
            };
            let owner = if has_file { owner } else { 0 };
            let load = workload.load.clone();
            let (role, weight) = (workload.role, workload.weight);
            all.push(Instance {
                name,
                role,
                load,
                weight,
                owner,
            });
        }
    }
    all
}

/// Makes files and cgroups, and writes the owners of pages into the ground truth. Once per guest, model off.
///
/// # Errors
/// The guest's.
pub fn prepare(vm: &Vm, instances: &[Instance]) -> Result<()> {
    for group in 0..vm.machine.groups_mib.len() {
        let node = group + 1;
        vm.run(&format!(
            "mkdir -p /cxl{group} && mount -t tmpfs -o size=100%,mpol=bind:{node} cxl /cxl{group}"
        ))?;
    }
    // The harness's own agent must not wait behind the load it measures.
    vm.run("echo 10000 > /sys/fs/cgroup/testbed.slice/cpu.weight")?;
    vm.run(&format!(
        "mkdir -p {SLICE} && echo '+cpu +memory' > {SLICE}/cgroup.subtree_control"
    ))?;
    for instance in instances {
        let (cgroup, weight) = (instance.cgroup(), instance.weight);
        vm.run(&format!(
            "mkdir -p /sys/fs/cgroup{cgroup} && echo {weight} > /sys/fs/cgroup{cgroup}/cpu.weight"
        ))?;
        let (Some(file), Load::Fio { file_mib, .. }) = (instance.file(), &instance.load) else {
            continue;
        };
        vm.run(&format!(
            "dd if=/dev/zero of={file} bs=1M count={file_mib} 2>/dev/null"
        ))?;
        own_pages(vm, &file, instance.owner)?;
    }
    Ok(())
}

/// Load the module that makes an event of perf of what each CPU fills from the device.
///
/// # Errors
/// The guest's: the machine is not one with `core_events`, or the CPU has a PMU of its own.
pub fn load_core(vm: &Vm) -> Result<()> {
    let (at, stride) = (core_fills::OFFSET_BYTES, core_fills::STRIDE_BYTES);
    vm.run(&format!(
        "insmod /lib/weir_guest_pmu.ko offset_bytes={at} stride_bytes={stride}"
    ))
    .context("the emulated CPU's event does not load")
    .map(drop)
}

/// Write to the ground truth that a file's pages belong to `owner`: a number of the caller's, above 0.
///
/// # Errors
/// The guest's, or a page outside device memory.
pub fn own_pages(vm: &Vm, file: &str, owner: u8) -> Result<()> {
    let text = vm.run(&format!("weir-agent pages {file}"))?;
    let base = vm.machine.device_base_bytes();
    let end = base + vm.machine.device_bytes();
    for run in text.lines() {
        let (first, last) = run
            .split_once('-')
            .with_context(|| format!("pages: '{run}'"))?;
        let first = u64::from_str_radix(first, 16)?;
        let last = u64::from_str_radix(last, 16)?;
        if first < base || last >= end {
            bail!("{file} has pages outside device memory: {run}");
        }
        for address in (first..=last).step_by(4096) {
            vm.ground_truth().set_owner(address - base, owner);
        }
    }
    Ok(())
}

/// Start the readers and writers and wait until each of them moves data. Starting takes a program a
/// CPU-second of an emulated CPU, so no workload is limited and nothing runs beside until then. Logs of an
/// earlier run are gone.
///
/// # Errors
/// The guest's, or one does not begin: with what it said.
pub fn start_readers(vm: &Vm, all: &[Instance], seed: u64) -> Result<()> {
    vm.run(&format!("rm -rf {LOGS}; mkdir -p {LOGS}"))?;
    // fio measures at its start how long a short sleep takes, and later spins that long instead of
    // sleeping: one that keeps a rate must start while the machine is idle.
    let (light, heavy): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|i| i.owner > 0)
        .partition(|i| i.role == Role::Light);
    for readers in [light, heavy] {
        begin(vm, &readers, seed)?;
    }
    Ok(())
}

/// Start readers and wait until each of them moves data.
fn begin(vm: &Vm, readers: &[&Instance], seed: u64) -> Result<()> {
    let count = |i: &Instance| {
        let tally = vm.ground_truth().owner(i.owner);
        tally.read_lines + tally.write_lines
    };
    let before: Vec<u64> = readers.iter().map(|i| count(i)).collect();
    for instance in readers {
        launch(vm, instance, seed, READER_LIFE_SEC)?;
    }
    let end = vm.now() + Duration::from_secs(60);
    // fio reads its file once before it begins: a block's worth of lines is not yet reading.
    let begun = |i: &Instance, before: u64| count(i) > before + 20_000;
    while let Some(late) = readers.iter().zip(&before).find(|(i, b)| !begun(i, **b)) {
        if vm.now() > end {
            bail!(
                "{} does not begin to read; {}",
                late.0.name,
                said(vm, late.0)
            );
        }
        vm.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}

/// Start the work beside, for `run_sec` seconds.
///
/// # Errors
/// The guest's.
pub fn start_beside(vm: &Vm, all: &[Instance], seed: u64, run_sec: u64) -> Result<()> {
    let mut beside = all.iter().filter(|i| i.owner == 0);
    beside.try_for_each(|i| launch(vm, i, seed, run_sec))
}

fn launch(vm: &Vm, instance: &Instance, seed: u64, run_sec: u64) -> Result<()> {
    let (cgroup, name) = (instance.cgroup(), &instance.name);
    vm.run(&format!(
        "cd {LOGS}; sh -c 'echo $$ > /sys/fs/cgroup{cgroup}/cgroup.procs; exec {}' \
         > {name}.out 2>&1 < /dev/null &",
        instance.command(seed, run_sec)
    ))
    .map(drop)
}

/// Send SIGINT to all workloads: they still write their logs.
///
/// # Errors
/// One is still there after a minute.
pub fn stop(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "for p in $(cat {SLICE}/*/cgroup.procs); do kill -INT $p 2>/dev/null; done; true"
    ))?;
    wait_for_end(vm, 60)
}

fn wait_for_end(vm: &Vm, patience_sec: u64) -> Result<()> {
    let script = format!(
        "for i in $(seq {}); do cat {SLICE}/*/cgroup.procs | grep -q . || exit 0; sleep 0.2; done; \
         ps ax; exit 1",
        patience_sec * 5
    );
    vm.run(&script).map(drop)
}

/// End all workloads now.
///
/// # Errors
/// The guest's.
pub fn kill(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "for f in {SLICE}/*/cgroup.kill; do echo 1 > $f; done"
    ))?;
    wait_for_end(vm, 20)
}

/// CPU time each cgroup has used, nanoseconds, by instance name.
///
/// # Errors
/// The guest's, or a `cpu.stat` without `usage_usec`.
pub fn cpu_times(vm: &Vm, instances: &[Instance]) -> Result<BTreeMap<String, f64>> {
    let files: Vec<String> = instances
        .iter()
        .map(|i| format!("/sys/fs/cgroup{}/cpu.stat", i.cgroup()))
        .collect();
    let text = vm.run(&format!("grep -H usage_usec {}", files.join(" ")))?;
    let mut times = BTreeMap::new();
    for instance in instances {
        let line = text
            .lines()
            .find(|l| l.contains(&format!("{}/cpu.stat", instance.cgroup())));
        let usec = line
            .and_then(|l| l.rsplit(' ').next())
            .and_then(|n| n.parse::<f64>().ok());
        let usec = usec.with_context(|| format!("no usage_usec of {}", instance.name))?;
        times.insert(instance.name.clone(), usec * 1000.0);
    }
    Ok(times)
}

/// Blocks that an instance's fio has logged.
///
/// # Errors
/// The guest's: no such log.
pub fn blocks(vm: &Vm, instance: &Instance) -> Result<Vec<Block>> {
    let text = vm.run(&format!("cat {LOGS}/{}_lat.*.log", instance.name));
    let text = text.with_context(|| said(vm, instance))?;
    Ok(parse_log(&text))
}

/// Operations per second of a stress-ng instance over its whole run.
///
/// # Errors
/// It left no metrics: with what it said instead.
pub fn stress_ops_per_sec(vm: &Vm, instance: &Instance) -> Result<f64> {
    let text = vm.run(&format!("cat {LOGS}/{}.yaml", instance.name))?;
    let key = "bogo-ops-per-second-real-time:";
    let value = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix(key))
        .find_map(|v| v.trim().parse().ok());
    value.with_context(|| said(vm, instance))
}

fn said(vm: &Vm, instance: &Instance) -> String {
    let text = vm.run(&format!("tail -n 20 {LOGS}/{}.out", instance.name));
    format!("{} said: {}", instance.name, text.unwrap_or_default())
}

/// What a clock of the guest shows more than its time since power-on, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockOffsets {
    /// `CLOCK_REALTIME`
    pub unix_ms: f64,
    /// `CLOCK_BOOTTIME`
    pub boot_ms: f64,
}

/// The guest's clocks, read beside its TSC, which is its time since power-on in nanoseconds.
///
/// # Errors
/// The guest's.
pub fn clock_offsets(vm: &Vm) -> Result<ClockOffsets> {
    let text = vm.run("weir-agent now")?;
    let read = |word: &str| word.parse::<f64>().ok();
    let words: Option<Vec<f64>> = text.split_whitespace().map(read).collect();
    match words.as_deref() {
        Some([unix_ns, boot_ns, tsc_ns]) => Ok(ClockOffsets {
            unix_ms: (unix_ns - tsc_ns) / 1e6,
            boot_ms: (boot_ns - tsc_ns) / 1e6,
        }),
        _ => bail!("now: expected three numbers, not '{text}'"),
    }
}
