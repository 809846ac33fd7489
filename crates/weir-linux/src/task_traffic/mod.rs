// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a group's traffic is attributed by events of CPUs. The best source is each workload's own count of
//! reads from CXL memory, where the CPU has such an event ([`core_events`]), counted in the kernel at each
//! switch ([`counting_bpf`]). Others are counts by the CPU for a monitoring group of the workload's own
//! ([`resctrl`]), and samples of its accesses ([`sampling`]). The counts only give the ratio in which the
//! device's own count is attributed (weir-core's attribution). Without them it is attributed by CPU time and
//! resident memory.
//!
//! Samples are separate for each group. An event of a CPU sees all CXL memory as one. Its counts go into the
//! observation as they are read; weir-core makes bytes of them (`rates/task_counts.rs`).

mod calibration;
mod core_events;
mod counting_bpf;
mod counting_intf;
mod resctrl;
mod sampling;

use crate::counters::pmu::Machine;
use crate::error::LinuxError;
use crate::kernel::clock::now;
use crate::options::{AttributionSource, Options};
use crate::workloads::cgroups::walk::Delegated;
use crate::workloads::discovery::{View, WorkloadSource as Watches};
use crate::workloads::processes::process_set::UNLISTED;
use core_events::ChosenEvents;
use counting_bpf::CountingBpf;
use counting_intf::Sum;
use resctrl::Resctrl;
pub(crate) use resctrl::undo::COUNTING;
use sampling::Samples;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_core::seam::observation::{EventCounts, Skipped, TaskCountsReading, Use, WorkloadReading};
use weir_core::seam::plan::DeviceState;
use weir_core::seam::topology::{Fact, Group, TaskEvent};
use weir_core::{Bytes, Description, GroupId, Missing, Nanos, Reading, WorkloadId};

/// How often counts are dropped that will not be read any more.
const FORGET_EVERY: Nanos = Nanos::from_millis(10_000);
/// The facts' names: what shares are made of, and whether events of the CPU can be counted for them.
pub(crate) const FACT: &str = "attribution.source";
const COUNTS: &str = "attribution.task_counts";

/// A cgroup's id or a process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64);

pub(crate) trait TrafficSource: Send {
    fn name(&self) -> &str;
    /// The events that it counts, in the order of a sum; none from sources that distinguish groups.
    fn events(&self) -> Vec<TaskEvent>;
    /// Whether what a workload of cgroups did is found by the ids of these, and not by its threads.
    fn goes_by_cgroups(&self) -> bool {
        true
    }
    /// The workloads that have memory on a device, for sources that keep something for each.
    fn follow(&mut self, _: &BTreeMap<Key, &Watches>) {}
    /// The cgroups that count with all that is below them.
    fn follow_delegated(&mut self, _: &Delegated) {}
    /// Which groups there are and on which nodes, for those that find their memory.
    fn place(&mut self, _: &[Group]) {}
    /// The state of devices, for sources that only work near overload.
    fn on_plan(&mut self, _: &[DeviceState]) {}
    /// Brings the counts of these up to now. Gives how many runs since the last time could not be attributed.
    fn refresh(&mut self, keys: &BTreeSet<Key>) -> u64;
    /// A cgroup's counts so far; one that never ran has none.
    fn of_cgroup(&mut self, id: Key) -> Result<Sum, Missing>;
    fn of_process(&mut self, id: Key) -> Result<Sum, Missing>;
    /// Bytes that a workload has read so far of each group, from sources that distinguish groups.
    fn by_group(&mut self, _: Key) -> Option<ByGroup> {
        None
    }
    /// Only these will be read from now on.
    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool);
    /// What is to be said of the counts as a whole.
    fn notes(&self) -> Vec<Skipped> {
        Vec::new()
    }
}

type ByGroup = Result<BTreeMap<GroupId, u64>, Missing>;

/// What was counted until a moment, in the order of the view.
pub(crate) struct TrafficReading {
    at: Nanos,
    /// What events counted for each workload, wherever its memory lies.
    counts: Vec<TaskCountsReading>,
    by_group: Vec<(WorkloadId, ByGroup)>,
}

/// Counts of workloads, as access signals in an observation.
pub(crate) struct TaskTraffic {
    source: Box<dyn TrafficSource>,
    event_count: usize,
    delegated: Arc<Delegated>,
    forgot_at: Nanos,
}

/// The event that could count here.
fn candidate(options: &Options) -> Result<ChosenEvents, Missing> {
    let machine = Machine::probe(&options.roots);
    let chosen = match &options.attribution_event {
        Some(name) => core_events::named(&machine, name)?,
        None => core_events::best(&machine)?,
    };
    counting_bpf::openable(&options.roots, chosen)
}

/// Whether there is an event that could count here, before it is compared.
pub(crate) fn could_count(options: &Options) -> bool {
    candidate(options).is_ok()
}

fn is_chosen(options: &Options) -> bool {
    options.attribution == AttributionSource::TaskCounts || options.attribution_event.is_some()
}

/// The event that counts here, once it was compared with what it should count.
fn found(options: &Options, groups: &[Group]) -> Result<ChosenEvents, Missing> {
    let chosen = candidate(options)?;
    let verdict = calibration::of(options, groups, &chosen);
    calibration::admitted(chosen, verdict, is_chosen(options))
}

/// For `weir doctor`: what shares would be made of.
pub(crate) fn facts(options: &Options) -> Vec<Fact> {
    let counts = candidate(options).map(|chosen| chosen.name);
    let mut facts = count_facts(
        &counts,
        "can be used, if it agrees with the device when weir starts",
    );
    facts.extend([resctrl::fact(options), sampling::fact(options)]);
    facts
}

fn boxed(source: impl TrafficSource + 'static) -> Box<dyn TrafficSource> {
    Box::new(source)
}

/// Nothing is lacking without counts: CPU time and resident memory are there. Why there are none stands
/// beside.
fn count_facts(counts: &Result<String, Missing>, how: &str) -> Vec<Fact> {
    let fact = |name: &str, value| Fact {
        name: name.into(),
        value,
        next_move: None,
    };
    match counts {
        Ok(name) => {
            let text = format!("accesses counted for each workload, {how}: {name}");
            vec![fact(FACT, Ok(text))]
        }
        Err(why) => {
            let text = format!("no counts for each task: {}", why.reason());
            let time = "CPU time × part of memory that is there";
            let why = Missing::NotSupported(text);
            vec![fact(FACT, Ok(time.into())), fact(COUNTS, Err(why))]
        }
    }
}

impl TaskTraffic {
    /// Counts, where they are wanted and can be had. Their events become part of the machine, and what shares
    /// are made of a fact.
    ///
    /// # Errors
    /// The operator chose them, and there are none.
    pub(crate) fn choose(
        options: &Options,
        machine: &mut Description,
    ) -> Result<Option<TaskTraffic>, LinuxError> {
        let groups = &machine.groups;
        let is_named = options.attribution_event.is_some();
        let loaded: Result<Box<dyn TrafficSource>, Missing> = match options.attribution {
            AttributionSource::CpuTime if !is_named => {
                Err(Missing::NotSupported("not selected".into()))
            }
            AttributionSource::Resctrl if !is_named => Resctrl::open(options, false).map(boxed),
            AttributionSource::Sampling => Samples::open(options).map(boxed),
            _ => found(options, groups)
                .and_then(|chosen| CountingBpf::load(&options.roots, options.by, chosen))
                .map(boxed),
        };
        let is_auto = options.attribution == AttributionSource::Auto && !is_named;
        let loaded = match loaded {
            Err(why) if is_auto => {
                let or = |also: Missing| {
                    Missing::NotSupported(format!("{}; resctrl: {}", why.reason(), also.reason()))
                };
                Resctrl::open(options, true).map(boxed).map_err(or)
            }
            other => other,
        };
        let name = loaded.as_ref().map(|source| source.name().to_owned());
        let facts = count_facts(&name.map_err(Clone::clone), "in use");
        machine.facts.extend(facts);
        match loaded {
            Ok(mut source) => {
                source.place(groups);
                machine.task_events = source.events();
                Ok(Some(TaskTraffic::new(source)))
            }
            Err(why) if options.attribution == AttributionSource::Sampling => {
                Err(LinuxError::NoSamples(why))
            }
            Err(why) if options.attribution == AttributionSource::TaskCounts || is_named => {
                Err(LinuxError::NoShares(why))
            }
            Err(why) if options.attribution == AttributionSource::Resctrl => {
                Err(LinuxError::NoResctrl(why))
            }
            Err(_) => Ok(None),
        }
    }

    fn new(source: Box<dyn TrafficSource>) -> TaskTraffic {
        TaskTraffic {
            event_count: source.events().len(),
            source,
            delegated: Arc::default(),
            forgot_at: now(),
        }
    }

    /// Takes in the groups that there are, and their nodes.
    pub(crate) fn place(&mut self, groups: &[Group]) {
        self.source.place(groups);
    }

    /// What the controller made of the devices.
    pub(crate) fn on_plan(&mut self, devices: &[DeviceState]) {
        self.source.on_plan(devices);
    }

    /// Takes what was counted until now for all workloads that have memory on a device. It is called as soon
    /// after the read of the devices' own counters as can be: what is counted in between is in one and not in
    /// the other.
    pub(crate) fn take(&mut self, view: &View, skipped: &mut Vec<Skipped>) -> TrafficReading {
        let users = || view.workloads.iter().filter(|w| !w.uses.is_empty());
        let watched_by_key: BTreeMap<Key, &Watches> =
            users().map(|w| (key(&w.source), &w.source)).collect();
        self.source.follow(&watched_by_key);
        if self.delegated != view.delegated {
            self.delegated = Arc::clone(&view.delegated);
            self.source.follow_delegated(&self.delegated);
        }
        let lost = self
            .source
            .refresh(&watched_by_key.keys().copied().collect());
        let mut taken = TrafficReading {
            at: now(),
            counts: Vec::new(),
            by_group: Vec::new(),
        };
        if self.event_count > 0 {
            taken.counts.reserve(watched_by_key.len());
        }
        for watched in users() {
            let id = watched.id.clone();
            match self.source.by_group(key(&watched.source)) {
                Some(by_group) => taken.by_group.push((id, by_group)),
                None => {
                    let value = self.count(&watched.source);
                    let counts = Reading {
                        at: taken.at,
                        value,
                    };
                    taken.counts.push(TaskCountsReading { id, counts });
                }
            }
        }
        skipped.extend(self.source.notes());
        if lost > 0 {
            skipped.push(Skipped {
                what: "counts of tasks".into(),
                why: Missing::Lost("some runs could not be attributed".into()),
            });
        }
        self.tidy(view, taken.at);
        taken
    }

    fn count(&mut self, watched: &Watches) -> Result<EventCounts, Missing> {
        let id = key(watched);
        if id == Key(UNLISTED) && self.source.goes_by_cgroups() {
            let why = "counts are kept by cgroup, and these cgroups are not seen";
            return Err(Missing::NotSupported(why.into()));
        }
        let sum = match watched {
            Watches::Cgroup(_) | Watches::Set(_) | Watches::Inner(_) => self.source.of_cgroup(id),
            Watches::Process(_) => self.source.of_process(id),
        };
        let events = 0..self.event_count;
        sum.map(|sum| EventCounts::of(sum.0.get(events).unwrap_or_default()))
    }

    fn tidy(&mut self, view: &View, at: Nanos) {
        if at.0.saturating_sub(self.forgot_at.0) < FORGET_EVERY.0 {
            return;
        }
        self.forgot_at = at;
        let keys: BTreeSet<Key> = view.workloads.iter().map(|w| key(&w.source)).collect();
        self.source.forget(&|id| keys.contains(&id));
    }
}

impl TrafficReading {
    /// Puts what is known group by group into the uses of workloads, which are in the order of the view too.
    /// Gives back the counts that are not told apart by group, for the workloads that use one now.
    pub(crate) fn fill(self, seen: &mut [WorkloadReading]) -> Vec<TaskCountsReading> {
        let mut by_group = self.by_group.into_iter().peekable();
        let mut counts = self.counts.into_iter().peekable();
        let mut kept = Vec::with_capacity(counts.len());
        for workload in seen.iter_mut().filter(|w| !w.uses.is_empty()) {
            let id = &workload.id;
            while by_group.next_if(|(other, _)| other < id).is_some() {}
            while counts.next_if(|c| c.id != *id && c.id < *id).is_some() {}
            kept.extend(counts.next_if(|counts| counts.id == *id));
            if let Some((_, by_group)) = by_group.next_if(|(other, _)| other == id) {
                note_groups(self.at, &by_group, Arc::make_mut(&mut workload.uses));
            }
        }
        kept
    }
}

/// Puts down what is known group by group.
fn note_groups(at: Nanos, by_group: &ByGroup, uses: &mut [Use]) {
    for use_ in uses {
        let bytes = match by_group {
            Ok(sums) => sums.get(&use_.group).copied().ok_or(Missing::NotYetRead),
            Err(why) => Err(why.clone()),
        };
        use_.sampled_read_bytes = Some(match bytes {
            Ok(bytes) => Reading::new(at, Bytes(bytes)),
            Err(why) => Reading::missing(at, why),
        });
    }
}

fn key(source: &Watches) -> Key {
    match source {
        Watches::Cgroup(leaf) => Key(leaf.inode),
        Watches::Process(process) => Key(process.pid.into()),
        Watches::Set(set) => Key(set.number),
        Watches::Inner(inner) => Key(inner.inode),
    }
}

#[cfg(test)]
mod tests;
