// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Table 7 of *PathFinder: a CXL.mem profiler*: the figures of section 5.2 from its counts, each with what it
//! divides by, and what the section does not say. The table rounds to two digits, so the paper's own figures
//! are within what rounding allows.

use weir_profile::paper::path_classes::{PathClasses, path_classes};
use weir_profile::path_map::{hidden_fall, path_map};
use weir_profile::report::{Options, report, text};
use weir_profile::{Answer, Counts, WindowFile};

const TABLE: &str = include_str!("../data/table7.windows");

/// Columns FOTS, GCCS-s1 and GCCS-s2 of the paper's table 7.
fn columns() -> [Counts; 3] {
    let file = WindowFile::parse(TABLE).unwrap();
    let counts: Vec<Counts> = file
        .windows
        .iter()
        .map(|w| Counts::new(&w.machine, None))
        .collect();
    counts.try_into().unwrap()
}

fn classes() -> [PathClasses; 3] {
    columns().map(|counts| path_classes(&counts))
}

fn value(answer: &Answer) -> f64 {
    answer.as_ref().unwrap().value
}

/// The answer is as wanted, to the digits that are given.
fn is(answer: &Answer, wanted: f64, digits: i32) {
    let unit = 10f64.powi(-digits);
    let found = value(answer);
    assert!(
        (found - wanted).abs() <= unit / 2.0,
        "{found} is not {wanted}"
    );
}

fn share_of(answer: &Answer) -> &str {
    answer.as_ref().unwrap().share_of.as_deref().unwrap()
}

#[test]
fn figures_of_fotonik() {
    let [fots, ..] = classes();
    is(&fots.pf_of_uncore, 0.5898, 4);
    assert!(share_of(&fots.pf_of_uncore).ends_with("and write-backs"));
    is(&fots.pf_of_uncore_reads, 0.889, 3);
    is(&fots.cxl_per_llc, 8.09, 2);
    assert!(share_of(&fots.cxl_per_llc).ends_with("own LLC, without SNC"));
    is(&fots.pf_of_cxl, 0.8925, 4);
    // 59.3, 8.1 and 89.1 of the paper, within what two digits allow.
    assert!((0.577..0.603).contains(&value(&fots.pf_of_uncore)));
    assert!((7.77..8.42).contains(&value(&fots.cxl_per_llc)));
    assert!((0.888..0.897).contains(&value(&fots.pf_of_cxl)));
}

#[test]
fn figures_of_gcc() {
    let [_, s1, s2] = classes();
    let ratio = value(&s2.core_requests) / value(&s1.core_requests);
    assert!((ratio - 5.84).abs() < 0.005, "{ratio}");
    let [drd, rfo, pf] = &s1.cxl_of_path;
    is(drd, 0.2601, 4);
    is(rfo, 0.0106, 4);
    is(pf, 0.910, 3);
    let [drd, rfo, pf] = &s2.cxl_of_path;
    is(drd, 0.2773, 4);
    is(rfo, 0.6902, 4);
    is(pf, 0.147, 3);
    assert_eq!(share_of(drd), "drd from LLC, SNC, remote cache and CXL");
}

/// "A large amount of data is loaded from the CXL memory" in s2, says the paper: 5.5 times less than in s1.
#[test]
fn what_the_paper_does_not_say() {
    let [_, s1, s2] = columns();
    let fall = hidden_fall(&s1, &s2).unwrap();
    assert!((fall.fall_ratio - 5.48).abs() < 0.02, "{fall:?}");
    let risen: Vec<&str> = fall.risen.iter().map(|(path, ..)| path.0.word()).collect();
    assert_eq!(risen, ["drd", "rfo"]);
    assert!(hidden_fall(&s2, &s1).is_none());
    let [_, a, b] = classes();
    is(&a.cxl_lines, 1.819e8, -6);
    is(&b.cxl_lines, 3.32e7, -5);
}

/// weir's own maps: prefetch is the path of most lines, and loads are in a map of their own.
#[test]
fn maps_of_the_table() {
    let [fots, ..] = columns();
    let map = path_map(&fots);
    assert_eq!(map.hot_path.unwrap().0.word(), "pf");
    is(&map.cxl_share, 246.5e6 / 295_954_102.0, 6);
    let loads: Vec<&str> = map.loads.iter().map(|row| row.path.0.word()).collect();
    assert_eq!(loads, ["drd", "wb"]);
    assert!(
        map.lines
            .iter()
            .flat_map(|row| &row.cells)
            .all(|cell| cell.per_sec.is_err())
    );
}

#[test]
fn the_report_says_so() {
    let file = WindowFile::parse(TABLE).unwrap();
    let options = Options {
        each: true,
        pathfinder: true,
        ..Options::default()
    };
    let made = report(&file, &options);
    assert!(made.headline[0].starts_with("nothing found in 3 windows (of unknown length)"));
    let said = text::text(&made);
    assert!(
        said.contains("window 3: fewer lines from CXL memory than in the one before (÷ 5.4"),
        "{said}"
    );
    assert!(
        said.contains("58.98 % of lines of drd, rfo and pf"),
        "{said}"
    );
    let json = serde_json::to_string(&made).unwrap();
    assert!(json.contains("\"hidden_falls\""));
}
