// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of a run that goes on, as InfluxDB lines: the tables, columns and words of exports, and a
//! test that compares the two. `host` stands where a recording has its session.

use super::influx::Influx;
use super::tables::Source;
use super::{Cell, Table, spelled};
use crate::rollup::{DeviceRow, Span, WorkloadRow, outcome_code, word};
use crate::writer::signed;
use std::collections::BTreeMap;
use weir_core::seam::observation::LatencyReading;
use weir_core::seam::plan::{ActionKind, Outcome, Plan};
use weir_core::{DeviceId, Nanos, WorkloadId};

pub struct Live {
    devices: Influx<()>,
    workloads: Influx<()>,
    actions: Influx<()>,
    every: Nanos,
    interval: Nanos,
    with_workloads: bool,
    last_at: Option<Nanos>,
    last_unix_ms: u64,
    span: Span,
    throttled: BTreeMap<WorkloadId, Nanos>,
    text: String,
}

impl Live {
    /// Figures are means over `every`, of ticks that come each `interval`. Without workloads there are
    /// only devices: names of processes would be series for ever.
    pub fn new(host: &str, every: Nanos, interval: Nanos, with_workloads: bool) -> Live {
        let influx = |table: Table| {
            let Source { name, columns, .. } = table.source();
            Influx::new(name, columns, ()).tagged("host", host)
        };
        Live {
            devices: influx(Table::Devices),
            workloads: influx(Table::Workloads),
            actions: influx(Table::Actions),
            every,
            interval,
            with_workloads,
            last_at: None,
            last_unix_ms: 0,
            span: Span::default(),
            throttled: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// Takes in a tick, which was seen at this time, and gives the lines if a span ends with it.
    pub fn add(
        &mut self,
        wall_unix_ms: u64,
        plan: &Plan,
        outcomes: &[Outcome],
        latencies: &[LatencyReading],
    ) -> Option<String> {
        let dt = self.last_at.and_then(|before| plan.at.since(before));
        (self.last_at, self.last_unix_ms) = (Some(plan.at), wall_unix_ms);
        self.span.add(0, dt.unwrap_or_default(), plan, latencies);
        if self.with_workloads {
            self.add_actions(wall_unix_ms, plan, outcomes);
        }
        self.span
            .is_done(self.every, self.interval)
            .then(|| self.end())
    }

    /// The lines of a span that ends with the last tick, whole or not.
    pub fn end(&mut self) -> String {
        let span = std::mem::take(&mut self.span);
        if span.span.0 > 0 {
            self.add_figures(self.last_unix_ms, &span);
        }
        self.throttled = span.ends();
        std::mem::take(&mut self.text)
    }

    fn add_actions(&mut self, wall_unix_ms: u64, plan: &Plan, outcomes: &[Outcome]) {
        for (place, action) in plan.actions.iter().enumerate() {
            let outcome = outcomes.get(place).map(|o| outcome_code(&o.result));
            let cells = cells(Table::Actions, |column| match column {
                "wall_unix_ms" => whole(Some(signed(wall_unix_ms))),
                "workload" => text(Some(action.workload.as_str())),
                "limit_cpus" => match action.kind {
                    ActionKind::Limit(limit) => Cell::Real(limit.cpus().get()),
                    ActionKind::Release => Cell::Missing,
                },
                "outcome" => text(outcome.and_then(|(code, _)| word("outcome", code))),
                "detail" => text(outcome.and_then(|(_, why)| why)),
                _ => Cell::Missing,
            });
            self.text += &self.actions.line(&cells).unwrap_or_default();
        }
    }

    fn add_figures(&mut self, end_unix_ms: u64, span: &Span) {
        let place = |column: &str| match column {
            "end_unix_ms" => Some(whole(Some(signed(end_unix_ms)))),
            "span_ns" => Some(whole(Some(signed(span.span.0)))),
            _ => None,
        };
        for (device, figures) in &span.devices {
            let row = figures.row(span.span);
            let cells = cells(Table::Devices, |column| {
                place(column).unwrap_or_else(|| device_cell(*device, &row, column))
            });
            self.text += &self.devices.line(&cells).unwrap_or_default();
        }
        let workloads = span.workloads.iter().filter(|_| self.with_workloads);
        for (id, figures) in workloads {
            let row = figures.row(span.span, self.throttled.get(id).copied());
            let cells = cells(Table::Workloads, |column| {
                place(column).unwrap_or_else(|| workload_cell(id, &row, column))
            });
            self.text += &self.workloads.line(&cells).unwrap_or_default();
        }
    }
}

fn cells(table: Table, cell: impl Fn(&str) -> Cell) -> Vec<Cell> {
    let columns = table.source().columns.iter();
    columns.map(|(name, _)| cell(name)).collect()
}

fn device_cell(device: DeviceId, row: &DeviceRow, column: &str) -> Cell {
    match column {
        "device" => whole(Some(i64::from(device.0))),
        "read_bytes_per_sec" => whole(row.read_bytes_per_sec),
        "write_bytes_per_sec" => whole(row.write_bytes_per_sec),
        "unattributed_bytes_per_sec" => whole(row.unattributed_bytes_per_sec),
        "set_point_bytes_per_sec" => whole(row.set_point_bytes_per_sec),
        "correction_ratio" if row.correction_ratio.is_finite() => Cell::Real(row.correction_ratio),
        "latency_ns" => whole(row.latency_ns),
        "unknown_ns" => whole(Some(row.unknown_ns)),
        _ => Cell::Missing,
    }
}

fn workload_cell(id: &WorkloadId, row: &WorkloadRow, column: &str) -> Cell {
    match column {
        "workload" => text(Some(id.as_str())),
        "bytes_per_sec" => whole(row.bytes_per_sec),
        "provenance" => text(word("provenance", row.provenance)),
        "unknown_ns" => whole(Some(row.unknown_ns)),
        "cpu_microcpus" => whole(row.cpu_microcpus),
        "throttled_microcpus" => whole(row.throttled_microcpus),
        "allowed_bytes_per_sec" => whole(row.allowed_bytes_per_sec),
        "limit_microcpus" => whole(row.limit_microcpus),
        "why" => text(word("why", row.why)),
        _ => Cell::Missing,
    }
}

fn whole(value: Option<i64>) -> Cell {
    value.map_or(Cell::Missing, Cell::Whole)
}

fn text(value: Option<&str>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::Text(spelled(value)))
}
