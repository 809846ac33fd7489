// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One guest: boot it, run commands in it, switch the device model on, read the ledger.

use crate::env::{Environment, copy, pack};
use crate::host;
use crate::machine::Machine;
use crate::protocol::{PORT_NAME, Reply, Request};
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
const BAR_WORDS: usize = (1 << 20) / 8;
const KERNEL_ARGS: &str = "console=ttyS0 quiet panic=-1 numa_balancing=disable mitigations=off";
/// A guest that has not said hello by then never will.
const BOOT_TIMEOUT: Duration = Duration::from_secs(180);

static VM_NUMBER: AtomicU32 = AtomicU32::new(0);

/// A file to put into the guest.
pub struct GuestFile {
    /// On the host.
    pub from: PathBuf,
    /// In the guest, without the leading slash.
    pub to: String,
}

impl GuestFile {
    /// `from` on the host becomes `to` in the guest.
    pub fn new(from: impl Into<PathBuf>, to: &str) -> Self {
        GuestFile {
            from: from.into(),
            to: to.into(),
        }
    }
}

/// What a guest needs beside its machine: for tests of odd hardware and odd kernels.
#[derive(Clone, Debug, Default)]
pub struct BootOptions {
    /// More words on the kernel's command line.
    pub kernel_args: String,
    /// More arguments of QEMU.
    pub qemu_args: Vec<String>,
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

    /// [`Vm::boot`], with more than a machine can say.
    ///
    /// # Errors
    /// As [`Vm::boot`].
    pub fn boot_with(
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
        let initrd = make_initrd(env, &dir, files)?;
        let shape = Shape {
            group_count: machine.groups_mib.len(),
            vcpu_count: machine.cpu_count,
            memory_bytes: machine.device_bytes(),
        };
        let ledger = Shared::create(&format!("{name}.ledger"), shape.words())?;
        Ledger::create(ledger.words(), shape).context("the ledger's file is too small")?;
        let bar = Shared::create(&format!("{name}.bar"), BAR_WORDS)?;
        let socket = dir.join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket)?;
        let mut command = qemu(env, machine, &initrd, &socket, ledger.path(), bar.path());
        let mut kernel_args = format!("{KERNEL_ARGS} {}", options.kernel_args);
        if let Some(us) = machine.bandwidth_slice_us {
            kernel_args += &format!(" sysctl.kernel.sched_cfs_bandwidth_slice_us={us}");
        }
        command
            .args(["-append", kernel_args.trim()])
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
            dir,
            machine: machine.clone(),
        };
        if hello.recv_timeout(BOOT_TIMEOUT).is_err() {
            bail!("the guest did not come up:\n{}", vm.console_tail());
        }
        Ok(vm)
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
        host::keep_time(self.pid());
        Ok(())
    }

    /// Switch the device model off: the guest runs as fast as it can again.
    pub fn switch_model_off(&self) {
        self.ledger().switch(false);
    }

    /// Process id of QEMU.
    pub fn pid(&self) -> u32 {
        self.child.id()
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

fn make_initrd(env: &Environment, dir: &Path, files: &[GuestFile]) -> Result<PathBuf> {
    let stage = dir.join("stage");
    let me = std::env::current_exe()?;
    let agent = agent_beside(&me)?;
    copy(&agent, &stage.join("usr/local/bin/weir-agent"))?;
    for file in files {
        copy(&file.from, &stage.join(&file.to))?;
    }
    let overlay = dir.join("overlay.cpio");
    pack(&stage, &overlay)?;
    let initrd = dir.join("initrd");
    let mut out = std::fs::File::create(&initrd)?;
    for part in [env.base_cpio(), overlay] {
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

fn qemu(
    env: &Environment,
    machine: &Machine,
    initrd: &Path,
    socket: &Path,
    ledger: &Path,
    bar: &Path,
) -> Command {
    let root = env.root();
    let mut q = env.tool("usr/bin/qemu-system-x86_64");
    q.env(
        "QEMU_MODULE_DIR",
        root.join("usr/lib/x86_64-linux-gnu/qemu"),
    );
    for firmware in ["usr/share/qemu", "usr/share/seabios"] {
        q.arg("-L").arg(root.join(firmware));
    }
    q.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    q.args([
        "-M",
        "q35,usb=off",
        "-accel",
        "tcg,thread=multi,tb-size=256",
    ]);
    // Without these two string copies are emulated a byte at a time.
    q.args([
        "-cpu",
        "max,-erms,-fsrm",
        "-smp",
        &machine.cpu_count.to_string(),
    ]);
    q.args(["-serial", "stdio"]);
    memory(&mut q, machine);
    q.arg("-object").arg(format!(
        "memory-backend-file,id=bar,mem-path={},share=on,size={}",
        bar.display(),
        BAR_WORDS * 8
    ));
    q.args(["-device", "ivshmem-plain,memdev=bar"]);
    q.arg("-chardev")
        .arg(format!("socket,id=agent,path={}", socket.display()));
    q.args(["-device", "virtio-serial"]);
    q.arg("-device")
        .arg(format!("virtserialport,chardev=agent,name={PORT_NAME}"));
    q.arg("-kernel")
        .arg(env.kernel())
        .arg("-initrd")
        .arg(initrd);
    q.args(["-name", "weir,debug-threads=on"]);
    if let Ok(plugin) = beside("libweir_plugin.so") {
        q.arg("-plugin")
            .arg(plugin_argument(machine, &plugin, ledger, bar));
    }
    q
}

/// Ordinary memory on node 0 with all CPUs, each group on a node of its own behind it.
fn memory(q: &mut Command, machine: &Machine) {
    let total_mib = machine.dram_mib + machine.groups_mib.iter().sum::<u64>();
    q.args(["-m", &format!("{total_mib}M")]);
    let last_cpu = machine.cpu_count - 1;
    q.arg("-object").arg(format!(
        "memory-backend-ram,id=dram,size={}M",
        machine.dram_mib
    ));
    q.arg("-numa")
        .arg(format!("node,nodeid=0,cpus=0-{last_cpu},memdev=dram"));
    for (i, mib) in machine.groups_mib.iter().enumerate() {
        let node = i + 1;
        q.arg("-object")
            .arg(format!("memory-backend-ram,id=cxl{i},size={mib}M"));
        q.arg("-numa")
            .arg(format!("node,nodeid={node},memdev=cxl{i}"));
        q.arg("-numa").arg(format!("dist,src=0,dst={node},val=20"));
        // From one group to another goes through a CPU's node. QEMU wants all distances or none.
        for other in 1..node {
            q.arg("-numa")
                .arg(format!("dist,src={other},dst={node},val=30"));
        }
    }
}

fn plugin_argument(machine: &Machine, plugin: &Path, ledger: &Path, bar: &Path) -> String {
    let sizes: Vec<String> = machine
        .groups_mib
        .iter()
        .map(|m| (m << 20).to_string())
        .collect();
    let values = [
        ("ledger", ledger.display().to_string()),
        ("bar", bar.display().to_string()),
        ("base_bytes", machine.device_base_bytes().to_string()),
        ("group_sizes_bytes", sizes.join(":")),
        ("service_ns", machine.service_ns.to_string()),
        ("idle_ns", machine.idle_ns.to_string()),
        ("window_lines", machine.window_lines.to_string()),
        ("cache_lines", machine.cache_lines.to_string()),
        ("instruction_ps", machine.instruction_ps.to_string()),
        ("slack_ns", (machine.slack_us * 1000).to_string()),
        ("max_lag_ns", (machine.max_lag_us * 1000).to_string()),
    ];
    let mut text = plugin.display().to_string();
    for (name, value) in values {
        text += &format!(",{name}={value}");
    }
    text
}

fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let start = text.len().saturating_sub(4000);
    String::from_utf8_lossy(&text[start..]).into_owned()
}
