// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What harness and guest agent say to each other: one JSON object a line, over a virtio-serial port.

use crate::vm::condition::Condition;
use serde::{Deserialize, Serialize};

/// Name of the port: `/dev/virtio-ports/` + this in the guest.
pub const PORT_NAME: &str = "weir.agent";

/// What the agent shall do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Give this to `/bin/sh -c`.
    Run(String),
    /// Wait until this is so, and check it as often. The exit status is 0 once it is, 1 if it never came to
    /// that.
    Await {
        /// This.
        condition: Condition,
        /// Milliseconds between two checks.
        every_ms: u64,
    },
}

/// Makes the agent do something.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the reply.
    pub id: u64,
    /// What.
    pub task: Task,
    /// After this the command is killed, or the waiting is over.
    pub timeout_ms: u64,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The request's; 0 is the agent's greeting after boot.
    pub id: u64,
    /// Exit status; nothing if it was killed by a signal or timed out.
    pub status: Option<i32>,
    /// Standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}
