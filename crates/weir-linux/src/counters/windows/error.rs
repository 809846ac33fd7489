// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stops a recording before it begins. Each names the thing and the next move.

use std::io;
use weir_core::Missing;
use weir_core::seam::next_move::NextMove;

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Not one role can be counted.
    #[error("nothing can be counted here: {why}; {next_move}")]
    NothingCounts {
        /// The reason of most roles.
        why: Missing,
        /// What to do.
        next_move: Box<NextMove>,
    },
    /// No such cgroup.
    #[error("no cgroup {name:?}: {why}; `systemd-cgls` and `weir top --once` list them")]
    NoCgroup {
        /// As it was given.
        name: String,
        /// The fault.
        why: String,
    },
    /// No such process.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its id.
        pid: i32,
    },
    /// The kernel does not count that workload.
    #[error("cannot count {what}: {why}; {}", next_move.with_why())]
    Refused {
        /// The workload.
        what: String,
        /// The kernel's word.
        why: Missing,
        /// What to do.
        next_move: Box<NextMove>,
    },
    /// More events than files may be open.
    #[error(
        "{needed} events are to be open, and this process may have {free} files: name fewer cgroups, or \
         raise `ulimit -Hn`"
    )]
    Descriptors {
        /// Events.
        needed: usize,
        /// Files.
        free: usize,
    },
    /// The command cannot be started.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Why a command cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No command was given.
    #[error("a command is missing after --")]
    Missing,
    /// There is none of that name.
    #[error("cannot execute {name:?}: no such program, and none in PATH")]
    NotFound {
        /// As it was given.
        name: String,
    },
    /// It is there, and cannot be executed.
    #[error("cannot execute {name:?}: {why}")]
    NotExecutable {
        /// As it was given.
        name: String,
        /// The fault.
        why: io::Error,
    },
    /// The shell that holds it back does not work.
    #[error("cannot hold {name:?} back until its counters are open: {why}")]
    NotHeld {
        /// The command.
        name: String,
        /// The fault.
        why: io::Error,
    },
}
