// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is added up from tick to tick for metrics that count.

use crate::export::spelled;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::sync::Arc;
use weir_core::owner::{PodNames, owner};
use weir_core::rates::attribution::Provenance;
use weir_core::seam::observation::{GroupReading, Missing, WorkloadKind, WorkloadReading};
use weir_core::{DeviceId, GroupId, Nanos, Observation, WorkloadId};

/// What is counted over the life of a weir.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    last_at: Option<Nanos>,
    pub(super) ticks: u64,
    pub(super) groups: BTreeMap<GroupId, GroupReading>,
    /// Of devices with events that were multiplexed.
    pub(super) running: BTreeMap<DeviceId, f64>,
    /// Readings that were lost, of reads and of writes.
    pub(super) lost: BTreeMap<GroupId, [u64; 2]>,
    /// With which names labels were made.
    pod_names: PodNames,
    /// By id. At each tick they are put together anew, and mostly they are the same as before.
    pub(super) workloads: Vec<WorkloadTotals>,
}

impl Totals {
    /// Takes in a tick.
    pub fn add(&mut self, seen: &Observation, plan: &weir_core::Plan) {
        self.ticks += 1;
        let dt = self.last_at.and_then(|before| seen.at.since(before));
        self.last_at = Some(seen.at);
        self.groups = seen
            .groups
            .iter()
            .map(|group| (group.id, group.clone()))
            .collect();
        self.running = seen.running.iter().map(|r| (r.id, r.ratio)).collect();
        for group in &seen.groups {
            let lost = self.lost.entry(group.id).or_default();
            for (count, reading) in lost.iter_mut().zip([&group.read_bytes, &group.write_bytes]) {
                *count += u64::from(matches!(reading.value, Err(Missing::Lost(_))));
            }
        }
        let is_cgroup = |w: &&WorkloadReading| w.kind == WorkloadKind::Cgroup;
        let mut seen = seen.workloads.iter().filter(is_cgroup).peekable();
        let mut old = std::mem::take(&mut self.workloads).into_iter().peekable();
        let mut next = Vec::with_capacity(plan.workloads.len());
        for verdict in &plan.workloads {
            // All three lists are in the order of ids. Mostly they are the same, and then that is two
            // comparisons.
            let Some(workload) = next_with(&mut seen, &verdict.id, |w| &w.id) else {
                continue;
            };
            let known = next_with(&mut old, &verdict.id, |totals| &totals.id);
            let mut totals =
                known.unwrap_or_else(|| WorkloadTotals::new(&verdict.id, &self.pod_names));
            let rate = verdict.bandwidth.bytes_per_sec.get();
            let amount = rate * dt.unwrap_or_default().secs_f64();
            match verdict.bandwidth.provenance {
                Provenance::Counted => totals.bytes[0] += amount,
                Provenance::Sampled => totals.bytes[1] += amount,
                Provenance::Apportioned => totals.bytes[2] += amount,
                Provenance::Unknown => {}
            }
            totals.cpu = workload.cpu_ns.ok().copied();
            totals.throttled = workload.throttled_ns.ok().copied();
            next.push(totals);
        }
        // Those that have gone are forgotten: their series end.
        self.workloads = next;
    }

    /// Labels have these names from now on.
    pub fn follow_pod_names(&mut self, names: &PodNames) {
        if self.pod_names == *names {
            return;
        }
        self.pod_names = names.clone();
        for workload in &mut self.workloads {
            workload.labels = labels_of(workload.id.as_str(), names).into();
        }
    }
}

/// The labels of a cgroup, as they stand in a sample.
fn labels_of(id: &str, names: &PodNames) -> String {
    let mut labels = format!("cgroup=\"{}\"", quoted(&spelled(id)));
    let owner = owner(id);
    let named = names.of(&owner);
    let pod = |name: &str| Some(name.to_owned());
    for (label, value) in [
        (
            "namespace",
            named.and_then(|(name, _)| pod(&name.namespace)),
        ),
        ("pod", named.and_then(|(name, _)| pod(&name.pod))),
        (
            "container",
            named.and_then(|(_, container)| pod(container?)),
        ),
        ("pod_uid", owner.pod_uid),
        ("container_id", owner.container_id),
        ("machine", owner.machine),
    ] {
        if let Some(value) = value {
            // Writing into a String cannot fail.
            let _ = write!(labels, ",{label}=\"{}\"", quoted(&spelled(&value)));
        }
    }
    labels
}

pub(super) fn quoted(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[derive(Clone, Debug)]
pub(super) struct WorkloadTotals {
    pub(super) id: WorkloadId,
    /// What its samples are labelled with, as text.
    pub(super) labels: Arc<str>,
    /// Device bytes by how they are known: counted, sampled, apportioned.
    pub(super) bytes: [f64; 3],
    pub(super) cpu: Option<Nanos>,
    pub(super) throttled: Option<Nanos>,
}

impl WorkloadTotals {
    fn new(id: &WorkloadId, names: &PodNames) -> Self {
        WorkloadTotals {
            id: id.clone(),
            labels: labels_of(id.as_str(), names).into(),
            bytes: [0.0; 3],
            cpu: None,
            throttled: None,
        }
    }
}

/// The entry with this id, if there is one; those before it are passed over.
fn next_with<T, I: Iterator<Item = T>>(
    list: &mut Peekable<I>,
    wanted: &WorkloadId,
    id: impl Fn(&T) -> &WorkloadId,
) -> Option<T> {
    while list
        .next_if(|entry| id(entry) != wanted && id(entry) < wanted)
        .is_some()
    {}
    list.next_if(|entry| id(entry) == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::rates::attribution::Estimate;
    use weir_core::seam::observation::Reading;
    use weir_core::seam::plan::{Decision, Plan, Why};
    use weir_core::{BytesPerSec, CpuShare};

    /// A tick at `sec`: cgroups and their bytes per second, and a process.
    fn tick(totals: &mut Totals, sec: u64, rates: &[(&str, f64)]) {
        let at = Nanos::from_millis(sec * 1000);
        let seen = |id: &str, kind| WorkloadReading {
            id: WorkloadId::new(id),
            kind,
            cpu_ns: Reading::new(at, Nanos(sec)),
            throttled_ns: Reading::new(at, Nanos(0)),
            uses: Arc::default(),
            resident_bytes: None,
            weight: 100.0,
            their_limit_cpus: None::<CpuShare>,
            limited_weight: None,
            excluded: None,
        };
        let cgroups = rates.iter().map(|(id, _)| seen(id, WorkloadKind::Cgroup));
        let process = seen("pid:1@2", WorkloadKind::Process);
        let verdict = |id: &str, rate: f64| Decision {
            id: WorkloadId::new(id),
            bandwidth: Estimate {
                bytes_per_sec: BytesPerSec::new(rate),
                provenance: Provenance::Apportioned,
            },
            traffic: None,
            fair: None,
            cpu_cpus: None,
            intensity_bytes_per_cpu_sec: None,
            allowed_bytes_per_sec: None,
            limit_cpus: None,
            limited_weight: None,
            throttled_ns: None,
            why: Why::ObserveOnly,
        };
        let verdicts = rates.iter().map(|(id, rate)| verdict(id, *rate));
        let observation = Observation {
            at,
            workloads: cgroups.chain([process]).collect(),
            ..Observation::default()
        };
        let plan = Plan {
            workloads: verdicts.chain([verdict("pid:1@2", 9.0)]).collect(),
            ..Plan::default()
        };
        totals.add(&observation, &plan);
    }

    fn bytes(totals: &Totals) -> Vec<(&str, f64)> {
        let each = totals.workloads.iter();
        each.map(|w| (w.id.as_str(), w.bytes[2])).collect()
    }

    #[test]
    fn bytes_add_up_while_the_same_are_there() {
        let mut totals = Totals::default();
        for sec in 1..=3 {
            tick(&mut totals, sec, &[("/a", 10.0), ("/b", 1.0)]);
        }
        assert_eq!(bytes(&totals), [("/a", 20.0), ("/b", 2.0)]);
        assert!(totals.workloads.iter().all(|w| w.cpu == Some(Nanos(3))));
    }

    #[test]
    fn those_that_come_begin_at_zero_and_those_that_went_are_forgotten() {
        let mut totals = Totals::default();
        tick(&mut totals, 1, &[("/b", 1.0), ("/d", 1.0)]);
        tick(
            &mut totals,
            2,
            &[("/a", 5.0), ("/b", 1.0), ("/c", 7.0), ("/d", 1.0)],
        );
        let all = [("/a", 5.0), ("/b", 1.0), ("/c", 7.0), ("/d", 1.0)];
        assert_eq!(bytes(&totals), all);
        tick(&mut totals, 3, &[("/b", 1.0), ("/c", 1.0)]);
        assert_eq!(bytes(&totals), [("/b", 2.0), ("/c", 8.0)]);
        tick(&mut totals, 4, &[]);
        tick(&mut totals, 5, &[("/b", 3.0)]);
        assert_eq!(bytes(&totals), [("/b", 3.0)]);
    }
}
