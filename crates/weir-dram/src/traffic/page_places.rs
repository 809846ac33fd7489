// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where pages of sources lie in a channel.
//!
//! Pages lie in no order, as an operating system hands them out: whether two pages share a bank says nothing
//! of the next two. So two sources that go on in step, or the reads and the writes of one, meet in the same
//! bank now and then, and neither always nor never.
//!
//! A page's number is scrambled in rounds: its upper half is added to its lower one without carry, and an odd
//! number multiplies it. Both can be undone, so that no two pages share a place. One round is not enough:
//! the product of a number by a constant keeps differences, so that all pages with one distance would have
//! one distance of their places.

const PAGE_BYTES: u64 = 4096;
/// Bits of a page's number: 2²¹ pages are 8 GiB. Pages beyond wrap around.
pub(crate) const PAGE_BITS: u32 = 21;
/// The odd factors of the rounds. One multiplication alone placed pages at first. It keeps the distance of
/// two pages, so that two sources in step met in the same bank always or never, and the pairs of banks were
/// off by thousands of standard deviations from even. Mixes of streams have up to 13 % less bandwidth since
/// (docs/evidence/dram.md, "Pages").
const ROUNDS: [u64; 3] = [0x1D_4F2B, 0x13_C6EF, 0x0B_5297];

/// Places of pages in a channel with bursts of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlaces {
    pub(crate) page_bursts: u64,
}

impl PagePlaces {
    /// For bursts of so many bytes, a power of two.
    pub(crate) fn new(burst_bytes: u64) -> PagePlaces {
        PagePlaces {
            page_bursts: (PAGE_BYTES / burst_bytes).max(1),
        }
    }

    /// Where a burst lies. Bursts of a page stay side by side.
    pub(crate) fn place(self, burst: u64) -> u64 {
        place_of_page(burst / self.page_bursts) * self.page_bursts + burst % self.page_bursts
    }
}

fn place_of_page(page: u64) -> u64 {
    let pages = 1u64 << PAGE_BITS;
    let fold = |page: u64| page ^ (page >> (PAGE_BITS.div_ceil(2)));
    let round = |page: u64, odd: &u64| fold(page) * odd % pages;
    fold(ROUNDS.iter().fold(page % pages, round))
}
