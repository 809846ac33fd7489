// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live page in a browser: Chromium without a screen looks at a running weir process, and at a recording.
//! Where there is no Chromium, a test says so and ends.

use crate::world::server::free_address;
use crate::world::{Daemon, World, long_name, wait};
use rustix::process::Signal;
use std::env;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names that want to be more than text.
const HOSTILE: [&str; 5] = [
    "/<img src=x onerror=window.hacked=true>",
    "/\"><script>window.hacked=true</script>",
    "/odd.slice/'; alert(1) &lt;b&gt;",
    "/a\r\n\r\ndata: {\"now\": 1}\u{1b}[2J",
    "/\u{202e}\u{2066}gnp.exe\u{200f}",
];

/// Names as discovery spells them, and the page shows them.
const HARMLESS: [&str; 5] = [
    HOSTILE[0],
    HOSTILE[1],
    HOSTILE[2],
    "/a\\015\\012\\015\\012data: {\"now\": 1}\\033[2J",
    "/\\342\\200\\256\\342\\201\\246gnp.exe\\342\\200\\217",
];

/// Node, with what drives the browser; nothing where something is not there.
fn node(script: &str) -> Option<Command> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)?;
    let modules = cache.join("weir/page-tests/node_modules");
    let chromium = env::var_os("WEIR_CHROMIUM").unwrap_or(OsString::from("/usr/bin/chromium"));
    let has_node = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    let missing = [
        (!Path::new(&chromium).is_file()).then_some("chromium (the package of that name)"),
        (!modules.join("playwright-core").is_dir())
            .then_some("playwright-core (crates/weir/tests/page/install.sh fetches it)"),
        has_node.is_err().then_some("node (the package nodejs)"),
    ];
    let missing: Vec<&str> = missing.into_iter().flatten().collect();
    if !missing.is_empty() {
        let why = format!("not here: {}", missing.join(", "));
        let is_required = env::var_os("WEIR_SERVER_TESTS").is_some_and(|value| value == "required");
        assert!(!is_required, "{why}");
        eprintln!("SKIP live page: {why}");
        return None;
    }
    let mut command = Command::new("node");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    command.env("NODE_PATH", modules).arg(folder.join(script));
    Some(command)
}

/// Runs it to its end, which must be good.
fn finds_nothing(mut script: Command, page: &Daemon) -> String {
    let output = script.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "weir {}: {said}", page.pid());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Where screenshots are left, to be looked at.
fn pictures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "HEAD / HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|text| text.starts_with("HTTP/1.1 200 "))
}

#[test]
fn a_running_weir_is_shown_and_hostile_names_are_text() {
    let Some(mut check) = node("check.js") else {
        return;
    };
    let long = long_name();
    let world = World::with(&[&HOSTILE[..], &[long.as_str()]].concat());
    let address = free_address();
    let offer = format!("--page={address}");
    let daemon = world.start(&["run", "--limit", "--set-point", "300MiB/s", &offer]);
    wait("the page answers", &mut || answers(address));
    check
        .arg(format!("http://{address}/"))
        .arg(pictures("page-running"));
    check.args(HARMLESS).arg(long.replace('\n', "\\012"));
    finds_nothing(check, &daemon);
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains(&format!("the live page is at http://{address}/")),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_recording_is_shown_by_the_same_page() {
    let Some(mut check) = node("check.js") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.weir");
    let weir = || Command::new(env!("CARGO_BIN_EXE_weir"));
    let made = weir()
        .args(["sim", "thesis-limit", "--record"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let address = free_address();
    let offer = format!("--page={address}");
    let mut replay = weir();
    replay.args(["replay", &offer, "--speed", "20"]).arg(&file);
    let daemon = Daemon::start(replay.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait("the page answers", &mut || answers(address));
    check
        .arg(format!("http://{address}/"))
        .arg(pictures("page-recorded"));
    finds_nothing(check, &daemon);
}

/// A thousand workloads, with all figures new at each event: the page keeps what it shows, and no more.
#[test]
fn a_page_that_stays_open_keeps_its_size() {
    let Some(mut load) = node("load.js") else {
        return;
    };
    let world = World::new();
    let address = free_address();
    let daemon = world.start(&["run", &format!("--page={address}")]);
    wait("the page answers", &mut || answers(address));
    load.arg(format!("http://{address}/")).arg("1200");
    let found: serde_json::Value = serde_json::from_str(&finds_nothing(load, &daemon)).unwrap();
    let parts = found["parts"].as_array().unwrap();
    let figure = |part: usize, name: &str| parts[part][name].as_u64().unwrap();
    let last = parts.len() - 1;
    // What the browser makes of a script that runs often is in the first parts.
    let middle = last / 2;
    assert_eq!(
        figure(last, "elements"),
        figure(middle, "elements"),
        "{found}"
    );
    let grown = figure(last, "heap_bytes").saturating_sub(figure(middle, "heap_bytes"));
    assert!(grown < 1 << 20, "{found}");
}
