// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run --probe`: what a load from each device takes now, by loads of weir's own.
//!
//! ```text
//!   [place]  which node of the device, which CPU, 16 MiB there
//!      │
//!   [prober] a thread: 288 loads, then a rest 99 times as long (in portions of 2 s); the mean of eight
//!      │  left in a box; the loop takes what is there and never waits
//!   Probed   a platform around another one: latency into each observation, and the probe's own traffic
//! ```
//!
//! *Cost.* At most 1 % of the time of one CPU for all devices together, whatever a load takes; a load is a
//! line of 64 bytes, so that at 300 ns it is 2.1 MB/s. Its bytes are in the device's total and are attributed
//! to no workload (`weir_core::seam::observation::ProbeReading`). Its memory is subtracted from that of
//! weir's own workload. Otherwise weir's CPU time would count as use of the device.
//!
//! *From the device.* A line that was loaded is taken out of the caches at once, with its neighbour: on a
//! machine that does nothing else, no ring is so large that a cache of some hundred MiB forgets it.

pub mod placement;
mod prober;
mod uncached_reads;

use placement::PART_OF_FREE;
use prober::{Found, Prober};
use std::collections::BTreeMap;
use std::sync::Arc;
pub use uncached_reads::reads;
use weir_core::owner::PodNames;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::observation::{
    Excluded, LatencyReading, LatencySource, ProbeReading, WorkloadReading,
};
use weir_core::seam::plan::{Outcome, Plan};
use weir_core::seam::processes::Processes;
use weir_core::seam::sched_stats::SchedStats;
use weir_core::seam::topology::{Fact, Group};
use weir_core::{
    Bytes, Description, DeviceId, GroupId, Missing, Nanos, Observation, Platform, PlatformError,
    Reading, WorkloadId,
};
use weir_linux::Roots;

/// A figure that is older says that the probe had no turn.
const AGE_MAX: Nanos = Nanos::from_millis(5000);
/// What is left of a use in weir's own workload after the probe's memory: below this it is none.
const NO_USE: Bytes = Bytes(1 << 20);

/// A platform that adds the latency of each device to observations.
pub struct Probed {
    inner: Box<dyn Platform>,
    prober: Prober,
    /// What the platform said last, and the same with what is to be said of the probe.
    of_inner: Description,
    description: Description,
    found: BTreeMap<DeviceId, Found>,
}

impl Probed {
    /// Takes memory on each device and starts the thread. Where there is no memory the device has no latency,
    /// with the reason; it is tried again every ten seconds.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(inner: Box<dyn Platform>, roots: &Roots) -> anyhow::Result<Probed> {
        let of_inner = inner.describe().clone();
        let (prober, found) = Prober::start(roots, nodes(&of_inner))?;
        let mut probed = Probed {
            inner,
            found,
            prober,
            description: of_inner.clone(),
            of_inner,
        };
        probed.describe_anew();
        Ok(probed)
    }

    fn describe_anew(&mut self) {
        self.description = self.of_inner.clone();
        let facts = self.found.iter().map(|(device, found)| Fact {
            name: format!("latency.probe.{device}"),
            value: found.place.clone().map(|place| place.to_string()),
            next_move: found.place.is_err().then(|| {
                let needed = format!("{PART_OF_FREE} times what it takes");
                NextMove {
                    act: Act::Deed(format!(
                        "the probe needs free memory there, {needed}: free some"
                    )),
                    why: "the probe has no memory on the device".into(),
                    needs: Precondition::Seen(format!("less is free there than {needed}")),
                }
            }),
        });
        self.description.facts.extend(facts);
    }

    /// What is new: of the platform, and of the probe.
    fn follow(&mut self) {
        let mut is_new = *self.inner.describe() != self.of_inner;
        if is_new {
            self.of_inner = self.inner.describe().clone();
            self.prober.follow(nodes(&self.of_inner));
        }
        if let Some(found) = self.prober.take() {
            let places = |all: &BTreeMap<DeviceId, Found>| -> Vec<_> {
                all.values().map(|found| found.place.clone()).collect()
            };
            is_new |= places(&found) != places(&self.found);
            self.found = found;
        }
        if is_new {
            self.describe_anew();
        }
    }
}

impl Platform for Probed {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        let mut seen = self.inner.observe()?;
        self.follow();
        add_latencies(&mut seen, &self.found);
        let memory = memory(&self.of_inner.groups, &self.found);
        add_own(&mut seen, &memory, &self.found);
        let own = |w: &&mut WorkloadReading| w.excluded == Some(Excluded::Weir);
        for workload in seen.workloads.iter_mut().filter(own) {
            take_memory_out(workload, &memory);
        }
        Ok(seen)
    }

    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        self.inner.apply(plan)
    }

    fn on_plan(&mut self, plan: &Plan) {
        self.inner.on_plan(plan);
    }

    fn limit_rewrites(&self) -> Option<u64> {
        self.inner.limit_rewrites()
    }

    fn scheduler(&self) -> Option<SchedStats> {
        self.inner.scheduler()
    }

    fn processes(&self) -> Arc<BTreeMap<WorkloadId, Processes>> {
        self.inner.processes()
    }

    fn pod_names(&self) -> Arc<PodNames> {
        self.inner.pod_names()
    }

    fn exclude(&mut self, patterns: &[String], weighted: &[String]) {
        self.inner.exclude(patterns, weighted);
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        self.inner.release_all()
    }
}

fn nodes(machine: &Description) -> BTreeMap<DeviceId, Vec<u32>> {
    let of = |device: DeviceId| {
        let groups = machine.groups.iter().filter(|g| g.id.device == device);
        groups.filter_map(|g| g.node.map(|node| node.0)).collect()
    };
    machine.devices.iter().map(|d| (d.id, of(d.id))).collect()
}

/// Replaces other latencies by the probe's, since the operator chose the probe. Where the probe has none, the
/// other one stays.
fn add_latencies(seen: &mut Observation, found: &BTreeMap<DeviceId, Found>) {
    for (device, found) in found {
        let mut mean_ns = found.mean_ns.clone();
        // It may have measured after this observation.
        mean_ns.at = mean_ns.at.min(seen.at);
        if let (Ok(_), Some(age)) = (&mean_ns.value, seen.at.since(mean_ns.at))
            && age > AGE_MAX
        {
            let why = format!("the probe has measured nothing for {age}");
            mean_ns = Reading::missing(seen.at, Missing::Lost(why));
        }
        let latency = LatencyReading {
            id: *device,
            mean_ns,
            source: LatencySource::Probe,
        };
        match seen.latencies.binary_search_by_key(device, |l| l.id) {
            Ok(place) if latency.mean_ns.ok().is_some() => seen.latencies[place] = latency,
            Ok(_) => {}
            Err(place) => seen.latencies.insert(place, latency),
        }
    }
}

/// The group with the probe's memory for each device, and its size in bytes. Groups on one node cannot be
/// distinguished: then it is the first of them.
fn memory(groups: &[Group], found: &BTreeMap<DeviceId, Found>) -> Vec<(GroupId, u64)> {
    let group = |(device, found): (&DeviceId, &Found)| {
        let place = found.place.as_ref().ok()?;
        let is_it =
            |g: &&Group| g.id.device == *device && g.node.is_some_and(|n| n.0 == place.node);
        Some((groups.iter().find(is_it)?.id, place.bytes))
    };
    found.iter().filter_map(group).collect()
}

fn add_own(seen: &mut Observation, memory: &[(GroupId, u64)], found: &BTreeMap<DeviceId, Found>) {
    let own = memory.iter().filter_map(|(group, _)| {
        let found = found.get(&group.device)?;
        Some(ProbeReading {
            id: *group,
            read_bytes: Reading::new(found.taken_at.min(seen.at), Bytes(found.read_bytes)),
        })
    });
    seen.probe_traffic = own.collect();
}

/// Takes our memory out of what weir's workload has.
fn take_memory_out(workload: &mut WorkloadReading, memory: &[(GroupId, u64)]) {
    for (group, bytes) in memory {
        let Some(place) = workload.uses.iter().position(|u| u.group == *group) else {
            continue;
        };
        let uses = Arc::make_mut(&mut workload.uses);
        let Ok(here) = &mut uses[place].resident_bytes.value else {
            continue;
        };
        here.0 = here.0.saturating_sub(*bytes);
        if let Some(all) = &mut workload.resident_bytes {
            all.0 = all.0.saturating_sub(*bytes);
        }
        if *here < NO_USE {
            let others = workload.uses.iter().filter(|u| u.group != *group);
            workload.uses = others.cloned().collect();
        }
    }
}

#[cfg(test)]
mod tests;
