// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets are compiled by `make fuzz` alone. Here it is only looked whether each file of a package is a
//! program of it, has seeds, and stands in the package's README.

use crate::tidy::{assert_none, files};
use std::collections::BTreeSet;

/// Where seeds are made, by the name of the target.
const SEEDS: &str = "crates/weir/fuzz/make-seeds";

/// What a package lacks: its manifest, its README, the makers of seeds, and its files.
fn problems(manifest: &str, readme: &str, seeds: &str, files: &BTreeSet<&str>) -> Vec<String> {
    let path = |line: &'_ str| {
        let path = line.strip_prefix("path = \"fuzz_targets/")?;
        path.strip_suffix(".rs\"").map(str::to_owned)
    };
    let listed: BTreeSet<String> = manifest.lines().filter_map(path).collect();
    let mut found = Vec::new();
    for name in files {
        let places = [
            ("a [[bin]] of Cargo.toml", listed.contains(*name)),
            (
                "a row of README.md",
                readme.contains(&format!("| `{name}` |")),
            ),
            (SEEDS, seeds.contains(&format!("\n    \"{name}\": "))),
        ];
        let missing = places.iter().filter(|(_, is_there)| !is_there);
        found.extend(missing.map(|(place, _)| format!("{name}.rs: not in {place}")));
    }
    let gone = listed.iter().filter(|name| !files.contains(name.as_str()));
    found.extend(gone.map(|name| format!("{name}.rs: in Cargo.toml, and not there")));
    found
}

#[test]
fn each_fuzz_target_is_built_seeded_and_described() {
    let Some(files) = files() else { return };
    let text = |name: &str| {
        let found = files.iter().find(|(there, _)| there == name);
        found.map_or("", |(_, text)| text.as_str())
    };
    let is_package = |(name, text): &&(String, String)| {
        name.ends_with("/Cargo.toml") && text.contains("cargo-fuzz = true")
    };
    let packages: Vec<_> = files.iter().filter(is_package).collect();
    assert!(packages.len() > 1, "{packages:?}");
    let mut found = Vec::new();
    for (manifest, listed) in packages {
        let folder = manifest.trim_end_matches("Cargo.toml");
        let target = |(name, _): &'_ (String, String)| {
            let file = name.strip_prefix(folder)?.strip_prefix("fuzz_targets/")?;
            file.strip_suffix(".rs").map(str::to_owned)
        };
        let names: Vec<String> = files.iter().filter_map(target).collect();
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let readme = text(&format!("{folder}README.md"));
        let lacks = problems(listed, readme, text(SEEDS), &names);
        found.extend(lacks.into_iter().map(|what| format!("{folder}: {what}")));
    }
    assert_none(&found);
}

#[test]
fn each_thing_that_a_target_lacks_is_found() {
    let files = BTreeSet::from(["a"]);
    let found =
        |manifest: &str, readme: &str, seeds: &str| problems(manifest, readme, seeds, &files).len();
    let (manifest, readme, seeds) = (
        "path = \"fuzz_targets/a.rs\"",
        "| `a` | b |",
        "\n    \"a\": x",
    );
    assert_eq!(found(manifest, readme, seeds), 0);
    assert_eq!(found("", readme, seeds), 1);
    assert_eq!(found(manifest, "", seeds), 1);
    assert_eq!(found(manifest, readme, ""), 1);
    let more = format!("{manifest}\npath = \"fuzz_targets/b.rs\"");
    assert_eq!(found(&more, readme, seeds), 1);
}
