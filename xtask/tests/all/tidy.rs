// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every file of the repository keeps to: it is short, its functions fit on a screen, its
//! first line names its licence, and nothing of the machine it was written on stands in it.
//!
//! Exceptions are listed by name with a reason; one that is no longer needed fails as well.

use proc_macro2::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Files that may be longer, and why.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer, as `file: name`, and why.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

/// Folders of code that runs in the kernel or inside QEMU, and takes its licence from there.
const GPL_FOLDERS: &[&str] = &[
    "bpf/",
    "kernel/",
    "testbed/harness/tests/guest/",
    "testbed/device-model/",
    "testbed/guest-pmu/",
];

const CODE: &[&str] = &[
    "rs", "c", "cpp", "h", "sh", "py", "js", "css", "scala", "sv",
];
const OTHER_LICENSED: &[&str] = &["toml", "html", "xml", "yml", "yaml", "service"];
const LICENSED_NAMES: &[&str] = &["Makefile", "Kbuild", "Dockerfile"];

/// What must not stand in a file, and why. Put together, so that this file passes.
const FORBIDDEN: &[(&str, &str)] = &[
    (
        concat!("/wo", "rk/"),
        "a path of the machine it was written on",
    ),
    (
        concat!("/home", "/"),
        "a path of the machine it was written on",
    ),
    (
        concat!("index.", "crates.io"),
        "a registry host: clients know theirs",
    ),
    (
        concat!("static.", "crates.io"),
        "a registry host: clients know theirs",
    ),
    (
        concat!("registry.", "npmjs"),
        "a registry host: clients know theirs",
    ),
    (
        concat!("pypi", ".org"),
        "a registry host: clients know theirs",
    ),
    (
        concat!("repo1.", "maven"),
        "a registry host: clients know theirs",
    ),
    (
        concat!("deb.", "debian.org"),
        "a package mirror: take it from the machine's apt sources",
    ),
    (
        concat!("snapshot.", "debian.org"),
        "a package mirror: take it from the apt sources",
    ),
    (
        concat!("proxy.", "golang.org"),
        "a registry host: clients know theirs",
    ),
];

/// Files of the repository with their text, or nothing outside of a git checkout.
pub fn files() -> Option<Vec<(String, String)>> {
    let root = xtask::repository_root();
    if !root.join(".git").exists() {
        eprintln!(
            "SKIP tidy: {} is no git checkout, so its files are unknown",
            root.display()
        );
        return None;
    }
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&root)
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names = String::from_utf8(output.stdout).expect("file names in UTF-8");
    let read = |name: &str| {
        // Listed and gone: deleted, but not yet from the index. Not text: pictures.
        let bytes = std::fs::read(root.join(name)).ok()?;
        Some((name.to_owned(), String::from_utf8(bytes).ok()?))
    };
    let found: Vec<_> = names.split_terminator('\0').filter_map(read).collect();
    assert!(found.len() > 20, "git lists only {} files", found.len());
    Some(found)
}

pub fn extension(name: &str) -> &str {
    Path::new(name)
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
}

fn needs_licence(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    CODE.contains(&extension(name))
        || OTHER_LICENSED.contains(&extension(name))
        || LICENSED_NAMES.contains(&base)
}

fn licence_problem(name: &str, text: &str) -> Option<String> {
    let first = text
        .lines()
        .find(|line| !line.starts_with("#!") && !line.starts_with("<!doctype"));
    let first = first.unwrap_or_default();
    let Some((_, licence)) = first.split_once("SPDX-License-Identifier: ") else {
        return Some(format!(
            "{name}: the first line must be its SPDX-License-Identifier"
        ));
    };
    let gpl = GPL_FOLDERS.iter().any(|folder| name.starts_with(folder));
    let wanted = if gpl { "GPL-2.0" } else { "Apache-2.0 OR MIT" };
    (!licence.starts_with(wanted)).then(|| format!("{name}: licence is not {wanted} but {licence}"))
}

fn forbidden_problems(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (word, why) in FORBIDDEN.iter().filter(|(word, _)| line.contains(word)) {
            found.push(format!("{name}:{}: `{word}` is {why}", number + 1));
        }
    }
    found
}

/// Functions that are too long, and macros that say "later".
#[derive(Default)]
struct RustProblems {
    long: Vec<(String, usize)>,
    later: Vec<usize>,
}

impl RustProblems {
    fn of(source: &str) -> syn::Result<RustProblems> {
        let mut problems = RustProblems::default();
        problems.visit_file(&syn::parse_file(source)?);
        Ok(problems)
    }

    fn measure(&mut self, name: &syn::Ident, from: Span, to: Span) {
        let lines = to.end().line + 1 - from.start().line;
        if lines > FUNCTION_LINES_MAX {
            self.long.push((name.to_string(), lines));
        }
    }
}

impl<'ast> Visit<'ast> for RustProblems {
    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.measure(&f.sig.ident, f.sig.span(), f.block.span());
        visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.measure(&f.sig.ident, f.sig.span(), f.block.span());
        visit::visit_impl_item_fn(self, f);
    }

    fn visit_trait_item_fn(&mut self, f: &'ast syn::TraitItemFn) {
        if let Some(block) = &f.default {
            self.measure(&f.sig.ident, f.sig.span(), block.span());
        }
        visit::visit_trait_item_fn(self, f);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let later = ["todo", "unimplemented", "dbg"];
        if called
            .path
            .segments
            .last()
            .is_some_and(|s| later.iter().any(|name| s.ident == name))
        {
            self.later.push(called.span().start().line);
        }
        visit::visit_macro(self, called);
    }
}

pub fn assert_none(problems: &[String]) {
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Takes the exceptions away that are listed in `list`, and complains of those that match nothing.
pub fn without_exceptions(
    found: Vec<(String, String)>,
    exceptions: &[(&str, &str)],
    list: &str,
) -> Vec<String> {
    let names: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let stale = exceptions.iter().filter(|(name, _)| !names.contains(name));
    let stale: Vec<String> = stale
        .map(|(name, _)| format!("{name}: no longer needs its exception in {list}"))
        .collect();
    let excepted = |name: &str| exceptions.iter().any(|(e, _)| *e == name);
    found
        .into_iter()
        .filter(|(name, _)| !excepted(name))
        .map(|(_, p)| p)
        .chain(stale)
        .collect()
}

/// Test programs by their crate's folder: files in `tests`, and folders there with a `main.rs`.
fn test_programs<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for name in names.filter(|name| extension(name) == "rs") {
        let Some((package, program)) = name.split_once("/tests/") else {
            continue;
        };
        let is_program = !program.contains('/') || program.ends_with("/main.rs");
        if is_program && !package.contains("/src") {
            found.entry(package).or_default().push(program);
        }
    }
    found
}

/// Each is linked by itself, with all that the crate uses.
#[test]
fn a_crate_has_one_test_program() {
    let Some(files) = files() else { return };
    let mut programs = test_programs(files.iter().map(|(name, _)| name.as_str()));
    programs.retain(|_, programs| programs.len() > 1);
    assert!(
        programs.is_empty(),
        "make these modules of one: {programs:?}"
    );
}

#[test]
fn files_are_short() {
    let Some(files) = files() else { return };
    let too_long = |(name, text): (String, String)| {
        let lines = text.lines().count();
        let wrong = CODE.contains(&extension(&name)) && lines > FILE_LINES_MAX;
        wrong.then(|| {
            (
                name.clone(),
                format!("{name}: {lines} lines, {FILE_LINES_MAX} allowed"),
            )
        })
    };
    let found = files.into_iter().filter_map(too_long).collect();
    assert_none(&without_exceptions(found, LONG_FILES, "tidy.rs"));
}

#[test]
fn functions_fit_on_a_screen_and_are_finished() {
    let Some(files) = files() else { return };
    let (mut long, mut other) = (Vec::new(), Vec::new());
    for (name, text) in files.iter().filter(|(name, _)| extension(name) == "rs") {
        match RustProblems::of(text) {
            Err(error) => other.push(format!("{name}: {error}")),
            Ok(problems) => {
                for (function, lines) in problems.long {
                    let place = format!("{name}: {function}");
                    let text = format!("{place}: {lines} lines, {FUNCTION_LINES_MAX} allowed");
                    long.push((place, text));
                }
                for line in problems.later {
                    other.push(format!(
                        "{name}:{line}: says later, or prints for debugging"
                    ));
                }
            }
        }
    }
    other.extend(without_exceptions(long, LONG_FUNCTIONS, "tidy.rs"));
    assert_none(&other);
}

#[test]
fn first_lines_name_the_licence() {
    let Some(files) = files() else { return };
    let licensed = files.iter().filter(|(name, _)| needs_licence(name));
    let found: Vec<_> = licensed
        .filter_map(|(name, text)| licence_problem(name, text))
        .collect();
    assert_none(&found);
}

#[test]
fn nothing_of_the_machine_stands_in_a_file() {
    let Some(files) = files() else { return };
    let found: Vec<_> = files
        .iter()
        .flat_map(|(name, text)| forbidden_problems(name, text))
        .collect();
    assert_none(&found);
}

#[test]
fn each_kind_of_problem_is_found() {
    let body = "let _ = 1;\n".repeat(FUNCTION_LINES_MAX - 2);
    let fits = format!("impl S {{ fn f() {{\n{body}}} }}");
    assert!(RustProblems::of(&fits).expect("Rust").long.is_empty());
    let long = fits.replacen("let _ = 1;", "let _ = 1;\nlet _ = 2;", 1);
    let found = RustProblems::of(&long).expect("Rust").long;
    assert_eq!(found, [("f".to_owned(), FUNCTION_LINES_MAX + 1)]);
    let later = RustProblems::of("fn f() {\n  std::todo!()\n}")
        .expect("Rust")
        .later;
    assert_eq!(later, [2]);

    let spdx = |name, licence| {
        licence_problem(
            name,
            &format!("#!/bin/sh\n# SPDX-License-Identifier: {licence}\n"),
        )
    };
    assert_eq!(spdx("run.sh", "Apache-2.0 OR MIT"), None);
    assert_eq!(spdx("kernel/run.sh", "GPL-2.0-only"), None);
    assert!(spdx("kernel/run.sh", "Apache-2.0 OR MIT").is_some());
    assert!(spdx("run.sh", "GPL-2.0-only").is_some());
    assert!(licence_problem("a.rs", "//! Text.\n").is_some());
    assert!(needs_licence("kernel/Kbuild") && needs_licence("a/b.toml") && !needs_licence("a.png"));

    let names = [
        "a/tests/all/main.rs",
        "a/tests/all/b.rs",
        "a/tests/c.rs",
        "a/src/tests/d.rs",
    ];
    let programs = test_programs(names.into_iter());
    assert_eq!(programs["a"], ["all/main.rs", "c.rs"]);
    assert_eq!(programs.len(), 1);

    let path = format!("ok\nsee {}x", FORBIDDEN[0].0);
    assert_eq!(forbidden_problems("a.md", &path).len(), 1);
    let two = vec![
        ("a".to_owned(), "a: long".to_owned()),
        ("b".to_owned(), "b: long".to_owned()),
    ];
    let left = without_exceptions(two, &[("a", "a list"), ("c", "gone")], "tidy.rs");
    assert_eq!(
        left,
        ["b: long", "c: no longer needs its exception in tidy.rs"]
    );
}
