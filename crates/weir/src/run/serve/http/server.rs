// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one thread that has all connections. It never waits for one of them: a connection that is idle, slow
//! or never ends costs a descriptor and a few bytes until its time is over, or until another needs its place.
//!
//! ```text
//!   accept ─► Asking ─► the whole head ─► respond ─► Answering ─► closed
//!              5 s to be complete                     10 s        or a stream of events: a thread of its own
//! ```
//!
//! What has arrived is read before a place is taken from a connection, so that one whose request is there is
//! not taken for idle.

use super::clients::{ClientAddress, Standing, loser};
use super::{EventStream, Reply, Source, is_complete, pass_on, respond};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time from the connection to the last byte of the request.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// Longest time from there to the last byte of the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Connections that are accepted before the others have their turn.
const ACCEPTS_MAX: usize = 64;
/// Bytes for one connection before the others have their turn.
const TURN_BYTES: usize = 256 << 10;
/// Out of descriptors, for example: that passes, and must not take a whole CPU.
pub const PAUSE: Duration = Duration::from_millis(100);

struct AnswerRest {
    head: Vec<u8>,
    body: Arc<str>,
    sent: usize,
    then: Option<EventStream>,
}

enum Stage {
    Asking(Vec<u8>),
    Answering(AnswerRest),
}

struct Connection {
    stream: TcpStream,
    stage: Stage,
    until: Instant,
}

/// What a turn of one connection came to.
enum Progress {
    /// It waits for the client. Whether the client took or gave something.
    Waits(bool),
    Over,
}

pub struct Server {
    name: &'static str,
    listener: TcpListener,
    source: Source,
    open: BTreeMap<u64, Connection>,
    places: BTreeMap<u64, (ClientAddress, Standing)>,
    /// Connections and parts of answers so far.
    count: u64,
    paused_until: Option<Instant>,
}

impl Server {
    /// # Errors
    /// The listener cannot be made to return at once.
    pub fn new(name: &'static str, listener: TcpListener, source: Source) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        Ok(Server {
            name,
            listener,
            source,
            open: BTreeMap::new(),
            places: BTreeMap::new(),
            count: 0,
            paused_until: None,
        })
    }

    /// Answers until the process ends.
    pub fn run(&mut self) {
        loop {
            let (ready, has_comers) = self.wait();
            for number in ready {
                self.turn(number);
            }
            if has_comers {
                self.accept();
            }
            let now = Instant::now();
            let late = self.open.iter().filter(|(_, one)| one.until <= now);
            let late: Vec<u64> = late.map(|(number, _)| *number).collect();
            late.into_iter().for_each(|number| self.close(number));
        }
    }

    /// The connections that can go on, and whether there are new ones.
    fn wait(&mut self) -> (Vec<u64>, bool) {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|until| *until > now);
        let ends = self.open.values().map(|one| one.until);
        let next = ends.chain(self.paused_until).min();
        let timeout = next.map(|next| timespec(next.saturating_duration_since(now)));
        let mut fds: Vec<PollFd<'_>> = self.open.values().map(Connection::poll).collect();
        if self.paused_until.is_none() {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        // Interrupted, or out of memory: nothing is ready, and the next turn asks again.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            thread::yield_now();
            return (Vec::new(), false);
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let pairs = self.open.keys().zip(&is_ready);
        let ready = pairs.filter(|(_, is_ready)| **is_ready);
        let has_comers = is_ready.get(self.open.len()).copied().unwrap_or(false);
        (ready.map(|(number, _)| *number).collect(), has_comers)
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, peer)) => self.admit(stream, ClientAddress::of(peer.ip())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_the_client(error.kind()) => {}
                Err(_) => {
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, client: ClientAddress) {
        // It waits for no client; one that cannot be had so is closed.
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        while let Some(number) = loser(&self.places, client) {
            // What it has sent meanwhile may be a whole request.
            let was = self.places.get(&number).map(|(_, standing)| *standing);
            self.turn(number);
            let is = self.places.get(&number).map(|(_, standing)| *standing);
            if was == is {
                self.close(number);
            }
        }
        self.count += 1;
        let number = self.count;
        let stage = Stage::Asking(Vec::new());
        let until = Instant::now() + ASK_WITHIN;
        let connection = Connection {
            stream,
            stage,
            until,
        };
        self.open.insert(number, connection);
        self.places
            .insert(number, (client, Standing::Asking(number)));
        self.turn(number);
    }

    fn turn(&mut self, number: u64) {
        let Some(connection) = self.open.get_mut(&number) else {
            return;
        };
        match connection.turn(&self.source) {
            Ok(Progress::Waits(has_moved)) => {
                if let (true, Stage::Answering(_), Some((_, standing))) =
                    (has_moved, &connection.stage, self.places.get_mut(&number))
                {
                    self.count += 1;
                    *standing = Standing::Answering(self.count);
                }
            }
            Ok(Progress::Over) => self.finish(number),
            // The client has gone, or sent an end instead of a request.
            Err(_) => self.close(number),
        }
    }

    fn close(&mut self, number: u64) {
        self.open.remove(&number);
        self.places.remove(&number);
    }

    /// Its answer is out; a stream goes on in a thread of its own, of which its giver bounds the number.
    fn finish(&mut self, number: u64) {
        let connection = self.open.remove(&number);
        self.places.remove(&number);
        let Some(Connection {
            mut stream,
            stage: Stage::Answering(AnswerRest { then, .. }),
            ..
        }) = connection
        else {
            return;
        };
        match then {
            None => {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            Some(events) => {
                let thread = thread::Builder::new().name(format!("{}-1", self.name));
                // Without a thread the connection is closed: the client tries again.
                let _ = thread.spawn(move || {
                    // A client that closed the connection gets no more.
                    let _ = pass_on(&mut stream, &events);
                });
            }
        }
    }
}

impl Connection {
    fn poll(&self) -> PollFd<'_> {
        let flags = match self.stage {
            Stage::Asking(_) => PollFlags::IN,
            Stage::Answering(_) => PollFlags::OUT,
        };
        PollFd::new(&self.stream, flags)
    }

    fn turn(&mut self, source: &Source) -> io::Result<Progress> {
        let mut has_moved = false;
        if let Stage::Asking(head) = &mut self.stage {
            if !read_head(&mut self.stream, head)? {
                return Ok(Progress::Waits(false));
            }
            self.stage = Stage::Answering(outgoing(head, source));
            self.until = Instant::now() + ANSWER_WITHIN;
            has_moved = true;
        }
        if let Stage::Answering(answer) = &mut self.stage {
            let before = answer.sent;
            if answer.write(&mut self.stream)? {
                return Ok(Progress::Over);
            }
            has_moved |= answer.sent > before;
        }
        Ok(Progress::Waits(has_moved))
    }
}

impl AnswerRest {
    /// Whether all is out.
    fn write(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let turn_end = self.sent + TURN_BYTES;
        loop {
            let body = self.body.as_bytes();
            let rest = match self.head.get(self.sent..) {
                Some(head) if !head.is_empty() => head,
                _ => body.get(self.sent - self.head.len()..).unwrap_or_default(),
            };
            if rest.is_empty() {
                return Ok(true);
            }
            if self.sent >= turn_end {
                return Ok(false);
            }
            match stream.write(&rest[..rest.len().min(TURN_BYTES)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Head and body of the answer to what has arrived so far; nothing while a client is waited for. Events of a
/// stream are not in it.
pub fn answer_to(arrived: &[u8], source: &Source) -> Option<(Vec<u8>, Arc<str>)> {
    let answer = is_complete(arrived).then(|| outgoing(arrived, source))?;
    Some((answer.head, answer.body))
}

/// What is answered to a whole head.
fn outgoing(head: &[u8], source: &Source) -> AnswerRest {
    let (reply, with_body) = respond(head, source);
    let (answer, events) = match reply {
        Reply::Whole(answer) => (answer, None),
        Reply::Stream(answer, events) => (answer, Some(events)),
    };
    let length = events.is_none().then_some(answer.body.len());
    AnswerRest {
        head: answer.head(length).into_bytes(),
        body: if with_body { answer.body } else { "".into() },
        sent: 0,
        then: events.filter(|_| with_body),
    }
}

/// Takes what is there. Whether that is a request, or as much as is taken.
fn read_head(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => head.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        if is_complete(head) {
            return Ok(true);
        }
    }
}

/// The connection ended before it was accepted, or a signal came.
fn is_of_the_client(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Rounded up: a wait that ends too early would be followed by another.
fn timespec(span: Duration) -> Timespec {
    let span = span + Duration::from_millis(1);
    Timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}
