// SPDX-License-Identifier: Apache-2.0 OR MIT
//! weir as a service: in a session without a terminal, with a socket that hears what it tells systemd.

use super::{Daemon, World, wait};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

pub struct Service {
    pub daemon: Daemon,
    socket: UnixDatagram,
}

/// The command in a session of its own, which has no terminal. It keeps its process id.
pub fn without_terminal(world: &World, args: &[&str]) -> Command {
    let weir = world.command(args);
    let mut command = Command::new("setsid");
    command.arg(weir.get_program()).args(weir.get_args());
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Service {
    pub fn start(world: &World, args: &[&str]) -> Service {
        Service::start_with(world, args, &[])
    }

    pub fn start_with(world: &World, args: &[&str], variables: &[(&str, &OsStr)]) -> Service {
        let path = world.path("notify");
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut command = without_terminal(world, args);
        command.env("NOTIFY_SOCKET", &path);
        command.envs(variables.iter().copied());
        let daemon = Daemon::start(&mut command);
        Service { daemon, socket }
    }

    /// Limits by the settings of this file, and has told that it is ready.
    pub fn start_by(world: &World, file: &Path, more: &[&str]) -> Service {
        let mut args = vec!["run", "--config", file.to_str().unwrap()];
        args.extend(more);
        let service = Service::start(world, &args);
        service.told("READY=1");
        service
    }

    /// The next message.
    pub fn any(&self) -> String {
        let (mut space, mut found) = ([0; 4096], None);
        wait("a message", &mut || {
            found = self.socket.recv(&mut space).ok();
            found.is_some()
        });
        String::from_utf8_lossy(&space[..found.unwrap()]).into_owned()
    }

    /// The next message that has this line.
    pub fn told(&self, line: &str) -> String {
        loop {
            let message = self.any();
            if message.lines().any(|its| its == line) {
                return message;
            }
        }
    }

    /// Has the settings read again. Gives what was told of it.
    pub fn reload(&self) -> String {
        self.daemon.signal(Signal::HUP);
        let begun = self.told("RELOADING=1");
        assert!(begun.contains("MONOTONIC_USEC="), "{begun}");
        self.told("READY=1")
    }
}
