// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions about weir while it holds a device, by its scheduler or by `cpu.max`.

use super::{LINES, Questions, bytes_per_sec, is, said, until};
use anyhow::{Result, ensure};
use weir_testbed::vm::Vm;
use weir_testbed::vm::condition::Condition;

/// A twelfth of the device's capacity.
pub const SET_POINT: &str = "8MiB/s";

/// sched_ext's state, in the guest.
pub const STATE: &str = "/sys/kernel/sched_ext/state";

/// A condition: a scheduler is in the kernel, or none is.
#[must_use]
pub fn state(word: &str) -> Condition {
    is(STATE, word)
}

/// Prints what may explain a failure: weir's log, the kernel's log, and the scheduler's maps.
pub fn say_why(vm: &Vm) {
    let log = format!("tail -n 30 {LINES}.err; dmesg | tail -n 40; cat {STATE}");
    println!("{}", vm.run(&log).unwrap_or_default());
    for map in [
        "sched_stats",
        "device_ctxs",
        "device_cfgs",
        "workload_cfgs",
        "workload_ctxs",
    ] {
        let first = format!("bpftool map dump name {map} | head -n 60");
        println!("{map}: {}", vm.run(&first).unwrap_or_default());
    }
}

/// Puts a question about weir's scheduler. If the answer is no, prints what may explain it, and prepares for
/// the next question: weir ends, and `tidy` takes away what the question left behind.
pub fn ask_about_scheduler(
    questions: &mut Questions,
    vm: &Vm,
    tidy: &str,
    name: &str,
    question: impl FnOnce(&Vm) -> Result<()>,
) {
    questions.ask(name, || {
        question(vm).inspect_err(|_| {
            say_why(vm);
            let end = "killall -TERM weir; sleep 2; killall -KILL weir; weir reset; true";
            let _ = vm.run(&format!("{tidy}; {end}"));
        })
    });
}

/// Whether weir holds the device near [`SET_POINT`], over six seconds.
///
/// # Errors
/// It does not, or the guest's.
pub fn is_held(vm: &Vm) -> Result<()> {
    is_between(vm, 0.5, 1.5)
}

/// Like [`is_held`], for full mode, where only weir's scheduler decides: some 0.1 % is usual.
///
/// # Errors
/// Those of [`is_held`].
pub fn is_held_closely(vm: &Vm) -> Result<()> {
    is_between(vm, 0.95, 1.05)
}

/// Whether weir holds the device below [`SET_POINT`] while ordinary tasks interrupt the limited ones. Those
/// leave them half of the set-point and less (0.49 to 0.62 of it in three runs), but do not starve them.
///
/// # Errors
/// As [`is_held`].
pub fn is_held_beside_ordinary_tasks(vm: &Vm) -> Result<()> {
    is_between(vm, 0.25, 1.5)
}

/// Bandwidth over six seconds, as a part of [`SET_POINT`], is between these.
fn is_between(vm: &Vm, above: f64, below: f64) -> Result<()> {
    let wanted = 8.0 * 1_048_576.0;
    let held = bytes_per_sec(vm, 6)?;
    println!("{held:.0} bytes a second with weir, {wanted:.0} wanted");
    ensure!(
        (above..below).contains(&(held / wanted)),
        "{held} instead of {wanted}"
    );
    Ok(())
}

/// Waits until both readers are limited: one with memory that weir did not find yet is not.
///
/// # Errors
/// One of them is not limited in a minute, or the guest's.
pub fn both_are_limited(vm: &Vm) -> Result<()> {
    ["a", "b"]
        .iter()
        .try_for_each(|name| until(vm, said(&format!("{name}.service: limited"))))
}

/// A command that sends a signal to all processes with such a name. Those of stress-ng have names of their
/// own (`stress-ng-affin`), and outlive the one that began them.
pub fn signal_named(signal: &str, name: &str) -> String {
    format!(
        "for p in /proc/[0-9]*; do read name < $p/comm && case $name in {name}) kill -{signal} ${{p##*/}};; esac
         done 2> /dev/null; true"
    )
}

/// A command that ends all processes with such a name. One that was made while the others got their signal is
/// found by the next look; it ends when a look finds none.
pub fn kill_named(name: &str) -> String {
    format!(
        "found=1; while [ $found -gt 0 ]; do found=0
             for p in /proc/[0-9]*; do
                 read name < $p/comm && case $name in {name}) ;; *) continue;; esac
                 read pid comm state rest < $p/stat && [ $state != Z ] || continue
                 found=$((found + 1)); kill -KILL ${{p##*/}}
             done 2> /dev/null
         done; true"
    )
}
