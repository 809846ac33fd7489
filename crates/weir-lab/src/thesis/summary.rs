// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first thing on the page: what was to be shown, and whether it was, with where to read on. Each section
//! leaves its part in the context.

use super::context::{EvalContext, text};
use serde::Serialize;
use weir_figures::{Cell, CellKind, Part, Section, Table};

/// What was to be shown, and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    pub what: String,
    /// What it should be.
    pub aim: String,
    pub measured: String,
    /// Whether that is as it should be; nothing where there is no aim but to tell it.
    pub is_met: Option<bool>,
    /// The section with the rest.
    pub section: &'static str,
}

impl EvalContext {
    /// Leaves a line for the summary.
    pub fn show(
        &mut self,
        section: &'static str,
        what: impl Into<String>,
        aim: impl Into<String>,
        measured: impl Into<String>,
        is_met: impl Into<Option<bool>>,
    ) {
        self.shown.push(Shown {
            what: what.into(),
            aim: aim.into(),
            measured: measured.into(),
            is_met: is_met.into(),
            section,
        });
    }
}

pub fn summary(context: &EvalContext) -> Section {
    let rows = context.shown.iter().map(row);
    Section::new(
        "summary",
        "In short",
        vec![
            text(
                "What this page is to show, and whether it does. What is missed is told in its section, with the reason as far as it is known.",
            ),
            text(verdict(context)),
            Part::Table(Table::new("Aims", &["", "aim", "measured", "", "in"], rows)),
        ],
    )
}

/// Whether all that was judged is as it should be.
pub fn is_met(context: &EvalContext) -> bool {
    !context
        .shown
        .iter()
        .any(|shown| shown.is_met == Some(false))
}

/// `18 of 22 aims met.`
fn verdict(context: &EvalContext) -> String {
    let judged: Vec<bool> = context.shown.iter().filter_map(|s| s.is_met).collect();
    let met = judged.iter().filter(|met| **met).count();
    format!("{met} of {} aims met.", judged.len())
}

/// The same for a terminal: a line for each, and its aim below it; ends with how many were met. At most as
/// wide as all tables.
pub fn closing(context: &EvalContext) -> String {
    let mut out = String::new();
    for shown in &context.shown {
        let word = match shown.is_met {
            Some(true) => "met   ",
            Some(false) => "MISSED",
            None => "–     ",
        };
        for line in [
            format!("{word}  {}: {}", shown.what, shown.measured),
            format!("        aim: {}", shown.aim),
        ] {
            out += &weir_figures::text::wrap(&line, weir_figures::COLUMNS, 10);
            out.push('\n');
        }
    }
    out + "\n" + &verdict(context) + "\n"
}

fn row(shown: &Shown) -> Vec<Cell> {
    let verdict = match shown.is_met {
        Some(true) => Cell::new("✓ met", CellKind::Met),
        Some(false) => Cell::new("✗ missed", CellKind::Missed),
        None => Cell::new("not judged", CellKind::Faint),
    };
    vec![
        Cell::long(&shown.what),
        Cell::long(&shown.aim),
        Cell::long(&shown.measured),
        verdict,
        Cell::words(shown.section),
    ]
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::thesis::ThesisArgs;
    use weir_figures::text::width;

    pub fn context(verdicts: &[Option<bool>]) -> EvalContext {
        let args = ThesisArgs {
            out: "unused".into(),
            seeds: 1,
            quick: true,
            check: false,
            json: false,
        };
        let mut context = EvalContext::new(&args).unwrap();
        for (n, is_met) in verdicts.iter().enumerate() {
            let what = format!("figure {n} of many words ").repeat(5);
            context.show("a section", what, "≤ 3 %", "4.6 %", *is_met);
        }
        context
    }

    #[test]
    fn an_aim_that_is_missed_is_no_pass() {
        assert!(is_met(&context(&[Some(true), None])));
        assert!(!is_met(&context(&[Some(true), Some(false), None])));
    }

    #[test]
    fn the_closing_table_has_a_verdict_for_each_figure_and_fits() {
        let text = closing(&context(&[Some(true), Some(false), None, Some(true)]));
        let of = |word: &str| text.lines().filter(|l| l.starts_with(word)).count();
        assert_eq!((of("met "), of("MISSED "), of("– ")), (2, 1, 1), "{text}");
        assert_eq!(text.matches("aim: ≤ 3 %").count(), 4, "{text}");
        assert!(text.ends_with("\n2 of 3 aims met.\n"), "{text}");
        assert!(text.lines().all(|l| width(l) <= 80), "{text}");
    }

    #[test]
    fn a_figure_with_an_aim_has_its_one_verdict_there() {
        let mut context = context(&[]);
        context.aim("step", "device bandwidth: bias");
        assert!(context.has_aim("step", "device bandwidth: bias"));
        assert!(!context.has_aim("step", "device bandwidth: mean"));
        assert!(!context.has_aim("knee", "device bandwidth: bias"));
    }
}
