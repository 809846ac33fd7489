// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--push` to servers that are away, that refuse, that hang or that talk without end: the loop goes
//! on, nothing is kept without bound, and what became of it is said once.

use crate::world::{Daemon, World, stderr, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// How the server answers: all of the bytes, and then the connection is closed.
type Answer = Arc<Mutex<&'static str>>;

const TAKEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const AWAY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nre\x1b[2Jady";
/// A server that keeps the requests it gets.
struct FakeHost {
    url: String,
    answer: Answer,
    requests: Receiver<String>,
}

impl FakeHost {
    fn start(answer: &'static str) -> FakeHost {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/write?db=weir", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new(answer));
        let (send, requests) = channel();
        let shared = Arc::clone(&answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = serve(stream.unwrap(), &shared, &send);
            }
        });
        FakeHost {
            url,
            answer,
            requests,
        }
    }

    fn becomes(&self, answer: &'static str) {
        *self.answer.lock().unwrap() = answer;
    }

    fn next(&self) -> String {
        let mut next = None;
        wait("a request", &mut || {
            next = self.requests.try_recv().ok();
            next.is_some()
        });
        next.unwrap()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, requests: &Sender<String>) -> Option<()> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok()?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // A head is ASCII; a body may be no text.
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, _)| {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then_some(value)
            });
            length.and_then(|length| length.parse().ok()) <= Some(bytes.len() - head.len() - 4)
        });
        if whole {
            let _ = requests.send(text);
            break;
        }
        if count == 0 {
            return None;
        }
    }
    let answer = *answer.lock().unwrap();
    stream.write_all(answer.as_bytes()).ok()
}

fn start(world: &World, url: &str, more: &[&str]) -> Daemon {
    let base = ["run", "--push", url, "--push-interval", "1s"];
    world.start(&[&base[..], more].concat())
}

/// What the snapshot says of it, once there is one.
fn delivery(world: &World) -> Value {
    let text = fs::read_to_string(world.path("run/weir/snapshot.json")).unwrap_or_default();
    let snapshot: Value = serde_json::from_str(&text).unwrap_or_default();
    snapshot["push"].clone()
}

fn end(daemon: Daemon) -> String {
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr
}

fn lines(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

/// The time of its device's line.
fn time_of(request: &str) -> i64 {
    let line = lines(request)
        .lines()
        .find(|l| l.starts_with("weir_device,"));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn batches_wait_for_a_server_that_is_away() {
    let world = World::new();
    let server = FakeHost::start(AWAY);
    let token = world.path("token");
    fs::write(&token, "abc==\n").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let daemon = start(
        &world,
        &server.url,
        &["--push-token-file", token.to_str().unwrap()],
    );
    world.wait("it is seen to be away", || {
        let push = delivery(&world);
        push["trouble"]
            .as_str()
            .is_some_and(|why| why.contains("503"))
            && push["waiting_batches"].as_u64() >= Some(2)
    });
    server.becomes(TAKEN);
    world.wait("what waited has arrived", || {
        let push = delivery(&world);
        push["sent_batches_total"].as_u64() >= Some(3) && push["trouble"].is_null()
    });
    let said = end(daemon);
    let first = server.next();
    let head = first.to_lowercase();
    assert!(
        head.starts_with("post /write?db=weir http/1.1\r\n"),
        "{first}"
    );
    assert!(
        head.contains("\r\nauthorization: token abc==\r\n"),
        "{first}"
    );
    // The same batch again and again, and then the others in order: nothing is lost or sent twice.
    let mut times: Vec<i64> = vec![time_of(&first)];
    times.extend(server.requests.try_iter().map(|request| time_of(&request)));
    times.dedup();
    assert!(times.len() >= 4 && times.is_sorted(), "{times:?}");
    assert_eq!(said.matches("batches are kept").count(), 1, "{said}");
    assert!(
        said.contains("takes batches again; 0 were dropped"),
        "{said}"
    );
    assert!(!said.contains('\u{1b}') && !said.contains("abc"), "{said}");
}

/// Remote write 1.0: 5xx and 429 may pass, any other 4xx stays.
#[test]
fn samples_are_tried_again_or_dropped_by_status() {
    let world = World::new();
    let busy = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
    let server = FakeHost::start(busy);
    let daemon = start(&world, &server.url, &["--push-format", "remote-write"]);
    for (answer, status) in [(busy, "429"), (AWAY, "503")] {
        server.becomes(answer);
        world.wait("batches wait", || {
            let push = delivery(&world);
            let why = push["trouble"].as_str();
            why.is_some_and(|why| why.contains(status))
                && push["waiting_batches"].as_u64() >= Some(2)
                && push["dropped_batches_total"] == 0
        });
    }
    server.becomes(TAKEN);
    world.wait("what waited has arrived", || {
        let push = delivery(&world);
        push["sent_batches_total"].as_u64() >= Some(3) && push["trouble"].is_null()
    });
    // For InfluxDB lines it is a database that may be made yet.
    server.becomes("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    world.wait("two are dropped", || {
        delivery(&world)["dropped_batches_total"].as_u64() >= Some(2)
    });
    let half = "HTTP/1.1 204 No Content\r\nContent-Le";
    server.becomes(half);
    world.wait("half an answer is no answer", || {
        let push = delivery(&world);
        let why = push["trouble"].as_str();
        push["waiting_batches"].as_u64() >= Some(1) && why.is_some_and(|why| !why.contains("404"))
    });
    server.becomes(TAKEN);
    world.wait("the next is taken", || {
        delivery(&world)["trouble"].is_null()
    });
    let said = end(daemon);
    assert!(said.contains("dropped: "), "{said}");
    assert_eq!(said.matches("404 Not Found").count(), 1, "{said}");
}

#[test]
fn answers_of_all_kinds_are_survived() {
    let endless: &'static str =
        Box::leak(format!("HTTP/1.1 200 OK\r\n{}", "X-A: b\r\n".repeat(1 << 17)).into_boxed_str());
    let long: &'static str =
        Box::leak(format!("HTTP/1.1 500 Oh\r\n\r\n{}", "x".repeat(1 << 20)).into_boxed_str());
    let world = World::new();
    let server = FakeHost::start("\0\u{1}nonsense\r\n\r\n");
    let daemon = start(&world, &server.url, &[]);
    let troubled = |what: &str| {
        world.wait(what, || !delivery(&world)["trouble"].is_null());
    };
    troubled("nonsense is noticed");
    for answer in [
        endless,
        long,
        "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/other\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n",
    ] {
        server.becomes(answer);
        while server.requests.try_recv().is_ok() {}
        server.next();
    }
    server.becomes(TAKEN);
    world.wait("the next is taken", || {
        delivery(&world)["trouble"].is_null()
    });
    let said = end(daemon);
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn addresses_and_tokens_that_cannot_be_right() {
    let world = World::new();
    for (args, wanted) in [
        (
            &["--push", "127.0.0.1:8428/write"][..],
            "no URL (invalid format): give one",
        ),
        (&["--push-format", "remote-write"], "--push URL"),
        (&["--push-ca-file", "/etc/hostname"], "--push https://"),
        (&["--push", "http://a:8428"], "has no path"),
        (
            &["--push", "http://a/write", "--push-interval", "0.1s"],
            "1s to 3600s",
        ),
        (&["--push-token-file", "/etc/hostname"], "--push URL"),
        (
            &["--push", "http://a/write", "--push-token-file", "/nowhere"],
            "/nowhere",
        ),
        (
            &["--push", "http://a/write", "--push-token-file", "/dev/null"],
            "it is a device",
        ),
    ] {
        let output = world.weir(&[&["run", "--duration", "1s"][..], args].concat());
        let said = stderr(&output);
        let is_setting = ["1s to 3600s", "--push URL", "--push https://"].contains(&wanted);
        let code = if is_setting { 78 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {said}");
    }
}
