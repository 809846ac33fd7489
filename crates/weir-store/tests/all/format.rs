// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Old files stay readable: a recording of each format is kept in `tests/data`, with some of its ticks as
//! JSON lines beside it. They are never made anew; a change that breaks this test breaks recordings.

use crate::made;
use std::fs;
use std::path::{Path, PathBuf};
use weir_store::{Recording, Tick};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
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
    let ticks = made::recorded(&path, 140);
    // Around the second key, and now and then.
    let kept =
        |tick: &&Tick| tick.plan.seq.is_multiple_of(20) || (126..131).contains(&tick.plan.seq);
    let lines: Vec<String> = ticks
        .iter()
        .filter(kept)
        .map(|tick| serde_json::to_string(tick).unwrap())
        .collect();
    fs::write(path.with_extension("jsonl"), lines.join("\n") + "\n").unwrap();
}

#[test]
fn format_1_is_read() {
    // Read where nothing can be written: a finished recording needs no companions.
    let recording = Recording::open(&data("format-1.weir")).unwrap();
    let [session] = recording.sessions() else {
        panic!("{:?}", recording.sessions())
    };
    assert_eq!(session.start, made::start());
    let wanted = fs::read_to_string(data("format-1.jsonl")).unwrap();
    let read: Vec<Tick> = recording.ticks(session.id).map(Result::unwrap).collect();
    assert_eq!(read.len(), 140);
    assert_eq!(wanted.lines().count(), 12);
    for wanted in wanted.lines() {
        let wanted: Tick = serde_json::from_str(wanted).unwrap();
        let tick = read
            .iter()
            .find(|tick| tick.plan.seq == wanted.plan.seq)
            .unwrap();
        assert_eq!(tick.observation, wanted.observation);
        assert_eq!(tick.plan, wanted.plan);
        assert_eq!(
            (&tick.outcomes, tick.self_cost),
            (&wanted.outcomes, wanted.self_cost)
        );
    }
    assert_eq!(recording.counts(session.id).unwrap(), [140, 14, 0]);
}

/// What the reader in Python says of a file; nothing if there is no Python.
fn other_reader(path: &Path) -> Option<std::process::Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/read-recording.py");
    let python = std::process::Command::new("python3")
        .arg(script)
        .arg(path)
        .output();
    let Ok(output) = python else {
        eprintln!("SKIP read-recording.py: no python3 here");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named") {
        eprintln!("SKIP read-recording.py: {said}");
        return None;
    }
    Some(output)
}

/// The page describes sums well enough too: they are found right, and harm is found.
#[test]
fn another_reader_compares_the_same_sums() {
    let dir = made::desk();
    let path = dir.path().join("a.weir");
    let ticks = made::recorded(&path, 200);
    let Some(output) = other_reader(&path) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let read = text
        .lines()
        .map(|line| serde_json::from_str::<Tick>(line).unwrap());
    let same = |(read, tick): (Tick, &Tick)| read.plan == tick.plan;
    assert!(read.zip(&ticks).all(same));
    assert_eq!(text.lines().count(), 200);
    for (sql, wanted) in [
        (
            "UPDATE tick SET wall_unix_ms = 7 WHERE id = 130",
            "tick 130",
        ),
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

/// The page describes the bytes well enough for another program: a reader in Python, made from it.
#[test]
fn another_reader_reads_the_same() {
    let Some(output) = other_reader(&data("format-1.weir")) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let read: Vec<Tick> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let recording = Recording::open(&data("format-1.weir")).unwrap();
    assert_eq!(read.len(), 140);
    for (other, own) in read.iter().zip(recording.ticks(1)) {
        let own = own.unwrap();
        assert_eq!(other.observation, own.observation);
        assert_eq!((&other.plan, &other.outcomes), (&own.plan, &own.outcomes));
    }
}
