// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTTP/1.1 for the metrics and for the live page. Clients may be slow, wrong or hostile: each connection has
//! one request, few bytes and little time ([`server`]), and a place that it may lose ([`clients`]). A stream
//! of events lasts longer; its giver bounds how many there are, and a client that does not take an event in
//! time is left.

pub mod access;
mod clients;
mod server;

use server::Server;
pub use server::answer_to;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A request's head may have so many bytes.
const HEAD_MAX_BYTES: usize = 8192;
const HEADERS_MAX: usize = 64;
/// A client takes an event of a stream within this time.
const PATIENCE: Duration = Duration::from_secs(5);
const PIECE_BYTES: usize = 64 << 10;

/// A stream without events gets a comment so often: a client that has gone is noticed.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

pub struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Arc<str>,
    headers: Vec<(&'static str, String)>,
}

impl Answer {
    /// The path of the request.
    pub fn page(kind: &'static str, body: impl Into<Arc<str>>) -> Answer {
        Answer {
            status: "200 OK",
            kind,
            body: body.into(),
            headers: Vec::new(),
        }
    }

    pub fn error(status: &'static str, body: &str) -> Answer {
        Answer {
            status,
            ..Answer::page("text/plain; charset=utf-8", body)
        }
    }

    /// The answer with one more header. Its value has no line break.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    fn head(&self, length: Option<usize>) -> String {
        let (status, kind) = (self.status, self.kind);
        let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n");
        if let Some(length) = length {
            head += &format!("Content-Length: {length}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "Connection: close\r\n\r\n"
    }
}

/// Events on their way to one client, each with its end. The giver ends them.
pub struct EventStream {
    pub coming: Receiver<Arc<[u8]>>,
    /// Dropped when the client has gone.
    pub _place: Box<dyn Send>,
}

pub enum Reply {
    Whole(Answer),
    /// A head, and then events as they come.
    Stream(Answer, EventStream),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Whole(answer)
    }
}

/// A GET or HEAD, read as far as its head.
pub struct Request<'a> {
    path: &'a str,
    headers: &'a [httparse::Header<'a>],
}

impl Request<'_> {
    /// The path without what follows the `?`.
    pub fn path(&self) -> &str {
        self.path
    }

    /// The value of the first such header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.named(name);
        std::str::from_utf8(found.next()?.value).ok()
    }

    /// The values of all such headers, of those that are text.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.named(name)
            .filter_map(|header| std::str::from_utf8(header.value).ok())
    }

    /// The same of a header that may be there once only.
    pub fn only(&self, name: &str) -> Option<&str> {
        let is_one = self.named(name).count() == 1;
        self.header(name).filter(|_| is_one)
    }

    fn named<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s httparse::Header<'s>> {
        let is_it = move |header: &&httparse::Header| header.name.eq_ignore_ascii_case(name);
        self.headers.iter().filter(is_it)
    }
}

pub type Source = Arc<dyn Fn(&Request<'_>) -> Reply + Send + Sync>;

/// Answers until the process ends.
///
/// # Errors
/// No thread can be had.
pub fn serve(name: &'static str, listener: TcpListener, source: Source) -> io::Result<()> {
    let mut server = Server::new(name, listener, source)?;
    let thread = thread::Builder::new().name(name.into());
    thread.spawn(move || {
        // A fault of our own costs a turn, and not the listener.
        while catch_unwind(AssertUnwindSafe(|| server.run())).is_err() {
            thread::sleep(server::PAUSE);
        }
    })?;
    Ok(())
}

/// Until the giver ends it, or the client does not take an event in time.
fn pass_on(stream: &mut TcpStream, events: &EventStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    // Events are whole, and wait for no more.
    stream.set_nodelay(true)?;
    loop {
        let event = events.coming.recv_timeout(ALIVE_EVERY);
        let bytes = match &event {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Timeout) => &b":\n\n"[..],
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        write_all(stream, bytes, Instant::now() + PATIENCE)?;
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(ErrorKind::TimedOut.into())
    } else {
        Ok(left)
    }
}

/// Whether there is a request up to the empty line, or as much as is taken. Empty lines before it are not its
/// end (RFC 9112, 2.2): else the answer would depend on the pieces in which a client sends.
fn is_complete(head: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let begin = head.iter().position(|byte| !is_end(byte));
    let begun = &head[begin.unwrap_or(head.len())..];
    head.len() >= HEAD_MAX_BYTES || begun.windows(4).any(|four| four == b"\r\n\r\n")
}

fn write_all(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        // The answer is written in pieces: a write of much may go on for long, byte by byte.
        let count = stream.write(&bytes[..bytes.len().min(PIECE_BYTES)])?;
        bytes = bytes.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// The reply, and whether its body is wanted.
fn respond(head: &[u8], source: &Source) -> (Reply, bool) {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(head);
    let is_too_much = match parsed {
        Ok(status) => status.is_partial() && head.len() >= HEAD_MAX_BYTES,
        Err(why) => why == httparse::Error::TooManyHeaders,
    };
    if is_too_much {
        let what = format!("at most {HEADERS_MAX} headers, of {HEAD_MAX_BYTES} bytes together\n");
        let answer = Answer::error("431 Request Header Fields Too Large", &what);
        return (answer.into(), true);
    }
    let is_whole = parsed.is_ok_and(|status| status.is_complete());
    let (true, Some(method), Some(path)) = (is_whole, request.method, request.path) else {
        let answer = Answer::error("400 Bad Request", "this is no request\n");
        return (answer.into(), true);
    };
    let is_head = method == "HEAD";
    if method != "GET" && !is_head {
        let answer = Answer::error("405 Method Not Allowed", "only GET\n");
        return (answer.with("Allow", "GET, HEAD").into(), true);
    }
    let request = Request {
        path: path.split('?').next().unwrap_or_default(),
        headers: request.headers,
    };
    // A fault in an answer is the end of that answer only.
    let reply = catch_unwind(AssertUnwindSafe(|| source(&request)));
    let fault = |_| Answer::error("500 Internal Server Error", "a fault of weir\n").into();
    (reply.unwrap_or_else(fault), !is_head)
}

/// What tests of those that answer need, too.
#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;
    use std::net::SocketAddr;

    fn source() -> Source {
        Arc::new(|request| {
            if request.path() != "/metrics" {
                return Answer::error("404 Not Found", "no\n").into();
            }
            let accept = request.header("accept").unwrap_or_default();
            let open = accept.contains("application/openmetrics-text");
            Answer::page("text/plain", format!("open: {open}\n").repeat(1000)).into()
        })
    }

    /// The answer's status, where there is an answer.
    pub fn status(answer: Option<&Answer>) -> Option<&str> {
        answer.map(|answer| answer.status.split(' ').next().unwrap_or_default())
    }

    /// Calls `then` with a request as it was read.
    pub fn with_request<T>(head: &[u8], then: impl FnOnce(&Request<'_>) -> T) -> T {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        assert!(request.parse(head).unwrap().is_complete());
        let path = request.path.unwrap();
        then(&Request {
            path,
            headers: request.headers,
        })
    }

    pub fn text_of(answer: &Answer) -> String {
        answer.head(Some(answer.body.len())) + &answer.body
    }

    fn started() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve("test", listener, source()).unwrap();
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
        let head = response_to(address, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(
            head.contains("Content-Length: 12000") || head.contains("Content-Length: 12"),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        for (request, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
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
    fn a_head_that_is_too_large_is_told_from_one_that_is_none() {
        let begin = "GET /metrics HTTP/1.1\r\n";
        let long = format!("{begin}A: {}", "a".repeat(HEAD_MAX_BYTES));
        let many = format!("{begin}{}\r\n", "A: a\r\n".repeat(HEADERS_MAX + 1));
        let most = format!("{begin}{}\r\n", "A: a\r\n".repeat(HEADERS_MAX));
        for (head, status) in [
            (long, "431"),
            (many, "431"),
            (most, "200"),
            (begin.into(), "400"),
        ] {
            let (Reply::Whole(answer), _) = respond(head.as_bytes(), &source()) else {
                panic!("{head}");
            };
            assert!(
                answer.status.starts_with(status),
                "{head}: {}",
                answer.status
            );
        }
    }

    /// Connects from this address of the machine itself.
    fn connected(from: [u8; 4], to: SocketAddr) -> TcpStream {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        );
        let socket = socket.unwrap();
        rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        socket.into()
    }

    const REQUEST: &str = "GET /metrics HTTP/1.1\r\n\r\n";

    #[test]
    fn the_pieces_in_which_a_request_comes_do_not_matter() {
        for before in ["", "\n", "\r\n", "\r\n\r\n", "\n\r\n\r\n"] {
            let request = format!("{before}{REQUEST}");
            let bytes = request.as_bytes();
            let first = (0..=bytes.len()).find(|length| is_complete(&bytes[..*length]));
            assert_eq!(first, Some(bytes.len()), "{request:?}");
            let (head, _) = answer_to(bytes, &source()).unwrap();
            assert!(head.starts_with(b"HTTP/1.1 200 "), "{request:?}");
        }
        assert!(is_complete(&[b'\n'; HEAD_MAX_BYTES]));
    }

    fn scrape(from: [u8; 4], to: SocketAddr) -> String {
        let mut stream = connected(from, to);
        stream.write_all(REQUEST.as_bytes()).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn a_thousand_idle_connections_keep_neither_their_own_client_nor_others_out() {
        let address = started();
        let (theirs, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
        let mut idle = Vec::new();
        let mut renew = |count: usize| {
            for number in 0..count {
                let mut stream = connected(theirs, address);
                // Half of a request is none.
                let part = &REQUEST.as_bytes()[..number % REQUEST.len()];
                let _ = stream.write_all(part);
                idle.push(stream);
                // Descriptors of this process are few.
                if idle.len() > 300 {
                    idle.remove(0);
                }
            }
        };
        renew(1000);
        for round in 0..20 {
            for from in [theirs, other] {
                let answer = scrape(from, address);
                assert!(
                    answer.ends_with("open: false\n"),
                    "{round}, {from:?}: {answer}"
                );
            }
            renew(40);
        }
    }

    #[test]
    fn clients_that_take_no_answer_lose_their_places() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body = "x".repeat(16 << 20);
        let source: Source = Arc::new(move |_| Answer::page("text/plain", body.clone()).into());
        serve("test", listener, source).unwrap();
        let from = [127, 0, 0, 1];
        let stalled: Vec<TcpStream> = (0..clients::CLIENT_MAX + 8)
            .map(|_| {
                let mut stream = connected(from, address);
                stream.write_all(REQUEST.as_bytes()).unwrap();
                stream
            })
            .collect();
        assert_eq!(scrape(from, address).len() >> 20, 16);
        drop(stalled);
    }

    #[test]
    fn a_fault_in_one_answer_leaves_the_others() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let source: Source = Arc::new(|request| {
            if request.path() == "/bad" {
                std::panic::resume_unwind(Box::new("a test"));
            }
            Answer::page("text/plain", "good").into()
        });
        serve("test", listener, source).unwrap();
        let bad = response_to(address, "GET /bad HTTP/1.1\r\n\r\n");
        assert!(bad.starts_with("HTTP/1.1 500 "), "{bad}");
        assert!(response_to(address, REQUEST).ends_with("good"));
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
