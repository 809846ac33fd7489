// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stops a recording before it begins. Each names the thing and the next move.

use std::io;
use weir_core::Missing;
use weir_core::seam::next_move::NextMove;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("nothing can be counted here: {why}; {next_move}")]
    NothingCounts {
        /// The reason of most roles.
        why: Missing,
        next_move: Box<NextMove>,
    },
    #[error("no cgroup {name:?}: {why}; `systemd-cgls` and `weir top --once` list them")]
    NoCgroup { name: String, why: String },
    #[error("there is no process {pid}")]
    NoProcess { pid: i32 },
    #[error("cannot count {what}: {why}; {}", next_move.with_why())]
    Refused {
        what: String,
        why: Missing,
        next_move: Box<NextMove>,
    },
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
    #[error(transparent)]
    Command(#[from] CommandError),
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("a command is missing after --")]
    Missing,
    #[error("cannot execute {name:?}: no such program, and none in PATH")]
    NotFound { name: String },
    #[error("cannot execute {name:?}: {why}")]
    NotExecutable { name: String, why: io::Error },
    /// The shell that holds it back does not work.
    #[error("cannot hold {name:?} back until its counters are open: {why}")]
    NotHeld { name: String, why: io::Error },
}
