// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags of a cache: sets and ways, least recently used first out, within the ways a line may take.

/// The line was modified.
pub(crate) const DIRTY: u8 = 1;
/// A prefetcher brought it, and no demand has touched it yet.
pub(crate) const PREFETCHED: u8 = 2;
/// The flags are the lowest two bits of an entry, and the line's name lies above them.
const FLAGS: u64 = 3;
const EMPTY: u64 = u64::MAX;

/// A cache's tags. Lines are named by less than 62 bits.
pub(crate) struct TagArray {
    ways: usize,
    sets: u64,
    tags: Vec<u64>,
    stamps: Vec<u32>,
    clock: u32,
}

impl TagArray {
    /// A cache of `kib` with `ways`. The number of sets is rounded down.
    pub fn new(kib: u32, ways: u32) -> Self {
        let lines = u64::from(kib) * 16;
        let sets = (lines / u64::from(ways)).max(1);
        let entries = (sets * u64::from(ways)) as usize;
        TagArray {
            ways: ways as usize,
            sets,
            tags: vec![EMPTY; entries],
            stamps: vec![0; entries],
            clock: 0,
        }
    }

    /// First entry of the set of a line; `index` is the line's number among those that the cache may hold.
    fn first(&self, index: u64) -> usize {
        (index % self.sets) as usize * self.ways
    }

    fn find(&self, index: u64, line: u64) -> Option<usize> {
        let first = self.first(index);
        let set = &self.tags[first..first + self.ways];
        let way = set.iter().position(|tag| tag & !FLAGS == line << 2)?;
        // An empty entry has no line's name.
        (set[way] != EMPTY).then_some(first + way)
    }

    /// Flags of a line, if it is there, without touching it.
    pub fn flags(&self, index: u64, line: u64) -> Option<u8> {
        self.find(index, line)
            .map(|at| (self.tags[at] & FLAGS) as u8)
    }

    /// Uses a line: its flags before, if it is there. `set` and `clear` change them.
    pub fn touch(&mut self, index: u64, line: u64, set: u8, clear: u8) -> Option<u8> {
        let at = self.find(index, line)?;
        let flags = (self.tags[at] & FLAGS) as u8;
        self.tags[at] = line << 2 | u64::from((flags | set) & !clear);
        self.clock += 1;
        self.stamps[at] = self.clock;
        Some(flags)
    }

    /// Takes a line out: its flags, if it was there.
    pub fn remove(&mut self, index: u64, line: u64) -> Option<u8> {
        let at = self.find(index, line)?;
        let flags = (self.tags[at] & FLAGS) as u8;
        self.tags[at] = EMPTY;
        self.stamps[at] = 0;
        Some(flags)
    }

    /// Puts a line in one of the ways of `mask`; returns the line that had to go, with its flags. A line that
    /// is there stays where it is.
    pub fn insert(&mut self, index: u64, line: u64, flags: u8, mask: u32) -> Option<(u64, u8)> {
        if self.touch(index, line, flags & DIRTY, 0).is_some() {
            return None;
        }
        let at = self.oldest(self.first(index), mask)?;
        let old = self.tags[at];
        self.tags[at] = line << 2 | u64::from(flags);
        self.clock += 1;
        self.stamps[at] = self.clock;
        (old != EMPTY).then_some((old >> 2, (old & FLAGS) as u8))
    }

    /// The entry of the set from `first` on that was used longest ago, among the ways of `mask`. A loop
    /// without branches, because a fill of the last-level cache asks for each line.
    fn oldest(&self, first: usize, mask: u32) -> Option<usize> {
        let (mut oldest, mut found) = (u64::MAX, usize::MAX);
        for (way, stamp) in self.stamps[first..first + self.ways].iter().enumerate() {
            let is_barred = mask >> way & 1 == 0;
            let stamp = u64::from(*stamp) | u64::from(is_barred) << 32;
            let is_older = stamp < oldest;
            oldest = if is_older { stamp } else { oldest };
            found = if is_older { way } else { found };
        }
        (oldest <= u64::from(u32::MAX)).then_some(first + found)
    }

    pub fn count(&self) -> usize {
        self.tags.iter().filter(|tag| **tag != EMPTY).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_the_allowed_ways_goes() {
        // One set of four ways.
        let mut cache = TagArray::new(1, 16);
        assert_eq!(cache.sets, 1);
        for line in 0..16 {
            assert_eq!(cache.insert(line, line, 0, u32::MAX), None);
        }
        cache.touch(0, 0, DIRTY, 0);
        assert_eq!(
            cache.insert(16, 16, 0, u32::MAX),
            Some((1, 0)),
            "0 was touched"
        );
        assert_eq!(cache.insert(17, 17, 0, 1), Some((0, DIRTY)), "way 0 only");
        assert_eq!(cache.insert(18, 18, 0, 1), Some((17, 0)));
        assert_eq!(cache.count(), 16);
        assert_eq!(cache.remove(18, 18), Some(0));
        assert_eq!(cache.flags(18, 18), None);
        assert_eq!(cache.count(), 15);
    }
}
