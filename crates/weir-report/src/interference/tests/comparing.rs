// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two results: what differs is found, what is the same is not.

use super::{cell, document, matrix, small, stream};
use crate::interference::document::{InterferenceDocument, PlacementPoint, World};
use crate::interference::{compare, comparison_page, comparison_terminal};
use weir_figures::text::width;

/// The small matrix on another machine.
fn other() -> InterferenceDocument {
    let mut other = small();
    other.machine.name = "AMD EPYC 9654".into();
    other.machine.facts.insert("smt".into(), "on".into());
    other.machine.facts.remove("governor");
    for cell in &mut other.cells {
        (
            cell.victim.threads,
            cell.background.threads,
            cell.victim.width_bytes,
        ) = (48, 24, Some(32));
    }
    other
}

#[test]
fn a_result_does_not_differ_from_itself() {
    for whole in [matrix(), small()] {
        let found = compare(&whole, &whole).unwrap();
        assert_eq!(found.cells.len(), whole.cells.len());
        assert_eq!((found.differing, found.changed_classes), (0, 0));
        assert!(found.facts.is_empty() && found.only_in_a.is_empty() && found.only_in_b.is_empty());
    }
}

#[test]
fn cells_differ_beyond_their_intervals_only() {
    let (a, mut b) = (small(), other());
    // −18 ± 2 and −20 ± 2 have ratios in common; −36 ± 2 and −45 ± 2 have none, and another class.
    b.cells[0] = cell(
        b.cells[0].victim.clone(),
        b.cells[0].background.clone(),
        0.80,
        0.02,
    );
    b.cells[1] = cell(
        b.cells[1].victim.clone(),
        b.cells[1].background.clone(),
        0.55,
        0.02,
    );
    b.cells[2].ratio_low = None;
    b.cells[2]
        .missing
        .insert("ratio_low".into(), "one repetition".into());
    let found = compare(&a, &b).unwrap();
    let differs: Vec<_> = found.cells.iter().map(|c| c.differs).collect();
    assert_eq!(differs, [Some(false), Some(true), None, Some(false)]);
    assert_eq!((found.differing, found.changed_classes), (1, 1));
    assert_eq!(found.cells[2].missing["ratio_low_b"], "one repetition");
    assert!(found.cells[2].missing.contains_key("differs"));
    let said = found.sentence();
    assert!(
        said.contains("1 differ beyond") && said.contains("−36.0 % in A and −45.0 % in B"),
        "{said}"
    );
}

#[test]
fn streams_with_another_rate_alone_are_named() {
    let a = small();
    let slower = |part: f64| {
        let mut b = small();
        for cell in &mut b.cells[..2] {
            let bytes = cell.alone.bytes_per_sec.as_mut();
            *bytes.expect("a stream of memory") *= part;
        }
        b
    };
    let found = compare(&a, &slower(0.95)).unwrap();
    assert!(found.alone.is_empty(), "{:?}", found.alone);
    assert!(!found.sentence().contains("Alone"));
    let mut b = slower(0.6);
    (b.cells[0].ratio_low, b.cells[0].ratio_high) = (Some(0.1), Some(0.2));
    let found = compare(&a, &b).unwrap();
    assert_eq!(found.alone.len(), 1);
    assert!((found.alone[0].change_ratio - 0.6).abs() < 1e-9);
    let said = found.sentence();
    for wanted in [
        "(−40.0 %)",
        "one of the cells that differ has such a stream",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    // What has no rate is no difference.
    b.cells
        .iter_mut()
        .for_each(|cell| cell.alone = Default::default());
    assert!(compare(&a, &b).unwrap().alone.is_empty());
}

/// A result whose cells use the placement of `ns`, and have these placements too: round trip, ratio,
/// repetitions.
fn placed(ns: &str, placements: &[(f64, f64, u32)]) -> InterferenceDocument {
    let mut whole = small();
    let facts = &mut whole.machine.facts;
    facts.insert("cpu_round_trip_ns".into(), ns.into());
    let points = placements
        .iter()
        .map(|(round_trip_ns, ratio, repeats)| PlacementPoint {
            round_trip_ns: *round_trip_ns,
            ratio: Some(*ratio),
            ratio_low: Some(0.98 * ratio),
            ratio_high: Some(1.02 * ratio),
            repeats: *repeats,
        });
    let points: Vec<PlacementPoint> = points.collect();
    for cell in &mut whole.cells {
        cell.placements.clone_from(&points);
    }
    whole
}

#[test]
fn results_of_two_placements_are_compared_at_one_that_both_have() {
    let a = placed("80", &[(80.0, 0.6, 9), (381.0, 0.97, 5)]);
    let b = placed("391", &[(90.0, 0.61, 3), (391.0, 0.98, 12)]);
    let found = compare(&a, &b).unwrap();
    assert_eq!(found.differing, 0);
    assert_eq!(found.cells[0].ratio_a, Some(0.97));
    assert_eq!(found.cells[0].ratio_b, Some(0.98));
    let said = comparison_terminal(&found);
    assert!(said.contains("near 381 ns"), "{said}");
    // A cell that lacks that placement is not compared.
    let mut lacks = b.clone();
    lacks.cells[1].placements.pop();
    let found = compare(&a, &lacks).unwrap();
    assert_eq!(found.cells[1].differs, None);
    assert!(found.cells[1].missing["ratio_b"].contains("placement"));
}

#[test]
fn other_cores_are_another_machine() {
    let found = compare(&placed("80", &[]), &placed("381", &[])).unwrap();
    let said = found.sentence();
    assert!(
        said.contains("80 ns") && said.contains("381 ns in B"),
        "{said}"
    );
    assert!(comparison_terminal(&found).contains("two machines"));
    for (a, b) in [("80", "91"), ("80", "none")] {
        assert_eq!(
            compare(&placed(a, &[]), &placed(b, &[])).unwrap().placement,
            None
        );
    }
    assert_eq!(
        compare(&small(), &placed("80", &[])).unwrap().placement,
        None
    );
}

#[test]
fn intervals_without_width_are_compared_too() {
    let sim = |ratio: f64| {
        let mut whole = small();
        (whole.world, whole.date_utc, whole.plan.seconds) = (World::Sim, None, None);
        let (victim, background) = (
            whole.cells[0].victim.clone(),
            whole.cells[0].background.clone(),
        );
        whole.cells[0] = cell(victim, background, ratio, 0.0);
        whole
    };
    let differs = |a: &InterferenceDocument, b: &InterferenceDocument| {
        compare(a, b).unwrap().cells[0].differs
    };
    assert_eq!(differs(&sim(0.82), &sim(0.82)), Some(false));
    assert_eq!(differs(&sim(0.82), &sim(0.82 + 1e-12)), Some(false));
    assert_eq!(differs(&sim(0.82), &sim(0.83)), Some(true));
    assert_eq!(differs(&sim(0.0), &sim(0.0)), Some(false));
    assert_eq!(differs(&small(), &sim(0.81)), Some(false));
    assert_eq!(differs(&small(), &sim(0.70)), Some(true));
}

#[test]
fn a_victim_blocked_completely_in_one_result_is_the_greatest_difference() {
    let (mut a, mut b) = (small(), small());
    let pair = |i: usize| (a.cells[i].victim.clone(), a.cells[i].background.clone());
    let (first, third, fourth) = (pair(0), pair(2), pair(3));
    a.cells[0] = cell(first.0, first.1, 0.0, 0.0);
    b.cells[1].ratio = None;
    (b.cells[1].ratio_low, b.cells[1].ratio_high) = (None, None);
    for whole in [&mut a, &mut b] {
        whole.cells[2] = cell(third.0.clone(), third.1.clone(), 0.0, 0.0);
    }
    b.cells[3] = cell(fourth.0, fourth.1, 0.0, 0.0);
    let found = compare(&a, &b).unwrap();
    let differs: Vec<_> = found.cells.iter().map(|c| c.differs).collect();
    assert_eq!(differs, [Some(true), None, Some(false), Some(true)]);
    assert_eq!(found.cells[0].change_ratio, None);
    assert_eq!(
        found.cells[0].missing["change_ratio"],
        "the ratio of A is 0"
    );
    assert_eq!(found.cells[3].change_ratio, Some(0.0));
    let said = found.sentence();
    assert!(said.contains("−100.0 % in A and −18.0 % in B"), "{said}");
    let html = comparison_page(&a, &b, &found);
    for part in [
        "<b>from 0</b><small>another class</small>",
        "<b>both 0</b><small>not certain</small>",
        "<b>−100.0 %</b><small>another class</small>",
        "<b>?</b><small>not measured</small>",
        "<b>?</b><small>not known</small>",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let text = comparison_terminal(&found);
    assert!(
        text.contains("−100.0 → −18.0 ≠*") && text.contains("−36.0 → – ?"),
        "{text}"
    );
}

#[test]
fn facts_and_cells_of_one_side_are_listed() {
    let (mut a, b) = (small(), other());
    a.cells
        .push(cell(stream("mmem", "st"), stream("mmem", "ld"), 0.9, 0.01));
    let found = compare(&a, &b).unwrap();
    assert_eq!(
        found.only_in_a,
        ["mmem st 64 B ×16 beside mmem ld 64 B ×16"]
    );
    assert!(found.only_in_b.is_empty());
    let fact = |name: &str| found.facts.iter().find(|f| f.fact == name).unwrap();
    assert_eq!(fact("machine.facts.smt").b.as_deref(), Some("on"));
    assert_eq!(fact("machine.facts.governor").b, None);
    assert_eq!(
        fact("machine.name").a.as_deref(),
        Some("Intel Xeon Gold 6430")
    );
    assert!(!found.facts.iter().any(|f| f.fact == "machine.facts.kernel"));
    a.plan.seed = 7;
    let facts = compare(&a, &b).unwrap().facts;
    assert!(facts.iter().any(|f| f.fact == "plan.seed"), "{facts:?}");
}

#[test]
fn machines_without_a_common_cell_are_an_error() {
    let mut other = other();
    for cell in &mut other.cells {
        cell.background.target = "cxl".into();
    }
    let said = compare(&small(), &other).unwrap_err().to_string();
    for part in ["Xeon Gold", "EPYC", "no cell in common", "--ops"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(compare(&document(Vec::new()), &small()).is_err());
}

#[test]
fn a_comparison_is_shown_in_80_columns_and_on_a_page_with_three_maps() {
    let mut hostile = other();
    hostile.machine.name = "<b>\u{1b}[1m".repeat(50);
    hostile
        .machine
        .facts
        .insert("kernel".into(), "<script>".repeat(90));
    for (a, b, blocks) in [
        (small(), other(), 1),
        (matrix(), matrix(), 3),
        (small(), hostile, 1),
    ] {
        let found = compare(&a, &b).unwrap();
        let text = comparison_terminal(&found);
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        assert!(
            text.trim_end()
                .rsplit("\n\n")
                .next()
                .unwrap()
                .starts_with("Of "),
            "{text}"
        );
        let html = comparison_page(&a, &b, &found);
        assert_eq!(html.matches("<table class=\"heat\">").count(), 3 * blocks);
        for loads in ["http:", "https:", "src=", "<script", "\u{1b}"] {
            assert!(!html.contains(loads) && !text.contains("\u{1b}"), "{loads}");
        }
    }
    let found = compare(&small(), &other()).unwrap();
    let text = comparison_terminal(&found);
    assert!(
        text.contains("−18.0 → −18.0 =") && text.contains("machine.facts.smt: off → on"),
        "{text}"
    );
    let json = serde_json::to_value(&found).unwrap();
    assert_eq!(json["kind"], "weir-interference-comparison");
    assert!(json["cells"][0].get("indices").is_none());
}
