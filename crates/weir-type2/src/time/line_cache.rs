// SPDX-License-Identifier: Apache-2.0 OR MIT
//! States of the lines that a cache holds; the least recently used line of a set leaves.

use crate::words::CacheState;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedLine {
    pub line: u64,
    pub state: CacheState,
    /// For the LLC: a core has it too.
    pub is_in_core: bool,
}

const NOTHING: CachedLine = CachedLine {
    line: u64::MAX,
    state: CacheState::Invalid,
    is_in_core: false,
};

#[derive(Clone, Debug)]
pub struct LineCache {
    ways: usize,
    sets: u64,
    /// Sets after each other, in each the most recently used line first.
    lines: Vec<CachedLine>,
}

pub const LINE_BYTES: u32 = 64;

impl LineCache {
    /// Empty, of this size.
    pub fn new(kib: u32, ways: u32) -> Self {
        let lines = u64::from(kib) * 1024 / u64::from(LINE_BYTES);
        let sets = (lines / u64::from(ways)).max(1);
        let count = usize::try_from(sets).unwrap_or(1) * ways as usize;
        LineCache {
            ways: ways as usize,
            sets,
            lines: vec![NOTHING; count],
        }
    }

    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    fn set(&mut self, line: u64) -> &mut [CachedLine] {
        let set = usize::try_from(line % self.sets).unwrap_or(0);
        &mut self.lines[set * self.ways..][..self.ways]
    }

    /// The line, which is used now; in state I if it is not there.
    pub fn look(&mut self, line: u64) -> CachedLine {
        let set = self.set(line);
        match set.iter().position(|cached| cached.line == line) {
            Some(0) => set[0],
            Some(way) => {
                set[..=way].rotate_right(1);
                set[0]
            }
            None => CachedLine { line, ..NOTHING },
        }
    }

    /// Sets the state of a line; I takes it out. Gives the line that had to leave.
    pub fn put(&mut self, cached: CachedLine) -> Option<CachedLine> {
        let set = self.set(cached.line);
        let way = set.iter().position(|other| other.line == cached.line);
        if !cached.state.is_valid() {
            if let Some(way) = way {
                set[way..].rotate_left(1);
                set[set.len() - 1] = NOTHING;
            }
            return None;
        }
        let way = way.unwrap_or(set.len() - 1);
        let left = set[way];
        set[..=way].rotate_right(1);
        set[0] = cached;
        (left.line != cached.line && left.state.is_valid()).then_some(left)
    }
}
