// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each flaw that a block can have.

use weir_type2::engines::lz4::{BlockFlaw, DecodeRefusal, clock_bound, decode};

fn flaw(block: &[u8], limit_bytes: usize) -> BlockFlaw {
    match decode(block, limit_bytes) {
        Err(DecodeRefusal::Malformed { flaw, clocks }) => {
            assert!(clocks <= clock_bound(block.len(), limit_bytes));
            flaw
        }
        other => panic!("{other:?}"),
    }
}

/// One literal, a match of 8 bytes at an offset, and 5 literals: 14 bytes.
fn block(offset: u16) -> Vec<u8> {
    let [low, high] = offset.to_le_bytes();
    vec![0x14, b'x', low, high, 0x50, 1, 2, 3, 4, 5]
}

#[test]
fn the_right_one_is_read() {
    let page = decode(&block(1), 14).unwrap();
    assert_eq!(page.bytes, b"xxxxxxxxx\x01\x02\x03\x04\x05");
}

#[test]
fn offsets_of_0_and_to_before_the_start_are_refused() {
    assert_eq!(flaw(&block(0), 64), BlockFlaw::OffsetZero);
    assert_eq!(flaw(&block(2), 64), BlockFlaw::OffsetBeforeStart);
    assert_eq!(flaw(&block(0xffff), 64), BlockFlaw::OffsetBeforeStart);
}

#[test]
fn blocks_that_end_too_soon_are_refused() {
    let whole = block(1);
    for bytes in 3..whole.len() {
        assert_eq!(
            flaw(&whole[..bytes], 64),
            BlockFlaw::Truncated,
            "{bytes} bytes"
        );
    }
    assert_eq!(flaw(&whole[..1], 64), BlockFlaw::LiteralsBeyondInput);
    assert_eq!(flaw(&[0xf0], 64), BlockFlaw::LiteralsBeyondInput);
    assert_eq!(flaw(&[0xf0, 255], 4096), BlockFlaw::LiteralsBeyondInput);
    assert_eq!(flaw(&[0x30, 1], 64), BlockFlaw::LiteralsBeyondInput);
}

#[test]
fn what_passes_the_limit_is_refused() {
    // A match into the last 5 bytes, and literals past the end.
    assert_eq!(flaw(&block(1), 13), BlockFlaw::OutputBeyondLimit);
    assert_eq!(flaw(&[0x40, 1, 2, 3, 4], 3), BlockFlaw::OutputBeyondLimit);
    let endless: Vec<u8> = std::iter::once(0xf0).chain([255; 4095]).collect();
    assert_eq!(flaw(&endless, 4096), BlockFlaw::LiteralsBeyondInput);
    assert_eq!(flaw(&endless, 300), BlockFlaw::OutputBeyondLimit);
}

#[test]
fn what_comes_after_a_full_page_is_refused() {
    assert_eq!(flaw(&block(1), 12), BlockFlaw::TrailingInput);
    let mut two = vec![0x10, b'x'];
    two.extend(block(1));
    assert_eq!(flaw(&two, 8), BlockFlaw::TrailingInput);
}
