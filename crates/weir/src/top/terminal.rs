// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys of the terminal, until it is gone. crossterm reads a terminal that was closed for ever, without a
//! pause (0.29, `event/source/unix/mio.rs`: a read of 0 bytes is tried again). So weir waits for keys by
//! itself, and lets crossterm read only a terminal that is there.

use anyhow::{Context, Result};
use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
        Ok(if found.revents().intersects(closed) {
            Ready::Closed
        } else {
            Ready::Events
        })
    }
}

/// Runs a screen until it says why it ended, and puts the terminal back in order. The flag is set by a signal
/// that ends weir. `hint` says what works without a terminal.
///
/// # Errors
/// There is no terminal, or the screen's own.
pub fn on_screen(
    hint: &'static str,
    show: impl FnOnce(&mut ratatui::DefaultTerminal, &Terminal, &AtomicBool) -> Result<Ready>,
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // Signals are caught so that the terminal is put back in order. A second signal ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let keys = Terminal::open().context(hint)?;
    let mut screen = ratatui::try_init().context(hint)?;
    let ended = show(&mut screen, &keys, &stop);
    // A terminal may be closed at any moment, also in the middle of a draw. What ratatui does by itself at
    // the end of a screen says on stderr that it failed, and stderr is gone with the terminal: that would be
    // a panic.
    let shown = screen.show_cursor();
    std::mem::forget(screen);
    let restored = shown.and(ratatui::try_restore());
    match (ended, keys.wait(Duration::ZERO)) {
        (Ok(Ready::Closed), _) | (_, Ok(Ready::Closed)) => Ok(()),
        (ended, _) => ended
            .map(drop)
            .and(restored.context("cannot restore the terminal: run 'reset'")),
    }
}

/// The next key or new size that is there already.
///
/// # Errors
/// The terminal cannot be read.
pub fn next_event() -> io::Result<Option<event::Event>> {
    if event::poll(Duration::ZERO)? {
        event::read().map(Some)
    } else {
        Ok(None)
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
