// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The line to the guest's agent. Both ends are only used while the guest's time stands: a request is taken
//! by QEMU before the guest goes on, and what the guest has said is there when it stands again.

use crate::vm::protocol::{Reply, Request, Task};
use anyhow::{Context, Result, bail};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Space for all that a guest can say in one step: else QEMU would wait for the harness, and the guest for
/// QEMU.
const BUFFER_BYTES: usize = 64 << 20;
/// How long QEMU may take by the host's clock to take a request: it takes microseconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Line {
    socket: UnixStream,
    unfinished: Vec<u8>,
    next_id: u64,
    replies: BTreeMap<u64, Reply>,
}

impl Line {
    /// The harness's end and QEMU's.
    pub(crate) fn pair() -> Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        // Only root may exceed the system's limit for all users.
        if sockopt::set_socket_send_buffer_size_force(&theirs, BUFFER_BYTES).is_err() {
            sockopt::set_socket_send_buffer_size(&theirs, BUFFER_BYTES)?;
        }
        ours.set_nonblocking(true)?;
        let line = Line {
            socket: ours,
            unfinished: Vec::new(),
            next_id: 1,
            replies: BTreeMap::new(),
        };
        Ok((line, theirs))
    }

    /// Says a request; its number.
    pub(crate) fn request(&mut self, task: Task, timeout: Duration) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let timeout_ms = timeout.as_millis() as u64;
        let mut bytes = serde_json::to_vec(&Request {
            id,
            task,
            timeout_ms,
        })?;
        bytes.push(b'\n');
        self.send(&bytes)?;
        Ok(id)
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        let begun = Instant::now();
        while !bytes.is_empty() || self.is_unread()? {
            match self.socket.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e).context("the guest is gone"),
            }
            if begun.elapsed() > PATIENCE {
                bail!("the guest takes no input");
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Whether QEMU has not yet taken all that was sent. What it has taken it has put into the guest before
    /// it lets go of its big lock, which the guest needs to go on.
    fn is_unread(&self) -> Result<bool> {
        let mut unread: libc::c_int = 0;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&self.socket.as_fd());
        // SAFETY: the request writes one int.
        let result = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &mut unread) };
        if result != 0 {
            return Err(std::io::Error::last_os_error()).context("the line to the guest");
        }
        Ok(unread > 0)
    }

    /// Takes what the guest has said since.
    pub(crate) fn hear(&mut self) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.take(&buffer[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(e) => return Err(e).context("the line to the guest"),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.unfinished.extend_from_slice(bytes);
        while let Some(end) = self.unfinished.iter().position(|b| *b == b'\n') {
            let rest = self.unfinished.split_off(end + 1);
            let line = std::mem::replace(&mut self.unfinished, rest);
            if let Ok(reply) = serde_json::from_slice::<Reply>(&line) {
                self.replies.insert(reply.id, reply);
            }
        }
    }

    /// The reply to a request, if it has come.
    pub(crate) fn reply(&mut self, id: u64) -> Option<Reply> {
        self.replies.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(id: u64) -> Vec<u8> {
        let mut line = serde_json::to_vec(&Reply {
            id,
            status: Some(0),
            stdout: "é".repeat(100_000),
            stderr: String::new(),
        })
        .unwrap();
        line.push(b'\n');
        line
    }

    #[test]
    fn replies_are_put_together_from_any_pieces() {
        let (mut line, mut guest) = Line::pair().unwrap();
        let bytes = [reply(2), b"not a reply\n".to_vec(), reply(1)].concat();
        for piece in bytes.chunks(7001) {
            guest.write_all(piece).unwrap();
            line.hear().unwrap();
        }
        assert_eq!(line.reply(1).unwrap().stdout.chars().count(), 100_000);
        assert_eq!(line.reply(2).unwrap().id, 2);
        assert!(line.reply(2).is_none(), "it was taken");
    }

    #[test]
    fn much_is_said_at_once_without_a_listener() {
        let (mut line, mut guest) = Line::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        let bytes = reply(7);
        guest.write_all(&bytes).expect("there is space");
        line.hear().unwrap();
        assert!(line.reply(7).is_some());
    }

    #[test]
    fn a_request_is_read_before_it_counts_as_said() {
        let (mut line, guest) = Line::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(&guest), &mut text).unwrap();
            (guest, text)
        });
        let id = line
            .request(Task::Run("true".into()), Duration::from_secs(1))
            .unwrap();
        assert!(!line.is_unread().unwrap());
        let (_guest, text) = reader.join().unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap().id, id);
    }
}
