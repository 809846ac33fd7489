// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SIGHUP: are settings read again without a limit lost or left behind, and does a terminal that closes still
//! end weir?

use crate::world::desk::{Desk, done};
use crate::world::manager::{Service, without_terminal};
use crate::world::{Daemon, HEAVY, World, stdout};
use rustix::fs::OFlags;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FREE: &str = "max 100000";
const GOOD: &str = "limit = true\nset-point = '300MiB/s'\n";

fn limits(world: &World) -> [bool; 3] {
    HEAVY.map(|heavy| world.cpu_max(heavy) != FREE)
}

/// A file with good settings, and weir that limits by it.
fn limiting(world: &World, more: &[&str]) -> (PathBuf, Service) {
    let file = world.path("weir.toml");
    fs::write(&file, GOOD).unwrap();
    let service = Service::start_by(world, &file, more);
    world.wait("all are limited", || limits(world) == [true; 3]);
    (file, service)
}

fn end(world: &World, service: Service) -> String {
    service.daemon.signal(Signal::TERM);
    service.told("STOPPING=1");
    let ended = service.daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(limits(world), [false; 3], "a limit was left behind");
    let reset = world.weir(&["reset"]);
    assert!(
        stdout(&reset).contains("nothing to do"),
        "{}",
        stdout(&reset)
    );
    ended.stdout
}

/// Settings, what is told of them, and which of the heavy readers they limit.
type Round = (Option<&'static str>, &'static str, [bool; 3]);

const ALL: [bool; 3] = [true; 3];
const ROUNDS: [Round; 10] = [
    (Some(GOOD), "done", ALL),
    (Some("limit = true\nset-pont = '1GiB/s'\n"), "refused", ALL),
    (
        Some("limit = true\nset-point = '330MiB/s'\n[controller]\nkp = 0.2\n"),
        "done",
        ALL,
    ),
    (None, "refused", ALL),
    (
        Some("limit = true\nset-point = '300MiB/s'\nexclude = ['*heavy-c']\n"),
        "done",
        [true, true, false],
    ),
    (Some("limit = true\n"), "refused", [true, true, false]),
    (Some(GOOD), "done", ALL),
    (Some("limit = false\n"), "done", [false; 3]),
    (Some("interval = '1ms'\n"), "refused", [false; 3]),
    (Some(GOOD), "done", ALL),
];

/// Reads settings again in as many rounds as wanted, each with another file.
fn reloaded(rounds: usize) {
    let world = World::new();
    let (file, service) = limiting(&world, &[]);
    for round in 0..rounds {
        let (text, what, limited) = ROUNDS[round % ROUNDS.len()];
        match text {
            Some(text) => fs::write(&file, text).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let told = service.reload();
        let wanted = format!("STATUS=reload {} {what}", round + 1);
        assert!(told.contains(&wanted), "{told} instead of {wanted}");
        world.wait("limits are as the file says", || limits(&world) == limited);
    }
    end(&world, service);
}

#[test]
fn good_and_bad_files_lose_no_limit_and_leave_none() {
    reloaded(2 * ROUNDS.len());
}

/// This is run by hand: `cargo test --release -p weir --test all a_thousand_reloads -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_reloads_lose_no_limit_and_leave_none() {
    reloaded(1000);
}

/// The limit in CPUs that a line of JSON has of a workload.
fn limit(line: &str, id: &str) -> Option<f64> {
    let seen: Value = serde_json::from_str(line).unwrap();
    let workloads = seen["plan"]["workloads"].as_array()?;
    let found = workloads.iter().find(|workload| workload["id"] == id)?;
    found["limit_cpus"].as_f64()
}

#[test]
fn no_limit_is_let_go_while_settings_are_read() {
    let world = World::new();
    let (file, service) = limiting(&world, &["--json"]);
    for round in 0..20 {
        let rate = 300 + round % 3 * 20;
        let mut text = format!("limit = true\nset-point = '{rate}MiB/s'\n");
        if round % 4 == 3 {
            text += "kp = 1\n";
        }
        fs::write(&file, text).unwrap();
        service.reload();
        world.wait_for_ticks(2);
    }
    let printed = end(&world, service);
    for heavy in HEAVY {
        let all = printed.lines().map(|line| limit(line, heavy));
        let from_first: Vec<_> = all.skip_while(Option::is_none).collect();
        assert!(from_first.len() > 40, "{}", from_first.len());
        assert!(from_first.iter().all(Option::is_some), "{heavy} was let go");
    }
}

#[test]
fn a_refusal_names_file_line_and_key_and_old_settings_stay() {
    let world = World::new();
    let (file, service) = limiting(&world, &[]);
    let name = file.to_str().unwrap();
    for (text, parts) in [
        (
            "limit = true\nset-pont = '1GiB/s'",
            &["line 2", "set-pont"][..],
        ),
        ("\ninterval = '1ms'", &["line 2", "interval"]),
        ("limit = true", &["line 1", "--set-point"]),
        ("[controller]\n\nkp = -3", &["line 3", "kp"]),
        ("log = 'x=y=z'", &["line 1", "log is"]),
        (
            "limit = true\n\nset-point = '40%'",
            &["line 3", "set-point", "capacity"],
        ),
    ] {
        fs::write(&file, text).unwrap();
        let told = service.reload();
        for part in parts.iter().chain(&["refused", name]) {
            assert!(told.contains(part), "{part:?} is not in {told:?}");
        }
    }
    world.wait_for_ticks(2);
    let seen = world.snapshot();
    assert_eq!(seen["limiting"], true);
    assert_eq!(limits(&world), ALL);
    end(&world, service);
}

#[test]
fn what_needs_a_restart_is_named_and_the_rest_counts() {
    let world = World::new();
    let (file, service) = limiting(&world, &[]);
    let text =
        "limit = true\nset-point = '350MiB/s'\ninterval = '1s'\npolicy = 'drf'\nbackend = 'auto'\n";
    fs::write(&file, text).unwrap();
    let told = service.reload();
    assert!(told.contains("set-point, policy changed"), "{told}");
    world.wait("the policy counts", || world.snapshot()["policy"] == "drf");
    assert_eq!(world.snapshot()["interval_ms"], 50);
    service.daemon.signal(Signal::TERM);
    let ended = service.daemon.end();
    let wanted = "needs a restart, and stays as it is: backend, interval";
    assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
    assert_eq!(limits(&world), [false; 3]);
}

#[test]
fn an_observer_does_not_begin_to_limit() {
    let world = World::new();
    let before = world.limits();
    let file = world.path("weir.toml");
    fs::write(&file, "set-point = '300MiB/s'\n").unwrap();
    let service = Service::start_by(&world, &file, &[]);
    fs::write(&file, GOOD).unwrap();
    service.reload();
    world.wait_for_ticks(20);
    service.daemon.signal(Signal::TERM);
    let ended = service.daemon.end();
    assert!(
        ended
            .stderr
            .contains("needs a restart, and stays as it is: limit")
    );
    assert_eq!(world.limits(), before);
}

#[test]
fn a_recording_goes_on_with_other_settings() {
    let (world, desk) = (World::new(), Desk::new());
    let recording = desk.text("a.weir");
    let (file, service) = limiting(&world, &["--record", &recording]);
    world.wait_for_ticks(5);
    for rate in [350, 400] {
        fs::write(&file, format!("limit = true\nset-point = '{rate}MiB/s'\n")).unwrap();
        service.reload();
        // The same once more begins no session.
        service.reload();
        world.wait_for_ticks(5);
    }
    end(&world, service);
    let checked = done(&["replay", &recording, "--check"]);
    let same = checked.matches("each plan is the recorded one").count();
    assert_eq!((same, checked.lines().count()), (3, 3), "{checked}");
}

#[test]
fn a_reload_and_an_end_at_once_end_it_and_restore() {
    for signals in [[Signal::HUP, Signal::TERM], [Signal::TERM, Signal::HUP]] {
        let world = World::new();
        let (file, service) = limiting(&world, &[]);
        fs::write(&file, GOOD.to_owned() + "exclude = ['*heavy-c']\n").unwrap();
        for signal in signals {
            service.daemon.signal(signal);
        }
        let ended = service.daemon.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(limits(&world), [false; 3]);
    }
}

/// weir with this terminal as its own.
fn on_terminal(world: &World, before: &[&str]) -> (std::fs::File, Daemon) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    // It must not become the terminal of the tests themselves.
    let not_ours = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let mut slave = fs::File::options();
    let slave = slave.read(true).write(true).custom_flags(not_ours);
    let slave = slave.open(name.to_str().unwrap()).unwrap();
    let args = ["run", "--limit", "--set-point", "300MiB/s"];
    let weir = without_terminal(world, &args);
    let mut command = Command::new("setsid");
    // `setsid` here makes the terminal of stdin that of the session. Tests that run under nohup would hand
    // on that SIGHUP is ignored.
    command.args(["--ctty", "env", "--default-signal=HUP"]);
    command.args(before);
    command.args(weir.get_args().collect::<Vec<_>>());
    command
        .stdin(slave)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let daemon = Daemon::start(&mut command);
    world.wait("all are limited", || limits(world) == ALL);
    (master.into(), daemon)
}

#[test]
fn a_terminal_that_closes_ends_it_and_restores() {
    let world = World::new();
    let (terminal, daemon) = on_terminal(&world, &[]);
    drop(terminal);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("SIGHUP: limits are restored"),
        "{}",
        ended.stderr
    );
    assert_eq!(limits(&world), [false; 3]);
}

#[test]
fn under_nohup_it_outlives_its_terminal() {
    let world = World::new();
    let (terminal, daemon) = on_terminal(&world, &["nohup"]);
    drop(terminal);
    daemon.signal(Signal::HUP);
    world.wait_for_ticks(5);
    assert_eq!(limits(&world), ALL);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("without a settings file"),
        "{}",
        ended.stderr
    );
    assert_eq!(limits(&world), [false; 3]);
}
