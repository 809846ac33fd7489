// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test plan of the RTL (`rtl/testplan.toml`) names tests that exist, and all of them.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    point: Vec<Point>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    name: String,
    stage: u32,
    what: String,
    tests: Vec<String>,
}

fn read(path: &str) -> String {
    let path = xtask::repository_root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What stands between each `before` and the `"` that follows it.
fn quoted(text: &str, before: &str) -> Vec<String> {
    let pieces = text.split(before).skip(1);
    pieces
        .filter_map(|piece| Some(piece.split_once('"')?.0.to_owned()))
        .collect()
}

/// `Suite: text` of each Scala test.
fn scala_tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for part in ["access_counters", "accelerator"] {
        let folder = format!("rtl/src/test/scala/weir/{part}");
        let entries = fs::read_dir(xtask::repository_root().join(&folder));
        for entry in entries.expect("the folder of the Scala tests") {
            let name = entry.expect("its entry").file_name();
            let name = name.to_str().expect("a name in UTF-8");
            let suite = name.strip_suffix(".scala").unwrap_or(name);
            let tests = quoted(&read(&format!("{folder}/{name}")), "it(\"");
            found.extend(tests.into_iter().map(|text| format!("{suite}: {text}")));
        }
    }
    found
}

/// A verdict's text up to what varies from run to run.
fn before_figures(text: &str) -> &str {
    let name = text.split(['$', '(']).next().unwrap_or_default().trim();
    name.trim_end_matches(':')
}

/// The runs in `rtl/run-checks`: names with a kind before the colon, up to what varies from run to run.
fn check_runs() -> BTreeSet<String> {
    let text = read("rtl/run-checks");
    let mut found = BTreeSet::new();
    for kind in ["traffic", "soak"] {
        for rest in quoted(&text, &format!("\"{kind}: ")) {
            let is_number = |w: &&str| w.parse::<u64>().is_ok();
            let words: Vec<&str> = rest.split_whitespace().collect();
            let figures = words.iter().rev().take_while(|w| is_number(w)).count();
            // Eight figures belong to the run; more would be a name that ends in a number.
            assert_eq!(
                figures, 8,
                "rtl/run-checks: the run `{kind}: {rest}` needs 8 figures"
            );
            let name = words[..words.len() - figures].join(" ");
            found.insert(format!("{kind}: {name}"));
        }
    }
    for rest in quoted(&text, "\"engine: ") {
        if let Some((name, _)) = rest.split_once(" = ") {
            found.insert(format!("engine: {name}"));
        } else if rest.contains('$') {
            found.insert(format!("engine: {}", before_figures(&rest)));
        }
    }
    for rest in quoted(&text, "\"proof: ") {
        let name = before_figures(&rest);
        if !name.starts_with("no graphs") {
            found.insert(format!("proof: {name}"));
        }
    }
    found
}

#[test]
fn the_plan_names_tests_that_exist_and_all_of_them() {
    let plan: Plan = toml::from_str(&read("rtl/testplan.toml")).unwrap();
    let exist: BTreeSet<String> = scala_tests().union(&check_runs()).cloned().collect();
    assert!(
        exist.len() > 20,
        "only {} tests found: {exist:#?}",
        exist.len()
    );

    let mut names = BTreeSet::new();
    let mut named = BTreeSet::new();
    for point in &plan.point {
        assert!(
            names.insert(&point.name),
            "{} stands there twice",
            point.name
        );
        assert!(
            matches!(point.stage, 1 | 2),
            "{}: stage is 1 or 2",
            point.name
        );
        assert!(
            !point.what.trim().is_empty(),
            "{}: says nothing",
            point.name
        );
        assert!(!point.tests.is_empty(), "{}: has no test", point.name);
        for test in &point.tests {
            assert!(
                exist.contains(test),
                "{}: there is no test `{test}`",
                point.name
            );
            named.insert(test.clone());
        }
    }
    let unnamed: Vec<_> = exist.difference(&named).collect();
    assert!(unnamed.is_empty(), "in no point of the plan: {unnamed:#?}");
}
