// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What pages of evidence keep to: a command names programs, flags, tests, targets, back ends and files that
//! are there. How old a page may be: [`crate::evidence_age`].

use crate::tidy::{assert_none, extension, files};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

pub const FOLDER: &str = "docs/evidence/";

/// The first cell of the row with which a page says that its sources have changed since.
pub const OLDER: &str = "older than its sources";

pub struct Repository<'a> {
    files: &'a [(String, String)],
    backends: BTreeSet<String>,
    /// Folders of packages by their names.
    packages: BTreeMap<&'a str, &'a str>,
}

/// Strings in the constant of a name.
struct StringsOf {
    name: &'static str,
    found: Vec<String>,
    is_inside: bool,
}

impl<'ast> Visit<'ast> for StringsOf {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        // Not of its comments.
        self.is_inside = item.ident == self.name;
        visit::visit_expr(self, &item.expr);
        self.is_inside = false;
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        if self.is_inside {
            self.found.push(text.value());
        }
    }
}

fn strings_of(source: &str, name: &'static str) -> Vec<String> {
    let mut strings = StringsOf {
        name,
        found: Vec::new(),
        is_inside: false,
    };
    strings.visit_file(&syn::parse_file(source).expect("Rust"));
    strings.found
}

impl<'a> Repository<'a> {
    pub fn of(files: &'a [(String, String)]) -> Repository<'a> {
        let text = |name: &str| {
            let found = files.iter().find(|(there, _)| there == name);
            found.map_or_else(|| panic!("there is no {name}"), |(_, text)| text.as_str())
        };
        let bounds = text("crates/weir-scenario/src/expect.rs");
        let mut backends: BTreeSet<String> = strings_of(bounds, "BACKENDS").into_iter().collect();
        backends.extend(["none", "all"].map(str::to_owned));
        let package = |(name, text): &'a (String, String)| {
            let folder = name.strip_suffix("Cargo.toml")?;
            let name = text
                .lines()
                .find_map(|line| line.strip_prefix("name = \""))?;
            Some((name.trim_end_matches('"'), folder))
        };
        Repository {
            files,
            backends,
            packages: files.iter().filter_map(package).collect(),
        }
    }

    fn text(&self, name: &str) -> &'a str {
        let found = self.files.iter().find(|(there, _)| there == name);
        found.map_or("", |(_, text)| text.as_str())
    }

    pub fn is_there(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let mut names = self.files.iter().map(|(name, _)| name);
        names.any(|name| name == path || name.starts_with(&folder))
    }

    /// Whether a file of the folders has a function or a place of this name, or of one with it inside.
    fn has_test(&self, folders: &[&str], filter: &str) -> bool {
        let last = filter
            .trim_end_matches(':')
            .rsplit("::")
            .next()
            .unwrap_or_default();
        let is_named = |line: &str| {
            let name = line.split_once("fn ").map(|(_, rest)| rest);
            let name = name.and_then(|rest| rest.split(['(', '<']).next());
            name.is_some_and(|name| name.contains(last))
        };
        let rust = self
            .files
            .iter()
            .filter(|(name, _)| extension(name) == "rs");
        let mut here = rust.filter(|(name, _)| folders.iter().any(|f| name.starts_with(f)));
        here.any(|(name, text)| name.contains(last) || text.lines().any(is_named))
    }
}

/// Commands of a page with their lines, from code blocks and from between backticks.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut in_code, mut goes_on) = (false, false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            (in_code, goes_on) = (!in_code, false);
            continue;
        }
        if !in_code {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (index + 1, span.to_owned())));
            continue;
        }
        let line = line
            .strip_prefix("$ ")
            .or(line.strip_prefix("# "))
            .unwrap_or(line);
        let line = line.split(" # ").next().unwrap_or(line);
        let (line, more) = match line.trim_end().strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match found.last_mut().filter(|_| goes_on) {
            Some((_, command)) => *command += line,
            None => found.push((index + 1, line.to_owned())),
        }
        goes_on = more;
    }
    found
}

/// The words of each simple command of a line, from its program on.
fn simple_commands(line: &str) -> Vec<Vec<&str>> {
    let mut found = vec![Vec::new()];
    for word in line.split_whitespace() {
        let is_before = word.contains('=') || ["time", "/usr/bin/time", "-v", "do"].contains(&word);
        match found.last_mut() {
            Some(words) if words.is_empty() && is_before => {}
            _ if ["&&", "|", ";", ">"].contains(&word) => found.push(Vec::new()),
            Some(words) => words.push(word.trim_end_matches(';')),
            None => {}
        }
    }
    found
}

fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// What follows a flag.
fn value_of<'w>(words: &[&'w str], flag: &str) -> Vec<&'w str> {
    let pairs = words.windows(2).filter(|pair| pair[0] == flag);
    pairs.map(|pair| pair[1]).collect()
}

/// What a call of weir names that there is not.
fn of_weir(words: &[&str], page: &str) -> Vec<String> {
    let (program, Some(name)) = (words[0], words.get(1).filter(|word| is_word(word))) else {
        return Vec::new();
    };
    let heading = format!("\n## {program} {name}\n");
    let Some((_, rest)) = page.split_once(&heading) else {
        return vec![format!("`{program} {name}`")];
    };
    let section = rest.split("\n## ").next().unwrap_or_default();
    let mut missing = Vec::new();
    if section.contains(&format!("\n{program} {name} <COMMAND>"))
        && let Some(second) = words.get(2).filter(|word| is_word(word))
        && !section.contains(&format!("\n### {program} {name} {second}\n"))
    {
        missing.push(format!("`{program} {name} {second}`"));
    }
    for word in words
        .iter()
        .filter(|word| word.trim_matches('[').starts_with("--"))
    {
        let flag = word
            .trim_matches(['[', ']'])
            .split('=')
            .next()
            .unwrap_or_default();
        let is_known = ["`", " "].iter().any(|before| {
            let mut ends = ["`", " ", "["].iter();
            ends.any(|end| section.contains(&format!("{before}{flag}{end}")))
        });
        if flag.len() > 2 && !is_known {
            missing.push(format!("`{program} {name} {flag}`"));
        }
    }
    missing
}

/// The same of cargo.
fn of_cargo(words: &[&str], all: &Repository<'_>) -> Vec<String> {
    let mut missing = Vec::new();
    let mut folders = Vec::new();
    for package in value_of(words, "-p") {
        match all.packages.get(package) {
            Some(folder) => folders.push(*folder),
            None => missing.push(format!("package {package}")),
        }
    }
    if folders.is_empty() {
        folders.extend(all.packages.values());
    }
    for (flag, folder) in [
        ("--example", "examples"),
        ("--test", "tests"),
        ("--bench", "benches"),
    ] {
        for name in value_of(words, flag) {
            let is_in = |package: &&str| {
                let place = format!("{package}{folder}/{name}");
                all.is_there(&format!("{place}.rs")) || all.is_there(&format!("{place}/main.rs"))
            };
            if !folders.iter().any(is_in) {
                missing.push(format!("{flag} {name}"));
            }
        }
    }
    if words.get(1) != Some(&"test") {
        return missing;
    }
    let takes_value = ["-p", "--example", "--test", "--bench", "--features"];
    for pair in words[1..].windows(2) {
        let [before, word] = [pair[0], pair[1]];
        let is_filter = word.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if is_filter && !takes_value.contains(&before) && !all.has_test(&folders, word) {
            missing.push(format!("test {word}"));
        }
    }
    missing
}

/// What a command names that there is not.
fn of_command(line: &str, all: &Repository<'_>) -> Vec<String> {
    let mut missing = Vec::new();
    for words in simple_commands(line) {
        match words.first() {
            Some(&"make") => {
                let target = words.get(1).filter(|word| is_word(word));
                let rule = |target: &&str| format!("\n{target}:");
                let makefile = all.text("Makefile");
                if let Some(target) = target.filter(|target| !makefile.contains(&rule(target))) {
                    missing.push(format!("`make {target}`"));
                }
            }
            Some(&"cargo") => missing.extend(of_cargo(&words, all)),
            Some(&"weir") => missing.extend(of_weir(&words, all.text("docs/reference/cli.md"))),
            Some(&"weir-lab") => {
                missing.extend(of_weir(&words, all.text("docs/reference/cli-lab.md")));
            }
            _ => {}
        }
        for list in value_of(&words, "--backend") {
            let names = list.split(',').filter(|name| is_word(name));
            let unknown = names.filter(|name| !all.backends.contains(*name));
            missing.extend(unknown.map(|name| format!("back end {name}")));
        }
    }
    missing
}

/// Words of a text that begin in a certain way.
fn words_with<'t>(text: &'t str, begin: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(begin).map(move |(at, _)| {
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || "_./*-".contains(c);
        let rest = &text[at..];
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', '-'])
    })
}

/// The second cell of the row with this first cell.
pub fn row<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let mut rows = rows.filter_map(|row| row.split_once(" | "));
    let (_, value) = rows.find(|(first, _)| first.trim() == key)?;
    Some(value.trim_end_matches('|').trim())
}

/// All that a page names and there is not.
fn missing_on(page: &str, text: &str, all: &Repository<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (line, command) in commands(text) {
        let missing = of_command(&command, all).into_iter();
        found.extend(missing.map(|what| format!("{page}:{line}: there is no {what}")));
    }
    for (index, line) in text.lines().enumerate() {
        let mut say = |what: &str| found.push(format!("{page}:{}: there is no {what}", index + 1));
        for soak in words_with(line, "soak_").filter(|name| name.len() > "soak_".len()) {
            if !all.has_test(&["testbed/"], soak) {
                say(&format!("test {soak}"));
            }
        }
        for path in words_with(line, "scenarios/") {
            let path = path.split('*').next().unwrap_or(path);
            let is_name = path.contains("NAME") || path == "scenarios/";
            if !is_name && !all.files.iter().any(|(name, _)| name.starts_with(path)) {
                say(path);
            }
        }
    }
    found
}

pub fn pages(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    let pages = files.iter().filter(|(name, _)| name.starts_with(FOLDER));
    pages.map(|(name, text)| (name.as_str(), text.as_str()))
}

#[test]
fn evidence_names_what_is_there() {
    let Some(files) = files() else { return };
    let all = Repository::of(&files);
    assert!(all.backends.len() > 10);
    let missing = pages(&files).flat_map(|(name, text)| missing_on(name, text, &all));
    assert_none(&missing.collect::<Vec<_>>());
}

#[test]
fn each_kind_of_name_that_is_not_there_is_found() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let files = [
        file(
            "crates/weir-scenario/src/expect.rs",
            "pub const BACKENDS: [&str; 1] = [\"cpu-max\"];",
        ),
        file("Makefile", "# x\nall: b\n\ttouch b\n"),
        file("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"),
        file("crates/a/tests/all/main.rs", "fn some_test() {}\n"),
        file("testbed/vm.rs", "fn soak_live() {}\n"),
        file("scenarios/x.toml", ""),
        file(
            "docs/reference/cli.md",
            "\n## weir sim\n\n- `--seed <N>`: x\n- `--backend <NAME>`: y\n\n## weir bench\n\nweir bench <COMMAND>\n\n### weir bench it\n",
        ),
    ];
    let all = Repository::of(&files);
    let good = "`make all` `weir sim NAME --seed 3 --backend none,cpu-max` `weir bench it` make nothing\n\
        ```\n$ A=1 cargo test -p a --test all some -- --ignored test && make all  # then\n$ cargo test \\\n  -p a\n```\n\
        - scx later: soak_live scenarios/x.toml scenarios/NAME.toml\n";
    assert_eq!(missing_on("p", good, &all), Vec::<String>::new());
    let bad = "`make none` `weir simulate` `weir sim --speed 3 --backend scx` `weir bench no`\n\
        ```\n$ cargo test -p b && cargo test -p a --test none other\n$ make all | \\\n  make two\n```\n\
        - soak_dead scenarios/y.toml\n";
    let wanted = [
        "p:1: there is no `make none`",
        "p:1: there is no `weir simulate`",
        "p:1: there is no `weir sim --speed`",
        "p:1: there is no back end scx",
        "p:1: there is no `weir bench no`",
        "p:3: there is no package b",
        "p:3: there is no --test none",
        "p:3: there is no test other",
        "p:4: there is no `make two`",
        "p:7: there is no test soak_dead",
        "p:7: there is no scenarios/y.toml",
    ];
    assert_eq!(missing_on("p", bad, &all), wanted);
    let old = format!("| {OLDER} | all of it |\n");
    assert_eq!(row(&old, OLDER), Some("all of it"));
}
