// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a group's traffic is attributed by events of CPUs. The best source is each workload's own count of
//! reads from CXL memory, where the CPU has such an event ([`core_events`]), counted in the kernel at each
//! switch ([`counting_bpf`]). Others are counts by the CPU for a monitoring group of the workload's own
//! ([`resctrl`]), and samples of its accesses ([`sampling`]). The counts only give the ratio in which the
//! device's own count is attributed (weir-core's attribution). Without them it is attributed by CPU time and
//! resident memory.
//!
//! Samples are separate for each group. An event of a CPU sees all CXL memory as one: what a workload with
//! memory in several groups has read is divided among them by how much it has there.

mod calibration;
mod core_events;
mod counting_bpf;
mod counting_intf;
mod resctrl;
mod sampling;

use crate::counters::pmu::{Machine, MuxGroup};
use crate::error::LinuxError;
use crate::kernel::clock::now;
use crate::options::{AttributionSource, Options};
use crate::workloads::discovery::{View, WorkloadSource as Watches};
use crate::workloads::processes::process_set::UNLISTED;
use core_events::ChosenEvents;
use counting_bpf::CountingBpf;
use counting_intf::Sum;
use resctrl::Resctrl;
pub(crate) use resctrl::undo::COUNTING;
use sampling::Samples;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::seam::observation::{Skipped, Use, WorkloadReading};
use weir_core::seam::plan::DeviceState;
use weir_core::seam::topology::{Fact, Group};
use weir_core::{Bytes, GroupId, Missing, Nanos, Reading, WorkloadId};

/// How often counts are dropped that will not be read any more.
const FORGET_EVERY: Nanos = Nanos::from_millis(10_000);
/// The facts' names: what shares are made of, and whether events of the CPU can be counted for them.
pub(crate) const FACT: &str = "attribution.source";
const COUNTS: &str = "attribution.task_counts";

/// A cgroup's id or a process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u64);

/// What counts for workloads.
pub(crate) trait TrafficSource: Send {
    /// What it counts.
    fn name(&self) -> &str;
    /// What one count of each event of reads stands for.
    fn bytes(&self) -> &[u64];
    /// What one count of the event behind those stands for, where the source distinguishes reads by stores.
    fn store_bytes(&self) -> Option<u64> {
        None
    }
    /// Whether what a workload of cgroups did is found by the ids of these, and not by its threads.
    fn goes_by_cgroups(&self) -> bool {
        true
    }
    /// The workloads that have memory on a device, for sources that keep something for each.
    fn follow(&mut self, _: &BTreeMap<Key, &Watches>) {}
    /// Which groups there are and on which nodes, for those that find their memory.
    fn place(&mut self, _: &[Group]) {}
    /// The state of devices, for sources that only work near overload.
    fn on_plan(&mut self, _: &[DeviceState]) {}
    /// Brings the counts of these up to now. Gives how many runs since the last time could not be attributed.
    fn refresh(&mut self, keys: &BTreeSet<Key>) -> u64;
    /// A cgroup's counts so far; one that never ran has none.
    fn of_cgroup(&mut self, id: Key) -> Result<Sum, Missing>;
    /// A process's.
    fn of_process(&mut self, id: Key) -> Result<Sum, Missing>;
    /// Bytes that a workload has read so far of each group, from sources that distinguish groups.
    fn by_group(&mut self, _: Key) -> Option<Result<BTreeMap<GroupId, u64>, Missing>> {
        None
    }
    /// Only these will be read from now on.
    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool);
    /// What is to be said of the counts as a whole.
    fn notes(&self) -> Vec<Skipped> {
        Vec::new()
    }
}

/// What is known of one workload.
#[derive(Debug, Default)]
struct Account {
    last: Option<Sum>,
    /// By loads and by stores; by all together where the source does not distinguish them.
    bytes: BTreeMap<GroupId, [f64; 2]>,
}

/// What was counted until a moment.
pub(crate) struct TrafficReading {
    at: Nanos,
    of: BTreeMap<WorkloadId, Count>,
}

/// Of one workload.
enum Count {
    /// By events, wherever the memory is.
    InAll(Result<Sum, Missing>),
    /// Bytes of each group.
    ByGroup(Result<BTreeMap<GroupId, u64>, Missing>),
}

/// Counts of workloads, as access signals in an observation.
pub(crate) struct TaskTraffic {
    source: Box<dyn TrafficSource>,
    accounts: BTreeMap<WorkloadId, Account>,
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
    /// Counts, where they are wanted and can be had; what shares are made of becomes a fact.
    ///
    /// # Errors
    /// The operator chose them, and there are none.
    pub(crate) fn choose(
        options: &Options,
        groups: &[Group],
        facts: &mut Vec<Fact>,
    ) -> Result<Option<TaskTraffic>, LinuxError> {
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
        facts.extend(count_facts(&name.map_err(Clone::clone), "in use"));
        match loaded {
            Ok(mut source) => {
                source.place(groups);
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
            source,
            accounts: BTreeMap::new(),
            forgot_at: now(),
        }
    }

    /// Which groups there are, and where.
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
        let lost = self
            .source
            .refresh(&watched_by_key.keys().copied().collect());
        let mut taken = TrafficReading {
            at: now(),
            of: BTreeMap::new(),
        };
        for watched in users() {
            let id = key(&watched.source);
            if id == Key(UNLISTED) && self.source.goes_by_cgroups() {
                let why = "counts are kept by cgroup, and these cgroups are not seen";
                let count = Count::InAll(Err(Missing::NotSupported(why.into())));
                taken.of.insert(watched.id.clone(), count);
                continue;
            }
            let count = match (self.source.by_group(id), &watched.source) {
                (Some(by_group), _) => Count::ByGroup(by_group),
                (None, Watches::Cgroup(_) | Watches::Set(_) | Watches::Inner(_)) => {
                    Count::InAll(self.source.of_cgroup(id))
                }
                (None, Watches::Process(_)) => Count::InAll(self.source.of_process(id)),
            };
            taken.of.insert(watched.id.clone(), count);
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

    /// Adds what was taken to the uses of workloads.
    pub(crate) fn fill(
        &mut self,
        mut taken: TrafficReading,
        seen: &mut [WorkloadReading],
        skipped: &mut Vec<Skipped>,
    ) {
        let mut running_ratio = 1.0f64;
        for workload in seen.iter_mut().filter(|w| !w.uses.is_empty()) {
            let sum = match taken.of.remove(&workload.id) {
                None => continue,
                Some(Count::ByGroup(by_group)) => {
                    note_groups(taken.at, &by_group, &mut workload.uses);
                    continue;
                }
                Some(Count::InAll(sum)) => sum,
            };
            let account = self.accounts.entry(workload.id.clone()).or_default();
            let (bytes, store_bytes) = (self.source.bytes(), self.source.store_bytes());
            let more = sum.and_then(|sum| account.advance(sum, bytes, store_bytes));
            if let Ok(more) = &more {
                running_ratio = running_ratio.min(more.running_ratio);
            }
            account.share_out(
                taken.at,
                more.map(|more| more.bytes),
                store_bytes.is_some(),
                &mut workload.uses,
            );
        }
        if running_ratio < 1.0 {
            skipped.push(Skipped {
                what: "counts of tasks".into(),
                why: Missing::NotSupported(format!(
                    "all the time: the events are multiplexed with others and ran {:.0} % of it; figures are scaled",
                    running_ratio * 100.0
                )),
            });
        }
    }

    /// Forgets workloads that are gone.
    fn tidy(&mut self, view: &View, at: Nanos) {
        if at.0.saturating_sub(self.forgot_at.0) < FORGET_EVERY.0 {
            return;
        }
        self.forgot_at = at;
        self.accounts.retain(|id, _| view.get(id).is_some());
        let keys: BTreeSet<Key> = view.workloads.iter().map(|w| key(&w.source)).collect();
        self.source.forget(&|id| keys.contains(&id));
    }
}

/// Puts down what is known group by group.
fn note_groups(at: Nanos, by_group: &Result<BTreeMap<GroupId, u64>, Missing>, uses: &mut [Use]) {
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

/// What was read since the last tick.
#[derive(Clone, Copy, Debug, PartialEq)]
struct More {
    /// By loads and by stores.
    bytes: [f64; 2],
    /// Part of its time that the events ran: below 1 the bytes are scaled.
    running_ratio: f64,
}

impl Account {
    /// Takes a reading: events of reads, then the one of what of it was read by stores, if there is one. The
    /// first is where counting begins.
    fn advance(
        &mut self,
        now: Sum,
        bytes: &[u64],
        store_bytes: Option<u64>,
    ) -> Result<More, Missing> {
        let (mut read, mut stores) = (0.0, 0.0);
        let mut running_ratio = 1.0f64;
        let last = self.last.unwrap_or(now);
        let events = bytes.iter().map(|bytes| (*bytes, false));
        let events = events.chain(store_bytes.map(|bytes| (bytes, true)));
        for ((now, last), (bytes, is_stores)) in now.0.iter().zip(last.0).zip(events) {
            if now.enabled_ns < last.enabled_ns {
                // Forgotten and begun anew: nothing is known of the time between.
                self.last = None;
                return Err(Missing::Lost("counts began anew".into()));
            }
            let before = (last.enabled_ns, last.running_ns);
            let span = match MuxGroup::between(before, (now.enabled_ns, now.running_ns)) {
                // It did not run, and was not to.
                Err(Missing::NotYetRead) => continue,
                span => span?,
            };
            let count = now.count.saturating_sub(last.count) as f64;
            let sum = if is_stores { &mut stores } else { &mut read };
            *sum += span.scaled(count * bytes as f64);
            running_ratio = running_ratio.min(span.running_ratio());
        }
        self.last = Some(now);
        Ok(More {
            // Two counters are not read in the same moment, nor scaled alike.
            bytes: [(read - stores).max(0.0), stores],
            running_ratio,
        })
    }

    /// Gives it to the groups, in the ratio of the memory it has in them.
    fn share_out(
        &mut self,
        at: Nanos,
        more: Result<[f64; 2], Missing>,
        tells_stores: bool,
        uses: &mut [Use],
    ) {
        let resident = |use_: &Use| use_.resident_bytes.ok().map_or(0.0, |b| b.0 as f64);
        let all: f64 = uses.iter().map(resident).sum();
        let evenly = 1.0 / uses.len().max(1) as f64;
        for use_ in uses {
            let part = match all > 0.0 {
                true => resident(use_) / all,
                false => evenly,
            };
            let sums = more.as_ref().map(|more| {
                let sums = self.bytes.entry(use_.group).or_default();
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum += more * part;
                }
                *sums
            });
            let reading = |way: usize| match &sums {
                Err(why) => Reading::missing(at, (*why).clone()),
                // Never negative, and never NaN: a sum of such.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                Ok(sums) => Reading::new(at, Bytes(sums[way] as u64)),
            };
            use_.sampled_read_bytes = Some(reading(0));
            use_.sampled_write_bytes = tells_stores.then(|| reading(1));
        }
    }
}

#[cfg(test)]
mod tests;
