// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every world behind [`Platform`] promises, as checks that any of them can be put through:
//! the simulator at each commit, Linux in a virtual machine, hardware by hand.
//!
//! A check never panics: it gives a list of [`Violation`]s, empty when all is well, so that a
//! caller can print all of them and a test can show that each check is able to fail.
//!
//! | check | promise |
//! |---|---|
//! | `time` | an observation is later than the one before; no reading is from the future or older than its predecessor |
//! | `seq` | observations count up by one |
//! | `counts` | cumulative counts only grow, device counters modulo their width; task counts have the machine's events |
//! | `order` | devices, groups, workloads and uses are in ascending order of id, each once |
//! | `absence` | a reading without a value says why, in words |
//! | `outcomes` | an action has one outcome, in the same order; an unknown workload is not limited |
//! | `release` | everything can be given back, twice |
//! | `dry-run` | observe-only refuses every action and reaches nothing behind it |
//! | `alive` | the world can be observed at all |

use crate::ids::{GroupId, WorkloadId};
use crate::rates::counters::{FULL_MASK, Limits, delta};
use crate::seam::observation::{Missing, Observation, Reading, TASK_EVENTS_MAX, TaskCountsReading};
use crate::seam::plan::{Action, ActionKind, Limit, Outcome, OutcomeKind, Plan};
use crate::seam::platform::{DryRun, Platform, PlatformError};
use crate::seam::topology::{Description, Lever};
use crate::units::{BytesPerSec, CpuShare, Nanos};
use std::collections::BTreeMap;
use std::fmt;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that failed, by its name in the table above.
    pub check: &'static str,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.detail)
    }
}

type Violations = Vec<Violation>;

fn violate(all: &mut Violations, check: &'static str, detail: impl Into<String>) {
    all.push(Violation {
        check,
        detail: detail.into(),
    });
}

/// All checks that need no action: `count` observations, compared with each other. A world that
/// ends earlier is checked by what it showed.
pub fn watch<P: Platform>(world: &mut P, count: usize) -> Vec<Violation> {
    let mut all = Vec::new();
    let machine = world.describe().clone();
    check_machine(&mut all, &machine);
    let mut before: Option<Observation> = None;
    let mut ledger = CountLog::default();
    for _ in 0..count {
        let seen = match world.observe() {
            Ok(seen) => seen,
            Err(PlatformError::End) => break,
            Err(broken) => {
                violate(&mut all, "alive", broken.to_string());
                break;
            }
        };
        if let Some(before) = &before {
            if seen.seq != before.seq.wrapping_add(1) {
                violate(
                    &mut all,
                    "seq",
                    format!("{} after {}", seen.seq, before.seq),
                );
            }
            if seen.at <= before.at {
                violate(&mut all, "time", format!("{} after {}", seen.at, before.at));
            }
        }
        check_order(&mut all, &seen);
        ledger.check(&mut all, &machine, &seen);
        before = Some(seen);
    }
    all
}

/// [`watch`], then the checks that act: up to three workloads that are not excluded are limited to
/// `cpus` and released again, and so is one that does not exist; in the end everything is given
/// back. For real hosts choose `cpus` so that no workload is hurt (all CPUs, for instance).
pub fn act<P: Platform>(world: &mut P, count: usize, cpus: CpuShare) -> Vec<Violation> {
    let mut all = watch(world, count);
    let seen = match world.observe() {
        Ok(seen) => seen,
        Err(PlatformError::End) => return all,
        Err(broken) => {
            violate(&mut all, "alive", broken.to_string());
            return all;
        }
    };
    let mut ids: Vec<WorkloadId> = seen
        .workloads
        .iter()
        .filter(|w| w.excluded.is_none())
        .take(3)
        .map(|w| w.id.clone())
        .collect();
    let stranger = WorkloadId::new("/there/is/no/such/workload");
    ids.push(stranger.clone());
    ids.sort();
    let limit = limit_of(cpus, world.describe());
    for kind in [ActionKind::Limit(limit), ActionKind::Release] {
        let action = |id: &WorkloadId| Action {
            workload: id.clone(),
            kind,
        };
        let actions = ids.iter().map(action).collect();
        let plan = Plan {
            seq: seen.seq,
            at: seen.at,
            actions,
            ..Plan::default()
        };
        let outcomes = world.apply(&plan);
        check_outcomes(&mut all, &plan, &outcomes);
        let limited = matches!(kind, ActionKind::Limit(_))
            && outcomes
                .iter()
                .any(|o| o.workload == stranger && o.result == OutcomeKind::Applied);
        if limited {
            violate(
                &mut all,
                "outcomes",
                "a workload that does not exist was limited",
            );
        }
    }
    let _ = world.release_all();
    for outcome in world.release_all() {
        if let OutcomeKind::Failed(why) | OutcomeKind::Refused(why) = &outcome.result {
            let detail = format!("the second time, {}: {why}", outcome.workload);
            violate(&mut all, "release", detail);
        }
    }
    if let Err(PlatformError::Broken(why)) = world.observe() {
        violate(
            &mut all,
            "release",
            format!("no observation afterwards: {why}"),
        );
    }
    all
}

/// A limit in the resource that the world limits. Where that is device bytes, each CPU moves a GiB/s.
fn limit_of(cpus: CpuShare, machine: &Description) -> Limit {
    if !machine.levers().contains(&Lever::DeviceBytes) {
        return Limit::CpuTime { cpus };
    }
    let intensity_bytes_per_cpu_sec = f64::from(1u32 << 30);
    Limit::DeviceBytes {
        bytes_per_sec: BytesPerSec::new(cpus.get() * intensity_bytes_per_cpu_sec),
        intensity_bytes_per_cpu_sec,
        cpus,
    }
}

/// Wraps a world into [`DryRun`] and sees to it that no action gets through. Gives the world back.
pub fn dry_run<P: Platform>(world: P) -> (Vec<Violation>, P) {
    let mut all = Vec::new();
    let mut dry = DryRun(Spy { world, reached: 0 });
    if let Ok(seen) = dry.observe() {
        let workload = seen
            .workloads
            .first()
            .map_or(WorkloadId::new("/any"), |w| w.id.clone());
        let kinds = [
            ActionKind::Limit(limit_of(CpuShare::new(0.5), dry.describe())),
            ActionKind::Release,
        ];
        let action = |kind| Action {
            workload: workload.clone(),
            kind,
        };
        let actions = kinds.into_iter().map(action).collect();
        let plan = Plan {
            seq: seen.seq,
            at: seen.at,
            actions,
            ..Plan::default()
        };
        let outcomes = dry.apply(&plan);
        check_outcomes(&mut all, &plan, &outcomes);
        for outcome in outcomes {
            if !matches!(outcome.result, OutcomeKind::Refused(_)) {
                violate(
                    &mut all,
                    "dry-run",
                    format!("not refused: {:?}", outcome.result),
                );
            }
        }
    }
    if !dry.release_all().is_empty() {
        violate(&mut all, "dry-run", "there was something to release");
    }
    let Spy { world, reached } = dry.0;
    if reached > 0 {
        violate(
            &mut all,
            "dry-run",
            format!("{reached} calls reached the world behind it"),
        );
    }
    (all, world)
}

/// Counts the calls that would change the world.
struct Spy<P> {
    world: P,
    reached: u32,
}

impl<P: Platform> Platform for Spy<P> {
    fn describe(&self) -> &Description {
        self.world.describe()
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        self.world.observe()
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        self.reached += 1;
        self.world.apply(plan)
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        self.reached += 1;
        self.world.release_all()
    }
}

fn check_machine(all: &mut Violations, machine: &Description) {
    if !machine.devices.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "devices of the machine");
    }
    if !machine.groups.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "groups of the machine");
    }
    for fact in &machine.facts {
        if let Err(why) = &fact.value {
            check_reason(all, &fact.name, why);
        }
    }
}

fn check_order(all: &mut Violations, seen: &Observation) {
    if !seen.groups.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "groups");
    }
    if !seen.latencies.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "latencies");
    }
    if !seen.workloads.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "workloads");
    }
    if !seen.task_counts.is_sorted_by(|a, b| a.id < b.id) {
        violate(all, "order", "task counts");
    }
    for workload in &seen.workloads {
        if !workload.uses.is_sorted_by(|a, b| a.group < b.group) {
            violate(all, "order", format!("uses of {}", workload.id));
        }
    }
}

fn check_outcomes(all: &mut Violations, plan: &Plan, outcomes: &[Outcome]) {
    let planned = plan.actions.iter().map(|a| &a.workload);
    if !planned.eq(outcomes.iter().map(|o| &o.workload)) {
        let (n, m) = (plan.actions.len(), outcomes.len());
        violate(
            all,
            "outcomes",
            format!("{n} actions, {m} outcomes, not one each in order"),
        );
    }
    for outcome in outcomes {
        if let OutcomeKind::Refused(why) | OutcomeKind::Failed(why) = &outcome.result
            && why.trim().is_empty()
        {
            violate(
                all,
                "outcomes",
                format!("{} without a reason", outcome.workload),
            );
        }
    }
}

fn check_reason(all: &mut Violations, what: &str, why: &Missing) {
    let (Missing::NotSupported(text) | Missing::NotPermitted(text) | Missing::Lost(text)) = why
    else {
        return;
    };
    if text.trim().is_empty() {
        violate(
            all,
            "absence",
            format!("{what} is missing without a reason"),
        );
    }
}

/// A counter by what it belongs to: workload (if it is one's), group (if it is one's), name.
type Place = (Option<WorkloadId>, Option<GroupId>, &'static str);

/// What is counted of each event of tasks, in their order.
const TASK_COUNTS: [[&str; 3]; TASK_EVENTS_MAX] = [
    ["count 0", "enabled_ns of count 0", "running_ns of count 0"],
    ["count 1", "enabled_ns of count 1", "running_ns of count 1"],
];

#[derive(Default)]
struct CountLog(BTreeMap<Place, (Nanos, Option<u64>)>);

impl CountLog {
    fn check(&mut self, all: &mut Violations, machine: &Description, seen: &Observation) {
        for group in &seen.groups {
            let device = machine.devices.iter().find(|d| d.id == group.id.device);
            let mask = device.map_or(FULL_MASK, |d| d.counter_mask_bytes);
            let id = Some(group.id);
            self.reading(
                all,
                seen.at,
                (None, id, "read_bytes"),
                mask,
                &group.read_bytes,
            );
            self.reading(
                all,
                seen.at,
                (None, id, "write_bytes"),
                mask,
                &group.write_bytes,
            );
        }
        for own in &seen.probe_traffic {
            let place = (None, Some(own.id), "bytes that weir itself read");
            self.reading(all, seen.at, place, FULL_MASK, &own.read_bytes);
        }
        for load in &seen.devload {
            self.plain(all, seen.at, &format!("load of {}", load.id), &load.load);
        }
        for latency in &seen.latencies {
            self.plain(
                all,
                seen.at,
                &format!("latency of {}", latency.id),
                &latency.mean_ns,
            );
        }
        for workload in &seen.workloads {
            let id = || Some(workload.id.clone());
            let (cpu, throttled) = (&workload.cpu_ns, &workload.throttled_ns);
            self.reading(all, seen.at, (id(), None, "cpu_ns"), FULL_MASK, cpu);
            self.reading(
                all,
                seen.at,
                (id(), None, "throttled_ns"),
                FULL_MASK,
                throttled,
            );
            for use_ in workload.uses.iter() {
                let what = format!("resident_bytes of {} in {}", workload.id, use_.group);
                self.plain(all, seen.at, &what, &use_.resident_bytes);
                let group = Some(use_.group);
                let pairs = [
                    ("sampled_read_bytes", &use_.sampled_read_bytes),
                    ("sampled_write_bytes", &use_.sampled_write_bytes),
                ];
                for (name, reading) in pairs {
                    if let Some(reading) = reading {
                        self.reading(all, seen.at, (id(), group, name), FULL_MASK, reading);
                    }
                }
            }
        }
        for reading in &seen.task_counts {
            self.task_counts(all, machine, seen.at, reading);
        }
        for skipped in &seen.skipped {
            check_reason(all, &skipped.what, &skipped.why);
        }
    }

    /// Counts and times of events, each by itself.
    fn task_counts(
        &mut self,
        all: &mut Violations,
        machine: &Description,
        now: Nanos,
        TaskCountsReading { id, counts }: &TaskCountsReading,
    ) {
        let reading = counts;
        self.plain(all, now, &format!("task counts of {id}"), reading);
        let counts = reading.ok().map_or(&[][..], |counts| counts.as_slice());
        let (count, events) = (counts.len(), machine.task_events.len());
        if reading.value.is_ok() && count != events {
            let detail =
                format!("{count} task counts of {id}, and the machine has {events} events");
            violate(all, "counts", detail);
        }
        for (count, names) in counts.iter().zip(&TASK_COUNTS) {
            let values = [count.count, count.enabled_ns, count.running_ns];
            for (name, value) in names.iter().zip(values) {
                let place = (Some(id.clone()), None, *name);
                let value = Reading::new(reading.at, value);
                self.reading(all, now, place, FULL_MASK, &value);
            }
        }
    }

    /// A value that is not cumulative.
    fn plain<T>(&self, all: &mut Violations, now: Nanos, what: &str, reading: &Reading<T>) {
        if reading.at > now {
            violate(
                all,
                "time",
                format!("{what} is from the future: {} at {now}", reading.at),
            );
        }
        if let Err(why) = &reading.value {
            check_reason(all, what, why);
        }
    }

    fn reading<T: Copy + Into<u64>>(
        &mut self,
        all: &mut Violations,
        now: Nanos,
        place: Place,
        mask: u64,
        reading: &Reading<T>,
    ) {
        let what = || {
            let workload = place
                .0
                .as_ref()
                .map_or(String::new(), |w| format!(" of {w}"));
            let group = place.1.map_or(String::new(), |g| format!(" in {g}"));
            format!("{}{workload}{group}", place.2)
        };
        self.plain(all, now, &what(), reading);
        let count: Option<u64> = reading.ok().map(|c| (*c).into());
        let Some((then, old)) = self.0.get(&place).copied() else {
            self.0.insert(place, (reading.at, count));
            return;
        };
        if reading.at < then {
            violate(
                all,
                "time",
                format!("{} went back to {}", what(), reading.at),
            );
        }
        if let (Some(old), Some(new)) = (old, count) {
            // Two readings of the same time must show the same; others may not go back.
            let limits = Limits {
                mask,
                per_sec: None,
            };
            match delta(limits, (then, old), (reading.at, new)) {
                Err(Missing::Lost(why)) => violate(all, "counts", format!("{}: {why}", what())),
                Err(_) if old != new => {
                    violate(
                        all,
                        "counts",
                        format!("{} changed within one reading", what()),
                    );
                }
                _ => {}
            }
        }
        self.0.insert(place, (reading.at, count.or(old)));
    }
}
