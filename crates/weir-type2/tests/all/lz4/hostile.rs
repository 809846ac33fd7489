// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks that nothing made: random ones, and right ones changed, cut or joined.

use super::{Xorshift, hostile_block, liblz4_page};
use weir_type2::engines::lz4::{DecodeRefusal, clock_bound, decode};

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

#[test]
fn the_slowest_block_keeps_the_clock_bound() {
    // One literal, then matches of 4 bytes, 3 bytes of block each, and the last 5 literals.
    let matches = (4096 - 1 - 12) / 4;
    let mut block = vec![0x10, 0];
    for _ in 0..matches {
        block.extend([1, 0, 0x00]);
    }
    block.pop();
    block.push(0x50);
    block.extend([0; 5]);
    let page = decode(&block, 4096).unwrap();
    assert_eq!(page.bytes.len(), 1 + 4 * matches + 5);
    assert!(page.clocks > 1000, "{} clocks", page.clocks);
    assert!(page.clocks <= clock_bound(block.len(), 4096));
}
