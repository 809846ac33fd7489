// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The model's figures for those that the paper prints, by the names of `papers/type2.toml`.

mod accesses;
mod host_accesses;
mod transfers;

pub use accesses::write_sweep;

use super::figures::ShownFigure;
use crate::papers::Ours;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_figures::Bound;
use weir_type2::time::{Type2Profile, offload_times};

/// The paper's figures, in its order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangedPaper {
    section: Vec<PaperSection>,
    reasons: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaperSection {
    printed_in: String,
    figures: Vec<RangedFigure>,
}

/// A figure of which the paper prints a range; what is left out is said in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangedFigure {
    name: String,
    #[serde(default = "change")]
    unit: String,
    range: [f64; 2],
    #[serde(default)]
    off: f64,
    off_ratio: Option<f64>,
    #[serde(default = "predicted")]
    kind: String,
    why: Option<String>,
}

fn change() -> String {
    "%".into()
}

fn predicted() -> String {
    "predicted".into()
}

/// All figures of the paper, each beside the model's.
///
/// # Errors
/// The file is wrong, or does not have the model's figures: a fault of ours.
pub fn beside(profile: &Type2Profile) -> Result<Vec<ShownFigure>> {
    let paper: RangedPaper = toml::from_str(include_str!("../../../papers/type2.toml"))?;
    let mut ours = figures(profile);
    let mut shown = Vec::new();
    for section in &paper.section {
        for figure in &section.figures {
            let value = ours.take(&figure.name);
            let value = value.with_context(|| format!("the model has no {}", figure.name))?;
            let range = Bound::between(figure.range).context("a figure without a range")?;
            let of_printed = |ratio| ratio * figure.range[0];
            let tolerance = figure.off_ratio.map_or(figure.off, of_printed);
            let is_met = range.widened(tolerance).holds(value);
            let why = figure.why.as_ref().filter(|_| !is_met);
            let why = why.map(|why| paper.reasons.get(why).context("no such reason"));
            let [paper_low, paper_high] = range.ends();
            shown.push(ShownFigure {
                section: section.printed_in.clone(),
                what: figure.name.clone(),
                unit: figure.unit.clone(),
                paper_low,
                paper_high,
                ours: value,
                kind: figure.kind.clone(),
                deviation: range.distance(value),
                tolerance,
                is_met,
                note: why.transpose()?.cloned(),
            });
        }
    }
    let left = ours.names();
    ensure!(left.is_empty(), "no figures of the paper: {left:?}");
    Ok(shown)
}

fn figures(profile: &Type2Profile) -> Ours {
    let mut ours = Ours::default();
    accesses::device_to_host(profile, &mut ours);
    accesses::device_to_device(profile, &mut ours);
    host_accesses::host_to_device(profile, &mut ours);
    transfers::transfers(profile, &mut ours);
    offloading(profile, &mut ours);
    ours
}

/// A change against `base`, in percent.
fn percent(ours: f64, base: f64) -> f64 {
    (ours / base - 1.0) * 100.0
}

/// What it takes to have a page compressed.
fn offloading(profile: &Type2Profile, ours: &mut Ours) {
    let times = offload_times(profile);
    let total = |steps: [f64; 3]| steps.iter().sum::<f64>();
    for (way, steps) in [("rdma", times.rdma), ("dma", times.dma)] {
        let name = format!("pcie-{way}-zswap");
        ours.put(format!("{name}, transfer"), steps[0]);
        ours.put(format!("{name}, store"), steps[2]);
        ours.put(format!("{name}, total"), total(steps));
        let change = percent(times.cxl, total(steps));
        ours.put(format!("cxl-zswap over {name}"), change);
    }
    ours.put("cxl-zswap, total", times.cxl);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<ShownFigure> {
        beside(&Type2Profile::agilex7().expect("built in")).unwrap()
    }

    /// Figures that the model misses; `docs/evidence/type2.md` says why.
    const MISSED: [&str; 10] = [
        "bandwidth, NC-rd over nt-ld, LLC miss, 16 accesses",
        "bandwidth, CS-rd over ld, LLC miss, 16 accesses",
        "bandwidth, nt-st, DMC owned over miss",
        "pcie-rdma-zswap, transfer",
        "pcie-rdma-zswap, store",
        "pcie-rdma-zswap, total",
        "pcie-dma-zswap, transfer",
        "pcie-dma-zswap, store",
        "pcie-dma-zswap, total",
        "cxl-zswap, total",
    ];

    #[test]
    fn figures_are_the_papers_but_for_those_that_are_known_to_be_missed() {
        let all = all();
        for section in ["V-A", "V-B", "V-C", "V-D", "Table IV"] {
            let count = all.iter().filter(|figure| figure.section == section);
            assert!(count.count() >= 9, "{section}");
        }
        let missed: Vec<_> = all.iter().filter(|figure| !figure.is_met).collect();
        let names: Vec<&str> = missed.iter().map(|figure| figure.what.as_str()).collect();
        assert_eq!(names, MISSED);
        for figure in missed {
            assert_eq!(figure.kind, "predicted", "{}", figure.what);
            assert!(figure.note.is_some(), "{}", figure.what);
        }
    }

    #[test]
    fn only_latency_ratios_of_sections_a_to_c_are_fitted() {
        let mut fitted = all();
        fitted.retain(|figure| figure.kind == "fitted");
        assert_eq!(fitted.len(), 8 + 2 + 12);
        for figure in fitted {
            assert!(figure.what.starts_with("latency, "), "{}", figure.what);
            assert!(["V-A", "V-B", "V-C"].contains(&&*figure.section));
            let most = if figure.section == "V-C" { 2.0 } else { 3.0 };
            assert!(figure.tolerance <= most, "{}", figure.what);
        }
    }
}
