// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir-lab device`: the loaded-latency curve of a profile, as Intel MLC measures it on hardware.
//! Model, profiles and their errors: `docs/explanation/device-model.md`.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::Path;
use weir::lab::{Exit, print, print_json};
use weir_core::BytesPerSec;
use weir_figures::text::{self, harmless};
use weir_figures::{Cell, Setting, Table, terminal_table};
use weir_hw::memory_device::LoadedDevice;
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::mlc_sweep::{self, DELAYS, LoadMix, SweepPoint};

/// A profile is a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Cells of the bar that shows a latency.
const BAR_CELLS: usize = 40;

/// `weir-lab device`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct DeviceArgs {
    /// A built-in profile (asic-x16, ddr5-2ch, agilex-thesis, agilex-i) or the path of a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "asic-x16")]
    pub profile: String,

    /// How many threads load the device; one more core measures the latency
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub threads: u32,

    /// What the threads do
    #[arg(long, value_enum, default_value = "reads")]
    pub mix: DeviceMix,

    /// Print the curve as JSON
    #[arg(long)]
    pub json: bool,
}

const HELP: &str = "\
Examples:
  weir-lab device --threads 46 --mix 1:1     past the wall: 5 microseconds
  weir-lab device --profile agilex-thesis --threads 5
  weir-lab device --profile mine.toml --json | jq '.points[] | [.delay, .latency_ns]'

A delay is MLC's: 0 is full load. Up to the profile's number of cores each thread has a core of its
own, up to twice that they share; beyond, more shared cores of the same kind are assumed.";

/// What the loading threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceMix {
    /// Reads only
    Reads,
    /// Two lines read for each written
    #[value(name = "2:1")]
    TwoToOne,
    /// Three lines read for each written
    #[value(name = "3:1")]
    ThreeToOne,
    /// As many lines written as read
    #[value(name = "1:1")]
    OneToOne,
    /// Non-temporal stores, which read nothing
    NtWrites,
}

impl DeviceMix {
    fn mix(self) -> LoadMix {
        match self {
            DeviceMix::Reads => LoadMix::Reads,
            DeviceMix::TwoToOne => LoadMix::TwoToOne,
            DeviceMix::ThreeToOne => LoadMix::ThreeToOne,
            DeviceMix::OneToOne => LoadMix::OneToOne,
            DeviceMix::NtWrites => LoadMix::NtWrites,
        }
    }
}

/// A curve, as JSON.
#[derive(Serialize)]
struct Curve {
    profile: String,
    title: String,
    provenance: Vec<String>,
    threads: u32,
    mix: &'static str,
    knee_bytes_per_sec: f64,
    points: Vec<CurvePoint>,
}

#[derive(Serialize)]
struct CurvePoint {
    delay: u32,
    bandwidth_bytes_per_sec: f64,
    latency_ns: f64,
    utilization_ratio: f64,
    devload: &'static str,
}

/// Prints the curve.
///
/// # Errors
/// The profile is unknown, unreadable or wrong; stdout cannot be written.
pub fn device(args: &DeviceArgs) -> Result<Exit> {
    let profile = profile(&args.profile)?;
    let mix = args.mix.mix();
    let points = mlc_sweep::curve(&profile, f64::from(args.threads), mix, &DELAYS);
    let device = LoadedDevice::new(&profile);
    let knee = device.knee_bytes_per_sec(mix.write_ratio(), mix.is_non_temporal());
    if args.json {
        print_json(&json(&profile, args.threads, mix, knee, &points))?;
    } else {
        print(&table(&profile, args.threads, mix, knee, &points))?;
    }
    Ok(Exit::Done)
}

/// A built-in name first; whatever looks like a path, or is a file, is read.
fn profile(name: &str) -> Result<Profile> {
    let path = Path::new(name);
    let is_file = name.ends_with(".toml") || name.contains('/') || path.is_file();
    if Profile::names().contains(&name) || !is_file {
        return Ok(Profile::named(name)?);
    }
    let bytes = weir_files::read_at_most(path, FILE_BYTES_MAX);
    let text = String::from_utf8(bytes.with_context(|| format!("cannot read {name}"))?);
    Ok(Profile::parse(
        &text.with_context(|| format!("cannot read {name}"))?,
        name,
    )?)
}

fn json(profile: &Profile, threads: u32, mix: LoadMix, knee: f64, points: &[SweepPoint]) -> Curve {
    let point = |p: &SweepPoint| CurvePoint {
        delay: p.delay,
        bandwidth_bytes_per_sec: p.bandwidth_bytes_per_sec,
        latency_ns: p.latency_ns,
        utilization_ratio: p.utilization,
        devload: p.devload.name(),
    };
    Curve {
        profile: profile.name.clone(),
        title: profile.title.clone(),
        provenance: profile.provenance.clone(),
        threads,
        mix: mix.name(),
        knee_bytes_per_sec: knee,
        points: points.iter().map(point).collect(),
    }
}

fn table(
    profile: &Profile,
    threads: u32,
    mix: LoadMix,
    knee: f64,
    points: &[SweepPoint],
) -> String {
    let rate = |value: f64| text::rate(BytesPerSec::new(value));
    let title = harmless(&profile.title);
    let title = format!(
        "{title}\n{threads} threads, {}; knee at {}\n",
        mix.name(),
        rate(knee)
    );
    let most = points.iter().map(|p| p.latency_ns).fold(1.0, f64::max);
    let rows = points.iter().map(|p| {
        vec![
            Cell::number(p.delay.to_string()),
            Cell::number(rate(p.bandwidth_bytes_per_sec)),
            Cell::number(format!("{:.0} ns", p.latency_ns)),
            Cell::words(p.devload.name()),
            Cell::words(bar(p.latency_ns / most)),
        ]
    });
    let heads = ["delay", "bandwidth", "latency", "devload", ""];
    format!(
        "{title}\n{}",
        terminal_table(&Table::new("", &heads, rows), Setting::WIDE)
    )
}

/// A bar as long as the part of the largest latency, at least one cell.
fn bar(part: f64) -> String {
    let cells = (part.clamp(0.0, 1.0) * BAR_CELLS as f64).round();
    let filled = (1..=BAR_CELLS).filter(|n| *n as f64 <= cells).count();
    "▇".repeat(filled.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_a_row_per_delay() {
        let profile = Profile::named("asic-x16").unwrap();
        let points = mlc_sweep::curve(&profile, 16.0, LoadMix::Reads, &DELAYS);
        let text = table(&profile, 16, LoadMix::Reads, 40e9, &points);
        assert_eq!(text.lines().count(), 4 + DELAYS.len());
        let full = text.lines().nth(4).unwrap();
        assert!(
            full.contains("severe-overload") && full.contains("GiB/s"),
            "{full}"
        );
        assert_eq!(full.matches('▇').count(), BAR_CELLS, "{full}");
        assert!(text.lines().last().unwrap().matches('▇').count() < 15);
    }

    #[test]
    fn json_names_units() {
        let profile = Profile::named("agilex-i").unwrap();
        let points = mlc_sweep::curve(&profile, 8.0, LoadMix::NtWrites, &[0, 1000]);
        let value =
            serde_json::to_value(json(&profile, 8, LoadMix::NtWrites, 9e9, &points)).unwrap();
        assert_eq!(value["mix"], "nt-writes");
        assert_eq!(value["points"].as_array().unwrap().len(), 2);
        let full = value["points"][0]["bandwidth_bytes_per_sec"]
            .as_f64()
            .unwrap();
        assert!((15e9..17.6e9).contains(&full), "17.6 GB/s at most: {full}");
        assert!(value["points"][1]["latency_ns"].as_f64().unwrap() > 355.0);
    }

    #[test]
    fn profiles_are_names_or_files() {
        assert_eq!(profile("ddr5-2ch").unwrap().name, "ddr5-2ch");
        let unknown = format!("{:#}", profile("optane").unwrap_err());
        assert!(unknown.contains("asic-x16"), "{unknown}");
        let missing = format!("{:#}", profile("nowhere/mine.toml").unwrap_err());
        assert!(
            missing.contains("cannot read nowhere/mine.toml"),
            "{missing}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, "name = \"mine\"\nnonsense = 1\n").unwrap();
        let wrong = format!("{:#}", profile(path.to_str().unwrap()).unwrap_err());
        assert!(
            wrong.contains("mine.toml") && wrong.contains("nonsense"),
            "{wrong}"
        );
    }
}
