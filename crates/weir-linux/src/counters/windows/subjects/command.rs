// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that is held back until its counters are open. A shell stops itself, and executes the command
//! when it is let go: so counting can begin with the command's first instruction.

use crate::counters::windows::error::CommandError;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// `$0` is the name in the shell's own messages.
const HOLD: &str = "kill -STOP $$; exec \"$@\"";
/// Where programs are, if PATH does not say (execvp(3)).
const PATH: &str = "/bin:/usr/bin";

/// A command that has not begun, or runs.
#[derive(Debug)]
pub struct HeldCommand {
    child: Child,
    pid: i32,
    name: String,
    is_held: bool,
    ended: Option<u8>,
}

impl HeldCommand {
    /// Starts the shell, and waits until it has stopped itself.
    ///
    /// # Errors
    /// The command cannot be executed, as far as can be said before.
    pub fn start(words: &[OsString]) -> Result<HeldCommand, CommandError> {
        let program = words.first().ok_or(CommandError::Missing)?;
        executable(program)?;
        let name = program.to_string_lossy().into_owned();
        let not_held = |why: io::Error| CommandError::NotHeld {
            name: name.clone(),
            why,
        };
        let mut shell = Command::new("/bin/sh");
        let shell = shell.args(["-c", HOLD, "weir"]).args(words);
        let mut child = shell.spawn().map_err(not_held)?;
        let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
        if let Err(why) = stopped(pid) {
            // It may have ended already.
            let _ = (child.kill(), child.wait());
            return Err(not_held(why));
        }
        let short = Path::new(program).file_name().unwrap_or(program);
        Ok(HeldCommand {
            child,
            pid,
            name: short.to_string_lossy().into_owned(),
            is_held: true,
            ended: None,
        })
    }

    /// Its process id, which executing the command does not change.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it go.
    ///
    /// # Errors
    /// It was killed.
    pub(in crate::counters::windows) fn release(&mut self) -> io::Result<()> {
        self.is_held = false;
        signal(self.pid, Signal::CONT)
    }

    /// Its exit code if it has ended; 128 and the signal's number if that killed it, as shells say it.
    pub fn ended(&mut self) -> Option<u8> {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let code = status.code().or(status.signal().map(|signal| 128 + signal));
            self.ended = Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        self.ended
    }

    /// Asks it to end, if it has not.
    pub fn terminate(&mut self) {
        if self.ended().is_none() {
            // If it ended meanwhile, it is not there to be asked.
            let _ = signal(self.pid, Signal::TERM);
        }
    }
}

impl Drop for HeldCommand {
    /// One that never began is not left behind, stopped for ever.
    fn drop(&mut self) {
        if self.is_held {
            let _ = (self.child.kill(), self.child.wait());
        }
    }
}

fn signal(pid: i32, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process id"))?;
    Ok(kill_process(pid, signal)?)
}

/// Waits until a child has stopped itself.
fn stopped(pid: i32) -> io::Result<()> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("no process id"))?;
    let ended = || io::Error::other("the shell ended");
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED)?.ok_or_else(ended)?;
    if status.stopped() {
        Ok(())
    } else {
        Err(ended())
    }
}

/// Whether a program can be executed, by its path or in PATH.
fn executable(program: &OsStr) -> Result<PathBuf, CommandError> {
    let name = || program.to_string_lossy().into_owned();
    let path = Path::new(program);
    if program.as_encoded_bytes().contains(&b'/') {
        return match may_execute(path) {
            Ok(()) => Ok(path.to_path_buf()),
            Err(why) => Err(CommandError::NotExecutable { name: name(), why }),
        };
    }
    let dirs = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    let mut denied = None;
    for dir in std::env::split_paths(&dirs) {
        let path = dir.join(program);
        match may_execute(&path) {
            Ok(()) => return Ok(path),
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => denied = Some(why),
            Err(_) => {}
        }
    }
    Err(match denied {
        Some(why) => CommandError::NotExecutable { name: name(), why },
        None => CommandError::NotFound { name: name() },
    })
}

fn may_execute(path: &Path) -> io::Result<()> {
    if path.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    Ok(access(path, Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<OsString> {
        all.iter().map(OsString::from).collect()
    }

    fn waited(command: &mut HeldCommand) -> u8 {
        // The code is what try_wait gives when the command has ended.
        let status = command.child.wait().unwrap();
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        u8::try_from(code.unwrap()).unwrap()
    }

    #[test]
    fn a_command_begins_when_it_is_let_go_and_keeps_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("a b");
        let path = made.to_str().unwrap();
        let script = "echo $$ > \"$1\"; exit 7";
        let mut command = HeldCommand::start(&words(&["sh", "-c", script, "x", path])).unwrap();
        assert_eq!(command.name(), "sh");
        assert_eq!(command.ended(), None);
        assert!(!made.exists(), "held back");
        command.release().unwrap();
        assert_eq!(waited(&mut command), 7);
        assert_eq!(command.ended(), Some(7));
        let text = std::fs::read_to_string(&made).unwrap();
        assert_eq!(text.trim(), command.pid().to_string());
    }

    #[test]
    fn one_that_never_began_does_not_stay() {
        let command = HeldCommand::start(&words(&["sleep", "1000"])).unwrap();
        let process = PathBuf::from(format!("/proc/{}", command.pid()));
        assert!(process.exists());
        drop(command);
        assert!(!process.exists());
    }

    #[test]
    fn a_signal_ends_it_as_shells_say_it() {
        let mut command = HeldCommand::start(&words(&["sleep", "1000"])).unwrap();
        command.release().unwrap();
        command.terminate();
        assert_eq!(waited(&mut command), 128 + 15);
    }

    #[test]
    fn what_cannot_be_executed_is_named_before_anything_starts() {
        let said = |all: &[&str]| HeldCommand::start(&words(all)).unwrap_err().to_string();
        let none = said(&["no-such-program-here"]);
        assert!(none.contains("\"no-such-program-here\": no such program, and none in PATH"));
        assert!(said(&["/etc/passwd"]).contains("\"/etc/passwd\": Permission denied"));
        assert!(said(&["/etc"]).contains("directory"));
        assert!(said(&["/no/such"]).contains("No such file"));
        assert!(said(&[]).contains("missing"));
    }
}
