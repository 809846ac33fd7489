// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing when a write gives nothing away, as weir's Linux back end does (see `period_phase.rs` and
//! `rewrite_timing.rs` of its `backends/cpu_max`): the moment of a group's refill is found by watching
//! `nr_periods` for a period, rewrites wait for it, and refills of new limits are moved apart by one longer
//! period. Each of the two can be switched off, to see what it is worth.

use crate::controller_kind::WeirOptions;
use crate::cpu::cpu_max::CpuMax;
use crate::cpu::eevdf;
use crate::engine::machine::Machine;
use crate::engine::rng::Rng;
use crate::platform::SimPlatform;

/// Polls of the counter of periods in one period: a moment of refill is known to that part of a period.
const POLLS_PER_PERIOD: u64 = 16;
/// With more limits than this, bursts are spread by their number alone.
const STAGGERED_MAX: usize = 32;

/// When refills happen, as far as weir knows.
pub(crate) struct Refills {
    waits: bool,
    staggers: bool,
    patience_ns: u64,
    /// For each workload: period it was found for, and a moment just after a refill.
    known: Vec<Option<(u64, u64)>>,
    rng: Rng,
}

impl Refills {
    pub(crate) fn new(
        options: &WeirOptions,
        interval_ns: u64,
        period_ns: u64,
        count: usize,
        seed: u64,
    ) -> Self {
        let patience_ns = interval_ns / 4 * 3;
        // A moment that cannot be waited for within an interval is not searched for.
        let waits = options.waits_for_refill && period_ns <= patience_ns;
        Refills {
            waits,
            staggers: waits && options.staggers,
            patience_ns,
            known: vec![None; count],
            rng: Rng::new(seed, 998),
        }
    }

    /// What a rewrite gives away, in quotas.
    pub(crate) fn leak_ratio(&self) -> f64 {
        if self.waits {
            1.0 / POLLS_PER_PERIOD as f64
        } else {
            1.0
        }
    }

    pub(crate) fn forget(&mut self, index: usize) {
        self.known[index] = None;
    }

    /// Whether the moment of the group's refill is known, or does not matter because writes do not wait for
    /// it.
    pub(crate) fn knows(&self, machine: &Machine, index: usize) -> bool {
        !self.waits || self.offset(machine, index).is_some()
    }

    /// The moment within the period that is in force.
    fn offset(&self, machine: &Machine, index: usize) -> Option<u64> {
        let period = machine.workloads[index].quota.limit()?.period_ns;
        self.known[index]
            .filter(|(of, _)| *of == period)
            .map(|(_, at)| at % period)
    }

    /// From now to just after the next refill; 0 where it is not known or too far.
    pub(crate) fn wait(&self, machine: &Machine, index: usize) -> u64 {
        let Some(offset) = self.offset(machine, index) else {
            return 0;
        };
        let period = machine.workloads[index]
            .quota
            .limit()
            .map_or(1, |l| l.period_ns);
        let wait = (offset + period - machine.now % period) % period;
        if wait <= self.patience_ns { wait } else { 0 }
    }
}

impl SimPlatform {
    /// Finds the refills of new limits, which takes a period, and moves them apart, which takes two.
    pub(crate) fn spread_refills(&mut self, new: &[usize]) {
        let step = self.period_ns / POLLS_PER_PERIOD;
        self.machine
            .run_until(self.machine.now + self.period_ns + 3 * step);
        for &index in new {
            let quota = &self.machine.workloads[index].quota;
            let Some(limit) = quota.limit().filter(|_| quota.is_active()) else {
                // An idle workload has no refills: tried again with its next rewrite.
                continue;
            };
            let seen = quota.expires() + self.refills.rng.below(step.max(1) as usize) as u64;
            self.refills.known[index] = Some((limit.period_ns, seen));
        }
        let held = self.refills.known.iter().flatten().count();
        if self.refills.staggers && (2..=STAGGERED_MAX).contains(&held) {
            self.move_apart(new);
        }
    }

    /// Moves refills of new limits apart, so that the workloads do not all run at the beginning of the same
    /// period.
    ///
    /// The first limits are spread evenly over the period, from where the first of them is. Later ones go
    /// into the middle of the largest gap that is left, because those before them stay where they are. A
    /// shift that is smaller than a refill is known ([`POLLS_PER_PERIOD`]) is not made. Each shift is two
    /// writes: a period that is longer by it, and a period later the ordinary one again.
    fn move_apart(&mut self, new: &[usize]) {
        let period = self.period_ns;
        let own = |i: &usize| {
            self.refills
                .offset(&self.machine, *i)
                .filter(|_| self.has_period(*i))
        };
        let mut taken: Vec<u64> = (0..self.labels.len())
            .filter(|i| !new.contains(i))
            .filter_map(|i| own(&i))
            .collect();
        let mut movable: Vec<(u64, usize)> =
            new.iter().filter_map(|i| Some((own(i)?, *i))).collect();
        movable.sort_unstable();
        let is_first = taken.is_empty();
        let (begin, count) = (movable.first().map_or(0, |m| m.0), movable.len() as u64);
        let mut steps = Vec::new();
        for (rank, (offset, index)) in movable.into_iter().enumerate() {
            let target = if is_first {
                (begin + rank as u64 * (period / count)) % period
            } else {
                middle_of_gap(&taken, period)
            };
            taken.push(target);
            let shift = (target + period - offset) % period / 1000 * 1000;
            if shift > period / POLLS_PER_PERIOD {
                let at = self.machine.now + self.refills.wait(&self.machine, index);
                steps.push((at, index, shift, true));
                steps.push((at + period, index, shift, false));
            }
        }
        steps.sort_unstable();
        for (at, index, shift, is_longer) in steps {
            self.machine.run_until(at.max(self.machine.now));
            self.shift(index, shift, is_longer);
        }
    }

    fn has_period(&self, index: usize) -> bool {
        let limit = self.machine.workloads[index].quota.limit();
        limit.is_some_and(|l| l.period_ns == self.period_ns)
    }

    /// The timer adds the period that is set when it fires: one longer period shifts all later ones.
    fn shift(&mut self, index: usize, shift: u64, is_longer: bool) {
        let Some(limit) = self.machine.workloads[index].quota.limit() else {
            return;
        };
        let added = if is_longer { shift } else { 0 };
        let limit = CpuMax {
            period_ns: self.period_ns + added,
            ..limit
        };
        self.spend_write();
        eevdf::write_cpu_max(&mut self.machine, index as u32, Some(limit));
        if !is_longer && let Some((_, at)) = self.refills.known[index] {
            self.refills.known[index] = Some((self.period_ns, at + shift));
        }
    }
}

/// The middle of the largest gap between moments on the circle.
fn middle_of_gap(taken: &[u64], period: u64) -> u64 {
    let mut sorted: Vec<u64> = taken.iter().map(|t| t % period).collect();
    sorted.sort_unstable();
    let Some(first) = sorted.first().copied() else {
        return 0;
    };
    let next = sorted.iter().skip(1).copied().chain([first + period]);
    let gaps = sorted.iter().zip(next).map(|(a, b)| (b - a, *a));
    gaps.max()
        .map_or(0, |(gap, from)| (from + gap / 2) % period)
}

#[cfg(test)]
mod tests {
    use super::middle_of_gap;

    #[test]
    fn the_largest_gap_is_found_over_the_end_too() {
        assert_eq!(middle_of_gap(&[0, 50], 100), 75);
        assert_eq!(middle_of_gap(&[40, 60], 100), 0);
        assert_eq!(middle_of_gap(&[5], 100), 55);
        assert_eq!(middle_of_gap(&[], 100), 0);
    }
}
