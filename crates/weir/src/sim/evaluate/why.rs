// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why figures of ours lie more than 10 % from printed ones, as far as it is known.

use super::lab::{Lab, heads, signed_percent, words};
use weir_report::{Cell, CellKind, Part, Table};

/// Table or figure, variant (empty: all), figure (empty: all), reason. The first that fits counts.
const REASONS: &[(&str, &str, &str, &str)] = &[];

/// What is said of a deviation that nobody has explained.
const UNKNOWN: &str = "not explained";

/// A table of the deviations above 10 % in one of the thesis's tables or figures, with their reasons.
pub fn of(lab: &Lab, printed_in: &str) -> Option<Part> {
    let far = lab
        .compared
        .iter()
        .filter(|c| c.printed_in == printed_in && c.deviation_ratio.abs() > 0.1);
    let row = |c: &super::lab::Compared| {
        vec![
            words(&c.backend),
            words(c.figure),
            Cell::new(signed_percent(c.deviation_ratio), CellKind::Missed),
            Cell::new(reason(c.printed_in, &c.backend, c.figure), CellKind::Long),
        ]
    };
    let rows: Vec<Vec<Cell>> = far.map(row).collect();
    (!rows.is_empty()).then(|| {
        Part::Table(Table {
            title: "More than 10 % from the thesis".into(),
            heads: heads(&["", "figure", "off", "why"]),
            rows,
        })
    })
}

fn reason(printed_in: &str, backend: &str, figure: &str) -> &'static str {
    let fits = |given: &str, found: &str| given.is_empty() || given == found;
    let found = REASONS
        .iter()
        .find(|(p, b, f, _)| *p == printed_in && fits(b, backend) && fits(f, figure));
    found.map_or(UNKNOWN, |(_, _, _, why)| why)
}
