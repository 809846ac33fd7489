// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What clients get: the page, events, and refusals.

use super::*;
use crate::run::serve::http::EventStream;
use crate::top::testing::snapshot;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{Permissions, set_permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use weir_core::WorkloadId;

/// A page with its viewers, at an address.
struct StartedPage {
    page: LivePage,
    audience: Arc<Audience>,
    address: SocketAddr,
}

fn started() -> StartedPage {
    let (listener, token) = listener("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let address = listener.local_addr().unwrap();
    let audience: Arc<Audience> = Arc::default();
    serve(listener, token, Arc::clone(&audience), || ()).unwrap();
    let viewers: Arc<dyn Viewers> = Arc::clone(&audience) as _;
    StartedPage {
        page: LivePage::of(viewers, None).unwrap(),
        audience,
        address,
    }
}

fn response_to(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// A workload of each of these names, at so many MiB/s.
fn with(names: &[(String, u32)], at_ms: u64) -> Snapshot {
    let mut snapshot = snapshot(at_ms, 100.0);
    let usual = std::mem::take(&mut snapshot.plan.workloads);
    let named: BTreeMap<&str, u32> = names
        .iter()
        .map(|(name, mib)| (name.as_str(), *mib))
        .collect();
    for (place, (name, mib)) in named.into_iter().enumerate() {
        let mut decision = usual[place % usual.len()].clone();
        decision.id = WorkloadId::new(name);
        decision.bandwidth.bytes_per_sec =
            weir_core::BytesPerSec::new(f64::from(mib) * 1_048_576.0);
        snapshot.plan.workloads.push(decision);
    }
    snapshot
}

/// What a client knows, by the rules of the stream.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    rows: BTreeMap<i64, (String, Vec<i64>, String)>,
    base: Value,
    words: Value,
    names: Value,
    devices: Value,
    head: Value,
    points: Vec<i64>,
    changes: Vec<Value>,
}

impl Known {
    fn hear(&mut self, event: &[u8]) {
        let text = std::str::from_utf8(event).unwrap();
        let (kind, rest) = text.split_once('\n').unwrap();
        let json = rest
            .strip_prefix("data: ")
            .unwrap()
            .strip_suffix("\n\n")
            .unwrap();
        assert!(!json.contains(['\n', '\r']), "an event is one line");
        if kind == "event: full" {
            *self = Known::default();
        }
        let said: Value = serde_json::from_str(json).unwrap();
        let list = |key: &str| said[key].as_array().cloned().unwrap_or_default();
        let int = |value: &Value| value.as_i64().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        for slot in list("gone") {
            assert!(
                self.rows.remove(&int(&slot)).is_some(),
                "{slot} was not there"
            );
        }
        for row in list("rows").chunks(3) {
            let new = (text(&row[1]), vec![figures::UNKNOWN; 8], String::new());
            assert!(self.rows.insert(int(&row[0]), new).is_none());
        }
        let figures: Vec<i64> = list("f").iter().map(int).collect();
        let mut left = figures.iter().copied();
        while let (Some(slot), Some(which)) = (left.next(), left.next()) {
            let row = self.rows.get_mut(&slot).unwrap();
            for place in (0..8).filter(|place| (which >> place) & 1 == 1) {
                row.1[place] = left.next().unwrap();
            }
        }
        for why in list("why").chunks(2) {
            self.rows.get_mut(&int(&why[0])).unwrap().2 = text(&why[1]);
        }
        self.points.extend(list("points").iter().map(int));
        self.changes.extend(list("changes"));
        for (key, kept) in [
            ("base", &mut self.base),
            ("words", &mut self.words),
            ("names", &mut self.names),
            ("devices", &mut self.devices),
            ("head", &mut self.head),
        ] {
            if let Some(value) = said.get(key) {
                *kept = value.clone();
            }
        }
    }

    fn hear_all(&mut self, events: &EventStream) {
        for event in events.coming.try_iter() {
            self.hear(&event);
        }
    }
}

/// Sends a snapshot, as one tick of the loop.
fn send(page: &mut LivePage, snapshot: &Snapshot) {
    let tick = Tick {
        wall_unix_ms: snapshot.wall_unix_ms,
        plan: snapshot.plan.clone(),
        ..Tick::default()
    };
    page.count(&tick, &[]);
    page.send(snapshot);
}

/// The same rows; their numbers on the page are no figures.
fn rows(known: &Known) -> Vec<(String, Vec<i64>, String)> {
    let mut rows: Vec<_> = known.rows.values().cloned().collect();
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes and goes, what changes leads to the same as all at once.
    #[test]
    fn a_client_that_follows_knows_what_a_new_one_gets(
        steps in prop::collection::vec(
            prop::collection::vec(("/[a-c]{1,2}(/[\"<\u{202e}a]{0,2})?", 0u32..2000), 0..40), 1..8)
    ) {
        let StartedPage {
            mut page, audience, ..
        } = started();
        let first = audience.join().unwrap();
        let mut follows = Known::default();
        for (number, names) in steps.iter().enumerate() {
            let at_ms = 1_000_000 + number as u64 * 100;
            send(&mut page, &with(names, at_ms));
            follows.hear_all(&first);
            // Sentences come in turn.
            send(&mut page, &with(names, at_ms));
            send(&mut page, &with(names, at_ms));
            let new = audience.join().unwrap();
            send(&mut page, &with(names, at_ms));
            follows.hear_all(&first);
            let mut begins = Known::default();
            begins.hear_all(&new);
            prop_assert_eq!(rows(&follows), rows(&begins));
            prop_assert_eq!(&follows.words, &begins.words);
            prop_assert_eq!(&follows.names, &begins.names);
            prop_assert_eq!(&follows.devices, &begins.devices);
            prop_assert_eq!(&follows.head, &begins.head);
            prop_assert_eq!(&follows.points, &begins.points);
        }
    }
}

#[test]
fn figures_are_those_of_the_snapshot_and_names_are_harmless() {
    let StartedPage {
        mut page, audience, ..
    } = started();
    let client = audience.join().unwrap();
    let hostile = "/<img src=x onerror=alert(1)>\u{202e}\u{1b}[2J\r\n\r\ndata: {}";
    let names = [(hostile.to_owned(), 300), ("/b".to_owned(), 12)];
    let snapshot = with(&names, 1_000_000);
    send(&mut page, &snapshot);
    let mut known = Known::default();
    known.hear_all(&client);
    let rows: Vec<_> = known.rows.values().collect();
    assert_eq!(rows.len(), 2);
    let name = "/<img src=x onerror=alert(1)>\\u{202e}\\u{1b}[2J\\u{d}\\u{a}\\u{d}\\u{a}data: {}";
    assert_eq!(rows[0].0, name);
    let decision = &snapshot.plan.workloads[0];
    assert_eq!(rows[0].1[0], 307_000, "300 MiB in KiB, of three digits");
    assert_eq!(rows[0].1[4], figures::milli(decision.limit_cpus));
    assert!(rows[0].2.starts_with("limited by max-min"), "{}", rows[0].2);
    let word = usize::try_from(rows[0].1[7]).unwrap();
    assert_eq!(known.words[word], "limited");
    assert_eq!(known.devices[0]["bandwidth_kib_per_sec"], 102_000);
    assert_eq!(known.devices[0]["set_point_kib_per_sec"], 164_000);
    assert_eq!(known.devices[0]["latency"], "latency 412 ns by probe");
    assert_eq!(known.names[0]["name"], "weir_cxl0");
}

#[test]
fn nothing_is_made_while_no_page_is_open_and_what_costs_much_comes_seldom() {
    let StartedPage {
        mut page, audience, ..
    } = started();
    let snapshot = with(&[("/a".into(), 5)], 1_000_000);
    page.leave(&snapshot);
    assert!(page.last.is_none());
    let client = audience.join().unwrap();
    page.leave(&snapshot);
    assert!(page.last.is_some());
    assert_eq!(client.coming.try_iter().count(), 1);
    for (cost_us, wanted_ms) in [(0, 100), (300, 100), (1000, 333), (1_000_000, 2000)] {
        let spacing = spacing(Duration::from_micros(cost_us));
        assert_eq!(spacing.as_millis(), wanted_ms, "{cost_us} µs");
    }
}

#[test]
fn a_limit_that_is_older_than_the_page_has_its_own_beginning() {
    let StartedPage {
        mut page, audience, ..
    } = started();
    let named = [("/a".to_owned(), 300)];
    send(&mut page, &with(&named, 1_000_000));
    let client = audience.join().unwrap();
    let mut snapshot = with(&named, 2_000_000);
    let id = snapshot.plan.workloads[0].id.clone();
    snapshot.limited_since_unix_ms = [(id, 1_000_500)].into();
    send(&mut page, &snapshot);
    let mut known = Known::default();
    known.hear_all(&client);
    assert_eq!(known.base, 1_000_000);
    assert_eq!(known.rows.values().next().unwrap().1[6], 500);
}

#[test]
fn a_clock_set_back_begins_anew() {
    let StartedPage {
        mut page, audience, ..
    } = started();
    let client = audience.join().unwrap();
    let mut known = Known::default();
    for at_ms in [2_000_000, 2_000_500, 2_001_000, 1_000_000] {
        send(&mut page, &with(&[("/a".into(), 5)], at_ms));
        known.hear_all(&client);
    }
    assert!(known.points.is_empty(), "of a time that is not over");
    assert_eq!(known.rows.len(), 1);
}

#[test]
fn the_page_is_read_and_nothing_else_is_possible() {
    let StartedPage { address, .. } = started();
    let text = response_to(address, "GET /?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for wanted in [
        "HTTP/1.1 200 OK\r\n",
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-",
        "X-Content-Type-Options: nosniff\r\n",
        "Cache-Control: no-store\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
        "<!doctype html>",
        "</html>",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    for (request, status) in [
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("DELETE /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        (
            "GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "404",
        ),
        (
            "HEAD /events HTTP/1.1\r\nHost: rebound.example\r\n\r\n",
            "421",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "421"),
        (
            "HEAD /events HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n",
            "403",
        ),
        ("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"),
        ("\u{1}\r\n\r\n", "400"),
    ] {
        let text = response_to(address, request);
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request:?}: {text}"
        );
        assert!(!text.contains("Access-Control"), "{text}");
    }
    let huge = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let text = response_to(address, &huge);
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 431 "),
        "{text}"
    );
}

#[test]
fn a_page_off_loopback_needs_a_token_that_cannot_be_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let start = |address: &str, token: Option<&str>| {
        let path = dir.path().join("token");
        if let Some(token) = token {
            std::fs::write(&path, token).unwrap();
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let file = token.map(|_| path.as_path());
        OfferedPage::start(address.parse().unwrap(), file)
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9780"] {
        let error = start(address, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("--page-token-file"), "{address}: {error}");
    }
    let error = start("0.0.0.0:0", Some("short")).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("could be guessed"), "{error}");
    let token = "0123456789abcdef";
    let page = start("0.0.0.0:0", Some(token)).unwrap();
    let here = SocketAddr::from(([127, 0, 0, 1], page.address.port()));
    let ask = |headers: &str| {
        let mut stream = TcpStream::connect(here).unwrap();
        write!(stream, "GET / HTTP/1.1\r\n{headers}\r\n").unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    let text = ask("Host: a.example\r\n");
    assert!(
        text.starts_with("HTTP/1.1 401 ") && text.contains("WWW-Authenticate: Basic"),
        "{text}"
    );
    assert!(!text.contains(token));
    let text = ask(&format!(
        "Host: a.example\r\nAuthorization: Bearer {token}\r\n"
    ));
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// The loop never waits for it: the queue is full, and the client is left.
#[test]
fn a_client_that_reads_nothing_is_left() {
    let StartedPage {
        mut page,
        audience,
        address,
    } = started();
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    while !audience.is_there().0 {
        std::thread::yield_now();
    }
    // Larger than what the kernel keeps for a connection.
    let names: Vec<(String, u32)> = (0..1000)
        .map(|n| (format!("/{n}{}", "x".repeat(1000)), n))
        .collect();
    for at_ms in (1..=100).map(|n| 1_000_000 + n * 100) {
        if !audience.is_there().0 {
            break;
        }
        page.is_new = true;
        send(&mut page, &with(&names, at_ms));
    }
    assert!(!audience.is_there().0);
}
