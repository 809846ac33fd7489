// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile record` over the kernel's perf, on a made machine whose events all count CPU time: the
//! fields of its PMU lie where the kernel's clock of a CPU reads nothing.

use crate::desk::said;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Command, Output};

pub struct Host(tempfile::TempDir);

impl Host {
    /// A machine whose CPU has a table of events, and no PMU.
    fn bare() -> Host {
        let host = Host(tempfile::tempdir().unwrap());
        let cpu = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n";
        host.write("proc/cpuinfo", cpu);
        host.write("sys/devices/system/cpu/online", "0\n");
        host.write("sys/bus/event_source/devices/software/type", "1\n");
        host
    }

    pub fn counting() -> Host {
        let host = Host::bare();
        let dir = "sys/bus/event_source/devices/cpu";
        host.write(&format!("{dir}/type"), "1\n");
        for (field, format) in [
            ("event", "config3:0-7"),
            ("umask", "config3:8-15"),
            ("cmask", "config3:24-31"),
            ("offcore_rsp", "config2:0-63"),
        ] {
            host.write(&format!("{dir}/format/{field}"), format);
        }
        host
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("--root").arg(self.0.path()).arg("profile");
        command.args(arguments).output().unwrap()
    }

    /// What a command's recording says and writes, or nothing and the reason where none may count.
    fn recorded(&self, arguments: &[&str]) -> Option<(Output, Vec<Value>)> {
        let output = self.weir(&[&["record"], arguments].concat());
        if said(&output).contains("not permitted") {
            let _ = writeln!(std::io::stderr(), "SKIP software events: {}", said(&output));
            return None;
        }
        let exported = self.weir(&["export", &self.path("x.windows")]);
        assert_eq!(exported.status.code(), Some(0), "{}", said(&exported));
        let text = String::from_utf8(exported.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        Some((output, lines.collect()))
    }
}

fn value<'a>(counts: &'a Value, role: &str) -> &'a Value {
    let mut all = counts.as_array().unwrap().iter();
    all.find(|count| count["role"] == role).unwrap()
}

#[test]
fn a_machine_without_a_pmu_is_refused_and_leaves_no_file() {
    let host = Host::bare();
    let file = host.path("x.windows");
    let none = host.weir(&["record", &file]);
    assert_eq!(none.status.code(), Some(2));
    assert!(
        said(&none).contains("nothing can be counted here: not supported: no PMU"),
        "{}",
        said(&none)
    );
    assert!(!fs::exists(&file).unwrap());
}

#[test]
fn what_cannot_be_is_said_before_anything_starts() {
    let host = Host::counting();
    let (file, mark) = (host.path("x.windows"), host.path("mark"));
    host.write("taken.windows", "mine");
    let taken = host.path("taken.windows");
    for (arguments, code, words) in [
        (
            vec![taken.as_str(), "--", "touch", &mark],
            2,
            "exists: name a new file",
        ),
        (
            vec![&file, "--", "no-such-program"],
            127,
            "no such program, and none in PATH",
        ),
        (
            vec![&file, "--", "/etc/passwd"],
            127,
            "\"/etc/passwd\": Permission denied",
        ),
        (
            vec![&file, "--interval", "10ms", "--", "touch", &mark],
            2,
            "100ms to 1h",
        ),
        (
            vec![&file, "--pid", "1", "--cgroup", "x"],
            2,
            "cannot be used with",
        ),
        (
            vec![&file, "--cgroup", "system.slice/none.service"],
            2,
            "no cgroup in",
        ),
        (
            vec!["/no/such/folder/x", "--", "touch", &mark],
            2,
            "cannot make",
        ),
    ] {
        let output = host.weir(&[&["record"], &arguments[..]].concat());
        let is_skipped = said(&output).contains("not permitted");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(
            is_skipped || said(&output).contains(words),
            "{}",
            said(&output)
        );
    }
    assert!(!fs::exists(&file).unwrap() && !fs::exists(&mark).unwrap());
    assert_eq!(fs::read_to_string(taken).unwrap(), "mine");
}

#[test]
fn a_commands_windows_are_a_file_that_report_reads() {
    let host = Host::counting();
    let file = host.path("x.windows");
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; exit 5";
    let Some((output, lines)) = host.recorded(&[&file, "--", "sh", "-c", script]) else {
        return;
    };
    assert_eq!(
        output.status.code(),
        Some(5),
        "the command's own: {}",
        said(&output)
    );
    assert_eq!(lines[0]["source"], "weir profile record");
    assert_eq!(lines[0]["family"], "sapphire-rapids");
    let notes = lines[0]["notes"].to_string();
    assert!(
        notes.contains("not counted") && notes.contains("no PMU uncore_cha_#"),
        "{notes}"
    );
    let workload = &lines[1]["workloads"][0];
    assert!(workload["id"].as_str().unwrap().starts_with("sh-"));
    let clock = value(&workload["counts"], "core.any.any.clock");
    assert!(clock["value"]["Ok"].as_u64().unwrap() > 0, "{clock}");
    let absent = value(&lines[1]["machine"], "tor.any.any.clock");
    assert_eq!(absent["value"]["Err"]["reason"], "not_supported");
    let words = said(&output);
    assert!(words.contains(&format!("in {file}")), "{words}");
    assert!(
        words.ends_with(&format!("next: weir profile report {file}\n")),
        "{words}"
    );
    let report = host.weir(&["report", &file, "--json"]);
    assert!(
        matches!(report.status.code(), Some(0 | 1)),
        "{}",
        said(&report)
    );
}

/// The command interrupts weir, as Ctrl-C does.
#[test]
fn an_interrupted_recording_is_whole_and_ends_the_command() {
    let host = Host::counting();
    let file = host.path("x.windows");
    let script = "kill -INT $PPID; exec sleep 1000";
    let Some((output, lines)) = host.recorded(&[&file, "--", "sh", "-c", script]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        lines.len() >= 2,
        "a header, and what was counted until then"
    );
    assert!(said(&output).contains("next: weir profile report"));
}

#[test]
fn a_recording_that_is_killed_leaves_its_windows() {
    let host = Host::counting();
    let file = host.path("x.windows");
    // The header, and three windows.
    let script = "n=0; s=0; while [ $n -lt 4 ]; do t=$(stat -c %s \"$1\"); [ $t = $s ] || n=$((n + 1)); s=$t; done; \
                  kill -KILL $PPID";
    let command = ["--interval", "100ms", "--", "sh", "-c", script, "x", &file];
    let Some((output, lines)) = host.recorded(&[&[file.as_str()], &command[..]].concat()) else {
        return;
    };
    assert_eq!(output.status.code(), None, "killed");
    assert!(lines.len() >= 4);
    let report = host.weir(&["report", &file]);
    assert!(
        matches!(report.status.code(), Some(0 | 1)),
        "{}",
        said(&report)
    );
    // The kill came in the middle of a write.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();
    let report = host.weir(&["report", &file]);
    let out = String::from_utf8(report.stdout).unwrap();
    assert!(
        out.contains("the recording ended in the middle of a window"),
        "{out}"
    );
}

#[test]
fn the_machine_is_recorded_for_the_time_that_was_asked_for() {
    let host = Host::counting();
    let file = host.path("x.windows");
    let arguments = [file.as_str(), "--duration", "400ms", "--interval", "200ms"];
    let Some((output, lines)) = host.recorded(&arguments) else {
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let length = |window: &Value| window["to"].as_u64().unwrap() - window["from"].as_u64().unwrap();
    assert!(lines[1..].iter().map(length).sum::<u64>() >= 300_000_000);
    let clock = value(&lines[1]["machine"], "core.any.any.clock");
    assert_eq!(clock["of"], "socket:0");
    assert!(lines[1]["workloads"].is_null());
}

/// `weir top` reads the file while the recording runs.
#[test]
fn a_recording_says_where_workloads_wait_until_it_ends() {
    let host = Host::counting();
    let (file, published) = (host.path("x.windows"), host.path("run/weir/profile.json"));
    let script = format!(
        "i=0; while [ $i -lt 100 ] && [ ! -s {published} ]; do i=$((i+1)); sleep 0.1; done; cat {published}"
    );
    let (file, script) = (file.as_str(), script.as_str());
    let arguments = [file, "--interval", "100ms", "--", "sh", "-c", script];
    let Some((output, _)) = host.recorded(&arguments) else {
        return;
    };
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["schema_version"], 1);
    assert!(
        said["valid_until_unix_ms"].as_u64() > said["wall_unix_ms"].as_u64(),
        "{said}"
    );
    assert!(said["workloads"].is_object(), "{said}");
    assert!(!fs::exists(&published).unwrap(), "it goes with its writer");
}

#[test]
fn live_counts_as_record_does() {
    let host = Host::counting();
    let once = host.weir(&["live", "--once", "--interval", "100ms"]);
    if said(&once).contains("not permitted") {
        return;
    }
    assert_eq!(once.status.code(), Some(0), "{}", said(&once));
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(text.contains("the last 10 windows; counted here"), "{text}");
    assert!(text.contains("machine"), "{text}");
}
