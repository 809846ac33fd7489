// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a guest comes up: from power-on, or from the snapshot of one that did; and its files.

use super::{Pending, Vm, lock};
use crate::guest_env::Environment;
use crate::vm::agent::Line;
use crate::vm::cosim::Cosim;
use crate::vm::cost;
use crate::vm::image::files::{self, GuestFile};
use crate::vm::image::initrd;
use crate::vm::image::snapshot::{self, Snapshot};
use crate::vm::qemu::qmp::Monitor;
use crate::vm::qemu::scratch::Scratch;
use crate::vm::qemu::shm::SharedMemory;
use crate::vm::qemu::{self, SharedFiles, Sockets, Start};
use crate::vm::time::GuestTime;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_ipc::{GroundTruth, TruthLayout};
use weir_scenario::testbed::TestbedMachine;

pub(crate) const BAR_WORDS: usize = (1 << 20) / 8;
/// `nokaslr`: the kernel would put itself anywhere in memory, so now and then on the device. `notests`:
/// self-tests of the kernel's ciphers would compute on two CPUs for tens of seconds.
const KERNEL_ARGS: &str = "console=ttyS0 quiet panic=-1 numa_balancing=disable mitigations=off nokaslr cryptomgr.notests=1";
/// A guest that has not said hello by then, by its own time, never will.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

/// Stands in QEMU's arguments for a file in `/dev/shm` that is the guest's own and gone with it. Its name is
/// another for each guest, and no snapshot depends on it.
pub const OWN_FILE: &str = "{own}";

/// What a guest needs beside its machine: for tests of odd hardware and odd kernels.
#[derive(Clone, Debug, Default)]
pub struct BootOptions {
    /// More words on the kernel's command line.
    pub kernel_args: String,
    /// More arguments of QEMU. [`OWN_FILE`] in them is the path of a file that each guest has for itself.
    pub qemu_args: Vec<String>,
    /// Comes before everything else in the initrd, as firmware and table overlays must.
    pub before_initrd: Option<PathBuf>,
    /// Boots each time: QEMU cannot save one of its devices, or does not save all of it.
    pub is_cold: bool,
}

/// While the kernel unpacks the guest's programs, a large folio may come to lie on a device (which one
/// depends on the build). If it is code of the shell, each shell has memory on the device. So what runs now
/// is moved to DRAM.
const BRING_HOME: &str = "for node in /sys/devices/system/node/node[0-9]*; do
    [ -n \"$(cat $node/cpulist)\" ] || migratepages 1 ${node##*node} 0 || exit; done";

impl Vm {
    /// Boot a guest with `files` in it and wait for its agent. The agent itself comes from beside the
    /// running program.
    ///
    /// # Errors
    /// QEMU does not start, or the guest does not come up: the message ends with its console.
    pub fn boot(env: &Environment, machine: &TestbedMachine, files: &[GuestFile]) -> Result<Self> {
        Vm::boot_with(env, machine, files, &BootOptions::default())
    }

    /// [`Vm::boot`], with more than a machine can say.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn boot_with(
        env: &Environment,
        machine: &TestbedMachine,
        files: &[GuestFile],
        options: &BootOptions,
    ) -> Result<Self> {
        machine.validate()?;
        // A device of another process cannot be saved: such a guest boots each time.
        let vm = if machine.cosim || options.is_cold {
            Vm::cold(env, machine, options)?
        } else {
            let save = |to: &Path| Vm::cold(env, machine, options)?.save(to);
            let made = || snapshot::of(env, machine, options, save);
            let snapshot = cost::uncounted(made)?;
            Vm::load(env, machine, options, &snapshot)?
        };
        vm.put(files)?;
        Ok(vm)
    }

    /// Boots from power-on, without a snapshot.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn cold(
        env: &Environment,
        machine: &TestbedMachine,
        options: &BootOptions,
    ) -> Result<Self> {
        let scratch = Scratch::new()?;
        let initrd = initrd::make(env, &scratch.dir, options)?;
        let start = Start::PowerOn { initrd: &initrd };
        let vm = Vm::launch(env, machine, options, &start, scratch)?;
        vm.wait_for_hello()?;
        std::fs::remove_file(initrd)?;
        vm.run(BRING_HOME)?;
        Ok(vm)
    }

    fn load(
        env: &Environment,
        machine: &TestbedMachine,
        options: &BootOptions,
        snapshot: &Snapshot,
    ) -> Result<Self> {
        let now_ns = snapshot.now_ns;
        let start = Start::Snapshot { now_ns };
        let vm = Vm::launch(env, machine, options, &start, Scratch::new()?)?;
        let loaded = vm.load_state(&snapshot.state());
        loaded.with_context(|| format!("{}\n{}", snapshot.state().display(), vm.console_tail()))?;
        Ok(vm)
    }

    fn load_state(&self, state: &Path) -> Result<()> {
        let mut monitor = lock(&self.monitor);
        monitor.execute("migrate-set-capabilities", mapped_ram())?;
        let uri = format!("file:{}", state.display());
        // What the device model has put there, not that of another build: until its driver is loaded the
        // guest does not touch it.
        let bar: Vec<u64> = self
            .bar()
            .iter()
            .map(|w| w.load(Ordering::Relaxed))
            .collect();
        monitor.execute("migrate-incoming", json!({ "uri": uri }))?;
        monitor.wait_for_migration()?;
        for (word, own) in self.bar().iter().zip(bar) {
            word.store(own, Ordering::Relaxed);
        }
        monitor.execute("cont", json!({}))?;
        Ok(())
    }

    /// Keeps the guest in a file, and ends it; its time then.
    fn save(self, to: &Path) -> Result<u64> {
        let mut monitor = lock(&self.monitor);
        monitor.execute("stop", json!({}))?;
        monitor.execute("migrate-set-capabilities", mapped_ram())?;
        let uri = format!("file:{}", to.display());
        monitor.execute("migrate", json!({ "uri": uri }))?;
        monitor.wait_for_migration()?;
        Ok(self.now().as_nanos() as u64)
    }

    /// Starts QEMU, with the guest's time standing where it begins or was saved: the ground truth grants it
    /// no time before the harness asks for it. The files that QEMU maps are made before it.
    fn launch(
        env: &Environment,
        machine: &TestbedMachine,
        options: &BootOptions,
        start: &Start,
        scratch: Scratch,
    ) -> Result<Self> {
        let Scratch { name, dir } = &scratch;
        let layout = TruthLayout {
            group_count: machine.groups_mib.len(),
            vcpu_count: machine.cpu_count,
            memory_bytes: machine.device_bytes(),
        };
        let ground_truth = SharedMemory::create(&format!("{name}.ground-truth"), layout.words())?;
        let truth = GroundTruth::create(ground_truth.words(), layout)
            .context("the ground truth's file is too small")?;
        truth.set_stopped_at(start.at_ns());
        truth.grant_until(start.at_ns());
        let bar = SharedMemory::create(&format!("{name}.bar"), BAR_WORDS)?;
        let files = SharedMemory::create(&format!("{name}.files"), files::BAR_BYTES / 8)?;
        let server = || Cosim::start(machine, name, dir);
        let cosim = machine.cosim.then(server).transpose()?;
        let (line, agent) = Line::pair()?;
        let (monitor, theirs) = Monitor::pair()?;
        let (agent, theirs) = (OwnedFd::from(agent), OwnedFd::from(theirs));
        let shared = SharedFiles {
            ground_truth: ground_truth.path(),
            bar: bar.path(),
            files: files.path(),
            trace: cosim.as_ref().map(Cosim::trace),
        };
        let sockets = Sockets {
            agent: &agent,
            monitor: &theirs,
        };
        let mut command = qemu::command(env, machine, start, &sockets, &shared)?;
        command
            .args(cosim.iter().flat_map(Cosim::device_arguments))
            .args(["-append", &kernel_arguments(machine, options)])
            .args(
                options
                    .qemu_args
                    .iter()
                    .map(|word| word.replace(OWN_FILE, &scratch.own_file().display().to_string())),
            );
        let console = std::fs::File::create(dir.join("console.log"))?;
        let errors = std::fs::File::create(dir.join("qemu.log"))?;
        command.stdin(Stdio::null()).stdout(console).stderr(errors);
        let child = command.spawn().context("cannot start QEMU")?;
        cost::begins(child.id());
        Ok(Vm {
            time: GuestTime::new(ground_truth, child.id()),
            child: Mutex::new(child),
            line: Mutex::new(line),
            monitor: Mutex::new(monitor),
            bar,
            files,
            cosim,
            watcher: Mutex::new(None),
            scratch,
            counted: AtomicU64::new(0),
            machine: machine.clone(),
        })
    }

    fn wait_for_hello(&self) -> Result<()> {
        let hello = Pending {
            id: 0,
            task: String::new(),
            end: BOOT_TIMEOUT,
        };
        match self.reply(&hello) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => bail!("the guest did not come up:\n{}", self.console_tail()),
            Err(why) => Err(why.context(format!(
                "the guest did not come up\n{}",
                self.console_tail()
            ))),
        }
    }

    fn put(&self, guest_files: &[GuestFile]) -> Result<()> {
        if guest_files.is_empty() {
            return Ok(());
        }
        files::put(&self.files, guest_files)?;
        self.run("weir-agent unpack")
            .context("files for the guest")
            .map(drop)
    }
}

/// RAM at fixed places of the file, without its zeros.
fn mapped_ram() -> serde_json::Value {
    json!({"capabilities": [{"capability": "mapped-ram", "state": true}]})
}

fn kernel_arguments(machine: &TestbedMachine, options: &BootOptions) -> String {
    let mut words = format!("{KERNEL_ARGS} {}", options.kernel_args);
    if let Some(us) = machine.bandwidth_slice_us {
        words += &format!(" sysctl.kernel.sched_cfs_bandwidth_slice_us={us}");
    }
    words.trim().to_string()
}
