// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal table: numbers, dashes, reasons, width.

use super::*;
use std::collections::BTreeSet;
use weir_figures::COLUMNS;
use weir_figures::text::width;

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

/// The text with its line breaks taken out.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_narrow(table: &str) {
    let widest = table.lines().map(width).max().unwrap();
    assert!(widest <= COLUMNS, "{widest}\n{table}");
}

/// How often the table begins anew below.
fn blocks(table: &str) -> usize {
    table.matches("──\n").count()
}

#[test]
fn the_table_has_the_numbers_in_units_for_people() {
    let table = table(&results());
    for (words, expected) in [
        (
            "set-point  ",
            vec!["bandwidth", "set-point", "MiB/s", "36.0", "36.0"],
        ),
        (
            "mean       ",
            vec!["mean", "MiB/s", "72.0", "36.4", "−50 %"],
        ),
        ("stddev", vec!["stddev", "MiB/s", "1.00", "1.00"]),
        ("bias", vec!["bias", "%", "+100", "+1.00"]),
        (
            "lower bound",
            vec!["lower bound", "ms", "40.0", "20.0", "−50 %"],
        ),
        ("p99 ÷ bound", vec!["p99 ÷ bound", "×", "2.00", "2.00"]),
        (
            "per GiB read",
            vec!["CPU time", "per GiB read", "s", "200", "100", "−50 %"],
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
            "settles in",
            vec!["control", "settles in", "s", "–", "0.400"],
        ),
        ("overshoot", vec!["overshoot", "%", "–", "5.00"]),
    ] {
        assert_eq!(cells(found(&table, &[words])), expected);
    }
    let rows: Vec<Vec<&str>> = table.lines().map(cells).collect();
    for expected in [
        vec!["device access", "mean", "µs", "20.0", "10.0", "−50 %"],
        vec!["p99", "µs", "80.0", "40.0", "−50 %"],
        vec!["light reader", "mean", "ms", "2.00", "1.00", "−50 %"],
        vec!["p50", "ms", "1.60", "0.800", "−50 %"],
        vec!["limited readers", "mean", "ms", "20.0", "10.0", "−50 %"],
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
    let flat = flat(&table[table.find("Not known").unwrap()..]);
    for sentence in [
        "none: control settles in, overshoot: nothing is controlled in this run",
        "max-min: light reader mean, p50, p99: no light reader finished a block",
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
    for sentence in [
        "none: bandwidth mean, stddev, RMSE, bias: no window was whole",
        "max-min: bandwidth RMSE, bias: no value and no reason",
    ] {
        assert!(flat(&table).contains(sentence), "{table}");
    }
    assert!(
        !table.lines().any(|l| l.trim_start().starts_with("bias")),
        "no run has it: {table}"
    );
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
    let table = table(&results);
    is_narrow(&table);
    assert_eq!(table.matches("throughput").count(), blocks(&table));
    let names = run_rows::names(&results);
    let unique: BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    // Long names stand in several lines, in their order.
    let heads: String = table
        .lines()
        .filter(|l| l.starts_with("         "))
        .collect();
    assert_eq!(heads.matches("proportional").count(), 3, "{table}");
    assert_eq!(heads.matches("balance-").count(), 3, "{table}");
    assert_eq!(
        heads.matches('x').count(),
        3 * 23 + "max-min".matches('x').count()
    );
}

/// The results of a live run that are kept in the repository.
fn recorded() -> Results {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../scenarios/recorded/live-fio-stress.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn up_to_four_runs_stand_beside_each_other_on_80_columns() {
    assert_eq!(COLUMNS, 80);
    let all = recorded();
    for names in [
        &["none"][..],
        &["none", "max-min/cpu-max"],
        &["none", "max-min/cpu-max", "max-min/sched-ext-full"],
        &[
            "none",
            "max-min/cpu-max",
            "proportional/cpu-max",
            "balance-point/cpu-max",
        ],
        &[
            "none",
            "max-min/cpu-max",
            "max-min/sched-ext",
            "max-min/sched-ext-full-polled",
        ],
        &[
            "none",
            "none/cpu.max 5000 20000 by hand",
            "max-min/thesis-scx-throttle",
            "max-min/cpu-max",
        ],
    ] {
        let run = |(name, run): (&&str, &Run)| {
            let (policy, backend) = name.split_once('/').unwrap_or(("none", "none"));
            Run {
                policy: policy.into(),
                backend: backend.into(),
                ..run.clone()
            }
        };
        let results = Results {
            runs: names.iter().zip(&all.runs).map(run).collect(),
            caveats: vec![Caveat::new("cpu_sec_per_gib", "why")],
            ..all.clone()
        };
        let table = table(&results);
        is_narrow(&table);
        assert_eq!(blocks(&table), 1, "{table}");
        let has_changes = table.contains("vs");
        assert_eq!(has_changes, [2, 3].contains(&names.len()), "{table}");
    }
}

#[test]
fn each_run_is_compared_with_the_first() {
    let mut results = results();
    results.runs.push(Run {
        backend: "sched-ext".into(),
        ..run("max-min", 36.0, 5_000.0)
    });
    let table = table(&results);
    assert_eq!(
        cells(found(&table, &["throughput"]))[3..],
        ["50.0", "100", "+100 %", "200", "+300 %"]
    );
    assert_eq!(
        cells(found(&table, &["RMSE"]))[2..],
        ["100", "2.95", "−97 %", "2.78", "−97 %"]
    );
}

#[test]
fn what_no_run_has_is_no_row_and_is_said_once() {
    let mut results = results();
    for run in &mut results.runs {
        run.light_reader = Latency::default();
        let why = "no light reader in this scenario".into();
        run.missing.insert("light_reader".into(), why);
    }
    let text = table(&results);
    assert!(
        !text.lines().any(|l| l.starts_with("light reader")),
        "{text}"
    );
    let sentence = "every run: light reader mean, p50, p99: no light reader in this scenario";
    assert_eq!(flat(&text).matches(sentence).count(), 1, "{text}");
    assert_eq!(text.matches("no light reader").count(), 1, "{text}");
    results.runs.truncate(1);
    assert!(flat(&table(&results)).contains("none: light reader mean, p50, p99: no light"));
}

/// Two seeds, the second slower by a half.
fn two_seeds() -> Results {
    let mut results = results();
    for mut run in super::results().runs {
        run.seed = 8;
        let mean = &mut run.light_reader.mean_ns;
        *mean = mean.map(|ns| ns * if run.policy == "none" { 1.0 } else { 1.5 });
        results.runs.push(run);
    }
    results
}

#[test]
fn runs_of_several_seeds_are_named_by_them() {
    let results = two_seeds();
    assert_eq!(
        run_rows::names(&results),
        [
            "none, seed 7",
            "max-min, seed 7",
            "none, seed 8",
            "max-min, seed 8"
        ]
    );
    assert_eq!(
        run_rows::bases(&results.runs),
        [None, Some(0), None, Some(2)]
    );
}

#[test]
fn each_seed_is_compared_with_its_own_run_without_control() {
    let mut results = two_seeds();
    results.runs.remove(1);
    let table = table(&results);
    let row = cells(found(&table, &["light reader", "mean"]));
    assert_eq!(row[3..], ["2.00", "2.00", "1.50", "−25 %"]);
    let picture = Picture {
        size: (1.0, 1.0),
        label: String::new(),
        marks: Vec::new(),
    };
    let pictures = [picture.clone(), picture];
    let page = html(&page::document(&subject(), &results, pictures, &[]));
    assert!(
        page.contains("vs none, seed 8") && !page.contains(" #2"),
        "{page}"
    );
    assert!(page.contains("Seeds 7 to 8."));
}

#[test]
fn controllers_of_the_thesis_and_observers_have_names_of_their_own() {
    let mut results = results();
    let of = |policy: &str, backend: &str| Run {
        policy: policy.into(),
        backend: backend.into(),
        ..run(policy, 36.0, 1e4)
    };
    results.runs.push(of("none", "thesis-monitor"));
    results.runs.push(of("balance-point", "thesis-cgroups"));
    assert_eq!(
        run_rows::names(&results),
        ["none", "max-min", "thesis-monitor", "thesis-cgroups"]
    );
    assert!(run_rows::is_free(&results.runs[2]), "it limits nothing");
}
