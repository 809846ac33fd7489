// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir verify-hardware` as a user meets it: on a machine of files and on an empty one. The testbed compares
//! its figures with ground truth.

use crate::world::desk::Desk;
use crate::world::{World, stderr, stdout};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn document(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn it_runs_to_its_end_and_gives_a_reason_for_each_row_that_it_did_not_measure() {
    let world = World::new();
    let file = Desk::new();
    let file = file.text("kit.json");
    let output = world.weir(&["verify-hardware", "--no-load", "--out", &file]);
    let (page, said) = (stdout(&output), stderr(&output));
    let seen = document(&file);
    let rows = seen["rows"].as_array().unwrap();
    assert!(rows.len() >= 12, "{seen}");
    for row in rows {
        let (verdict, why) = (row["verdict"].as_str().unwrap(), &row["why"]);
        match verdict {
            "not_measured" => assert!(why.as_str().is_some_and(|w| w.len() > 5), "{row}"),
            _ => assert!(row["figure"]["value"].is_f64(), "{row}"),
        }
        assert!(
            row["promise"]["quote"]
                .as_str()
                .is_some_and(|q| !q.is_empty())
        );
        assert!(page.contains(row["name"].as_str().unwrap()), "{page}");
    }
    assert_eq!(row(&seen, "devices-counted")["verdict"], "met", "{seen}");
    for name in [
        "known-lines",
        "knee",
        "lease-restored",
        "cpu-max-holds",
        "scheduler-loads",
    ] {
        let why = row(&seen, name)["why"].as_str().unwrap();
        assert!(why.contains("--no-load"), "{name}: {why}");
    }
    let missed = seen["missed"].as_u64().unwrap();
    let code = i32::from(missed > 0);
    assert_eq!(output.status.code(), Some(code), "{page}{said}");
    assert!(seen["features_without_check"].as_array().unwrap().len() > 5);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn an_empty_machine_has_no_missed_promise() {
    let desk = Desk::new();
    let root = tempfile::tempdir().unwrap();
    let file = desk.text("kit.json");
    let output = weir(root.path(), &["verify-hardware", "--yes", "--out", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let seen = document(&file);
    assert_eq!(seen["missed"], 0, "{seen}");
    assert!(
        row(&seen, "knee")["why"]
            .as_str()
            .is_some_and(|w| w.contains("CXL memory"))
    );
    // A second run would take the first one's place.
    let again = weir(
        root.path(),
        &["verify-hardware", "--no-load", "--out", &file],
    );
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("--out FILE"));
}

fn weir(root: &Path, args: &[&str]) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("--root").arg(root).args(args);
    command.stdin(std::process::Stdio::null());
    command.output().unwrap()
}

#[test]
fn names_are_left_out_unless_they_are_wanted() {
    let secret = "/system.slice/secret-customer.service";
    let world = World::on_disk(&[secret]);
    // A path of that cgroup in the reasons of facts.
    world.write(&format!("sys/fs/cgroup{secret}/cgroup.type"), "threaded\n");
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let desk = Desk::new();
    for (flags, has_names) in [
        (&["--no-load"][..], false),
        (&["--no-load", "--with-names"], true),
    ] {
        let file = desk.text(&format!("kit-{has_names}.json"));
        let output = world.weir(&[&["verify-hardware", "--out", &file], flags].concat());
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{}",
            stderr(&output)
        );
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(document(&file)["has_names"], has_names);
        // The root of a machine of files is a path that is no part of a system.
        let root = world.path("").to_string_lossy().into_owned();
        assert_eq!(
            text.contains(root.trim_end_matches('/')),
            has_names,
            "{text}"
        );
        if !has_names {
            assert!(!text.contains("secret-customer"), "{text}");
            assert!(host.len() < 3 || !text.contains(&host), "{text}");
        }
    }
}

#[test]
fn a_check_that_does_not_exist_is_named_with_those_that_do() {
    let world = World::new();
    let output = world.weir(&["verify-hardware", "--check", "known-line"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("did you mean `known-lines`") && said.contains("knee"),
        "{said}"
    );
    let output = world.weir(&["verify-hardware", "--yes", "--no-load"]);
    assert_eq!(output.status.code(), Some(2));
}
