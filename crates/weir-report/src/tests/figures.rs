// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal table: numbers, dashes, reasons, width.

use super::*;
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr;

/// The first line of a table that has all the words.
fn found<'a>(table: &'a str, words: &[&str]) -> &'a str {
    let has = |l: &&str| words.iter().all(|w| l.contains(w));
    table
        .lines()
        .find(has)
        .unwrap_or_else(|| panic!("no line with {words:?} in\n{table}"))
}

fn cells(line: &str) -> Vec<&str> {
    line.split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect()
}

#[test]
fn the_table_has_the_numbers_in_units_for_people() {
    let table = table(&results());
    for (words, expected) in [
        (
            "set-point  ",
            vec!["device bandwidth", "set-point", "MiB/s", "36.0", "36.0"],
        ),
        (
            "mean       ",
            vec!["mean", "MiB/s", "72.0", "36.4", "−49.5 %"],
        ),
        ("stddev", vec!["stddev", "MiB/s", "1.00", "1.00", "0.00 %"]),
        ("bias", vec!["bias", "%", "+100", "+1.00"]),
        (
            "Little's bound",
            vec!["Little's bound", "ms", "40.0", "20.0", "−50.0 %"],
        ),
        ("p99 ÷ bound", vec!["p99 ÷ bound", "×", "2.00", "2.00"]),
        (
            "per GiB read",
            vec!["CPU time", "per GiB read", "s", "200", "100", "−50.0 %"],
        ),
        (
            "throughput",
            vec![
                "work beside",
                "throughput",
                "ops/s",
                "50.0",
                "100",
                "+100 %",
            ],
        ),
        (
            "settles after",
            vec!["control", "settles after", "ms", "–", "400"],
        ),
        ("overshoot", vec!["overshoot", "%", "–", "5.00"]),
        ("lag", vec!["host", "lag", "%", "0.10", "0.10"]),
    ] {
        assert_eq!(cells(found(&table, &[words])), expected);
    }
    let rows: Vec<Vec<&str>> = table.lines().map(cells).collect();
    for expected in [
        vec!["device access", "mean", "µs", "20.0", "10.0", "−50.0 %"],
        vec!["p99", "µs", "80.0", "40.0", "−50.0 %"],
        vec!["light reader", "mean", "ms", "2.00", "1.00", "−50.0 %"],
        vec!["p50", "ms", "1.60", "0.800", "−50.0 %"],
        vec!["limited readers", "mean", "ms", "20.0", "10.0", "−50.0 %"],
    ] {
        assert!(rows.contains(&expected), "no row {expected:?} in\n{table}");
    }
}

#[test]
fn what_is_not_known_is_a_dash_with_its_reason() {
    let mut results = results();
    let held = &mut results.runs[1];
    held.light_reader = Latency::default();
    held.missing.insert(
        "light_reader".into(),
        "no light reader\nfinished a block".into(),
    );
    held.cpu_sec_per_gib = None;
    let table = table(&results);
    assert!(found(&table, &["light reader", "mean"]).contains('–'));
    assert!(
        !found(&table, &["light reader", "mean"]).contains("0.00"),
        "missing is not zero"
    );
    let reasons = &table[table.find("Not known").unwrap()..];
    let flat = reasons.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "none: control settles after, control overshoot: nothing is controlled in this run",
        "max-min: light reader mean, light reader p50, light reader p99: no light reader finished a block",
        "max-min: CPU time per GiB read: no value and no reason in the results",
    ] {
        assert!(flat.contains(sentence), "{sentence}\n{flat}");
    }
}

#[test]
fn a_reason_or_nonsense_in_place_of_a_number_hides_it() {
    let mut results = results();
    results.runs[0].bandwidth = Bandwidth::of(&[], 36.0 * MIB);
    results.runs[0]
        .missing
        .insert("bandwidth".into(), "no window was whole".into());
    results.runs[1].bandwidth = Bandwidth::of(&[1.0], 0.0);
    let table = table(&results);
    assert_eq!(
        cells(found(&table, &["stddev"])),
        ["stddev", "B/s", "–", "0.00"]
    );
    assert_eq!(cells(found(&table, &["bias"])), ["bias", "%", "–", "–"]);
    assert!(table.contains("no window was whole"));
}

#[test]
fn many_runs_with_long_names_stay_within_the_width() {
    let mut results = results();
    for i in 0..9 {
        results.runs.push(run(
            ["proportional", "balance-point", "x".repeat(200).as_str()][i % 3],
            36.0,
            1e4,
        ));
    }
    results.runs[4]
        .missing
        .insert("settle_ms".into(), "y".repeat(300));
    results.runs[4].settle_ms = None;
    results.runs[5].host_lag_ratio = Some(0.2);
    let table = table(&results);
    let widest = table.lines().map(UnicodeWidthStr::width).max().unwrap();
    assert!(widest <= COLUMNS, "{widest}\n{table}");
    assert_eq!(
        table.matches("throughput").count(),
        table.matches("──\n").count()
    );
    let heads: Vec<&str> = table
        .lines()
        .filter(|l| l.starts_with("         "))
        .collect();
    let names = rows::names(&results);
    let unique: BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    for name in &names {
        assert!(
            heads.iter().any(|h| h.contains(name.as_str())),
            "{name} has no column\n{table}"
        );
    }
    assert!(
        table.contains("the host lost 20.0 % of the model's time"),
        "{table}"
    );
}
