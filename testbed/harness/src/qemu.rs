// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine as arguments of QEMU and of the plugin.

use crate::env::Environment;
use crate::machine::{CoreEvents, Machine};
use crate::memory;
use crate::protocol::PORT_NAME;
use crate::vm::{BAR_WORDS, beside};
use std::path::Path;
use std::process::Command;

/// What QEMU shares with the host.
pub(crate) struct SharedFiles<'a> {
    pub(crate) ledger: &'a Path,
    pub(crate) bar: &'a Path,
    pub(crate) stream: Option<&'a Path>,
}

/// QEMU for a machine. `socket` is where the guest's agent will be.
pub(crate) fn command(
    env: &Environment,
    machine: &Machine,
    initrd: &Path,
    socket: &Path,
    shared: &SharedFiles,
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
    q.args([
        "-cpu",
        cpu_model(machine),
        "-smp",
        &machine.cpu_count.to_string(),
    ]);
    q.args(["-serial", "stdio"]);
    memory::add(&mut q, machine);
    q.arg("-object").arg(format!(
        "memory-backend-file,id=bar,mem-path={},share=on,size={}",
        shared.bar.display(),
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
            .arg(plugin_argument(machine, &plugin, shared));
    }
    q
}

/// Without two features string copies are emulated a byte at a time. Events of a CPU are looked for by its name.
fn cpu_model(machine: &Machine) -> &'static str {
    match machine.core_events {
        Some(CoreEvents::Zen5) => {
            "max,-erms,-fsrm,vendor=AuthenticAMD,family=26,model=2,stepping=1"
        }
        Some(CoreEvents::GraniteRapids) => {
            "max,-erms,-fsrm,vendor=GenuineIntel,family=6,model=173,stepping=1"
        }
        None => "max,-erms,-fsrm",
    }
}

fn plugin_argument(machine: &Machine, plugin: &Path, shared: &SharedFiles) -> String {
    let sizes: Vec<String> = machine
        .groups_mib
        .iter()
        .map(|m| (m << 20).to_string())
        .collect();
    let values = [
        ("ledger", shared.ledger.display().to_string()),
        ("bar", shared.bar.display().to_string()),
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
    if let Some(stream) = shared.stream {
        text += &format!(",stream={}", stream.display());
    }
    text
}
