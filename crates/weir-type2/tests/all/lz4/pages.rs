// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages there and back, of all lengths and kinds.

use super::{ALL_POSITIONS, Xorshift, liblz4_block, liblz4_page, mixed_page};
use weir_type2::engines::lz4::{EncodeRefusal, Positions, clock_bound, decode, encode};
use weir_type2::engines::{PAGE_BYTES, PageLengthError};

/// Encodes by ours, reads by liblz4 and ours; and the other way round.
fn there_and_back(page: &[u8], positions: Positions) -> Option<usize> {
    let theirs = liblz4_block(page);
    if theirs.len() <= PAGE_BYTES {
        let read = decode(&theirs, page.len()).unwrap();
        assert_eq!(read.bytes, page, "liblz4's block, by ours");
        assert!(read.clocks <= clock_bound(theirs.len(), page.len()));
    }
    match encode(page, positions) {
        Ok(block) => {
            assert!(block.bytes.len() < page.len());
            let by_theirs = liblz4_page(&block.bytes, page.len());
            assert_eq!(by_theirs.as_deref(), Some(page), "our block, by liblz4");
            let by_ours = decode(&block.bytes, page.len()).unwrap();
            assert_eq!(by_ours.bytes, page, "our block, by ours");
            Some(block.bytes.len())
        }
        Err(EncodeRefusal::Incompressible { .. }) => None,
        Err(refusal) => panic!("{refusal}"),
    }
}

#[test]
fn pages_of_all_kinds_come_back() {
    let mut random = Xorshift::new(1);
    for round in 0..600 {
        let fresh_percent = round % 101;
        let bytes = if round % 3 == 0 {
            PAGE_BYTES
        } else {
            1 + random.below(PAGE_BYTES)
        };
        let page = mixed_page(&mut random, bytes, fresh_percent);
        for positions in ALL_POSITIONS {
            there_and_back(&page, positions);
        }
    }
}

#[test]
fn short_pages_of_every_length_come_back() {
    let text = b"a page of 20 bytes, a page of 20 bytes, ";
    for bytes in 1..400 {
        let page: Vec<u8> = text.iter().cycle().take(bytes).copied().collect();
        for positions in ALL_POSITIONS {
            let block = there_and_back(&page, positions);
            assert!(block.is_some() || bytes < 64, "{bytes} bytes");
            // Offsets 1 to 40, matches up to the page's end.
            let period = 1 + bytes % text.len();
            let page: Vec<u8> = text[..period].iter().cycle().take(bytes).copied().collect();
            there_and_back(&page, positions);
        }
    }
}

#[test]
fn a_page_of_zeros_is_one_match() {
    let page = [0; PAGE_BYTES];
    for positions in ALL_POSITIONS {
        let block = encode(&page, positions).unwrap();
        let by_theirs = liblz4_page(&block.bytes, PAGE_BYTES);
        assert_eq!(by_theirs.as_deref(), Some(&page[..]));
        assert_eq!(block.bytes.len(), positions as usize + 25);
        assert!(block.clocks < 300, "{positions:?}: {} clocks", block.clocks);
    }
}

#[test]
fn what_does_not_become_smaller_is_refused() {
    let mut random = Xorshift::new(2);
    for bytes in [1, 12, 13, 64, 100, PAGE_BYTES - 1, PAGE_BYTES] {
        let page = mixed_page(&mut random, bytes, 100);
        for positions in ALL_POSITIONS {
            let refusal = encode(&page, positions).unwrap_err();
            assert!(
                matches!(refusal, EncodeRefusal::Incompressible { clocks } if clocks <= 2200),
                "{refusal}"
            );
        }
    }
}

#[test]
fn lengths_that_no_engine_takes_are_refused() {
    for bytes in [0, PAGE_BYTES + 1] {
        let wanted = PageLengthError { bytes };
        let page = vec![0; bytes];
        assert_eq!(encode(&page, Positions::Four), Err(wanted.into()));
        assert_eq!(decode(&page, 64), Err(wanted.into()));
        assert_eq!(decode(&[0], bytes), Err(wanted.into()));
    }
}
