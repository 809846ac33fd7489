// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nothing is compiled twice. Cargo's unit graph says which crate each command of the Makefile compiles, and
//! with which features; it is read without compiling any. Two commands share a unit if its package, target,
//! features, profile and, in turn, all that it is built of are the same. A feature that one selection of
//! packages turns on and another does not makes cargo compile that crate once more, and all that use it.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

/// Third-party crates that the tests of xtask compile once more: they read sources with syn, and the macros
/// of other crates use syn with other features.
const AGAIN: &[&str] = &["proc-macro2", "quote", "syn", "unicode-ident"];

/// A crate, as one command compiles it.
struct Unit {
    package: String,
    /// Package, target, and what is made of it.
    name: String,
    features: BTreeSet<String>,
    is_member: bool,
    is_root: bool,
    /// A hash of all that decides whether the unit is compiled again.
    hash: u64,
}

/// The arguments of cargo that the Makefile has under this name.
fn arguments(variable: &str) -> Vec<String> {
    let output = Command::new("make")
        .args([
            "--silent",
            "--no-print-directory",
            &format!("print-{variable}"),
        ])
        .current_dir(xtask::repository_root())
        .output()
        .expect("make runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    assert!(!words.is_empty(), "the Makefile has no {variable}");
    words
}

fn units(variable: &str) -> Vec<Unit> {
    // The graph is not stable, and only printed: nothing is compiled as on a nightly.
    let output = Command::new(env!("CARGO"))
        .args(arguments(variable))
        .args(["--offline", "--unit-graph", "-Zunstable-options"])
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(xtask::repository_root())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{variable}: {said}");
    let graph: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = graph["units"].as_array().expect("units");
    let roots = graph["roots"].as_array().expect("roots");
    let roots: BTreeSet<u64> = roots.iter().filter_map(Value::as_u64).collect();
    let mut hashes = HashMap::new();
    // Documentation's tests are compiled by rustdoc, when they run.
    let is_built = |(_, unit): &(usize, &Value)| unit["mode"] != "doctest";
    let built = list.iter().enumerate().filter(is_built);
    built
        .map(|(at, unit)| Unit {
            package: package(unit),
            name: name(unit),
            features: texts(&unit["features"]),
            is_member: unit["pkg_id"]
                .as_str()
                .is_some_and(|id| id.starts_with("path+")),
            is_root: roots.contains(&(at as u64)),
            hash: hash(list, at, &mut hashes),
        })
        .collect()
}

fn texts(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    list.iter().map(text).collect()
}

/// The name of a package, from `registry+…#NAME@VERSION` or `path+…/NAME#VERSION`.
fn package(unit: &Value) -> String {
    let id = unit["pkg_id"].as_str().expect("a package");
    let (place, version) = id.rsplit_once('#').expect("a version");
    let (name, is_named) = match version.split_once('@') {
        Some((name, _)) => (name, true),
        None => (place, false),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    if is_named { name.into() } else { last.into() }
}

fn name(unit: &Value) -> String {
    let target = &unit["target"];
    format!(
        "{} {} {} {}",
        unit["pkg_id"], target["name"], target["kind"], unit["mode"]
    )
}

/// A hash of a unit and, in turn, of what it is built from.
fn hash(units: &[Value], at: usize, known: &mut HashMap<usize, u64>) -> u64 {
    if let Some(hash) = known.get(&at) {
        return *hash;
    }
    let unit = &units[at];
    let mut hasher = DefaultHasher::new();
    for key in ["features", "profile", "platform", "is_std"] {
        unit[key].to_string().hash(&mut hasher);
    }
    name(unit).hash(&mut hasher);
    let dependencies = unit["dependencies"].as_array().expect("dependencies");
    let of = |d: &Value| d["index"].as_u64().expect("an index") as usize;
    let below: BTreeSet<u64> = dependencies
        .iter()
        .map(|d| hash(units, of(d), known))
        .collect();
    below.hash(&mut hasher);
    let hash = hasher.finish();
    known.insert(at, hash);
    hash
}

fn hashes(units: &[Unit]) -> BTreeSet<u64> {
    units.iter().map(|unit| unit.hash).collect()
}

/// Units that are not among those, by name.
fn beyond<'a>(units: &'a [Unit], those: &BTreeSet<u64>) -> Vec<&'a str> {
    let is_beyond = |unit: &&Unit| !those.contains(&unit.hash);
    units
        .iter()
        .filter(is_beyond)
        .map(|unit| unit.name.as_str())
        .collect()
}

/// What `make run` and `make test` compile, in the order in which a newcomer runs them.
#[test]
fn no_crate_is_compiled_twice() {
    let all = units("BUILD_ALL");
    let [run, build, test] = ["RUN_BUILD", "BUILD", "TEST"].map(units);
    for (which, units) in [
        ("make run", &run),
        ("make build", &build),
        ("the tests", &test),
    ] {
        let missing = beyond(units, &hashes(&all));
        assert!(
            missing.is_empty(),
            "{which}: not compiled by `cargo {}`: {missing:#?}",
            arguments("BUILD_ALL").join(" ")
        );
    }
    let mut members: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for unit in all
        .iter()
        .chain(&run)
        .chain(&build)
        .chain(&test)
        .filter(|unit| unit.is_member)
    {
        members.entry(&unit.name).or_default().insert(unit.hash);
    }
    let twice: Vec<&&str> = members
        .iter()
        .filter(|(_, hashes)| hashes.len() > 1)
        .map(|(name, _)| name)
        .collect();
    assert!(twice.is_empty(), "compiled more than once: {twice:#?}");
    // A third-party crate may be there twice, for programs and for macros, in one command: what counts is
    // what a later command adds.
    for (earlier, later) in [(&run, &build), (&build, &all)] {
        let names: BTreeSet<&str> = earlier.iter().map(|unit| unit.name.as_str()).collect();
        let known = hashes(earlier);
        let is_again = |unit: &&Unit| names.contains(&*unit.name) && !known.contains(&unit.hash);
        let again: BTreeSet<&str> = later
            .iter()
            .filter(is_again)
            .map(|unit| &*unit.package)
            .collect();
        let again: Vec<&&str> = again.iter().filter(|name| !AGAIN.contains(name)).collect();
        assert!(
            again.is_empty(),
            "compiled again with other features: {again:?}"
        );
    }
}

/// `--features PACKAGE/FEATURE` may mean a dependency of that name: cargo says nothing, and the program lacks
/// the feature.
#[test]
fn features_of_make_run_have_an_effect() {
    let words = arguments("RUN_BUILD");
    let asked = words.iter().skip_while(|word| *word != "--features").nth(1);
    let asked: Vec<&str> = asked
        .expect("make run asks for features")
        .split(',')
        .collect();
    let units = units("RUN_BUILD");
    let program = units
        .iter()
        .find(|unit| unit.is_root && unit.package == "weir" && unit.name.contains("\"bin\""));
    let program = program.expect("make run builds the program");
    for feature in asked {
        assert!(
            program.features.contains(feature),
            "weir is built without {feature}: {:?}",
            program.features
        );
    }
}
