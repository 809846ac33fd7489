// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir profile live` of recordings, without a terminal and on one.

use crate::desk::{Desk, said};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn a_recording_is_printed_once_with_answer_stalls_and_stages() {
    let desk = Desk::new();
    let [file, idle] = desk.recorded("4-cxl-beside-cxl", "1");
    let once = desk.weir(&["live", &file, "--idle", &idle, "--once"]);
    assert_eq!(once.status.code(), Some(0), "{}", said(&once));
    let text = String::from_utf8(once.stdout).unwrap();
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with("weir profile: ") && first.ends_with(&file),
        "{first}"
    );
    assert!(
        text.contains("saturated") && text.contains("\nhow sure: "),
        "{text}"
    );
    assert!(text.contains("\n== victim\n STALLS"), "{text}");
    assert!(text.contains("tor.drd.cxl-own"), "{text}");
    let scenario = desk.weir(&["live", "--sim", "4-cxl-beside-cxl", "--once"]);
    let simulated = String::from_utf8(scenario.stdout).unwrap();
    let (_, figures) = simulated.split_once('\n').unwrap();
    assert!(text.ends_with(figures), "the same windows: {simulated}");
    let one = desk.weir(&["live", &file, "--workload", "victim"]);
    let one = String::from_utf8(one.stdout).unwrap();
    assert!(
        one.contains("== victim") && !one.contains("== machine"),
        "{one}"
    );
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let desk = Desk::new();
    let file = desk.file("none.windows", "{\"weir_windows\":1,\"source\":\"x\"}\n");
    for (arguments, words) in [
        (vec!["live", "--once"], "nothing can be counted here"),
        (vec!["live", &file, "--once"], "there is no window in it"),
        (vec!["live", &file, "--pid", "1"], "cannot be used with"),
        (vec!["live", "--sim", "2-stals"], "did you mean `2-stalls`?"),
        (vec!["live", "--interval", "10ms"], "100ms to 1h"),
    ] {
        let output = desk.weir(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}

/// The screen is on a terminal without colours; a key ends it.
#[test]
fn the_screen_has_no_colours_where_none_are_wanted() {
    let desk = Desk::new();
    let [file, idle] = desk.recorded("2-stalls", "1");
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let open = || rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut size = Command::new("stty");
    size.args(["rows", "24", "cols", "80"])
        .stdin(Stdio::from(open()));
    assert!(size.status().unwrap().success());
    drop(size);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["profile", "live", &file, "--idle", &idle]);
    command.env("NO_COLOR", "1").env("TERM", "xterm-256color");
    command
        .stdin(Stdio::from(open()))
        .stdout(Stdio::from(open()));
    let mut live = command.stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut screen = File::from(screen);
    let mut seen = String::new();
    let mut buffer = [0; 65_536];
    let mut is_asked = false;
    // Reading fails once the other side is closed.
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        seen += &String::from_utf8_lossy(&buffer[..count]);
        if !is_asked && seen.contains("STALLS") {
            rustix::io::write(&screen, b"q").unwrap();
            is_asked = true;
        }
    }
    assert!(live.wait().unwrap().success());
    assert!(is_asked, "{seen:?}");
    let colours = seen.split("\u{1b}[").skip(1).filter(|code| {
        let end = code.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        let is_colour = |part: &str| matches!(part, "38" | "48") || part.starts_with("9");
        code[end..].starts_with('m') && code[..end].split(';').any(is_colour)
    });
    assert_eq!(colours.count(), 0, "{seen:?}");
    assert!(fs::exists(&file).unwrap());
}
