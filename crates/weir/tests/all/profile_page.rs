// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html`: pages of simulated servers, as a user makes them.

use crate::desk::{Desk, out};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use weir_figures::text::escape;

fn weir(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("profile").args(arguments).current_dir(dir);
    command.output().unwrap()
}

/// `SEED.windows` and `SEED.idle` of a scenario, in this folder; the name of the first.
fn recorded(dir: &Path, scenario: &str, seed: &str) -> String {
    let name = format!("{seed}.windows");
    let [windows, idle] = Desk::new().recorded_bytes(scenario, seed);
    fs::write(dir.join(&name), windows).unwrap();
    fs::write(dir.join(format!("{seed}.idle")), idle).unwrap();
    name
}

#[test]
fn a_page_has_each_finding_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let file = recorded(dir, "4-cxl-beside-cxl", "1");
    let made = weir(
        dir,
        &["report", &file, "--idle", "1.idle", "--html", "page"],
    );
    assert_eq!(made.status.code(), Some(1), "{made:?}");
    let page = fs::read_to_string(dir.join("page/index.html")).unwrap();
    let json = fs::read(dir.join("page/report.json")).unwrap();
    let report: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(out(&made).lines().next(), report["headline"][0].as_str());
    let rules = report["rules"].as_array().unwrap();
    let found = rules.iter().filter(|rule| rule["outcome"] == "found");
    let titles = found.map(|rule| {
        let (subject, what) = (rule["subject"].as_str(), rule["what"].as_str());
        format!("{}: {}", subject.unwrap(), what.unwrap())
    });
    let titles: Vec<String> = titles.collect();
    assert!(titles.len() >= 2, "{titles:?}");
    for title in titles {
        assert!(page.contains(&escape(&title)), "{title}");
    }
    for said in [
        "Profile of 1.windows",
        "because of",
        "The bottleneck is the CXL device",
        "--html page",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.len() < 1 << 20, "{}", page.len());
    let spans = report["over_time"]["spans"].as_array().unwrap();
    assert_eq!(spans.len(), 24);

    // The printed report has the same figures without them.
    let json = weir(dir, &["report", &file, "--idle", "1.idle", "--json"]);
    let mut printed: Value = serde_json::from_slice(&json.stdout).unwrap();
    let mut written = report.clone();
    for one in [&mut printed, &mut written] {
        one.as_object_mut().unwrap().remove("over_time");
    }
    assert_eq!(printed, written);
}

#[test]
fn a_page_of_two_says_what_changed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (
        recorded(dir, "7-tiering", "1"),
        recorded(dir, "7-tiering", "2"),
    );
    let made = weir(dir, &["diff", &first, &second, "--html", "page"]);
    let page = fs::read_to_string(dir.join("page/index.html")).unwrap();
    assert!(page.contains("1.windows and 2.windows compared"));
    let rows: Vec<Value> =
        serde_json::from_slice(&fs::read(dir.join("page/diff.json")).unwrap()).unwrap();
    let printed = weir(dir, &["diff", &first, &second, "--json"]);
    assert_eq!(
        rows,
        serde_json::from_slice::<Vec<Value>>(&printed.stdout).unwrap()
    );
    assert_eq!(made.status, printed.status);
    assert!(page.contains(&escape(out(&made).trim())), "{}", out(&made));
    let spans = ["--before", "..400us", "--after", "400us.."];
    weir(
        dir,
        &[&["diff", &first, "--html", "spans"][..], &spans].concat(),
    );
    let page = fs::read_to_string(dir.join("spans/index.html")).unwrap();
    assert!(page.contains("1.windows, ..0.400 ms and 1.windows, 0.400 ms.. compared"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let file = recorded(dir, "4-cxl-beside-cxl", "1");
    let made = weir(dir, &["report", &file, "--html", &file]);
    assert_eq!(made.status.code(), Some(2));
    let said = String::from_utf8(made.stderr).unwrap();
    assert!(said.contains("cannot make 1.windows"), "{said}");
    let both = weir(dir, &["report", &file, "--html", "page", "--json"]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}
