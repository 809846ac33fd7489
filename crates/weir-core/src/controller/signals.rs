// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Second stage: counters of workloads become signals: CPU used, time held back, and what each can have moved
//! of each group.

use super::findings::{StepContext, StepRates};
use super::state::{self, GroupUse, State, TaskCounts, WorkloadState};
use crate::ids::GroupId;
use crate::rates::attribution::{AccessSignal, fits_a_core, part_share, sampled_share};
use crate::rates::counters::{Counter, Delta, FULL_MASK, Limits};
use crate::rates::task_counts::{MemorySplit, TaskDelta};
use crate::seam::observation::{EventCounts, Missing, Reading, Use, WorkloadKind, WorkloadReading};
use crate::seam::plan::Action;
use crate::seam::topology::Description;
use crate::units::{Bytes, Nanos};
use std::ops::Range;

/// A counter of nanoseconds or bytes of which only the width is known.
const PLAIN: Limits = Limits {
    mask: FULL_MASK,
    per_sec: None,
};

/// What the readings of one step say.
pub(super) struct Signals {
    /// One for each workload of [`State`], in the same order.
    pub workloads: Vec<WorkloadSignals>,
    /// Owners of groups: workloads and those of their uses that may have moved something, in their order, and
    /// after them weir's own probe.
    pub accesses: Vec<AccessSignal>,
    /// For each access of a workload, the place of that access among the workload's uses.
    pub places: Vec<usize>,
    /// One entry for each group: what the kernel is known to have moved by migrating pages, in bytes per
    /// second. The list is empty where it moved none.
    pub migrated: Vec<f64>,
    /// Releases for limited workloads that stay away.
    pub given_up: Vec<Action>,
    /// Part of their time that events of tasks ran, of the workload with the least; 1 where all did.
    pub running_ratio: f64,
}

/// What the readings of one workload say. Of one that is missing from the observation, nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkloadSignals {
    /// Position in the observation; nothing if it is missing there.
    pub index: Option<usize>,
    /// Seen for the first time, or anew under its old name.
    pub is_fresh: bool,
    /// CPU used over the last interval, in CPUs.
    pub cpu: Option<f64>,
    /// It is exact: the CPU time of a process moves on a clock tick at a time.
    pub is_exact: bool,
    /// Part of the last interval for which it was held back.
    pub throttled_ratio: f64,
    /// It may be limited at all.
    pub is_limitable: bool,
    pub weight: f64,
    /// A limit at or above this is none.
    pub cap: f64,
    /// The range of the accesses that are its own.
    pub uses: Range<usize>,
    /// When the counts of its tasks were read, if they were.
    pub counted_at: Option<Nanos>,
}

impl WorkloadSignals {
    /// CPU used, where it is exact.
    pub fn exact_cpu(&self) -> Option<f64> {
        self.cpu.filter(|_| self.is_exact)
    }
}

/// Makes the list of workloads follow the observation and reads the counters of all. A workload that began
/// anew under its old name while a limit of ours was thought to be on it is marked in its limit.
pub(super) fn read(state: &mut State, context: &StepContext<'_>, rates: &StepRates) -> Signals {
    state.follow_events(&context.machine.task_events);
    let followed = state::follow(&mut state.workloads, &context.seen.workloads);
    let count = state.workloads.len();
    let mut signals = Signals {
        workloads: Vec::with_capacity(count),
        accesses: Vec::with_capacity(count),
        places: Vec::with_capacity(count),
        migrated: Vec::new(),
        given_up: followed.given_up,
        running_ratio: 1.0,
    };
    let mut task_counts = context.seen.task_counts.iter().peekable();
    for (tracked, index) in state.workloads.iter_mut().zip(followed.positions) {
        // Both are in the order of ids. Mostly the next one is that of this workload, and no text is
        // compared.
        while task_counts
            .next_if(|counts| counts.id != tracked.id && counts.id < tracked.id)
            .is_some()
        {}
        let counts = task_counts.next_if(|counts| counts.id == tracked.id);
        let counts = counts.map(|reading| &reading.counts);
        let found = index.and_then(|i| context.seen.workloads.get(i));
        let mut seen = WorkloadSignals {
            index,
            ..WorkloadSignals::default()
        };
        if let Some(found) = found {
            read_workload(tracked, found, context, &mut seen);
            let begin = signals.accesses.len();
            let given = (context, rates);
            read_uses(tracked, found, &mut seen, given, counts, &mut signals);
            seen.uses = begin..signals.accesses.len();
        }
        signals.workloads.push(seen);
    }
    let own = state.probe.read(&rates.groups, &context.seen.probe_traffic);
    signals.accesses.extend(own);
    let seen = context.seen.page_migration.as_ref();
    let migrated = state.migration.read(&rates.groups, seen, context.dt);
    signals.accesses.extend(migrated.signals);
    signals.migrated = migrated.known;
    let unseen = state.unseen.read(&signals, context, rates);
    signals.accesses.extend(unseen);
    signals
}

fn read_workload(
    tracked: &mut WorkloadState,
    found: &WorkloadReading,
    context: &StepContext<'_>,
    seen: &mut WorkloadSignals,
) {
    let online = context.machine.cpu_count.max(1);
    // CPUs that went offline since were used until then.
    let most = tracked.cpus.max(online);
    let cpu_limits = Limits {
        mask: FULL_MASK,
        per_sec: Some(f64::from(most) * 1e9),
    };
    tracked.follow_uses(found);
    let cpu = tracked.cpu.advance(cpu_limits, &found.cpu_ns);
    if found.cpu_ns.value.is_ok() && matches!(cpu, Err(Missing::Lost(_))) {
        begin_anew(tracked, found);
    }
    tracked.cpus = if cpu.is_ok() { online } else { most };
    seen.cpu = used(&mut tracked.is_still, &found.cpu_ns, cpu);
    seen.is_exact = found.kind == WorkloadKind::Cgroup;
    // A reason costs an allocation to copy; it is not read here.
    if found.throttled_ns.value.is_ok()
        && let Ok(held) = tracked.throttled.advance(PLAIN, &found.throttled_ns)
    {
        seen.throttled_ratio = held.per_sec() / 1e9;
    }
    let never = tracked.cpu_smooth.get().is_none() && found.cpu_ns.value.is_ok();
    seen.is_fresh = seen.cpu.is_none() && never;
    seen.is_limitable = found.excluded.is_none();
    // Weights from the configuration go before those found on the system.
    let configured = if context.config.weights.is_empty() {
        None
    } else {
        context.config.weights.get(tracked.id.as_str())
    };
    seen.weight = configured.copied().unwrap_or(found.weight);
    let cpus = f64::from(online);
    seen.cap = found.their_limit_cpus.map_or(cpus, |t| t.get().min(cpus));
}

/// Reads the signs that a workload uses its groups: by counts of its tasks where there are any, else by
/// samples, and always by CPU time and memory, which the weaker kind of attribution falls back to. A group in
/// which it has no memory, and of which nothing was sampled, is not used.
fn read_uses(
    tracked: &mut WorkloadState,
    found: &WorkloadReading,
    seen: &mut WorkloadSignals,
    (context, rates): (&StepContext<'_>, &StepRates),
    counts: Option<&Reading<EventCounts>>,
    signals: &mut Signals,
) {
    if let Some(known) = &mut tracked.task_counts {
        let is_used = |group: &GroupId| found.uses.iter().any(|use_| use_.group == *group);
        known.groups.retain(is_used);
    }
    let counted = counts.map(|reading| {
        let known = tracked.task_counts.get_or_insert_default();
        CountedTraffic::read(known, reading, &found.uses, context.machine)
    });
    if let Some(delta) = counted.as_ref().and_then(|counted| counted.delta) {
        signals.running_ratio = signals.running_ratio.min(delta.running_ratio);
    }
    let uses = tracked.uses.iter_mut().zip(found.uses.iter());
    for (place, (track, use_)) in uses.enumerate() {
        let (sampled, stores) = match &counted {
            Some(counted) => counted.of_use(track, use_),
            None => sampled(track, use_),
        };
        let resident = use_.resident_bytes.ok();
        let is_active = resident != Some(&Bytes(0)) || sampled.is_some_and(|s| s > 0.0);
        if !is_active {
            continue;
        }
        let group = rates.groups.binary_search_by_key(&use_.group, |g| g.id);
        signals.places.push(place);
        signals.accesses.push(AccessSignal {
            group: group.unwrap_or(usize::MAX),
            sampled,
            stores,
            is_new: seen.is_fresh,
            ..by_memory(context.machine, found, use_, seen.cpu)
        });
    }
    seen.counted_at = counts.map(|reading| reading.at);
    if let (Some(counted), Some(reading)) = (counted, counts) {
        counted.finish(reading.at, &found.uses);
    }
}

/// Its signs by CPU time and memory. Where it is not known what it has in the group, all of its memory may be
/// there.
fn by_memory(
    machine: &Description,
    found: &WorkloadReading,
    use_: &Use,
    cpus: Option<f64>,
) -> AccessSignal {
    let in_bytes = |bytes: &Bytes| bytes.0 as f64;
    let known = use_.resident_bytes.ok().map(in_bytes);
    let group = || machine.groups.iter().find(|g| g.id == use_.group);
    let here = known.or_else(|| Some(in_bytes(&group()?.size_bytes)));
    // What a core keeps in its own cache moves nothing, however long it runs.
    let is_little = known.is_some_and(fits_a_core);
    let all = match known {
        Some(_) if !is_little => found.resident_bytes.as_ref().map(in_bytes),
        _ => here,
    };
    let ran = cpus.or(is_little.then_some(0.0)).zip(here);
    AccessSignal {
        part: ran
            .zip(all)
            .map(|((cpus, here), all)| part_share(cpus, here, all)),
        resident: ran.map(|(cpus, here)| cpus * here),
        is_bound: known.is_none(),
        ..AccessSignal::default()
    }
}

/// CPUs used since the reading before. A platform repeats a reading of a workload that had not run when it
/// was read, while nothing moves that it could have moved: it is taken as still. Of any other nothing is
/// known without a new reading.
fn used(
    is_still: &mut bool,
    reading: &Reading<Nanos>,
    more: Result<Delta, Missing>,
) -> Option<f64> {
    match more {
        Ok(more) => {
            *is_still = more.amount == 0;
            Some(more.per_sec() / 1e9)
        }
        Err(Missing::NotYetRead) if *is_still && reading.value.is_ok() => Some(0.0),
        Err(_) => None,
    }
}

/// A CPU counter that went back means a new workload under an old name: what was learned about the
/// old one is gone. Our limit on it does not hold for the new one; a release brings the world to a state that
/// is known.
fn begin_anew(tracked: &mut WorkloadState, found: &WorkloadReading) {
    let is_reborn = tracked.hold.in_force.is_some() || tracked.hold.is_reborn;
    let cpu = tracked.cpu;
    *tracked = WorkloadState::new(tracked.id.clone());
    tracked.cpu = cpu;
    tracked.hold.is_reborn = is_reborn;
    tracked.follow_uses(found);
}

/// What the counts of its tasks say of a workload.
struct CountedTraffic<'a> {
    known: &'a mut TaskCounts,
    /// Since the reading before; nothing where that is not known.
    delta: Option<TaskDelta>,
    split: MemorySplit,
}

impl<'a> CountedTraffic<'a> {
    fn read(
        known: &'a mut TaskCounts,
        reading: &Reading<EventCounts>,
        uses: &[Use],
        machine: &Description,
    ) -> Self {
        // A reason costs an allocation to copy; it is not read here.
        let delta = if reading.value.is_ok() {
            known.counter.advance(&machine.task_events, reading).ok()
        } else {
            None
        };
        CountedTraffic {
            known,
            delta,
            split: MemorySplit::of(uses),
        }
    }

    /// The reads and the unwritten stores of one use, as [`sampled`] gives them. Nothing is said of a group
    /// that the workload did not use at the reading before: it is not known in which part of the time since
    /// it did.
    fn of_use(&self, track: &mut GroupUse, use_: &Use) -> (Option<f64>, Option<f64>) {
        let was_used = self.known.groups.contains(&use_.group);
        let Some(delta) = self.delta.filter(|_| was_used) else {
            return (None, None);
        };
        let (ratio, secs) = (self.split.ratio(use_), delta.span.secs_f64());
        let loads = delta.load_bytes * ratio;
        let stores = delta.store_bytes.map(|bytes| bytes * ratio);
        let unwritten = stores.map(|stores| {
            track.unwritten += stores;
            track.unwritten
        });
        let reads = sampled_share(loads / secs, stores.unwrap_or(0.0) / secs);
        (Some(reads), unwritten)
    }

    /// Notes what it uses, if the next difference begins with this reading.
    fn finish(self, at: Nanos, uses: &[Use]) {
        if self.known.counter.base_at() == Some(at) {
            self.known.groups.clear();
            self.known.groups.extend(uses.iter().map(|use_| use_.group));
        }
    }
}

/// What it reads of the group by loads and stores, and what it has stored that may be written back now.
fn sampled(track: &mut GroupUse, use_: &Use) -> (Option<f64>, Option<f64>) {
    let more = |counter: &mut Counter, reading: &Option<Reading<Bytes>>| match reading {
        Some(r) if r.value.is_ok() => Some(counter.advance(PLAIN, r).ok()),
        Some(_) => Some(None),
        None => None,
    };
    let loads = more(&mut track.loads, &use_.sampled_read_bytes);
    let stores = more(&mut track.stores, &use_.sampled_write_bytes);
    let unwritten = stores.flatten().map(|more| {
        track.unwritten += more.amount as f64;
        track.unwritten
    });
    let rate = |more: Option<Option<Delta>>| more.map(|more| more.map(Delta::per_sec));
    let reads = match (rate(loads), rate(stores)) {
        (Some(loads), Some(stores)) => loads.zip(stores).map(|(l, s)| sampled_share(l, s)),
        // A source that does not distinguish them, or sees stores only.
        (one, other) => one.or(other).flatten(),
    };
    (reads, unwritten)
}

#[cfg(test)]
impl Signals {
    /// Signals of one access each, without anything else.
    pub fn of_accesses(accesses: Vec<AccessSignal>) -> Self {
        Signals {
            workloads: Vec::new(),
            migrated: Vec::new(),
            places: (0..accesses.len()).collect(),
            accesses,
            given_up: Vec::new(),
            running_ratio: 1.0,
        }
    }
}
