// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the service manager is told, by the protocol of sd_notify(3): datagrams of `NAME=VALUE` lines to the
//! socket in `NOTIFY_SOCKET`. Without that variable nothing is sent.
//!
//! The watchdog is fed by the loop itself. A thread of its own would feed it while the loop is stuck.

use super::liveness::LastStep;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};
use tracing::warn;

/// Messages that wait for room in the manager's queue.
const WAITING_MAX: usize = 16;
/// The status is sent at most so often.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// Longer ones are cut: a datagram that is too long for the socket would not arrive at all.
const STATUS_CHARS_MAX: usize = 200;
/// The part of the watchdog's time in which the loop reports that it turns. A tick may come late by as much.
const BEAT_PART: u32 = 4;

/// The service manager, if there is one.
pub struct ServiceManager {
    to: Option<(UnixDatagram, SocketAddr)>,
    waiting: VecDeque<String>,
    beat_every: Option<Duration>,
    beat_at: Option<Instant>,
    status: String,
    status_at: Option<Instant>,
    is_ready: bool,
    has_failed: bool,
    last_step: LastStep,
}

impl ServiceManager {
    /// The manager that the environment names.
    pub fn of_environment() -> ServiceManager {
        let socket = env::var_os("NOTIFY_SOCKET");
        let text = |name: &str| env::var(name).ok();
        let watchdog = watchdog(text("WATCHDOG_USEC"), text("WATCHDOG_PID"));
        ServiceManager::new(socket.as_deref(), watchdog)
    }

    fn new(socket: Option<&OsStr>, watchdog: Option<Duration>) -> ServiceManager {
        let to = socket.and_then(|name| {
            let opened = open(name);
            opened
                .inspect_err(|e| warn!("NOTIFY_SOCKET {}: {e}", name.display()))
                .ok()
        });
        ServiceManager {
            beat_every: watchdog.filter(|_| to.is_some()).map(|all| all / BEAT_PART),
            to,
            waiting: VecDeque::new(),
            beat_at: None,
            status: String::new(),
            status_at: None,
            is_ready: false,
            has_failed: false,
            last_step: LastStep::now(),
        }
    }

    pub fn last_step(&self) -> &LastStep {
        &self.last_step
    }

    /// Warns of ticks that are too far apart for the watchdog.
    pub fn check_interval(&self, interval: Duration) {
        if let Some(beat) = self.beat_every.filter(|beat| interval > *beat) {
            let all = beat * BEAT_PART;
            warn!(
                "the watchdog's time of {all:?} is short for ticks each {interval:?}: give WatchdogSec= four times \
                 the interval, or more"
            );
        }
    }

    /// The service has started: weir observes, or waits for devices. Only the first call counts.
    pub fn ready(&mut self, status: &str) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.status = cut(status);
            self.send(format!("READY=1\nSTATUS={}", self.status));
        }
    }

    /// Settings are read again.
    pub fn reloading(&mut self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.send(format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// They were, or were refused.
    pub fn reloaded(&mut self, status: &str) {
        self.status = cut(status);
        self.status_at = Some(Instant::now());
        self.send(format!("READY=1\nSTATUS={}", self.status));
    }

    pub fn stopping(&mut self) {
        self.send("STOPPING=1\nSTATUS=limits are restored".into());
    }

    /// The loop has turned. `status` is a short sentence on what weir does, made where it may be sent.
    pub fn turned(&mut self, status: impl FnOnce() -> String) {
        self.last_step.stepped();
        let now = Instant::now();
        if self.to.is_none() {
            return;
        }
        while let Some(message) = self.waiting.pop_front() {
            if !self.try_send(&message) {
                self.waiting.push_front(message);
                break;
            }
        }
        let is_due = |at: Option<Instant>, every| at.is_none_or(|at| now - at >= every);
        if self
            .beat_every
            .is_some_and(|every| is_due(self.beat_at, every))
        {
            // One that does not fit is followed by the next.
            if self.try_send("WATCHDOG=1") {
                self.beat_at = Some(now);
            }
        }
        if is_due(self.status_at, STATUS_EVERY) {
            self.status_at = Some(now);
            let status = cut(&status());
            if status != self.status {
                self.send(format!("STATUS={status}"));
                self.status = status;
            }
        }
    }

    /// Sends, or keeps for the next turn what the manager has no room for.
    fn send(&mut self, message: String) {
        if !self.waiting.is_empty() || !self.try_send(&message) {
            self.waiting.push_back(message);
            if self.waiting.len() > WAITING_MAX {
                self.waiting.pop_front();
            }
        }
    }

    /// False if there is no room just now. Another error is said once, and the next message is tried: without
    /// them the watchdog would end weir.
    fn try_send(&mut self, message: &str) -> bool {
        let Some((socket, address)) = &self.to else {
            return true;
        };
        match socket.send_to_addr(message.as_bytes(), address) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!("the service manager did not take a message: {error}");
                }
                true
            }
        }
    }
}

/// The status in one line of a length that a datagram has.
fn cut(status: &str) -> String {
    let one_line = status.chars().map(|c| if c.is_control() { ' ' } else { c });
    one_line.take(STATUS_CHARS_MAX).collect()
}

fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// The time in which the manager must hear of the loop, where it is for this process
/// (sd_watchdog_enabled(3)).
fn watchdog(usec: Option<String>, pid: Option<String>) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
    let usec = usec?.parse().ok().filter(|usec| *usec > 0 && is_ours)?;
    Some(Duration::from_micros(usec))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager with a socket of its own, at this place.
    fn pair(name: &str, watchdog: Option<Duration>) -> (UnixDatagram, ServiceManager) {
        let address = match name.strip_prefix('@') {
            Some(rest) => SocketAddr::from_abstract_name(rest).unwrap(),
            None => SocketAddr::from_pathname(name).unwrap(),
        };
        let theirs = UnixDatagram::bind_addr(&address).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let ours = ServiceManager::new(Some(OsStr::new(name)), watchdog);
        (theirs, ours)
    }

    fn received(socket: &UnixDatagram) -> Vec<String> {
        let mut space = [0; 512];
        let next = || {
            let count = socket.recv(&mut space).ok()?;
            Some(String::from_utf8_lossy(&space[..count]).into_owned())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn messages_reach_a_path_and_an_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify").display().to_string();
        let name = format!("@weir-test-{}", std::process::id());
        for place in [path, name] {
            let (theirs, mut ours) = pair(&place, None);
            ours.ready("observes");
            ours.ready("observes more");
            ours.turned(|| "observes".into());
            ours.reloading();
            ours.reloaded("reload 1 done");
            ours.stopping();
            let got = received(&theirs);
            assert_eq!(got[0], "READY=1\nSTATUS=observes");
            let usec = got[1].strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
            assert!(usec.parse::<u64>().unwrap() > 0);
            assert_eq!(got[2], "READY=1\nSTATUS=reload 1 done");
            assert!(got[3].starts_with("STOPPING=1\n"));
            assert_eq!(got.len(), 4, "{got:?}");
        }
    }

    #[test]
    fn the_loop_feeds_the_watchdog_and_says_what_is_new() {
        let name = format!("@weir-test-beat-{}", std::process::id());
        let (theirs, mut ours) = pair(&name, Some(Duration::from_nanos(4)));
        ours.turned(|| "a".into());
        ours.turned(|| "b".into());
        assert_eq!(received(&theirs), ["WATCHDOG=1", "STATUS=a", "WATCHDOG=1"]);
        let name = format!("@weir-test-slow-{}", std::process::id());
        let (theirs, mut ours) = pair(&name, Some(Duration::from_secs(1 << 20)));
        ours.turned(String::new);
        ours.turned(String::new);
        assert_eq!(received(&theirs), ["WATCHDOG=1"]);
    }

    #[test]
    fn what_finds_no_room_is_sent_later_and_in_order() {
        let name = format!("@weir-test-full-{}", std::process::id());
        let (theirs, mut ours) = pair(&name, None);
        let mut sent = 0;
        while ours.waiting.is_empty() {
            ours.send(sent.to_string());
            sent += 1;
        }
        ours.send(sent.to_string());
        assert_eq!(ours.waiting.len(), 2);
        let mut got = received(&theirs);
        ours.turned(String::new);
        got.extend(received(&theirs));
        let all: Vec<String> = (0..=sent).map(|number| number.to_string()).collect();
        assert_eq!(got, all);
    }

    #[test]
    fn what_cannot_be_sent_does_not_end_the_watchdog() {
        let name = format!("@weir-test-long-{}", std::process::id());
        let (theirs, mut ours) = pair(&name, Some(Duration::from_nanos(4)));
        ours.send("x".repeat(16 << 20));
        ours.reloaded(&format!("refused: {}\nREADY=0", "é".repeat(1 << 20)));
        ours.turned(String::new);
        let got = received(&theirs);
        assert_eq!(got.len(), 2, "{got:?}");
        assert_eq!(
            got[0].chars().count(),
            "READY=1\nSTATUS=".len() + STATUS_CHARS_MAX
        );
        assert_eq!(got[0].lines().count(), 2);
        assert_eq!(got[1], "WATCHDOG=1");
    }

    #[test]
    fn a_manager_that_is_not_there_is_no_trouble() {
        for name in [
            None,
            Some(OsStr::new("/nowhere/notify")),
            Some(OsStr::new("")),
        ] {
            let mut none = ServiceManager::new(name, Some(Duration::from_nanos(1)));
            none.ready("observes");
            none.turned(|| "observes".into());
            assert!(none.waiting.is_empty(), "{name:?}");
        }
    }

    #[test]
    fn the_watchdog_is_for_one_process() {
        let text = |text: &str| Some(text.to_owned());
        let own = Some(std::process::id().to_string());
        assert_eq!(watchdog(text("2000"), None), Some(Duration::from_millis(2)));
        assert_eq!(watchdog(text("2000"), own), Some(Duration::from_millis(2)));
        assert_eq!(watchdog(text("2000"), text("1")), None);
        assert_eq!(watchdog(text("0"), None), None);
        assert_eq!(watchdog(text("x"), None), None);
        assert_eq!(watchdog(None, None), None);
    }
}
