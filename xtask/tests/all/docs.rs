// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What pages keep to: a link leads somewhere, lines and paragraphs are short, and a page written by hand has
//! one purpose and so few words.
//!
//! What a program writes counts for links only; tables and code blocks for links and the words of a page.

use crate::tidy::{assert_none, extension, files};
use std::collections::BTreeSet;

const LINE_CHARS_MAX: usize = 110;
const PAGE_WORDS_MAX: usize = 900;
/// Words of a paragraph, of 95 in 100 on a page.
const PARAGRAPH_WORDS_MAX: usize = 90;

/// Pages that may be longer: readers search in them, or they grow with what they list.
const LONG_PAGES: &[&str] = &[
    "docs/reference/",
    "docs/evidence/",
    "docs/adr/",
    "CHANGELOG.md",
    "GLOSSARY.md",
];

/// Pages that a run of `make soak` writes.
const WRITTEN: &str = concat!("do", "cs/evidence/vm-");

/// What begins and ends the part of a page that a program writes.
const GENERATED: [&str; 2] = ["<!-- generated from here", "<!-- end of what is generated"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    /// Between fences, or one of them.
    Code,
    /// A row of a table.
    Row,
    /// A heading, a comment, nothing.
    Other,
    /// Begins a paragraph or an entry of a list.
    First,
    Next,
}

/// Lines of a page with their numbers and kinds.
fn all_lines(text: &str) -> Vec<(usize, LineKind, &str)> {
    let (mut in_code, mut is_open) = (false, false);
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start().trim_start_matches("> ").trim_start();
        let is_fence = trimmed.starts_with("```");
        let kind = match trimmed {
            _ if in_code || is_fence => LineKind::Code,
            row if row.starts_with('|') => LineKind::Row,
            other if other.is_empty() || other.starts_with('#') || other.starts_with("<!--") => {
                LineKind::Other
            }
            next if is_open && !is_entry(next) => LineKind::Next,
            _ => LineKind::First,
        };
        in_code ^= is_fence;
        is_open = matches!(kind, LineKind::First | LineKind::Next);
        found.push((index + 1, kind, line));
    }
    found
}

/// The same without what is generated.
fn lines(text: &str) -> Vec<(usize, LineKind, &str)> {
    let mut is_generated = false;
    let mut found = all_lines(text);
    found.retain(|(_, _, line)| {
        is_generated |= line.starts_with(GENERATED[0]);
        let is_kept = !is_generated;
        is_generated &= !line.starts_with(GENERATED[1]);
        is_kept
    });
    found
}

fn is_entry(trimmed: &str) -> bool {
    let after_number = trimmed.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = after_number.len() < trimmed.len() && after_number.starts_with(". ");
    let marks = ["- ", "* ", "+ "];
    is_numbered || marks.iter().any(|mark| trimmed.starts_with(mark))
}

fn wide_lines(name: &str, text: &str) -> Vec<String> {
    let mut found = lines(text);
    found.retain(|(_, kind, line)| {
        !matches!(kind, LineKind::Code | LineKind::Row) && line.chars().count() > LINE_CHARS_MAX
    });
    let said = found.into_iter().map(|(number, _, line)| {
        let chars = line.chars().count();
        format!("{name}:{number}: {chars} columns, {LINE_CHARS_MAX} allowed")
    });
    said.collect()
}

/// Words of a line; what only draws a table or a picture is none.
fn words_of(line: &str) -> usize {
    let words = line.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

/// Words of each paragraph, with the line that it begins on.
fn paragraphs(text: &str) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (number, kind, line) in lines(text) {
        let words = words_of(line);
        match (kind, found.last_mut()) {
            (LineKind::First, _) => found.push((number, words)),
            (LineKind::Next, Some((_, sum))) => *sum += words,
            _ => {}
        }
    }
    found
}

/// A page with more long paragraphs than one in twenty.
fn long_paragraphs(name: &str, text: &str) -> Option<String> {
    let mut all = paragraphs(text);
    let allowed = all.len() / 20;
    all.retain(|(_, words)| *words > PARAGRAPH_WORDS_MAX);
    let places = all
        .iter()
        .map(|(line, words)| format!("{words} in line {line}"));
    let places: Vec<String> = places.collect();
    (all.len() > allowed).then(|| {
        format!(
            "{name}: paragraphs of more than {PARAGRAPH_WORDS_MAX} words, {allowed} allowed: {}",
            places.join(", ")
        )
    })
}

fn long_page(name: &str, text: &str) -> Option<String> {
    let words: usize = lines(text).iter().map(|(_, _, line)| words_of(line)).sum();
    let may_be_long = LONG_PAGES.iter().any(|page| name.starts_with(page));
    (words > PAGE_WORDS_MAX && !may_be_long)
        .then(|| format!("{name}: {words} words, {PAGE_WORDS_MAX} allowed"))
}

/// Targets of the links of a page, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, kind, line) in all_lines(text) {
        if kind == LineKind::Code {
            continue;
        }
        // What is between backticks is no link.
        let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let targets = outside.split("](").skip(1);
        let targets = targets.filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (number, target.to_owned())));
    }
    found
}

/// The path from the root of what `page` links to; nothing if it leads out of the repository.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Anchors of a page, as they are made of headings: small, without marks, blanks as dashes.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = all_lines(text).into_iter().filter_map(|(_, kind, line)| {
        let title = line.trim_start_matches('#');
        (kind == LineKind::Other && title.len() < line.len()).then(|| title.trim().to_lowercase())
    });
    let anchor = |title: String| {
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

fn broken_links(name: &str, text: &str, all: &[(String, String)]) -> Vec<String> {
    let text_of = |path: &str| Some(all.iter().find(|(n, _)| n == path)?.1.as_str());
    let is_there = |path: &String| {
        let folder = format!("{path}/");
        path.is_empty() || all.iter().any(|(n, _)| n == path || n.starts_with(&folder))
    };
    let mut found = Vec::new();
    for (number, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let page = match path {
            "" => Some(name.to_owned()),
            path => resolved(name, path).filter(is_there),
        };
        let Some(page) = page else {
            found.push(format!("{name}:{number}: there is no {target}"));
            continue;
        };
        let has_heading = text_of(&page).is_some_and(|text| anchors(text).contains(anchor));
        if !anchor.is_empty() && !has_heading {
            found.push(format!("{name}:{number}: {page} has no heading #{anchor}"));
        }
    }
    found
}

/// Pages below `docs/` that a text names outside of links; `NAME` in one stands for any.
fn named_pages(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(concat!("do", "cs/")) {
            let before = &line[..at];
            let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
            let is_inner = before.ends_with(is_of_path) && !before.ends_with("../");
            if is_inner || before.ends_with("](") || before.ends_with("](../") {
                continue;
            }
            let rest = &line[at..];
            let end = rest.find(|c| !is_of_path(c)).unwrap_or(rest.len());
            let Some(end) = rest[..end].rfind(".md") else {
                continue;
            };
            let page = &rest[..end + 3];
            if !page.contains("NAME") {
                found.push((index + 1, page));
            }
        }
    }
    found
}

fn pages(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let pages = files.iter().filter(|(name, _)| extension(name) == "md");
    pages.map(|(name, text)| (name.as_str(), text.as_str()))
}

fn by_hand(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pages(files).filter(|(name, _)| !name.starts_with(WRITTEN))
}

#[test]
fn links_lead_somewhere() {
    let Some(files) = files() else { return };
    let broken = pages(&files).flat_map(|(name, text)| broken_links(name, text, &files));
    assert_none(&broken.collect::<Vec<_>>());
}

#[test]
fn pages_that_files_name_are_there() {
    let Some(files) = files() else { return };
    let mut missing = Vec::new();
    for (name, text) in &files {
        for (number, page) in named_pages(text) {
            if !files.iter().any(|(there, _)| there == page) {
                missing.push(format!("{name}:{number}: there is no {page}"));
            }
        }
    }
    assert_none(&missing);
}

#[test]
fn lines_of_pages_fit() {
    let Some(files) = files() else { return };
    let wide = by_hand(&files).flat_map(|(name, text)| wide_lines(name, text));
    assert_none(&wide.collect::<Vec<_>>());
}

#[test]
fn paragraphs_are_short() {
    let Some(files) = files() else { return };
    let long = by_hand(&files).filter_map(|(name, text)| long_paragraphs(name, text));
    assert_none(&long.collect::<Vec<_>>());
}

#[test]
fn pages_are_short() {
    let Some(files) = files() else { return };
    let long = by_hand(&files).filter_map(|(name, text)| long_page(name, text));
    assert_none(&long.collect::<Vec<_>>());
}

#[test]
fn each_kind_of_problem_on_a_page_is_found() {
    let wide = "x".repeat(LINE_CHARS_MAX + 1);
    let page = format!(
        "{wide}\n| {wide} |\n```\n{wide}\n```\n{}\n{wide}\n{} -->\n",
        GENERATED[0], GENERATED[1]
    );
    assert_eq!(
        wide_lines("a.md", &page),
        ["a.md:1: 111 columns, 110 allowed"]
    );
    assert_eq!(wide_lines("a.md", &wide[1..]), Vec::<String>::new());

    let long = "word ".repeat(PARAGRAPH_WORDS_MAX - 1);
    let page =
        format!("# Title of a page\n\n{long}\nlast\nand one\n\n- entry\n  goes on\n- {long}\n");
    assert_eq!(paragraphs(&page), [(3, 92), (7, 3), (9, 89)]);
    assert!(
        long_paragraphs("a.md", &page)
            .unwrap()
            .ends_with("0 allowed: 92 in line 3")
    );
    let twenty = format!("{page}\n{}", "short\n\n".repeat(17));
    assert_eq!(paragraphs(&twenty).len(), 20);
    assert_eq!(long_paragraphs("a.md", &twenty), None);

    let page = "word ".repeat(PAGE_WORDS_MAX + 1);
    assert!(long_page("testbed/README.md", &page).is_some());
    assert!(long_page("README.md", &page).is_some());
    assert!(long_page("GLOSSARY.md", &page).is_none());
    assert!(long_page("README.md", &page[5..]).is_none());
    let written = format!("{}\n{page}\n{}", GENERATED[0], GENERATED[1]);
    assert!(long_page("README.md", &written).is_none());
}

#[test]
fn links_and_names_that_lead_nowhere_are_found() {
    let one = "# One\n\n## `weir run`, twice\n\n[a](two.md) [b](../c/) [c](#weir-run-twice) [d](https://e.f/g.md)\n";
    let two = "[a](one.md#two) [b](three.md) [c](../../x.md) `[d](four.md)`\n```\n[e](five.md)\n```\n[f](#one)\n";
    let all: Vec<(String, String)> = [("p/one.md", one), ("p/two.md", two), ("c/d.rs", "")]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
    assert_eq!(broken_links("p/one.md", one, &all), Vec::<String>::new());
    let wanted = [
        "p/two.md:1: p/one.md has no heading #two",
        "p/two.md:1: there is no three.md",
        "p/two.md:1: there is no ../../x.md",
        "p/two.md:5: p/two.md has no heading #one",
    ];
    assert_eq!(broken_links("p/two.md", two, &all), wanted);

    let docs = concat!("do", "cs/");
    let text = format!(
        "// see {docs}a/b.md, section 2\n\"/../../{docs}c.md\" `{docs}d.md#e`\nmy-{docs}f.md {docs}g.rst\n\
         [h]({docs}h.md) ({docs}i.md) {docs}vm-NAME.md {docs}j.md."
    );
    let found: Vec<(usize, String)> = named_pages(&text)
        .into_iter()
        .map(|(line, page)| (line, page.replacen(docs, "", 1)))
        .collect();
    let wanted = [
        (1, "a/b.md"),
        (2, "c.md"),
        (2, "d.md"),
        (4, "i.md"),
        (4, "j.md"),
    ];
    assert_eq!(found, wanted.map(|(line, page)| (line, page.to_owned())));
}

/// Examples of a text's comments that rustdoc would compile, by line.
fn compiled_examples(text: &str) -> Vec<usize> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let said = ["//! ```", "/// ```"]
            .iter()
            .find_map(|mark| line.trim_start().strip_prefix(mark));
        let Some(kind) = said else { continue };
        let is_compiled =
            ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&kind.trim());
        if !is_inside && is_compiled {
            found.push(index + 1);
        }
        is_inside = !is_inside;
    }
    found
}

/// Cargo builds a program for the examples of each crate, also of those that have none: they say `doctest =
/// false`. An example there would never be compiled.
#[test]
fn examples_stand_where_they_are_compiled() {
    let Some(files) = files() else { return };
    let is_silent = |(name, text): &&(String, String)| {
        name.ends_with("Cargo.toml") && text.contains("doctest = false")
    };
    let silent: Vec<String> = files
        .iter()
        .filter(is_silent)
        .map(|(name, _)| name.replace("Cargo.toml", "src/"))
        .collect();
    assert!(silent.len() > 10, "{silent:?}");
    let in_silent =
        |(name, _): &&(String, String)| silent.iter().any(|folder| name.starts_with(folder));
    let found = files.iter().filter(in_silent).flat_map(|(name, text)| {
        let lines = compiled_examples(text);
        lines
            .into_iter()
            .map(move |line| format!("{name}:{line}: an example in a crate with doctest = false"))
    });
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn examples_are_told_from_drawings() {
    let text =
        "//! ```text\n//! ```\n//! ```\n//! use it;\n//! ```\n/// ```no_run\n/// ```\n// ```\n";
    assert_eq!(compiled_examples(text), [3, 6]);
}
