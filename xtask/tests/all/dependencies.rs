// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table "may use, must not know" of the design, checked against what cargo says and, for the
//! pure crates, against their source: a pure crate reads no clock, no file, no environment, starts
//! no thread and iterates over nothing in hash order.
//!
//! Inside a crate, a folder that lies below others (`FLOORS`) must not use them.
//!
//! A new workspace member fails until it has a row here: which crate may use which is decided, not grown.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use syn::visit::{self, Visit};

/// What a member may depend on. Dev-dependencies obey the `house` column too: the tests of a part
/// see no more of the house than the part.
struct Rule {
    member: &'static str,
    /// Members it may use.
    house: &'static [&'static str],
    /// Crates from outside it may use; `None` is any.
    outside: Option<&'static [&'static str]>,
    /// Folder of the source that must stay pure, from the root.
    pure: Option<&'static str>,
}

const fn row(member: &'static str, house: &'static [&'static str]) -> Rule {
    Rule {
        member,
        house,
        outside: None,
        pure: None,
    }
}

const EVERYTHING: &[&str] = &[
    "weir-acpi",
    "weir-core",
    "weir-description",
    "weir-dram",
    "weir-events",
    "weir-figures",
    "weir-files",
    "weir-hw",
    "weir-sim",
    "weir-linux",
    "weir-profile",
    "weir-store",
    "weir-report",
    "weir-scenario",
    "weir-bench",
];

const LABORATORY: &[&str] = &[
    "weir",
    "weir-core",
    "weir-description",
    "weir-dram",
    "weir-figures",
    "weir-files",
    "weir-hw",
    "weir-server-model",
    "weir-sim",
    "weir-linux",
    "weir-profile",
    "weir-store",
    "weir-report",
    "weir-scenario",
    "weir-type2",
];

/// In the order of the data's way. Rows of members that do not exist yet do no harm.
const RULES: &[Rule] = &[
    Rule {
        outside: Some(&["serde", "thiserror"]),
        pure: Some("crates/weir-core/src"),
        ..row("weir-core", &[])
    },
    Rule {
        outside: Some(&["garde", "serde", "thiserror", "toml"]),
        pure: Some("crates/weir-description/src"),
        ..row("weir-description", &[])
    },
    Rule {
        outside: Some(&["garde", "serde", "thiserror", "toml"]),
        pure: Some("crates/weir-hw/src"),
        ..row("weir-hw", &["weir-core", "weir-description"])
    },
    Rule {
        outside: Some(&["garde", "serde", "thiserror", "toml"]),
        pure: Some("crates/weir-dram/src"),
        ..row("weir-dram", &["weir-core", "weir-description"])
    },
    Rule {
        outside: Some(&["garde", "serde", "thiserror", "toml"]),
        pure: Some("crates/weir-type2/src"),
        ..row("weir-type2", &["weir-core", "weir-description"])
    },
    Rule {
        outside: Some(&["garde", "serde", "thiserror", "toml"]),
        pure: Some("crates/weir-server-model/src"),
        ..row(
            "weir-server-model",
            &["weir-core", "weir-description", "weir-hw"],
        )
    },
    Rule {
        outside: Some(&["thiserror"]),
        pure: Some("crates/weir-acpi/src"),
        ..row("weir-acpi", &[])
    },
    Rule {
        outside: Some(&["serde", "thiserror", "toml"]),
        pure: Some("crates/weir-events/src"),
        ..row("weir-events", &[])
    },
    Rule {
        outside: Some(&["serde", "thiserror", "toml"]),
        pure: Some("crates/weir-scenario/src"),
        ..row(
            "weir-scenario",
            &["weir-core", "weir-description", "weir-dram", "weir-hw"],
        )
    },
    Rule {
        outside: Some(&["rustix"]),
        ..row("weir-files", &[])
    },
    row("weir-bench", &["weir-core", "weir-files"]),
    row("weir-sched", &[]),
    row(
        "weir-sim",
        &[
            "weir-core",
            "weir-description",
            "weir-dram",
            "weir-hw",
            "weir-scenario",
            "weir-sched",
        ],
    ),
    row("weir-linux", &["weir-core", "weir-events", "weir-files"]),
    Rule {
        outside: Some(&[
            "augurs-clustering",
            "augurs-core",
            "augurs-ets",
            "distrs",
            "serde",
            "serde_json",
            "stlrs",
            "thiserror",
            "zstd",
        ]),
        pure: Some("crates/weir-profile/src"),
        ..row("weir-profile", &["weir-core"])
    },
    row("weir-store", &["weir-core", "weir-files"]),
    Rule {
        outside: Some(&["serde", "unicode-width"]),
        pure: Some("crates/weir-figures/src"),
        ..row("weir-figures", &["weir-core"])
    },
    row(
        "weir-report",
        &[
            "weir-core",
            "weir-figures",
            "weir-files",
            "weir-profile",
            "weir-scenario",
        ],
    ),
    row("weir", EVERYTHING),
    row("weir-lab", LABORATORY),
    row("weir-ipc", &["weir-core", "weir-hw"]),
    row(
        "weir-cosim",
        &["weir-core", "weir-files", "weir-hw", "weir-ipc"],
    ),
    row("weir-device-model", &["weir-core", "weir-hw", "weir-ipc"]),
    row(
        "weir-testbed",
        &[
            "weir-core",
            "weir-files",
            "weir-hw",
            "weir-ipc",
            "weir-progress",
            "weir-report",
            "weir-scenario",
            "weir-type2",
        ],
    ),
    row("weir-progress", &[]),
    row("xtask", &[]),
];

/// Words of a path that a pure crate must not contain, as `std::…` or through `use`.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::io::stdin",
    "std::thread",
    "std::process",
    "std::env",
    "std::os",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::collections::hash_map",
    "std::collections::hash_set",
    "Instant::now",
    "SystemTime::now",
    "HashMap::new",
    "HashSet::new",
    "thread::spawn",
];

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Dependency {
    name: String,
    dev: bool,
}

type Members = BTreeMap<String, Vec<Dependency>>;

fn members() -> Members {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(xtask::repository_root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |value: &serde_json::Value| value.as_array().cloned().expect("a list");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| {
            let dependencies = list(&package["dependencies"])
                .iter()
                .map(|d| Dependency {
                    name: text(&d["name"]),
                    dev: d["kind"].as_str() == Some("dev"),
                })
                .collect();
            (text(&package["name"]), dependencies)
        })
        .collect()
}

fn breaches(members: &Members, rules: &[Rule]) -> Vec<String> {
    let mut found = Vec::new();
    for (member, dependencies) in members {
        let Some(rule) = rules.iter().find(|r| r.member == member) else {
            found.push(format!(
                "{member}: unknown member; say in xtask/tests/all/dependencies.rs what it may use"
            ));
            continue;
        };
        for Dependency { name, dev } in dependencies {
            let allowed = if name == member {
                // Its own tests turn on a feature.
                *dev
            } else if members.contains_key(name) {
                rule.house.contains(&name.as_str())
            } else {
                *dev || rule
                    .outside
                    .is_none_or(|list| list.contains(&name.as_str()))
            };
            if !allowed {
                found.push(format!("{member}: must not use {name}"));
            }
        }
    }
    found
}

/// Collects what a file names, but for its tests.
#[derive(Default)]
pub struct Paths(BTreeSet<String>);

impl Paths {
    pub fn of(source: &str) -> syn::Result<BTreeSet<String>> {
        let mut paths = Paths::default();
        paths.visit_file(&syn::parse_file(source)?);
        Ok(paths.0)
    }

    fn flatten(&mut self, tree: &syn::UseTree, before: &str) {
        match tree {
            syn::UseTree::Path(path) => {
                self.flatten(&path.tree, &format!("{before}{}::", path.ident));
            }
            syn::UseTree::Name(name) => drop(self.0.insert(format!("{before}{}", name.ident))),
            syn::UseTree::Rename(name) => drop(self.0.insert(format!("{before}{}", name.ident))),
            syn::UseTree::Glob(_) => drop(self.0.insert(format!("{before}*"))),
            syn::UseTree::Group(group) => {
                group
                    .items
                    .iter()
                    .for_each(|item| self.flatten(item, before));
            }
        }
    }
}

/// Whether code with these attributes is compiled for tests only.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg")
            && a.parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.flatten(&item.tree, "");
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.0.insert(words.join("::"));
        visit::visit_path(self, path);
    }
}

fn impurities(source: &str) -> syn::Result<Vec<String>> {
    let named = Paths::of(source)?;
    let is_impure = |path: &String| {
        IMPURE.iter().any(|word| {
            let rest = path
                .strip_prefix("core::")
                .map_or(path.clone(), |p| format!("std::{p}"));
            rest == *word || rest.starts_with(&format!("{word}::"))
        })
    };
    Ok(named.into_iter().filter(is_impure).collect())
}

pub fn rust_files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_house_is_as_drawn() {
    let members = members();
    assert!(
        members.len() > 3,
        "cargo metadata shows only {} members",
        members.len()
    );
    let found = breaches(&members, RULES);
    assert!(
        found.is_empty(),
        "against DESIGN section 2:\n{}",
        found.join("\n")
    );
}

#[test]
fn pure_crates_are_pure() {
    for rule in RULES {
        let Some(folder) = rule.pure else { continue };
        let mut files = Vec::new();
        rust_files(&xtask::repository_root().join(folder), &mut files);
        assert!(!files.is_empty(), "{folder} has no source");
        for file in files {
            let source = std::fs::read_to_string(&file).expect("a readable file");
            let found = impurities(&source).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert!(
                found.is_empty(),
                "{}: pure code names {found:?}",
                file.display()
            );
        }
    }
}

#[test]
fn breaches_are_found() {
    let one = |member: &str, name: &str, dev| -> Members {
        let dependency = Dependency {
            name: name.into(),
            dev,
        };
        let mut members: Members = RULES.iter().map(|r| (r.member.into(), vec![])).collect();
        members.insert(member.into(), vec![dependency]);
        members
    };
    let refused = |member, name, dev| breaches(&one(member, name, dev), RULES);
    assert_eq!(
        refused("weir-linux", "weir-hw", false),
        ["weir-linux: must not use weir-hw"]
    );
    assert_eq!(
        refused("weir-linux", "weir-sim", true),
        ["weir-linux: must not use weir-sim"]
    );
    assert_eq!(
        refused("weir-device-model", "weir-linux", false),
        ["weir-device-model: must not use weir-linux"]
    );
    assert_eq!(
        refused("weir-core", "weir-hw", true),
        ["weir-core: must not use weir-hw"]
    );
    assert_eq!(
        refused("weir-core", "libc", false),
        ["weir-core: must not use libc"]
    );
    assert!(refused("weir-core", "proptest", true).is_empty());
    assert!(refused("weir-linux", "rustix", false).is_empty());
    assert!(refused("weir", "weir-linux", false).is_empty());
    assert!(refused("stranger", "serde", false)[0].starts_with("stranger: unknown member"));
}

#[test]
fn impure_names_are_found_however_they_are_written() {
    let found = |source| impurities(source).expect("Rust");
    assert_eq!(found("use std::{fmt, fs::File};"), ["std::fs::File"]);
    assert_eq!(
        found("use std::time::{Duration, Instant as Now};"),
        ["std::time::Instant"]
    );
    assert_eq!(
        found("fn f() { let _ = std::thread::sleep; }"),
        ["std::thread::sleep"]
    );
    assert_eq!(
        found("struct S { by: std::collections::HashMap<u8, u8> }"),
        ["std::collections::HashMap"]
    );
    assert!(found("use std::{collections::BTreeMap, time::Duration};").is_empty());
    assert!(found("#[cfg(test)] mod tests { use std::thread; }").is_empty());
}
