// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest: boot it, let its time pass, run commands in it, switch the device model on, read the truth.

use crate::guest_env::Environment;
use crate::vm::agent::Line;
use crate::vm::cosim::Cosim;
use crate::vm::image::files;
use crate::vm::image::files::GuestFile;
use crate::vm::image::initrd;
use crate::vm::image::snapshot::{self, Snapshot};
use crate::vm::protocol::Reply;
use crate::vm::qemu::qmp::Monitor;
use crate::vm::qemu::scratch::Scratch;
use crate::vm::qemu::shm::SharedMemory;
use crate::vm::qemu::{self, SharedFiles, Sockets, Start};
use crate::vm::sampler::Series;
use crate::vm::time::{GuestTime, STEP};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64};
use std::time::{Duration, Instant};
use weir_ipc::{CosimSummary, GroundTruth, TruthLayout};
use weir_scenario::testbed::TestbedMachine;

/// Size of the guest-visible BAR.
pub(crate) const BAR_WORDS: usize = (1 << 20) / 8;
/// `nokaslr`: the kernel would put itself anywhere in memory, so now and then on the device. `notests`:
/// self-tests of the kernel's ciphers would compute on two CPUs for tens of seconds.
const KERNEL_ARGS: &str = "console=ttyS0 quiet panic=-1 numa_balancing=disable mitigations=off nokaslr cryptomgr.notests=1";
/// A guest that has not said hello by then, by its own time, never will.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);
/// How much longer than a command may take its reply is waited for.
const GRACE: Duration = Duration::from_secs(30);
/// How long QEMU may take to die, by the host's clock, after it has let go of its sockets.
const DYING: Duration = Duration::from_secs(10);

/// What a guest needs beside its machine: for tests of odd hardware and odd kernels.
#[derive(Clone, Debug, Default)]
pub struct BootOptions {
    /// More words on the kernel's command line.
    pub kernel_args: String,
    /// More arguments of QEMU.
    pub qemu_args: Vec<String>,
    /// Comes before everything else in the initrd, as firmware and table overlays must.
    pub before_initrd: Option<PathBuf>,
    /// Boots each time: QEMU cannot save one of its devices, or does not save all of it.
    pub is_cold: bool,
}

/// A command under way in the guest.
#[derive(Debug)]
#[must_use]
pub struct Pending {
    id: u64,
    shell: String,
    /// By the guest's time.
    end: Duration,
}

/// Called with the guest's time after each step.
type Watcher = Box<dyn Fn(Duration) + Send>;

/// A running guest; killed when dropped. Its time passes only while it handles a request or sleeps by
/// request.
pub struct Vm {
    child: Mutex<Child>,
    line: Mutex<Line>,
    monitor: Mutex<Monitor>,
    time: GuestTime,
    bar: SharedMemory,
    files: SharedMemory,
    cosim: Option<Cosim>,
    watcher: Mutex<Option<Watcher>>,
    scratch: Scratch,
    /// What it was made as.
    pub machine: TestbedMachine,
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
        let vm = match machine.cosim || options.is_cold {
            true => Vm::cold(env, machine, options)?,
            false => {
                let save = |to: &Path| Vm::cold(env, machine, options)?.save(to);
                let snapshot = snapshot::of(env, machine, options, save)?;
                Vm::load(env, machine, options, &snapshot)?
            }
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
        monitor.execute("migrate-incoming", json!({ "uri": uri }))?;
        monitor.wait_for_migration()?;
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

    /// QEMU, with its guest's time standing.
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
            .args(&options.qemu_args);
        let console = std::fs::File::create(dir.join("console.log"))?;
        let errors = std::fs::File::create(dir.join("qemu.log"))?;
        command.stdin(Stdio::null()).stdout(console).stderr(errors);
        let child = command.spawn().context("cannot start QEMU")?;
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
            machine: machine.clone(),
        })
    }

    fn wait_for_hello(&self) -> Result<()> {
        let hello = Pending {
            id: 0,
            shell: String::new(),
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
        files::put(&self.files, &self.scratch.dir, guest_files)?;
        self.run("weir-agent unpack")
            .context("files for the guest")
            .map(drop)
    }

    /// The guest's time since power-on.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// Lets the guest run until its time is `at` or, by less than a step ([`crate::vm::time::STEP`]), later.
    ///
    /// # Errors
    /// QEMU has ended, or the guest makes no progress.
    pub fn sleep_until(&self, at: Duration) -> Result<()> {
        while self.now() < at {
            self.step(at - self.now())?;
        }
        Ok(())
    }

    /// Lets the guest run for so long, rounded up to steps.
    ///
    /// # Errors
    /// As [`Vm::sleep_until`].
    pub fn sleep(&self, duration: Duration) -> Result<()> {
        self.sleep_until(self.now() + duration)
    }

    fn step(&self, by: Duration) -> Result<()> {
        self.time
            .step(by, &mut || match lock(&self.child).try_wait()? {
                Some(status) => bail!("QEMU ended ({status})\n{}", self.console_tail()),
                None => Ok(()),
            })?;
        if let Some(watcher) = lock(&self.watcher).as_ref() {
            watcher(self.now());
        }
        lock(&self.line).hear()
    }

    /// From here on `watcher` is called with the guest's time after each step.
    pub fn watch(&self, watcher: impl Fn(Duration) + Send + 'static) {
        *lock(&self.watcher) = Some(Box::new(watcher));
    }

    /// From here on the ground truth is read after each step: all groups together, and the owners up to
    /// `owners`.
    pub fn start_sampling(&self, owners: u8) {
        self.time.start_sampling(owners);
    }

    /// The readings since then, at the guest's time since power-on.
    ///
    /// # Errors
    /// Nothing was being sampled.
    pub fn stop_sampling(&self) -> Result<Series> {
        self.time.stop_sampling()
    }

    /// Run a shell command in the guest and return what it printed.
    ///
    /// # Errors
    /// It failed, or took more than two minutes; with its output.
    pub fn run(&self, shell: &str) -> Result<String> {
        let reply = self.try_run(shell, Duration::from_secs(120))?;
        if reply.status != Some(0) {
            bail!(
                "in the guest: {shell}\nended with {:?}\n{}{}",
                reply.status,
                reply.stdout,
                reply.stderr
            );
        }
        Ok(reply.stdout)
    }

    /// Run a shell command in the guest, whatever its exit status. `timeout` is the guest's time.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn try_run(&self, shell: &str, timeout: Duration) -> Result<Reply> {
        let pending = self.start(shell, timeout)?;
        self.wait(pending)
    }

    /// Start a shell command in the guest; [`Vm::wait`] waits for its end.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn start(&self, shell: &str, timeout: Duration) -> Result<Pending> {
        let said = lock(&self.line).request(shell, timeout);
        Ok(Pending {
            id: said.map_err(|why| self.why_gone(why))?,
            shell: shell.into(),
            end: self.now() + timeout + GRACE,
        })
    }

    /// The line is broken: most often because QEMU has ended.
    fn why_gone(&self, why: anyhow::Error) -> anyhow::Error {
        let end = Instant::now() + DYING;
        while Instant::now() < end {
            if let Ok(Some(status)) = lock(&self.child).try_wait() {
                return why.context(format!("QEMU ended ({status})\n{}", self.console_tail()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        why
    }

    /// Lets the guest run until a command has ended.
    ///
    /// # Errors
    /// The guest does not answer.
    pub fn wait(&self, pending: Pending) -> Result<Reply> {
        let reply = self.reply(&pending)?;
        reply.with_context(|| {
            format!(
                "the guest does not answer: {}\n{}",
                pending.shell,
                self.console_tail()
            )
        })
    }

    fn reply(&self, pending: &Pending) -> Result<Option<Reply>> {
        let begun = self.now();
        while self.now() < pending.end {
            // Finely at first; a command that takes seconds is polled some times a second.
            self.step((self.now() - begun) / 32)?;
            if let Some(reply) = lock(&self.line).reply(pending.id) {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    /// Ground truth of the device model.
    pub fn ground_truth(&self) -> GroundTruth<'_> {
        self.time.ground_truth()
    }

    /// Words of the guest-visible BAR.
    pub fn bar(&self) -> &[AtomicU64] {
        self.bar.words()
    }

    /// Switch the device model on and wait until it follows.
    ///
    /// # Errors
    /// It does not follow: the guest is stuck.
    pub fn switch_model_on(&self) -> Result<()> {
        self.ground_truth().switch(true);
        let end = self.now() + Duration::from_secs(30);
        while !self.ground_truth().is_running() {
            if self.now() > end {
                bail!("the device model does not start\n{}", self.console_tail());
            }
            self.step(STEP)?;
        }
        Ok(())
    }

    /// Switch the device model off: accesses cost nothing any more.
    pub fn switch_model_off(&self) {
        self.ground_truth().switch(false);
    }

    /// Process id of QEMU.
    pub fn pid(&self) -> u32 {
        lock(&self.child).id()
    }

    /// The server of the co-simulated device, on a machine that has one.
    pub fn cosim(&mut self) -> Option<&mut Cosim> {
        self.cosim.as_mut()
    }

    /// End the guest; what the co-simulated device did.
    ///
    /// # Errors
    /// There is none, or it failed: with what it said.
    pub fn finish_cosim(mut self) -> Result<CosimSummary> {
        // Its log lies in our folder.
        let cosim = self.cosim.take();
        self.end();
        cosim.context("co-simulation is not configured")?.finish()
    }

    fn end(&self) {
        let mut child = lock(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// The end of the guest's console.
    pub fn console_tail(&self) -> String {
        tail(&self.scratch.dir.join("console.log")) + &tail(&self.scratch.dir.join("qemu.log"))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.end();
    }
}

/// RAM at fixed places of the file, without its zeros.
fn mapped_ram() -> serde_json::Value {
    json!({"capabilities": [{"capability": "mapped-ram", "state": true}]})
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kernel_arguments(machine: &TestbedMachine, options: &BootOptions) -> String {
    let mut words = format!("{KERNEL_ARGS} {}", options.kernel_args);
    if let Some(us) = machine.bandwidth_slice_us {
        words += &format!(" sysctl.kernel.sched_cfs_bandwidth_slice_us={us}");
    }
    words.trim().to_string()
}

/// A build artefact beside the running program, or one level up when that is a test.
///
/// # Errors
/// It is not there.
pub fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let near = [me.parent(), me.parent().and_then(Path::parent)];
    let found = near
        .into_iter()
        .flatten()
        .map(|d| d.join(name))
        .find(|p| p.exists());
    found.with_context(|| format!("{name} is not beside {}: build it first", me.display()))
}

fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
