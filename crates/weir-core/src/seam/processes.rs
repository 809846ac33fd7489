// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes of a workload, for screens: the busiest ones, each with its CPU use and its part of the
//! workload's CPU time.
//!
//! A workload's bytes are known, those of a process in it are not. As in the last resort of
//! [`crate::rates::attribution`] its part of the CPU time is taken for its part of the bytes; unlike there,
//! the memory of each process on a device is not read. It is an estimate, and wrong for a process that
//! computes beside one that reads.

use crate::units::{CpuShare, Nanos};
use serde::{Deserialize, Serialize};

/// Processes that are named; the others are counted.
pub const BUSIEST_MAX: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processes {
    /// When they were read, on the platform's monotonic clock. CPU use is a mean over the seconds before.
    pub at: Nanos,
    /// At most [`BUSIEST_MAX`], the busiest first.
    pub busiest: Vec<Process>,
    pub others: Others,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Its own name for itself: any characters.
    pub comm: String,
    /// CPU use between the last two scans; nothing for one that is new.
    pub cpu_cpus: Option<CpuShare>,
    /// Its part of the workload's CPU time, and by estimate of its bytes: 0 to 1. Nothing where no process
    /// ran.
    pub part_ratio: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Others {
    pub count: u32,
    pub cpu_cpus: Option<CpuShare>,
    pub part_ratio: Option<f64>,
}

impl Processes {
    /// What was seen at `at`: id, name, and CPU time with the time it was used in, where that is known.
    pub fn of<'a>(
        at: Nanos,
        seen: impl Iterator<Item = (u32, &'a str, Option<(Nanos, Nanos)>)>,
    ) -> Processes {
        let cpus = |(cpu, span): (Nanos, Nanos)| CpuShare::over(cpu, span);
        let mut seen: Vec<(u32, &str, Option<CpuShare>)> = seen
            .map(|(pid, comm, cpu_time)| (pid, comm, cpu_time.filter(|s| s.1 > Nanos(0)).map(cpus)))
            .collect();
        let use_of = |cpus: Option<CpuShare>| cpus.map_or(0.0, CpuShare::get);
        seen.sort_by(|a, b| use_of(b.2).total_cmp(&use_of(a.2)).then(a.0.cmp(&b.0)));
        let sum: f64 = seen.iter().map(|s| use_of(s.2)).sum();
        let part = |cpus: Option<CpuShare>| Some(cpus?.get() / sum).filter(|_| sum > 0.0);
        let rest = seen.split_off(seen.len().min(BUSIEST_MAX));
        let known = rest.iter().filter_map(|s| s.2).map(CpuShare::get);
        let rest_cpus = known.reduce(|a, b| a + b).map(CpuShare::new);
        let process = |(pid, comm, cpus): (u32, &str, Option<CpuShare>)| Process {
            pid,
            comm: comm.to_owned(),
            cpu_cpus: cpus,
            part_ratio: part(cpus),
        };
        Processes {
            at,
            busiest: seen.into_iter().map(process).collect(),
            others: Others {
                count: u32::try_from(rest.len()).unwrap_or(u32::MAX),
                cpu_cpus: rest_cpus,
                part_ratio: part(rest_cpus),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn cpu_time(milli_cpus: u64) -> Option<(Nanos, Nanos)> {
        Some((Nanos(2 * milli_cpus * 1_000_000), Nanos(2 * SECOND)))
    }

    #[test]
    fn the_busiest_come_first_and_parts_are_of_the_whole() {
        let seen = [
            (7, "idle", cpu_time(0)),
            (8, "new", None),
            (9, "busy", cpu_time(1500)),
            (5, "half", cpu_time(500)),
        ];
        let summary = Processes::of(Nanos(3), seen.into_iter());
        let row = |p: &Process| (p.pid, p.cpu_cpus.map(CpuShare::get), p.part_ratio);
        let rows: Vec<_> = summary.busiest.iter().map(row).collect();
        let wanted = [
            (9, Some(1.5), Some(0.75)),
            (5, Some(0.5), Some(0.25)),
            (7, Some(0.0), Some(0.0)),
            (8, None, None),
        ];
        assert_eq!((rows, summary.at), (wanted.to_vec(), Nanos(3)));
        assert_eq!(summary.others, Others::default());
    }

    #[test]
    fn processes_above_the_bound_are_summed() {
        let count = u32::try_from(BUSIEST_MAX).unwrap();
        let seen = (0..count + 3).map(|pid| (pid, "x", cpu_time(1000)));
        let summary = Processes::of(Nanos(0), seen);
        assert_eq!(summary.busiest.len(), BUSIEST_MAX);
        let others = summary.others;
        assert_eq!(
            (others.count, others.cpu_cpus),
            (3, Some(CpuShare::new(3.0)))
        );
        let parts = summary.busiest.iter().filter_map(|p| p.part_ratio);
        let sum: f64 = parts.chain(others.part_ratio).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn where_no_process_ran_nothing_is_divided() {
        for cpu_time in [None, cpu_time(0), Some((Nanos(5), Nanos(0)))] {
            let summary = Processes::of(Nanos(0), [(1, "x", cpu_time)].into_iter());
            assert_eq!(summary.busiest[0].part_ratio, None);
        }
        assert!(
            Processes::of(Nanos(0), std::iter::empty())
                .busiest
                .is_empty()
        );
    }
}
