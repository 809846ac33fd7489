// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulator knows less of than a real machine, as the head of weir-sim's source lists it: the page
//! says it in the same words.

use super::context::text;
use weir_figures::{Cell, Part, Section, Table};

const SOURCE: &str = include_str!("../../../weir-sim/src/lib.rs");
const FROM: &str = "# What it knows less of than reality";
const TO: &str = "# Determinism";

/// Each shortcut with its name.
fn shortcuts() -> Vec<(String, String)> {
    let head = SOURCE.split(FROM).nth(1).unwrap_or_default();
    let head = head.split(TO).next().unwrap_or_default();
    let lines = head
        .lines()
        .map(|line| line.trim_start_matches("//!").trim());
    let whole = lines.collect::<Vec<_>>().join(" ");
    let one = |part: &str| {
        let (name, rest) = part.split_once("* ").or_else(|| part.split_once(".*"))?;
        let rest = rest.replace(['`', '*'], "");
        Some((
            name.trim_end_matches('.').to_owned(),
            rest.trim().to_owned(),
        ))
    };
    whole.split(" - *").skip(1).filter_map(one).collect()
}

pub fn section() -> Section {
    let row = |(name, what): (String, String)| vec![Cell::words(name), Cell::long(what)];
    Section::new(
        "shortcuts",
        "What the simulator leaves out",
        vec![
            text(
                "It may know less than a real machine, never something impossible. Its shortcuts:",
            ),
            Part::Table(Table::new("", &["", ""], shortcuts().into_iter().map(row))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shortcut_of_the_source_is_on_the_page() {
        let all = shortcuts();
        let listed = SOURCE.split(FROM).nth(1).unwrap().split(TO).next().unwrap();
        assert_eq!(all.len(), listed.matches("//! - *").count());
        assert!(all.len() >= 7, "{all:?}");
        for (name, what) in &all {
            assert!(name.len() > 5 && what.len() > 30, "{name}: {what}");
            assert!(
                !what.contains(['*', '`']) && !what.contains("//!"),
                "{what}"
            );
        }
        let has = |name: &str| all.iter().any(|(n, _)| n == name);
        assert!(has("Fluid devices") && has("Real-time tasks"), "{all:?}");
    }
}
