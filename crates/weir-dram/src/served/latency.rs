// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latencies, and what they are made of.

use crate::part::timing::Clock;

/// Buckets of an octave: a bucket is at most 1/128 of its latency wide, and latencies below 128 clocks are
/// exact.
const PER_OCTAVE: u64 = 128;
const PER_OCTAVE_BITS: u32 = PER_OCTAVE.trailing_zeros();

/// Parts of a latency, clocks. They add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyParts {
    /// Time spent behind other requests.
    pub queue: Clock,
    /// Time while the other direction was served.
    pub turn_around: Clock,
    /// From the first command for the row (precharge or activate) to the column command.
    pub conflict: Clock,
    /// While the bank was refreshed, or its rank prepared for it.
    pub refresh: Clock,
    /// From the column command to the last data.
    pub transfer: Clock,
}

impl LatencyParts {
    pub fn total(&self) -> Clock {
        self.queue + self.turn_around + self.conflict + self.refresh + self.transfer
    }

    fn add(&mut self, other: &LatencyParts) {
        self.queue += other.queue;
        self.turn_around += other.turn_around;
        self.conflict += other.conflict;
        self.refresh += other.refresh;
        self.transfer += other.transfer;
    }
}

/// Requests whose latencies are nearly the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyBucket {
    pub count: u64,
    pub parts: LatencyParts,
}

/// How many requests had which latency, and why.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram {
    buckets: Vec<LatencyBucket>,
}

fn bucket(clocks: Clock) -> usize {
    if clocks < PER_OCTAVE {
        return clocks as usize;
    }
    let shift = clocks.ilog2() - PER_OCTAVE_BITS;
    ((u64::from(shift) + 1) * PER_OCTAVE + (clocks >> shift) - PER_OCTAVE) as usize
}

impl LatencyHistogram {
    pub(crate) fn add(&mut self, parts: &LatencyParts) {
        let index = bucket(parts.total());
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, LatencyBucket::default());
        }
        let bucket = &mut self.buckets[index];
        bucket.count += 1;
        bucket.parts.add(parts);
    }

    pub fn merge(&mut self, other: &LatencyHistogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets
                .resize(other.buckets.len(), LatencyBucket::default());
        }
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            own.count += other.count;
            own.parts.add(&other.parts);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    /// Sums of the parts of all latencies, clocks.
    pub fn parts(&self) -> LatencyParts {
        let mut sum = LatencyParts::default();
        self.buckets
            .iter()
            .for_each(|bucket| sum.add(&bucket.parts));
        sum
    }

    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.parts().total() as f64 / count as f64)
    }

    /// Least latency that this part of the requests (0 to 1) does not exceed, clocks: the mean of its bucket.
    /// None without requests.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let wanted = (self.count() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.count;
            if bucket.count > 0 && seen >= wanted {
                return Some(bucket.parts.total() as f64 / bucket.count as f64);
            }
        }
        None
    }

    /// Buckets that are not empty, by rising latency.
    pub fn buckets(&self) -> impl Iterator<Item = &LatencyBucket> {
        self.buckets.iter().filter(|bucket| bucket.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(clocks: Clock) -> LatencyParts {
        LatencyParts {
            queue: clocks,
            ..LatencyParts::default()
        }
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut before = 0;
        for clocks in 1..100_000 {
            let now = bucket(clocks);
            assert!(
                now == before || now == before + 1,
                "{clocks}: {before}, {now}"
            );
            before = now;
        }
        assert_eq!(bucket(127), 127);
        assert_ne!(bucket(1 << 20), bucket((1 << 20) + (1 << 13)));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let mut histogram = LatencyHistogram::default();
        (1..=1000).for_each(|clocks| histogram.add(&queued(clocks)));
        assert_eq!(histogram.mean(), Some(500.5));
        for (part, exact) in [(0.05, 50.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.quantile(part).unwrap();
            assert!(
                (found / exact - 1.0).abs() < 0.01,
                "{part}: {found}, {exact}"
            );
        }
        assert_eq!(LatencyHistogram::default().quantile(0.5), None);
    }
}
