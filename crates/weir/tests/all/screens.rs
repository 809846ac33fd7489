// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do top, explain and doctor say what is there, also to programs, and nothing that hurts a terminal?

use crate::world::{self, HEAVY, LIGHT, World, long_name, stderr, stdout};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::process::{Command, Stdio};

fn json(world: &World, args: &[&str]) -> Value {
    let output = world.weir(args);
    assert!(
        output.status.code().is_some_and(|code| code < 2),
        "{args:?}: {}",
        stderr(&output)
    );
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

#[test]
fn top_observes_by_itself_and_changes_nothing() {
    let world = World::new();
    let before = world.limits();
    let output = world.weir(&["top", "--once"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("no weir is running"), "{text}");
    assert!(text.contains("cxl0 weir_cxl0: "), "{text}");
    let place = |name| {
        text.find(name)
            .unwrap_or_else(|| panic!("{name} is not in {text}"))
    };
    assert!(
        place(HEAVY[0]) < place(LIGHT),
        "sorted by bandwidth: {text}"
    );
    assert_eq!(world.limits(), before);
    assert!(
        !world.path("run/weir/lock").exists(),
        "observing takes no lock"
    );
}

/// Heavy ones are limited, as far as screens can see.
fn heavy_ones_are_limited(world: &World) {
    let is_limited = |snapshot: &Value, id: &str| {
        let workloads = snapshot["plan"]["workloads"].as_array();
        let its = workloads.into_iter().flatten().find(|w| w["id"] == id);
        its.is_some_and(|w| !w["limit_cpus"].is_null())
    };
    world.wait("limits are published", || {
        let text = std::fs::read_to_string(world.path("run/weir/snapshot.json"));
        let snapshot = text.ok().and_then(|t| serde_json::from_str(&t).ok());
        snapshot.is_some_and(|s: Value| HEAVY[..2].iter().all(|id| is_limited(&s, id)))
    });
}

#[test]
fn top_and_explain_show_what_the_daemon_does() {
    let world = World::new();
    let daemon = world.start_limiting();
    heavy_ones_are_limited(&world);
    let snapshot = json(&world, &["top", "--json"]);
    assert_eq!(
        snapshot["writer_pid"].as_u64(),
        Some(u64::from(daemon.pid()))
    );
    let table = stdout(&world.weir(&["top", "--once"]));
    assert!(
        table.contains("limiting, policy max-min; from the running weir"),
        "{table}"
    );
    let page = stdout(&world.weir(&["explain"]));
    for part in [
        HEAVY[0],
        "limited to",
        "limited by max-min",
        "last changes",
        "set-point 300 MiB/s",
    ] {
        assert!(page.contains(part), "{part:?} is not in {page}");
    }
    assert!(
        !page.contains(LIGHT),
        "the small user is not limited: {page}"
    );
    let light = stdout(&world.weir(&["explain", "light"]));
    assert!(
        light.contains("not limited: it takes less than its fair share"),
        "{light}"
    );
    let explained = json(&world, &["explain", HEAVY[1], "--json", "--changes", "3"]);
    assert_eq!(explained["workloads"][0]["verdict"]["id"], HEAVY[1]);
    assert!(
        explained["workloads"][0]["limited_since_unix_ms"]
            .as_u64()
            .unwrap()
            > 0
    );
    let changes = explained["changes"].as_array().unwrap();
    assert!(
        !changes.is_empty() && changes.iter().all(|c| c["workload"] == HEAVY[1]),
        "{changes:?}"
    );
    let unknown = world.weir(&["explain", "absent"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains(LIGHT), "{}", stderr(&unknown));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().code, Some(0));
    let after = world.weir(&["explain"]);
    assert_eq!(after.status.code(), Some(2));
    assert!(
        stderr(&after).contains("weir is not running; no limits are in force"),
        "{}",
        stderr(&after)
    );
}

#[test]
fn hostile_names_reach_no_terminal() {
    let evil = "/system.slice/\u{1b}[2J\u{1b}]0;root\u{7}\nevil\u{202e}.service";
    let world = World::with(&[evil, &long_name()]);
    let daemon = world.start_limiting();
    heavy_ones_are_limited(&world);
    daemon.signal(Signal::STOP);
    let harmless = |text: &str| {
        text.chars()
            .all(|c| c == '\n' || !c.is_control() && c != '\u{202e}')
    };
    for args in [
        &["top", "--once"][..],
        &["explain"],
        &["explain", "evil"],
        &["doctor"],
    ] {
        let output = world.weir(args);
        let text = stdout(&output) + &stderr(&output);
        assert!(harmless(&text), "{args:?} let it through: {text:?}");
    }
    daemon.signal(Signal::CONT);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert!(harmless(&ended.stderr), "{:?}", ended.stderr);
    let explained = ended
        .stdout
        .lines()
        .last()
        .map(serde_json::from_str::<Value>);
    assert!(
        explained.unwrap().unwrap()["plan"]["workloads"]
            .to_string()
            .contains("evil")
    );
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_trouble() {
    let world = World::new();
    for args in [
        &["top", "--once"][..],
        &["top", "--json"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let mut child = world
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

#[test]
fn every_command_helps_with_an_example() {
    for command in ["run", "top", "doctor", "explain", "reset", "sim"] {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = weir
            .args(command.split(' '))
            .arg("--help")
            .output()
            .unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains("Example"), "{command}: {text}");
        assert!(text.contains("--json"), "{command}: {text}");
        assert!(
            !text.contains("--root"),
            "the switch for tests is not for people: {text}"
        );
    }
}

/// A connection that breaks, or a window that is closed, must not leave a process that waits for keys for
/// ever.
#[test]
fn top_ends_when_its_terminal_is_closed() {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let terminal =
        || rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim", "neighbour", "--top"])
        .env("TERM", "xterm")
        .stdin(terminal())
        .stdout(terminal())
        .stderr(terminal())
        .spawn()
        .unwrap();
    // It has taken the terminal: without a size it draws nothing more.
    assert!(rustix::io::read(&screen, &mut [0; 64]).unwrap() > 0);
    drop(screen);
    world::wait("the end of top", &mut || weir.try_wait().unwrap().is_some());
    assert_eq!(weir.wait().unwrap().code(), Some(0));
}
