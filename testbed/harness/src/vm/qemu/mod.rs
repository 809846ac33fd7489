// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as arguments of QEMU and of the device model.

mod guest_numa;
pub(super) mod host_process;
pub(super) mod qmp;
pub(super) mod scratch;
pub(super) mod shm;

use crate::guest_env::Environment;
use crate::vm::image::files;
use crate::vm::protocol::PORT_NAME;
use crate::vm::{BAR_WORDS, beside};
use anyhow::{Context, Result, ensure};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use weir_scenario::testbed::{CoreEvents, TestbedMachine};

pub(crate) struct SharedFiles<'a> {
    pub(crate) ground_truth: &'a Path,
    pub(crate) bar: &'a Path,
    pub(crate) files: &'a Path,
    pub(crate) trace: Option<&'a Path>,
}

/// QEMU's ends of sockets; they stay open until it has started.
pub(crate) struct Sockets<'a> {
    pub(crate) agent: &'a OwnedFd,
    pub(crate) monitor: &'a OwnedFd,
}

pub(crate) enum Start<'a> {
    PowerOn {
        initrd: &'a Path,
    },
    /// It is loaded later; its time will go on from here.
    Snapshot {
        now_ns: u64,
    },
}

impl Start<'_> {
    /// The guest's time then.
    pub(crate) fn at_ns(&self) -> u64 {
        match self {
            Start::PowerOn { .. } => 0,
            Start::Snapshot { now_ns } => *now_ns,
        }
    }
}

/// QEMU for a machine.
///
/// All vCPUs share one thread (`thread=single`): they run in turns anyway, since the device model decides
/// which one executes.
///
/// # Errors
///
/// The device model is not there.
pub(crate) fn command(
    env: &Environment,
    machine: &TestbedMachine,
    start: &Start,
    sockets: &Sockets,
    shared: &SharedFiles,
) -> Result<Command> {
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
        "tcg,thread=single,tb-size=256",
    ]);
    q.args([
        "-cpu",
        cpu_model(machine),
        "-smp",
        &machine.cpu_count.to_string(),
    ]);
    q.args(["-serial", "stdio"]);
    guest_numa::add(&mut q, machine);
    shared_memory(&mut q, shared);
    lines(&mut q, sockets);
    q.arg("-kernel").arg(env.kernel());
    match start {
        Start::PowerOn { initrd } => q.arg("-initrd").arg(initrd),
        Start::Snapshot { .. } => q.args(["-incoming", "defer"]),
    };
    q.args(["-name", "weir,debug-threads=on"]);
    let plugin = beside("libweir_device_model.so").context("the device model")?;
    preload(&mut q, &plugin)?;
    q.arg("-plugin")
        .arg(plugin_argument(machine, &plugin, shared, start.at_ns()));
    same_each_time(&mut q);
    let ends = [sockets.agent, sockets.monitor];
    leave_with_us(&mut q, ends.map(|end| end.as_raw_fd()));
    Ok(q)
}

/// QEMU reads the host's clock in one place, where it sizes the vCPUs' TLBs: the device model answers there
/// too.
///
/// QEMU resizes a TLB by how much of it was used in the last 100 ms of the host's clock. An entry that is
/// gone is walked for again, and the walk sets the page's accessed bit, which the guest's kernel clears
/// without a flush. So reclaim went another way on a busy host, and runs of full length differed.
fn preload(q: &mut Command, plugin: &Path) -> Result<()> {
    let separators = [b' ', b':'];
    let bytes = plugin.as_os_str().as_encoded_bytes();
    ensure!(
        !bytes.iter().any(|byte| separators.contains(byte)),
        "{}: no library can be preloaded from a path with a space or a colon; move the checkout",
        plugin.display()
    );
    q.env("LD_PRELOAD", plugin);
    Ok(())
}

/// Memory that the guest and the host see.
fn shared_memory(q: &mut Command, shared: &SharedFiles) {
    for (id, file, bytes) in [
        ("bar", shared.bar, BAR_WORDS * 8),
        ("files", shared.files, files::BAR_BYTES),
    ] {
        let file = file.display();
        q.arg("-object").arg(format!(
            "memory-backend-file,id={id},mem-path={file},share=on,size={bytes}"
        ));
        // Its content goes into a snapshot.
        q.arg("-device")
            .arg(format!("ivshmem-plain,memdev={id},master=on"));
    }
}

/// Lines to the monitor and to the guest's agent.
fn lines(q: &mut Command, sockets: &Sockets) {
    for (id, end) in [("monitor", sockets.monitor), ("agent", sockets.agent)] {
        q.arg("-chardev")
            .arg(format!("socket,id={id},fd={}", end.as_raw_fd()));
    }
    q.args(["-mon", "chardev=monitor,mode=control"]);
    // The guest's output is in the socket before the guest goes on.
    q.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
    q.arg("-device")
        .arg(format!("virtserialport,chardev=agent,name={PORT_NAME}"));
}

/// Neither the date nor chance makes two guests differ.
fn same_each_time(q: &mut Command) {
    q.args(["-rtc", "base=2026-01-01,clock=vm"]);
    q.args(["-seed", "1"]);
    let fixed_addresses = || {
        // SAFETY: plain system call.
        match unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: a system call, between fork and exec.
    unsafe { q.pre_exec(fixed_addresses) };
}

/// QEMU ends when the thread that started it does, and keeps `inherited` open. A group of its own: Ctrl-C is
/// for the harness, which ends QEMU.
fn leave_with_us(q: &mut Command, inherited: [i32; 2]) {
    q.process_group(0);
    let arranged = move || {
        // SAFETY: plain system calls.
        let results = unsafe {
            [libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)]
                .into_iter()
                .chain(
                    inherited
                        .iter()
                        .map(|fd| libc::fcntl(*fd, libc::F_SETFD, 0)),
                )
        };
        for result in results {
            if result == -1 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: system calls, between fork and exec.
    unsafe { q.pre_exec(arranged) };
}

/// Without two features string copies are emulated a byte at a time; without MWAIT an idle CPU halts. A CPU's
/// name selects its events.
fn cpu_model(machine: &TestbedMachine) -> &'static str {
    match machine.core_events {
        Some(CoreEvents::Zen5) => {
            "max,-erms,-fsrm,-monitor,vendor=AuthenticAMD,family=26,model=2,stepping=1"
        }
        Some(CoreEvents::GraniteRapids) => {
            "max,-erms,-fsrm,-monitor,vendor=GenuineIntel,family=6,model=173,stepping=1"
        }
        None => "max,-erms,-fsrm,-monitor",
    }
}

fn plugin_argument(
    machine: &TestbedMachine,
    plugin: &Path,
    shared: &SharedFiles,
    start_ns: u64,
) -> String {
    let sizes: Vec<String> = machine
        .groups_mib
        .iter()
        .map(|m| (m << 20).to_string())
        .collect();
    let values = [
        ("ground_truth", shared.ground_truth.display().to_string()),
        ("bar", shared.bar.display().to_string()),
        ("base_bytes", machine.device_base_bytes().to_string()),
        ("group_sizes_bytes", sizes.join(":")),
        ("service_ns", machine.service_ns.to_string()),
        ("idle_ns", machine.idle_ns.to_string()),
        ("window_lines", machine.window_lines.to_string()),
        ("cache_lines", machine.cache_lines.to_string()),
        ("instruction_ps", machine.instruction_ps.to_string()),
        ("window_ns", machine.window_ns.to_string()),
        ("start_ns", start_ns.to_string()),
    ];
    let mut text = plugin.display().to_string();
    for (name, value) in values {
        text += &format!(",{name}={value}");
    }
    if let Some(trace) = shared.trace {
        text += &format!(",trace={}", trace.display());
    }
    text
}
