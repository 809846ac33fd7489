// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Documents as JSON in zstd frames (RFC 8878).
//!
//! A frame holds the documents of a few ticks, one line of JSON each. It is flushed after each of them, so
//! that a row of the recording has all bytes of its document; the rows of a frame, one after the other, are
//! the frame:
//!
//! ```text
//!  row 1 (is_key)           row 2     …  row 32
//!  ┌──────┬───────────────┐ ┌───────┐    ┌───────┐
//!  │ head │ blocks        │ │blocks │    │blocks │  + 01 00 00, the last block, empty: never written
//!  └──────┴───────────────┘ └───────┘    └───────┘
//!   {"observation":…}\n      {…}\n        {…}\n
//! ```
//!
//! No frame is ended, for it is not known which tick is the last. Any number of rows of a frame from its
//! first on, and the three bytes of an empty last block, are a whole frame that each decoder takes.
//!
//! Sums are of rows ([`super::checksum`]); frames have none of their own.

use serde::Serialize;
use std::io;
use zstd::stream::raw::{self, DParameter, InBuffer, Operation, OutBuffer};

/// So many documents are in a frame. A damaged row makes the rest of its frame unreadable: with 32 that is
/// half a minute at a tick a second, and 1.6 s at 50 ms. Each frame begins with a document that has none
/// before it to refer to: 32 instead of 128 costs 0.1 to 4.5 % of the documents
/// (docs/evidence/recordings.md).
pub(crate) const DOCUMENTS_PER_FRAME: u32 = 32;
/// Above 1 frames of these documents take more time and are no smaller; below 1 they are larger.
const LEVEL: i32 = 1;
/// No document is longer: that of ten thousand limited workloads has 10 MB. A length that a damaged file
/// states is not believed beyond it.
const DOCUMENT_MAX_BYTES: usize = 64 << 20;
/// The window that each decoder should support, 8 MiB (RFC 8878, 3.1.1.1.2). Ours is 512 KiB.
const WINDOW_LOG_MAX: u32 = 23;
/// Bytes handed to and fro at once: a block of the format at most.
const BUFFER_BYTES: usize = 128 << 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a document has no JSON form")]
    Json(#[from] serde_json::Error),
    #[error("a document has {0} bytes; at most {DOCUMENT_MAX_BYTES} can be recorded")]
    TooLong(usize),
    /// The compressor failed, which only a lack of memory explains.
    #[error("a document cannot be compressed")]
    Zstd(#[from] io::Error),
}

pub(crate) struct Encoder {
    zstd: raw::Encoder<'static>,
    text: Vec<u8>,
    buffer: Vec<u8>,
    /// Documents in the frame that is open.
    count: u32,
}

impl Encoder {
    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> io::Result<Encoder> {
        Ok(Encoder {
            zstd: raw::Encoder::new(LEVEL)?,
            text: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            count: 0,
        })
    }

    /// The next document begins a frame: needed wherever one that was written is not kept.
    pub(crate) fn restart(&mut self) {
        self.count = 0;
    }

    /// The bytes of a document, and whether it begins a frame.
    ///
    /// The frame is flushed behind the document, so that the bytes of a row are all of its document, also if
    /// the program is killed before the next one. After a document that could not be written a new frame
    /// begins: nothing refers to what is not in the file.
    ///
    /// # Errors
    ///
    /// It cannot be written. The next one begins a frame.
    pub(crate) fn add(&mut self, document: &impl Serialize) -> Result<(Vec<u8>, bool), FrameError> {
        let is_key = self.count == 0;
        // Nothing is left of what went wrong half way.
        let next = (self.count + 1) % DOCUMENTS_PER_FRAME;
        self.count = 0;
        self.text.clear();
        serde_json::to_writer(&mut self.text, document)?;
        self.text.push(b'\n');
        if self.text.len() > DOCUMENT_MAX_BYTES {
            return Err(FrameError::TooLong(self.text.len()));
        }
        if is_key {
            self.zstd.reinit()?;
        }
        let mut bytes = Vec::new();
        let mut input = InBuffer::around(&self.text);
        while input.pos() < self.text.len() {
            let mut out = OutBuffer::around(self.buffer.as_mut_slice());
            self.zstd.run(&mut input, &mut out)?;
            bytes.extend_from_slice(out.as_slice());
        }
        loop {
            let mut out = OutBuffer::around(self.buffer.as_mut_slice());
            let left = self.zstd.flush(&mut out)?;
            bytes.extend_from_slice(out.as_slice());
            if left == 0 {
                break;
            }
        }
        self.count = next;
        Ok((bytes, is_key))
    }
}

/// Reads documents. The bytes may come from any source: memory and lengths are bounded.
pub(crate) struct Decoder {
    zstd: raw::Decoder<'static>,
    text: Vec<u8>,
    buffer: Vec<u8>,
}

impl Decoder {
    /// # Errors
    /// There is no memory.
    pub(crate) fn new() -> io::Result<Decoder> {
        let mut zstd = raw::Decoder::new()?;
        zstd.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
        Ok(Decoder {
            zstd,
            text: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// The JSON text of the next document of a frame, or of the first one of the next frame.
    ///
    /// # Errors
    /// The bytes are not what can follow. The next document can then only be read if it begins a frame.
    pub(crate) fn read(&mut self, bytes: &[u8], is_key: bool) -> Result<&[u8], String> {
        let wrong = |error: io::Error| format!("its zstd frame cannot be read: {error}");
        if is_key {
            self.zstd.reinit().map_err(wrong)?;
        }
        self.text.clear();
        let mut input = InBuffer::around(bytes);
        loop {
            let before = input.pos();
            let mut out = OutBuffer::around(self.buffer.as_mut_slice());
            self.zstd.run(&mut input, &mut out).map_err(wrong)?;
            let got = out.as_slice();
            let is_full = got.len() == BUFFER_BYTES;
            let is_stuck = got.is_empty() && input.pos() == before;
            self.text.extend_from_slice(got);
            if self.text.len() > DOCUMENT_MAX_BYTES {
                return Err(format!("it has more than {DOCUMENT_MAX_BYTES} bytes"));
            }
            if input.pos() == bytes.len() && !is_full {
                return Ok(&self.text);
            }
            if is_stuck {
                return Err("its zstd frame does not go on".to_owned());
            }
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
