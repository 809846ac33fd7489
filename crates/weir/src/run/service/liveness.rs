// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the loop still makes steps, told on a Unix socket in weir's directory of run-time files:
//! [`health`] asks there, and so does the livenessProbe of the manifest. No byte of a client is read, and the
//! directory belongs to root, so nothing that comes from the network can use this listener up.
//!
//! The answer is one line: a word, and the milliseconds since the last step.

use crate::cli::exit::{Exit, print};
use crate::run::make_run_dir;
use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::Mode;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;
use tracing::warn;
use weir_figures::text;
use weir_linux::Roots;

/// Name of the socket in the directory of weir's run-time files.
pub const SOCKET_NAME: &str = "health.sock";
/// A loop without a step for so many intervals is stuck, if that is more than [`PATIENCE_LEAST`].
const INTERVALS: u32 = 20;
/// An overloaded machine keeps a sound loop waiting for seconds.
const PATIENCE_LEAST: Duration = Duration::from_secs(10);
const ANSWER_MAX_BYTES: u64 = 64;

/// The time of the loop's last step, which the loop writes and the listener reads.
#[derive(Clone)]
pub struct LastStep(Arc<AtomicU64>);

/// What the loop's last step says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It made a step so long ago.
    Alive(Duration),
    /// Its last step was so long ago, which is too long.
    Stuck(Duration),
}

impl LastStep {
    /// A start counts as a step.
    pub fn now() -> LastStep {
        LastStep(Arc::new(AtomicU64::new(monotonic_ns())))
    }

    /// The loop makes one.
    pub fn stepped(&self) {
        self.0.store(monotonic_ns(), Ordering::Relaxed);
    }

    fn liveness(&self, now_ns: u64, patience: Duration) -> Liveness {
        let since = Duration::from_nanos(now_ns.saturating_sub(self.0.load(Ordering::Relaxed)));
        if since <= patience {
            Liveness::Alive(since)
        } else {
            Liveness::Stuck(since)
        }
    }
}

impl Liveness {
    fn line(self) -> String {
        let (word, since) = match self {
            Liveness::Alive(since) => ("alive", since),
            Liveness::Stuck(since) => ("stuck", since),
        };
        format!("{word} {}\n", since.as_millis())
    }

    fn parse(line: &str) -> Option<Liveness> {
        let (word, since) = line.trim_end().split_once(' ')?;
        let since = Duration::from_millis(since.parse().ok()?);
        match word {
            "alive" => Some(Liveness::Alive(since)),
            "stuck" => Some(Liveness::Stuck(since)),
            _ => None,
        }
    }
}

/// How long the loop may be without a step.
fn patience(interval: Duration) -> Duration {
    interval.saturating_mul(INTERVALS).max(PATIENCE_LEAST)
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    secs.saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

/// The socket's file, while weir runs.
pub struct HealthSocket(PathBuf);

impl Drop for HealthSocket {
    fn drop(&mut self) {
        // Not there is as good as gone; the next start replaces one that nothing listens at.
        let _ = fs::remove_file(&self.0);
    }
}

/// Answers at the socket in `dir` from now on. Without it weir runs all the same, and says so.
pub fn listen(dir: &Path, last: &LastStep, interval: Duration) -> Option<HealthSocket> {
    let path = dir.join(SOCKET_NAME);
    let last = last.clone();
    let bound = make_run_dir(dir).and_then(|()| bind(&path));
    let started = bound.and_then(|listener| {
        let thread = thread::Builder::new().name("weir-health".into());
        thread.spawn(move || answer_all(&listener, &last, patience(interval)))
    });
    match started {
        Ok(_) => Some(HealthSocket(path)),
        Err(error) => {
            let shown = text::harmless(&path.to_string_lossy());
            warn!("{shown}: {error}; `weir health` will not see this weir");
            None
        }
    }
}

/// A socket that a killed weir process left is replaced. Where another one listens, it keeps its place;
/// anything else than a socket is not ours.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::other("is there, and is no socket"));
        }
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::other("another weir answers there"));
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // The directory keeps other users out until then.
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    Ok(listener)
}

fn answer_all(listener: &UnixListener, last: &LastStep, patience: Duration) {
    loop {
        let Ok((mut client, _)) = listener.accept() else {
            // Out of descriptors, for example: that passes, and must not take a whole CPU.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let line = last.liveness(monotonic_ns(), patience).line();
        // It fits the empty buffer of a new socket, so this does not wait. A client that left is no matter.
        let _ = client.write_all(line.as_bytes());
    }
}

/// Asks the weir that has its files in `dir`. Waits as long as that takes.
///
/// # Errors
/// None is there, or what answers is none.
pub fn ask(dir: &Path) -> io::Result<Liveness> {
    let client = UnixStream::connect(dir.join(SOCKET_NAME))?;
    let mut line = String::new();
    client.take(ANSWER_MAX_BYTES).read_to_string(&mut line)?;
    Liveness::parse(&line).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// A weir process that is stopped, or whose machine hangs, never answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// `weir health`.
#[derive(Debug, Args)]
#[command(after_help = HEALTH_HELP)]
pub struct HealthArgs {}

const HEALTH_HELP: &str = "\
It asks the weir that runs, on a socket in /run/weir that only root can reach. Alive is a weir whose loop made
a step in the last 20 intervals, or in the last 10 seconds where that is more; also one that waits for devices.

Exit codes: 0 alive, 1 the loop is stuck, 2 none runs here, or it does not answer.

Example, as the probe of a container:
  livenessProbe: {exec: {command: [weir, health]}}";

/// Asks, and prints the answer.
///
/// # Errors
/// No weir answers.
pub fn health(_: &HealthArgs, roots: &Roots) -> Result<Exit> {
    let (sent, answered) = sync_channel(1);
    let dir = roots.run.clone();
    // Also to connect may take for ever; the thread ends with the process.
    thread::Builder::new()
        .spawn(move || {
            // The other side may have stopped waiting.
            let _ = sent.send(ask(&dir));
        })
        .context("cannot start the thread that asks")?;
    let socket = roots.run.join(SOCKET_NAME);
    let shown = text::harmless(&socket.to_string_lossy());
    let Ok(answer) = answered.recv_timeout(ANSWER_WITHIN) else {
        bail!("the weir at {shown} does not answer: it is stopped, or its machine hangs");
    };
    let liveness = answer.with_context(|| format!("no weir answers at {shown}"))?;
    let (line, exit) = match liveness {
        Liveness::Alive(since) => (format!("alive: a step {since:?} ago\n"), Exit::Done),
        Liveness::Stuck(since) => (format!("stuck: no step for {since:?}\n"), Exit::Finding),
    };
    print(&line)?;
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_without_a_step_is_stuck_after_some_intervals_and_alive_after_the_next_step() {
        const MS: u64 = 1_000_000;
        let last = LastStep(Arc::new(AtomicU64::new(1000 * MS)));
        for (interval_ms, at_ms, is_alive) in [
            (50, 1000, true),
            (50, 11_000, true),
            (50, 11_001, false),
            (1000, 21_000, true),
            (1000, 21_001, false),
        ] {
            let patience = patience(Duration::from_millis(interval_ms));
            let found = last.liveness(at_ms * MS, patience);
            let since = Duration::from_millis(at_ms - 1000);
            let wanted = if is_alive {
                Liveness::Alive(since)
            } else {
                Liveness::Stuck(since)
            };
            assert_eq!(found, wanted, "each {interval_ms} ms, at {at_ms}");
            assert_eq!(Liveness::parse(&found.line()), Some(wanted));
        }
        last.stepped();
        let found = last.liveness(monotonic_ns(), Duration::MAX);
        assert!(matches!(found, Liveness::Alive(since) if since < Duration::from_secs(3600)));
        // Clocks of two CPUs may differ a little.
        assert_eq!(
            last.liveness(0, Duration::ZERO),
            Liveness::Alive(Duration::ZERO)
        );
    }

    #[test]
    fn the_socket_says_what_the_loop_says_and_clients_that_wait_keep_no_others_out() {
        let dir = tempfile::tempdir().unwrap();
        let last = LastStep(Arc::new(AtomicU64::new(0)));
        let socket = listen(dir.path(), &last, Duration::from_millis(50)).unwrap();
        let waiting: Vec<_> = (0..100)
            .map(|_| UnixStream::connect(dir.path().join(SOCKET_NAME)).unwrap())
            .collect();
        assert!(matches!(ask(dir.path()), Ok(Liveness::Stuck(_))));
        last.0.store(u64::MAX, Ordering::Relaxed);
        assert!(matches!(ask(dir.path()), Ok(Liveness::Alive(_))));
        drop(waiting);
        let mode = fs::metadata(dir.path().join(SOCKET_NAME)).unwrap();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
            0o600
        );
        assert!(
            listen(dir.path(), &last, Duration::ZERO).is_none(),
            "one that answers was replaced"
        );
        drop(socket);
        assert_eq!(ask(dir.path()).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(SOCKET_NAME);
        // Left by a weir process that was killed.
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(
            ask(dir.path()).unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
        drop(listen(dir.path(), &LastStep::now(), Duration::ZERO).unwrap());
        fs::write(&path, "mine").unwrap();
        assert!(listen(dir.path(), &LastStep::now(), Duration::ZERO).is_none());
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(listen(dir.path(), &LastStep::now(), Duration::ZERO).is_none());
        for line in ["", "alive", "alive x", "dead 1", "stuck -1", "\u{1b} 1"] {
            assert_eq!(Liveness::parse(line), None, "{line:?}");
        }
    }
}
