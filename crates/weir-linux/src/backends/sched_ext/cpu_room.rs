// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the CPUs have time left for tasks that rank below all others. In partial mode the limited tasks do
//! (`weir_core::enforcement::class_rank`).

use crate::inventory::numa::online;
use crate::kernel::files::{Buffer, open_root};
use crate::kernel::parse::process::runnable;
use crate::options::Roots;

/// How often the tasks that run or wait are counted, and the time between two counts. Some tasks wake at a
/// beat, and a single count would see all of them or none.
const COUNTS: u32 = 5;
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(7);

/// Why partial mode is not to be chosen: as many tasks are runnable as there are CPUs. Which of them will be
/// limited is not known yet, so all count. Where a file cannot be read there is no shortage.
///
/// Tasks of `SCHED_EXT` rank below all ordinary ones. In `thesis-limit` they had 0.9 of the 1.6 CPUs that
/// their limits allow, and the device stayed 25 % below its set-point.
pub(super) fn shortage(roots: &Roots) -> Option<String> {
    let cpus = online(roots).ok()?.len() as u64;
    let proc = open_root(&roots.proc).ok()?;
    let mut buffer = Buffer::new();
    let mut fewest = u64::MAX;
    for count in 0..COUNTS {
        if count > 0 {
            std::thread::sleep(BETWEEN);
        }
        let text = buffer.read_once_at(&proc, "loadavg").ok()?;
        // This thread runs too.
        fewest = fewest.min(runnable(text).ok()?.saturating_sub(1));
    }
    (fewest >= cpus).then(|| {
        format!(
            "{fewest} tasks want {cpus} CPUs, and limited tasks of weir's scheduler would rank below the others \
             (--backend sched-ext-full does not have this)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn said(loadavg: &str) -> Option<String> {
        let fake = Fake::new();
        fake.write("sys/devices/system/cpu/online", "0-1,3\n");
        fake.write("proc/loadavg", loadavg);
        shortage(&fake.roots())
    }

    #[test]
    fn as_many_tasks_as_cpus_leave_none() {
        let why =
            said("0.10 0.20 0.30 4/120 77\n").expect("three beside this thread want three CPUs");
        assert!(
            why.contains("3 tasks want 3 CPUs") && why.contains("sched-ext-full"),
            "{why}"
        );
    }

    #[test]
    fn a_cpu_that_nobody_wants_is_room() {
        assert_eq!(
            said("9.00 9.00 9.00 3/120 77\n"),
            None,
            "averages of minutes ago do not count"
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_reason() {
        for text in ["", "0 0 0 x/y 1\n", "0 0 0\n"] {
            assert_eq!(said(text), None, "{text:?}");
        }
    }
}
