// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a recording is said by each command that reads it, and an export is whole or not there.

use crate::world::desk::{Desk, complaint, done, weir};
use crate::world::{World, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

/// A simulated recording of six minutes, a tick a second. It is made once.
fn record(file: &str) {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        record_session(file);
        fs::read(file).unwrap()
    });
    fs::write(file, made).unwrap();
}

/// A second one of the same file is its second session.
fn record_session(file: &str) {
    let scenario = done(&["sim", "thesis-idle", "--print"]);
    let longer = scenario
        .replace("settle_sec = 20.0", "settle_sec = 0.0\ninterval_ms = 1000")
        .replace("measure_sec = 35.0", "measure_sec = 360.0");
    let path = format!("{file}.toml");
    fs::write(&path, longer).unwrap();
    done(&["sim", &path, "--backend", "cpu-max", "--record", file]);
}

/// Overwrites eight bytes in the middle of the document of a tick.
fn harm(file: &str, tick: i64) {
    let database = rusqlite::Connection::open(file).unwrap();
    let get = "SELECT document FROM tick WHERE id = ?";
    let mut document: Vec<u8> = database.query_one(get, [tick], |row| row.get(0)).unwrap();
    let middle = document.len() / 2;
    for byte in &mut document[middle..middle + 8] {
        *byte ^= 0x55;
    }
    let put = "UPDATE tick SET document = ? WHERE id = ?";
    database
        .execute(put, rusqlite::params![document, tick])
        .unwrap();
}

#[test]
fn bytes_that_changed_are_named_by_each_command() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    record(&file);
    assert!(!done(&["record", &file, "--info"]).contains("damaged"));
    harm(&file, 100);
    let named = "tick 100: its checksum differs";
    let output = weir(&["replay", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(named), "{}", stderr(&output));
    // Up to the next tick that needs none before it nothing is shown.
    let shown = stdout(&output);
    let seqs = shown.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["plan"]["seq"].as_u64().unwrap()
    });
    let seqs: Vec<u64> = seqs.collect();
    assert!(!seqs.iter().any(|seq| (99..128).contains(seq)), "{seqs:?}");
    assert!(seqs.contains(&98) && seqs.contains(&128), "{seqs:?}");
    let output = weir(&["replay", &file, "--check", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["sessions"][0]["damaged_places"], 1, "{found}");
    let output = weir(&["record", &file, "--info"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stdout(&output);
    assert!(said.contains(named) && said.contains("--recover"), "{said}");
    let output = weir(&["record", &file, "--info", "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["sessions"][0]["damage"]["places"], 1, "{found}");
    let new = desk.text("b.weir");
    let output = weir(&["export", &file, "--recover", &new]);
    assert_eq!(output.status.code(), Some(1));
    let said = stdout(&output);
    assert!(said.contains("29 ticks are lost in the middle"), "{said}");
    assert!(said.contains("1 rows were not what was written"), "{said}");
    assert!(done(&["record", &new, "--info"]).contains("29 ticks were lost"));
}

#[test]
fn figures_that_changed_are_not_exported() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    record(&file);
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch("UPDATE workload_figures SET cpu_microcpus = 1 WHERE span = 100")
        .unwrap();
    let output = weir(&["export", &file]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("span 100: its checksum differs"), "{said}");
    let out = desk.text("a.csv");
    let said = complaint(&["export", &file, "--out", &out]);
    assert!(said.contains("a.csv is not made"), "{said}");
    assert!(!desk.path("a.csv").exists(), "a part of it is left");
    assert_eq!(weir(&["record", &file, "--info"]).status.code(), Some(2));
    // Figures that are not what was written are made anew from the ticks.
    let new = desk.text("b.weir");
    assert_eq!(
        weir(&["export", &file, "--recover", &new]).status.code(),
        Some(1)
    );
    let rows = done(&["export", &new]).lines().count();
    assert!(rows > 6 * 350, "{rows} rows");
}

/// Two sessions, and the end cut off.
#[test]
fn several_sessions_are_recovered_up_to_a_cut() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    record(&file);
    record_session(&file);
    let info: Value = serde_json::from_str(&done(&["record", &file, "--info", "--json"])).unwrap();
    let count = |session: usize| info["sessions"][session]["ticks"].as_u64().unwrap();
    let whole = count(0) + count(1);
    let bytes = fs::read(&file).unwrap();
    let mut decided = 0;
    for percent in [99, 90, 60, 30] {
        let cut = desk.text("cut.weir");
        fs::write(&cut, &bytes[..bytes.len() * percent / 100]).unwrap();
        let said = complaint(&["record", &cut, "--info"]);
        assert!(said.contains("cut off"), "{said}");
        let new = desk.text(&format!("{percent}.weir"));
        let output = weir(&["export", &cut, "--recover", &new, "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let ticks = found["ticks"].as_u64().unwrap();
        // The first pages are tables and texts.
        assert!(ticks + whole / 6 > whole * percent as u64 / 100, "{found}");
        assert_eq!(found["sessions_without_settings"], 0, "{found}");
        // Without a hole it decides as it did: settings and machine are there.
        if found["lost_ticks"] == 0 {
            done(&["replay", &new, "--check"]);
            decided += 1;
        }
    }
    assert!(decided >= 2, "{decided}");
}

#[test]
fn an_export_that_failed_leaves_no_file() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    record(&file);
    for format in ["csv", "jsonl", "influx", "parquet"] {
        let out = desk.path(&format!("a.{format}"));
        // Files of at most 1 KiB; writing more is an error and no signal.
        let line = format!(
            "trap '' XFSZ; ulimit -f 1; exec {} export {file} --format {format} --out {}",
            env!("CARGO_BIN_EXE_weir"),
            out.display()
        );
        let output = Command::new("bash").args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{format}");
        let said = stderr(&output);
        assert!(said.contains("is not made"), "{format}: {said}");
        assert!(!out.exists(), "{format}: it is left");
        let out = out.to_str().unwrap();
        done(&["export", &file, "--format", format, "--out", out]);
    }
}

#[test]
fn an_export_can_say_what_it_wrote() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    record(&file);
    let out = desk.text("a.csv");
    let said: Value =
        serde_json::from_str(&done(&["export", &file, "--out", &out, "--json"])).unwrap();
    let lines = fs::read_to_string(&out).unwrap().lines().count();
    assert_eq!(said["rows"].as_u64().unwrap() + 1, lines as u64, "{said}");
    assert_eq!(said["bytes"], fs::metadata(&out).unwrap().len());
    let rows = done(&["export", &file, "--json"]);
    assert_eq!(rows, done(&["export", &file, "--format", "jsonl"]));
    let said = complaint(&["export", &file, "--json", "--format", "csv"]);
    assert!(said.contains("--out"), "{said}");
    assert_eq!(done(&["replay", &file, "--json"]), done(&["replay", &file]));
    let checked = done(&["replay", &file, "--check", "--json"]);
    let checked: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(checked["sessions"][0]["plans_that_differ"], 0, "{checked}");
}

/// Each line is as full as it can be: a paragraph that was wrapped twice has short lines in it.
#[test]
fn help_is_wrapped_once() {
    for command in ["record", "replay", "export"] {
        for width in ["60", "80", "100"] {
            let output = Command::new(env!("CARGO_BIN_EXE_weir"))
                .args([command, "--help"])
                .env("COLUMNS", width)
                .output()
                .unwrap();
            let help = stdout(&output);
            let from = help.find("Examples:").unwrap();
            let lines: Vec<&str> = help[from..].lines().collect();
            for pair in lines.windows(2) {
                let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
                if !is_text(pair[0]) || !is_text(pair[1]) || pair[0].ends_with(':') {
                    continue;
                }
                let word = pair[1].split(' ').next().unwrap();
                let fits = pair[0].len() + 1 + word.len() <= width.parse::<usize>().unwrap();
                assert!(
                    !fits,
                    "{command}, {width} columns:\n{}\n{}",
                    pair[0], pair[1]
                );
            }
        }
    }
}

/// Times are those of the observations: rows neither overlap nor leave holes, however long it took to limit.
#[test]
fn rows_of_a_run_follow_each_other() {
    let desk = Desk::new();
    let file = desk.text("a.weir");
    let world = World::new();
    let limit = ["record", &file, "--limit", "--set-point", "300MiB/s"];
    let args = [&limit[..], &["--interval", "20ms"]].concat();
    world.weir_for_ticks(150, &args);
    let rows = done(&["export", &file, "--table", "devices", "--json"]);
    let rows: Vec<(u64, u64)> = rows
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let get = |name: &str| row[name].as_u64().unwrap();
            (get("end_unix_ms"), get("span_ns"))
        })
        .collect();
    assert!(rows.len() > 2, "{rows:?}");
    for pair in rows.windows(2) {
        let between = pair[1].0 - pair[0].0;
        assert!(between.abs_diff(pair[1].1 / 1_000_000) <= 1, "{rows:?}");
    }
}

/// It is another one by its head alone.
#[test]
fn commands_say_which_format_a_recording_has_and_which_this_weir_reads() {
    let desk = Desk::new();
    let file = desk.text("other.weir");
    done(&["sim", "step", "--record", &file]);
    let mut bytes = fs::read(&file).unwrap();
    bytes[60..64].copy_from_slice(&7u32.to_be_bytes());
    fs::write(&file, &bytes).unwrap();
    let wanted = format!(
        "{file} is a recording of format 7, and this weir reads format 2: use the weir that wrote it"
    );
    let new = desk.text("new.weir");
    for args in [
        &["replay", &file][..],
        &["replay", &file, "--top"],
        &["replay", &file, "--check"],
        &["replay", &file, "--metrics=127.0.0.1:0"],
        &["explain", "--recording", &file],
        &["record", &file, "--info"],
        &["sim", "step", "--record", &file],
        &["export", &file],
        &["export", &file, "--recover", &new],
    ] {
        let said = complaint(args);
        assert!(said.contains(&wanted), "{args:?}: {said}");
    }
    let world = World::new();
    let output = world.weir(&["record", &file, "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(&wanted), "{}", stderr(&output));
    assert!(fs::read(&file).unwrap() == bytes, "it was changed");
    assert!(!desk.path("new.weir").exists());
}
