// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host says of a process.

/// What the threads of a process do, a line each: name, state, CPU time so far in ticks (user, system), and
/// where in the kernel it sleeps.
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

/// Whether a user has stopped a process (`SIGSTOP`).
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
