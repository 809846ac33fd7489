// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cells of the matrix: each pair from both sides, over thread counts, the greatest effect as the cell's.

use super::ask::{PathModel, StreamAnswer};
use super::pair::{Side, StreamPair};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use weir_hw::host_path::{HostStream, Lever};
use weir_report::interference::class::InfluenceClass;
use weir_report::interference::document::{
    InterferenceCell, InterferenceStream, StreamFigures, SweepPoint, WaitCounters,
};

/// A wait that is longer by this part of a whole access is named as the place.
const PLACE_RATIO: f64 = 0.05;

struct CellPoint {
    threads: (u32, u32),
    alone: StreamAnswer,
    together: StreamAnswer,
}

impl CellPoint {
    fn ratio(&self) -> f64 {
        self.together.bytes_per_sec() / self.alone.bytes_per_sec()
    }

    fn effect(&self) -> f64 {
        self.ratio().max(1e-12).ln().abs()
    }
}

/// The two cells of each pair, in the order of the pairs: first under second, second under first.
///
/// # Errors
/// The streams of a pair do not fit the machine.
pub fn cells(
    model: &PathModel,
    pairs: &[StreamPair],
    levers: &[Lever],
) -> Result<Vec<InterferenceCell>> {
    let mut all = Vec::with_capacity(2 * pairs.len());
    for pair in pairs {
        all.push(cell(model, (&pair.first, &pair.second), levers)?);
        all.push(cell(model, (&pair.second, &pair.first), levers)?);
    }
    Ok(all)
}

fn cell(model: &PathModel, sides: (&Side, &Side), levers: &[Lever]) -> Result<InterferenceCell> {
    let (victim, background) = sides;
    let mut points = Vec::new();
    for &own in &victim.counts {
        let stream = with_threads(&victim.stream, own);
        let alone = model.plain(std::slice::from_ref(&stream))?.streams[0];
        for &others in &background.counts {
            let beside = with_threads(&background.stream, others);
            let mix = model.levered(&[stream.clone(), beside], 1, levers)?;
            points.push(CellPoint {
                threads: (own, others),
                alone,
                together: mix.streams[0],
            });
        }
    }
    points.sort_by_key(|point| (point.threads.1, point.threads.0));
    of_points(model, sides, &points)
}

fn with_threads(stream: &HostStream, threads: u32) -> HostStream {
    HostStream {
        threads,
        ..stream.clone()
    }
}

fn of_points(
    model: &PathModel,
    sides: (&Side, &Side),
    points: &[CellPoint],
) -> Result<InterferenceCell> {
    let greatest = points
        .iter()
        .max_by(|a, b| a.effect().total_cmp(&b.effect()));
    let greatest = greatest.context("a stream has no number of threads")?;
    let (victim, background) = greatest.threads;
    let ratio = greatest.ratio();
    let class = InfluenceClass::of(ratio);
    let counters = greatest.together.counters;
    let sweep = match points.len() {
        1 => Vec::new(),
        _ => points.iter().map(sweep_point).collect(),
    };
    Ok(InterferenceCell {
        victim: stream(model, &with_threads(&sides.0.stream, victim)),
        background: stream(model, &with_threads(&sides.1.stream, background)),
        alone: greatest.alone.figures,
        together: greatest.together.figures,
        ratio: Some(ratio),
        ratio_low: Some(ratio),
        ratio_high: Some(ratio),
        repeats: 1,
        interferes: Some(class != InfluenceClass::None),
        class: vec![class],
        counters,
        sweep,
        placements: Vec::new(),
        place: Some(place(greatest)),
        missing: missing(&greatest.together.figures, &counters),
    })
}

fn sweep_point(point: &CellPoint) -> SweepPoint {
    let ratio = Some(point.ratio());
    SweepPoint {
        victim_threads: point.threads.0,
        background_threads: point.threads.1,
        ratio,
        ratio_low: ratio,
        ratio_high: ratio,
        repeats: 1,
        alone: point.alone.figures,
        together: point.together.figures,
    }
}

/// The stream as documents have it.
fn stream(model: &PathModel, stream: &HostStream) -> InterferenceStream {
    let ssd = model
        .machine
        .ssd
        .as_ref()
        .filter(|_| stream.op.is_storage());
    let is_direct = model.machine.is_direct(stream);
    InterferenceStream {
        target: stream.target.clone(),
        op: stream.op.name().to_owned(),
        threads: stream.threads,
        width_bytes: ssd.is_none().then_some(64),
        block_bytes: ssd.map(|ssd| ssd.block_bytes),
        depth: ssd.map(|ssd| if is_direct { ssd.depth } else { 1 }),
        direct: ssd.map(|_| is_direct),
    }
}

/// Where the victim's requests wait that would not wait alone.
fn place(point: &CellPoint) -> String {
    let (alone, together) = (point.alone.counters, point.together.counters);
    let more = |pick: fn(&WaitCounters) -> Option<f64>| {
        pick(&together).unwrap_or(0.0) - pick(&alone).unwrap_or(0.0)
    };
    let wait = more(|counters| counters.admission_wait_ns);
    let memory = more(|counters| counters.l3_miss_latency_ns);
    let whole = alone.l2_miss_latency_ns.unwrap_or(100.0);
    if wait > memory.max(PLACE_RATIO * whole) {
        return format!(
            "Before admission: each request waits {wait:.0} ns more for a tracker than alone."
        );
    }
    if memory > PLACE_RATIO * whole {
        return format!("In the memory: each access lasts {memory:.0} ns longer than alone.");
    }
    "No request waits longer than alone.".to_owned()
}

/// Why figures are null.
fn missing(figures: &StreamFigures, counters: &WaitCounters) -> BTreeMap<String, String> {
    let mut missing = BTreeMap::new();
    let mut note = |is_null: bool, names: &[&str], why: &str| {
        for name in names.iter().filter(|_| is_null) {
            missing.insert((*name).to_owned(), why.to_owned());
        }
    };
    note(
        figures.ops_per_sec.is_none(),
        &["alone.ops_per_sec", "together.ops_per_sec"],
        "a stream of memory accesses has no I/O",
    );
    note(
        figures.cpu_ns_per_op.is_none(),
        &["alone.cpu_ns_per_op", "together.cpu_ns_per_op"],
        "a stream of memory accesses has no I/O",
    );
    note(
        counters.l2_miss_latency_ns.is_none(),
        &["counters.l2_miss_latency_ns", "counters.l3_miss_latency_ns"],
        "no core waits for the data of this stream",
    );
    for (name, value, target) in [
        ("ddr", counters.tracker_residence_ddr_ns, "mmem"),
        ("cxl", counters.tracker_residence_cxl_ns, "cxl"),
    ] {
        let name = format!("counters.tracker_residence_{name}_ns");
        let why = format!("the machine file has no {target}");
        note(value.is_none(), &[&name], &why);
    }
    missing
}
