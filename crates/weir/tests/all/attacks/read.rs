// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that are read.

use super::stage::Stage;
use crate::world::stderr;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::path::Path;

/// Each option, and a command that reads `@TARGET` by it.
pub const OPTIONS: &[(&str, &[&str])] = &[
    (
        "run --config",
        &["@world", "run", "--duration", "1s", "--config", "@TARGET"],
    ),
    (
        "record --config",
        &[
            "@world",
            "record",
            "x",
            "--duration",
            "1s",
            "--config",
            "@TARGET",
        ],
    ),
    (
        "doctor --config",
        &["@world", "doctor", "--config", "@TARGET"],
    ),
    (
        "run --page-token-file",
        &[
            "@world",
            "run",
            "--duration",
            "1s",
            "--page=0.0.0.0:0",
            "--page-token-file",
            "@TARGET",
        ],
    ),
    (
        "record --page-token-file",
        &[
            "@world",
            "record",
            "x",
            "--duration",
            "1s",
            "--page=0.0.0.0:0",
            "--page-token-file",
            "@TARGET",
        ],
    ),
    (
        "run --metrics-token-file",
        &[
            "@world",
            "run",
            "--duration",
            "1s",
            "--metrics=127.0.0.1:0",
            "--metrics-token-file",
            "@TARGET",
        ],
    ),
    (
        "record --metrics-token-file",
        &[
            "@world",
            "record",
            "x",
            "--duration",
            "1s",
            "--metrics=127.0.0.1:0",
            "--metrics-token-file",
            "@TARGET",
        ],
    ),
    (
        "replay --page-token-file",
        &[
            "replay",
            "@RECORDING",
            "--page=0.0.0.0:0",
            "--page-token-file",
            "@TARGET",
        ],
    ),
    (
        "run --push-ca-file",
        &[
            "@world",
            "run",
            "--duration",
            "1s",
            "--push",
            "https://a/write",
            "--push-ca-file",
            "@TARGET",
        ],
    ),
    (
        "record --push-ca-file",
        &[
            "@world",
            "record",
            "x",
            "--duration",
            "1s",
            "--push",
            "https://a/write",
            "--push-ca-file",
            "@TARGET",
        ],
    ),
    (
        "run --push-token-file",
        &[
            "@world",
            "run",
            "--duration",
            "1s",
            "--push",
            "http://a/write",
            "--push-token-file",
            "@TARGET",
        ],
    ),
    (
        "record --push-token-file",
        &[
            "@world",
            "record",
            "x",
            "--duration",
            "1s",
            "--push",
            "http://a/write",
            "--push-token-file",
            "@TARGET",
        ],
    ),
    (
        "top --snapshot",
        &["top", "--once", "--snapshot", "@TARGET"],
    ),
    (
        "explain --recording",
        &["explain", "--recording", "@TARGET"],
    ),
    ("replay FILE", &["replay", "@TARGET"]),
    ("export FILE", &["export", "@TARGET"]),
    (
        "bench compare A",
        &["bench", "compare", "@TARGET", "@RESULT"],
    ),
    (
        "bench compare B",
        &["bench", "compare", "@RESULT", "@TARGET"],
    ),
    (
        "groups resize --alias-map",
        &[
            "@groups",
            "groups",
            "resize",
            "--check",
            "--alias-map",
            "@TARGET",
        ],
    ),
    (
        "groups acpi --check",
        &["@groups", "groups", "acpi", "--check", "@TARGET"],
    ),
    (
        "profile live FILE",
        &["profile", "live", "--once", "@TARGET"],
    ),
    (
        "profile live --idle",
        &["profile", "live", "--once", "@WINDOWS", "--idle", "@TARGET"],
    ),
    ("profile import FILE", &["profile", "import", "@TARGET"]),
    ("profile report FILE", &["profile", "report", "@TARGET"]),
    (
        "profile report --idle",
        &["profile", "report", "@WINDOWS", "--idle", "@TARGET"],
    ),
    (
        "profile diff FIRST",
        &["profile", "diff", "@TARGET", "@WINDOWS"],
    ),
    (
        "profile diff SECOND",
        &["profile", "diff", "@WINDOWS", "@TARGET"],
    ),
    (
        "profile diff --idle",
        &[
            "profile", "diff", "@WINDOWS", "@WINDOWS", "--idle", "@TARGET",
        ],
    ),
    (
        "profile export --idle",
        &[
            "profile", "export", "@WINDOWS", "--table", "findings", "--idle", "@TARGET",
        ],
    ),
    ("profile export FILE", &["profile", "export", "@TARGET"]),
    (
        "sim type2 --profile",
        &["sim", "type2", "--profile", "@TARGET"],
    ),
    (
        "sim type2 FILES",
        &["sim", "type2", "--engine", "xxh64", "@TARGET"],
    ),
];

/// Options whose value is a name or a path: the definition of the command line does not tell.
const NAMES_OR_PATHS: &[&[&str]] = &[
    &["sim", "@TARGET"],
    &["sim", "dram", "--profile", "@TARGET"],
    &["profile", "sim", "@TARGET"],
];

#[test]
fn what_is_no_file_is_refused_and_nothing_waits_for_it() {
    let Some(stage) = Stage::new("what_is_no_file_is_refused") else {
        return;
    };
    let fifo = stage.path("fifo.toml");
    mkfifoat(CWD, &fifo, Mode::RWXU).unwrap();
    let rows = OPTIONS.iter().map(|(_, row)| *row);
    for row in rows.chain(NAMES_OR_PATHS.iter().copied()) {
        for (target, words) in [
            (fifo.as_path(), &["FIFO", "regular file"][..]),
            (
                Path::new("/dev/zero"),
                &["device", "regular file", "can write to it"],
            ),
            (
                Path::new("/dev"),
                &["directory", "regular file", "no result.json"],
            ),
        ] {
            let output = stage.run(row, target);
            let said = stderr(&output);
            assert!(
                output.status.code().is_some_and(|code| code > 1),
                "{row:?} {}: {said}",
                target.display()
            );
            assert!(
                words.iter().any(|word| said.contains(word)),
                "{row:?} {}: {said}",
                target.display()
            );
        }
    }
}
