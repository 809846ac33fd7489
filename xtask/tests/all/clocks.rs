// SPDX-License-Identifier: Apache-2.0 OR MIT
//! No test's verdict hangs on the host's clock: test code reads none, sleeps for nothing, and repeats nothing
//! because a host may have been slow. Where a machine has much to do tests come late, and that is all.
//!
//! Where a clock gives no verdict, the function is listed with a reason; one that is no longer needed fails
//! as well.

use crate::dependencies::is_test;
use crate::tidy::{assert_none, extension, files, without_exceptions};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const EVENT: &str =
    "wait for the event itself, by a channel or a join, or count what was to happen";
const MADE: &str = "pass a made time in, or compare counts";
const ONCE: &str =
    "make it certain at the first time; a slow host is no reason to repeat it or to allow more";
const GUEST: &str = "compare counts, or by the virtual time of the guest";

/// Endings of the files that are checked.
const CODE_FILES: &[&str] = &["rs", "c", "cpp", "h", "sh", "py", "scala"];

/// What code of a test does not name, and the next move.
const CODE: &[(&str, &str)] = &[
    ("Instant::now", MADE),
    ("SystemTime::now", MADE),
    (".elapsed(", MADE),
    ("thread::sleep", EVENT),
    ("recv_timeout(", EVENT),
    ("wait_timeout(", EVENT),
];

/// Words that stand nowhere in a test, not even in a comment, large or small. Put together, so that this file
/// passes.
const WORDS: &[(&str, &str)] = &[
    (concat!("date", " +%s"), GUEST),
    (concat!("ret", "ry"), ONCE),
    (concat!("ret", "ries"), ONCE),
    (concat!("busy", " host"), ONCE),
    (concat!("host is", " busy"), ONCE),
    (concat!("host", "_lag"), ONCE),
    (concat!("host", "_lag_ratio"), ONCE),
];

/// Functions that may, as `file: function` (or the file, where it is no Rust), and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/weir-linux/src/task_traffic/calibration_tests.rs: naps",
        "a nap is what is counted, however long it is",
    ),
    (
        "crates/weir/src/run/push/queue.rs: now",
        "an Instant is had in no other way; which one it is does not matter there",
    ),
    (
        "crates/weir/tests/servers.sh",
        "fetches packages over a network, and checks nothing",
    ),
    (
        "crates/weir/tests/all/world/mod.rs: wait",
        "polls for what other processes do; it fails after ten minutes, which only a hang lasts",
    ),
    (
        "crates/weir/tests/all/world/mod.rs: live",
        "the time of a machine made of files goes as that of the weir that runs over it; no verdict is on it",
    ),
    (
        "testbed/harness/tests/vm/cosim_cost.rs: timed",
        "prints what co-simulation costs the host, and prints only",
    ),
];

/// A file as far as it matters here.
#[derive(Default)]
struct Outline {
    /// Lines of what is compiled for tests only.
    tests: Vec<RangeInclusive<usize>>,
    functions: Vec<(RangeInclusive<usize>, String)>,
    /// Test modules that are files of their own.
    modules: Vec<syn::ItemMod>,
}

fn lines_of(item: &impl Spanned) -> RangeInclusive<usize> {
    item.span().start().line..=item.span().end().line
}

impl Outline {
    fn of(source: &str) -> syn::Result<Outline> {
        let mut outline = Outline::default();
        outline.visit_file(&syn::parse_file(source)?);
        Ok(outline)
    }

    fn add_function(
        &mut self,
        item: &impl Spanned,
        name: &syn::Ident,
        attributes: &[syn::Attribute],
    ) {
        self.functions.push((lines_of(item), name.to_string()));
        if is_test(attributes) {
            self.tests.push(lines_of(item));
        }
    }

    fn function(&self, line: usize) -> Option<&str> {
        let around = self
            .functions
            .iter()
            .filter(|(lines, _)| lines.contains(&line));
        around
            .max_by_key(|(lines, _)| *lines.start())
            .map(|(_, name)| name.as_str())
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if is_test(&module.attrs) {
            match module.content {
                Some(_) => self.tests.push(lines_of(module)),
                None => self.modules.push(module.clone()),
            }
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, f: &'ast syn::ItemFn) {
        self.add_function(f, &f.sig.ident, &f.attrs);
        visit::visit_item_fn(self, f);
    }

    fn visit_impl_item_fn(&mut self, f: &'ast syn::ImplItemFn) {
        self.add_function(f, &f.sig.ident, &f.attrs);
        visit::visit_impl_item_fn(self, f);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) {
            self.tests.push(lines_of(item));
        }
        visit::visit_item_impl(self, item);
    }
}

/// Whether all of the file is test code, by its name.
fn is_named_a_test(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    name.contains("/tests/")
        || name.contains("/test/")
        || base == "tests.rs"
        || base.ends_with("_tests.rs")
}

/// Where a module of `parent` lies, without its ending.
fn place(parent: &str, module: &syn::ItemMod) -> String {
    let (folder, base) = parent.rsplit_once('/').unwrap_or((".", parent));
    let stem = base.strip_suffix(".rs").unwrap_or(base);
    match stem {
        "lib" | "main" | "mod" => format!("{folder}/{}", module.ident),
        _ => format!("{folder}/{stem}/{}", module.ident),
    }
}

/// The tokens of each line, without spaces, texts and comments.
fn code_of(source: &str) -> BTreeMap<usize, String> {
    fn gather(stream: TokenStream, lines: &mut BTreeMap<usize, String>) {
        for token in stream {
            let line = lines.entry(token.span().start().line).or_default();
            match token {
                TokenTree::Ident(word) => {
                    let touches = line.ends_with(|c: char| c.is_alphanumeric() || c == '_');
                    *line += if touches { " " } else { "" };
                    *line += &word.to_string();
                }
                TokenTree::Punct(sign) => line.push(sign.as_char()),
                TokenTree::Literal(_) => line.push('"'),
                TokenTree::Group(group) => {
                    line.push('(');
                    gather(group.stream(), lines);
                }
            }
        }
    }
    let mut lines = BTreeMap::new();
    gather(source.parse().unwrap_or_default(), &mut lines);
    lines
}

/// The command `timeout`, as a shell takes it: not an option, not a part of a word.
fn has_shell_timeout(line: &str) -> bool {
    let word = concat!("time", "out ");
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        before.is_none_or(|c| " \t\"'(;|&`".contains(c))
            && after.is_some_and(|c| c.is_ascii_digit() || "-${".contains(c))
    })
}

pub fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        !line[..at].ends_with(is_part) && !after.starts_with(is_part)
    })
}

fn signs(text: &str, code: &str) -> Vec<(&'static str, &'static str)> {
    let of_code = CODE.iter().filter(|(sign, _)| code.contains(sign));
    let small = text.to_lowercase();
    let of_text = WORDS.iter().filter(|(word, _)| has_word(&small, word));
    let mut found: Vec<_> = of_code.chain(of_text).copied().collect();
    if has_shell_timeout(text) {
        found.push((concat!("time", "out"), GUEST));
    }
    found
}

/// What stands in a line that should not: its sign and the next move. It gets the line and its code alone.
pub type Signs = fn(&str, &str) -> Vec<(&'static str, &'static str)>;

/// Problems of one file, each with the function (or file) that it is in. With `whole` all of it is test code.
fn problems(
    name: &str,
    text: &str,
    outline: &Outline,
    whole: bool,
    (in_tests, signs): (bool, Signs),
) -> Vec<(String, String)> {
    let is_in = if in_tests {
        "in a test"
    } else {
        "in a program"
    };
    let code = if extension(name) == "rs" {
        code_of(text)
    } else {
        BTreeMap::new()
    };
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if in_tests != (whole || outline.tests.iter().any(|lines| lines.contains(&number))) {
            continue;
        }
        let code = code.get(&number).map_or("", String::as_str);
        for (sign, next) in signs(line, code) {
            let function = outline.function(number);
            let place = function.map_or(name.to_owned(), |function| format!("{name}: {function}"));
            found.push((place, format!("{name}:{number}: `{sign}` {is_in}: {next}")));
        }
    }
    found
}

/// The same for all files: in their tests, or outside of them.
pub fn all_problems(
    files: &[(String, String)],
    in_tests: bool,
    signs: Signs,
) -> Vec<(String, String)> {
    let code = files
        .iter()
        .filter(|(name, _)| CODE_FILES.contains(&extension(name)));
    let outlined: Vec<(&str, &str, Outline)> = code
        .map(|(name, text)| {
            // A file that does not parse is found by other tests.
            let outline = (extension(name) == "rs")
                .then(|| Outline::of(text).ok())
                .flatten();
            (name.as_str(), text.as_str(), outline.unwrap_or_default())
        })
        .collect();
    let modules: Vec<String> = outlined
        .iter()
        .flat_map(|(name, _, outline)| outline.modules.iter().map(|module| place(name, module)))
        .collect();
    let whole = |name: &str| {
        let within = |rest: &str| rest == ".rs" || rest.starts_with('/');
        is_named_a_test(name)
            || modules
                .iter()
                .any(|m| name.strip_prefix(m.as_str()).is_some_and(within))
    };
    let of = |(name, text, outline): &(&str, &str, Outline)| {
        problems(name, text, outline, whole(name), (in_tests, signs))
    };
    outlined.iter().flat_map(of).collect()
}

#[test]
fn no_verdict_hangs_on_a_clock() {
    let Some(files) = files() else { return };
    let found = all_problems(&files, true, signs);
    assert_none(&without_exceptions(found, ALLOWED, "clocks.rs"));
}

/// Where the signs are in files made up for this.
fn places(files: &[(&str, &str)]) -> Vec<String> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let files: Vec<_> = files.iter().map(owned).collect();
    all_problems(&files, true, signs)
        .into_iter()
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn clocks_are_found_in_tests_and_only_there() {
    let late = "fn late() { let a = Instant::now(); assert!(a.elapsed() < B); }";
    assert_eq!(places(&[("a/src/b.rs", late)]), [""; 0]);
    assert_eq!(places(&[("a/tests/b.rs", late)]), ["a/tests/b.rs: late"; 2]);
    assert_eq!(places(&[("a/src/b_tests.rs", late)]).len(), 2);
    let inside = format!("fn f() {{ g(Instant::now()) }}\n#[cfg(test)]\nmod tests {{ {late} }}");
    assert_eq!(places(&[("a/src/b.rs", &inside)]), ["a/src/b.rs: late"; 2]);
    let parent = ("a/src/b/mod.rs", "#[cfg(test)]\nmod made;");
    assert_eq!(places(&[parent, ("a/src/b/made.rs", late)]).len(), 2);
    assert_eq!(places(&[parent, ("a/src/b/made/c.rs", late)]).len(), 2);
    assert_eq!(places(&[parent, ("a/src/b/maden.rs", late)]), [""; 0]);
}

#[test]
fn each_sign_is_found_however_it_is_written() {
    let in_rust = |code: &str| places(&[("a/tests/b.rs", &format!("fn f() {{ {code} }}"))]).len();
    for code in [
        "std::time::Instant::now()",
        "assert!(SystemTime :: now() > a)",
        "use std::thread::sleep;",
        "a\n    .recv_timeout(b)",
        concat!("// try again: the host is", " busy"),
        concat!("for _ in 0..RET", "RIES {}"),
        concat!("vm.run(\"date", " +%s\")"),
        concat!("vm.run(\"time", "out 5 fio\")"),
    ] {
        assert_eq!(in_rust(code), 1, "{code}");
    }
    for code in [
        "say(\"Instant::now\")",
        "vm.sleep(STEP)",
        "// Instant::now",
        concat!("a.ret", "ry_at = b"),
        "vm.run(\"stress-ng --timeout 5\")",
    ] {
        assert_eq!(in_rust(code), 0, "{code}");
    }
    let shell = concat!("time", "out 5 fio || exit 1\n");
    assert_eq!(places(&[("a/tests/b.sh", shell)]), ["a/tests/b.sh"]);
    assert_eq!(places(&[("a/b.sh", shell)]), [""; 0]);
}

#[test]
fn an_exception_that_nothing_needs_is_found() {
    let found = vec![("a: f".to_owned(), "a:1: late".to_owned())];
    let left = without_exceptions(found, &[("a: f", "a hang"), ("a: g", "gone")], "clocks.rs");
    assert_eq!(left, ["a: g: no longer needs its exception in clocks.rs"]);
    assert!(ALLOWED.iter().all(|(_, why)| !why.is_empty()));
}
