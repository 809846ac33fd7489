// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first minute without hardware: is what `weir sim` records a recording like any other, and does the
//! screen show it? And does each command that needs CXL memory say so?

use crate::world::desk::{complaint, done, weir};
use crate::world::{World, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Records `step`, in which the load begins after five seconds. What is recorded as it is, is made once.
fn recorded(dir: &Path, more: &[&str]) -> String {
    static PLAIN: OnceLock<Vec<u8>> = OnceLock::new();
    let file = dir.join("demo.weir").to_str().unwrap().to_owned();
    let made = || done(&[&["sim", "step", "--record", &file], more].concat());
    if !more.is_empty() || Path::new(&file).exists() {
        made();
        return file;
    }
    let plain = PLAIN.get_or_init(|| {
        made();
        fs::read(&file).unwrap()
    });
    fs::write(&file, plain).unwrap();
    file
}

/// A recording of a run that ended before its first tick.
fn empty(dir: &Path) -> String {
    let start = weir_store::Start {
        started_unix_ms: 1,
        writer_version: "1".into(),
        writer_pid: 1,
        interval_ms: 50,
        policy: "max-min".into(),
        config: weir_core::Config::default(),
        description: weir_core::Description::default(),
    };
    let recorder = weir_store::Recorder::open(&dir.join("empty.weir"), &start).unwrap();
    let path = recorder.finish(2).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_simulated_recording_is_one_like_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &[]);
    let checked = done(&["replay", &file, "--check"]);
    assert!(
        checked.contains("each plan is the recorded one"),
        "{checked}"
    );
    let csv = done(&["export", &file]);
    assert!(csv.lines().count() > 100 && csv.contains("fio-5"), "{csv}");
    let lines = done(&["replay", &file]);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["limiting"], true);
    let info = done(&["record", &file, "--info"]);
    assert!(info.contains("limiting, policy max-min"), "{info}");
}

#[test]
fn recording_changes_no_figure_and_one_seed_gives_one_recording() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = dir.path().join("a.weir");
    let with = done(&["sim", "step", "--json", "--record", file.to_str().unwrap()]);
    assert_eq!(with, done(&["sim", "step", "--json"]));
    let again = recorded(other.path(), &[]);
    let rows = |file: &str| done(&["export", file, "--table", "devices"]);
    assert_eq!(rows(file.to_str().unwrap()), rows(&again));
}

#[test]
fn each_run_of_weir_is_a_session_later_than_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--backend", "none,cpu-max,sched-ext-full", "--seeds", "2"];
    let file = recorded(dir.path(), &more);
    recorded(dir.path(), &[]);
    let info: Value = serde_json::from_str(&done(&["record", &file, "--info", "--json"])).unwrap();
    let sessions = info["sessions"].as_array().unwrap();
    assert_eq!(
        sessions.len(),
        5,
        "two back ends with two seeds, and one more: {info}"
    );
    let of = |at: usize, key: &str| sessions[at][key].as_u64().unwrap();
    for at in 1..5 {
        assert!(
            of(at, "started_unix_ms") > of(at - 1, "ended_unix_ms"),
            "{info}"
        );
    }
}

#[test]
fn what_cannot_be_recorded_is_said_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("notes.txt");
    fs::write(&text, "mine").unwrap();
    let text = text.to_str().unwrap();
    let absent = dir.path().join("absent.weir");
    for (args, says) in [
        (&["sim", "step", "--record", text][..], "notes.txt"),
        (
            &[
                "sim",
                "step",
                "--backend",
                "none,thesis-cgroups",
                "--record",
                absent.to_str().unwrap(),
            ],
            "only runs of weir can be recorded",
        ),
        (
            &["sim", "step", "--top", "--backend", "none"],
            "only runs of weir",
        ),
        (&["sim", "step", "--top", "--check"], "--check"),
        (&["sim", "--list", "--record", text], "--record"),
    ] {
        let said = complaint(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
    assert_eq!(fs::read_to_string(text).unwrap(), "mine");
    assert!(!absent.exists());
}

#[test]
fn the_screen_without_a_terminal_is_a_table() {
    let table = done(&["sim", "step", "--top"]);
    assert!(
        table.starts_with("weir: limiting, policy max-min; simulated: 0:00:"),
        "{table}"
    );
    let readers = table
        .lines()
        .filter(|l| l.contains("/fio-") && l.contains("limited"));
    assert_eq!(readers.count(), 5, "{table}");
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &[]);
    let again = done(&["replay", &file, "--top"]);
    assert_eq!(again.replace("recorded:", "simulated:"), table);
}

#[test]
fn a_recorded_run_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &[]);
    let at = |time: &str| done(&["explain", "--recording", &file, "--at", time]);
    assert!(at("3s").contains("no workload is limited"), "{}", at("3s"));
    let page = at("8s");
    assert_eq!(page.matches("  limited to ").count(), 5, "{page}");
    assert!(
        page.contains("last changes") && page.contains("limited by max-min"),
        "{page}"
    );
    let one = done(&[
        "explain",
        "fio-2",
        "--recording",
        &file,
        "--json",
        "--changes",
        "1",
    ]);
    let explained: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(explained["workloads"].as_array().unwrap().len(), 1);
    assert_eq!(explained["changes"].as_array().unwrap().len(), 1);
    for (args, says) in [
        (&["explain", "--recording", "/dev/null"][..], "/dev/null"),
        (
            &["explain", "--recording", &empty(dir.path())],
            "no tick until then",
        ),
        (&["explain", "--at", "1s"], "--recording"),
        (
            &["explain", "nothing-like-it", "--recording", &file],
            "nothing-like-it",
        ),
    ] {
        let said = complaint(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn a_recorded_run_has_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &[]);
    let mut replay = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["replay", &file, "--metrics=127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut lines = BufReader::new(replay.stderr.take().unwrap());
    lines.read_line(&mut said).unwrap();
    let address = said
        .split("http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    // It is said when the first tick is there.
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    replay.kill().unwrap();
    replay.wait().unwrap();
    assert!(page.contains("\nweir_limiting 1\n"), "{page}");
    assert!(
        page.contains("weir_cxl_set_point_bytes_per_second{device=\"cxl0\"} 4294967296"),
        "{page}"
    );
}

#[test]
fn commands_that_need_cxl_memory_name_the_simulator() {
    let world = World::new();
    world.take_away("sys/class");
    fs::write(world.path("sys/devices/system/node/has_memory"), "0\n").unwrap();
    let file = world.path("new.weir");
    for args in [
        &["run"][..],
        &["run", "--limit", "--set-point", "1GiB/s"],
        &["record", file.to_str().unwrap()],
        &["top", "--once"],
        &["top"],
        &["calibrate"],
    ] {
        let output = world.weir(args);
        let said = stderr(&output);
        let code = if ["run", "record"].contains(&args[0]) {
            69
        } else {
            2
        };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("no CXL memory"), "{args:?}: {said}");
        assert!(said.contains("weir doctor"), "{args:?}: {said}");
        assert!(
            said.contains("`weir sim thesis-limit --top`"),
            "{args:?}: {said}"
        );
    }
    // And that works.
    done(&["sim", "thesis-limit", "--top"]);
}

#[test]
fn a_time_outside_of_the_recording_is_said_and_no_file_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &[]);
    let out = dir.path().join("a.csv");
    let out = out.to_str().unwrap();
    for (args, wanted) in [
        (
            &["--from", "1h"][..],
            "no row is later than --from: the recording ends at 2026-01-01T00:00:",
        ),
        (
            &["--from", "2026-01-02T00:00Z"],
            "no row is later than --from",
        ),
        (
            &["--to", "2025-12-31T23:00Z"],
            "no row is earlier than --to: the recording begins at 2026-01-01T00:00:00Z",
        ),
        (
            &["--from", "10s", "--to", "5s"],
            "--to is not later than --from",
        ),
        (&["--from", "22:00"], "2026-11-25T22:00+01:00"),
        (&["--from", "2026-01-01T00:00"], "the zone is missing"),
        (&["--session", "7"], "there is no session 7"),
    ] {
        let said = complaint(&[&["export", &file, "--out", out], args].concat());
        assert!(said.contains(wanted), "{args:?}: {said}");
        assert!(!Path::new(out).exists(), "{args:?}");
    }
}

#[test]
fn a_time_of_day_and_a_span_choose_the_same_rows() {
    let dir = tempfile::tempdir().unwrap();
    let more = ["--backend", "cpu-max,sched-ext-full"];
    let file = recorded(dir.path(), &more);
    let rows = |more: &[&str]| done(&[&["export", &file, "--table", "devices"], more].concat());
    let span = rows(&["--from", "5s", "--to", "10s"]);
    assert_eq!(span.lines().count(), 6, "{span}");
    let day = [
        "--from",
        "2026-01-01T01:00:05+01:00",
        "--to",
        "2026-01-01T00:00:10Z",
    ];
    assert_eq!(rows(&day), span);
    // In a later session spans count from its own beginning.
    let second = rows(&["--session", "2", "--from", "5s", "--to", "10s"]);
    assert_eq!(second.lines().count(), 6, "{second}");
    assert_ne!(second, span);
}

#[test]
fn an_export_says_that_it_has_no_row_and_overwrites_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = empty(dir.path());
    let output = weir(&["export", &file]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("no row to export"),
        "{}",
        stderr(&output)
    );
    let there = dir.path().join("there");
    fs::write(&there, "mine").unwrap();
    let name = there.to_str().unwrap();
    for flag in ["--out", "--recover"] {
        let said = complaint(&["export", &file, flag, name]);
        assert!(
            said.contains("there exists: give another name, or delete it"),
            "{said}"
        );
        assert_eq!(fs::read_to_string(&there).unwrap(), "mine");
    }
}

#[test]
fn a_recording_is_explained_by_session_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &["--backend", "cpu-max,sched-ext-full"]);
    let explain = |more: &[&str]| weir(&[&["explain", "--recording", &file], more].concat());
    let of = |more: &[&str]| stdout(&explain(more));
    assert_eq!(
        of(&["--at", "8s"]),
        of(&["--session", "2", "--at", "8s"]),
        "the last"
    );
    let first = of(&["--session", "1", "--at", "8s"]);
    assert_ne!(first, of(&["--at", "8s"]), "another back end");
    let wall = of(&["--session", "1", "--at", "2026-01-01T00:00:08Z"]);
    assert_eq!(wall, first);
    let late = explain(&["--at", "10min"]);
    assert_eq!(late.status.code(), Some(0));
    assert!(
        stderr(&late).contains("this is its end, "),
        "{}",
        stderr(&late)
    );
    assert_eq!(stdout(&late), of(&[]));
    assert!(stderr(&explain(&["--at", "8s"])).is_empty());
    let said = complaint(&["explain", "--recording", &file, "--session", "9"]);
    assert!(said.contains("there is no session 9"), "{said}");
}

#[test]
fn an_overload_without_limits_can_be_recorded_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let file = recorded(dir.path(), &["--observe"]);
    let page = done(&["explain", "--recording", &file]);
    assert!(
        page.contains("weir observes only\nwith --limit, 5 of 5 workloads would be limited"),
        "{page}"
    );
    let last = done(&["replay", &file]);
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(last["limiting"], false);
    assert!(!last.to_string().contains("\"limit_cpus\":0."), "{last}");
    let one = done(&["explain", "fio-2", "--recording", &file]);
    assert!(
        one.contains("the device moves more than its set-point, so accesses may wait: "),
        "{one}"
    );
    let said = complaint(&["sim", "step", "--observe"]);
    assert!(said.contains("--record"), "{said}");
}
