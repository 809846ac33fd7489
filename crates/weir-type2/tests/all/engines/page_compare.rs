// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The comparison against that of slices, and its clocks.

use super::pages::Pages;
use std::cmp::Ordering;
use weir_type2::engines::PAGE_BYTES;
use weir_type2::engines::page_compare::{PagePair, TimedComparison, compare_pages, compare_timed};
use weir_type2::engines::stalls::Stalls;

fn check(pairs: &[(Vec<u8>, Vec<u8>)], stalls: Stalls) -> Vec<TimedComparison> {
    let views: Vec<_> = pairs
        .iter()
        .map(|(left, right)| PagePair { left, right })
        .collect();
    let found = compare_timed(&views, stalls).unwrap();
    assert_eq!(found.len(), pairs.len());
    for ((left, right), found) in pairs.iter().zip(&found) {
        let same = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        let comparison = found.comparison;
        assert_eq!(comparison.first_difference as usize, same);
        assert_eq!(comparison.order, left.cmp(right));
    }
    found
}

/// A page, and one that differs from a byte on: in that byte, and in others behind it.
fn differing_from(pages: &mut Pages, bytes: usize, at: usize) -> (Vec<u8>, Vec<u8>) {
    let left = pages.page(bytes);
    let mut right = left.clone();
    right[at] ^= 1 + pages.below(255) as u8;
    for later in &mut right[at + 1..] {
        *later ^= (pages.below(4) == 0) as u8;
    }
    (left, right)
}

#[test]
fn the_first_difference_is_found_at_every_byte() {
    let mut pages = Pages::new(1);
    for seed in 0..3 {
        let all: Vec<_> = (0..PAGE_BYTES)
            .map(|at| differing_from(&mut pages, PAGE_BYTES, at))
            .collect();
        check(&all, Stalls::drawn(seed));
    }
}

#[test]
fn pages_of_every_length_are_compared() {
    let mut pages = Pages::new(2);
    for seed in 0..3 {
        let all: Vec<_> = (1..=PAGE_BYTES)
            .map(|bytes| {
                let at = pages.below(2 * bytes);
                let (left, right) = differing_from(&mut pages, bytes, at.min(bytes - 1));
                if at < bytes {
                    (left, right)
                } else {
                    (left.clone(), left)
                }
            })
            .collect();
        check(&all, Stalls::drawn(seed));
    }
}

#[test]
fn equal_pages_take_64_clocks_and_a_difference_ends_a_comparison_early() {
    let mut pages = Pages::new(3);
    let page = pages.page(PAGE_BYTES);
    let mut other = page.clone();
    other[130] ^= 1;
    let found = check(&vec![(page.clone(), page.clone()); 10], Stalls::none());
    for (index, found) in found.iter().enumerate() {
        assert_eq!(found.clock, 64 * (index as u64 + 1) + 2);
    }
    let early = compare_pages(&[PagePair {
        left: &page,
        right: &other,
    }])
    .unwrap();
    assert_eq!(early.clocks, 3 + 3);
    let sign = (page.cmp(&other) as i32).to_le_bytes();
    assert_eq!(early.bytes, [[130, 0, 0, 0], sign].concat());
    assert_eq!(page.cmp(&page), Ordering::Equal);
}

#[test]
fn unequal_lengths_are_refused() {
    let pair = PagePair {
        left: &[1, 2],
        right: &[1],
    };
    assert_eq!(compare_pages(&[pair]).unwrap_err().bytes, 1);
    let empty = PagePair {
        left: &[],
        right: &[],
    };
    assert_eq!(compare_pages(&[empty]).unwrap_err().bytes, 0);
}

/// docs/evidence/type2-engines.md has its result.
#[test]
#[ignore = "minutes"]
fn ten_million_pairs_are_compared() {
    let mut pages = Pages::new(4);
    let (mut clocks, mut equal) = (0, 0);
    for _ in 0..10_000 {
        let all: Vec<_> = (0..1000)
            .map(|_| {
                let left = pages.page(PAGE_BYTES);
                let mut right = left.clone();
                let at = pages.below(PAGE_BYTES + 64);
                if let Some(byte) = right.get_mut(at) {
                    *byte = pages.draw() as u8;
                }
                (left, right)
            })
            .collect();
        let found = check(&all, Stalls::none());
        equal += found
            .iter()
            .filter(|f| f.comparison.order == Ordering::Equal)
            .count();
        clocks += found.last().unwrap().clock + 1;
    }
    println!(
        "10000000 pairs, {equal} equal, 0 wrong, {:.2} clocks a pair",
        clocks as f64 / 1e7
    );
}
