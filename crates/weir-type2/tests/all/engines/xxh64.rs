// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hash against another implementation, and its clocks.

use super::pages::Pages;
use twox_hash::XxHash64;
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::stalls::Stalls;
use weir_type2::engines::xxh64::{TimedHash, hash_pages, hash_timed};

/// Checks the hashes of pages, all in one run.
fn check(pages: &[Vec<u8>], stalls: Stalls) -> Vec<TimedHash> {
    let views: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let hashes = hash_timed(&views, stalls).unwrap();
    for (page, hash) in pages.iter().zip(&hashes) {
        let wanted = XxHash64::oneshot(0, page);
        assert_eq!(hash.value, wanted, "{} bytes: {page:02x?}", page.len());
    }
    hashes
}

#[test]
fn pages_of_every_length_have_the_hash_of_another_implementation() {
    let mut pages = Pages::new(1);
    for seed in 0..3 {
        let all: Vec<_> = (1..=PAGE_BYTES).map(|bytes| pages.page(bytes)).collect();
        check(&all, Stalls::drawn(seed));
    }
    // Short ones, by which slots and finisher wait for each other.
    for seed in 0..50 {
        let all: Vec<_> = (0..100)
            .map(|_| {
                let bytes = 1 + pages.below(100);
                pages.page(bytes)
            })
            .collect();
        check(&all, Stalls::drawn(seed));
    }
}

#[test]
fn a_batch_takes_128_clocks_a_page() {
    let mut pages = Pages::new(2);
    let all: Vec<_> = (0..100).map(|_| pages.page(PAGE_BYTES)).collect();
    let hashes = check(&all, Stalls::none());
    let mut clocks: Vec<u64> = hashes.iter().map(|hash| hash.clock).collect();
    clocks.sort_unstable();
    // Five pages at a time, each a stripe in five clocks.
    for (before, after) in clocks.iter().zip(&clocks[5..]) {
        assert_eq!(after - before, 640);
    }
    let alone = hash_pages(&[&all[0]]).unwrap();
    // The first turn of slot 0 that has a beat, 128 turns, the ring, the finisher's 14 products, the result.
    assert_eq!(alone.clocks, 5 + 640 + 6 + 70 + 1);
    assert_eq!(alone.bytes, hashes[0].value.to_le_bytes());
}

#[test]
fn lengths_out_of_range_are_refused() {
    let long = vec![0; PAGE_BYTES + 1];
    let error = hash_pages(&[&[1], &long]).unwrap_err();
    assert_eq!(error.to_string(), "4097 bytes: an engine takes 1 to 4096");
    assert_eq!(hash_pages(&[&[]]).unwrap_err().bytes, 0);
    assert_eq!(hash_pages(&[]).unwrap().clocks, 0);
}

/// docs/evidence/type2-engines.md has its result.
#[test]
#[ignore = "minutes"]
fn ten_million_pages_have_the_hash_of_another_implementation() {
    let mut pages = Pages::new(3);
    let mut all = vec![vec![0; PAGE_BYTES]; 1000];
    let mut clocks = 0;
    for _ in 0..10_000 {
        all.iter_mut().for_each(|page| pages.fill(page));
        clocks += check(&all, Stalls::none())
            .iter()
            .map(|hash| hash.clock)
            .max()
            .unwrap()
            + 1;
    }
    println!(
        "10000000 pages, 0 wrong, {:.2} clocks a page",
        clocks as f64 / 1e7
    );
}
