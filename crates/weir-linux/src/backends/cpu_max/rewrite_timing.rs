// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of the back end that knows when quotas are refilled (see
//! [`crate::backends::cpu_max::period_phase`]). It finds the phase of new limits, moves the refills of
//! several workloads apart, and says how long a rewrite should wait.

use super::CpuMaxBackend;
use super::limited::LimitedCgroup;
use super::period_phase::{Phase, SAMPLES_PER_PERIOD, Watch, shifts};
use crate::backends::BackendContext;
use crate::kernel::clock::{now, sleep, sleep_until};
use crate::kernel::parse::cgroup::CpuMax;
use rustix::fd::AsFd;
use weir_core::{Nanos, WorkloadId};

/// With more limits than this, bursts are spread by their number alone. Nor are the phases of more searched
/// at once: each takes some twenty samples. Those of the others are searched after their next write.
const STEERED_MAX: usize = 32;

/// Bursts of shorter periods even out within an interval, and are not worth that the loop waits again.
const SEARCHED_FROM_US: u64 = 50_000;

impl CpuMaxBackend {
    /// How long a rewrite of this limit should wait for the next refill; 0 where that is not known.
    pub(crate) fn wait_for_refill(&self, id: &WorkloadId, at: Nanos) -> Nanos {
        let hold = self.holds.get(id);
        let phase = hold.and_then(|h| h.phase.filter(|p| p.is_of(h.written.period_us)));
        phase.map_or(Nanos(0), |p| p.wait(at))
    }

    /// Finds the moments of refill of the limits just written for the first time, and moves them apart
    /// from those of others. Where that was hidden (its workload was idle, weir was held up), it is
    /// tried again while nothing is new, ever more seldom: the loop waits meanwhile, up to three periods.
    pub(crate) fn spread(&mut self, new: &[WorkloadId], context: &mut BackendContext) {
        let ids = match new {
            [] => self.hidden(),
            new => new.iter().take(STEERED_MAX).cloned().collect(),
        };
        if !ids.is_empty() {
            self.find_phases(&ids, context);
            self.steer(&ids, context);
        }
    }

    /// The workloads with refills to be searched again now.
    fn hidden(&mut self) -> Vec<WorkloadId> {
        if self.is_short() || !(2..=STEERED_MAX).contains(&self.holds.len()) {
            return Vec::new();
        }
        let is_whole = |hold: &LimitedCgroup| hold.written.period_us == self.period_us;
        let unknown = self
            .holds
            .iter()
            .filter(|(_, h)| is_whole(h) && h.needs_phase());
        let ids: Vec<_> = unknown.map(|(id, _)| id.clone()).collect();
        if ids.is_empty() || !self.search.is_due(now()) {
            return Vec::new();
        }
        ids
    }

    fn is_short(&self) -> bool {
        self.period_us < SEARCHED_FROM_US
    }

    /// How late a sample or a write may come and still give the phase: half a period, since many limits on
    /// slow CPUs take several steps for one round of samples. Where a phase is not searched again, a vague
    /// one is better than none.
    fn late(&self) -> Nanos {
        if self.is_short() {
            Nanos(u64::MAX)
        } else {
            Nanos(self.period_us.saturating_mul(1000) / 2)
        }
    }

    /// Watches each for a little more than a period.
    fn find_phases(&mut self, ids: &[WorkloadId], context: &mut BackendContext) {
        let mut watches: Vec<_> = ids.iter().map(|id| (id, Watch::default())).collect();
        let step = Nanos(self.period_us.saturating_mul(1000) / SAMPLES_PER_PERIOD);
        let late = self.late();
        for _ in 0..SAMPLES_PER_PERIOD + 3 {
            watches.retain_mut(|(id, watch)| {
                let Some(hold) = self.holds.get_mut(*id) else {
                    return false;
                };
                let count = hold.refills(context.root.as_fd(), &mut context.buffer);
                let Some(count) = count else {
                    return false;
                };
                let seen_at = now();
                let found = watch.sample(count, seen_at, late);
                if found {
                    let phase = Phase::seen(hold.written.period_us, seen_at);
                    hold.phase = Some(phase);
                    tracing::debug!(workload = %id, offset_ns = phase.offset_ns(), "refill found");
                }
                !found
            });
            if watches.is_empty() {
                break;
            }
            sleep(step);
        }
    }

    /// Whether a limit is in force of which the phase of refills is not known.
    pub(crate) fn needs_phase(&self, id: &WorkloadId) -> bool {
        self.holds.get(id).is_some_and(LimitedCgroup::needs_phase)
    }

    /// Moves the refills of new limits apart from each other and from those of others: each gets one
    /// longer period. Takes about two periods.
    fn steer(&mut self, ids: &[WorkloadId], context: &mut BackendContext) {
        let is_steerable = |h: &LimitedCgroup| h.written == h.ours && h.written.quota_us.is_some();
        let new: Vec<(WorkloadId, Phase)> = ids
            .iter()
            .filter_map(|id| Some((id, self.holds.get(id).filter(|h| is_steerable(h))?)))
            .filter_map(|(id, hold)| Some((id.clone(), hold.phase?)))
            .filter(|(_, phase)| phase.is_of(self.period_us))
            .collect();
        if self.holds.len() > STEERED_MAX || self.holds.len() < 2 {
            return;
        }
        let known = |(id, hold): (&WorkloadId, &LimitedCgroup)| {
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
            // A shift that a sample cannot resolve needs no move.
            .filter(|m| m.shift_us > self.period_us / SAMPLES_PER_PERIOD)
            .collect();
        self.carry_out(&moves, context);
    }

    /// Just after a refill the longer period is set, and just after the next one the right period again: the
    /// timer has added the longer one by then. If the first write comes too late, nothing is moved. If the
    /// second comes too late, the refill may have moved twice. In both cases the phase is not known any more,
    /// and is searched again.
    fn carry_out(&mut self, moves: &[Move], context: &mut BackendContext) {
        let begun = now();
        let (period, late) = (Nanos(self.period_us * 1000), self.late());
        let mut steps: Vec<(Nanos, &Move, RewriteStep)> = Vec::new();
        for m in moves {
            let first = begun.0 + m.phase.wait(begun).0;
            steps.push((Nanos(first), m, RewriteStep::Longer));
            steps.push((Nanos(first + period.0), m, RewriteStep::Back));
        }
        steps.sort_by_key(|(at, ..)| *at);
        for (at, m, step) in steps {
            sleep_until(at);
            let Some(ours) = self.holds.get(&m.id).map(|hold| hold.ours) else {
                continue;
            };
            let is_late = || now().0 > at.0.saturating_add(late.0);
            let is_longer = step == RewriteStep::Longer && !is_late();
            let limit = CpuMax {
                period_us: self.period_us + if is_longer { m.shift_us } else { 0 },
                ..ours
            };
            let is_known = self.set(&m.id, limit, context).is_ok() && !is_late();
            let Some(hold) = self.holds.get_mut(&m.id) else {
                continue;
            };
            let phase = hold.phase.filter(|_| is_known);
            hold.phase = match step {
                RewriteStep::Longer => phase,
                RewriteStep::Back => phase.map(|p| p.later(m.shift_us)),
            };
            let offset_ns = hold.phase.map(|p| p.offset_ns());
            tracing::debug!(workload = %m.id, limit.period_us, offset_ns, "refill moved");
        }
    }
}

struct Move {
    id: WorkloadId,
    phase: Phase,
    shift_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RewriteStep {
    Longer,
    Back,
}
