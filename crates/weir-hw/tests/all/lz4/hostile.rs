// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks that nothing made: random ones, and right ones changed, cut or joined.

use super::{Xorshift, liblz4_block, liblz4_page, mixed_page};
use weir_hw::engines::PAGE_BYTES;
use weir_hw::engines::lz4::{DecodeRefusal, clock_bound, decode};

/// A block, and the limit of what it may become.
fn hostile_block(random: &mut Xorshift) -> (Vec<u8>, usize) {
    let bytes = if random.below(8) == 0 {
        PAGE_BYTES
    } else {
        1 + random.below(300)
    };
    let fresh_percent = random.below(80);
    let page = mixed_page(random, bytes, fresh_percent);
    let mut block = liblz4_block(&page);
    match random.below(6) {
        0 => {
            block = (0..1 + random.below(60))
                .map(|_| random.next() as u8)
                .collect()
        }
        1 => block.truncate(1 + random.below(block.len())),
        2 => block.extend_from_within(random.below(block.len())..),
        // Small bytes: short lengths and near offsets, so that much of it is right.
        3 => {
            block = (0..1 + random.below(200))
                .map(|_| (random.next() & random.next() & 0x33) as u8)
                .collect()
        }
        _ => {}
    }
    for _ in 0..random.below(4) {
        let at = random.below(block.len());
        block[at] = match random.below(3) {
            0 => random.next() as u8,
            1 => 255,
            _ => block[at] ^ 1 << random.below(8),
        };
    }
    block.truncate(PAGE_BYTES);
    let limit = match random.below(4) {
        0 => 1 + random.below(PAGE_BYTES),
        1 => PAGE_BYTES,
        _ => (bytes + random.below(8)).min(PAGE_BYTES),
    };
    (block, limit)
}

#[derive(Debug, Default)]
struct HostileTally {
    accepted: u64,
    refused: u64,
    /// Refused by ours, taken by liblz4.
    stricter: u64,
    clocks_max: u64,
}

fn check(count: u64, seed: u64) -> HostileTally {
    let mut random = Xorshift::new(seed);
    let mut tally = HostileTally::default();
    for round in 0..count {
        let (block, limit) = hostile_block(&mut random);
        let theirs = liblz4_page(&block, limit);
        let clocks = match decode(&block, limit) {
            Ok(page) => {
                tally.accepted += 1;
                assert_eq!(Some(page.bytes), theirs, "round {round}, seed {seed}");
                page.clocks
            }
            Err(DecodeRefusal::Malformed { clocks, .. }) => {
                tally.refused += 1;
                tally.stricter += u64::from(theirs.is_some());
                clocks
            }
            Err(refusal) => panic!("{refusal}"),
        };
        let bound = clock_bound(block.len(), limit);
        assert!(
            clocks <= bound,
            "{clocks} clocks, bound {bound}: round {round}, seed {seed}"
        );
        tally.clocks_max = tally.clocks_max.max(clocks);
    }
    tally
}

#[test]
fn hostile_blocks_are_read_as_by_liblz4_or_refused() {
    let tally = check(20_000, 3);
    assert!(tally.accepted > 2_000, "{tally:?}");
    assert!(tally.refused > 5_000, "{tally:?}");
}

#[test]
#[ignore = "minutes: result in docs/evidence/type2-engines.md"]
fn ten_million_hostile_blocks() {
    let parts = 2;
    let tallies: Vec<HostileTally> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..parts)
            .map(|part| scope.spawn(move || check(10_000_000 / parts, 100 + part)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    println!("{tallies:?}");
}
