// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the scheduler did: its statistics for screens, and a report where the kernel took it out.

use super::Scx;
use super::intf::{DeviceCtx, EnqueueStats, ExitInfo, WorkloadCtx};
use crate::kernel::skeletons::sched::WEIR_SCALE_BITS;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use weir_core::seam::sched_stats::{DeviceStats, EnqueueCost, Mode, SchedStats, WorkloadStats};
use weir_core::{Bytes, DeviceId, Nanos, WorkloadId};
use weir_files::{Access, Folder};

/// In the directory of weir's run-time files: the last time the kernel took the scheduler out.
pub(crate) const REPORT: &str = "scheduler-end.txt";
/// Scales have this value for 1 (`WEIR_SCALE_ONE`).
const SCALE_ONE: f64 = (1_u64 << WEIR_SCALE_BITS) as f64;

impl Scx {
    /// Nothing while it is not in the kernel.
    pub(crate) fn books(&self) -> Option<SchedStats> {
        let loaded = self.loaded.as_ref()?;
        let life = loaded.life()?;
        let device = |index: u32| loaded.meter(index).map(|m| device_books(index, &m));
        let workload = |(id, slot): (&WorkloadId, u32)| {
            let is_limited = self.holds.get(id).is_some_and(|h| !h.is_leaving);
            Some((id.clone(), workload_books(is_limited, &loaded.count(slot)?)))
        };
        Some(SchedStats {
            mode: if self.rule.takes_all() {
                Mode::Full
            } else {
                Mode::Partial
            },
            ticks: life.ticks,
            tick_cost_ns: Nanos(life.tick_cost_ns),
            suspensions: life.suspensions,
            stalled_dispatches: life.stalled_dispatches,
            longest_gap_ns: Nanos(life.longest_gap_ns),
            enqueue: enqueue(&loaded.costs()),
            devices: (0..self.devices_told()).filter_map(device).collect(),
            workloads: self.slots_in_use().filter_map(workload).collect(),
        })
    }

    fn slots_in_use(&self) -> impl Iterator<Item = (&WorkloadId, u32)> {
        let holds = self.holds.iter().map(|(id, hold)| (id, hold.slot));
        holds.chain(self.guarded.iter().map(|(id, g)| (id, g.slot)))
    }

    fn devices_told(&self) -> u32 {
        u32::try_from(self.beat.devices).unwrap_or(0)
    }

    /// Keeps what is known of the scheduler's end: the kernel's words and the statistics.
    pub(super) fn report(&self, end: &ExitInfo) {
        let path = self.roots.run.join(REPORT);
        match write_report(&self.roots.run, &self.report_text(end)) {
            Ok(()) => tracing::warn!("what is known of that is in {}", path.display()),
            Err(e) => tracing::warn!("{}: cannot be written: {e}", path.display()),
        }
    }

    fn report_text(&self, end: &ExitInfo) -> String {
        let mut text = format!("{}\nkind {}\n\n", end.text, end.kind);
        if let Some(loaded) = &self.loaded {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{:?}\n{:?}", self.beat, loaded.life());
            for index in 0..self.devices_told() {
                let _ = writeln!(text, "device {index}: {:?}", loaded.meter(index));
            }
            for (id, slot) in self.slots_in_use() {
                let _ = writeln!(text, "{id}: {:?}", loaded.count(slot));
            }
            for (cpu, cost) in loaded.costs().iter().enumerate() {
                let _ = writeln!(text, "cpu {cpu}: {cost:?}");
            }
        }
        let _ = writeln!(text, "\n{}", end.dump);
        harmless(&text)
    }
}

/// Any user can choose names of tasks and cgroups: they must not reach a terminal as a command.
fn harmless(text: &str) -> String {
    let plain = |c: char| {
        if c == '\n' || c == '\t' || !c.is_control() {
            c
        } else {
            '?'
        }
    };
    text.chars().map(plain).collect()
}

fn enqueue(costs: &[EnqueueStats]) -> EnqueueCost {
    let sum = |of: fn(&EnqueueStats) -> u64| costs.iter().map(of).sum();
    EnqueueCost {
        count: sum(|c| c.enqueues),
        timed: sum(|c| c.timed),
        timed_ns: Nanos(sum(|c| c.timed_ns)),
        worst_ns: Nanos(costs.iter().map(|c| c.worst_ns).max().unwrap_or(0)),
    }
}

fn device_books(index: u32, meter: &DeviceCtx) -> DeviceStats {
    DeviceStats {
        id: DeviceId(index),
        scale_ratio: meter.scale as f64 / SCALE_ONE,
        lost_intervals: meter.lost,
        failed_reads: meter.failed_reads,
        ext_updates: meter.ext_updates,
        capped_ticks: meter.capped_ticks,
    }
}

fn workload_books(is_limited: bool, count: &WorkloadCtx) -> WorkloadStats {
    WorkloadStats {
        is_limited,
        budget_bytes: count.budget_bytes.cast_signed(),
        charged_bytes: Bytes(count.charged_bytes),
        runs: count.runs,
        parks: count.parks,
        parked_ns: Nanos(count.parked_ns),
        worst_wait_ns: Nanos(count.worst_ns),
        starvation_runs: count.starvation_runs,
        preempts: count.preempts,
        waiting: count.waiting,
    }
}

fn write_report(run: &Path, text: &str) -> io::Result<()> {
    let next = format!(".{REPORT}.next");
    let mut new = Folder::open(run)?.begin_as(REPORT, &next, Access::Private)?;
    new.write_all(text.as_bytes())?;
    new.replace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_no_commands_for_terminals() {
        assert_eq!(harmless("a\u{1b}[2J\r\nb\tc\u{9b}"), "a?[2J?\nb\tc?");
    }

    #[test]
    fn a_report_replaces_the_last_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(REPORT);
        write_report(dir.path(), "one, longer").unwrap();
        write_report(dir.path(), "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "keep").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        write_report(dir.path(), "three").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "keep");
    }

    #[test]
    fn costs_of_cpus_add_up() {
        let one = |worst_ns| EnqueueStats {
            enqueues: 100,
            timed: 2,
            timed_ns: 30,
            worst_ns,
        };
        let all = enqueue(&[one(20), one(25)]);
        assert_eq!((all.count, all.timed, all.worst_ns), (200, 4, Nanos(25)));
        assert_eq!(all.mean_ns(), Some(Nanos(15)));
    }

    #[test]
    fn debts_are_below_zero() {
        let count = WorkloadCtx {
            budget_bytes: u64::MAX,
            ..WorkloadCtx::default()
        };
        assert_eq!(workload_books(true, &count).budget_bytes, -1);
    }
}
