// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that papers print, read from `papers/`. They are data, so that a figure, its place and what counts
//! as met can be held against the paper without reading the code that makes ours.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use weir_figures::{Bound, Comparison, FigureUnit};

/// A printed figure, and what counts as met.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperFigure {
    /// How the code calls it.
    id: String,
    pub name: String,
    /// The figure as the paper prints it, with its place.
    pub printed: String,
    /// Unit of the bound, and of the figure that is put beside it.
    #[serde(default)]
    pub unit: String,
    /// What counts as met; without it nothing is judged.
    pub within: Option<[f64; 2]>,
    /// Why the model gives what it gives, or nothing.
    #[serde(default)]
    pub why: String,
}

/// Figures of one place of a paper that has a row for each of several variants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperTable {
    /// Table, figure or section.
    pub printed_in: String,
    /// The scenario that makes them here; nothing where no run can.
    pub scenario: Option<String>,
    pub decimals: usize,
    /// Its columns, each with its unit as last word.
    pub figures: Vec<String>,
    pub rows: Vec<PaperRow>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRow {
    /// Its name in the simulator.
    pub of: String,
    /// A value for each figure; the last may be missing.
    pub values: Vec<f64>,
}

/// The figures of a paper, in the order of its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Figures that stand alone.
    #[serde(default)]
    figure: Vec<PaperFigure>,
    #[serde(default)]
    pub table: Vec<PaperTable>,
}

/// The thesis, chapter 6.
pub static THESIS: LazyLock<Paper> = LazyLock::new(|| {
    let read = toml::from_str(include_str!("../papers/thesis.toml"));
    read.expect("the tests read this file")
});

/// Figures to be put beside a paper's, by the names of its file. Without a value a figure is not given, for
/// the reason that the file states.
#[derive(Default)]
pub struct Ours {
    values: BTreeMap<String, f64>,
    whys: BTreeMap<&'static str, String>,
}

impl Paper {
    /// The paper on interference of CXL memory.
    ///
    /// # Errors
    /// The file is wrong: a fault of ours.
    pub fn interference() -> Result<Paper> {
        Ok(toml::from_str(include_str!("../papers/interference.toml"))?)
    }

    /// A figure by its name in the file.
    ///
    /// # Errors
    /// There is none.
    pub fn figure(&self, id: &str) -> Result<&PaperFigure> {
        let found = self.figure.iter().find(|figure| figure.id == id);
        found.with_context(|| format!("no figure {id}"))
    }

    /// All figures, each beside ours.
    ///
    /// # Errors
    /// One of ours belongs to no figure of the paper.
    pub fn beside(&self, mut ours: Ours) -> Result<Vec<Comparison>> {
        let rows = self.figure.iter().map(|figure| {
            let id = figure.id.as_str();
            let why = ours.whys.remove(id);
            let why = why.unwrap_or_else(|| figure.why.clone());
            let value = ours.take(id).ok_or_else(|| why.clone());
            Comparison::new(&figure.name, FigureUnit::named(figure.unit.clone()), value)
                .within(figure.within.and_then(Bound::between))
                .beside(&figure.printed)
                .because(why)
        });
        let rows = rows.collect();
        let left = ours.names();
        ensure!(left.is_empty(), "no figures of the paper: {left:?}");
        Ok(rows)
    }
}

impl Ours {
    /// A figure of ours.
    pub fn put(&mut self, id: impl Into<String>, value: f64) {
        self.values.insert(id.into(), value);
    }

    /// The figure of this name, once.
    pub fn take(&mut self, id: &str) -> Option<f64> {
        self.values.remove(id)
    }

    /// What was put and not taken.
    pub fn names(&self) -> Vec<&str> {
        let values = self.values.keys().map(String::as_str);
        values.chain(self.whys.keys().copied()).collect()
    }

    /// A figure of ours, and why it is so where that depends on the model's own figures.
    pub fn explained(&mut self, id: &'static str, value: f64, why: String) {
        self.put(id, value);
        self.whys.insert(id, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_file_and_an_unknown_one_refused() {
        let text = "[[figure]]\nid = \"a\"\nname = \"A\"\nprinted = \"2 (I)\"\nunit = \"×\"\nwithin = [1.0, 3.0]\n\
            [[figure]]\nid = \"b\"\nname = \"B\"\nprinted = \"rises\"\nwhy = \"not given\"\n";
        let paper: Paper = toml::from_str(text).unwrap();
        let of = |values: &[(&'static str, f64)]| {
            let mut ours = Ours::default();
            values.iter().for_each(|(id, value)| ours.put(*id, *value));
            paper.beside(ours)
        };
        let rows = of(&[("a", 4.0)]).unwrap();
        assert!(rows[0].is_missed() && rows[1].is_met().is_none());
        assert_eq!(rows[1].value, Err("not given".to_owned()));
        assert!(of(&[("c", 1.0)]).unwrap_err().to_string().contains("\"c\""));
        let misspelt = text.replace("within", "whithin");
        assert!(toml::from_str::<Paper>(&misspelt).is_err());
    }
}
