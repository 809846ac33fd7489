// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers of lines on their way out of L2.

use std::collections::VecDeque;

/// A bounded number of lines, and those that wait for a buffer.
pub(crate) struct WriteBacks {
    used: u32,
    most: u32,
    waiting: VecDeque<u32>,
}

impl WriteBacks {
    pub fn new(most: u32) -> Self {
        WriteBacks {
            used: 0,
            most,
            waiting: VecDeque::new(),
        }
    }

    /// Whether lines wait for a buffer: then L2 asks for no line that would put out another.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives a request a buffer, or lets it wait for one.
    pub fn admit(&mut self, number: u32) -> bool {
        if self.used < self.most {
            self.used += 1;
            return true;
        }
        self.waiting.push_back(number);
        false
    }

    /// A line is out; the request that gets its buffer.
    pub fn end_one(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        self.used -= u32::from(next.is_none());
        next
    }
}
