// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often weir's discovery lowered its niceness to scan memory. Among many tasks that wait for a CPU it
//! must, or the kernel waits for it. Elsewhere it must not, or it takes CPU time from limited tasks.

use super::until;
use anyhow::{Context, Result};
use weir_testbed::vm::Vm;

const TRACING: &str = "/sys/kernel/tracing";
const SWITCH: &str = "events/syscalls/sys_enter_setpriority/enable";

/// Begins to count.
///
/// # Errors
/// The guest's kernel does not trace system calls.
pub fn watch(vm: &Vm) -> Result<()> {
    vm.run(&format!(
        "[ -e {TRACING}/trace ] || mount -t tracefs tracefs {TRACING}; cd {TRACING}; echo > trace; echo 1 > {SWITCH}"
    ))
    .map(drop)
    .context("system calls cannot be traced")
}

/// Waits for one: discovery makes a round when it has the time. There is a new process each time, with memory
/// that discovery does not know. It scans no memory without a sign of a change.
///
/// # Errors
/// There is none.
pub fn await_change(vm: &Vm) -> Result<()> {
    let new = "sleep 5 > /dev/null 2>&1 < /dev/null &";
    let seen = format!("grep -q '^ *weir-discovery' {TRACING}/trace");
    until(vm, &format!("{{ {new} }}; {seen}")).context("no change of niceness")
}

/// Changes of niceness by discovery since then. Ends the counting.
///
/// # Errors
/// The guest's.
pub fn changes(vm: &Vm) -> Result<u64> {
    let count =
        format!("cd {TRACING}; echo 0 > {SWITCH}; grep -c '^ *weir-discovery' trace || true");
    let count = vm.run(&count)?;
    count
        .trim()
        .parse()
        .with_context(|| format!("no count: {count:?}"))
}
