// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A quick no to the question whether a write to a burst waits.

/// Ten bits of the hash of a burst choose the slot (see [`slot`]). A queue has far fewer writes, so that a
/// yes is nearly always right, and only a yes makes the caller look through the queue.
const SLOTS: usize = 1024;

/// Counts of waiting writes by a hash of their burst.
#[derive(Clone, Debug)]
pub(crate) struct WriteFilter {
    counts: Vec<u16>,
    waiting: u32,
}

impl Default for WriteFilter {
    fn default() -> WriteFilter {
        WriteFilter {
            counts: vec![0; SLOTS],
            waiting: 0,
        }
    }
}

/// The upper ten bits of a product with 2⁶⁴ ÷ the golden ratio: multiplicative hashing (Knuth, *The Art of
/// Computer Programming* 3, 6.4), which spreads neighbouring bursts over all slots.
fn slot(burst: u64) -> usize {
    (burst.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize
}

impl WriteFilter {
    #[inline]
    pub(crate) fn may_have(&self, burst: u64) -> bool {
        self.waiting > 0 && self.counts[slot(burst)] > 0
    }

    pub(crate) fn add(&mut self, burst: u64) {
        self.counts[slot(burst)] += 1;
        self.waiting += 1;
    }

    pub(crate) fn remove(&mut self, burst: u64) {
        self.counts[slot(burst)] -= 1;
        self.waiting -= 1;
    }
}
