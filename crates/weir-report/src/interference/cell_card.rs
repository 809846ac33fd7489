// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All that is known of one cell.

use crate::interference::document::{InterferenceCell, StreamFigures, SweepPoint};
use crate::interference::sweep_plot::sweep_plot;
use crate::interference::words;
use weir_figures::text::{NONE, bandwidth_unit, in_unit, line, number, time_unit};
use weir_figures::{Cell, Part, Table};

pub fn cell_parts(cell: &InterferenceCell) -> Vec<Part> {
    let mut parts = vec![Part::Words(words::capital(&words::summary(cell)))];
    if let Some(place) = &cell.place {
        parts.push(Part::Words(line(place, 500)));
    }
    parts.push(Part::Table(figures(cell)));
    let title = format!(
        "Change of {} by the number of threads",
        words::pair(&cell.victim, &cell.background)
    );
    if let Some(plot) = sweep_plot(&line(&title, 110), &cell.sweep) {
        parts.push(Part::Picture(plot));
    }
    if !cell.sweep.is_empty() {
        parts.push(Part::Table(sweep(cell)));
    }
    let counters = counters(cell);
    if !counters.is_empty() {
        parts.push(Part::Title("Where requests waited".into()));
        parts.push(Part::Facts(counters));
    }
    if !cell.missing.is_empty() {
        let entry = |(name, reason): (&String, &String)| (line(name, 80), line(reason, 300));
        parts.push(Part::Details {
            summary: format!("{} values are not known", cell.missing.len()),
            parts: vec![Part::Facts(cell.missing.iter().map(entry).collect())],
        });
    }
    parts
}

/// A bandwidth with its unit.
pub fn bandwidth(value: Option<f64>) -> String {
    value.map_or(NONE.into(), |value| in_unit(value, bandwidth_unit(value)))
}

fn time(value: Option<f64>) -> String {
    value.map_or(NONE.into(), |value| in_unit(value, time_unit(value)))
}

fn plain(value: Option<f64>) -> String {
    value.map_or(NONE.into(), number)
}

/// A figure of a stream: its name, its value, how it is shown.
type StreamFigure = (
    &'static str,
    fn(&StreamFigures) -> Option<f64>,
    fn(Option<f64>) -> String,
);

const FIGURES: [StreamFigure; 5] = [
    ("bandwidth", |f| f.bytes_per_sec, bandwidth),
    ("latency", |f| f.latency_ns, time),
    ("latency, 99th percentile", |f| f.latency_p99_ns, time),
    ("operations per second", |f| f.ops_per_sec, plain),
    ("CPU time of an operation", |f| f.cpu_ns_per_op, time),
];

fn figures(cell: &InterferenceCell) -> Table {
    let rows = FIGURES.iter().filter_map(|(name, value, shown)| {
        let (alone, together) = (value(&cell.alone), value(&cell.together));
        (alone.is_some() || together.is_some()).then(|| {
            let ratio = alone
                .zip(together)
                .filter(|(a, _)| *a > 0.0)
                .map(|(a, t)| t / a);
            vec![
                Cell::words(*name),
                Cell::number(shown(alone)),
                Cell::number(shown(together)),
                Cell::number(plain(ratio)),
            ]
        })
    });
    Table::new("", &["", "alone", "together", "together ÷ alone"], rows)
}

fn sweep(cell: &InterferenceCell) -> Table {
    let row = |point: &SweepPoint| {
        let numbers = [
            match point.background_threads {
                1 => "1 thread".to_owned(),
                many => format!("{many} threads"),
            },
            point.victim_threads.to_string(),
            bandwidth(point.together.bytes_per_sec),
            words::change(point.ratio),
            words::interval(point.ratio_low, point.ratio_high),
            point.repeats.to_string(),
        ];
        numbers.map(Cell::number).into()
    };
    let heads = [
        "background",
        "victim's threads",
        "together",
        "change, %",
        "95 % interval",
        "repetitions",
    ];
    Table {
        title: String::new(),
        heads: heads.map(String::from).into(),
        rows: cell.sweep.iter().map(row).collect(),
    }
}

fn counters(cell: &InterferenceCell) -> Vec<(String, String)> {
    let counters = &cell.counters;
    let all = [
        ("wait before admission", counters.admission_wait_ns),
        (
            "residence in trackers, to DRAM",
            counters.tracker_residence_ddr_ns,
        ),
        (
            "residence in trackers, to CXL memory",
            counters.tracker_residence_cxl_ns,
        ),
        ("from a miss of L2", counters.l2_miss_latency_ns),
        (
            "from a miss of the last-level cache",
            counters.l3_miss_latency_ns,
        ),
    ];
    let known = all.into_iter().filter(|(_, value)| value.is_some());
    known
        .map(|(name, value)| (name.into(), time(value)))
        .collect()
}
