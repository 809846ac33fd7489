// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines for a reader that may be slow, stopped or gone.
//!
//! `weir run --json | less` must not stop the control loop while limits are in force, so the loop does not
//! write to a pipe: lines go through a bounded queue to a thread of their own. Lines that do not fit are
//! dropped and counted. A reader that has gone away is no error.

use crate::run::lossy::Lossy;
use crate::run::sink::{Shown, Sink, SinkTrouble, Wants};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the end waits for the reader to take the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// The queue's entry; clones write to the same place.
#[derive(Clone)]
pub struct Outlet {
    queue: Lossy<Message>,
    broken: Arc<Mutex<Option<io::Error>>>,
}

impl Outlet {
    /// Starts the thread that writes to `file`.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(name: &str, mut file: impl Write + Send + 'static) -> io::Result<Outlet> {
        let broken = Arc::new(Mutex::new(None));
        let error = Arc::clone(&broken);
        let work = move |messages: Receiver<Message>| {
            if let Err(why) = write_all(&messages, &mut file) {
                *error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        };
        let (queue, _) = Lossy::start(name, work)?;
        Ok(Outlet { queue, broken })
    }

    /// Queues a line, or drops it if the queue is full. Never waits.
    pub fn send(&self, line: Vec<u8>) {
        // The queue counts what it does not take.
        let _ = self.queue.send(Message::Line(line));
    }

    /// Why there is no reader any more, once; nothing while all is well.
    pub fn take_error(&self) -> Option<io::Error> {
        self.broken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub fn dropped(&self) -> u64 {
        self.queue.lost()
    }

    /// Waits for the queued lines to be written, but not for long.
    pub fn flush(&self) {
        let until = Instant::now() + LAST_LINES;
        let (ack, done) = sync_channel(1);
        let mut message = Message::Flush(ack);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(back)) if Instant::now() < until => message = back,
                Err(TrySendError::Full(_)) => return,
            }
            thread::sleep(Duration::from_millis(5));
        }
        let left = until.saturating_duration_since(Instant::now());
        // Too late or the thread has ended: either way there is nothing more to wait for.
        let _ = done.recv_timeout(left);
    }
}

/// Until all entries of the queue are gone, or the file takes nothing more.
fn write_all(messages: &Receiver<Message>, file: &mut impl Write) -> io::Result<()> {
    for message in messages {
        match message {
            Message::Line(line) => file.write_all(&line)?,
            Message::Flush(ack) => {
                let done = file.flush();
                // The other side may have stopped waiting, which is no error.
                let _ = ack.send(());
                done?;
            }
        }
    }
    Ok(())
}

/// `--json`: each snapshot is a line.
pub struct JsonLines(pub Outlet);

impl Sink for JsonLines {
    fn wants(&mut self, _: Instant) -> Wants {
        Wants::Screen
    }

    fn show(&mut self, shown: &mut Shown<'_>) -> Option<Result<(), String>> {
        let line = shown.json().map(<[u8]>::to_vec);
        Some(line.map(|line| self.0.send(line)))
    }

    fn trouble(&mut self) -> Option<SinkTrouble> {
        let error = self.0.take_error()?;
        Some(match error.kind() {
            io::ErrorKind::BrokenPipe => SinkTrouble::ReaderLeft,
            _ => SinkTrouble::Fatal(
                anyhow::Error::new(error).context("cannot write the JSON lines to stdout"),
            ),
        })
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.0.flush();
        if self.0.dropped() > 0 {
            tracing::warn!(
                "{} lines of JSON were dropped: the reader was too slow",
                self.0.dropped()
            );
        }
        Ok(())
    }
}

/// One log event is one write.
impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::lossy::QUEUE_ITEMS;

    /// A reader that never reads: writes block until the gate opens.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stopped_reader_costs_lines_and_not_time() {
        let (_gate, wait) = sync_channel::<()>(0);
        let outlet = Outlet::start("test", Stuck(wait)).unwrap();
        // The gate stays shut: a thread that waits for the reader would never go on.
        for _ in 0..QUEUE_ITEMS * 3 {
            outlet.send(b"line\n".to_vec());
        }
        assert!(
            outlet.dropped() >= QUEUE_ITEMS as u64,
            "dropped {}",
            outlet.dropped()
        );
        outlet.flush();
    }

    #[test]
    fn a_reader_that_left_is_noticed() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let outlet = Outlet::start("test", Gone).unwrap();
        assert!(outlet.take_error().is_none());
        outlet.send(b"x".to_vec());
        outlet.flush();
        let error = outlet
            .take_error()
            .expect("the broken pipe was not noticed");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
