// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The JSON lines that weir writes in the guest.

use super::{LINES, json, until};
use anyhow::Result;
use serde_json::Value;
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

/// Waits until weir has written its next line, so that it has seen what is now.
///
/// # Errors
/// It does not.
pub fn next_line(vm: &Vm) -> Result<()> {
    // Two more: the tick under way when this began may have observed already.
    lines_more(vm, 2)
}

/// Waits until weir has written so many more lines. Earlier lines are not read again.
///
/// # Errors
/// It does not.
pub fn lines_more(vm: &Vm, count: u32) -> Result<()> {
    let size = vm.run(&format!("stat -c %s {LINES}"))?;
    let (path, from) = (LINES.to_owned(), size.trim().parse()?);
    let count = count as usize;
    until(vm, Condition::Lines { path, from, count })
}

/// weir's snapshots so far. The last line may be half written.
///
/// # Errors
/// There is none.
pub fn snapshots(vm: &Vm) -> Result<Vec<Value>> {
    let text = vm.run(&format!("cat {LINES}"))?;
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|l| serde_json::from_str(l).ok())
        .collect();
    if lines.is_empty() {
        let said = vm.run(&format!("cat {LINES}.err"))?;
        anyhow::bail!("weir wrote no line, but said: {said}");
    }
    Ok(lines)
}

/// The newest of them but one, which is there in full.
///
/// # Errors
/// There is none.
pub fn newest(vm: &Vm) -> Result<Value> {
    json(vm, &format!("tail -n 2 {LINES} | head -n 1"))
}
