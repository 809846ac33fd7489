// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device model against measurements: latency at the bandwidth that was measured.

use super::context::{EvalContext, command, number, picture, text};
use anyhow::{Context, Result};
use serde_json::json;
use std::fmt::Write;
use weir_figures::text::signed_percent;
use weir_figures::{Cell, CellKind, Ink, Part, Section, Table};
use weir_hw::memory_device::Profile;
use weir_hw::memory_device::mlc_sweep::{self, LoadMix};
use weir_report::{Axis, Curve, Panel, Plot, Shape, plot};

const TITLE: &str = "The device model against measurements";
/// Measured with Intel MLC; where from stands in docs/explanation/device-model.md and in the profiles.
const MEASURED: &str = include_str!("../../../weir-hw/data/loaded-latency-asic-cxl.csv");
/// Threads that the profile was not fitted to: 2, 8 and 32.
const HELD_OUT: &str = include_str!("../../../weir-hw/data/loaded-latency-asic-cxl-held-out.csv");
/// Above this part of the peak a small change of bandwidth is a large one of latency.
const BELOW_PEAK: f64 = 0.97;

struct Row {
    delay: u32,
    latency_ns: f64,
    bytes_per_sec: f64,
}

/// One run of the measurement.
struct Measured {
    is_fitted: bool,
    device: String,
    threads: u32,
    mix: LoadMix,
    rows: Vec<Row>,
}

/// The measured curves, in the order of the files.
fn measured() -> Result<Vec<Measured>> {
    let mut all = of_file(MEASURED, true)?;
    all.extend(of_file(HELD_OUT, false)?);
    Ok(all)
}

/// A delay that comes again begins a second run.
fn of_file(file: &str, is_fitted: bool) -> Result<Vec<Measured>> {
    let mut all: Vec<Measured> = Vec::new();
    for (n, line) in file.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [device, threads, mix, _, delay, latency, rate] = fields[..] else {
            anyhow::bail!("measured line {}: 7 fields are needed", n + 1);
        };
        let wrong = || format!("measured line {}", n + 1);
        let mix = match mix {
            "0" => LoadMix::Reads,
            "2" => LoadMix::TwoToOne,
            "3" => LoadMix::ThreeToOne,
            "5" => LoadMix::OneToOne,
            "6" => LoadMix::NtWrites,
            other => anyhow::bail!("measured line {}: unknown MLC workload {other}", n + 1),
        };
        let threads: u32 = threads.parse().with_context(wrong)?;
        let row = Row {
            delay: delay.parse().with_context(wrong)?,
            latency_ns: latency.parse().with_context(wrong)?,
            bytes_per_sec: rate.parse::<f64>().with_context(wrong)? * 1e6,
        };
        let same = |m: &&mut Measured| {
            m.device == device
                && m.threads == threads
                && m.mix == mix
                && !m.rows.iter().any(|r| r.delay == row.delay)
        };
        match all.iter_mut().find(same) {
            Some(curve) => curve.rows.push(row),
            None => all.push(Measured {
                is_fitted,
                device: device.into(),
                threads,
                mix,
                rows: vec![row],
            }),
        }
    }
    Ok(all)
}

/// Loaded-latency curves of the model beside the measured points.
pub fn device(context: &mut EvalContext) -> Result<Section> {
    let all = measured()?;
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    let mut csv =
        String::from("profile,threads,mix,kind,delay,bandwidth_bytes_per_sec,latency_ns\n");
    let profile = Profile::named("asic-x16")?;
    for curve in all.iter().filter(|c| c.device == "cxl") {
        let model = mlc_sweep::curve(&profile, f64::from(curve.threads), curve.mix, &fine());
        let (row, figure) = judged(curve, &model);
        rows.push(row);
        figures.push(figure);
        csv += &points_csv(curve, &model);
    }
    verdict(context, &figures);
    context.figures.insert("device_model", figures.into());
    context.files.insert("loaded-latency.csv".into(), csv);
    let table = Table::new(
        "Profile asic-x16: error of the latency at the measured bandwidth",
        &[
            "",
            "points below 97 % of peak",
            "mean (aim ≤ 4 % of all)",
            "worst (aim ≤ 15 %)",
            "saturated latency (aim ≤ 10 %, fitted)",
        ],
        rows,
    );
    let parts = vec![
        text(
            "Measured with Intel MLC on an ASIC expander on PCIe 5.0 × 16; the model's profile was calibrated against the points of 4, 16 and 46 threads, and those of \
              2, 8 and 32 were held out. It says nothing of other devices. The thesis's FPGA (profile agilex-thesis) has no published curve but figure 15, a \
              picture; its profile meets the single figures that agree with each other. DDR5 and the other profiles: docs/explanation/device-model.md.",
        ),
        Part::Table(table),
        picture(plot(&picture_of(&all)?, &context.fonts)),
        picture(plot(&thesis_curve()?, &context.fonts)),
        command("loaded-latency.csv has both, the model's points and the measured ones"),
    ];
    Ok(Section::new("device", TITLE, parts))
}

/// One aim for all curves together.
fn verdict(context: &mut EvalContext, figures: &[serde_json::Value]) {
    let of = |key: &str, is_fitted: Option<bool>| -> Vec<f64> {
        let wanted = figures
            .iter()
            .filter(|f| is_fitted.is_none_or(|is| f["is_fitted"] == is));
        wanted
            .filter_map(|f| f[key].as_f64())
            .map(f64::abs)
            .collect()
    };
    let most = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
    let means = of("mean_error_ratio", None);
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    let worst = most(of("worst_error_ratio", None));
    let full = most(of("saturated_latency_error_ratio", Some(true)));
    context.show(
        TITLE,
        "device model against the measured curves, fitted and held out",
        "mean error ≤ 4 %, worst ≤ 15 %; saturated latency of fitted curves within 10 %",
        format!(
            "{:.1} %, {:.1} %, {:.1} % of {} curves",
            mean * 1e2,
            worst * 1e2,
            full * 1e2,
            figures.len()
        ),
        mean <= 0.04 && worst <= 0.15 && full <= 0.1,
    );
}

/// How far the model is off on one measured curve: cells, and the same as JSON.
fn judged(curve: &Measured, model: &[mlc_sweep::SweepPoint]) -> (Vec<Cell>, serde_json::Value) {
    let errors = errors(curve, model);
    let mean = errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len().max(1) as f64;
    let worse = |a: f64, e: f64| if e.abs() > a.abs() { e } else { a };
    let worst = errors.iter().copied().fold(0.0, worse);
    let full = model
        .first()
        .zip(curve.rows.iter().find(|r| r.delay == 0))
        .map(|(m, r)| m.latency_ns / r.latency_ns - 1.0);
    let cell = |ratio: f64, most: f64| {
        let kind = if ratio.abs() <= most {
            CellKind::Met
        } else {
            CellKind::Missed
        };
        Cell::new(signed_percent(ratio), kind)
    };
    let held_out = if curve.is_fitted { "" } else { ", held out" };
    let cells = vec![
        Cell::words(format!(
            "{} threads, {}{held_out}",
            curve.threads,
            curve.mix.name()
        )),
        number(errors.len() as f64, 0),
        cell(mean, 0.05),
        cell(worst, 0.15),
        full.map_or(Cell::words("–"), |f| cell(f, 0.10)),
    ];
    let figure = json!({
        "profile": "asic-x16",
        "threads": curve.threads,
        "mix": curve.mix.name(),
        "is_fitted": curve.is_fitted,
        "points": errors.len(),
        "mean_error_ratio": mean,
        "worst_error_ratio": worst,
        "saturated_latency_error_ratio": full,
    });
    (cells, figure)
}

/// Measured points and the model's.
fn points_csv(curve: &Measured, model: &[mlc_sweep::SweepPoint]) -> String {
    let mut csv = String::new();
    let mut line = |kind: &str, delay: u32, rate: f64, latency: f64| {
        let (threads, mix) = (curve.threads, curve.mix.name());
        let _ = writeln!(
            csv,
            "asic-x16,{threads},{mix},{kind},{delay},{rate},{latency}"
        );
    };
    for row in &curve.rows {
        line("measured", row.delay, row.bytes_per_sec, row.latency_ns);
    }
    for point in model.iter().step_by(4) {
        line(
            "model",
            point.delay,
            point.bandwidth_bytes_per_sec,
            point.latency_ns,
        );
    }
    csv
}

fn fine() -> Vec<u32> {
    (0..400).chain((400..20_001).step_by(100)).collect()
}

/// Model ÷ measured − 1 at the same bandwidth, below 97 % of the measured peak.
fn errors(curve: &Measured, model: &[mlc_sweep::SweepPoint]) -> Vec<f64> {
    let peak = curve
        .rows
        .iter()
        .map(|r| r.bytes_per_sec)
        .fold(0.0, f64::max);
    let below = curve
        .rows
        .iter()
        .filter(|r| r.bytes_per_sec < BELOW_PEAK * peak);
    below
        .filter_map(|r| Some(latency_at(model, r.bytes_per_sec)? / r.latency_ns - 1.0))
        .collect()
}

/// The model's latency at a bandwidth, on the branch before the peak.
fn latency_at(model: &[mlc_sweep::SweepPoint], bytes_per_sec: f64) -> Option<f64> {
    // Delays rise along the curve, so bandwidth falls: the last crossing is the unsaturated one.
    let pairs: Vec<&[mlc_sweep::SweepPoint]> = model.windows(2).collect();
    let around = pairs.iter().rev().find(|p| {
        p[0].bandwidth_bytes_per_sec >= bytes_per_sec
            && p[1].bandwidth_bytes_per_sec <= bytes_per_sec
    });
    match around {
        Some(pair) => {
            let (high, low) = (pair[0], pair[1]);
            let width = high.bandwidth_bytes_per_sec - low.bandwidth_bytes_per_sec;
            let part = if width > 0.0 {
                (bytes_per_sec - low.bandwidth_bytes_per_sec) / width
            } else {
                0.0
            };
            Some(low.latency_ns + part * (high.latency_ns - low.latency_ns))
        }
        // Below the lowest load of the model: nearly idle.
        None => model
            .last()
            .filter(|p| bytes_per_sec < p.bandwidth_bytes_per_sec)
            .map(|p| p.latency_ns),
    }
}

fn picture_of(all: &[Measured]) -> Result<Plot> {
    let profile = Profile::named("asic-x16")?;
    let threads = [4, 16, 46];
    let panel = |mix: LoadMix| {
        let mut curves = Vec::new();
        for (ink, threads) in Ink::CURVES.into_iter().zip(threads) {
            let model = mlc_sweep::curve(&profile, f64::from(threads), mix, &fine());
            let points = model
                .iter()
                .map(|p| (p.bandwidth_bytes_per_sec / 1e9, p.latency_ns))
                .collect();
            curves.push(Curve {
                name: format!("{threads} threads, model"),
                ink,
                shape: Shape::Line,
                points,
            });
            let same = all
                .iter()
                .filter(|m| m.device == "cxl" && m.threads == threads && m.mix == mix);
            let points = same
                .flat_map(|m| &m.rows)
                .map(|r| (r.bytes_per_sec / 1e9, r.latency_ns))
                .collect();
            curves.push(Curve {
                name: "measured".into(),
                ink,
                shape: Shape::Dots,
                points,
            });
        }
        Panel {
            title: mix.name().into(),
            curves,
        }
    };
    Ok(Plot {
        title: "Loaded latency: model (lines) and measured points (dots)".into(),
        x: Axis::linear("bandwidth, GB/s"),
        y: Axis::log("latency, ns (logarithmic)"),
        panels: LoadMix::ALL.into_iter().map(panel).collect(),
        reference: None,
        panels_a_row: 3,
        has_own_axes: false,
    })
}

/// The profile of the thesis's FPGA: its figures 1 and 15 have this shape.
fn thesis_curve() -> Result<Plot> {
    let profile = Profile::named("agilex-thesis")?;
    let model = mlc_sweep::curve(
        &profile,
        f64::from(profile.host.cores),
        LoadMix::Reads,
        &fine(),
    );
    let points = model
        .iter()
        .map(|p| (p.bandwidth_bytes_per_sec / 1_048_576.0, p.latency_ns))
        .collect();
    Ok(Plot {
        title: "Profile agilex-thesis, reads on all cores (thesis, figure 15: takes off at about 5000 MiB/s)".into(),
        x: Axis::linear("bandwidth, MiB/s"),
        y: Axis::linear("latency, ns"),
        panels: vec![Panel {
            title: String::new(),
            curves: vec![Curve { name: "model".into(), ink: Ink::Held, shape: Shape::Line, points }],
        }],
        reference: None,
        panels_a_row: 1,
        has_own_axes: false,
    })
}
