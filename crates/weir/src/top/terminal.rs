// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of the terminal, until it is gone. crossterm reads a terminal that was closed for ever, without a pause
//! (0.29, `event/source/unix/mio.rs`: a read of 0 bytes is tried again). So weir waits for keys by itself, and
//! lets crossterm read only a terminal that is there.

use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What keys come from: standard input, or the controlling terminal where that is something else. crossterm
/// chooses alike.
pub struct Terminal(OwnedFd);

/// What [`Terminal::wait`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// There may be keys to read, or a new size.
    Events,
    /// The terminal was closed: its window, or the connection to it.
    Closed,
}

impl Terminal {
    /// # Errors
    /// There is no terminal.
    pub fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Ok(Terminal(stdin.as_fd().try_clone_to_owned()?));
        }
        Ok(Terminal(File::open("/dev/tty")?.into()))
    }

    /// Waits until there is a key, the terminal is closed, a signal comes, or the time is over.
    ///
    /// # Errors
    /// Those of poll(2).
    pub fn wait(&self, time: Duration) -> io::Result<Ready> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        let [found] = fds;
        Ok(match found.revents().intersects(closed) {
            true => Ready::Closed,
            false => Ready::Events,
        })
    }
}

/// The next key or new size that is there already.
///
/// # Errors
/// The terminal cannot be read.
pub fn next_event() -> io::Result<Option<event::Event>> {
    match event::poll(Duration::ZERO)? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    #[test]
    fn a_closed_terminal_is_no_terminal_without_keys() {
        let screen =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let terminal = Terminal(rustix::fs::open(name, flags, Mode::empty()).unwrap());
        assert_eq!(terminal.wait(Duration::ZERO).unwrap(), Ready::Events);
        rustix::io::write(&screen, b"q\n").unwrap();
        assert_eq!(terminal.wait(Duration::ZERO).unwrap(), Ready::Events);
        drop(screen);
        assert_eq!(terminal.wait(Duration::ZERO).unwrap(), Ready::Closed);
    }
}
