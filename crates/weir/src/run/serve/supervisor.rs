// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The writer's thread that minds the server: starts it, feeds it, hears it, and starts it again with ever
//! longer pauses. It alone waits for the server; what it does not take is lost, and the loop goes on.

use super::wire::{Frame, REPORT_BYTES, Report};
use super::{ServerSetup, ServerState, child};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fmt::Display;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The pause after the first end; it doubles up to the second, and begins anew after a long life.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MOST: Duration = Duration::from_secs(60);
const LONG_LIFE: Duration = Duration::from_secs(120);
/// A server that takes no byte for so long is stuck, and ended.
const TAKES_WITHIN: Duration = Duration::from_secs(5);
/// Time between two looks at whether it lives, and whether weir ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Least time between two of its reports: it cannot keep the writer busy.
const REPORT_SPACING: Duration = Duration::from_millis(10);
/// How long an ordered end may take, for batches that are on their way.
const END_WITHIN: Duration = Duration::from_secs(3);

/// A server that runs.
struct RunningServer {
    process: Child,
    stream: UnixStream,
    /// Its end of the stream is open.
    is_heard: Arc<AtomicBool>,
}

/// Starts the server, and starts it again whenever it ends. Returns when weir ends.
pub fn supervise(
    mut setup: ServerSetup,
    listeners: &[TcpListener],
    frames: &Receiver<Frame>,
    shared: &Arc<ServerState>,
) {
    let mut pause = PAUSE_FIRST;
    let has_ended = || shared.ends.load(Ordering::Relaxed);
    while !has_ended() {
        let began = Instant::now();
        let why = match RunningServer::start(&setup, listeners, shared) {
            Ok(mut server) => {
                if !setup.is_first {
                    info!(
                        "metrics, page and push have a process again ({})",
                        server.process.id()
                    );
                }
                let why = server.feed(frames, shared);
                server.end(has_ended());
                why
            }
            Err(error) => format!("cannot be started: {error}"),
        };
        shared.is_gone();
        if has_ended() {
            return;
        }
        if began.elapsed() >= LONG_LIFE {
            pause = PAUSE_FIRST;
        }
        setup.is_first = false;
        warn!(
            "the process for metrics, page and push {why}; the loop and its limits go on, it is started again in \
             {pause:?}"
        );
        drop_for(pause, frames, shared);
        shared.restarts.fetch_add(1, Ordering::Relaxed);
        pause = (pause * 2).min(PAUSE_MOST);
    }
}

/// What comes meanwhile is lost: texts and events are made anew, and batches are tried again.
fn drop_for(pause: Duration, frames: &Receiver<Frame>, shared: &ServerState) {
    let until = Instant::now() + pause;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.ends.load(Ordering::Relaxed) {
            return;
        }
        match frames.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(Frame::Batch(..)) => *shared.batch() = None,
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl RunningServer {
    fn start(
        setup: &ServerSetup,
        listeners: &[TcpListener],
        shared: &Arc<ServerState>,
    ) -> io::Result<RunningServer> {
        let (stream, its) = UnixStream::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0("weir")
            .arg(child::WORD)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(its))
            .stdout(Stdio::null())
            // Ctrl-C is for the writer, which ends it.
            .process_group(0)
            .spawn()?;
        let is_heard = Arc::new(AtomicBool::new(true));
        let mut server = RunningServer {
            process,
            stream,
            is_heard,
        };
        let begun = server.begin(setup, listeners, shared);
        if begun.is_err() {
            server.end(false);
        }
        begun.map(|()| server)
    }

    fn begin(
        &mut self,
        setup: &ServerSetup,
        listeners: &[TcpListener],
        shared: &Arc<ServerState>,
    ) -> io::Result<()> {
        self.stream.set_write_timeout(Some(TAKES_WITHIN))?;
        let json = serde_json::to_vec(setup)?;
        let length = u32::try_from(json.len()).map_err(io::Error::other)?;
        send_with(&self.stream, &length.to_le_bytes(), listeners)?;
        self.stream.write_all(&json)?;
        let (mut heard, shared) = (self.stream.try_clone()?, Arc::clone(shared));
        let is_heard = Arc::clone(&self.is_heard);
        let thread = thread::Builder::new().name("weir-serve-hear".into());
        thread.spawn(move || {
            let mut report = [0; REPORT_BYTES];
            while heard.read_exact(&mut report).is_ok() {
                shared.hear(Report::of(&report));
                thread::sleep(REPORT_SPACING);
            }
            is_heard.store(false, Ordering::Relaxed);
        })?;
        Ok(())
    }

    /// Until it, or weir, ends: why.
    fn feed(&mut self, frames: &Receiver<Frame>, shared: &ServerState) -> String {
        loop {
            match frames.recv_timeout(LOOK_EVERY) {
                Ok(frame) => match frame.write(&mut self.stream) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        // Not waited for, also where it is only stopped.
                        let _ = self.process.kill();
                        return format!("takes nothing for {TAKES_WITHIN:?}, and was ended");
                    }
                    Err(error) => return self.how_it_ended(&error),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return "is not needed".into(),
            }
            if shared.ends.load(Ordering::Relaxed) {
                return "is not needed".into();
            }
            if !self.is_heard.load(Ordering::Relaxed) {
                return self.how_it_ended(&"its end of the connection is closed");
            }
        }
    }

    fn how_it_ended(&mut self, otherwise: &dyn Display) -> String {
        match self.ended_within(Duration::from_secs(1)) {
            Some(status) => format!("has ended ({status})"),
            None => format!("was ended ({otherwise})"),
        }
    }

    fn ended_within(&mut self, span: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + span;
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Some(status);
            }
            if Instant::now() >= until {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes its stream, which it takes as its end, and does not wait for long.
    fn end(&mut self, in_order: bool) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let span = if in_order { END_WITHIN } else { Duration::ZERO };
        if self.ended_within(span).is_none() {
            if let Err(error) = self.process.kill() {
                warn!("process {} cannot be ended: {error}", self.process.id());
            }
            // A kernel that is slow to end it does not hold the writer up.
            self.ended_within(END_WITHIN);
        }
    }
}

/// Sends bytes with descriptors of the listeners, as the other end of a Unix socket gets them.
fn send_with(stream: &UnixStream, bytes: &[u8], listeners: &[TcpListener]) -> io::Result<()> {
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(child::LISTENERS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("too many listeners"));
    }
    let sent = sendmsg(
        stream,
        &[IoSlice::new(bytes)],
        &mut beside,
        SendFlags::NOSIGNAL,
    )?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}
