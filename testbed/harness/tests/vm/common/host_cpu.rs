// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process of the host has used of its CPUs.

use anyhow::{Context, Result};

/// CPU time of a process in seconds, all its threads, user and system (proc(5)).
///
/// # Errors
/// The process is gone.
pub fn cpu_sec(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name ends at the last bracket; the state is field 0 after it, utime 11 and stime 12, in ticks of
    // 10 ms.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("/proc/PID/stat")?;
    Ok((user + system) / 100.0)
}
