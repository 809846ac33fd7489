// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All figures as a page.

use super::figures::{AllFigures, ShownCell, ShownFigure};
use super::paper::write_sweep;
use anyhow::Result;
use std::path::{Path, PathBuf};
use weir_figures::{Cell, CellKind, Document, Ink, Part, Section, Table};
use weir_report::{Axis, Curve, Fonts, OutputDir, Panel, Plot, Shape};
use weir_type2::DeviceOp;
use weir_type2::table_three::{TableCache, TablePlace};
use weir_type2::time::{TransferWay, Type2Profile, device_to_host_ns, host_to_device_ns};

/// Writes the page and its figures, and returns the files.
///
/// # Errors
/// A file cannot be written, or no font is there for the pictures.
pub fn write(dir: &Path, profile: &Type2Profile, all: &AllFigures) -> Result<Vec<PathBuf>> {
    let out = OutputDir::open_or_make(dir)?;
    let json = serde_json::to_string_pretty(all)? + "\n";
    let page = weir_figures::html(&document(profile, all)?);
    Ok(vec![
        out.put("figures.json", json.as_bytes())?,
        out.put("index.html", page.as_bytes())?,
    ])
}

fn document(profile: &Type2Profile, all: &AllFigures) -> Result<Document> {
    let fonts = Fonts::load()?;
    let count = |kind: &str| {
        let of_kind = || all.figures.iter().filter(|figure| figure.kind == kind);
        (
            of_kind().filter(|figure| figure.is_met).count(),
            of_kind().count(),
        )
    };
    let (fitted, predicted) = (count("fitted"), count("predicted"));
    let provenance = all.provenance.iter().map(|line| Part::Words(line.clone()));
    let stages = provenance.chain([Part::Table(stage_table(all))]).collect();
    Ok(Document {
        title: "A CXL Type-2 device: the paper's figures and the model's".into(),
        about: vec![format!(
            "Profile {}: {}. Nothing here was measured on hardware; the paper's figures are ratios from its text.",
            all.profile, all.machine
        )],
        answer: vec![format!(
            "Fitted: {} of {} figures are within their tolerance. Predicted: {} of {}. Each table says which is \
             which.",
            fitted.0, fitted.1, predicted.0, predicted.1
        )],
        sections: vec![
            Section::new(
                "states",
                "Table III: states after an access",
                state_tables(all).map(Part::Table).collect(),
            ),
            Section::new("figures", "Sections V-A to V-D, Table IV", figures(all)),
            Section::new("sweeps", "Sweeps (predicted)", sweeps(profile, &fonts)),
            Section::new("stages", "Stages", stages),
        ],
    })
}

/// Changes in one cell of the table, without repetitions.
fn state_cell(all: &AllFigures, op: &str, cache: &str, place: &str) -> Cell {
    let here = |cell: &&ShownCell| cell.op == op && cell.cache == cache && cell.place == place;
    let mut changes: Vec<String> = Vec::new();
    let mut is_met = true;
    for cell in all.table_iii.iter().filter(here) {
        is_met &= cell.is_met;
        let change = cell.change();
        if !changes.contains(&change) {
            changes.push(change);
        }
    }
    met_or_missed(changes.join(" "), is_met)
}

/// A missed one says so in words too, for readers and terminals without colours.
fn met_or_missed(text: String, is_met: bool) -> Cell {
    if is_met {
        Cell::new(text, CellKind::Met)
    } else {
        Cell::new(format!("{text} MISSED"), CellKind::Missed)
    }
}

/// Table III, for each cache.
pub fn state_tables(all: &AllFigures) -> impl Iterator<Item = Table> {
    TableCache::ALL.iter().map(|cache| {
        let row = |op: &DeviceOp| {
            let place = |place: &TablePlace| state_cell(all, op.name(), cache.name(), place.name());
            let cells = TablePlace::ALL.iter().map(place);
            std::iter::once(Cell::words(op.name()))
                .chain(cells)
                .collect()
        };
        let title = format!("State in the {}, before → after", cache.name());
        let heads = ["access", "HMC hit", "LLC hit", "LLC miss"];
        Table::new(title, &heads, DeviceOp::ALL.iter().map(row))
    })
}

/// Sections V-A to V-D and Table IV.
pub fn figure_tables(all: &AllFigures) -> impl Iterator<Item = Table> {
    all.figures
        .chunk_by(|a, b| a.section == b.section)
        .map(|figures| {
            let heads = [
                "",
                "figure",
                "ours",
                "paper",
                "off by",
                "kind",
                "why it misses",
            ];
            Table::new(&figures[0].section, &heads, figures.iter().map(figure_row))
        })
}

fn figure_row(figure: &ShownFigure) -> Vec<Cell> {
    let comparison = figure.comparison();
    let off = match figure.deviation {
        off if off.abs() < 0.005 => "0".into(),
        off => format!("{off:+.2}").replace('-', "−"),
    };
    let [verdict, name, ours, _, _, why] = comparison.row();
    let paper = Cell::number(comparison.reference);
    let kind = Cell::words(&figure.kind);
    vec![verdict, name, ours, paper, Cell::number(off), kind, why]
}

fn figures(all: &AllFigures) -> Vec<Part> {
    let mut parts: Vec<Part> = figure_tables(all).map(Part::Table).collect();
    let lines = &all.llc_lines_per_page;
    parts.push(Part::Words(format!(
        "Lines that compressing a page brings into the LLC: software {}, accelerator with NC-rd {}, with CS-rd \
         {}. Table IV: {}; the unit is set by the FPGA's 2.9, and the Arm core's 5.5 is the paper's.",
        lines.software,
        lines.nc_read,
        lines.cs_read,
        all.compute()
    )));
    parts.push(Part::Command("weir sim type2".into()));
    parts
}

/// Sizes of moved blocks, bytes.
fn sizes() -> impl Iterator<Item = u32> {
    (6..=20).map(|power| 1u32 << power)
}

fn sweeps(profile: &Type2Profile, fonts: &Fonts) -> Vec<Part> {
    let curve = |n: usize, name: &str, points: Vec<(f64, f64)>| Curve {
        name: name.into(),
        ink: Ink::CURVES[n % Ink::CURVES.len()],
        shape: Shape::Line,
        points,
    };
    let of_way = |time: &dyn Fn(TransferWay, u32) -> Option<f64>| {
        let all = TransferWay::ALL.iter().enumerate();
        let curves = all.map(|(n, way)| {
            let points = sizes().filter_map(|bytes| Some((f64::from(bytes), time(*way, bytes)?)));
            curve(n, way.name(), points.collect())
        });
        curves.filter(|c| !c.points.is_empty()).collect()
    };
    let panel = |title: &str, curves| Panel {
        title: title.into(),
        curves,
    };
    let transfers = Plot {
        title: "Time to move a block (V-D)".into(),
        x: Axis::log("bytes"),
        y: Axis::log("ns"),
        panels: vec![
            panel(
                "begun by the host",
                of_way(&|way, bytes| Some(host_to_device_ns(profile, way, bytes))),
            ),
            panel(
                "begun by the device",
                of_way(&|way, bytes| device_to_host_ns(profile, way, bytes)),
            ),
        ],
        reference: None,
        panels_a_row: 2,
        has_own_axes: false,
    };
    let counts: Vec<u32> = (0..=13).map(|power| 1 << power).collect();
    let writes = [DeviceOp::NcWrite, DeviceOp::CoWrite, DeviceOp::NcPush];
    let curves = writes.iter().enumerate().map(|(n, op)| {
        let points = write_sweep(profile, *op, &counts);
        let points = points
            .iter()
            .map(|(count, rate)| (f64::from(*count), rate / 1e9));
        curve(n, op.name(), points.collect())
    });
    let bursts = Plot {
        title: "Bandwidth of a burst of writes to host memory (V-A)".into(),
        x: Axis::log("accesses"),
        y: Axis::linear("GB/s"),
        panels: vec![panel("LLC miss", curves.collect())],
        reference: Some(("a line a clock".into(), 25.6)),
        panels_a_row: 1,
        has_own_axes: false,
    };
    let picture = |plot: &Plot| Part::Picture(weir_report::plot(plot, fonts));
    vec![picture(&transfers), picture(&bursts)]
}

/// The profile's stages, and where each length comes from.
pub fn stage_table(all: &AllFigures) -> Table {
    let rows = all.stages.iter().map(|stage| {
        vec![
            Cell::words(&stage.name),
            Cell::number(format!("{:.1}", stage.ns)),
            Cell::words(stage.from),
            Cell::long(&stage.why),
        ]
    });
    Table::new(
        "Lengths of the stages, ns",
        &["stage", "ns", "from", "why"],
        rows,
    )
}
