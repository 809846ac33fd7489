// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes below their workload, as rows. The snapshot lists them; their bytes are the
//! workload's by their part of its CPU time.

use super::{Model, TopRow};
use weir_core::rates::attribution::Provenance;
use weir_core::seam::processes::Process;
use weir_core::seam::snapshot::Snapshot;
use weir_core::{BytesPerSec, CpuShare, Nanos, WorkloadId};
use weir_figures::text;

/// What a row below a workload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    pub what: String,
    /// Time since it was read.
    pub age: Option<Nanos>,
}

/// No process: why there is none.
const IN_RECORDING: &str = "recordings do not keep processes";
const NOT_SHOWN: &str = "processes are shown of workloads with memory on a device";

impl Model {
    /// Puts processes below the workloads that are open.
    pub(super) fn open_up(&self, newest: &Snapshot, rows: Vec<TopRow>) -> Vec<TopRow> {
        if self.open.is_empty() {
            return rows;
        }
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let is_open = row.branch.is_none() && self.open.contains(&row.verdict.id);
            let below = if is_open {
                self.below(newest, &row)
            } else {
                Vec::new()
            };
            all.push(row);
            all.extend(below);
        }
        all
    }

    fn below(&self, newest: &Snapshot, row: &TopRow) -> Vec<TopRow> {
        let Some(listed) = newest.processes.get(&row.verdict.id) else {
            let why = if self.is_recorded {
                IN_RECORDING
            } else {
                NOT_SHOWN
            };
            return vec![inner(row, "none", why, (None, None), why.to_owned(), None)];
        };
        let age = newest.plan.at.since(listed.at);
        let name = text::harmless(row.verdict.id.as_str());
        let process = |process: &Process| {
            let comm = text::harmless(&process.comm);
            let label = format!("{} {comm}", process.pid);
            let what = format!("process {} ({comm}) of {name}", process.pid);
            let figures = (process.cpu_cpus, process.part_ratio);
            inner(row, &process.pid.to_string(), &label, figures, what, age)
        };
        let mut rows: Vec<TopRow> = listed.busiest.iter().map(process).collect();
        let others = listed.others;
        if others.count > 0 {
            let label = format!("{} others", others.count);
            let what = format!("{} less busy processes of {name}", others.count);
            let figures = (others.cpu_cpus, others.part_ratio);
            rows.push(inner(row, "others", &label, figures, what, age));
        }
        rows
    }
}

/// A row below `row`.
fn inner(
    row: &TopRow,
    key: &str,
    label: &str,
    (cpu, part): (Option<CpuShare>, Option<f64>),
    what: String,
    age: Option<Nanos>,
) -> TopRow {
    let mut verdict = row.verdict.clone();
    // No cgroup has such a name.
    verdict.id = WorkloadId::new(format!("{}//{key}", row.verdict.id));
    verdict.bandwidth.provenance = Provenance::Apportioned;
    verdict.traffic = None;
    verdict.intensity_bytes_per_cpu_sec = None;
    verdict.limit_cpus = None;
    let of = |rate: BytesPerSec, part: f64| BytesPerSec::new(rate.get() * part);
    TopRow {
        bandwidth: row.bandwidth.zip(part).map(|(rate, part)| of(rate, part)),
        share: row.share.zip(part).map(|(share, part)| share * part),
        cpu,
        label: format!("{}{label}", "  ".repeat(row.depth + 1)),
        keep: 0,
        depth: row.depth + 1,
        inside: Some(Inside { what, age }),
        ..TopRow::leaf(verdict)
    }
}
