// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one step remembers for the next, and how it learns the outcome of its plan.
//!
//! Workloads lie in one vector ordered by id, as they do in an observation, so that a step joins
//! the two in one pass. A workload that is missing from an observation is kept for a while if a
//! limit of ours lies on it: one unreadable file must not make us forget a limit that is in force.
//!
//! Nothing here belongs to one step alone: what a step finds, its stages hand on as values
//! ([`super::findings`]).

use super::devices::DeviceTrack;
use super::own_traffic::page_migration::PageMigration;
use super::own_traffic::probe_traffic::ProbeTraffic;
use super::own_traffic::unseen_users::UnseenUsers;
use super::writes::WRITES_PER_STEP;
use crate::ids::{DeviceId, GroupId, WorkloadId};
use crate::rates::bandwidth::{Ewma, Meter};
use crate::rates::counters::Counter;
use crate::rates::task_counts::TaskCounter;
use crate::seam::observation::WorkloadReading;
use crate::seam::plan::{Action, ActionKind, Outcome, OutcomeKind};
use crate::seam::topology::TaskEvent;
use crate::units::Nanos;

/// Steps for which a limited workload may be missing before its limit is given up. One file that could not be
/// read must not make the controller forget a limit that is in force.
const ABSENT_STEPS: u32 = 20;

/// Time for which a workload is left alone after a request was refused, so that not each step requests again
/// what was refused.
const RETRY_AFTER: Nanos = Nanos::from_millis(1000);

/// Memory of the recent write rate of one workload's limit, in seconds.
const WRITE_MEMORY_SECS: f64 = 2.0;

/// What one step remembers for the next. Opaque; starts empty.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) meter: Meter,
    pub(super) probe: ProbeTraffic,
    pub(super) migration: PageMigration,
    pub(super) unseen: UnseenUsers,
    pub(super) last_at: Option<Nanos>,
    /// The devices, in ascending order of id.
    pub(super) devices: Vec<DeviceTrack>,
    /// The workloads, in ascending order of id.
    pub(super) workloads: Vec<WorkloadState>,
    /// The workload with which the last list of weights ended.
    pub(super) weighed_last: Option<WorkloadId>,
    /// What the counts of workloads are of.
    task_events: Vec<TaskEvent>,
}

impl State {
    /// Counts of other events than before say nothing of the time between.
    pub(super) fn follow_events(&mut self, events: &[TaskEvent]) {
        if self.task_events == events {
            return;
        }
        self.task_events = events.to_vec();
        for workload in &mut self.workloads {
            workload.task_counts = None;
        }
    }

    /// Takes in what became of the last plan's actions. A limit counts as in force only after its
    /// action was reported [`OutcomeKind::Applied`] or [`OutcomeKind::Unchanged`]; what is not
    /// reported is taken as not done and requested again. Call it after each `apply`.
    pub fn note(&mut self, outcomes: &[Outcome]) {
        let at = self.last_at.unwrap_or_default();
        for outcome in outcomes {
            let found = self
                .workloads
                .binary_search_by(|t| t.id.cmp(&outcome.workload));
            if let Some(tracked) = found.ok().and_then(|i| self.workloads.get_mut(i)) {
                tracked.hold.note(at, &outcome.result);
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct WorkloadState {
    pub id: WorkloadId,
    pub cpu: Counter,
    /// The most CPUs that were online since the reading that its next difference begins with.
    pub cpus: u32,
    /// It used no CPU time between its last two readings.
    pub is_still: bool,
    pub throttled: Counter,
    /// Boxed: most machines count no tasks, and the list is gone through many times in a step.
    pub task_counts: Option<Box<TaskCounts>>,
    pub uses: Vec<GroupUse>,
    /// One entry for each device that it uses.
    pub loads: Vec<DeviceUse>,
    /// CPU it used, smoothed over a few intervals.
    pub cpu_smooth: Ewma,
    /// CPU it would use if we did not hold it back.
    pub wanted: f64,
    /// How many times what it is seen to want it is taken to want, because CPUs are full; with policy drf
    /// only (see [`super::dominant`]).
    pub reach: f64,
    /// Factor on a limit for want of CPU time: what the limit takes beyond what it should.
    pub cpu_correction: f64,
    pub hold: LimitState,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskCounts {
    pub counter: TaskCounter,
    /// What it used when the counts were read that the next difference begins with.
    pub groups: Vec<GroupId>,
}

#[derive(Clone, Debug)]
pub(super) struct GroupUse {
    pub group: GroupId,
    pub loads: Counter,
    pub stores: Counter,
    /// What it has stored and the caches still hold, in bytes of the source's scale.
    pub unwritten: f64,
}

/// Its use of one device. There are thousands of these, each by itself in memory, and a step meets a cold
/// cache: they are kept small.
#[derive(Clone, Debug)]
pub(super) struct DeviceUse {
    pub device: DeviceId,
    /// Bytes and CPU time over the same intervals: κ is their quotient. A quotient of averages,
    /// not an average of quotients: intervals in which a tick-quantised limit left almost no CPU
    /// time would otherwise count as much as full ones, with a random κ.
    pub bytes: f64,
    pub cpu: f64,
    pub samples: u16,
    /// Bandwidth, smoothed.
    pub smooth: f64,
    /// The same without jumps: its mean over a second, or of all intervals while there are fewer.
    pub mean: f64,
    pub seen_steps: u16,
    /// The mean when no limit held it back last; 0 where it moved nothing then, or was never seen so.
    pub free_mean: f64,
    /// The last time at which no limit held it back.
    pub free_at: Nanos,
}

impl DeviceUse {
    pub(super) fn new(device: DeviceId) -> Self {
        DeviceUse {
            device,
            bytes: 0.0,
            cpu: 0.0,
            samples: 0,
            smooth: 0.0,
            mean: 0.0,
            seen_steps: 0,
            free_mean: 0.0,
            free_at: Nanos(0),
        }
    }

    /// κ in bytes per CPU-second, once it was measured often enough to be used.
    pub(super) fn intensity(&self) -> Option<f64> {
        let kappa = self.bytes / self.cpu;
        (self.samples >= 2 && kappa.is_finite() && kappa > 0.0).then_some(kappa)
    }

    /// What it moved when no limit held it back last, and when that was, if it was ever seen so.
    pub(super) fn seen_free(&self) -> Option<(f64, Nanos)> {
        (self.free_mean > 0.0).then_some((self.free_mean, self.free_at))
    }
}

/// A change of a limit that a plan requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LimitRequest {
    /// The CPU time that it is to come to, in CPUs, whatever resource is limited.
    Limit {
        cpus: f64,
    },
    Release,
}

/// What became of releases. A workload may use less than its limit because it wants no more, or because it
/// waits for a CPU behind tasks that come first; its use does not tell. One that had to be limited again soon
/// after a release keeps its limit longer the next time. It costs it nothing: the limit is raised meanwhile,
/// until it is not felt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Relapse {
    pub released_at: Option<Nanos>,
    pub wait_secs: f64,
}

/// A release was wrong if the workload has to be limited again within this time, in seconds. That it used
/// less than its limit was then a wait for a CPU and no smaller demand, and the use alone does not tell the
/// two apart (ADR 22).
const RELAPSE_SECS: f64 = 10.0;

/// The time for which the next limit must not be felt before it is released, in seconds: after the first
/// wrong release, and the most after any number of them. It doubles each time (ADR 22), so that a workload
/// that is wrongly released for ever costs ever fewer overloads.
const RELAPSE_WAIT_SECS: (f64, f64) = (2.0, 60.0);

impl Relapse {
    fn begin(&mut self, at: Nanos) {
        let (first, most) = RELAPSE_WAIT_SECS;
        let since = |then: Nanos| at.0.saturating_sub(then.0) as f64 / 1e9;
        self.wait_secs = match self.released_at.take().map(since) {
            Some(since) if since < RELAPSE_SECS => (2.0 * self.wait_secs).max(first).min(most),
            Some(_) if self.wait_secs > first => self.wait_secs / 2.0,
            _ => 0.0,
        };
    }
}

/// A limit that was exceeded for so long does not bind, in seconds. A rewrite gives a quota away, and a step
/// takes the time of a period or two.
const UNBOUND_AFTER_SECS: f64 = 1.0;

#[derive(Clone, Debug, Default)]
pub(super) struct LimitState {
    /// What the platform confirmed, in CPUs.
    pub in_force: Option<f64>,
    /// Requested by the last plan, not yet reported back.
    pub requested: Option<LimitRequest>,
    /// Where the limit should be now, after slew limits, in CPUs.
    pub target: Option<f64>,
    pub written_at: Option<Nanos>,
    /// How far off what is in force was lately, relative to it: the mean since it was written.
    pub lasting_deviation: f64,
    /// Recent writes per second.
    pub write_rate: f64,
    /// When a limit was taken off last, and how long the next must not be felt before it goes.
    pub relapse: Relapse,
    /// The device on which it was short last.
    pub last_short_on: Option<DeviceId>,
    /// No request before this time.
    pub retry_at: Nanos,
    /// Why the last request was not carried out.
    pub refused: Option<String>,
    /// It runs into our limit.
    pub pinned: bool,
    /// Steps since it last ran into our limit.
    pub calm_steps: u32,
    /// The same as time, in seconds; a gap between two observations counts for one at most.
    pub calm_secs: f64,
    /// For how long it has used far more than its limit, in seconds.
    pub unbound_secs: f64,
    /// Steps since its part was last smaller than its demand.
    pub covered_steps: u32,
    /// Steps for which its traffic was not known.
    pub blind_steps: u32,
    pub absent_steps: u32,
    /// Steps for which a change was wanted and left over (see [`super::writes`]).
    pub waited_steps: u32,
    /// The CPUs that it would use without a limit: the most seen lately.
    pub would_use: f64,
    /// The part of its weight that was requested last, and when.
    pub weight_requested: Option<(f64, Nanos)>,
    /// The limit that may be there is that of another workload under its name, and is to be taken off.
    pub is_reborn: bool,
}

impl LimitState {
    /// Its limit does not hold it: its tasks are real-time, or another program raises the limit. Then
    /// what it takes beyond its part is taken from no other, and the set-point is not held.
    pub(super) fn is_unbound(&self) -> bool {
        self.in_force.is_some() && self.unbound_secs >= UNBOUND_AFTER_SECS
    }

    /// Takes in what became of the last request.
    ///
    /// Only a value that was really written counts as a write: each write gives some quota away, and the
    /// limit is set lower by what the recent ones gave (`limits.rs`). A request that was refused is not made
    /// again before `retry_at`, and the target goes back to what is in force, so that it does not move away
    /// from a limit that stands still.
    fn note(&mut self, at: Nanos, result: &OutcomeKind) {
        let Some(requested) = self.requested.take() else {
            return;
        };
        match result {
            OutcomeKind::Applied | OutcomeKind::Unchanged => {
                self.refused = None;
                match requested {
                    LimitRequest::Limit { cpus } => {
                        if self.in_force.replace(cpus).is_none() {
                            self.relapse.begin(at);
                        }
                    }
                    LimitRequest::Release => {
                        self.relapse.released_at = Some(at);
                        *self = self.free();
                    }
                }
                if matches!(result, OutcomeKind::Applied) {
                    self.written_at = Some(at);
                    self.lasting_deviation = 0.0;
                    self.write_rate += 1.0 / WRITE_MEMORY_SECS;
                }
            }
            OutcomeKind::Vanished => *self = self.free(),
            OutcomeKind::Refused(why) | OutcomeKind::Failed(why) => {
                self.refused = Some(why.clone());
                self.retry_at = Nanos(at.0.saturating_add(RETRY_AFTER.0));
                self.target = self.in_force;
            }
        }
    }

    /// Without a limit; only the memory of writes and of releases stays.
    fn free(&self) -> LimitState {
        LimitState {
            write_rate: self.write_rate,
            written_at: self.written_at,
            relapse: self.relapse,
            ..LimitState::default()
        }
    }

    /// Lets the memory of writes fade to this part ([`writes_kept`]).
    pub(super) fn age(&mut self, kept: f64) {
        if self.write_rate > 0.0 {
            self.write_rate *= kept;
        }
    }
}

/// The part of the memory of writes that is left after so many seconds.
pub(super) fn writes_kept(dt_secs: f64) -> f64 {
    (-dt_secs / WRITE_MEMORY_SECS).exp()
}

impl WorkloadState {
    pub(super) fn new(id: WorkloadId) -> Self {
        WorkloadState {
            id,
            cpu: Counter::default(),
            cpus: 0,
            is_still: false,
            throttled: Counter::default(),
            task_counts: None,
            uses: Vec::new(),
            loads: Vec::new(),
            cpu_smooth: Ewma::default(),
            wanted: 0.0,
            reach: 1.0,
            cpu_correction: 1.0,
            hold: LimitState::default(),
        }
    }

    /// Makes the list of groups the same as the one seen, keeping what is known of those that stay.
    pub(super) fn follow_uses(&mut self, seen: &WorkloadReading) {
        let groups = seen.uses.iter().map(|u| u.group);
        if self.uses.iter().map(|u| u.group).eq(groups) {
            return;
        }
        let mut old = std::mem::take(&mut self.uses);
        for use_ in seen.uses.iter() {
            let kept = old
                .iter()
                .position(|u| u.group == use_.group)
                .map(|i| old.swap_remove(i));
            self.uses.push(kept.unwrap_or_else(|| GroupUse {
                group: use_.group,
                loads: Counter::default(),
                stores: Counter::default(),
                unwritten: 0.0,
            }));
        }
        let uses = &self.uses;
        self.loads
            .retain(|load| uses.iter().any(|u| u.group.device == load.device));
        for use_ in uses {
            let device = use_.group.device;
            if let Err(i) = self.loads.binary_search_by_key(&device, |l| l.device) {
                self.loads.insert(i, DeviceUse::new(device));
            }
        }
    }
}

/// What an observation means for the list of workloads.
pub(super) struct Followed {
    /// For each workload of the list its position in the observation; nothing if it is missing there.
    pub positions: Vec<Option<usize>>,
    /// Releases for limited workloads that stay away.
    pub given_up: Vec<Action>,
}

pub(super) fn follow(tracked: &mut Vec<WorkloadState>, seen: &[WorkloadReading]) -> Followed {
    let mut followed = Followed {
        positions: Vec::with_capacity(tracked.len().max(seen.len())),
        given_up: Vec::new(),
    };
    // Mostly they are the same as before, and then they are in order.
    let same = tracked.len() == seen.len() && tracked.iter().zip(seen).all(|(t, s)| t.id == s.id);
    if same {
        for (index, known) in tracked.iter_mut().enumerate() {
            known.hold.absent_steps = 0;
            followed.positions.push(Some(index));
        }
        return followed;
    }

    let order = by_id(seen);
    let mut old = std::mem::take(tracked).into_iter().peekable();
    tracked.reserve(order.len());
    for &index in &order {
        let Some(id) = seen.get(index).map(|s| &s.id) else {
            continue;
        };
        while let Some(missing) = old.next_if(|t| t.id < *id) {
            keep_or_give_up(missing, tracked, &mut followed);
        }
        let mut known = old
            .next_if(|t| t.id == *id)
            .unwrap_or_else(|| WorkloadState::new(id.clone()));
        known.hold.absent_steps = 0;
        tracked.push(known);
        followed.positions.push(Some(index));
    }
    for missing in old {
        keep_or_give_up(missing, tracked, &mut followed);
    }
    followed
}

fn keep_or_give_up(
    mut missing: WorkloadState,
    kept: &mut Vec<WorkloadState>,
    followed: &mut Followed,
) {
    let is_held = missing.hold.in_force.is_some() || missing.hold.is_reborn;
    if !is_held && missing.hold.requested.is_none() {
        return;
    }
    missing.hold.absent_steps = missing.hold.absent_steps.saturating_add(1);
    let may_release = followed.given_up.len() < WRITES_PER_STEP;
    if missing.hold.absent_steps > ABSENT_STEPS && may_release {
        followed.given_up.push(Action {
            workload: missing.id,
            kind: ActionKind::Release,
        });
    } else {
        kept.push(missing);
        followed.positions.push(None);
    }
}

/// Positions by ascending id, each id once. An observation is ordered, so this is a plain count;
/// one that is not costs a sort and no more.
fn by_id(seen: &[WorkloadReading]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..seen.len()).collect();
    if !seen.is_sorted_by(|a, b| a.id < b.id) {
        order.sort_by(|&a, &b| seen.get(a).map(|s| &s.id).cmp(&seen.get(b).map(|s| &s.id)));
        order.dedup_by(|a, b| seen.get(*a).map(|s| &s.id) == seen.get(*b).map(|s| &s.id));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_came_back_soon_is_kept_longer_each_time_and_that_is_forgotten() {
        let mut relapse = Relapse::default();
        let mut at_secs = 100;
        let mut again_after = |secs: u64| {
            relapse.released_at = Some(Nanos(at_secs * 1_000_000_000));
            at_secs += secs;
            relapse.begin(Nanos(at_secs * 1_000_000_000));
            relapse.wait_secs
        };
        let waits: Vec<f64> = (0..7).map(|_| again_after(1)).collect();
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        let waits: Vec<f64> = (0..6).map(|_| again_after(30)).collect();
        assert_eq!(waits, [30.0, 15.0, 7.5, 3.75, 1.875, 0.0]);
    }
}
