// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir calibrate` as a user meets it: on a machine of files, and, for the measurement itself, on this
//! machine's own node 0, which the files call memory without CPUs. The testbed compares the figures with
//! ground truth; here there is none.

use crate::world::{stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A machine with node 0 of this one as its only memory.
pub fn node0() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let node = dir.path().join("sys/devices/system/node");
    fs::create_dir_all(node.join("node0")).unwrap();
    for (name, text) in [
        ("has_memory", "0\n"),
        ("has_cpu", "\n"),
        ("online", "0\n"),
        ("node0/distance", "10\n"),
        (
            "node0/meminfo",
            "Node 0 MemTotal: 1048576 kB\nNode 0 MemFree: 1048576 kB\n",
        ),
    ] {
        fs::write(node.join(name), text).unwrap();
    }
    dir
}

fn weir(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("--root").arg(root).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn said(output: &Output, code: i32) -> String {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}{}", stdout(output));
    said
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_loaded() {
    let dir = node0();
    for (arguments, wanted) in [
        (&["--device", "cxl7"][..], "this machine has cxl0"),
        (&["--node", "3"], "its nodes are 0"),
        (&["--threads", "1000"], "too many"),
        (&["--memory", "1GiB"], "half"),
        (&["--memory", "1MiB"], "too few"),
        (&["--max-duration", "1ms"], "2s to 1h"),
        (&["--out", "/nowhere/at/all.toml"], "--out FILE"),
    ] {
        let mut all = vec!["calibrate"];
        all.extend(arguments);
        let said = said(&weir(dir.path(), &all).output().unwrap(), 2);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
    assert!(
        !dir.path()
            .join("var/lib/weir/devices/memory-only-nodes.toml")
            .exists()
    );
}

/// Why nothing can be measured here, if that is so.
fn lacking() -> Option<&'static str> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Some("two CPUs");
    }
    match weir_bench::Buffer::on_node(1, 0) {
        Err(_) => Some("leave to bind memory to node 0"),
        Ok(_) => None,
    }
}

#[test]
fn interrupted_it_reports_the_points_it_has() {
    if let Some(what) = lacking() {
        return eprintln!("SKIP interrupted_it_reports_the_points_it_has: {what}");
    }
    let dir = node0();
    let out = dir.path().join("profile.toml");
    let out_text = out.to_str().unwrap();
    let arguments = [
        "calibrate",
        "--json",
        "--max-duration",
        "5min",
        "--memory",
        "32MiB",
        "--threads",
        "1",
        "--out",
        out_text,
    ];
    let mut child = weir(dir.path(), &arguments).spawn().unwrap();
    // These are its first points.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let points = |line: &String| line.contains("ns  ±");
    let seen: Vec<String> = lines
        .by_ref()
        .map(Result::unwrap)
        .filter(points)
        .take(2)
        .collect();
    assert_eq!(seen.len(), 2, "it ended by itself");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut json = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut json)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let found: Value = serde_json::from_str(&json).unwrap();
    assert!(found["point"].as_array().unwrap().len() >= 2, "{found}");
    assert!(found["idle_latency_ns"].as_f64().unwrap() > 0.1);
    assert_eq!(
        (&found["complete"], &found["knee"]),
        (&Value::Bool(false), &Value::Null)
    );
    assert_eq!(
        (&found["bandwidth_from"], &found["node"]),
        (&"threads".into(), &0.into())
    );
    assert!(
        found["lacking"].as_str().unwrap().contains("no knee"),
        "{found}"
    );
    let kept = fs::read_to_string(&out).unwrap();
    assert!(
        kept.contains("schema_version = 1") && kept.contains("complete = false"),
        "{kept}"
    );
}
