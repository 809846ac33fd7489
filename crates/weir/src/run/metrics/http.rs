// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One page over HTTP/1.1. Clients may be slow, wrong or hostile: each connection has one request, few bytes,
//! little time and a thread of its own, and there are only a few at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A request's head may have so many bytes.
const HEAD_MAX_BYTES: usize = 8192;
const HEADERS_MAX: usize = 64;
/// From the first byte of the request to the last of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at once; more are closed unanswered.
const CONNECTIONS_MAX: usize = 8;
const PIECE_BYTES: usize = 64 << 10;

/// What there is. It holds no name of a workload, so nothing in it can be hostile.
const FRONT_PAGE: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>weir</title>\n<h1>weir ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>weir keeps CXL memory fast, and shows which workload uses how much of it.\n\
     <ul>\n<li><a href=\"/metrics\">/metrics</a>: devices, cgroups, limits and weir itself, \
     for Prometheus and its kin. OpenMetrics 1.0 for clients that accept it.\n</ul></html>\n"
);

/// What is sent.
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    /// The path of the request.
    pub fn page(kind: &'static str, body: String) -> Answer {
        let status = "200 OK";
        Answer { status, kind, body }
    }

    /// Why it cannot be had.
    pub fn error(status: &'static str, body: &str) -> Answer {
        let kind = "text/plain; charset=utf-8";
        let body = body.to_owned();
        Answer { status, kind, body }
    }
}

/// Makes the page; whether the client reads OpenMetrics is said.
pub type Source = Arc<dyn Fn(bool) -> Answer + Send + Sync>;

/// Answers until the process ends.
///
/// # Errors
/// No thread can be had.
pub fn serve(listener: TcpListener, source: Source) -> io::Result<()> {
    let thread = thread::Builder::new().name("weir-metrics".into());
    thread.spawn(move || accept(&listener, &source))?;
    Ok(())
}

fn accept(listener: &TcpListener, source: &Source) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Out of descriptors, for example: that passes, and must not take a whole CPU.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let place = RequestPath(Arc::clone(&open));
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        let source = Arc::clone(source);
        let thread = thread::Builder::new().name("weir-metrics-1".into());
        // Without a thread the connection is closed: the client tries again.
        let _ = thread.spawn(move || {
            let _place = place;
            // A client that closed the connection gets no answer.
            let _ = converse(stream, &source);
        });
    }
}

/// One of the connections; it is freed whatever ends it.
struct RequestPath(Arc<AtomicUsize>);

impl Drop for RequestPath {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(mut stream: TcpStream, source: &Source) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let head = read_head(&mut stream, until)?;
    let (answer, with_body) = respond(&head, source);
    let mut bytes = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    )
    .into_bytes();
    if with_body {
        bytes.extend_from_slice(answer.body.as_bytes());
    }
    for piece in bytes.chunks(PIECE_BYTES) {
        write_all(&mut stream, piece, until)?;
    }
    Ok(())
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

/// What was sent up to the empty line, or as much as is taken.
fn read_head(stream: &mut TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_MAX_BYTES {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&piece[..count]),
        }
    }
    Ok(head)
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let count = stream.write(bytes)?;
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// The answer, and whether its body is wanted.
fn respond(head: &[u8], source: &Source) -> (Answer, bool) {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = request.parse(head).is_ok_and(|status| status.is_complete());
    let (true, Some(method), Some(path)) = (is_whole, request.method, request.path) else {
        return (
            Answer::error("400 Bad Request", "this is no request\n"),
            true,
        );
    };
    let is_head = method == "HEAD";
    if method != "GET" && !is_head {
        return (Answer::error("405 Method Not Allowed", "only GET\n"), true);
    }
    let path = path.split('?').next().unwrap_or_default();
    match path {
        "/metrics" => {}
        "/" => {
            let kind = "text/html; charset=utf-8";
            return (Answer::page(kind, FRONT_PAGE.to_owned()), !is_head);
        }
        _ => {
            let what = "the metrics are at /metrics, what else there is at /\n";
            return (Answer::error("404 Not Found", what), !is_head);
        }
    }
    let wants = |header: &&httparse::Header| header.name.eq_ignore_ascii_case("accept");
    let accepts = request
        .headers
        .iter()
        .find(wants)
        .map_or(&b""[..], |header| header.value);
    let open_metrics = String::from_utf8_lossy(accepts).contains("application/openmetrics-text");
    (source(open_metrics), !is_head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn source() -> Source {
        Arc::new(|open| Answer::page("text/plain", format!("open: {open}\n").repeat(1000)))
    }

    fn started() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, source()).unwrap();
        address
    }

    fn response_to(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn one_page_and_errors_for_all_else() {
        let address = started();
        let page = response_to(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("open: false\n"),
            "{page}"
        );
        let accept = "GET /metrics HTTP/1.1\r\nACCEPT: application/openmetrics-text;version=1.0.0,*/*\r\n\r\n";
        assert!(response_to(address, accept).ends_with("open: true\n"));
        let front = response_to(address, "GET / HTTP/1.1\r\n\r\n");
        assert!(front.contains("Content-Type: text/html"), "{front}");
        assert!(front.contains("<a href=\"/metrics\">"), "{front}");
        let head = response_to(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            head.contains("Content-Length: 12000") || head.contains("Content-Length: 12"),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /else HTTP/1.1\r\n\r\n", "404"),
            ("GET /../metrics HTTP/1.1\r\n\r\n", "404"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
        ] {
            let text = response_to(address, request);
            assert!(
                text.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request:?}: {text}"
            );
        }
    }

    #[test]
    fn silent_connections_do_not_keep_others_out() {
        let address = started();
        let idle: Vec<TcpStream> = (0..CONNECTIONS_MAX + 3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        // Refused until the patience with the others is at its end.
        while !response_to(address, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("open: false\n") {
            thread::yield_now();
        }
        drop(idle);
    }

    proptest! {
        #[test]
        fn no_request_panics(head in prop::collection::vec(any::<u8>(), 0..300), get: bool) {
            let mut bytes = if get { b"GET /metrics".to_vec() } else { Vec::new() };
            bytes.extend(head);
            respond(&bytes, &source());
        }
    }
}
