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

/// Real-time priority for all threads of a QEMU. Only while the model is on: a paced guest sleeps, any other
/// would take the host for itself. A nice value alone counts only within one session of the host
/// (autogroups), and the guest would feel each compiler that runs in another.
///
/// The first thread is QEMU's main loop, which raises the guest's timer interrupts and does little else: it comes before the
/// vCPUs. Among its equals it would wait for one of two that catch up, and each timer of the guest would be late by that.
pub fn keep_time(pid: u32) {
    chrt(&["--rr", "--all-tasks", "--pid", "1"], &pid.to_string());
    chrt(&["--rr", "--pid", "2"], &pid.to_string());
}

/// The end of [`keep_time`].
pub fn keep_time_no_more(pid: u32) {
    chrt(&["--other", "--all-tasks", "--pid", "0"], &pid.to_string());
}

/// Real-time priority for the calling thread.
pub fn keep_my_time() {
    let me = rustix::thread::gettid().as_raw_nonzero();
    chrt(&["--rr", "--pid", "1"], &me.to_string());
}

/// What the threads of a process do, a line each: name, state, CPU time so far in ticks (user, system), and where in
/// the kernel it sleeps.
pub fn threads(pid: u32) -> String {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return format!("process {pid} is gone");
    };
    let line = |dir: std::path::PathBuf| {
        let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
        let sleeps = std::fs::read_to_string(dir.join("wchan")).unwrap_or_default();
        let (name, rest) = stat.rsplit_once(')')?;
        let field: Vec<&str> = rest.split_whitespace().collect();
        let (state, user, system) = (field.first()?, field.get(11)?, field.get(12)?);
        Some(format!("{name}) {state} {user} {system} {sleeps}\n"))
    };
    let paths = tasks.flatten().map(|task| task.path());
    paths.filter_map(line).collect()
}

/// Where it may not, time is lost and the ledger tells how much.
fn chrt(options: &[&str], id: &str) {
    if asked().is_some() {
        return;
    }
    let mut command = Command::new("chrt");
    command.args(options).arg(id);
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

fn asked() -> Option<i32> {
    std::env::var("WEIR_VM_NICE").ok()?.parse().ok()
}
