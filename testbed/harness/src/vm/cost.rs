// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What guests cost: their time and the instructions of their vCPUs, which are equal from run to run, and CPU
//! time of the host, which is not. Counted by thread: a guest belongs to the one that booted it.

use anyhow::{Context, Result};
use std::cell::RefCell;
use std::time::Duration;

/// What was spent, or the difference of two such figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU time of the thread and of its guests' QEMU, in seconds.
    pub cpu_sec: f64,
    pub guest: Duration,
    /// Instructions of their vCPUs.
    pub instructions: u64,
}

/// What guests of this thread have cost.
#[derive(Default)]
struct Spent {
    /// Without the CPU time of QEMUs that run.
    spent: Cost,
    /// Those by process, with the CPU time when it was last read: of one that was killed nothing is left to
    /// read, and what it had used is not unused by that.
    running: Vec<(u32, f64)>,
}

impl Spent {
    fn read_again(&mut self) {
        for (pid, used) in &mut self.running {
            *used = cpu_sec(*pid).unwrap_or(*used);
        }
    }
}

thread_local! {
    static SPENT: RefCell<Spent> = RefCell::default();
}

impl Cost {
    /// What this thread and its guests have spent since it began.
    pub fn so_far() -> Cost {
        SPENT.with_borrow_mut(|kept| {
            kept.read_again();
            let running: f64 = kept.running.iter().map(|(_, used)| used).sum();
            Cost {
                cpu_sec: kept.spent.cpu_sec + own_cpu_sec() + running,
                ..kept.spent
            }
        })
    }

    /// What was spent since `before`.
    #[must_use]
    pub fn since(self, before: Cost) -> Cost {
        Cost {
            cpu_sec: self.cpu_sec - before.cpu_sec,
            guest: self.guest - before.guest,
            instructions: self.instructions - before.instructions,
        }
    }
}

pub(crate) fn begins(pid: u32) {
    SPENT.with_borrow_mut(|kept| kept.running.push((pid, 0.0)));
}

pub(crate) fn ends(pid: u32) {
    SPENT.with_borrow_mut(|kept| {
        kept.read_again();
        if let Some(place) = kept.running.iter().position(|(p, _)| *p == pid) {
            kept.spent.cpu_sec += kept.running.swap_remove(place).1;
        }
    });
}

pub(crate) fn adds(guest: Duration, instructions: u64) {
    SPENT.with_borrow_mut(|kept| {
        kept.spent.guest += guest;
        kept.spent.instructions += instructions;
    });
}

/// What is done once and kept is not counted: else the first run would cost more than the next.
pub(crate) fn uncounted<T>(what: impl FnOnce() -> T) -> T {
    let before = SPENT.with_borrow(|kept| kept.spent);
    let done = what();
    SPENT.with_borrow_mut(|kept| kept.spent = before);
    done
}

fn own_cpu_sec() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let at = clock_gettime(ClockId::ThreadCPUTime);
    at.tv_sec as f64 + at.tv_nsec as f64 / 1e9
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_not_counted_and_an_end_counts_once() {
        let begun = Cost::so_far();
        adds(Duration::from_millis(8), 5);
        uncounted(|| adds(Duration::from_millis(100), 100));
        begins(std::process::id());
        let running = Cost::so_far().since(begun);
        assert_eq!((running.guest.as_millis(), running.instructions), (8, 5));
        ends(std::process::id());
        ends(std::process::id());
        let ended = Cost::so_far().since(begun).cpu_sec;
        assert!(ended >= running.cpu_sec, "{running:?}, then {ended}");
        assert!(SPENT.with_borrow(|kept| kept.running.is_empty()));
    }

    #[test]
    fn a_guest_that_was_killed_has_used_what_it_had_used() {
        let begun = Cost::so_far();
        // No process has this number.
        SPENT.with_borrow_mut(|kept| kept.running.push((u32::MAX, 7.0)));
        assert!(Cost::so_far().since(begun).cpu_sec >= 7.0);
        ends(u32::MAX);
        assert!(Cost::so_far().since(begun).cpu_sec >= 7.0);
    }
}
