// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All figures as a page.

use super::figures::AllFigures;
use super::text::cell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use weir_hw::type2::DeviceOp;
use weir_hw::type2::paper::{TableCache, TablePlace, write_sweep};
use weir_hw::type2::time::{TransferWay, Type2Profile, device_to_host_ns, host_to_device_ns};
use weir_report::{
    Axis, Cell, CellKind, Curve, Document, Fonts, Ink, Panel, Part, Plot, Section, Shape, Table,
};

/// Writes the page and its figures, and returns the files.
///
/// # Errors
/// A file cannot be written, or no font is there for the pictures.
pub fn write(dir: &Path, profile: &Type2Profile, all: &AllFigures) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let json = serde_json::to_string_pretty(all)? + "\n";
    let page = weir_report::html(&document(profile, all)?);
    Ok(vec![
        weir_report::put(dir, "figures.json", json.as_bytes())?,
        weir_report::put(dir, "index.html", page.as_bytes())?,
    ])
}

fn words(text: impl Into<String>) -> Cell {
    Cell::new(text, CellKind::Words)
}

fn number(text: impl Into<String>) -> Cell {
    Cell::new(text, CellKind::Number)
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn section(id: &str, title: &str, parts: Vec<Part>) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        parts,
    }
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
            section("states", "Table III: states after an access", states(all)),
            section("figures", "Sections V-A to V-D, Table IV", figures(all)),
            section("sweeps", "Sweeps (predicted)", sweeps(profile, &fonts)),
            section("stages", "Stages", stages(all)),
        ],
    })
}

fn states(all: &AllFigures) -> Vec<Part> {
    let of_cache = |cache: &TableCache| {
        let row = |op: &DeviceOp| {
            let cells = TablePlace::ALL.iter().map(|place| {
                let (changes, is_met) = cell(all, op.name(), cache.name(), place.name());
                Cell::new(
                    changes,
                    match is_met {
                        true => CellKind::Met,
                        false => CellKind::Missed,
                    },
                )
            });
            std::iter::once(words(op.name())).chain(cells).collect()
        };
        Part::Table(Table {
            title: format!("State in the {}, before → after", cache.name()),
            heads: heads(&["access", "HMC hit", "LLC hit", "LLC miss"]),
            rows: DeviceOp::ALL.iter().map(row).collect(),
        })
    };
    TableCache::ALL.iter().map(of_cache).collect()
}

fn figures(all: &AllFigures) -> Vec<Part> {
    let mut parts = Vec::new();
    for name in ["V-A", "V-B", "V-C", "V-D", "Table IV"] {
        let of_section = all.figures.iter().filter(|figure| figure.section == name);
        let rows = of_section.map(|figure| {
            vec![
                words(&figure.what),
                number(figure.paper()),
                number(figure.number(figure.ours)),
                words(figure.unit),
                match figure.is_met {
                    true => Cell::new(figure.shown_deviation(), CellKind::Met),
                    false => Cell::new(
                        format!("{} MISSED", figure.shown_deviation()),
                        CellKind::Missed,
                    ),
                },
                words(figure.kind),
                Cell::new(figure.note.unwrap_or_default(), CellKind::Long),
            ]
        });
        parts.push(Part::Table(Table {
            title: name.into(),
            heads: heads(&[
                "figure",
                "paper",
                "ours",
                "unit",
                "deviation",
                "kind",
                "why it misses",
            ]),
            rows: rows.collect(),
        }));
    }
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

fn stages(all: &AllFigures) -> Vec<Part> {
    let rows = all.stages.iter().map(|stage| {
        vec![
            words(&stage.name),
            number(format!("{:.1}", stage.ns)),
            words(stage.from),
            Cell::new(&stage.why, CellKind::Long),
        ]
    });
    let provenance = all.provenance.iter().map(|line| Part::Words(line.clone()));
    let table = Part::Table(Table {
        title: "Lengths of the stages, ns".into(),
        heads: heads(&["stage", "ns", "from", "why"]),
        rows: rows.collect(),
    });
    provenance.chain([table]).collect()
}
