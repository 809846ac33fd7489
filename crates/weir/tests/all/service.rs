// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir as a service: what the service manager is told, what the journal gets, what it waits for, and with
//! which code it ends.

use crate::world::manager::{Service, without_terminal};
use crate::world::{Daemon, HEAVY, World, stderr};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const LIMIT: [&str; 4] = ["run", "--limit", "--set-point", "300MiB/s"];

/// Takes all CXL memory away, and gives it back.
fn without_memory(world: &World) {
    fs::rename(world.path("sys/class/weir_cxl"), world.path("away")).unwrap();
    world.write("sys/devices/system/node/has_memory", "0\n");
}

fn with_memory(world: &World) {
    fs::rename(world.path("away"), world.path("sys/class/weir_cxl")).unwrap();
    world.write("sys/devices/system/node/has_memory", "0-1\n");
}

#[test]
fn the_manager_hears_of_start_turns_and_end() {
    let world = World::new();
    let usec = OsStr::new("2000");
    let service = Service::start_with(&world, &LIMIT, &[("WATCHDOG_USEC", usec)]);
    let ready = service.told("READY=1");
    assert!(ready.contains("STATUS=observes"), "{ready}");
    let seq = world.seq();
    // Each is sent by the loop: a second one belongs to a later tick.
    service.told("WATCHDOG=1");
    service.told("WATCHDOG=1");
    service.told("WATCHDOG=1");
    world.wait("a later tick", || world.seq() > seq);
    service.daemon.signal(Signal::TERM);
    service.told("STOPPING=1");
    assert_eq!(service.daemon.end().code, Some(0));
}

/// stderr as systemd makes it, by way of a file.
fn to_journal(world: &World, args: &[&str]) -> (Command, PathBuf) {
    let path = world.path("journal");
    let file = fs::File::create(&path).unwrap();
    let stat = file.metadata().unwrap();
    let mut command = without_terminal(world, args);
    command.env("JOURNAL_STREAM", format!("{}:{}", stat.dev(), stat.ino()));
    command.stderr(file);
    (command, path)
}

#[test]
fn the_journal_gets_priorities_and_no_times() {
    let world = World::new();
    let (mut command, path) = to_journal(&world, &[&LIMIT[..], &["--exclude", "/none"]].concat());
    let daemon = Daemon::start(&mut command);
    world.wait("a limit", || world.cpu_max(HEAVY[0]) != "max 100000");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
    let text = fs::read_to_string(&path).unwrap();
    for line in text.lines() {
        let of_priority = ["<3>", "<4>", "<6>"].iter().any(|p| line.starts_with(p));
        assert!(of_priority && !line[3..].starts_with("20"), "{line}");
    }
    assert!(text.contains("<6>weir limits: "), "{text}");
    assert!(text.contains("<4>warning: "), "{text}");
    assert!(text.contains("<6>SIGTERM: limits are restored"), "{text}");

    let args = ["run", "--config", "/nowhere/weir.toml"];
    let (mut command, path) = to_journal(&world, &args);
    assert_eq!(command.status().unwrap().code(), Some(78));
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("<3>weir: cannot read the settings file /nowhere"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn json_lines_have_their_keys() {
    let world = World::new();
    let args = [&LIMIT[..], &["--log-format", "json"]].concat();
    let daemon = world.start(&args);
    world.wait("a limit", || world.cpu_max(HEAVY[0]) != "max 100000");
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    let lines = ended.stderr.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &lines {
        assert!(
            line["wall_unix_ms"].as_u64() > Some(1_700_000_000_000),
            "{line}"
        );
        let level = line["level"].as_str().unwrap();
        assert!(["error", "warn", "info"].contains(&level), "{line}");
        assert!(!line["message"].as_str().unwrap().is_empty(), "{line}");
    }
    let says = |text: &str| {
        lines
            .iter()
            .any(|l| l["message"].as_str().unwrap().contains(text))
    };
    assert!(
        says("each device is held") && says("SIGTERM: limits are restored"),
        "{lines:?}"
    );

    let wrong = world.weir(&["run", "--log-format", "json", "--interval", "1ms"]);
    let line: Value = serde_json::from_str(&stderr(&wrong)).unwrap();
    assert_eq!(
        (wrong.status.code(), &line["level"]),
        (Some(78), &Value::from("error"))
    );
}

#[test]
fn it_waits_for_devices_that_come_later() {
    for args in [
        &["run", "--wait-for-devices"][..],
        &[&LIMIT[..], &["--wait-for-devices"]].concat(),
    ] {
        let world = World::new();
        without_memory(&world);
        let service = Service::start(&world, args);
        let ready = service.told("READY=1");
        assert!(ready.contains("STATUS=waits for devices"), "{ready}");
        assert_eq!(world.seq(), None);
        with_memory(&world);
        world.wait("it observes", || world.seq().is_some());
        service.daemon.signal(Signal::TERM);
        let ended = service.daemon.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        // Memory and counters may come between two looks: then it waits for another thing.
        let lines = ended.stderr.lines();
        let waits = lines.filter_map(|line| Some(line.split_once("waits for devices: ")?.1));
        let waits: Vec<_> = waits.collect();
        let distinct: std::collections::BTreeSet<_> = waits.iter().collect();
        assert!(
            !waits.is_empty() && waits.len() == distinct.len(),
            "{waits:?}"
        );
        assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
    }
}

#[test]
fn settings_are_read_again_and_it_ends_while_it_waits() {
    let world = World::new();
    without_memory(&world);
    let file = world.path("weir.toml");
    fs::write(&file, "wait-for-devices = true\n").unwrap();
    let service = Service::start_by(&world, &file, &[]);
    service.reload();
    service.daemon.signal(Signal::TERM);
    let ended = service.daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("was read again"), "{}", ended.stderr);

    // It no longer is to wait.
    let service = Service::start_by(&world, &file, &[]);
    fs::write(&file, "interval = '1s'\n").unwrap();
    service.reload();
    assert_eq!(service.daemon.end().code, Some(69));
}

/// The code, one line that says why, and no limit.
fn ends(world: &World, output: &Output, code: i32, part: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let errors: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("weir: "))
        .collect();
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains(part), "{part:?} is not in {said}");
    assert_eq!(world.cpu_max(HEAVY[0]), "max 100000");
}

#[test]
fn each_kind_of_trouble_has_its_exit_code() {
    let world = World::new();
    let daemon = world.start_limiting();
    let second = world.weir(&LIMIT);
    assert_eq!(second.status.code(), Some(75), "{}", stderr(&second));
    assert!(stderr(&second).contains(&daemon.pid().to_string()));
    daemon.signal(Signal::TERM);
    daemon.end();

    ends(
        &world,
        &world.weir(&["run", "--interval", "1ms"]),
        78,
        "5ms to 10s",
    );
    let file = world.path("weir.toml");
    fs::write(&file, "limit = tru\n").unwrap();
    let named = file.to_str().unwrap();
    ends(
        &world,
        &world.weir(&["run", "--config", named]),
        78,
        "line 1",
    );
    let dir = world.path("run");
    let dir = dir.to_str().unwrap();
    ends(&world, &world.weir(&["run", "--config", dir]), 78, dir);
    ends(
        &world,
        &world.weir(&["run", "--device", "node:9"]),
        69,
        "node:9",
    );
    fs::set_permissions(world.path("run/weir"), of_mode(0o777)).unwrap();
    ends(&world, &world.weir(&LIMIT), 77, "chmod go-w");
    fs::set_permissions(world.path("run/weir"), of_mode(0o700)).unwrap();
    without_memory(&world);
    ends(&world, &world.weir(&["run"]), 69, "no CXL memory");
    // What is wrong on any machine is said first.
    let page = ["run", "--page=0.0.0.0:0"];
    ends(&world, &world.weir(&page), 78, "--page-token-file");
}

fn of_mode(mode: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}

/// With a file system of its own at `/run` of the machine, mounted with these options; nothing where the
/// kernel permits no mounts.
fn on_disk(world: &World, options: &str, before: &str) -> Option<Output> {
    let place = world.path("run");
    let weir = without_terminal(world, &[&LIMIT[..], &["--duration", "2s"]].concat());
    let script = format!(
        "mount -t tmpfs -o {options} weir-test {place} || exit 99; {before}; exec \"$@\"",
        place = place.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]);
    command.args(weir.get_args().collect::<Vec<_>>());
    command.current_dir(world.path("")).stdin(Stdio::null());
    let output = command.output().unwrap();
    if output.status.code() == Some(99) || stderr(&output).contains("unshare failed") {
        eprintln!("SKIP {options}: {}", stderr(&output));
        return None;
    }
    Some(output)
}

#[test]
fn a_run_directory_that_takes_nothing_is_a_clear_line() {
    let world = World::new();
    let full = "head -c 1m /dev/zero > run/full 2> /dev/null; mkdir -p run/weir";
    if let Some(output) = on_disk(&world, "ro", ":") {
        ends(&world, &output, 74, "run/weir: Read-only file system");
    }
    if let Some(output) = on_disk(&world, "size=64k,nr_inodes=8", full) {
        ends(&world, &output, 74, "No space left on device");
    }
}
