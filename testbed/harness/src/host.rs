// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place on the host's CPUs. The model runs against the wall: other work should wait for it, not
//! the other way round. Without the right to ask, the ledger tells how much time was lost. Tests
//! that do not judge time set `WEIR_VM_NICE` to be modest beside others on the host.

use rustix::process::Pid;
use std::process::{Child, Command, Stdio};

/// Put a QEMU that boots before ordinary work.
pub fn prefer(child: &Child) {
    let nice = asked().unwrap_or(-15);
    let _ = rustix::process::setpriority_process(Some(Pid::from_child(child)), nice);
}

/// Real-time priority for all threads of process or thread `id`. Only once the model is on: a paced guest
/// sleeps, one that boots would take the host for itself. A nice value alone counts only within one session of
/// the host (autogroups), and the guest would feel each compiler that runs in another.
pub fn keep_time(id: u32) {
    if asked().is_some() {
        return;
    }
    let _ = Command::new("chrt")
        .args(["--rr", "--all-tasks", "--pid", "1", &id.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// [`keep_time`] for the calling thread alone.
pub fn keep_my_time() {
    if asked().is_some() {
        return;
    }
    let me = rustix::thread::gettid().as_raw_nonzero();
    let _ = Command::new("chrt")
        .args(["--rr", "--pid", "1", &me.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

fn asked() -> Option<i32> {
    std::env::var("WEIR_VM_NICE").ok()?.parse().ok()
}
