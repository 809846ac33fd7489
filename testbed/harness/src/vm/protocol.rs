// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What harness and guest agent say to each other: one JSON object a line, over a virtio-serial port.

use crate::vm::condition::Condition;
use serde::{Deserialize, Serialize};

/// Name of the port: `/dev/virtio-ports/` + this in the guest.
pub const PORT_NAME: &str = "weir.agent";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    Run(String),
    /// Wait until this is so, and check it as often. The exit status is 0 once it is, 1 if it never came to
    /// that.
    Await {
        condition: Condition,
        /// Milliseconds between two checks.
        every_ms: u64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the reply.
    pub id: u64,
    pub task: Task,
    /// After this the command is killed, or the waiting is over.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The request's; 0 is the agent's greeting after boot.
    pub id: u64,
    /// Exit status; nothing if it was killed by a signal or timed out.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}
