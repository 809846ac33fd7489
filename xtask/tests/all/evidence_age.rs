// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page of evidence that is older than what it speaks of says so. Its age is the number of commits to its
//! sources since the commit in its table.

use crate::evidence::{FOLDER, OLDER, Repository, pages, row};
use crate::tidy::{assert_none, files};
use std::process::Command;

/// The number of commits to a page's sources that may be newer than the page.
const NEWER_MAX: u64 = 20;

/// Pages with a commit in their table, and what they speak of.
const SOURCES: &[(&str, &[&str])] = &[
    (
        "vm-adversary",
        &[
            "bpf",
            "crates/weir-core/src/controller",
            "crates/weir-linux/src/workloads",
        ],
    ),
    ("vm-cosim_cost", &["rtl/src/main", "testbed/cosim"]),
    (
        "vm-drf",
        &[
            "bpf",
            "crates/weir-core/src/controller/dominant.rs",
            "crates/weir-core/src/policy/drf",
            "crates/weir-linux/src/backends",
        ],
    ),
    (
        "fuzz",
        &[
            "crates/weir/fuzz",
            "crates/weir/src/commands",
            "crates/weir/src/run/serve/http",
            "crates/weir-linux/src/kernel/parse",
            "crates/weir-profile/fuzz",
            "crates/weir-store/src",
        ],
    ),
    (
        "vm-live",
        &[
            "bpf",
            "crates/weir-core/src/controller",
            "crates/weir-linux/src/backends",
            "testbed/device-model",
        ],
    ),
    (
        "vm-locks",
        &["bpf", "crates/weir-linux/src/backends/sched_ext"],
    ),
    ("vm-neighbours", &["bpf", "crates/weir-linux/src/backends"]),
    (
        "vm-resize",
        &[
            "crates/weir-linux/src/inventory/virtual_copies",
            "crates/weir/src/groups",
        ],
    ),
    (
        "vm-scx_kernels",
        &["bpf", "crates/weir-linux/src/backends/sched_ext"],
    ),
    (
        "vm-scx_stress",
        &["bpf", "crates/weir-linux/src/backends/sched_ext"],
    ),
    ("vm-speed", &["testbed/device-model"]),
    ("vm-time", &["testbed/device-model"]),
    ("test-time", &[".ci", "Makefile", "xtask/rustc"]),
];

/// What is wrong with the age of a page of which so many commits to its sources are newer.
fn wrong_age(page: &str, newer: u64, older: Option<&str>) -> Option<String> {
    match older {
        None if newer > NEWER_MAX => Some(format!(
            "{page}: {newer} commits to its sources are newer, {NEWER_MAX} allowed: run its command again, or add \
             the row `| {OLDER} | what has changed |`"
        )),
        Some("") => Some(format!(
            "{page}: the row `{OLDER}` does not say what has changed"
        )),
        Some(_) if newer <= NEWER_MAX => Some(format!(
            "{page}: {newer} commits to its sources are newer, {NEWER_MAX} allowed: it needs no row `{OLDER}`"
        )),
        _ => None,
    }
}

/// What git answers; nothing if it does not know.
fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git
        .current_dir(xtask::repository_root())
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[test]
fn evidence_that_is_older_than_its_sources_says_so() {
    let Some(files) = files() else { return };
    let all = Repository::of(&files);
    let with_commit = pages(&files).filter_map(|(name, text)| {
        let hash = row(text, "commit")?.split([',', ' ']).next()?;
        Some((name, text, hash))
    });
    let with_commit: Vec<_> = with_commit.collect();
    let page_of = |name: &str| format!("{FOLDER}{name}.md");
    let mut wrong = Vec::new();
    for (name, sources) in SOURCES {
        if !with_commit.iter().any(|(page, ..)| *page == page_of(name)) {
            wrong.push(format!(
                "{name}: there is no such page with a commit: take it from SOURCES"
            ));
        }
        let gone = sources.iter().filter(|path| !all.is_there(path));
        wrong.extend(gone.map(|path| format!("{name}: there is no {path}")));
    }
    let has_history = git(&["rev-parse", "--is-shallow-repository"]).as_deref() == Some("false");
    if !has_history {
        eprintln!(
            "SKIP evidence: the age of pages is unknown, because this clone has no history (it is shallow)"
        );
    }
    for (page, text, hash) in with_commit {
        let Some((_, sources)) = SOURCES.iter().find(|(name, _)| page_of(name) == page) else {
            wrong.push(format!("{page}: it is not in SOURCES (evidence_age.rs)"));
            continue;
        };
        if !has_history {
            continue;
        }
        // A commit of a branch that was rebased is known to the clone that has the branch, and to no other.
        if git(&["merge-base", "--is-ancestor", hash, "HEAD"]).is_none() {
            wrong.push(format!(
                "{page}: its commit {hash} is not one of this branch"
            ));
            continue;
        }
        let range = format!("{hash}..HEAD");
        let count = ["rev-list", "--count", "--no-merges", &range, "--"];
        let newer = git(&[&count[..], *sources].concat()).and_then(|count| count.parse().ok());
        match newer {
            Some(newer) => wrong.extend(wrong_age(page, newer, row(text, OLDER))),
            None => wrong.push(format!("{page}: git knows no commit {hash}")),
        }
    }
    assert_none(&wrong);
}

#[test]
fn a_row_is_needed_above_the_limit_and_not_below() {
    let most = NEWER_MAX;
    for (newer, older, is_wrong) in [
        (most, None, false),
        (most + 1, None, true),
        (most + 1, Some("x"), false),
        (most + 1, Some(""), true),
        (most, Some("x"), true),
    ] {
        assert_eq!(
            wrong_age("p", newer, older).is_some(),
            is_wrong,
            "{newer} {older:?}"
        );
    }
}
