// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which signal ends weir, and which has the settings read again.
//!
//! SIGHUP has two senses. A terminal that is closed sends it to the programs on it, and weir must then end
//! and restore limits. An operator sends it to a service, to have the settings read again. What tells them
//! apart is known at the start: a service has no controlling terminal, and `nohup` makes a program ignore
//! SIGHUP.
//!
//! | at the start | SIGHUP |
//! |---|---|
//! | a controlling terminal, SIGHUP not ignored | ends weir |
//! | no controlling terminal: systemd, setsid, cron, a container without one | settings are read again |
//! | SIGHUP ignored: nohup | settings are read again, also when the terminal closes |

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_usize};
use std::fs::read_to_string;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub struct Signals {
    stop: Arc<AtomicUsize>,
    hang_up: Arc<AtomicBool>,
}

impl Signals {
    /// Watches from now on.
    ///
    /// # Errors
    /// A signal cannot be watched for.
    pub fn watch() -> Result<Signals> {
        let signals = Signals {
            stop: Arc::default(),
            hang_up: Arc::default(),
        };
        let mut ending = vec![SIGINT, SIGTERM];
        if hang_up_ends() {
            ending.push(SIGHUP)
        } else {
            register(SIGHUP, Arc::clone(&signals.hang_up)).context("cannot watch for SIGHUP")?;
        }
        for signal in ending {
            let number = usize::try_from(signal).unwrap_or(usize::MAX);
            register_usize(signal, Arc::clone(&signals.stop), number)
                .with_context(|| format!("cannot watch for {}", name(number)))?;
        }
        Ok(signals)
    }

    /// The name of the signal that ends weir, once there was one.
    pub fn stop(&self) -> Option<&'static str> {
        match self.stop.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(name(signal)),
        }
    }

    /// Whether settings are to be read again since the last call. Many signals are one.
    pub fn take_hang_up(&self) -> bool {
        self.hang_up.swap(false, Ordering::Relaxed)
    }
}

fn name(signal: usize) -> &'static str {
    match i32::try_from(signal) {
        Ok(SIGINT) => "SIGINT",
        Ok(SIGTERM) => "SIGTERM",
        Ok(SIGHUP) => "SIGHUP",
        _ => "a signal",
    }
}

/// Whether SIGHUP ends this process. What cannot be read is taken as a terminal: then limits end as they
/// always did.
fn hang_up_ends() -> bool {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    has_terminal(&stat).unwrap_or(true) && !ignores_hang_up(&status).unwrap_or(false)
}

/// `tty_nr` of `/proc/PID/stat` (proc_pid_stat(5)).
fn has_terminal(stat: &str) -> Option<bool> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let number: i64 = after_name.split_whitespace().nth(4)?.parse().ok()?;
    Some(number != 0)
}

/// `SigIgn` of `/proc/PID/status`: bit 0 is signal 1, SIGHUP.
fn ignores_hang_up(status: &str) -> Option<bool> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_and_nohup_are_read_from_proc() {
        let stat = |tty: &str| format!("42 (a) b (c) S 1 42 42 {tty} 42 4194560 1\n");
        assert_eq!(has_terminal(&stat("34816")), Some(true));
        assert_eq!(has_terminal(&stat("0")), Some(false));
        assert_eq!(has_terminal("42 (weir) S 1"), None);
        let status = |mask: &str| format!("Name:\tweir\nSigIgn:\t{mask}\nSigCgt:\t1\n");
        assert_eq!(ignores_hang_up(&status("0000000000001001")), Some(true));
        assert_eq!(ignores_hang_up(&status("0000000000001000")), Some(false));
        assert_eq!(ignores_hang_up("Name:\tweir\n"), None);
    }
}
