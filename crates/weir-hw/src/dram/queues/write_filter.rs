// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A quick no to the question whether a write to a burst waits.

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
