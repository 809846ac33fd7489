// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are made.

use super::stage::Stage;
use crate::world::stderr;
use std::fs;
use std::path::Path;

/// Each option, and a command that makes `@TARGET` by it.
pub const OPTIONS: &[(&str, &[&str])] = &[
    (
        "run --record",
        &[
            "@world",
            "run",
            "--duration",
            "100ms",
            "--record",
            "@TARGET",
        ],
    ),
    (
        "record FILE",
        &[
            "@world",
            "record",
            "--interval",
            "50ms",
            "--duration",
            "100ms",
            "@TARGET",
        ],
    ),
    (
        "export --out",
        &["export", "@RECORDING", "--out", "@TARGET"],
    ),
    (
        "export --recover",
        &["export", "@RECORDING", "--recover", "@TARGET"],
    ),
    (
        "calibrate --out",
        &[
            "@node0",
            "calibrate",
            "--max-duration",
            "2s",
            "--memory",
            "32MiB",
            "--threads",
            "1",
            "--out",
            "@TARGET",
        ],
    ),
    (
        "bench interference --out",
        &[
            "bench",
            "interference",
            "--force",
            "--seconds",
            "0.01",
            "--repeats",
            "2",
            "--memory",
            "4MiB",
            "--pair",
            "mmem:ld:1+mmem:st:1",
            "--out",
            "@TARGET",
        ],
    ),
    (
        "bench compare --out",
        &["bench", "compare", "@RESULT", "@RESULT", "--out", "@TARGET"],
    ),
    (
        "verify-hardware --out",
        &["@empty", "verify-hardware", "--no-load", "--out", "@TARGET"],
    ),
    (
        "groups acpi --out",
        &[
            "@groups", "groups", "acpi", "--sizes", "1/2,1/2", "--out", "@TARGET",
        ],
    ),
    (
        "profile record FILE",
        &["@counting", "profile", "record", "@TARGET", "--", "true"],
    ),
    (
        "profile import --out",
        &[
            "profile",
            "import",
            "@PERF",
            "--family",
            "sapphire-rapids",
            "--out",
            "@TARGET",
        ],
    ),
    (
        "profile report --html",
        &["profile", "report", "@WINDOWS", "--html", "@TARGET"],
    ),
    (
        "profile diff --html",
        &[
            "profile", "diff", "@WINDOWS", "@WINDOWS", "--html", "@TARGET",
        ],
    ),
    (
        "profile export --out",
        &["profile", "export", "@WINDOWS", "--out", "@TARGET"],
    ),
    (
        "profile sim --truth",
        &["profile", "sim", "healthy", "--truth", "@TARGET"],
    ),
    (
        "profile sim --out",
        &["profile", "sim", "healthy", "--out", "@TARGET"],
    ),
    (
        "profile sim --idle-out",
        &["profile", "sim", "healthy", "--idle-out", "@TARGET"],
    ),
    ("sim --record", &["sim", "step", "--record", "@TARGET"]),
    ("sim --out", &["sim", "step", "--out", "@TARGET"]),
    (
        "sim interference --out",
        &["sim", "interference", "--out", "@TARGET"],
    ),
    ("sim type2 --out", &["sim", "type2", "--out", "@TARGET"]),
];

/// An engine with which an option makes a file, and a directory without.
const ENGINE: (&str, &[&str]) = (
    "sim type2 --engine --out",
    &[
        "sim", "type2", "--engine", "xxh64", "@PAGE", "--out", "@TARGET",
    ],
);

/// Options that need more of a machine than others: counters, CPUs, memory on a node.
const MAY_LACK: &[&str] = &[
    "calibrate --out",
    "bench interference --out",
    "profile record FILE",
];
/// Process ids ahead that temporary names are planted for: other tests start processes too.
const IDS: u32 = 500;

/// The process id that was given last.
fn last_id() -> u32 {
    let text = fs::read_to_string("/proc/loadavg").unwrap();
    text.split_whitespace().last().unwrap().parse().unwrap()
}

/// Names that a command gives to what it makes: the file's, or those in a directory.
fn names(target: &Path) -> Vec<String> {
    let own = target.file_name().unwrap().to_str().unwrap().to_owned();
    match fs::read_dir(target) {
        Err(_) => vec![own],
        Ok(entries) => entries
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
            .collect(),
    }
}

/// A command of root in a directory of another user, which is prepared.
struct Attack<'a> {
    stage: &'a Stage,
    row: &'a [&'a str],
    /// What the command makes where nothing is prepared.
    names: Vec<String>,
    is_directory: bool,
    number: usize,
}

impl Attack<'_> {
    /// `prepare` gets the directory in which results come, and a name of one.
    fn run(&self, what: &str, prepare: impl Fn(&Path, &str)) {
        let stage = self.stage;
        let dir = stage.theirs(&format!("{}-{what}", self.number));
        let target = dir.join("x");
        let place = if self.is_directory {
            target.clone()
        } else {
            dir.clone()
        };
        if self.is_directory {
            stage.other(&format!("mkdir {}", place.display()));
        }
        for name in &self.names {
            prepare(&place, name);
        }
        self.check(what, &target);
    }

    fn check(&self, what: &str, target: &Path) {
        let output = self.stage.run(self.row, target);
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{:?}, {what}: {said}", self.row);
        let harmed = self.stage.harmed(&self.names);
        assert!(
            harmed.is_empty(),
            "{:?}, {what}: {harmed:?} of root: {said}",
            self.row
        );
    }
}

#[test]
fn no_file_of_root_changes_where_another_user_prepared_the_directory() {
    let Some(stage) = Stage::new("no_file_of_root_changes") else {
        return;
    };
    let mine = stage.path("mine");
    for (number, (option, row)) in OPTIONS.iter().chain([&ENGINE]).enumerate() {
        let target = stage.theirs(&format!("{number}")).join("x");
        let output = stage.run(row, &target);
        if !target.exists() {
            let said = stderr(&output);
            assert!(MAY_LACK.contains(option), "{option} makes nothing: {said}");
            eprintln!("SKIP {option}: {said}");
            continue;
        }
        let attack = Attack {
            stage: &stage,
            row,
            names: names(&target),
            is_directory: target.is_dir(),
            number,
        };
        stage.keep_precious(&attack.names);
        let precious = |name: &str| mine.join(name).display().to_string();
        // Where the kernel lets others do that: fs.protected_hardlinks.
        attack.run("hard-links", |place, name| {
            fs::hard_link(precious(name), place.join(name)).unwrap();
        });
        attack.run("FIFOs", |place, name| {
            stage.other(&format!("mkfifo {}/{name}", place.display()));
        });
        attack.run("links", |place, name| {
            let beside = [
                "@",
                ".@.next",
                ".@.new",
                "@.new",
                "@.tmp",
                "@-wal",
                "@-journal",
                "@-shm",
            ];
            let next = last_id();
            let of_process = (next..next + IDS).map(|id| format!(".@.{id}.new"));
            let all = beside.map(str::to_owned).into_iter().chain(of_process);
            for beside in all {
                stage.link(&mine.join(name), &place.join(beside.replace('@', name)));
            }
        });
        let links = stage.theirs(&format!("{number}-directory"));
        let link = links.join("D");
        stage.other(&format!("ln -s {} {}", mine.display(), link.display()));
        if attack.is_directory {
            attack.check("a link to a directory", &link)
        } else {
            attack.check("a link to a directory", &link.join(&attack.names[0]))
        }
        stage.forget_precious();
    }
}
