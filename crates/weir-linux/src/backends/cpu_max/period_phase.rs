// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a cgroup's quota is refilled, and writing just then.
//!
//! A write of `cpu.max` refills the whole quota (kernel, `tg_set_cfs_bandwidth`): written at a random
//! moment it gives a throttled workload nearly one quota for nothing. Written just after the regular
//! refill it gives what was used since then: almost nothing.
//!
//! The kernel does not say when it refills, but it counts: `nr_periods` of `cpu.stat` goes up by one
//! at each refill while the cgroup is busy. The timer keeps its phase for as long as the period stays
//! the same (`hrtimer_forward_now` adds whole periods), and each cgroup's starts at a random offset
//! (since Linux 6.3), so bursts of several limited cgroups are spread over the period by the kernel.
//! So the phase is found once per cgroup and period, by watching `nr_periods` for a period, and then
//! each rewrite waits for it.
//!
//! *Steering.* Where bursts of several workloads happen to coincide they overload the device together and
//! leave it idle together, for as long as the limits stand. A phase can be moved: the timer adds the period
//! that is set when it fires, so one period that is longer by Δ shifts all later refills by Δ. New limits are
//! moved into the largest gaps between the others.

use std::time::Duration;
use weir_core::Nanos;

/// Samples of `nr_periods` per period while a phase is searched: a rewrite then gives away at most this part
/// of a period's CPU time.
pub(crate) const SAMPLES_PER_PERIOD: u64 = 16;

/// Longest wait of one tick for refills: the rest of the interval is for observing and planning. Where the
/// period is longer, rewrites do not wait.
pub(crate) fn patience_us(interval: Duration) -> u64 {
    u64::try_from(interval.as_micros()).unwrap_or(u64::MAX) / 4 * 3
}

/// The first wait until an unknown phase is searched again, and the longest. A search samples each of the
/// limits some twenty times, and the loop waits meanwhile.
///
/// The waits double because a search at each new limit cost control: the RMSE of `cpu.max` in the live
/// scenario was 7.4 and 9.4 % with it and 5.2 % without. Searched only once, as at first, bursts that noise
/// had left together stayed together for as long as the device was held.
const SEARCH_FIRST: Nanos = Nanos(4_000_000_000);
const SEARCH_LAST: Nanos = Nanos(64_000_000_000);

/// The time of day of refills, so to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    period_ns: u64,
    /// A moment just after a refill, modulo the period.
    offset_ns: u64,
}

impl Phase {
    /// A refill was seen between two samples, the later one at `seen_at`.
    pub(crate) fn seen(period_us: u64, seen_at: Nanos) -> Self {
        let period_ns = period_us.max(1).saturating_mul(1000);
        Phase {
            period_ns,
            offset_ns: seen_at.0 % period_ns,
        }
    }

    /// Whether it holds for a limit with this period.
    pub(crate) fn is_of(&self, period_us: u64) -> bool {
        self.period_ns == period_us.max(1).saturating_mul(1000)
    }

    /// Where in the period it lies, in nanoseconds.
    pub(crate) fn offset_ns(&self) -> u64 {
        self.offset_ns
    }

    /// The same refills, later by `shift_us`.
    pub(crate) fn later(self, shift_us: u64) -> Self {
        let offset_ns = (self.offset_ns + shift_us.saturating_mul(1000)) % self.period_ns;
        Phase { offset_ns, ..self }
    }

    /// Time from `at` to just after the next refill.
    pub(crate) fn wait(&self, at: Nanos) -> Nanos {
        let into = (at.0 % self.period_ns + self.period_ns - self.offset_ns) % self.period_ns;
        Nanos((self.period_ns - into) % self.period_ns)
    }
}

/// The time by which each of `new` should come later, in nanoseconds, so that refills are spread over the
/// period: evenly if there are no others, else each into the middle of the largest gap. Offsets are in
/// nanoseconds and below `period_ns`.
pub(crate) fn shifts(others: &[u64], new: &[u64], period_ns: u64) -> Vec<u64> {
    let period_ns = period_ns.max(1);
    let mut taken = others.to_vec();
    let mut order: Vec<usize> = (0..new.len()).collect();
    order.sort_unstable_by_key(|i| new[*i]);
    let mut shifts = vec![0; new.len()];
    for (rank, i) in order.into_iter().enumerate() {
        let even = || {
            let first = taken.first().copied().unwrap_or(new[i]);
            (first + rank as u64 * (period_ns / new.len() as u64)) % period_ns
        };
        let target = if others.is_empty() {
            even()
        } else {
            middle_of_gap(&taken, period_ns)
        };
        shifts[i] = (target + period_ns - new[i] % period_ns) % period_ns;
        taken.push(target);
    }
    shifts
}

/// The middle of the largest gap between offsets on the circle.
fn middle_of_gap(taken: &[u64], period_ns: u64) -> u64 {
    let mut sorted: Vec<u64> = taken.iter().map(|t| t % period_ns).collect();
    sorted.sort_unstable();
    let gap_after = |i: usize| {
        let next = sorted.get(i + 1).copied().unwrap_or(sorted[0] + period_ns);
        next - sorted[i]
    };
    let largest = (0..sorted.len()).max_by_key(|i| gap_after(*i));
    largest.map_or(0, |i| (sorted[i] + gap_after(i) / 2) % period_ns)
}

/// Watches a counter of refills until it goes up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watch {
    before: Option<(u64, Nanos)>,
}

impl Watch {
    /// One sample: true when the counter has just gone up by one. A larger step, or a sample that came more
    /// than `late` after the one before, says only that a refill was some time ago.
    pub(crate) fn sample(&mut self, nr_periods: u64, at: Nanos, late: Nanos) -> bool {
        let before = self.before.replace((nr_periods, at));
        before.is_some_and(|(count, then)| {
            nr_periods == count.wrapping_add(1) && at.0.saturating_sub(then.0) <= late.0
        })
    }
}

/// When moments that could not be found are searched again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Search {
    again_at: Nanos,
    wait: Nanos,
}

impl Search {
    /// Whether to search now: after each time twice as long as before.
    pub(crate) fn is_due(&mut self, at: Nanos) -> bool {
        if at < self.again_at {
            return false;
        }
        let twice = self.wait.0.saturating_mul(2);
        self.wait = Nanos(twice.clamp(SEARCH_FIRST.0, SEARCH_LAST.0));
        self.again_at = Nanos(at.0.saturating_add(self.wait.0));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_ends_at_the_next_refill_and_not_before() {
        let phase = Phase::seen(20_000, Nanos(1_000_003_000_000));
        assert_eq!(phase.wait(Nanos(1_000_003_000_000)), Nanos(0));
        assert_eq!(phase.wait(Nanos(1_000_003_000_001)), Nanos(19_999_999));
        assert_eq!(phase.wait(Nanos(1_000_002_999_999)), Nanos(1));
        assert_eq!(phase.wait(Nanos(0)), Nanos(1_000_003_000_000 % 20_000_000));
        assert!(phase.is_of(20_000) && !phase.is_of(20_001));
        assert_eq!(Phase::seen(0, Nanos(5)).wait(Nanos(7)).0, 998);
    }

    #[test]
    fn refills_are_spread_over_the_period() {
        // Alone on the circle: evenly, from the first.
        assert_eq!(shifts(&[], &[7, 7, 7, 7], 100), [0, 25, 50, 75]);
        let new = [90, 10, 11];
        let moved: Vec<u64> = shifts(&[], &new, 99)
            .iter()
            .zip(new)
            .map(|(s, n)| (s + n) % 99)
            .collect();
        assert_eq!(moved, [76, 10, 43], "the earliest stays, the order is kept");
        // Beside others: into the largest gap.
        assert_eq!(shifts(&[0, 50], &[50], 100), [25], "to 75");
        assert_eq!(shifts(&[0, 20, 40, 60, 80, 90], &[95], 100), [75], "to 70");
        assert_eq!(shifts(&[5], &[5, 5], 100), [50, 75], "to 55 and 80");
        assert!(shifts(&[], &[], 100).is_empty());
        assert_eq!(shifts(&[3], &[4], 0), [0], "no period, no shift");
        let later = Phase::seen(20_000, Nanos(19_000_000)).later(2_000);
        assert_eq!(later.offset_ns(), 1_000_000);
    }

    #[test]
    fn only_a_single_step_sampled_in_time_gives_the_moment() {
        let mut watch = Watch::default();
        let mut sample = |count, at| watch.sample(count, Nanos(at), Nanos(12));
        assert!(!sample(7, 0), "the first sample knows nothing");
        assert!(!sample(7, 6));
        assert!(sample(8, 12));
        assert!(!sample(10, 18), "two refills: the last may be long ago");
        assert!(!sample(11, 31), "late: the refill may be long ago");
        assert!(sample(12, 43));
    }

    #[test]
    fn a_search_is_repeated_ever_more_seldom() {
        let mut search = Search::default();
        let due: Vec<u64> = (100..400)
            .filter(|at| search.is_due(Nanos(at * 1_000_000_000)))
            .collect();
        assert_eq!(due, [100, 104, 112, 128, 160, 224, 288, 352]);
    }
}
