// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Entries in use over time, as an occupancy counter sums them up.

/// A number of entries, its integral over time, and how many came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub entries: u32,
    since: u64,
    area: u64,
    not_empty: u64,
    pub inserts: u64,
}

impl Occupancy {
    pub fn add(&mut self, now: u64) {
        self.settle(now);
        self.entries += 1;
        self.inserts += 1;
    }

    pub fn remove(&mut self, now: u64) {
        self.settle(now);
        self.entries -= 1;
    }

    fn settle(&mut self, now: u64) {
        let time = now - self.since;
        self.area += time * u64::from(self.entries);
        self.not_empty += time * u64::from(self.entries > 0);
        self.since = now;
    }

    /// Entries × picoseconds up to `now`.
    pub fn area(&self, now: u64) -> u64 {
        self.area + (now - self.since) * u64::from(self.entries)
    }

    /// Picoseconds up to `now` with at least one entry.
    pub fn not_empty(&self, now: u64) -> u64 {
        self.not_empty + (now - self.since) * u64::from(self.entries > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_and_busy_time() {
        let mut queue = Occupancy::default();
        queue.add(10);
        queue.add(20);
        queue.remove(30);
        assert_eq!((queue.area(40), queue.not_empty(40)), (10 + 20 + 10, 30));
        queue.remove(40);
        assert_eq!((queue.area(90), queue.not_empty(90)), (40, 30));
        assert_eq!(queue.inserts, 2);
    }
}
