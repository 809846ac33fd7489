// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files: what is written is read again, and hostile ones are refused with their name and the next move.

use super::{document, matrix, small};
use crate::interference::document::{InterferenceDocument, StreamFigures};
use crate::interference::{
    compare, comparison_page, comparison_terminal, explained, json, page, parse, read, terminal,
};
use serde_json::Value;
use std::fs;
use weir_figures::text::width;

fn value(document: &InterferenceDocument) -> Value {
    serde_json::from_slice(&json(document).unwrap()).unwrap()
}

/// What is said of a changed document.
fn refusal(change: impl Fn(&mut Value)) -> String {
    let mut changed = value(&small());
    change(&mut changed);
    format!("{:#}", parse(&changed.to_string()).unwrap_err())
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    for whole in [matrix(), small(), document(Vec::new())] {
        let whole = explained(&whole).unwrap();
        fs::write(&path, json(&whole).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), whole);
    }
}

#[test]
fn every_null_has_its_reason() {
    let mut whole = matrix();
    whole.plan.seconds = None;
    let cell = &mut whole.cells[0];
    cell.alone = StreamFigures {
        bytes_per_sec: Some(f64::NAN),
        ..StreamFigures::default()
    };
    (cell.ratio, cell.interferes) = (None, None);
    cell.missing
        .insert("ratio".into(), "the stream did not start".into());
    cell.sweep[1].ratio_low = None;
    let whole = explained(&whole).unwrap();
    let missing = &whole.cells[0].missing;
    assert_eq!(missing["ratio"], "the stream did not start");
    for name in [
        "alone.bytes_per_sec",
        "alone.ops_per_sec",
        "interferes",
        "sweep.1.ratio_low",
    ] {
        assert!(missing.contains_key(name), "{name}: {missing:?}");
    }
    // A group's reason is that of its values, and a cell's that of its points.
    let names: Vec<&String> = missing.keys().collect();
    assert!(
        !names.iter().any(|n| n.starts_with("counters.")),
        "{names:?}"
    );
    assert!(
        !missing.contains_key("sweep.1.alone.ops_per_sec"),
        "{names:?}"
    );
    assert!(whole.missing.contains_key("plan.seconds"));
    let ssd = whole
        .cells
        .iter()
        .find(|c| c.victim.target == "ssd")
        .unwrap();
    assert!(ssd.missing["victim.width_bytes"].contains("memory streams"));
}

#[test]
fn cut_off_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.json");
    let text = json(&small()).unwrap();
    for length in [0, 1, 40, text.len() / 2, text.len() - 3] {
        fs::write(&path, &text[..length]).unwrap();
        let said = format!("{:#}", read(&path).unwrap_err());
        assert!(
            said.contains("half.json") && said.contains("cut off"),
            "{said}"
        );
        assert!(said.contains("weir bench interference"), "{said}");
    }
    fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
    let said = format!("{:#}", read(&path).unwrap_err());
    assert!(
        said.contains("half.json") && said.contains("no JSON text"),
        "{said}"
    );
    let said = format!(
        "{:#}",
        read(&folder.path().join("absent.json")).unwrap_err()
    );
    assert!(
        said.contains("absent.json") && said.contains("path"),
        "{said}"
    );
}

#[test]
fn other_kinds_and_later_versions_are_refused() {
    assert!(refusal(|v| v["kind"] = "weir-profile".into()).contains("\"weir-profile\""));
    assert!(refusal(|v| drop(v.as_object_mut().unwrap().remove("kind"))).contains("has no kind"));
    let later = refusal(|v| v["version"] = 2.into());
    assert!(
        later.contains("version 2") && later.contains("later one"),
        "{later}"
    );
    for version in [Value::Null, 0.into(), (-1).into(), "1".into(), 1.5.into()] {
        assert!(refusal(|v| v["version"] = version.clone()).contains("not a number from 1"));
    }
    // A later version may have other keys: it is named before they are looked at.
    let later = r#"{"kind": "weir-interference", "version": 9, "cells": 3}"#;
    assert!(format!("{:#}", parse(later).unwrap_err()).contains("version 9"));
    assert!(format!("{:#}", parse("[]").unwrap_err()).contains("weir bench"));
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let text = String::from_utf8(json(&small()).unwrap()).unwrap();
    let said = format!(
        "{:#}",
        parse(&text.replace("\"ratio\": 0.82", "\"ratio\": 1e999")).unwrap_err()
    );
    assert!(said.contains("out of range"), "{said}");
    let said = refusal(|v| v["cells"][1]["ratio"] = (-0.5).into());
    assert!(
        said.contains("cells[1] (mmem ld 64 B ×16") && said.contains("-0.5"),
        "{said}"
    );
    let said = refusal(|v| v["cells"][1]["ratio"] = 3.into());
    assert!(said.contains("outside of its interval"), "{said}");
    let said = refusal(|v| v["cells"][2]["sweep"][3]["together"]["latency_ns"] = (-1).into());
    assert!(said.contains("sweep[3]: together: latency_ns"), "{said}");
    assert!(refusal(|v| v["cells"][0]["class"][0] = "awful".into()).contains("awful"));
    assert!(refusal(|v| v["plan"]["half_width_ratio"] = (-1).into()).contains("half_width_ratio"));
}

#[test]
fn a_cell_that_is_there_twice_and_hostile_sizes_are_refused() {
    let said = refusal(|v| {
        let first = v["cells"][0].clone();
        v["cells"].as_array_mut().unwrap().push(first);
    });
    assert!(
        said.contains("cells[4]") && said.contains("there twice"),
        "{said}"
    );
    let said = refusal(|v| {
        let point = v["cells"][0]["sweep"][0].clone();
        v["cells"][0]["sweep"] = vec![point; 5000].into();
    });
    assert!(said.contains("5000 points"), "{said}");
    let many = (0..10_001).map(|i| {
        let mut one = small().cells.remove(0);
        (one.background.threads, one.sweep) = (i, Vec::new());
        one
    });
    let said = format!(
        "{:#}",
        parse(&value(&document(many.collect())).to_string()).unwrap_err()
    );
    assert!(said.contains("10001 cells"), "{said}");
    let deep = "[".repeat(100_000);
    assert!(parse(&deep).is_err());
}

#[test]
fn hostile_names_in_messages_are_one_harmless_line() {
    let said = refusal(|v| {
        v["cells"][0]["victim"]["op"] = "\u{1b}[2J\nld\u{202e}".into();
        v["cells"][0]["ratio"] = (-1).into();
    });
    assert!(!said.contains(['\u{1b}', '\n', '\u{202e}']), "{said:?}");
}

#[test]
fn damaged_files_are_refused_or_shown_and_never_a_panic() {
    let text = json(&small()).unwrap();
    let mut state = 7_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut shown = 0;
    for _ in 0..500 {
        let mut damaged = text.clone();
        for _ in 0..=draw(2) {
            let at = draw(damaged.len());
            // Digits and signs keep it JSON more often than any byte does.
            damaged[at] = match draw(2) {
                0 => b"0123456789-.e,:\"[]{}"[draw(20)],
                _ => u8::try_from(draw(256)).unwrap(),
            };
        }
        let Ok(document) = std::str::from_utf8(&damaged)
            .map_err(anyhow::Error::from)
            .and_then(parse)
        else {
            continue;
        };
        shown += 1;
        let text = terminal(&document);
        assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        let html = page(&document);
        assert!(html.ends_with("</html>\n"));
        if let Ok(found) = compare(&document, &small()) {
            let text = comparison_terminal(&found);
            assert!(text.lines().all(|line| width(line) <= 80), "{text}");
            assert!(comparison_page(&document, &small(), &found).ends_with("</html>\n"));
        }
    }
    assert!(shown > 10, "{shown}");
}
