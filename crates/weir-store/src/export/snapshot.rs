// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The snapshot that programs read, as a line of JSON. It is here because what writes it is made of small
//! functions of serde_json for each field of each workload, and this package is built so that they are
//! inlined.

use std::io;
use weir_core::seam::snapshot::Snapshot;

/// Replaces `text` by the snapshot as one line, with its end.
///
/// # Errors
/// It cannot be written as JSON.
pub fn snapshot_line(snapshot: &Snapshot, text: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    let made = serde_json::to_writer(&mut *text, snapshot);
    text.push(b'\n');
    made.map_err(io::Error::from)
}
