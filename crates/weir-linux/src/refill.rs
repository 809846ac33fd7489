// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of the back end that knows when quotas are refilled (see [`crate::phase`]): it finds the
//! moment for new limits, moves the refills of several workloads apart, and tells how long a rewrite
//! should wait.

use crate::actuator::Actuator;
use crate::clock::{now, sleep, sleep_until};
use crate::hold::Hold;
use crate::parse::cgroup::CpuMax;
use crate::phase::{LOOKS_PER_PERIOD, Phase, Watch, shifts};
use rustix::fd::AsFd;
use weir_core::{Nanos, WorkloadId};

/// With more limits than this, bursts are spread by their number alone.
const STEERED_MAX: usize = 32;

impl Actuator {
    /// How long a rewrite of this limit should wait for the next refill; 0 where that is not known.
    pub(crate) fn wait_for_refill(&self, id: &WorkloadId, at: Nanos) -> Nanos {
        let hold = self.holds.get(id);
        let phase = hold.and_then(|h| h.phase.filter(|p| p.is_of(h.written.period_us)));
        phase.map_or(Nanos(0), |p| p.wait(at))
    }

    /// Finds the moment of refill of limits that have none yet, within a little more than a period.
    /// What is idle now is not found, and tried again with its next rewrite.
    pub(crate) fn find_phases(&mut self, ids: &[WorkloadId]) {
        let mut watches: Vec<_> = ids.iter().map(|id| (id, Watch::new())).collect();
        let step = Nanos(self.period_us.saturating_mul(1000) / LOOKS_PER_PERIOD);
        for _ in 0..LOOKS_PER_PERIOD + 3 {
            watches.retain_mut(|(id, watch)| {
                let Some(hold) = self.holds.get_mut(*id) else {
                    return false;
                };
                let stat = hold.cpu_stat(self.root.as_fd(), &mut self.buffer);
                let Some(count) = stat.and_then(|s| s.nr_periods) else {
                    return false;
                };
                let found = watch.look(count);
                if found {
                    hold.phase = Some(Phase::seen(hold.written.period_us, now()));
                }
                !found
            });
            if watches.is_empty() {
                break;
            }
            sleep(step);
        }
    }

    /// Whether a limit is in force whose moment of refill is not known.
    pub(crate) fn needs_phase(&self, id: &WorkloadId) -> bool {
        let known = |h: &Hold| h.phase.is_some_and(|p| p.is_of(h.written.period_us));
        self.holds.get(id).is_some_and(|hold| !known(hold))
    }

    /// Moves the refills of new limits apart from each other and from those of others: each gets one
    /// longer period. Takes about two periods.
    pub(crate) fn steer(&mut self, ids: &[WorkloadId]) {
        let is_steerable = |h: &Hold| h.written == h.ours && h.written.quota_us.is_some();
        let new: Vec<(WorkloadId, Phase)> = ids
            .iter()
            .filter_map(|id| Some((id, self.holds.get(id).filter(|h| is_steerable(h))?)))
            .filter_map(|(id, hold)| Some((id.clone(), hold.phase?)))
            .filter(|(_, phase)| phase.is_of(self.period_us))
            .collect();
        if self.holds.len() > STEERED_MAX || self.holds.len() < 2 {
            return;
        }
        let known = |(id, hold): (&WorkloadId, &Hold)| {
            let phase = hold.phase.filter(|p| p.is_of(self.period_us));
            phase.filter(|_| !ids.contains(id)).map(|p| p.offset_ns())
        };
        let others: Vec<u64> = self.holds.iter().filter_map(known).collect();
        let offsets: Vec<u64> = new.iter().map(|(_, phase)| phase.offset_ns()).collect();
        let shifts = shifts(&others, &offsets, self.period_us * 1000);
        let moves: Vec<Move> = new
            .into_iter()
            .zip(shifts)
            .map(|((id, phase), shift_ns)| Move {
                id,
                phase,
                shift_us: shift_ns / 1000,
            })
            // What a look cannot tell apart needs no move.
            .filter(|m| m.shift_us > self.period_us / LOOKS_PER_PERIOD)
            .collect();
        self.carry_out(&moves);
    }

    /// Just after a refill the longer period is set, and just after the next one the right period again:
    /// the timer has added the longer one by then.
    fn carry_out(&mut self, moves: &[Move]) {
        let begun = now();
        let period = Nanos(self.period_us * 1000);
        let at =
            |m: &Move, periods: u64| Nanos(begun.0 + m.phase.wait(begun).0 + periods * period.0);
        let mut steps: Vec<(Nanos, &Move, bool)> = Vec::new();
        for m in moves {
            steps.push((at(m, 0), m, true));
            steps.push((at(m, 1), m, false));
        }
        steps.sort_by_key(|(at, ..)| *at);
        for (at, m, is_longer) in steps {
            sleep_until(at);
            let Some(hold) = self.holds.get(&m.id) else {
                continue;
            };
            let (CpuMax { quota_us, .. }, phase) = (hold.ours, hold.phase);
            let added = if is_longer { m.shift_us } else { 0 };
            let limit = CpuMax {
                quota_us,
                period_us: self.period_us + added,
            };
            let done = self.set(&m.id, limit).is_ok();
            if let Some(hold) = self.holds.get_mut(&m.id) {
                // After a failure nothing is known of its phase: it is searched again.
                hold.phase = match is_longer {
                    true => phase.filter(|_| done),
                    false => phase.filter(|_| done).map(|p| p.later(m.shift_us)),
                };
            }
        }
    }
}

/// A refill to be moved.
struct Move {
    id: WorkloadId,
    phase: Phase,
    shift_us: u64,
}
