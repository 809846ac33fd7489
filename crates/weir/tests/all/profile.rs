// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile` as its users meet it: from lines of perf to three lines that answer.

use crate::desk::{Desk, out, said};
use serde_json::Value;
use std::path::PathBuf;

fn table_7() -> String {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../weir-profile/tests/data/table7.windows");
    path.to_str().unwrap().to_owned()
}

/// Demand reads that miss L2 take `scale` times as long as on the quiet machine, those that miss the
/// last-level cache as long: see weir-profile's `before_llc.rs`.
pub fn stream(scale: u64) -> String {
    let line =
        |count: u64, event: &str| format!("1.000000000,{count},,{event},1000000000,100.00,,\n");
    line(
        100 * scale * 1000,
        "offcore_requests_outstanding.demand_data_rd",
    ) + &line(1000, "offcore_requests.demand_data_rd")
        + &line(
            300 * 1000,
            "offcore_requests_outstanding.l3_miss_demand_data_rd",
        )
        + &line(1000, "offcore_requests.l3_miss_demand_data_rd")
        + &line(7, "page-faults")
}

/// A file of windows of such a stream.
fn imported(desk: &Desk, name: &str, scale: u64) -> String {
    let csv = desk.file(&format!("{name}.csv"), &stream(scale));
    let windows = csv.replace(".csv", ".windows");
    let import = desk.weir(&[
        "import",
        &csv,
        "--family",
        "sapphire-rapids",
        "--out",
        &windows,
    ]);
    assert_eq!(import.status.code(), Some(0), "{}", said(&import));
    let summary = "1 windows, 4 roles, 1 events without a role; family sapphire-rapids\n";
    assert_eq!(out(&import), summary);
    let again = desk.weir(&[
        "import",
        &csv,
        "--family",
        "sapphire-rapids",
        "--out",
        &windows,
    ]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        said(&again).contains("exists: name a new file"),
        "{}",
        said(&again)
    );
    windows
}

#[test]
fn a_recording_is_imported_and_answered() {
    let desk = Desk::new();
    let (quiet, loud) = (imported(&desk, "quiet", 1), imported(&desk, "loud", 15));
    let report = desk.weir(&["report", &loud, "--idle", &quiet]);
    assert_eq!(report.status.code(), Some(1), "something was found");
    let text = out(&report);
    let lines: Vec<&str> = text.lines().take(3).collect();
    let wrong = "machine: demand reads wait between L2 and the last-level cache";
    assert!(lines[0].starts_with(wrong), "{text}");
    let since = "15.0 times as long (since 0 s, in 1 of 1 window)";
    assert!(lines[0].contains(since), "{text}");
    assert!(lines[1].starts_with("how sure: inferred"), "{text}");
    assert!(lines[1].contains("refuted by"), "{text}");
    assert!(lines[2].starts_with("next: find the neighbour"), "{text}");
    assert!(
        text.contains("events without a role: page-faults"),
        "{text}"
    );

    let json = desk.weir(&["report", &quiet, "--json"]);
    assert_eq!(json.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let line = |place: usize| report["headline"][place].as_str().unwrap().to_owned();
    assert!(
        line(0).starts_with("nothing found in 1 window (1.0 s)"),
        "{}",
        line(0)
    );
    assert!(line(1).contains("on the CXL link (port."), "{}", line(1));
}

/// As PerfSpect has perf count: each box by itself, its number behind the name; and by raw numbers.
#[test]
fn boxes_and_raw_events_have_the_roles_of_their_names() {
    let desk = Desk::new();
    let line = |event: &str| format!("1.000000000,4000,,{event},4000000000,100.00,,\n");
    let clocks = "UNC_CHA_CLOCKTICKS";
    let reads = "UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC";
    let boxes = (0..3).flat_map(|number| [clocks, reads].map(|e| line(&format!("{e}.{number}"))));
    let counts = boxes.collect::<String>() + &line("r20d1") + &line("cpu/config=0x430000/");
    let csv = desk.file("boxes.csv", &counts);
    let family = ["--family", "sapphire-rapids"];
    let import = desk.weir(&[&["import", &csv], &family[..]].concat());
    assert_eq!(import.status.code(), Some(0), "{}", said(&import));
    let window = out(&import);
    let window: Value = serde_json::from_str(window.lines().nth(1).unwrap()).unwrap();
    let of = |role: &str| -> Vec<String> {
        let counts = window["machine"].as_array().unwrap().iter();
        let counts = counts.filter(|count| count["role"] == role);
        counts.map(|count| count["of"].to_string()).collect()
    };
    assert_eq!(of("tor.any.any.clock").len(), 3, "{window}");
    assert_eq!(of("tor.drd.cxl.inserts").len(), 3, "{window}");
    assert_eq!(window["unassigned"][0]["event"], "cpu/config=0x430000/");
}

#[test]
fn a_file_of_which_no_event_has_a_role_is_refused_with_what_to_count() {
    let desk = Desk::new();
    let csv = desk.file("c.csv", "1.000000000,4,,UNC_X.0,1000,100.00,,\n");
    let import = desk.weir(&["import", &csv, "--family", "zen5"]);
    assert_eq!(import.status.code(), Some(2));
    let why = said(&import);
    assert!(why.contains("none of its 1 events has a role"), "{why}");
    assert!(why.contains("`weir events --family zen5`"), "{why}");
    assert!(import.stdout.is_empty());
    let csv = desk.file(
        "d.csv",
        "1.000000000,4,,UNC_CHA_TOR_INSERTS.IA_MISS_DRD_CXL_ACC,1000,100.00,,\n",
    );
    let other = said(&desk.weir(&["import", &csv, "--family", "zen5"]));
    // Emerald Rapids has the event and no role for it alone: it is no next move.
    let others = "by those of sapphire-rapids and granite-rapids";
    assert!(other.contains(others), "{other}");
    let import = desk.weir(&["import", &csv, "--family", "granite-rapids"]);
    assert_eq!(import.status.code(), Some(0), "{}", said(&import));
}

#[test]
fn a_paper_is_reported_with_its_yardsticks() {
    let desk = Desk::new();
    let report = desk.weir(&["report", &table_7(), "--each", "--method", "pathfinder"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let text = out(&report);
    assert!(
        text.contains("58.98 % of lines of drd, rfo and pf from LLC"),
        "{text}"
    );
    assert!(
        text.contains("window 3: fewer lines from CXL memory"),
        "{text}"
    );
}

#[test]
fn trouble_names_the_next_move() {
    let desk = Desk::new();
    let stream = desk.file("stream.csv", &stream(1));
    let people = desk.file("people", " Performance counter stats for 'true':\n");
    let empty = desk.file("empty", "");
    let cases: [(&[&str], &str); 7] = [
        (&["import", &stream], "say which with --family"),
        (
            &["import", &stream, "--family", "sapphire"],
            "there are sapphire-rapids, ",
        ),
        (&["import", &people], "count with -x, or with -j"),
        (&["import", &empty], "no line of `perf stat -x,`"),
        (&["report", &stream], "make one with `weir profile import`"),
        (
            &["report", &table_7(), "--workload", "db"],
            "count with --for-each-cgroup",
        ),
        (&["report", "/nowhere"], "cannot open /nowhere"),
    ];
    for (arguments, wanted) in cases {
        let output = desk.weir(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            said(&output).contains(wanted),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let desk = Desk::new();
    let csv = desk.file(
        "odd.csv",
        "7,,cycles,1,100.00,,\nnan,,in\u{1b}[2J,1,100.00,,\n",
    );
    let import = desk.weir(&["import", &csv]);
    assert_eq!(import.status.code(), Some(1));
    assert!(
        said(&import).contains("line 2 is left out: \"nan\" is no count"),
        "{}",
        said(&import)
    );
    let windows = desk.file("odd.windows", &out(&import));
    let report = desk.weir(&["report", &windows]);
    assert!(
        out(&report).contains("note: line 2 is left out"),
        "{}",
        out(&report)
    );
}

#[test]
fn one_of_several_runs_is_imported() {
    let desk = Desk::new();
    let run = |day: &str, count: u32| {
        format!(
            "# started on {day}\n\n1.000000000,{count},,instructions,9,100.00,,\n\
             2.000000000,{count},,instructions,9,100.00,,\n"
        )
    };
    let csv = desk.file("runs.csv", &(run("Mon", 5) + &run("Tue", 9)));
    let import = desk.weir(&["import", &csv]);
    assert_eq!(import.status.code(), Some(2), "{}", out(&import));
    let why = "a second run begins at line 7";
    assert!(said(&import).contains(why), "{}", said(&import));
    let import = desk.weir(&["import", &csv, "--run", "2"]);
    assert_eq!(import.status.code(), Some(0), "{}", said(&import));
    let text = out(&import);
    let values: Vec<u64> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|window| window["machine"][0]["value"]["Ok"].as_u64().unwrap())
        .collect();
    assert_eq!(values, [9, 9], "{text}");
}

#[test]
fn methods_explain_figures_and_rules() {
    let desk = Desk::new();
    let text = out(&desk.weir(&["methods"]));
    for wanted in [
        "\nresidence\n",
        "Little's law",
        "\nbefore_llc\n",
        "\nlink_errors\n",
        "refuted by",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let json: Value = serde_json::from_slice(&desk.weir(&["methods", "--json"]).stdout).unwrap();
    assert!(json["rules"].as_array().unwrap().len() >= 3);
}

#[test]
fn what_was_left_out_of_a_file_is_said_before_its_figures() {
    let desk = Desk::new();
    let whole = std::fs::read_to_string(table_7()).unwrap();
    let cut = desk.file("cut.windows", &whole[..whole.len() - 20]);
    let recording = cut.replace(".windows", ".recording");
    let made = desk.weir(&["export", &cut, "--table", "recording", "--out", &recording]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let report = out(&desk.weir(&["report", &recording]));
    let (before, _) = report.split_once("\n== ").unwrap();
    let notes: Vec<&str> = before.lines().skip(3).collect();
    assert!(
        notes.iter().all(|line| line.starts_with("note: ")),
        "{before}"
    );
    assert!(before.contains("is cut: the recording ended"), "{before}");

    let mut bytes = std::fs::read(&recording).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x5a;
    std::fs::write(&recording, &bytes).unwrap();
    // The only frame is damaged.
    for command in ["report", "export"] {
        let damaged = desk.weir(&[command, &recording]);
        assert_eq!(damaged.status.code(), Some(2), "{command}");
        let why = said(&damaged);
        assert!(why.contains("bytes of the file were changed"), "{why}");
    }
}
