// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is written: exact keys, reasons, nothing loaded, nothing hostile, nothing half.

use super::*;
use crate::results::WorkloadShares;
use serde_json::Value;
use std::collections::BTreeSet;

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_summary_reads_back_and_has_exactly_the_documented_keys() {
    let mut results = results();
    results.runs[1]
        .estimate_error_ratio
        .insert("reader1".into(), 0.04);
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), &subject(), &results).unwrap();
    let text = std::fs::read_to_string(&files[0]).unwrap();
    let read: Results = serde_json::from_str(&text).unwrap();
    let mut expected = results.clone();
    expected.runs.iter_mut().for_each(|r| r.series.clear());
    assert_eq!(read, expected);

    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(keys(&value), BTreeSet::from(["scenario", "runs"]));
    let documented = documented();
    for run in value["runs"].as_array().unwrap() {
        assert_eq!(fields(run), documented);
    }
}

/// The example in the documentation is a file of this format.
#[test]
fn the_documented_example_is_one() {
    let text = documentation();
    let json = text
        .split("```json\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let read: Results = serde_json::from_str(json).unwrap();
    assert_eq!(read.runs[0].device_latency.mean_ns, Some(31_000.0));
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(fields(&value["runs"][0]), documented());
    // It has everything that may be absent.
    for (part, prefix) in [
        (&value["origin"], "origin."),
        (&value["caveats"][0], "caveats[]."),
    ] {
        let names: BTreeSet<String> = keys(part).into_iter().map(Into::into).collect();
        assert_eq!(names, documented_under(prefix));
    }
    let again: Value = serde_json::from_slice(&files::summary(&read).unwrap()).unwrap();
    assert_eq!(again, value);
}

/// Dotted names of a run's fields, with those that may be absent.
fn fields(run: &Value) -> BTreeSet<String> {
    let open = [
        "missing",
        "estimate_error_ratio",
        "shares",
        "limited_gap_ms",
        "start_ms",
        "fingerprint",
        "virtual_sec",
        "wall_sec",
    ];
    let mut names: BTreeSet<String> = open.map(String::from).into();
    for (name, value) in run.as_object().unwrap() {
        match value.as_object() {
            Some(parts) if !open.contains(&name.as_str()) => {
                names.extend(parts.keys().map(|part| format!("{name}.{part}")));
            }
            _ => drop(names.insert(name.clone())),
        }
    }
    names
}

/// Shares have the keys that their own table has.
#[test]
fn shares_have_the_documented_keys() {
    let shares = serde_json::to_value(WorkloadShares::default()).unwrap();
    let names: BTreeSet<String> = keys(&shares).into_iter().map(Into::into).collect();
    assert_eq!(names, documented_under("shares.NAME."));
}

fn documentation() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/results.md");
    std::fs::read_to_string(path).unwrap()
}

/// The fields of a run that `docs/reference/results.md` has a table row for.
fn documented() -> BTreeSet<String> {
    documented_under("runs[].")
}

fn documented_under(prefix: &str) -> BTreeSet<String> {
    let start = format!("| `{prefix}");
    let field = |l: &str| Some(l.strip_prefix(&start)?.split_once('`')?.0.to_string());
    documentation().lines().filter_map(field).collect()
}

#[test]
fn every_null_of_the_summary_has_a_reason() {
    let mut results = results();
    results.runs[0].device_latency.p99_ns = None;
    results.runs[0].bandwidth.bias_ratio = f64::NAN;
    results.runs[0]
        .estimate_error_ratio
        .insert("reader1".into(), f64::INFINITY);
    let text = files::summary(&results).unwrap();
    let value: Value = serde_json::from_slice(&text).unwrap();
    let run = &value["runs"][0];
    assert!(run["bandwidth"]["bias_ratio"].is_null());
    assert_eq!(
        run["missing"]["settle_ms"],
        "nothing is controlled in this run"
    );
    for key in [
        "device_latency.p99_ns",
        "bandwidth.bias_ratio",
        "estimate_error_ratio.reader1",
    ] {
        assert!(run["missing"][key].is_string(), "{key}: {run}");
    }
    assert!(
        value["runs"][1].get("missing").is_none(),
        "nothing is missing there"
    );
}

#[test]
fn the_series_is_a_table_of_its_own() {
    let mut results = results();
    results.runs[1].policy = "a,\"b\"".into();
    results.runs[1].series = vec![
        Point {
            at_ms: 100.0,
            bytes_per_sec: 1.5,
        },
        Point {
            at_ms: 200.0,
            bytes_per_sec: f64::NAN,
        },
    ];
    results.runs[0].series.truncate(1);
    let expected = "run,policy,backend,at_ms,bytes_per_sec\n0,none,none,0,75497472\n\
                    1,\"a,\"\"b\"\"\",cpu-max,100,2\n1,\"a,\"\"b\"\"\",cpu-max,200,\n";
    assert_eq!(files::series(&results), expected);
}

#[test]
fn the_page_stands_alone_and_says_everything() {
    let dir = tempfile::tempdir().unwrap();
    let files = write(dir.path(), &subject(), &results()).unwrap();
    let html = std::fs::read_to_string(&files[3]).unwrap();
    let loads = [
        "http://", "https://", "//cdn", "<script", "<link", "<img", "src=", "@import", "url(",
    ];
    for load in loads {
        assert!(!html.contains(load), "{load}");
    }
    for part in [
        "<div class=\"on-page\"><svg ",
        "<div class=\"on-phone\"><svg ",
        "prefers-color-scheme",
        "all 8 bounds met",
        "nothing is controlled in this run",
        "set_point_ratio = 0.4",
        "−50 %",
        "nothing ran",
        "This report was made by",
        "summary.json",
    ] {
        assert!(html.contains(part), "{part} is not in the page");
    }
    let text = html
        .split("<pre>")
        .last()
        .unwrap()
        .split("</pre>")
        .next()
        .unwrap();
    let read = text.replace("&quot;", "\"");
    assert_eq!(
        read,
        subject().toml,
        "the scenario in the page is the scenario"
    );
    assert_eq!(html.matches("<td").count(), html.matches("</td>").count());
}

#[test]
fn hostile_names_are_text_everywhere() {
    let evil = "<script>alert(1)</script>\"'&\u{1b}[2J\u{202e}\n";
    let mut results = results();
    let mut subject = subject();
    subject.about = evil.into();
    results.scenario = evil.into();
    results.origin = Some(Origin {
        weir_version: evil.into(),
        commit: Some(evil.into()),
        world: evil.into(),
        kernel_release: Some(evil.into()),
        qemu_version: Some(evil.into()),
        host: Some(evil.into()),
        date_utc: Some(evil.into()),
        ..Origin::default()
    });
    results.caveats = vec![Caveat::new(evil, evil)];
    for run in &mut results.runs[1..] {
        run.policy = evil.into();
        run.backend = evil.into();
        run.world = evil.into();
        run.settle_ms = None;
        run.throughput_ops_per_sec = None;
        run.missing.insert("settle_ms".into(), evil.into());
        run.missing
            .insert("throughput_ops_per_sec".into(), evil.into());
        run.estimate_error_ratio.insert(evil.into(), 0.5);
    }
    let dir = tempfile::tempdir().unwrap();
    let command = Command {
        what: evil.into(),
        line: evil.into(),
    };
    let files = write_with(dir.path(), &subject, &results, &[command]).unwrap();
    let html = std::fs::read_to_string(&files[3]).unwrap();
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;"));
    for text in [
        html,
        table(&results),
        terminal(&subject, &results),
        checks_table(&checks(&subject, &results)),
    ] {
        let bad = text
            .chars()
            .find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(bad, None);
    }
    let summary = std::fs::read_to_string(&files[0]).unwrap();
    assert_eq!(
        serde_json::from_str::<Results>(&summary).unwrap().scenario,
        evil
    );
}

#[test]
fn empty_and_absurd_results_are_reported_without_a_panic() {
    let nonsense = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        0.0,
        1e300,
        f64::MIN_POSITIVE,
    ];
    let mut all = vec![Results::default(), results(), results()];
    all[1].runs.iter_mut().for_each(|r| r.series.clear());
    all[2].runs.truncate(1);
    for value in nonsense {
        let mut run = run("max-min", value, value);
        run.set_point_bytes_per_sec = value;
        run.settle_ms = Some(value);
        run.series = nonsense
            .map(|at_ms| Point {
                at_ms,
                bytes_per_sec: value,
            })
            .to_vec();
        all.push(Results {
            scenario: String::new(),
            runs: vec![Run::default(), run],
            ..Results::default()
        });
    }
    for results in all {
        for capacity_bytes_per_sec in [9e7, 0.0, f64::NAN, f64::INFINITY] {
            let subject = ScenarioInfo {
                capacity_bytes_per_sec,
                ..subject()
            };
            let dir = tempfile::tempdir().unwrap();
            write(dir.path(), &subject, &results).unwrap();
            assert!(table(&results).ends_with('\n'));
            assert!(terminal(&subject, &results).ends_with('\n'));
            checks_table(&checks(&subject, &results));
        }
    }
}

#[test]
fn errors_name_the_file_and_leave_no_debris() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = write(&file, &subject(), &results()).unwrap_err();
    assert!(format!("{error:#}").contains("file"), "{error:#}");
    // A directory stands where a file is to be.
    let out = dir.path().join("out");
    std::fs::create_dir_all(out.join("index.html/inside")).unwrap();
    let error = write(&out, &subject(), &results()).unwrap_err();
    assert!(format!("{error:#}").contains("index.html"), "{error:#}");
    let names: BTreeSet<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["bandwidth.png", "index.html", "series.csv", "summary.json"];
    assert_eq!(names, expected.map(String::from).into());
}

#[test]
fn commands_can_be_pasted_into_a_shell() {
    assert_eq!(quoted("--out"), "--out");
    assert_eq!(quoted("two words"), "'two words'");
    assert_eq!(quoted("it's"), "'it'\\''s'");
    assert_eq!(quoted(""), "''");
}
