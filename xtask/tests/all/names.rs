// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What names keep to: a type's name is unique in its crate, a crate has few doors, and a word of GLOSSARY.md
//! has one sense.

use crate::tidy::{assert_none, files};
use std::collections::{BTreeMap, BTreeSet};
use syn::Item;

/// Types with a name that another type of the crate has may be this part of its types.
const HOMONYM_RATIO_MAX: f64 = 0.02;

/// Crates in which more may be: how many types at most, and why. The number only falls.
const HOMONYMS: &[(&str, usize, &str)] = &[];

/// Entries at the first level of a crate's `src`, without tests.
const DOORS_MAX: usize = 12;

/// Crates with more, how many at most, and why. The number only falls.
const DOORS: &[(&str, usize, &str)] = &[];

/// Folders below that level with more, how many at most, and why. The number only falls.
const WIDE_FOLDERS: &[(&str, usize, &str)] = &[
    (
        "crates/weir-core/src/controller",
        17,
        "a file for each stage of a step and what it uses: controller.rs draws them",
    ),
    (
        "crates/weir-profile/src/findings",
        17,
        "rules beside each other, a file each: mod.rs lists them",
    ),
    (
        "crates/weir-lab/src/thesis",
        23,
        "sections of a page beside each other: mod.rs lists them",
    ),
    (
        "crates/weir-linux/src/counters",
        13,
        "sources of counts beside each other: mod.rs chooses",
    ),
];

/// The crate (`crates/NAME` or `testbed/NAME`) that a source file belongs to, and its path below `src`.
fn in_crate(name: &str) -> Option<(&str, &str)> {
    let (at, path) = name.split_once("/src/")?;
    let is_crate = at.starts_with("crates/") || at.starts_with("testbed/");
    (is_crate && at.matches('/').count() == 1).then_some((at, path))
}

fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("tests/")
}

/// Names of types that a file defines, without those of its tests and those inside of functions.
fn types(items: &[Item], found: &mut Vec<String>) {
    for item in items {
        match item {
            Item::Struct(s) => found.push(s.ident.to_string()),
            Item::Enum(e) => found.push(e.ident.to_string()),
            Item::Trait(t) => found.push(t.ident.to_string()),
            Item::Type(t) => found.push(t.ident.to_string()),
            Item::Union(u) => found.push(u.ident.to_string()),
            Item::Mod(m) if m.ident != "tests" => {
                if let Some((_, items)) = &m.content {
                    types(items, found);
                }
            }
            _ => {}
        }
    }
}

/// For each crate its types: the name, and the files that define it.
type Types = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn types_of<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Types {
    let mut all = Types::new();
    for (name, text) in files {
        let Some((at, path)) = in_crate(name).filter(|_| name.ends_with(".rs")) else {
            continue;
        };
        let (Ok(file), false) = (syn::parse_file(text), is_test(path)) else {
            continue;
        };
        let mut found = Vec::new();
        types(&file.items, &mut found);
        let names = all.entry(at.to_owned()).or_default();
        for one in found {
            names.entry(one).or_default().push(path.to_owned());
        }
    }
    all
}

/// Crates with more homonyms than they may have, each with its homonyms.
fn homonym_problems(all: &Types, exceptions: &[(&str, usize, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, names) in all {
        let count: usize = names.values().map(Vec::len).sum();
        let twice: Vec<_> = names.iter().filter(|(_, files)| files.len() > 1).collect();
        let homonyms: usize = twice.iter().map(|(_, files)| files.len()).sum();
        let most = (count as f64 * HOMONYM_RATIO_MAX) as usize;
        let listed = exceptions.iter().find(|(name, ..)| name == at);
        match listed {
            Some((_, allowed, _)) if homonyms < *allowed => problems.push(format!(
                "{at}: {homonyms} homonyms; its exception in names.rs says {allowed}"
            )),
            Some((_, allowed, _)) if homonyms == *allowed => {}
            _ if homonyms > most => {
                problems.push(format!("{at}: {homonyms} of {count} types: {twice:?}"));
            }
            _ => {}
        }
    }
    problems
}

/// Entries at the first level of each crate's `src`; `x.rs` and `x/` are one. A program that has its library
/// beside it is a line, and no entry.
fn doors<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in names.filter(|name| name.ends_with(".rs")) {
        let Some((at, path)) = in_crate(name) else {
            continue;
        };
        let first = path.split('/').next().unwrap_or(path);
        let door = first.trim_end_matches(".rs");
        if door != "tests" && !door.ends_with("_tests") {
            all.entry(at.to_owned())
                .or_default()
                .insert(door.to_owned());
        }
    }
    for doors in all.values_mut().filter(|doors| doors.contains("lib")) {
        doors.remove("main");
    }
    all
}

fn door_problems(
    all: &BTreeMap<String, BTreeSet<String>>,
    exceptions: &[(&str, usize, &str)],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, doors) in all {
        let listed = exceptions.iter().find(|(name, ..)| name == at);
        let most = listed.map_or(DOORS_MAX, |(_, allowed, _)| *allowed);
        if doors.len() > most {
            problems.push(format!("{at}: {} doors, {most} allowed", doors.len()));
        }
        if listed.is_some() && doors.len() < most {
            problems.push(format!(
                "{at}: {} doors; its exception in names.rs says {most}",
                doors.len()
            ));
        }
    }
    problems
}

/// Entries of each folder of sources below the first level, without tests.
fn folders<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in names.filter(|name| name.ends_with(".rs")) {
        let Some((at, path)) = in_crate(name).filter(|(_, path)| !is_test(path)) else {
            continue;
        };
        let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        for depth in 1..parts.len() {
            let folder = format!("{at}/src/{}", parts[..depth].join("/"));
            let entry = parts[depth];
            if entry != "mod" {
                all.entry(folder).or_default().insert(entry.to_owned());
            }
        }
    }
    all
}

fn folder_problems(
    all: &BTreeMap<String, BTreeSet<String>>,
    exceptions: &[(&str, usize, &str)],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (folder, entries) in all {
        let listed = exceptions.iter().find(|(name, ..)| name == folder);
        let (count, most) = (
            entries.len(),
            listed.map_or(DOORS_MAX, |(_, most, _)| *most),
        );
        if count > most {
            problems.push(format!(
                "{folder}: {count} entries, {most} allowed: {entries:?}"
            ));
        } else if listed.is_some() && count <= DOORS_MAX {
            problems.push(format!(
                "{folder}: no longer needs its exception in names.rs"
            ));
        }
    }
    problems
}

/// Rows of the glossary: the words, and those that are not used for them.
fn glossary(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let cells = |line: &str| -> Option<Vec<String>> {
        let inner = line.strip_prefix("| ")?.strip_suffix('|')?;
        Some(
            inner
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect(),
        )
    };
    let list = |cell: &str| -> Vec<String> {
        let words = cell
            .split(',')
            .map(|word| word.split('(').next().unwrap_or(word).trim());
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let rows = text.lines().filter_map(cells);
    rows.filter(|row| row.len() == 4 && row[0] != "word")
        .map(|row| (list(&row[0]), list(&row[3])))
        .collect()
}

fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in name.chars() {
        if c == '_' || c == '-' {
            words.push(String::new());
        } else if c.is_uppercase() || words.is_empty() {
            words.push(c.to_lowercase().collect());
        } else if let Some(last) = words.last_mut() {
            last.push(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn glossary_problems(text: &str, all: &Types, doors: &[(String, String)]) -> Vec<String> {
    let rows = glossary(text);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for word in rows.iter().flat_map(|(words, _)| words) {
        if !seen.insert(word.clone()) {
            problems.push(format!("GLOSSARY.md: {word} stands in two rows"));
        }
    }
    let unused: BTreeSet<&String> = rows.iter().flat_map(|(_, not)| not).collect();
    for word in unused.iter().filter(|word| seen.contains(**word)) {
        problems.push(format!("GLOSSARY.md: {word} is a word and is not used"));
    }
    let is_unused = |name: &str| {
        let words = words_of(name);
        let [only] = &words[..] else { return false };
        unused.contains(only)
    };
    for (at, names) in all {
        for name in names.keys().filter(|name| is_unused(name)) {
            problems.push(format!("{at}: type {name}: see GLOSSARY.md"));
        }
    }
    for (file, module) in doors.iter().filter(|(_, module)| is_unused(module)) {
        problems.push(format!("{file}: module {module}: see GLOSSARY.md"));
    }
    problems
}

fn modules<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in names.filter(|name| name.ends_with(".rs")) {
        let Some((_, path)) = in_crate(name) else {
            continue;
        };
        let module = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let last = module.rsplit('/').next().unwrap_or(module);
        found.push((name.to_owned(), last.to_owned()));
    }
    found
}

#[test]
fn type_names_are_unique_in_a_crate() {
    let Some(files) = files() else { return };
    let all = types_of(files.iter().map(|(n, t)| (n.as_str(), t.as_str())));
    assert!(all.len() > 10, "only {} crates", all.len());
    assert_none(&homonym_problems(&all, HOMONYMS));
}

#[test]
fn a_crate_has_few_doors() {
    let Some(files) = files() else { return };
    let all = doors(files.iter().map(|(name, _)| name.as_str()));
    assert_none(&door_problems(&all, DOORS));
}

#[test]
fn a_folder_has_few_entries() {
    let Some(files) = files() else { return };
    let all = folders(files.iter().map(|(name, _)| name.as_str()));
    assert!(all.len() > 50, "only {} folders", all.len());
    assert_none(&folder_problems(&all, WIDE_FOLDERS));
}

#[test]
fn a_word_of_the_glossary_has_one_sense() {
    let Some(files) = files() else { return };
    let all = types_of(files.iter().map(|(n, t)| (n.as_str(), t.as_str())));
    let text = files.iter().find(|(name, _)| name == "GLOSSARY.md");
    let (_, text) = text.expect("GLOSSARY.md");
    assert!(glossary(text).len() > 40, "rows of the glossary");
    let modules = modules(files.iter().map(|(name, _)| name.as_str()));
    assert_none(&glossary_problems(text, &all, &modules));
}

#[test]
fn each_kind_of_wrong_name_is_found() {
    let one = "struct A; enum B {} mod m { pub struct A; } #[cfg(test)] mod tests { struct B; }";
    let all = types_of(
        [
            ("crates/x/src/a.rs", one),
            ("crates/x/src/tests.rs", "struct B;"),
        ]
        .into_iter(),
    );
    assert_eq!(
        all["crates/x"]["A"].len(),
        2,
        "one of them in a module of the file"
    );
    assert_eq!(
        all["crates/x"]["B"].len(),
        1,
        "tests have names of their own"
    );
    assert_eq!(homonym_problems(&all, &[]).len(), 1);
    assert_eq!(homonym_problems(&all, &[("crates/x", 2, "why")]).len(), 0);
    assert_eq!(
        homonym_problems(&all, &[("crates/x", 4, "why")]).len(),
        1,
        "it is fewer now"
    );

    let names: Vec<String> = (0..13).map(|i| format!("crates/x/src/m{i}.rs")).collect();
    let thirteen = doors(
        names
            .iter()
            .map(String::as_str)
            .chain(["crates/x/src/m1/y.rs"]),
    );
    assert_eq!(door_problems(&thirteen, &[]).len(), 1);
    assert_eq!(
        door_problems(&thirteen, &[("crates/x", 13, "why")]).len(),
        0
    );
    assert_eq!(
        door_problems(&thirteen, &[("crates/x", 14, "why")]).len(),
        1
    );

    let names: Vec<String> = (0..13).map(|i| format!("crates/x/src/m/n{i}.rs")).collect();
    let folder = |count| {
        let names = names[..count].iter().map(String::as_str);
        folders(names.chain(["crates/x/src/m/mod.rs", "crates/x/src/m/tests/a.rs"]))
    };
    assert_eq!(folder_problems(&folder(13), &[]).len(), 1);
    assert_eq!(folder_problems(&folder(12), &[]).len(), 0);
    let listed = [("crates/x/src/m", 13, "why")];
    assert_eq!(folder_problems(&folder(13), &listed).len(), 0);
    let stale = folder_problems(&folder(12), &listed);
    assert_eq!(stale.len(), 1, "it needs no exception: {stale:?}");

    let text = "| word | sense | source | not |\n|---|---|---|---|\n| limit | s | | cut, hold (of it) |\n| knee | s | | limit |\n| knee | t | | |\n";
    let none = Types::new();
    let found = glossary_problems(text, &none, &[("a/cut.rs".into(), "cut".into())]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(words_of("GroupReading"), ["group", "reading"]);
    assert_eq!(words_of("group_reading"), ["group", "reading"]);
}
