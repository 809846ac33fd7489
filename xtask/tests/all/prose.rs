// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sentences name a task, a process, a cgroup, a workload, a device or a CPU: no word that leaves open which
//! of them is meant, in pages, comments and messages. Lines of comments fit.

use crate::tidy::{assert_none, extension, files};

/// Words for persons. Put together, so that this file passes.
const PERSONS: &[&str] = &[
    concat!("w", "ho"),
    concat!("w", "hom"),
    concat!("w", "hoever"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("any", "body"),
    concat!("every", "body"),
    concat!("some", "one"),
    concat!("any", "one"),
    concat!("every", "one"),
];

/// Files in which such a word may stand, how often, and why.
const EXCEPTIONS: &[(&str, usize, &str)] = &[
    ("CONTRIBUTING.md", 1, "the rule itself"),
    ("GLOSSARY.md", 1, "a word that is not used"),
    ("testbed/harness/tests/vm/refusals.rs", 2, "a user of Linux"),
];

const TEXTS: &[&str] = &[
    "rs", "c", "h", "md", "scala", "cpp", "sv", "toml", "sh", "py",
];

/// Columns of a line of a comment, as of pages.
const LINE_CHARS_MAX: usize = 110;

/// Lines of comments that are too wide, with their columns. Drawings and tables may be wider.
fn wide_comments(text: &str) -> Vec<(usize, usize)> {
    let mut is_drawing = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let marks = ["//!", "///", "//", "*"];
        let said = marks
            .iter()
            .find_map(|mark| line.trim_start().strip_prefix(mark));
        let Some(said) = said.map(str::trim_start) else {
            is_drawing = false;
            continue;
        };
        let is_fence = said.starts_with("```");
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX && !is_drawing && !is_fence && !said.starts_with('|') {
            found.push((index + 1, chars));
        }
        is_drawing ^= is_fence;
    }
    found
}

/// Lines of a text with a word for persons, each with its number.
fn persons(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find_map(|word| PERSONS.iter().find(|p| **p == word)) {
            found.push((index + 1, *word));
        }
    }
    found
}

fn problems(files: &[(String, String)], exceptions: &[(&str, usize, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, text) in files.iter().filter(|(n, _)| TEXTS.contains(&extension(n))) {
        let found = persons(text);
        let listed = exceptions.iter().find(|(file, ..)| file == name);
        if found.len() != listed.map_or(0, |(_, count, _)| *count) {
            let lines = found
                .iter()
                .map(|(line, word)| format!("{name}:{line}: {word}"));
            problems.extend(lines);
            problems.extend(listed.map(|(file, n, _)| format!("{file}: prose.rs lists {n} lines")));
        }
    }
    problems
}

#[test]
fn sentences_name_what_they_are_about() {
    let Some(files) = files() else { return };
    assert_none(&problems(&files, EXCEPTIONS));
}

#[test]
fn lines_of_comments_fit() {
    let Some(files) = files() else { return };
    let code = ["rs", "c", "h", "scala", "cpp", "sv"];
    let code = files
        .iter()
        .filter(|(name, _)| code.contains(&extension(name)));
    let wide = code.flat_map(|(name, text)| {
        let wide = wide_comments(text).into_iter();
        wide.map(move |(line, chars)| {
            format!("{name}:{line}: {chars} columns, {LINE_CHARS_MAX} allowed")
        })
    });
    assert_none(&wide.collect::<Vec<_>>());
}

#[test]
fn wide_lines_of_comments_are_found() {
    let wide = "x".repeat(LINE_CHARS_MAX);
    let text = format!(
        "//! {wide}\n//! ```text\n//! {wide}\n//! ```\n/// | {wide} |\nlet a = \"{wide}\";\n    // {wide}\n * {wide}\n"
    );
    let lines: Vec<usize> = wide_comments(&text)
        .into_iter()
        .map(|(line, _)| line)
        .collect();
    assert_eq!(lines, [1, 7, 8]);
    assert!(wide_comments(&format!("// {}", &wide[3..])).is_empty());
}

#[test]
fn words_for_persons_are_found() {
    let word = PERSONS[0];
    let text = format!("// The task {word} waits.\n{word}se, a{word}, {word}_x\n\"({word})\"\n");
    let found: Vec<usize> = persons(&text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(found, [1, 3]);
    let files = [
        ("a.rs".to_owned(), text.clone()),
        ("a.json".to_owned(), text),
    ];
    assert_eq!(problems(&files, &[]).len(), 2);
    assert_eq!(problems(&files, &[("a.rs", 2, "why")]).len(), 0);
    assert_eq!(
        problems(&files, &[("a.rs", 3, "why")]).len(),
        3,
        "it is fewer now"
    );
}
