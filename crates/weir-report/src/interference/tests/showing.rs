// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Terminal and page: everything is there, nothing is too wide, nothing is loaded, names cannot do harm.

use super::{cell, document, matrix, small};
use crate::interference::document::{InterferenceDocument, World};
use crate::interference::{explained, page, terminal, worst};
use crate::results::Caveat;
use weir_figures::text::width;

const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[2J\n\u{202e}\"'&";

fn widest(text: &str) -> usize {
    text.lines().map(width).max().unwrap_or(0)
}

/// A result with hostile text in every field that takes any.
fn hostile() -> InterferenceDocument {
    let mut whole = matrix();
    let long = HOSTILE.repeat(40);
    whole.machine.name.clone_from(&long);
    whole.weir_version.clone_from(&long);
    whole.plan.command.clone_from(&long);
    whole.date_utc = Some(long.clone());
    for map in [
        &mut whole.machine.targets,
        &mut whole.machine.facts,
        &mut whole.missing,
    ] {
        map.insert(long.clone(), long.clone());
    }
    whole.plan.levers.insert(long.clone(), f64::NAN);
    whole.caveats.push(Caveat::new(long.clone(), long.clone()));
    let cell = &mut whole.cells[0];
    (cell.victim.target, cell.victim.op) = (long.clone(), long.clone());
    cell.background.op.clone_from(&long);
    cell.place = Some(long.clone());
    cell.missing.insert(long.clone(), long);
    (cell.ratio, cell.ratio_low, cell.ratio_high) =
        (Some(f64::NAN), Some(f64::NEG_INFINITY), Some(1e300));
    cell.sweep[2].ratio_high = Some(f64::INFINITY);
    whole
}

#[test]
fn the_terminal_shows_each_cell_in_80_columns() {
    for whole in [matrix(), small(), document(Vec::new()), hostile()] {
        let text = terminal(&explained(&whole).unwrap());
        assert!(widest(&text) <= 80, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.starts_with("The worst: "), "{last}");
    }
    let text = terminal(&matrix());
    for part in [
        "−93.2 ±0.2 ▼▼▼",
        "beside cxl (node2)",
        "beside mmem (node0)",
        "beside ssd (/dev/nvme0n1)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rows = text.lines().filter(|line| line.starts_with("ssd rand"));
    assert_eq!(rows.count(), 2, "{text}");
    let text = terminal(&small());
    assert!(
        text.contains("cxl: this machine has one NUMA node"),
        "{text}"
    );
    assert!(text.contains("frequency: 2.0 GHz was asked for"), "{text}");
}

#[test]
fn a_cell_without_a_ratio_says_why() {
    let mut whole = small();
    let cell = &mut whole.cells[1];
    (cell.ratio, cell.ratio_low, cell.ratio_high, cell.interferes) = (None, None, None, None);
    cell.class.clear();
    cell.missing
        .insert("ratio".into(), "memory did not suffice".into());
    let text = terminal(&whole);
    assert!(
        text.contains("– ?") && text.contains("memory did not suffice"),
        "{text}"
    );
    let html = page(&whole);
    assert!(
        html.contains("<p>Not measured: memory did not suffice.</p>"),
        "{html}"
    );
    assert!(!html.contains("– to –") && !html.contains("– %"), "{html}");
}

#[test]
fn a_victim_that_is_blocked_completely_is_the_worst() {
    let mut whole = small();
    let (victim, background) = (
        whole.cells[2].victim.clone(),
        whole.cells[2].background.clone(),
    );
    whole.cells[2] = cell(victim, background, 0.0, 0.0);
    whole.cells[2].repeats = 1;
    let text = terminal(&whole);
    assert!(text.contains("−100.0 ±0.0 ▼▼▼"), "{text}");
    assert!(worst(&whole).contains("mmem ld with 16 threads takes 100 % of the bandwidth"));
    let html = page(&whole);
    for part in [
        "<td class=\"h-d3\"><a href=\"#cell-2\"",
        "<p>−100.0 %, 95 % interval −100.0 to −100.0 %, 1 repetition: interferes: deep suppression.</p>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[test]
fn the_method_is_that_of_the_world() {
    let measured = page(&small());
    let mut model = small();
    model.world = World::Sim;
    let model = page(&model);
    for (html, is_model) in [(measured, false), (model, true)] {
        assert_eq!(html.contains("change a little with the seed"), is_model);
        assert_eq!(html.contains("Hodges and Lehmann"), !is_model);
    }
}

#[test]
fn streams_are_told_apart_by_no_more_than_is_needed() {
    let mut whole = small();
    let mut other = whole.cells[0].clone();
    other.background.threads = 8;
    whole.cells.push(other);
    let text = terminal(&whole);
    assert!(
        text.contains("ld 64 B ×8") && text.contains("ld 64 B ×16"),
        "{text}"
    );
    assert!(!terminal(&small()).contains("×16"));
}

#[test]
fn the_worst_is_one_sentence() {
    assert_eq!(
        worst(&small()),
        "The worst: mmem ntst with 16 threads takes 36.0 % (34.0 to 38.0 %) of the bandwidth of mmem ld with 16 \
         threads; its latency is 1.56 times that alone."
    );
    let mut whole = small();
    whole
        .cells
        .iter_mut()
        .for_each(|cell| cell.interferes = Some(false));
    assert!(worst(&whole).contains("no background takes more than 5 %"));
    whole.cells[3].interferes = None;
    assert!(worst(&whole).contains("of 1 of 4 cells it is not known"));
    assert!(worst(&document(Vec::new())).contains("nothing was measured"));
    let cell = &mut whole.cells[2];
    (cell.interferes, cell.ratio) = (Some(true), Some(1.2));
    cell.alone.bytes_per_sec = None;
    let said = worst(&whole);
    assert!(
        said.contains("20.0 % more of the operations per second to mmem ntst"),
        "{said}"
    );
}

#[test]
fn the_page_has_everything_and_loads_nothing() {
    let mut model = matrix();
    (model.world, model.date_utc) = (World::Sim, None);
    for whole in [matrix(), small(), document(Vec::new()), hostile(), model] {
        let html = page(&explained(&whole).unwrap());
        for loads in [
            "http:", "https:", "src=", "<script", "@import", "<link", "url(h",
        ] {
            assert!(!html.contains(loads), "{loads}");
        }
        assert!(html.contains("default-src 'none'") && html.contains("prefers-color-scheme:dark"));
        assert!(!html.contains(['\u{1b}', '\u{202e}']));
        assert!(html.len() < 1 << 20, "{} bytes", html.len());
        // Each cell leads to a place that is there.
        for index in 0..whole.cells.len() {
            assert!(html.contains(&format!("href=\"#cell-{index}\"")));
            assert!(html.contains(&format!("id=\"cell-{index}\"")));
        }
        assert!(html.contains(&weir_figures::text::escape(&worst(&whole))));
    }
    let html = page(&matrix());
    for part in [
        "−93.2 %",
        "−93.4 to −93.0",
        "h-d3",
        "h-d2",
        "h-d1",
        "h-u1",
        "h-u2",
        "h-u3",
        "hatched",
        "microcode",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let unknown = matrix()
        .cells
        .iter()
        .filter(|c| c.interferes.is_none())
        .count();
    let hatched = html.matches("hatched\"><a").count();
    assert_eq!((hatched, unknown > 0), (unknown, true));
    assert!(page(&small()).contains("this machine has one NUMA node"));
}

#[test]
fn storage_streams_with_and_without_the_page_cache_are_two_rows() {
    let mut whole = matrix();
    let mut buffered = whole
        .cells
        .iter()
        .find(|c| c.victim.target == "ssd")
        .unwrap()
        .clone();
    buffered.victim.direct = Some(false);
    whole.cells.push(buffered);
    let text = terminal(&whole);
    assert!(
        text.contains("buffered") && text.contains("direct"),
        "{text}"
    );
}
