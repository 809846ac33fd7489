// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting until something is so in a guest. Its agent polls files by itself; a shell that polls forks
//! programs each time, and is for what only programs can say.

use super::{LINES, SLICE, attempt};
use anyhow::Result;
use std::time::Duration;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

/// How often a shell polls before it gives up: for a minute of the guest's time and more.
const POLLS: u32 = 600;
/// The longest time that a shell's polls may take.
const MOST: Duration = Duration::from_secs(240);
/// Far longer than that.
const PATIENCE: Duration = Duration::from_secs(600);

pub enum Awaited {
    Files(Condition),
    /// That a shell's command succeeds.
    Shell(String),
}

impl From<Condition> for Awaited {
    fn from(condition: Condition) -> Self {
        Awaited::Files(condition)
    }
}

impl From<&str> for Awaited {
    fn from(shell: &str) -> Self {
        Awaited::Shell(shell.to_owned())
    }
}

impl From<&String> for Awaited {
    fn from(shell: &String) -> Self {
        Awaited::Shell(shell.clone())
    }
}

/// Waits until a condition holds in the guest.
///
/// # Errors
/// It never does: with weir's last words.
pub fn until(vm: &Vm, wanted: impl Into<Awaited>) -> Result<()> {
    let (has_come, words) = match wanted.into() {
        Awaited::Files(condition) => (vm.wait_until(&condition, MOST)?, format!("{condition:?}")),
        Awaited::Shell(shell) => {
            let script = format!(
                "for i in $(seq {POLLS}); do {{ {shell}; }} && exit 0; sleep 0.1; done; exit 1"
            );
            let reply = vm.try_run(&script, PATIENCE)?;
            (
                reply.status == Some(0),
                format!("{shell}\n{}", reply.stderr),
            )
        }
    };
    if !has_come {
        let log = format!("tail -n 20 {LINES}.err; tail -n 1 {LINES}; ps ax; cat /run/out.txt");
        let log = attempt(vm, &log)?.stdout;
        anyhow::bail!("it never came to this: {words}\nthe last words: {log}");
    }
    Ok(())
}

/// Whether a condition holds in the guest now.
///
/// # Errors
/// The guest is gone.
pub fn holds(vm: &Vm, condition: &Condition) -> Result<bool> {
    vm.wait_until(condition, Duration::ZERO)
}

/// A condition: the file has a line with this in it, where `*` stands for anything.
pub fn says(path: &str, pattern: &str) -> Condition {
    Condition::Says(path.to_owned(), pattern.to_owned())
}

/// A condition: this is all that the file says.
pub fn is(path: &str, text: &str) -> Condition {
    Condition::Is(path.to_owned(), text.to_owned())
}

/// A condition: there is something in the file.
pub fn filled(path: &str) -> Condition {
    Condition::Filled(path.to_owned())
}

/// A condition: weir has said this on stderr.
pub fn said(pattern: &str) -> Condition {
    says(&format!("{LINES}.err"), pattern)
}

/// A condition: weir's newest line has this in it.
pub fn last_line_says(pattern: &str) -> Condition {
    Condition::LastSays(LINES.to_owned(), pattern.to_owned())
}

/// A condition: `cpu.max` of this workload is this.
pub fn max_is(name: &str, value: &str) -> Condition {
    is(&format!("{SLICE}/{name}.service/cpu.max"), value)
}

/// A condition: the cgroup at this path has so many processes at least.
pub fn has_processes(path: &str, count: usize) -> Condition {
    Condition::Lines {
        path: format!("{path}/cgroup.procs"),
        from: 0,
        count,
    }
}
