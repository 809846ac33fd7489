// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written, and what is printed.

use super::check::{HardwareCheck, HardwareFigure, HardwarePromise, Harm};
use super::features::UncheckedFeature;
use super::names::take_out;
use super::site::HardwareSite;
use crate::cli::output::wall_clock::wall_unix_ms;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use weir_core::Missing;
use weir_figures::text::harmless;
use weir_figures::{Cell, Comparison, FigureUnit, Setting, compared, terminal_table};

/// Version of the file's schema.
const FORMAT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromiseVerdict {
    /// The figure is within its bound.
    Met,
    Missed,
    /// There is no figure.
    NotMeasured,
}

#[derive(Clone, Debug, Serialize)]
pub struct HardwareRow {
    pub name: &'static str,
    harm: Harm,
    promise: HardwarePromise,
    pub verdict: PromiseVerdict,
    figure: Option<HardwareFigure>,
    why: Option<String>,
}

impl HardwareRow {
    pub fn of(check: &dyn HardwareCheck, measured: Result<HardwareFigure, Missing>) -> HardwareRow {
        let promise = check.promise();
        let (figure, why) = match measured {
            Ok(figure) => (Some(figure), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let holds = figure
            .as_ref()
            .map(|figure| promise.bound.holds(figure.value));
        let verdict = match holds {
            None => PromiseVerdict::NotMeasured,
            Some(true) => PromiseVerdict::Met,
            Some(false) => PromiseVerdict::Missed,
        };
        HardwareRow {
            name: check.name(),
            harm: check.harm(),
            promise,
            verdict,
            figure,
            why,
        }
    }

    fn compared(&self) -> Comparison {
        let why = harmless(self.why.as_deref().unwrap_or_default());
        let value = self.figure.as_ref().map(|figure| figure.value).ok_or(why);
        let detail = self.figure.as_ref().map_or("", |figure| &figure.detail);
        Comparison::new(self.name, FigureUnit::named(self.promise.unit), value)
            .within(self.promise.bound)
            .beside(self.promise.words)
            .because(harmless(detail))
    }
}

pub fn count(rows: &[HardwareRow], verdict: PromiseVerdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// The file's content.
///
/// # Errors
/// Never, but for a fault of ours.
pub fn document(
    site: &HardwareSite,
    rows: &[HardwareRow],
    unchecked: &[UncheckedFeature],
    has_names: bool,
) -> Result<Value> {
    let machine = &site.machine;
    let cpu = machine.cpu.as_ref();
    let mut host = json!({
        "kernel": site.description.kernel,
        "architecture": std::env::consts::ARCH,
        "cpu": cpu.map_or_else(ToString::to_string, ToString::to_string),
        "cpu_count": site.description.cpu_count,
        "virtual_machine": machine.guest,
        "facts": site.description.facts,
    });
    let mut topology = json!(site.fabric);
    let mut measured = json!(rows);
    if !has_names {
        let uname = rustix::system::uname();
        let name = uname.nodename().to_string_lossy().into_owned();
        for value in [&mut host, &mut topology, &mut measured] {
            take_out(value, &name);
        }
    }
    Ok(json!({
        "format": FORMAT,
        "weir_version": env!("CARGO_PKG_VERSION"),
        "wall_unix_ms": wall_unix_ms(),
        "has_names": has_names,
        "machine": host,
        "topology": topology,
        "rows": measured,
        "met": count(rows, PromiseVerdict::Met),
        "missed": count(rows, PromiseVerdict::Missed),
        "not_measured": count(rows, PromiseVerdict::NotMeasured),
        "features_without_check": unchecked,
        "please_send": SEND,
    }))
}

const SEND: &str = "this file, and beside it: the device's and the server's model and firmware, what else ran \
meanwhile, and for a missed promise the output of `weir doctor --json`. Read it first";

pub fn page(rows: &[HardwareRow], unchecked: usize, file: &str) -> String {
    let shown: Vec<Comparison> = rows.iter().map(HardwareRow::compared).collect();
    let mut table = compared(["", "", "promised", "measured"], &shown);
    for (row, cells) in rows.iter().zip(&mut table.rows) {
        if row.verdict == PromiseVerdict::NotMeasured {
            cells[0] = Cell::words("not measured");
        }
    }
    format!(
        "{}\n{} met, {} missed, {} not measured; {unchecked} features of docs/maturity.md have no check here\n\
         written to {}; please send {SEND}\n",
        terminal_table(&table, Setting::WIDE),
        count(rows, PromiseVerdict::Met),
        count(rows, PromiseVerdict::Missed),
        count(rows, PromiseVerdict::NotMeasured),
        harmless(file)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seeded(Harm);

    impl HardwareCheck for Seeded {
        fn name(&self) -> &'static str {
            "seeded"
        }

        fn promise(&self) -> HardwarePromise {
            HardwarePromise {
                feature: "leases",
                words: "a seeded figure is judged",
                unit: "of one",
                bound: weir_figures::Bound::AtLeast(1.0),
                page: "docs/maturity.md",
                quote: "leases",
            }
        }

        fn harm(&self) -> Harm {
            self.0
        }

        fn measure(&self, _: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
            Err(Missing::NotYetRead)
        }
    }

    fn row(measured: Result<f64, Missing>) -> HardwareRow {
        let figure = measured.map(|value| HardwareFigure::new(value, "seen\u{1b}[2J".into()));
        HardwareRow::of(&Seeded(Harm::Reads), figure)
    }

    #[test]
    fn a_figure_out_of_its_bound_is_missed_and_none_is_not_measured() {
        let why = Missing::NotSupported("no device".into());
        let rows = [row(Ok(1.0)), row(Ok(0.5)), row(Ok(f64::NAN)), row(Err(why))];
        let verdicts: Vec<PromiseVerdict> = rows.iter().map(|r| r.verdict).collect();
        use PromiseVerdict::{Met, Missed, NotMeasured};
        assert_eq!(verdicts, [Met, Missed, Missed, NotMeasured]);
        let page = page(&rows, 3, "f\u{1b}.json");
        for part in [
            "MISSED",
            "no device",
            "1 met, 2 missed, 1 not measured",
            "≥ 1.00 of one",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains('\u{1b}'));
    }
}
