// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest: boot it, run commands in it, switch the device model on, read the ledger.

use crate::cosim::{Cosim, Summary};
use crate::env::{Environment, copy, output, pack};
use crate::host;
use crate::machine::Machine;
use crate::protocol::{Reply, Request};
use crate::qemu::{self, SharedFiles};
use crate::shm::Shared;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_hw::ledger::{Ledger, Shape};

/// Size of the guest-visible BAR.
pub(crate) const BAR_WORDS: usize = (1 << 20) / 8;
/// `nokaslr`: the kernel would put itself anywhere in memory, so now and then on the device.
const KERNEL_ARGS: &str =
    "console=ttyS0 quiet panic=-1 numa_balancing=disable mitigations=off nokaslr";
/// A guest that has not said hello by then never will.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

/// Not a word from the guest's kernel, nor from QEMU; what QEMU's threads did then.
#[derive(Debug, thiserror::Error)]
#[error("the guest did not come up and said nothing; QEMU's threads:\n{0}")]
struct Silent(String);

static VM_NUMBER: AtomicU32 = AtomicU32::new(0);

/// A file to put into the guest.
pub struct GuestFile {
    /// On the host.
    pub from: PathBuf,
    /// In the guest, without the leading slash.
    pub to: String,
    /// Debug lines stay behind: four fifths of weir, and a guest has the file in its memory twice while it boots.
    is_stripped: bool,
}

impl GuestFile {
    /// `from` on the host becomes `to` in the guest.
    pub fn new(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            from: from.into(),
            to: to.into(),
            is_stripped: false,
        }
    }

    /// The same for a program of ours.
    pub fn program(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            is_stripped: true,
            ..GuestFile::new(from, to)
        }
    }

    fn put(&self, stage: &Path) -> Result<()> {
        let to = stage.join(&self.to);
        copy(&self.from, &to)?;
        if self.is_stripped {
            output(Command::new("strip").arg("--strip-debug").arg(&to))?;
        }
        Ok(())
    }
}

/// What a guest needs beside its machine: for tests of odd hardware and odd kernels.
#[derive(Clone, Debug, Default)]
pub struct BootOptions {
    /// More words on the kernel's command line.
    pub kernel_args: String,
    /// More arguments of QEMU.
    pub qemu_args: Vec<String>,
    /// Comes before everything else in the initrd, as firmware and table overlays must.
    pub before_initrd: Option<PathBuf>,
}

type Waiting = Arc<Mutex<BTreeMap<u64, Sender<Reply>>>>;

/// A running guest; killed when dropped.
pub struct Vm {
    child: Child,
    port: Mutex<UnixStream>,
    waiting: Waiting,
    next_id: AtomicU64,
    ledger: Shared,
    bar: Shared,
    cosim: Option<Cosim>,
    dir: PathBuf,
    /// What it was made as.
    pub machine: Machine,
}

impl Vm {
    /// Boot a guest with `files` in it and wait for its agent. The agent itself comes from beside the
    /// running program.
    ///
    /// # Errors
    /// QEMU does not start, or the guest does not come up: the message ends with its console.
    pub fn boot(env: &Environment, machine: &Machine, files: &[GuestFile]) -> Result<Self> {
        Vm::boot_with(env, machine, files, &BootOptions::default())
    }

    /// [`Vm::boot`], with more than a machine can say. A guest that says nothing at all is started once more, aloud: two
    /// of some thirty have stopped so one day, before they said a word, the first CPU busy, and why is not known.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn boot_with(
        env: &Environment,
        machine: &Machine,
        files: &[GuestFile],
        options: &BootOptions,
    ) -> Result<Self> {
        match Vm::boot_once(env, machine, files, options) {
            Err(why) if why.is::<Silent>() => {
                // Not eprintln: a test runner would keep it to itself.
                writeln!(std::io::stderr(), "{why}\nit is started once more")?;
                Vm::boot_once(env, machine, files, options)
            }
            other => other,
        }
    }

    fn boot_once(
        env: &Environment,
        machine: &Machine,
        files: &[GuestFile],
        options: &BootOptions,
    ) -> Result<Self> {
        machine.validate()?;
        let name = format!(
            "weir-{}-{}",
            std::process::id(),
            VM_NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&dir)?;
        let initrd = make_initrd(env, &dir, files, options)?;
        let shape = Shape {
            group_count: machine.groups_mib.len(),
            vcpu_count: machine.cpu_count,
            memory_bytes: machine.device_bytes(),
        };
        let ledger = Shared::create(&format!("{name}.ledger"), shape.words())?;
        Ledger::create(ledger.words(), shape).context("the ledger's file is too small")?;
        let bar = Shared::create(&format!("{name}.bar"), BAR_WORDS)?;
        let start = || Cosim::start(machine, &name, &dir);
        let cosim = machine.cosim.then(start).transpose()?;
        let socket = dir.join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket)?;
        let shared = SharedFiles {
            ledger: ledger.path(),
            bar: bar.path(),
            stream: cosim.as_ref().map(Cosim::stream),
        };
        let mut command = qemu::command(env, machine, &initrd, &socket, &shared);
        command
            .args(cosim.iter().flat_map(Cosim::device_arguments))
            .args(["-append", &kernel_arguments(machine, options)])
            .args(&options.qemu_args);
        let console = std::fs::File::create(dir.join("console.log"))?;
        let errors = std::fs::File::create(dir.join("qemu.log"))?;
        command.stdin(Stdio::null()).stdout(console).stderr(errors);
        let mut child = command.spawn().context("cannot start QEMU")?;
        host::prefer(&child);
        let stream = match wait_for_qemu(&listener, &mut child) {
            Ok(stream) => stream,
            Err(why) => bail!("{why}\n{}", tail(&dir.join("qemu.log"))),
        };
        let waiting: Waiting = Arc::default();
        let hello = expect(&waiting, 0);
        let reader = BufReader::new(stream.try_clone()?);
        let to = Arc::clone(&waiting);
        std::thread::spawn(move || receive(reader, &to));
        let vm = Vm {
            child,
            port: Mutex::new(stream),
            waiting,
            next_id: AtomicU64::new(1),
            ledger,
            bar,
            cosim,
            dir,
            machine: machine.clone(),
        };
        if hello.recv_timeout(BOOT_TIMEOUT).is_err() {
            return Err(vm.why_not_up());
        }
        Ok(vm)
    }

    fn why_not_up(&self) -> anyhow::Error {
        match self.console_tail().as_str() {
            "" => Silent(host::threads(self.pid())).into(),
            said => anyhow::anyhow!("the guest did not come up:\n{said}"),
        }
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

    /// Run a shell command in the guest, whatever its exit status.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn try_run(&self, shell: &str, timeout: Duration) -> Result<Reply> {
        let reply = self.start(shell, timeout)?;
        match reply.recv_timeout(timeout + Duration::from_secs(30)) {
            Ok(reply) => Ok(reply),
            Err(_) => bail!(
                "the guest does not answer: {shell}\n{}",
                self.console_tail()
            ),
        }
    }

    /// Start a shell command in the guest; the reply comes when it ends.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn start(&self, shell: &str, timeout: Duration) -> Result<Receiver<Reply>> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let reply = expect(&self.waiting, id);
        let timeout_ms = timeout.as_millis() as u64;
        let mut line = serde_json::to_vec(&Request {
            id,
            shell: shell.into(),
            timeout_ms,
        })?;
        line.push(b'\n');
        let mut port = self
            .port
            .lock()
            .map_err(|_| anyhow::anyhow!("the port is poisoned"))?;
        port.write_all(&line).context("the guest is gone")?;
        Ok(reply)
    }

    /// The books of the device model.
    pub fn ledger(&self) -> Ledger<'_> {
        match Ledger::open(self.ledger.words()) {
            Some(ledger) => ledger,
            None => unreachable!("it was created in boot"),
        }
    }

    /// Words of the guest-visible BAR.
    pub fn bar(&self) -> &[AtomicU64] {
        self.bar.words()
    }

    /// Switch the device model on and wait until the plugin follows.
    ///
    /// # Errors
    /// It does not follow: the guest is stuck.
    pub fn switch_model_on(&self) -> Result<()> {
        self.ledger().switch(true);
        let end = Instant::now() + Duration::from_secs(30);
        while !self.ledger().is_running() {
            if Instant::now() > end {
                bail!("the device model does not start\n{}", self.console_tail());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for pid in self.pids() {
            host::keep_time(pid);
        }
        Ok(())
    }

    /// Switch the device model off: the guest runs as fast as it can again.
    pub fn switch_model_off(&self) {
        for pid in self.pids() {
            host::keep_time_no_more(pid);
        }
        self.ledger().switch(false);
    }

    /// Process id of QEMU.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server of the co-simulated device, on a machine that has one.
    pub fn cosim(&mut self) -> Option<&mut Cosim> {
        self.cosim.as_mut()
    }

    /// End the guest; what the co-simulated device did.
    ///
    /// # Errors
    /// There is none, or it failed: with what it said.
    pub fn finish_cosim(mut self) -> Result<Summary> {
        // Its log lies in our folder.
        let cosim = self.cosim.take();
        self.child.kill()?;
        self.child.wait()?;
        cosim.context("no co-simulation was asked for")?.finish()
    }

    fn pids(&self) -> impl Iterator<Item = u32> {
        [Some(self.pid()), self.cosim.as_ref().map(Cosim::pid)]
            .into_iter()
            .flatten()
    }

    /// The end of the guest's console.
    pub fn console_tail(&self) -> String {
        tail(&self.dir.join("console.log")) + &tail(&self.dir.join("qemu.log"))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn kernel_arguments(machine: &Machine, options: &BootOptions) -> String {
    let mut words = format!("{KERNEL_ARGS} {}", options.kernel_args);
    if let Some(us) = machine.bandwidth_slice_us {
        words += &format!(" sysctl.kernel.sched_cfs_bandwidth_slice_us={us}");
    }
    words.trim().to_string()
}

fn expect(waiting: &Waiting, id: u64) -> Receiver<Reply> {
    let (to, from) = channel();
    if let Ok(mut map) = waiting.lock() {
        map.insert(id, to);
    }
    from
}

/// Hands replies to who waits for them, until the guest is gone.
fn receive(reader: BufReader<UnixStream>, waiting: &Waiting) {
    for line in reader.lines() {
        let Ok(line) = line else { break };
        let Ok(reply) = serde_json::from_str::<Reply>(&line) else {
            continue;
        };
        let to = waiting
            .lock()
            .ok()
            .and_then(|mut map| map.remove(&reply.id));
        if let Some(to) = to {
            let _ = to.send(reply);
        }
    }
    if let Ok(mut map) = waiting.lock() {
        map.clear();
    }
}

fn make_initrd(
    env: &Environment,
    dir: &Path,
    files: &[GuestFile],
    options: &BootOptions,
) -> Result<PathBuf> {
    let stage = dir.join("stage");
    let me = std::env::current_exe()?;
    let agent = agent_beside(&me)?;
    GuestFile::program(agent, "usr/local/bin/weir-agent").put(&stage)?;
    for file in files {
        file.put(&stage)?;
    }
    let overlay = dir.join("overlay.cpio");
    pack(&stage, &overlay)?;
    let initrd = dir.join("initrd");
    let mut out = std::fs::File::create(&initrd)?;
    let first = options.before_initrd.iter().cloned();
    for part in first.chain([env.base_cpio(), overlay]) {
        std::io::copy(&mut std::fs::File::open(&part)?, &mut out)?;
    }
    Ok(initrd)
}

/// A build artefact beside the running program, or one level up when that is a test.
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

fn agent_beside(_: &Path) -> Result<PathBuf> {
    beside("weir-agent")
}

fn wait_for_qemu(
    listener: &std::os::unix::net::UnixListener,
    child: &mut Child,
) -> Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
        if let Some(status) = child.try_wait()? {
            bail!("QEMU ended at once ({status})");
        }
        if Instant::now() > end {
            bail!("QEMU does not connect");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
