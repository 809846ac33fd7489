// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir bench interference` as a user meets it, on this machine: that it counts, ends, and leaves nothing
//! behind. How fast anything was is not looked at: on a busy machine a stream may get no CPU within its span,
//! and its figure is 0. That streams move what they count is tested in weir-bench, without a span.

use crate::world::{stderr, stdout, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
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

/// Counts are there, also of a stream that got no CPU.
fn check_counts(cell: &Value, names: &[&str]) {
    for part in ["alone", "together"] {
        for name in names {
            let figure = cell[part][name].as_f64();
            assert!(figure.is_some_and(|f| f >= 0.0), "{part}.{name}: {cell}");
        }
    }
}

/// Each null of a cell has its reason, and nothing that is there has one.
fn check_reasons(cell: &Value) {
    let mut nulls = BTreeSet::new();
    for (name, value) in cell.as_object().unwrap() {
        let inner = value.as_object().into_iter().flatten();
        let inner = inner.filter(|(_, inner)| inner.is_null());
        nulls.extend(inner.map(|(part, _)| format!("{name}.{part}")));
        nulls.extend(value.is_null().then(|| name.clone()));
    }
    // Of a memory access; it is left out where there is none.
    for side in ["victim", "background"] {
        let is_there = cell[side]["width_bytes"].is_number();
        nulls.extend((!is_there).then(|| format!("{side}.width_bytes")));
    }
    let reasons = cell["missing"].as_object().unwrap();
    let named: BTreeSet<String> = reasons.keys().cloned().collect();
    assert_eq!(nulls, named, "{cell}");
    assert!(
        reasons.values().all(|why| why.as_str() > Some("")),
        "{cell}"
    );
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
        check_counts(cell, &["bytes_per_sec"]);
        check_reasons(cell);
        // Of one placement there are two at most. Two placements can turn out to be one, and then all count.
        assert!(cell["repeats"].as_u64() <= Some(3 * 2), "{cell}");
        assert!(cell["ratio_low"].as_f64() <= cell["ratio"].as_f64());
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
    check_counts(io, &["bytes_per_sec", "ops_per_sec"]);
    cells.iter().for_each(check_reasons);
    for part in ["alone", "together"] {
        let of = |name: &str| io[part][name].as_f64().unwrap();
        let (bytes, ops) = (of("bytes_per_sec"), of("ops_per_sec"));
        assert!((bytes - 4096.0 * ops).abs() <= 1e-6 * bytes, "{io}");
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
    cells.iter().for_each(check_reasons);
    let program = cells
        .iter()
        .find(|cell| cell["victim"]["target"] == "program")
        .unwrap();
    assert_eq!(
        program["alone"]["ops_per_sec"].as_f64().unwrap().round(),
        1250.0
    );
    // One repetition has no ratio: the host may have moved the CPUs before the other.
    match program["ratio"].as_f64() {
        Some(ratio) => assert!((ratio - 1.0).abs() < 1e-9, "{program}"),
        None => assert_eq!(
            program["missing"]["ratio"], "1 whole repetitions are too few for an interval",
            "{program}"
        ),
    }
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

/// A run that gets a signal once its stderr has said so.
fn stopped_after(
    signal: Signal,
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
    let _ = rustix::process::kill_process(pid, signal);
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
        Signal::TERM,
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
fn programs_end_with_a_weir_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let told = dir.path().join("pids");
    let command = format!("sleep 10000 & echo $$ $! > {}; wait", told.display());
    let args = ["--ops", "ld", "--victim-run", &command, "--figure", "x"];
    let all: Vec<&str> = SHORT.iter().chain(&args).copied().collect();
    let read = || fs::read_to_string(&told).unwrap_or_default();
    let (code, text) = stopped_after(Signal::KILL, &all, "mmem node", &mut || {
        read().ends_with('\n')
    });
    if !told.exists() {
        assert!(
            text.contains("CPU is too few") || text.contains("cannot be bound"),
            "{text}"
        );
        return eprintln!("SKIP programs: {text}");
    }
    assert_eq!(code, None, "{text}");
    for pid in read().split_whitespace() {
        let stat = Path::new("/proc").join(pid).join("stat");
        // A zombie has ended: here it may have no parent that asks for it.
        let mut has_ended = || fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        wait("the end of the program", &mut has_ended);
    }
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
