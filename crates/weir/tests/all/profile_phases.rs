// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Phases of a recording, and parts of one, as users of `weir profile` meet them: cases 1 and 7 of the
//! simulated server, of which it is known when they change.

use crate::desk::{Desk, out, said};
use serde_json::Value;

fn phases<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    let subjects = report["subjects"].as_array().unwrap();
    let subject = subjects
        .iter()
        .find(|subject| subject["name"] == name)
        .unwrap();
    subject["phases"]["Ok"]["phases"].as_array().unwrap()
}

fn firsts(report: &Value, name: &str) -> Vec<u64> {
    let phases = phases(report, name).iter();
    phases
        .map(|phase| phase["first_window"].as_u64().unwrap())
        .collect()
}

fn change<'a>(phase: &'a Value, figure: &str) -> &'a Value {
    let changes = phase["changes"].as_array().unwrap();
    let found = changes.iter().find(|change| change["figure"] == figure);
    found.unwrap_or_else(|| panic!("no {figure} in {phase}"))
}

/// Hot pages move to DRAM at 400 µs, the beginning of window 9.
#[test]
fn a_move_of_pages_is_a_phase_and_the_culprit_is_gone_after_it() {
    let desk = Desk::new();
    for seed in ["1", "2", "3"] {
        let [file, idle] = desk.recorded("7-tiering", seed);
        let whole = desk.json(&["report", &file, "--idle", &idle]);
        let found = firsts(&whole, "gups");
        assert!(
            found.len() == 2 && found[1].abs_diff(9) <= 1,
            "seed {seed}: {found:?}"
        );
        let share = change(&phases(&whole, "gups")[1], "cxl-ratio");
        let (before, after) = (&share["before"], &share["after"]);
        assert!(
            before.as_f64() > Some(0.9) && after.as_f64() < Some(0.2),
            "{share}"
        );
        let saturated = |span: &[&str]| -> bool {
            let arguments = [
                &["report", &file, "--idle", &idle, "--workload", "reader"],
                span,
            ]
            .concat();
            let report = desk.json(&arguments);
            let rules = report["rules"].as_array().unwrap();
            rules
                .iter()
                .any(|rule| rule["rule"] == "device_saturated" && rule["outcome"] == "found")
        };
        assert!(saturated(&["--to", "400us"]), "seed {seed}");
        assert!(!saturated(&["--from", "450us"]), "seed {seed}");
        let spans = ["--before", "..400us", "--after", "450us.."];
        let rows = desk.json(&[&["diff", &file], &spans[..]].concat());
        let verdict = |subject: &str, role: &str| -> &Value {
            let mut rows = rows.as_array().unwrap().iter();
            let row = rows.find(|row| row["subject"] == subject && row["role"] == role);
            &row.unwrap_or_else(|| panic!("no {subject} {role}"))["verdict"]
        };
        assert_eq!(verdict("gups", "sq.reads.dram.lines"), "appeared");
        assert_eq!(
            verdict("reader", "sq.reads.cxl.lines"),
            "not_distinguishable"
        );
    }
}

/// A program of two phases, the second from 550 µs on: window 11. Fewer lines come from CXL memory.
#[test]
fn a_program_of_two_phases_has_two() {
    let desk = Desk::new();
    let [file, _] = desk.recorded("1-paths", "1");
    let report = desk.json(&["report", &file]);
    assert_eq!(firsts(&report, "gcc"), [1, 11]);
    assert_eq!(firsts(&report, "stream"), [1]);
    let second = &phases(&report, "gcc")[1];
    let lines = change(second, "cxl-lines-per-sec");
    assert!(
        lines["after"].as_f64() < lines["before"].as_f64(),
        "{lines}"
    );
    let shown = out(&desk.weir(&["report", &file, "--workload", "gcc"]));
    assert!(
        shown.contains("phase 2: 0.550 ms to 1.050 ms, 10 windows from 11"),
        "{shown}"
    );
    assert!(shown.contains("pf → drd"), "{shown}");
}

#[test]
fn short_parts_and_wrong_spans_say_what_there_is() {
    let desk = Desk::new();
    let [file, _] = desk.recorded("8-reverse", "1");
    let short = out(&desk.weir(&["report", &file, "--to", "200us"]));
    assert!(
        short.contains("phases: not looked for: 3 windows, and 12 are needed"),
        "{short}"
    );
    assert!(short.contains("note: only windows 1 to 3 of 16"), "{short}");
    let refused = |arguments: &[&str], expected: &str| {
        let made = desk.weir(arguments);
        assert_eq!(made.status.code(), Some(2), "{arguments:?}");
        assert!(
            said(&made).contains(expected),
            "{arguments:?}: {}",
            said(&made)
        );
    };
    refused(
        &["report", &file, "--from", "90s"],
        "16 windows go from 0.020 ms to 0.820 ms",
    );
    refused(
        &["report", &file, "--from", "2ms", "--to", "1ms"],
        "ends at 1.000 ms and begins at",
    );
    refused(&["report", &file, "--from", "-1s"], "it must be above 0");
    refused(&["diff", &file], "add --before and --after");
    refused(
        &["diff", &file, "--before", "..1ms"],
        "add --before and --after",
    );
    refused(
        &["diff", &file, "--before", "1ms", "--after", "1ms.."],
        "is no span of time",
    );
}

/// The aim: 95 % of the figures of another seed are not distinguishable.
#[test]
fn another_seed_is_not_another_machine() {
    let desk = Desk::new();
    let (mut all, mut changed) = (0, 0);
    for seed in ["1", "2"] {
        let other = format!("100{seed}");
        let [one, other] = [seed, &other].map(|seed| desk.recorded("3-local-beside-cxl", seed));
        let rows = desk.json(&["diff", &one[0], &other[0]]);
        let rows = rows.as_array().unwrap();
        all += rows.len();
        changed += rows
            .iter()
            .filter(|row| row["verdict"] != "not_distinguishable")
            .count();
    }
    assert!(all > 500 && changed * 20 <= all, "{changed} of {all}");
}

/// A reader with half of its pages on a device that is slower by so many ns, beside a stream.
fn beside_a_stream(slower_by_ns: &str) -> String {
    let head =
        "name = \"slow\"\nabout = \"a reader and a stream on one device\"\nmachine = \"small\"\n";
    let run = "[run]\nwindows = 16\nwindow_us = 50.0\nwarm_up_us = 50.0\n";
    let workload = |name: &str, cpu: u8, cxl_part: f64, mix: &str| {
        format!(
            "[[workload]]\nname = \"{name}\"\ncpus = [{cpu}]\n[[workload.area]]\nname = \"data\"\nkib = 65536\n\
             cxl_part = {cxl_part}\n[[workload.phase]]\n[[workload.phase.mix]]\narea = \"data\"\n{mix}"
        )
    };
    let chains = "pattern = \"random\"\nchains = 1\ndependence = 0.6\ngap = 30\n";
    let stream = "pattern = \"stream\"\nper_line = 8\ngap = 120\n";
    let device = format!("[[change.device]]\nslower_by_ns = {slower_by_ns}\n");
    let workloads = workload("reader", 0, 0.5, chains) + &workload("stream", 1, 0.3, stream);
    format!("{head}{device}{run}{workloads}")
}

/// The aim: a device that is slower by a tenth of its 289 ns is found in nine of ten pairs of recordings, and
/// one that is not slower is not.
#[test]
fn a_device_slower_by_a_tenth_is_found() {
    let desk = Desk::new();
    let scenario = |name: &str, slower: &str| {
        let path = desk.path(name);
        std::fs::write(&path, beside_a_stream(slower)).unwrap();
        path
    };
    let (fast, slow) = (scenario("fast.toml", "0.0"), scenario("slow.toml", "28.9"));
    let record = |scenario: &str, seed: u32| {
        let out = desk.path(&format!("{seed}.windows"));
        let seed = seed.to_string();
        let made = desk.weir(&["sim", scenario, "--seed", &seed, "--out", &out]);
        assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
        out
    };
    let is_slower = |before: &str, after: &str| {
        let rows = desk.json(&["diff", before, after]);
        let mut rows = rows.as_array().unwrap().iter();
        let residence = rows.find(|row| {
            row["role"] == "device.any.cxl.occupancy" && row["figure"] == "residence-ns"
        });
        residence.unwrap()["verdict"] == "changed"
    };
    let (mut found, mut false_ones) = (0, 0);
    let mut before = record(&fast, 2001);
    for seed in 1..=10 {
        let next = record(&fast, seed);
        false_ones += u32::from(is_slower(&before, &next));
        found += u32::from(is_slower(&next, &record(&slow, seed + 1000)));
        before = next;
    }
    assert!(
        found >= 9 && false_ones <= 1,
        "{found} of 10, {false_ones} where nothing is slower"
    );
}
