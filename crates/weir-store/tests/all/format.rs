// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording of the format is kept in `tests/data`, with some of its ticks as JSON lines beside it. It is
//! never made anew; a change that breaks this test breaks recordings. Another program reads it by its
//! description, too.

use crate::made;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_store::{Recording, Tick};

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The ticks that are kept as JSON lines beside a recording.
pub fn kept(name: &str) -> Vec<Tick> {
    let text = fs::read_to_string(data(name)).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

/// Whether this is the tick that was kept, without what is not in its document.
pub fn is_it(tick: &Tick, kept: &Tick) -> bool {
    (&tick.observation, &tick.plan) == (&kept.observation, &kept.plan)
        && (&tick.outcomes, tick.self_cost) == (&kept.outcomes, kept.self_cost)
}

/// Makes the files of the newest format, once, when that format is new.
#[test]
#[ignore = "makes tests/data of a new format; run it by hand once for each"]
fn make() {
    let path = data(&format!("format-{}.weir", weir_store::FORMAT));
    assert!(
        !path.exists(),
        "{} is there: it must not change",
        path.display()
    );
    let ticks = made::recorded(&path, 70);
    // Around the second frame, and now and then.
    let kept = |tick: &&Tick| tick.plan.seq.is_multiple_of(20) || (30..34).contains(&tick.plan.seq);
    let lines: Vec<String> = ticks
        .iter()
        .filter(kept)
        .map(|tick| serde_json::to_string(tick).unwrap())
        .collect();
    fs::write(path.with_extension("jsonl"), lines.join("\n") + "\n").unwrap();
}

#[test]
fn format_2_is_read() {
    // Read where nothing can be written: a finished recording needs no companions.
    let recording = Recording::open(&data("format-2.weir")).unwrap();
    let [session] = recording.sessions() else {
        panic!("{:?}", recording.sessions())
    };
    assert_eq!(&session.start, &made::start());
    let read: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
    assert_eq!(read.len(), 70);
    let wanted = kept("format-2.jsonl");
    assert_eq!(wanted.len(), 8);
    for wanted in wanted {
        let tick = read.iter().find(|tick| tick.plan.seq == wanted.plan.seq);
        assert!(is_it(tick.unwrap(), &wanted), "{}", wanted.plan.seq);
    }
    assert_eq!(recording.counts(session.id).unwrap(), [70, 7, 0]);
}

/// What the reader in Python says of a file; nothing if there is no Python, or nothing that reads zstd.
fn other_reader(path: &Path) -> Option<Output> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/read-recording.py");
    let Ok(output) = Command::new("python3").arg(script).arg(path).output() else {
        eprintln!("SKIP read-recording.py: no python3 here");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named") || said.contains("no zstd") {
        eprintln!("SKIP read-recording.py: {said}");
        return None;
    }
    Some(output)
}

/// The page describes the format well enough for another program, made from it.
#[test]
fn another_reader_reads_the_same() {
    let Some(output) = other_reader(&data("format-2.weir")) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let read = text.lines().map(serde_json::from_str);
    let read: Vec<Tick> = read.map(Result::unwrap).collect();
    let recording = Recording::open(&data("format-2.weir")).unwrap();
    assert_eq!(read.len(), 70);
    for (other, own) in read.iter().zip(recording.ticks(1)) {
        assert!(is_it(other, &own.unwrap()));
    }
}

/// The page describes sums well enough too: they are found right, and harm is found.
#[test]
fn another_reader_compares_the_same_sums() {
    let dir = made::desk();
    let path = dir.path().join("a.weir");
    let ticks = made::recorded(&path, 50);
    let Some(output) = other_reader(&path) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).lines().count(),
        ticks.len()
    );
    for (sql, wanted) in [
        ("UPDATE tick SET wall_unix_ms = 7 WHERE id = 40", "tick 40"),
        ("UPDATE text SET text = 'x' WHERE id = 3", "text 3"),
        ("UPDATE session SET policy = 'drf'", "session 1"),
    ] {
        let harmed = dir.path().join("b.weir");
        fs::copy(&path, &harmed).unwrap();
        let database = rusqlite::Connection::open(&harmed).unwrap();
        database.execute_batch(sql).unwrap();
        let output = other_reader(&harmed).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let wanted = format!("{wanted}: its checksum differs");
        assert!(
            !output.status.success() && said.contains(&wanted),
            "{sql}: {said}"
        );
    }
}
