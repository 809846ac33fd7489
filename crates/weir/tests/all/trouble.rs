// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is nonsense answered with the thing that is wrong and the next move, its exit code, and no panic?

use crate::world::{HEAVY, World, stderr, stdout};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Output;

/// The exit code, one message that names all of `parts`, and nothing written.
fn refused(world: &World, output: &Output, code: i32, parts: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn nonsense_flags() {
    let world = World::new();
    for (args, code, parts) in [
        (&["run", "--limit"][..], 78, &["--set-point 4GiB/s"][..]),
        (
            &["run", "--limit", "--set-point", "40%"],
            78,
            &["--capacity 20GiB/s"],
        ),
        (
            &["run", "--set-point", "4G"],
            2,
            &["GiB (binary) or GB (decimal)"],
        ),
        (&["run", "--set-point", "-1"], 2, &["--set-point"]),
        (
            &["run", "--policy", "fair"],
            2,
            &["fair", "max-min", "balance-point"],
        ),
        (
            &["run", "--interval", "1ms"],
            78,
            &["interval", "5ms to 10s"],
        ),
        (&["run", "--period", "50"], 2, &["unit is missing"]),
        (&["run", "--log", "x=y=z"], 78, &["log", "debug"]),
        (
            &["run", "--config", "/nowhere/weir.toml"],
            78,
            &["/nowhere/weir.toml", "No such file"],
        ),
        (
            &["top", "--snapshot", "/dev/null"],
            2,
            &["/dev/null", "not a snapshot"],
        ),
        (
            &["run", "--attribution", "resctrl"],
            69,
            &["resctrl cannot be used", "leave --attribution out"],
        ),
        (
            &[
                "run",
                "--attribution",
                "resctrl",
                "--attribution-event",
                "sw:cpu-clock",
            ],
            78,
            &["--attribution-event"],
        ),
        (&["dance"], 2, &["dance"]),
    ] {
        refused(&world, &world.weir(args), code, parts);
    }
}

#[test]
fn nonsense_in_the_file_names_file_line_and_key() {
    let world = World::new();
    let path = world.path("weir.toml");
    for (text, parts) in [
        (
            "limit = true\nset-pont = 1\n",
            &["line 2", "set-pont", "set-point"][..],
        ),
        ("[controller]\nkp = 'much'\n", &["line 2", "kp = 'much'"]),
        ("[controller]\n\nkp = -3\n", &["line 3", "kp"]),
        ("\u{1b}[2J = 1\n", &["line 1", "u{1b}"]),
    ] {
        fs::write(&path, text).unwrap();
        let output = world.weir(&["run", "--config", path.to_str().unwrap()]);
        refused(&world, &output, 78, parts);
        refused(&world, &output, 78, &["weir.toml"]);
    }
}

#[test]
fn a_machine_without_cxl_memory() {
    let world = World::new();
    world.take_away("sys/class");
    fs::write(world.path("sys/devices/system/node/has_memory"), "0\n").unwrap();
    for (args, code) in [
        (&["run"][..], 69),
        (&["run", "--limit", "--set-point", "1GiB/s"], 69),
        (&["top", "--once"], 2),
    ] {
        let parts = ["no CXL memory", "weir doctor"];
        refused(&world, &world.weir(args), code, &parts);
    }
}

#[test]
fn a_machine_without_anything() {
    let world = World::new();
    let empty = tempfile::tempdir().unwrap();
    for command in [
        &["run"][..],
        &["top", "--once"],
        &["doctor"],
        &["explain"],
        &["reset"],
    ] {
        let mut weir = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir
            .arg("--root")
            .arg(empty.path())
            .args(command)
            .output()
            .unwrap();
        assert!(
            !stderr(&output).contains("panicked"),
            "{command:?}: {}",
            stderr(&output)
        );
        let is_known = |code| code <= 2 || code == 69;
        assert!(output.status.code().is_some_and(is_known), "{command:?}");
    }
    drop(world);
}

/// As a user without rights. The tests often run as root, which is never refused, so the command is started
/// as the system user `nobody`, from a directory that this user may enter.
#[test]
fn without_permission() {
    let world = World::new();
    let place = world.path("bin");
    fs::create_dir(&place).unwrap();
    let binary = place.join("weir");
    fs::copy(env!("CARGO_BIN_EXE_weir"), &binary).unwrap();
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let run_unprivileged = |args: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        command.arg("--root").arg(world.path("")).args(args);
        if rustix::process::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        command.current_dir("/").output()
    };
    fs::set_permissions(world.path("run"), fs::Permissions::from_mode(0o555)).unwrap();
    let limit = match run_unprivileged(&[
        "run",
        "--limit",
        "--set-point",
        "300MiB/s",
        "--duration",
        "2s",
    ]) {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: cannot start a process as the user `nobody` here: {error}");
            return;
        }
    };
    refused(&world, &limit, 77, &["run/weir"]);
    let top = run_unprivileged(&["top", "--once"]).unwrap();
    assert_eq!(
        top.status.code(),
        Some(0),
        "observing with top needs no rights: {}",
        stderr(&top)
    );
    let observe = run_unprivileged(&["run", "--duration", "1s"]).unwrap();
    assert_eq!(
        observe.status.code(),
        Some(0),
        "neither does weir run: {}",
        stderr(&observe)
    );
}

/// resctrl made of files: no group can be had, since a new directory stays empty, and the setting is a file.
#[test]
fn a_setting_of_resctrl_is_owed() {
    let world = World::new();
    let info = world.path("sys/fs/resctrl/info/L3_MON");
    fs::create_dir_all(&info).unwrap();
    fs::create_dir_all(world.path("sys/fs/resctrl/mon_groups/theirs")).unwrap();
    let features = "mbm_total_bytes\nmbm_total_bytes_config\nmbm_local_bytes\n";
    fs::write(info.join("mon_features"), features).unwrap();
    let setting = info.join("mbm_total_bytes_config");
    fs::write(&setting, "0=0x7f;1=0x7f\n").unwrap();
    let stands = |masks: &str| fs::read_to_string(&setting).unwrap().trim() == masks;
    let doctor = stdout(&world.weir(&["doctor"]));
    assert!(doctor.contains("--attribution resctrl"), "{doctor}");
    assert!(doctor.contains("another program has groups"), "{doctor}");
    for (signal, is_kill) in [(Signal::TERM, false), (Signal::KILL, true)] {
        let daemon = world.start(&["run", "--attribution", "resctrl", "--json"]);
        world.wait("set to slow memory", || stands("0=0x30;1=0x30"));
        let second = world.weir(&["run", "--attribution", "resctrl", "--duration", "1s"]);
        refused(&world, &second, 69, &[&daemon.pid().to_string()]);
        daemon.signal(signal);
        assert_eq!(daemon.end().code, (!is_kill).then_some(0));
        if is_kill {
            assert!(stands("0=0x30;1=0x30"));
            let reset = world.weir(&["reset"]);
            assert_eq!(reset.status.code(), Some(0), "{}", stderr(&reset));
            let said = stdout(&reset);
            assert!(said.contains("restored: resctrl:info/L3_MON"), "{said}");
        }
        assert!(stands("0=0x7f;1=0x7f"));
    }
    let groups = fs::read_dir(world.path("sys/fs/resctrl/mon_groups")).unwrap();
    assert_eq!(groups.count(), 1, "theirs");
}
