// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What harness and guest agent say to each other: one JSON object a line, over a virtio-serial port.

use serde::{Deserialize, Serialize};

/// Name of the port: `/dev/virtio-ports/` + this in the guest.
pub const PORT_NAME: &str = "weir.agent";

/// Makes the agent run a shell command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Comes back in the reply.
    pub id: u64,
    /// Given to `/bin/sh -c`.
    pub shell: String,
    /// After this the command is killed.
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
