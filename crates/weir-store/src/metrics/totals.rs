// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is added up from tick to tick for metrics that count.

use super::text::quoted;
use crate::export::spelled;
use crate::rollup::{OUTCOMES, WHYS, outcome_code, provenance_code, why_code};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter::Peekable;
use std::sync::Arc;
use weir_core::owner::{PodNames, owner};
use weir_core::rates::attribution::Provenance;
use weir_core::seam::observation::{GroupReading, Missing, WorkloadKind, WorkloadReading};
use weir_core::seam::plan::{ActionKind, Decision, Outcome, Plan};
use weir_core::{BytesPerSec, DeviceId, GroupId, Nanos, Observation, WorkloadId};

/// Kinds of changes of limits.
pub(super) const CHANGES: [&str; 2] = ["limit", "release"];
/// Ways in which bytes are known, without the unknown.
pub(super) const KNOWN: usize = 3;

/// What is counted over the life of a weir process.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    last_at: Option<Nanos>,
    pub(super) ticks: u64,
    pub(super) groups: BTreeMap<GroupId, GroupReading>,
    /// Part of the time that events ran, for devices whose events were multiplexed.
    pub(super) running: BTreeMap<DeviceId, f64>,
    /// Readings that were lost, of reads and of writes.
    pub(super) lost: BTreeMap<GroupId, [u64; 2]>,
    /// The names with which labels were made.
    pod_names: PodNames,
    /// Bytes that no workload is charged for.
    pub(super) unattributed: BTreeMap<DeviceId, f64>,
    /// The part of the unattributed bytes that the kernel moved by migrating pages.
    pub(super) migrated: BTreeMap<DeviceId, f64>,
    pub(super) decisions: [u64; WHYS.len()],
    /// Changes of limits by their kind, and by what became of them.
    pub(super) changes: [[u64; OUTCOMES.len()]; CHANGES.len()],
    /// The workloads, in ascending order of id. Mostly they are the same as at the tick before.
    pub(super) workloads: Vec<WorkloadTotals>,
}

impl Totals {
    pub fn add(&mut self, seen: &Observation, plan: &Plan, outcomes: &[Outcome]) {
        self.ticks += 1;
        let dt = self.last_at.and_then(|before| seen.at.since(before));
        self.last_at = Some(seen.at);
        self.groups = seen
            .groups
            .iter()
            .map(|group| (group.id, group.clone()))
            .collect();
        self.running = seen.running.iter().map(|r| (r.id, r.ratio)).collect();
        self.add_lost(seen);
        self.add_decisions(plan, outcomes);
        let secs = dt.unwrap_or_default().secs_f64();
        for state in &plan.devices {
            if let Some(rate) = state.unattributed_bytes_per_sec {
                *self.unattributed.entry(state.id).or_default() += rate.get() * secs;
                // Where the traffic is known and no page was migrated, that is none, and not unknown.
                let migrated = state.migrated_bytes_per_sec.unwrap_or(BytesPerSec::ZERO);
                let migrated = migrated.get().min(rate.get());
                *self.migrated.entry(state.id).or_default() += migrated * secs;
            }
        }
        self.add_workloads(seen, plan, secs);
    }

    fn add_lost(&mut self, seen: &Observation) {
        for group in &seen.groups {
            let lost = self.lost.entry(group.id).or_default();
            for (count, reading) in lost.iter_mut().zip([&group.read_bytes, &group.write_bytes]) {
                *count += u64::from(matches!(reading.value, Err(Missing::Lost(_))));
            }
        }
    }

    fn add_decisions(&mut self, plan: &Plan, outcomes: &[Outcome]) {
        for decision in &plan.workloads {
            if let Some(count) = self.decisions.get_mut(usize::from(why_code(&decision.why))) {
                *count += 1;
            }
        }
        for (action, outcome) in plan.actions.iter().zip(outcomes) {
            let change = usize::from(action.kind == ActionKind::Release);
            let (code, _) = outcome_code(&outcome.result);
            if let Some(count) = self.changes[change].get_mut(usize::from(code)) {
                *count += 1;
            }
        }
    }

    fn add_workloads(&mut self, seen: &Observation, plan: &Plan, secs: f64) {
        let is_cgroup = |w: &&WorkloadReading| w.kind == WorkloadKind::Cgroup;
        let mut workloads = seen.workloads.iter().filter(is_cgroup).peekable();
        // All lists are in the order of ids. Mostly they are the same, and then no text is compared.
        let each = plan.workloads.iter().filter_map(|verdict| {
            let workload = next_with(&mut workloads, &verdict.id, |w| &w.id)?;
            Some((verdict, workload))
        });
        let each: Vec<(&Decision, &WorkloadReading)> = each.collect();
        self.follow(&each);
        for (totals, (verdict, workload)) in self.workloads.iter_mut().zip(each) {
            totals.add(verdict, secs);
            totals.cpu = workload.cpu_ns.ok().copied();
            totals.throttled = workload.throttled_ns.ok().copied();
        }
    }

    /// Makes the list that of these workloads. Those that have gone are forgotten: their series end.
    fn follow(&mut self, each: &[(&Decision, &WorkloadReading)]) {
        let known = self.workloads.iter().map(|totals| &totals.id);
        if known.eq(each.iter().map(|(verdict, _)| &verdict.id)) {
            return;
        }
        let mut old = std::mem::take(&mut self.workloads).into_iter().peekable();
        let names = &self.pod_names;
        let totals = each.iter().map(|(verdict, _)| {
            let known = next_with(&mut old, &verdict.id, |totals| &totals.id);
            known.unwrap_or_else(|| WorkloadTotals::new(&verdict.id, names))
        });
        self.workloads = totals.collect();
    }

    pub fn follow_pod_names(&mut self, names: &PodNames) {
        if self.pod_names == *names {
            return;
        }
        self.pod_names = names.clone();
        for workload in &mut self.workloads {
            workload.labels = Arc::new(CgroupLabels::of(workload.id.as_str(), names));
        }
    }
}

/// The labels of a cgroup: its path, and those that the path says.
#[derive(Debug)]
pub struct CgroupLabels {
    pairs: Vec<(&'static str, String)>,
    text: String,
}

impl CgroupLabels {
    fn of(id: &str, names: &PodNames) -> CgroupLabels {
        let owner = owner(id);
        let named = names.of(&owner);
        let mut pairs = vec![("cgroup", spelled(id))];
        let others = [
            ("namespace", named.map(|(name, _)| name.namespace.clone())),
            ("pod", named.map(|(name, _)| name.pod.clone())),
            (
                "container",
                named.and_then(|(_, container)| container.map(str::to_owned)),
            ),
            ("pod_uid", owner.pod_uid),
            ("container_id", owner.container_id),
            ("machine", owner.machine),
        ];
        let known = others.into_iter();
        pairs.extend(known.filter_map(|(label, value)| Some((label, spelled(&value?)))));
        let mut text = String::new();
        for (label, value) in &pairs {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing into a String cannot fail.
            let _ = write!(text, "{comma}{label}=\"{}\"", quoted(value));
        }
        CgroupLabels { pairs, text }
    }

    pub fn pairs(&self) -> &[(&'static str, String)] {
        &self.pairs
    }

    /// The labels as they stand in the text of a sample, between the braces.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[derive(Clone, Debug)]
pub(super) struct WorkloadTotals {
    pub(super) id: WorkloadId,
    /// What its samples are labelled with.
    pub(super) labels: Arc<CgroupLabels>,
    /// Device bytes by how they are known: counted, sampled, apportioned.
    pub(super) bytes: [f64; KNOWN],
    /// The part of these bytes that was read, where directions are told apart.
    pub(super) read_bytes: [f64; KNOWN],
    pub(super) write_bytes: [f64; KNOWN],
    pub(super) cpu: Option<Nanos>,
    pub(super) throttled: Option<Nanos>,
}

impl WorkloadTotals {
    fn new(id: &WorkloadId, names: &PodNames) -> Self {
        WorkloadTotals {
            id: id.clone(),
            labels: Arc::new(CgroupLabels::of(id.as_str(), names)),
            bytes: [0.0; KNOWN],
            read_bytes: [0.0; KNOWN],
            write_bytes: [0.0; KNOWN],
            cpu: None,
            throttled: None,
        }
    }

    /// What it moved in so many seconds.
    fn add(&mut self, decision: &Decision, secs: f64) {
        let bandwidth = &decision.bandwidth;
        add_amount(
            &mut self.bytes,
            bandwidth.provenance,
            bandwidth.bytes_per_sec,
            secs,
        );
        if let Some(traffic) = &decision.traffic {
            let (read, write) = (traffic.read, traffic.write);
            add_amount(
                &mut self.read_bytes,
                read.provenance,
                read.bytes_per_sec,
                secs,
            );
            add_amount(
                &mut self.write_bytes,
                write.provenance,
                write.bytes_per_sec,
                secs,
            );
        }
    }
}

/// What is unknown adds nothing.
fn add_amount(sums: &mut [f64; KNOWN], provenance: Provenance, rate: BytesPerSec, secs: f64) {
    if let Some(sum) = sums.get_mut(usize::from(provenance_code(provenance))) {
        *sum += rate.get() * secs;
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
    use weir_core::seam::plan::{Plan, Why};
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
        totals.add(&observation, &plan, &[]);
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
