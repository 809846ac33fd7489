// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile sim`: what the report says of a simulated server, beside what was so.

use crate::desk::Desk;
use crate::stderr as said;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_lab::server::TruthDocument;

/// Requests below which a mean is chance.
const REQUESTS_MIN: u64 = 500;

fn subject<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["subjects"].as_array().unwrap();
    let found = all.iter().find(|subject| subject["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in the report"))
}

/// Lines of a workload by path and supplier: what the report says, by the role's words.
fn reported_lines(subject: &Value) -> BTreeMap<String, f64> {
    let rows = subject["figures"]["path_map"]["lines"].as_array().unwrap();
    let cells = rows.iter().flat_map(|row| row["cells"].as_array().unwrap());
    let known = cells.filter_map(|cell| {
        let count = cell["count"]["Ok"]["value"].as_f64()?;
        Some((cell["role"].as_str()?.to_owned(), count))
    });
    known.collect()
}

/// The same in truth.
fn true_lines(truth: &TruthDocument, workload: &str) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for row in truth.windows.iter().flat_map(|window| &window.lines) {
        let target = match row.target.name() {
            "llc" => "own",
            "dram" | "dram_remote" => "dram",
            "cxl" | "cxl_remote" => "cxl",
            _ => continue,
        };
        let path = match row.path.name() {
            "pf_l1" | "pf_l2" => "pf",
            path => path,
        };
        if row.workload == workload {
            *lines
                .entry(format!("sq.{path}.{target}.lines"))
                .or_default() += row.lines;
        }
    }
    lines
}

/// Mean time in the table of requests: reported and true, of one path and target.
fn table_ns(
    report: &Value,
    truth: &TruthDocument,
    role: &str,
    flow: (&str, &str),
) -> Option<(f64, f64)> {
    let queues = subject(report, "machine")["figures"]["stages"]["queues"]
        .as_array()
        .unwrap();
    let queue = queues.iter().find(|queue| queue["role"] == role)?;
    let held = truth.windows.iter().flat_map(|window| &window.held);
    let rows = held
        .filter(|row| row.queue.name() == "tor" && (row.path.name(), row.target.name()) == flow);
    let (entries, ns) = rows.fold((0, 0.0), |(n, ns), row| (n + row.entries, ns + row.held_ns));
    let reported = queue["residence_ns"]["Ok"]["value"].as_f64();
    (entries >= REQUESTS_MIN).then(|| (reported.unwrap_or(f64::NAN), ns / entries as f64))
}

#[test]
fn each_case_is_reported_as_it_was() {
    let desk = Desk::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/profile");
    let files = std::fs::read_dir(folder).unwrap();
    let mut cases: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 9, "{cases:?}");
    for case in &cases {
        let case = case.file_stem().unwrap().to_str().unwrap();
        let (report, truth) = desk.run(case);
        assert_eq!(report["windows"], truth.windows.len(), "{case}");
        let mut compared = 0;
        for workload in &truth.workloads {
            let reported = reported_lines(subject(&report, &workload.name));
            for (role, lines) in true_lines(&truth, &workload.name) {
                let Some(count) = reported.get(&role).filter(|_| lines >= REQUESTS_MIN) else {
                    continue;
                };
                let ratio = count / lines as f64;
                assert!(
                    (0.98..=1.02).contains(&ratio),
                    "{case} {} {role}: {ratio}",
                    workload.name
                );
                compared += 1;
            }
        }
        let flows = [
            ("tor.drd.cxl-own.occupancy", ("drd", "cxl")),
            ("tor.drd.dram-own.occupancy", ("drd", "dram")),
            ("tor.rfo.cxl-own.occupancy", ("rfo", "cxl")),
            ("tor.nt.cxl-own.occupancy", ("nt", "cxl")),
        ];
        for (role, flow) in flows {
            let Some((reported, real)) = table_ns(&report, &truth, role, flow) else {
                continue;
            };
            let error = (reported / real - 1.0).abs();
            assert!(error <= 0.02, "{case} {role}: {reported} ns, true {real}");
            compared += 1;
        }
        assert!(compared >= 2, "{case}: {compared} figures compared");
    }
}

#[test]
fn what_is_compared_with_has_no_faults_and_each_workload_alone() {
    let desk = Desk::new();
    let found = |scenario: &str| {
        let made = desk.weir(&["sim", scenario, "--json"]);
        let line: Value = serde_json::from_slice(&made.stdout).unwrap();
        let rules = line["report"]["rules"].as_array().unwrap();
        let found = rules.iter().filter(|rule| rule["outcome"] == "found");
        let found = found.map(|rule| {
            let word = |key: &str| rule[key].as_str().unwrap().to_owned();
            (word("rule"), word("subject"))
        });
        found.collect::<Vec<_>>()
    };
    let says = |all: &[(String, String)], rule: &str| all.iter().any(|(name, _)| name == rule);
    assert!(says(&found("device-slow:medium"), "device_slow"));
    let displaced = ("llc_displaced".to_owned(), "victim".to_owned());
    assert!(found("6-locality").contains(&displaced));
    assert!(!says(&found("6-locality-ways"), "llc_displaced"));
}

#[test]
fn the_file_of_windows_gives_the_same_report() {
    let desk = Desk::new();
    let (out, idle) = (desk.path("run.windows"), desk.path("idle.windows"));
    let run = [
        "sim",
        "8-reverse",
        "--json",
        "--out",
        &out,
        "--idle-out",
        &idle,
    ];
    let made = desk.weir(&run);
    let line: Value = serde_json::from_slice(&made.stdout).unwrap();
    let report = desk.weir(&["report", &out, "--idle", &idle, "--json"]);
    assert_eq!(
        report.status.code(),
        made.status.code(),
        "{}",
        said(&report)
    );
    let again: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(again, line["report"]);
    let text = desk.weir(&["sim", "8-reverse"]);
    let of_file = desk.weir(&["report", &out, "--idle", &idle]);
    assert_eq!(text.stdout, of_file.stdout);
    let taken = desk.weir(&run);
    assert!(
        said(&taken).contains("exists: name a new file"),
        "{}",
        said(&taken)
    );
}

#[test]
fn seeds_have_a_line_each_and_the_same_bytes_again() {
    let desk = Desk::new();
    let run = |name: &str| {
        let (truth, out) = (
            desk.path(name),
            desk.path(&format!("{name}-{{seed}}.windows")),
        );
        let made = desk.weir(&[
            "sim",
            "chains:weak",
            "--seed",
            "4",
            "--seeds",
            "2",
            "--truth",
            &truth,
            "--out",
            &out,
            "--what-if",
            "--json",
        ]);
        let seeds: Vec<Value> = serde_json::Deserializer::from_slice(&made.stdout)
            .into_iter::<Value>()
            .map(|line| line.unwrap()["seed"].clone())
            .collect();
        assert_eq!(seeds, [4, 5], "{}", said(&made));
        let truth = fs::read_to_string(truth).unwrap();
        let windows = fs::read(desk.path(&format!("{name}-5.windows"))).unwrap();
        (truth, windows)
    };
    let (truth, windows) = run("one");
    assert!((&truth, &windows) == (&run("other").0, &run("third").1));
    let documents: Vec<TruthDocument> = truth
        .lines()
        .map(|line| TruthDocument::parse(line).unwrap())
        .collect();
    assert_eq!(documents.len(), 2);
    for (document, line) in documents.iter().zip(truth.lines()) {
        assert_eq!(serde_json::to_string(document).unwrap(), line);
        check(document);
    }
}

/// The truth of a workload alone with chains of loads from CXL memory.
fn check(document: &TruthDocument) {
    assert_eq!(document.causes[0].kind, "chains");
    let windows = || document.windows.iter();
    let measured: f64 = windows()
        .flat_map(|w| &w.cpus)
        .map(|cpu| cpu.measured_stall_ns)
        .sum();
    let split: f64 = windows().flat_map(|w| &w.stalls).map(|row| row.ns).sum();
    assert!(
        (measured - split).abs() < 1.0,
        "{measured} ns of stalls, {split} of them split"
    );
    // Without CXL memory, and with an idle device.
    let ratios = document.what_if.iter().filter_map(|row| row.speedup_ratio);
    let ratios: Vec<f64> = ratios.collect();
    assert_eq!(ratios.len(), 2);
    assert!(ratios[0] > 1.05, "without CXL memory: {ratios:?}");
}

#[test]
fn a_lost_window_is_left_out_and_named() {
    let desk = Desk::new();
    let text = fs::read_to_string("../../scenarios/profile/8-reverse.toml").unwrap();
    let plan = "[plan]\n[[plan.set]]\nunit = \"cha\"\nevents = [\"clock\", \"tor_inserts.drd.all\"]\n\
                [[plan.fault]]\nkind = \"lost-window\"\nfrom_window = 2\nto_window = 3\n\n[[cause]]";
    let file = desk.file("lost.toml", &text.replacen("[[cause]]", plan, 1));
    let truth = desk.path("truth");
    let made = desk.weir(&["sim", &file, "--truth", &truth]);
    let out = String::from_utf8(made.stdout.clone()).unwrap();
    assert!(
        out.contains("note: window 3 was lost and is left out"),
        "{out}{}",
        said(&made)
    );
    let truth = TruthDocument::parse(fs::read_to_string(truth).unwrap().trim_end()).unwrap();
    assert_eq!(truth.windows.len(), 15);
}

#[test]
fn wrong_scenarios_are_refused_by_their_key() {
    let desk = Desk::new();
    let good = fs::read_to_string("../../scenarios/profile/2-stalls.toml").unwrap();
    let refused = |old: &str, new: &str, key: &str| {
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good, "{old}");
        let made = desk.weir(&["sim", &desk.file("wrong.toml", &text)]);
        let why = said(&made);
        assert_eq!(made.status.code(), Some(2), "{key}: {why}");
        assert!(
            why.contains(key) && why.lines().count() == 1,
            "{key}: {why}"
        );
    };
    refused("gap = 10", "gap = -10", "expected u32: gap = -10");
    refused("gap = 10", "gab = 10", "gab");
    refused("cpus = [0]", "cpus = [77]", "workload[0].cpus is 77");
    refused("cxl_part = 1.0", "cxl_part = nan", "cxl_part is NaN");
    refused("windows = 16", "windows = 0", "run");
    refused("windows = 16\n", "", "windows");
    refused("window_us = 50.0", "window_us = 1e300", "run");
    refused("kib = 65536", "kib = 1e300", "kib");
    refused(
        "machine = \"small\"",
        "machine = \"large\"",
        "no machine is called `large`",
    );
    refused("[run]", "[change.cores]\nghz = 1e9\n[run]", "cores.ghz");
    refused(
        "[run]",
        "[plan]\n[[plan.set]]\nunit = \"cha\"\nevents = [\"tor\"]\n[run]",
        "cha/tor",
    );
    refused(
        "victim = \"chaser\"",
        "victim = \"\\u001b[2Jnone\"",
        "\\u{1b}[2Jnone",
    );
    let made = desk.weir(&["sim", &desk.file("none.toml", "\0\u{1}")]);
    assert_eq!(made.status.code(), Some(2));
}

#[test]
fn wrong_arguments_are_answered() {
    let desk = Desk::new();
    let refused = |arguments: &[&str], expected: &str| {
        let made = desk.weir(arguments);
        assert_eq!(made.status.code(), Some(2), "{arguments:?}");
        assert!(
            said(&made).contains(expected),
            "{arguments:?}: {}",
            said(&made)
        );
    };
    refused(&["sim", "9-none"], "use one of 1-paths, 2-stalls");
    refused(&["sim", "healthy", "--seeds", "0"], "--seeds");
    refused(&["sim", "healthy", "--what-if"], "--truth");
    refused(
        &["sim", &desk.path("none.toml")],
        "cannot read the scenario",
    );
    let nowhere = desk.path("none/truth");
    refused(&["sim", "healthy", "--truth", &nowhere], "cannot make");
    refused(&["sim", "chains:weak", "--out", &nowhere], "cannot make");
    let one = desk.path("one.windows");
    refused(
        &["sim", "healthy", "--seeds", "2", "--out", &one],
        "put {seed} into its name",
    );
}
