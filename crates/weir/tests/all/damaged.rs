// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of files that are no recordings, of recordings that were harmed, and on full disks?

use crate::world::desk::{Desk, as_kept, complaint, done};
use crate::world::{Daemon, World, stderr};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn what_is_no_recording_is_left_as_it_is() {
    let desk = Desk::new();
    let world = World::new();
    let text = desk.path("notes.txt");
    fs::write(
        &text,
        "keep me, I am as long as the head of a database: one hundred bytes, and then some more\n"
            .repeat(3),
    )
    .unwrap();
    let empty = desk.path("empty");
    fs::write(&empty, "").unwrap();
    let link = desk.path("link.weir");
    std::os::unix::fs::symlink(&text, &link).unwrap();
    let dangling = desk.path("dangling.weir");
    std::os::unix::fs::symlink(desk.path("made"), &dangling).unwrap();
    let foreign = desk.path("foreign.db");
    let sqlite = |sql: &str| {
        rusqlite::Connection::open(&foreign)
            .unwrap()
            .execute_batch(sql)
            .unwrap()
    };
    sqlite("CREATE TABLE precious (x); INSERT INTO precious VALUES (1)");
    let before = fs::read(&foreign).unwrap();
    for (path, why) in [
        (&text, "it is no database"),
        (&empty, "it is empty"),
        (&link, "symbolic link"),
        (&dangling, "symbolic link"),
        (&foreign, "a database of something else"),
        (&desk.0.path().to_owned(), "not a regular file"),
    ] {
        let name = path.to_str().unwrap();
        let output = world.weir(&["run", "--duration", "1s", "--record", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        let said = complaint(&["replay", name]);
        assert!(said.contains(why), "{said}");
    }
    assert!(fs::read_to_string(&text).unwrap().starts_with("keep me"));
    assert_eq!(fs::read(&foreign).unwrap(), before);
    assert!(!desk.path("made").exists());
    assert!(complaint(&["export", "/nonexistent/x.weir"]).contains("/nonexistent"));
}

#[test]
fn companions_without_a_recording_are_refused() {
    let desk = Desk::new();
    let world = World::new();
    fs::write(desk.path("a.weir-wal"), "of another program").unwrap();
    let output = world.weir(&["record", &desk.text("a.weir"), "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("a.weir-wal"),
        "{}",
        stderr(&output)
    );
    assert!(!desk.path("a.weir").exists());
}

/// A shell with a limit: its children may write files of at most 400 KiB, and get an error, not a signal.
fn with_little_disk(world: &World, args: &str) -> Daemon {
    let root = world.path("");
    let line = format!(
        "trap '' XFSZ; ulimit -f 400; exec {} --root {} {args}",
        env!("CARGO_BIN_EXE_weir"),
        root.display()
    );
    let mut command = Command::new("bash");
    let command = command.args(["-c", &line]).stdin(Stdio::null());
    Daemon::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

#[test]
fn a_full_disk_ends_a_recording_and_not_a_run() {
    let desk = Desk::new();
    let world = World::new();
    let file = desk.text("a.weir");
    let ended = with_little_disk(&world, &format!("record {file} --interval 5ms")).end();
    assert_eq!(ended.code, Some(74), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the recording cannot be written"),
        "{}",
        ended.stderr
    );
    let kept = done(&["replay", &file]).lines().count();
    assert!(kept > 50, "{kept} ticks were kept");
    let file = desk.text("b.weir");
    let args = format!("run --record {file} --interval 5ms --json");
    let daemon = with_little_disk(&world, &args);
    world.wait_for_ticks(1500);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let said = ended.stderr;
    assert!(
        said.contains("cannot write") && said.contains("the loop goes on"),
        "{said}"
    );
    let printed = ended.stdout;
    let printed: Vec<Value> = printed.lines().map(as_kept).collect();
    let kept = done(&["replay", &file]);
    let kept: Vec<Value> = kept.lines().map(as_kept).collect();
    assert!(
        kept.len() > 50 && kept.len() < printed.len(),
        "{} of {}",
        kept.len(),
        printed.len()
    );
    assert!(
        kept == printed[..kept.len()],
        "what was kept is not what was printed"
    );
}
