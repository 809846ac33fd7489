// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of many pages in one file: LZ4's frame format (`lz4_Frame_format.md` of the LZ4 project) with one
//! setting, so that `lz4 -d` reads what the encoder made.

use anyhow::{Result, bail, ensure};

/// Magic number, version 1 with independent blocks and no checksums, blocks of at most 64 KiB, and the
/// header's own check byte.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const MAGIC_BYTES: usize = 4;
/// This bit in a block's length says that its bytes are stored as they are.
const STORED: u32 = 1 << 31;

pub struct FrameWriter {
    bytes: Vec<u8>,
}

impl Default for FrameWriter {
    fn default() -> Self {
        FrameWriter {
            bytes: HEADER.to_vec(),
        }
    }
}

impl FrameWriter {
    /// Adds an LZ4 block.
    pub fn block(&mut self, block: &[u8]) {
        self.add(block, 0);
    }

    /// Adds a page as it is.
    pub fn stored(&mut self, page: &[u8]) {
        self.add(page, STORED);
    }

    fn add(&mut self, bytes: &[u8], mark: u32) {
        #[expect(clippy::cast_possible_truncation, reason = "a page at most")]
        let length = bytes.len() as u32 | mark;
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(bytes);
    }

    pub fn end(mut self) -> Vec<u8> {
        self.bytes.extend([0; 4]);
        self.bytes
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum FramedBlock<'a> {
    Lz4(&'a [u8]),
    Stored(&'a [u8]),
}

/// The blocks of a frame; nothing where the bytes are none. A frame's first bytes are no LZ4 block: they are
/// a match before anything was decoded.
///
/// # Errors
/// It has other settings, or ends too soon or too late.
pub fn read_frame(bytes: &[u8]) -> Result<Option<Vec<FramedBlock<'_>>>> {
    if !bytes.starts_with(&HEADER[..MAGIC_BYTES]) {
        return Ok(None);
    }
    let Some(mut rest) = bytes.strip_prefix(&HEADER) else {
        bail!("the frame has other settings than `--engine lz4-encode` gives: only such are read");
    };
    let mut blocks = Vec::new();
    loop {
        let Some((length, after)) = rest.split_first_chunk() else {
            bail!("the frame ends before the length of block {}", blocks.len());
        };
        let length = u32::from_le_bytes(*length);
        if length == 0 {
            ensure!(
                after.is_empty(),
                "{} bytes stand behind the frame",
                after.len()
            );
            return Ok(Some(blocks));
        }
        let bytes = (length & !STORED) as usize;
        let Some((block, after)) = after.split_at_checked(bytes) else {
            bail!(
                "the frame ends within block {}, which has {bytes} bytes",
                blocks.len()
            );
        };
        rest = after;
        blocks.push(if length & STORED == 0 {
            FramedBlock::Lz4(block)
        } else {
            FramedBlock::Stored(block)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_no_other() {
        let mut writer = FrameWriter::default();
        writer.block(&[1, 2, 3]);
        writer.stored(&[4]);
        let frame = writer.end();
        let blocks = [FramedBlock::Lz4(&[1, 2, 3]), FramedBlock::Stored(&[4])];
        assert_eq!(read_frame(&frame).unwrap().unwrap(), blocks);
        assert_eq!(read_frame(&[1, 2, 3]).unwrap(), None);
        for end in MAGIC_BYTES..frame.len() {
            read_frame(&frame[..end]).unwrap_err();
        }
        let mut longer = frame.clone();
        longer.push(0);
        let said = read_frame(&longer).unwrap_err().to_string();
        assert_eq!(said, "1 bytes stand behind the frame");
        longer[4] = 0x64;
        read_frame(&longer).unwrap_err();
    }
}
