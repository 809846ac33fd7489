// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that the thesis prints ("CXL bandwidth control", KIT 2025, chapter 6), by the simulator's names of
//! its variants (its table 1). The figures themselves stand in `papers/thesis.toml`.

use crate::papers::THESIS;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Table, figure or section of the thesis.
    pub printed_in: &'static str,
    /// The scenario that makes it here; nothing where no run can.
    pub scenario: Option<&'static str>,
    pub backend: &'static str,
    /// Which figure, with its unit as last word.
    pub figure: &'static str,
    pub value: f64,
    pub decimals: usize,
}

/// All of them, in the order of the file.
pub fn all() -> impl Iterator<Item = Printed> {
    THESIS.table.iter().flat_map(|table| {
        table.rows.iter().flat_map(move |row| {
            let values = table.figures.iter().zip(&row.values);
            values.map(move |(figure, value)| Printed {
                printed_in: &table.printed_in,
                scenario: table.scenario.as_deref(),
                backend: &row.of,
                figure,
                value: *value,
                decimals: table.decimals,
            })
        })
    })
}

/// The one of these names.
pub fn find(printed_in: &str, backend: &str, figure: &str) -> Option<Printed> {
    let same = |p: &Printed| (p.printed_in, p.backend, p.figure) == (printed_in, backend, figure);
    all().find(same)
}

pub fn value(printed_in: &str, backend: &str, figure: &str) -> Option<f64> {
    find(printed_in, backend, figure).map(|printed| printed.value)
}

/// The variants of which a place prints a figure, in the thesis's order, and the figure.
pub fn column(printed_in: &str, figure: &str) -> Vec<(&'static str, f64)> {
    let here = all().filter(|p| (p.printed_in, p.figure) == (printed_in, figure));
    here.map(|p| (p.backend, p.value)).collect()
}

/// The figures that a table prints of a variant.
pub fn figures(printed_in: &str) -> &'static [String] {
    let mut tables = THESIS.table.iter();
    let found = tables.find(|table| table.printed_in == printed_in);
    found.map_or(&[], |table| &table.figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_stands_once_and_has_its_unit() {
        let key = |p: Printed| (p.printed_in, p.backend, p.figure);
        let keys: BTreeSet<_> = all().map(key).collect();
        assert_eq!((keys.len(), all().count()), (88, 88));
        // Tables 2 and 3 are whole.
        assert_eq!(all().filter(|p| p.printed_in == "table 2").count(), 30);
        assert_eq!(all().filter(|p| p.printed_in == "table 3").count(), 24);
        let units = ["sec", "us", "ms", "cpus", "gib", "percent"];
        for p in all() {
            let unit = p.figure.rsplit('_').next().unwrap();
            assert!(units.contains(&unit), "{}", p.figure);
            assert!(p.value > 0.0);
        }
    }

    /// The thesis's own root mean squares follow from its means and deviations: the figures were read off
    /// right.
    #[test]
    fn the_rows_of_table_2_agree_with_themselves() {
        for (backend, mean) in column("table 2", "mean_gib_per_sec") {
            let of = |figure: &str| value("table 2", backend, figure).unwrap();
            let (stddev, rmse) = (of("stddev_gib_per_sec"), of("rmse_gib_per_sec"));
            assert!(
                ((mean - 4.0).hypot(stddev) - rmse).abs() < 0.012,
                "{backend}"
            );
            assert!(
                of("q1_gib_per_sec") < mean && mean < of("q3_gib_per_sec"),
                "{backend}"
            );
        }
    }
}
