// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab bench record`: how large a recording becomes, and what recording, asking and exporting cost.
//!
//! The world is the simulator (virtual time, so that a day takes minutes), the loop's stages are the
//! daemon's: observe, step, apply, record. Times are CPU times of this process; sizes are those of the
//! finished file. Simulated readings are made at one time each and counters end in round numbers less
//! often or more often than real ones: sizes of real recordings differ by some bytes a tick.

use super::BenchRecordArgs;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use weir::lab::{
    BEGAN_UNIX_MS, Exit, builtin_scenarios, policy_name, print, print_json, process_cpu,
};
use weir_core::{BytesPerSec, Config, Nanos, Platform, State, step};
use weir_figures::text::harmless;
use weir_figures::{Cell, Setting, Table as Rows, terminal_table};
use weir_sim::{SimPlatform, WeirOptions};
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recorder, Recording, Start, Tick};

#[derive(Serialize)]
struct RecordingFigures {
    scenario: String,
    hours: f64,
    interval_ms: u64,
    workloads: u64,
    ticks: u64,
    file_bytes: u64,
    bytes_per_workload_hour: f64,
    record_cpu_ns_per_tick: u64,
    replay_cpu_ns_per_tick: u64,
    exports: Vec<Exported>,
}

#[derive(Serialize)]
struct Exported {
    format: &'static str,
    rows: u64,
    bytes: u64,
    cpu_ms: u64,
}

/// More would take days and a disk.
const HOURS_MAX: f64 = 8_784.0;

/// How long is simulated, in seconds.
///
/// # Errors
/// It is no time, longer than a year, or too short for a tick.
fn span_sec(hours: f64, interval_sec: f64) -> Result<f64> {
    if !(hours > 0.0 && hours <= HOURS_MAX) {
        bail!("--hours is {hours}: above 0 and at most {HOURS_MAX} is allowed");
    }
    if interval_sec < 1e-3 {
        bail!("--interval is {interval_sec} s: at least 1ms is allowed");
    }
    let span_sec = hours * 3600.0;
    // The first tick is one interval after the start.
    if span_sec <= interval_sec {
        bail!(
            "--hours is {hours}, which is {span_sec} s: with {interval_sec} s between two ticks there is none in it; \
             give more hours or a shorter --interval"
        );
    }
    Ok(span_sec)
}

/// Measures.
///
/// # Errors
/// There is no such scenario, nothing to measure in it, or no space for the file.
pub fn bench(args: &BenchRecordArgs) -> Result<Exit> {
    let dir = tempfile::tempdir()?;
    let path = args
        .out
        .clone()
        .unwrap_or_else(|| dir.path().join("bench.weir"));
    let recorded = record(args, &path)?;
    ensure!(
        recorded.workload_ticks > 0,
        "the scenario {} has no workload that could be recorded",
        harmless(&args.scenario)
    );
    let recording = Recording::open(&path)?;
    let replay_cpu_ns_per_tick = replayed(&recording, recorded.ticks)?;
    let mut exports = Vec::new();
    for (name, format) in FORMATS {
        exports.push(exported(&recording, name, format)?);
    }
    let file_bytes = std::fs::metadata(&path)
        .context("the recording has gone")?
        .len();
    let workload_hours = recorded.workload_ticks as f64 * args.interval.0.as_secs_f64() / 3600.0;
    let figures = RecordingFigures {
        scenario: args.scenario.clone(),
        hours: args.hours,
        interval_ms: u64::try_from(args.interval.0.as_millis()).unwrap_or(u64::MAX),
        workloads: recorded.workload_ticks / recorded.ticks.max(1),
        ticks: recorded.ticks,
        file_bytes,
        bytes_per_workload_hour: file_bytes as f64 / workload_hours,
        record_cpu_ns_per_tick: recorded.cpu.0 / recorded.ticks.max(1),
        replay_cpu_ns_per_tick,
        exports,
    };
    if args.json {
        print_json(&figures)?;
    } else {
        print(&said(&figures))?;
    }
    Ok(Exit::Done)
}

const FORMATS: [(&str, Format); 4] = [
    ("csv", Format::Csv),
    ("jsonl", Format::JsonLines),
    ("influx", Format::Influx),
    ("parquet", Format::Parquet),
];

struct Recorded {
    ticks: u64,
    workload_ticks: u64,
    cpu: Nanos,
}

/// Runs the scenario for so many hours, under weir's control.
fn record(args: &BenchRecordArgs, path: &Path) -> Result<Recorded> {
    let mut scenario = builtin_scenarios::load(&args.scenario)?.scenario;
    scenario.control.settle_sec = 0.0;
    scenario.control.measure_sec = span_sec(args.hours, args.interval.0.as_secs_f64())?;
    let interval_ms = u64::try_from(args.interval.0.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        policy: scenario.control.policy,
        set_point_bytes_per_sec: Some(BytesPerSec::new(scenario.control.set_point_bytes_per_sec)),
        limit: !args.observe,
        ..Config::default()
    };
    let options = WeirOptions {
        config: config.clone(),
        interval_ms: Some(interval_ms),
        ..WeirOptions::default()
    };
    let mut world = SimPlatform::new(&scenario, &options, 1)?;
    let start = Start {
        started_unix_ms: BEGAN_UNIX_MS,
        writer_version: env!("CARGO_PKG_VERSION").to_owned(),
        writer_pid: 0,
        interval_ms,
        policy: policy_name(config.policy),
        config: config.clone(),
        description: world.describe().clone(),
    };
    let mut recorder = Recorder::open(path, &start)?;
    let mut state = State::default();
    let mut sum = Recorded {
        ticks: 0,
        workload_ticks: 0,
        cpu: Nanos(0),
    };
    while let Ok(observation) = world.observe() {
        let plan = step(&mut state, &config, world.describe(), &observation);
        let outcomes = world.apply(&plan);
        state.note(&outcomes);
        let began = process_cpu();
        let tick = Tick {
            wall_unix_ms: BEGAN_UNIX_MS + observation.at.0 / 1_000_000,
            lost_before: 0,
            observation,
            plan,
            outcomes,
            self_cost: None,
        };
        recorder.add(&tick)?;
        sum.cpu.0 += process_cpu().0.saturating_sub(began.0);
        sum.ticks += 1;
        sum.workload_ticks += tick.plan.workloads.len() as u64;
    }
    recorder.finish(BEGAN_UNIX_MS + world.now().0 / 1_000_000)?;
    Ok(sum)
}

/// Reads every tick, and has the controller decide again.
fn replayed(recording: &Recording, ticks: u64) -> Result<u64> {
    let began = process_cpu();
    for session in recording.sessions() {
        for tick in recording.ticks(session.id) {
            tick?;
        }
    }
    Ok(process_cpu().0.saturating_sub(began.0) / ticks.max(1))
}

fn exported(recording: &Recording, name: &'static str, format: Format) -> Result<Exported> {
    let began = process_cpu();
    let mut bytes = Counted(0);
    let rows = export(
        recording,
        Table::Workloads,
        format,
        Range::default(),
        &mut bytes,
    )?;
    let cpu_ms = process_cpu().0.saturating_sub(began.0) / 1_000_000;
    Ok(Exported {
        format: name,
        rows,
        bytes: bytes.0,
        cpu_ms,
    })
}

/// A writer that keeps nothing and counts the bytes.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn said(figures: &RecordingFigures) -> String {
    let out = format!(
        "{}: {} h of {} workloads, {} ticks {} ms apart\n\
         file: {} bytes, {:.0} bytes per workload and hour\n\
         CPU time per tick: {} to record, {} to read again\n",
        figures.scenario,
        figures.hours,
        figures.workloads,
        figures.ticks,
        figures.interval_ms,
        figures.file_bytes,
        figures.bytes_per_workload_hour,
        Nanos(figures.record_cpu_ns_per_tick),
        Nanos(figures.replay_cpu_ns_per_tick),
    );
    let rows = figures.exports.iter().map(|export| {
        let numbers = [export.rows, export.bytes, export.cpu_ms];
        let numbers = numbers.map(|number| Cell::number(number.to_string()));
        [&[Cell::words(export.format)][..], &numbers].concat()
    });
    let table = Rows::new("", &["export", "rows", "bytes", "CPU ms"], rows);
    out + &terminal_table(&table, Setting::PLAIN)
}
