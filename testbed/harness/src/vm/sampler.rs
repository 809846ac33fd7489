// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The series everything is measured from: readings of the ground truth at each step of the guest's time.

use std::hash::{Hash, Hasher};
use std::time::Duration;
use weir_ipc::ground_truth::{GroundTruth, LineCounts};

#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Duration,
    /// The counts of all groups together.
    pub device: LineCounts,
    /// One entry for each owner, up to the requested number.
    pub owners: Vec<LineCounts>,
}

#[derive(Clone, Debug)]
pub struct Series {
    pub samples: Vec<Sample>,
    /// Stands for all that the ground truth showed at each of them, each vCPU's instructions and place in the
    /// code among it: two runs with the same one went the same way.
    pub fingerprint: u64,
}

impl Sample {
    /// What a ground-truth file shows now, with the owners up to `owners`.
    pub(crate) fn of(ground_truth: &GroundTruth, owners: u8) -> Sample {
        let mut device = LineCounts::default();
        for group in 0..ground_truth.layout().group_count {
            let tally = ground_truth.group(group);
            device.read_lines += tally.read_lines;
            device.write_lines += tally.write_lines;
            device.read_latency_sum_ns += tally.read_latency_sum_ns;
        }
        Sample {
            at: Duration::from_nanos(ground_truth.stopped_at_ns()),
            device,
            owners: (0..=owners).map(|o| ground_truth.owner(o)).collect(),
        }
    }

    /// Adds this reading, and what the vCPUs have done until then.
    pub(crate) fn hash_into(&self, ground_truth: &GroundTruth, hasher: &mut impl Hasher) {
        self.at.hash(hasher);
        for tally in self.owners.iter().chain([&self.device]) {
            (
                tally.read_lines,
                tally.write_lines,
                tally.read_latency_sum_ns,
            )
                .hash(hasher);
        }
        for index in 0..ground_truth.layout().vcpu_count {
            let vcpu = ground_truth.vcpu(index);
            (vcpu.instructions, vcpu.stall_ns, vcpu.accesses, vcpu.pc).hash(hasher);
        }
    }
}

impl Series {
    /// Mean rates in windows of `width`, from `from` until `to`: bytes per second of what `lines`
    /// picks from a sample. Counts between two samples are spread evenly.
    pub fn windows(
        &self,
        from: Duration,
        to: Duration,
        width: Duration,
        lines: impl Fn(&Sample) -> u64,
    ) -> Vec<f64> {
        let mut rates = Vec::new();
        let mut start = from;
        while start + width <= to {
            let (Some(a), Some(b)) = (self.at(start, &lines), self.at(start + width, &lines))
            else {
                break;
            };
            rates.push((b - a) * 64.0 / width.as_secs_f64());
            start += width;
        }
        rates
    }

    /// The longest time between two readings of which the second shows no more than the first, or a run of
    /// such.
    pub fn longest_gap(
        &self,
        from: Duration,
        to: Duration,
        lines: impl Fn(&Sample) -> u64,
    ) -> Duration {
        let within = |s: &&Sample| (from..to).contains(&s.at);
        let mut longest = Duration::ZERO;
        let mut last: Option<(Duration, u64)> = None;
        for sample in self.samples.iter().filter(within) {
            let count = lines(sample);
            match last {
                Some((at, before)) if before == count => longest = longest.max(sample.at - at),
                _ => last = Some((sample.at, count)),
            }
        }
        longest
    }

    /// The count at a moment, interpolated; nothing outside the series.
    pub fn at(&self, moment: Duration, lines: &impl Fn(&Sample) -> u64) -> Option<f64> {
        let after = self.samples.partition_point(|s| s.at <= moment);
        let (a, b) = (
            self.samples.get(after.checked_sub(1)?)?,
            self.samples.get(after)?,
        );
        let span = (b.at - a.at).as_secs_f64();
        let part = (moment - a.at).as_secs_f64() / span;
        let (from, to) = (lines(a) as f64, lines(b) as f64);
        Some(from + (to - from) * part)
    }
}

pub fn lines(tally: &LineCounts) -> u64 {
    tally.read_lines + tally.write_lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, count: u64) -> Sample {
        Sample {
            at: Duration::from_millis(ms),
            device: LineCounts {
                read_lines: count,
                ..LineCounts::default()
            },
            owners: Vec::new(),
        }
    }

    #[test]
    fn a_gap_is_as_long_as_nothing_moves() {
        let counts = [(0, 0), (10, 5), (20, 5), (30, 5), (40, 6), (50, 6), (60, 7)];
        let series = Series {
            samples: counts.map(|(ms, count)| sample(ms, count)).into(),
            fingerprint: 0,
        };
        let ms = Duration::from_millis;
        let gap = |from, to| series.longest_gap(ms(from), ms(to), |s| s.device.read_lines);
        assert_eq!(gap(0, 100), ms(20));
        assert_eq!(gap(35, 100), ms(10));
        assert_eq!(gap(0, 15), ms(0));
    }

    #[test]
    fn windows_spread_what_lies_between_samples() {
        let series = Series {
            samples: vec![sample(0, 0), sample(15, 150), sample(40, 400)],
            fingerprint: 0,
        };
        let ms = Duration::from_millis;
        let rates = series.windows(ms(0), ms(30), ms(10), |s| s.device.read_lines);
        assert_eq!(rates.len(), 3);
        for rate in rates {
            assert!((rate - 10_000.0 * 64.0).abs() < 1e-3, "{rate}");
        }
        assert!(
            series
                .windows(ms(40), ms(90), ms(10), |s| s.device.read_lines)
                .is_empty()
        );
    }
}
