// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench interference` as a user meets it, on this machine: that it counts, ends, and leaves nothing
//! behind. How fast anything was is not looked at.

use crate::world::{stderr, stdout, wait};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Flags of a run that is over soon.
const SHORT: [&str; 8] = [
    "--force",
    "--json",
    "--seconds",
    "0.01",
    "--repeats",
    "2",
    "--memory",
    "4MiB",
];

fn weir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["bench", "interference"]).args(args);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn said(args: &[&str]) -> String {
    let output = weir(args).output().unwrap();
    let said = stderr(&output);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{args:?}: {said}{}",
        stdout(&output)
    );
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// The result, or nothing where this machine cannot.
fn result(output: &Output) -> Option<Value> {
    let said = stderr(output);
    for lacking in [
        "CPU is too few",
        "cannot bind them",
        "too few for",
        "cannot be bound",
    ] {
        if said.contains(lacking) {
            eprintln!("SKIP interference: {said}");
            return None;
        }
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn measured(args: &[&str]) -> Option<Value> {
    let all: Vec<&str> = SHORT.iter().chain(args).copied().collect();
    result(&weir(&all).output().unwrap())
}

/// A figure that is above 0; or nothing was moved in so short a time, and the cell says why it is null.
fn check_figure(cell: &Value, part: &str, name: &str) {
    let reason = &cell["missing"][format!("{part}.{name}")];
    match cell[part][name].as_f64() {
        Some(figure) => assert!(figure > 0.0, "{part}.{name}: {cell}"),
        None => assert!(reason.is_string(), "{part}.{name} has no reason: {cell}"),
    }
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().count() == 0
}

#[test]
fn what_is_wrong_is_named_before_anything_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (fifo, file, link) = (at("fifo"), at("file"), at("link"));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    fs::write(&file, "theirs").unwrap();
    std::os::unix::fs::symlink("/nowhere", &link).unwrap();
    for (args, wanted) in [
        (&["--pair", "mmem:ld"][..], "two streams"),
        (&["--pair", "mmem:ld:4000+mmem:st"], "TARGET:OP"),
        (&["--ops", "ld,shout"], "rep-movsb"),
        (&["--width", "24"], "8, 16, 32 or 64"),
        (&["--seconds", "-1"], "0.01 to 3600"),
        (&["--victim-run", "true"], "--figure"),
        (&["--victim-run", "true", "--figure", "("], "--figure"),
        (&["--node", "cxl=999"], "no such node"),
        (&["--ssd", &fifo], "a FIFO"),
        (&["--ssd", &file], "overwrites no file"),
        (&["--ssd", &link], "a link to nothing"),
        (&["--ssd", "/dev/null"], "a character device"),
        (&["--ssd", "/nowhere/x"], "no directory /nowhere"),
        (
            &[
                "--ssd",
                dir.path().to_str().unwrap(),
                "--ssd-size",
                "900000TiB",
            ],
            "--ssd-size",
        ),
        (&["--out", &file], "--out"),
        (&["--memory", "900000TiB"], "--memory"),
        (&["--block", "1000"], "multiples of 512"),
        (&["--block", "1GiB", "--depth", "1024"], "in flight"),
        (&["--io-node", "999"], "--io-node 999"),
        (&["--threads", "1000"], "--threads"),
    ] {
        let said = said(args);
        let is_lacking = said.contains("CPU is too few");
        assert!(said.contains(wanted) || is_lacking, "{args:?}: {said}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
}

#[test]
fn a_pair_gives_two_cells_and_says_what_this_machine_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let args = [
        "--pair",
        "mmem:ld:1+mmem:st:1",
        "--out",
        out.to_str().unwrap(),
    ];
    let Some(result) = measured(&args) else {
        return;
    };
    assert_eq!(result["kind"], "weir-interference");
    assert_eq!(result["world"], "machine");
    let cells = result["cells"].as_array().unwrap();
    let ops: Vec<_> = cells
        .iter()
        .map(|cell| cell["victim"]["op"].as_str().unwrap())
        .collect();
    assert_eq!(ops, ["ld", "st"]);
    for cell in cells {
        for part in ["alone", "together"] {
            check_figure(cell, part, "bytes_per_sec");
        }
        assert!(cell["repeats"].as_u64() <= Some(2), "{cell}");
        assert!(cell["ratio_low"].as_f64() <= cell["ratio"].as_f64());
        assert!(cell["missing"]["counters.admission_wait_ns"].is_string());
    }
    assert!(result["machine"]["facts"]["kernel"].is_string());
    let written: Value =
        serde_json::from_slice(&fs::read(out.join("result.json")).unwrap()).unwrap();
    assert_eq!(written, result);
    assert!(out.join("index.html").is_file());
}

#[test]
fn storage_beside_memory_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let ssd = dir.path().to_str().unwrap();
    let args = [
        "--ssd",
        ssd,
        "--ssd-size",
        "4MiB",
        "--ssd-io",
        "buffered",
        "--ops",
        "ntst,randread,write",
    ];
    let Some(result) = measured(&args) else {
        return;
    };
    assert!(is_empty(dir.path()));
    let cells = result["cells"].as_array().unwrap();
    let io = cells
        .iter()
        .find(|cell| cell["victim"]["op"] == "randread")
        .unwrap();
    assert_eq!(io["victim"]["direct"], false);
    assert_eq!(io["victim"]["block_bytes"], 4096);
    for figure in [
        "bytes_per_sec",
        "ops_per_sec",
        "latency_ns",
        "cpu_ns_per_op",
    ] {
        check_figure(io, "alone", figure);
    }
    let (bytes, ops) = (&io["alone"]["bytes_per_sec"], &io["alone"]["ops_per_sec"]);
    if let (Some(bytes), Some(ops)) = (bytes.as_f64(), ops.as_f64()) {
        assert!((bytes / ops - 4096.0).abs() < 0.01, "{io}");
    }
}

#[test]
fn a_program_is_judged_by_its_figure() {
    let args = [
        "--victim-run",
        "echo rate: 1,250 per second",
        "--figure",
        "rate: ([0-9,]+)",
        "--ops",
        "ld",
    ];
    let Some(result) = measured(&args) else {
        return;
    };
    let cells = result["cells"].as_array().unwrap();
    let program = cells
        .iter()
        .find(|cell| cell["victim"]["target"] == "program")
        .unwrap();
    assert_eq!(
        program["alone"]["ops_per_sec"].as_f64().unwrap().round(),
        1250.0
    );
    assert!((program["ratio"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    // The stream beside it is a victim, too.
    assert_eq!(cells.len(), 2);
    let all: Vec<&str> = SHORT
        .iter()
        .chain(&[
            "--victim-run",
            "echo nothing",
            "--figure",
            "rate",
            "--ops",
            "ld",
        ])
        .copied()
        .collect();
    let output = weir(&all).output().unwrap();
    assert!(stderr(&output).contains("matches nothing") || stderr(&output).contains("too few"));
}

/// A run that is stopped once its stderr has said so.
fn stopped_after(
    args: &[&str],
    wanted: &str,
    until: &mut dyn FnMut() -> bool,
) -> (Option<i32>, String) {
    let mut child: Child = weir(args).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(wanted) && lines.read_line(&mut said).unwrap() > 0 {}
    if said.contains(wanted) {
        wait("the moment to stop", until);
    }
    let pid = rustix::process::Pid::from_child(&child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    lines.read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_signal_ends_programs_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (ssd, told) = (dir.path().join("ssd"), dir.path().join("pid"));
    fs::create_dir(&ssd).unwrap();
    let command = format!("echo $$ > {}; sleep 10000", told.display());
    let (code, text) = stopped_after(
        &[
            "--force",
            "--memory",
            "4MiB",
            "--ssd",
            ssd.to_str().unwrap(),
            "--ssd-size",
            "4MiB",
            "--ssd-io",
            "buffered",
            "--ops",
            "randread",
            "--victim-run",
            &command,
            "--figure",
            "x",
        ],
        "without a name",
        &mut || fs::read_to_string(&told).is_ok_and(|text| text.ends_with('\n')),
    );
    assert_eq!(code, Some(2), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    let is_lacking = text.contains("CPU is too few") || text.contains("cannot be bound");
    assert!(told.exists() || is_lacking, "{text}");
    assert!(is_empty(&ssd));
    let Ok(pid) = fs::read_to_string(&told) else {
        return eprintln!("SKIP programs: {text}");
    };
    assert!(
        !Path::new("/proc").join(pid.trim()).exists(),
        "{pid} runs on"
    );
}

#[test]
fn on_one_cpu_it_says_what_it_needs() {
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = Command::new("taskset");
    command.args(["-c", "0", weir, "bench", "interference", "--quick"]);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return eprintln!("SKIP one CPU: taskset is not installed");
    };
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("1 CPU is too few") || said.contains("taskset"),
        "{said}"
    );
}
