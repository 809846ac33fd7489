// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Windows of what the synthetic server counted, as a program that reads such counters would write them:
//! by role, with the time for which each was counted.
//!
//! CPUs are summed, by workload and over the machine. Boxes outside of the cores stay apart, so that a hot
//! line shows. A box whose turn it was not has no count, and a reason.

use super::role_sources::{RoleSource, role_sources};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountProvenance, CountScope, UnassignedEvent, WorkloadCounts};
use weir_core::{Missing, Nanos, Role, Window, WorkloadId};
use weir_profile::WindowFile;
use weir_profile::stages::Capacities;
use weir_profile::window_file::Header;
use weir_server_model::pmu::UnitKind;
use weir_server_model::{CountWindow, Machine, Workloads};

/// What a box counted of an event, in all of its sets.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    value: u64,
    enabled_ns: f64,
    running_ns: f64,
}

impl Tally {
    /// The count as if it had counted all the time. Nothing where it never did.
    fn scaled(self) -> Option<f64> {
        let is_all = self.running_ns >= self.enabled_ns;
        let factor = if is_all {
            1.0
        } else {
            self.enabled_ns / self.running_ns
        };
        (self.running_ns > 0.0).then_some(self.value as f64 * factor)
    }
}

type BoxEvents = BTreeMap<Arc<str>, Tally>;
type Boxes = BTreeMap<(UnitKind, u32), BoxEvents>;

/// Makes the file of windows of a run.
pub fn window_file(
    windows: &[CountWindow],
    machine: &Machine,
    workloads: &Workloads,
    source: String,
) -> WindowFile {
    let sources = role_sources();
    let lost = windows.iter().filter(|window| window.is_lost);
    let notes = lost.map(|window| format!("window {} was lost and is left out", window.number + 1));
    WindowFile {
        header: Header {
            capacities: capacities(machine),
            dram_bytes_per_sec: Some(Nanos::rounded(machine.dram.bytes_per_sec).0),
            notes: notes.collect(),
            ..Header::new(source)
        },
        windows: windows
            .iter()
            .filter(|window| !window.is_lost)
            .map(|counted| window(counted, machine, workloads, &sources))
            .collect(),
    }
}

/// Entries of the queues that the counters see, for each box. A fact of the machine, as vendors publish some.
fn capacities(machine: &Machine) -> Capacities {
    let queues = [
        (
            Stage::FillBuffer,
            AccessPath::Drd,
            Target::Any,
            machine.l1d.fill_buffers,
        ),
        (
            Stage::SuperQueue,
            AccessPath::Drd,
            Target::Any,
            machine.l2.super_queue,
        ),
        (
            Stage::SuperQueue,
            AccessPath::Rfo,
            Target::Any,
            machine.l2.super_queue,
        ),
        (
            Stage::Tor,
            AccessPath::Any,
            Target::Any,
            machine.cha.tor_entries,
        ),
        (
            Stage::Ingress,
            AccessPath::Any,
            Target::Any,
            machine.cha.ingress_entries,
        ),
        (
            Stage::Imc,
            AccessPath::Reads,
            Target::DramOwn,
            machine.dram.read_queue,
        ),
        (
            Stage::Imc,
            AccessPath::Wb,
            Target::DramOwn,
            machine.dram.write_queue,
        ),
    ];
    let port = machine.device.first().map(|device| device.ingress_entries);
    let ports = [AccessPath::Reads, AccessPath::Wb]
        .into_iter()
        .filter_map(|path| Some((Stage::M2pcie, path, Target::Cxl, port?)));
    let all = queues.into_iter().chain(ports);
    let of = |(stage, path, target, entries)| {
        (Role::new(stage, path, target, Quantity::Occupancy), entries)
    };
    all.map(of).collect()
}

fn nanos(ns: f64) -> Nanos {
    Nanos::rounded(ns)
}

fn window(
    counted: &CountWindow,
    description: &Machine,
    workloads: &Workloads,
    sources: &[RoleSource],
) -> Window {
    let mut boxes = Boxes::new();
    for count in &counted.counts {
        let events = boxes.entry((count.unit, count.index)).or_default();
        let tally = events.entry(count.event.clone()).or_default();
        tally.value = tally.value.wrapping_add(count.value);
        tally.enabled_ns = count.enabled_ns;
        tally.running_ns += count.running_ns;
    }
    let is_cpu = |(unit, _): &(UnitKind, u32)| *unit == UnitKind::Cpu;
    let cpus: BTreeMap<u32, Vec<Count>> = boxes
        .iter()
        .filter(|(place, _)| is_cpu(place))
        .map(|((_, cpu), events)| (*cpu, cpu_counts(events, sources)))
        .collect();
    let uncore = boxes.iter().filter(|(place, _)| !is_cpu(place));
    let uncore = uncore
        .flat_map(|((unit, index), events)| counts(*unit, events, sources, scope(*unit, *index)));
    let mut machine = summed(cpus.values(), CountScope::Socket(0));
    machine.extend(uncore);
    if !description.cha.counts_ingress {
        machine.push(no_ingress());
    }
    let of_workload = |workload: &weir_server_model::Workload| {
        let own = workload
            .cpus
            .iter()
            .filter_map(|cpu| cpus.get(&u32::from(*cpu)));
        WorkloadCounts {
            id: WorkloadId::new(workload.name.as_str()),
            counts: summed(own, CountScope::All),
        }
    };
    Window {
        from: nanos(counted.from_ns),
        to: nanos(counted.to_ns),
        machine,
        workloads: workloads.workload.iter().map(of_workload).collect(),
        unassigned: unassigned(&boxes, sources),
    }
}

/// Only Granite Rapids counts what waits in the ingress of a home agent.
fn no_ingress() -> Count {
    let why = "the counters of this CPU do not see the ingress queue";
    Count {
        role: Role::new(
            Stage::Ingress,
            AccessPath::Any,
            Target::Any,
            Quantity::Occupancy,
        ),
        of: CountScope::Socket(0),
        value: Err(Missing::NotSupported(why.into())),
        enabled_ns: Nanos(0),
        running_ns: Nanos(0),
        provenance: CountProvenance::Documented,
    }
}

fn scope(unit: UnitKind, index: u32) -> CountScope {
    match unit {
        UnitKind::Cpu => CountScope::Cpu(index),
        UnitKind::M2p | UnitKind::CxlCm => CountScope::Port(index),
        UnitKind::CxlDevice => CountScope::Device(index),
        UnitKind::Cha | UnitKind::Imc | UnitKind::Upi => CountScope::Box(index),
    }
}

/// Counts of a CPU; its time, as perf's task-clock has it, is that of its counters.
fn cpu_counts(events: &BoxEvents, sources: &[RoleSource]) -> Vec<Count> {
    let mut all = counts(UnitKind::Cpu, events, sources, CountScope::All);
    let longest = events
        .values()
        .map(|tally| tally.enabled_ns)
        .fold(0.0, f64::max);
    all.push(Count {
        role: Role::new(Stage::Core, AccessPath::Any, Target::Any, Quantity::TimeNs),
        of: CountScope::All,
        value: Ok(nanos(longest).0),
        enabled_ns: nanos(longest),
        running_ns: nanos(longest),
        provenance: CountProvenance::Documented,
    });
    all
}

/// Counts of the roles whose events a box has.
fn counts(
    unit: UnitKind,
    events: &BoxEvents,
    sources: &[RoleSource],
    of: CountScope,
) -> Vec<Count> {
    let own = sources.iter().filter(|source| source.unit == unit);
    own.filter_map(|source| count(events, source, of)).collect()
}

fn count(events: &BoxEvents, source: &RoleSource, of: CountScope) -> Option<Count> {
    let tallies: Option<Vec<Tally>> = source
        .events
        .iter()
        .map(|e| events.get(e.as_str()).copied())
        .collect();
    let tallies = tallies?;
    let least = tallies
        .iter()
        .min_by(|a, b| a.running_ns.total_cmp(&b.running_ns))?;
    let sum: Option<f64> = tallies.iter().map(|tally| tally.scaled()).sum();
    let (enabled_ns, running_ns) = (nanos(least.enabled_ns), nanos(least.running_ns));
    Some(Count {
        role: source.role,
        of,
        // Below 2^53 events of a window the sum is exact.
        value: sum
            .map(|sum| Nanos::rounded(sum).0)
            .ok_or(Missing::NotYetRead),
        enabled_ns,
        running_ns: running_ns.min(enabled_ns),
        provenance: source.provenance,
    })
}

/// One count a role over several CPUs, in which those without a counter count as the others do.
pub(super) fn summed<'a>(all: impl Iterator<Item = &'a Vec<Count>>, of: CountScope) -> Vec<Count> {
    let mut sums: BTreeMap<Role, Vec<&Count>> = BTreeMap::new();
    for count in all.flatten() {
        sums.entry(count.role).or_default().push(count);
    }
    let total = |counts: &[&Count], of: fn(&Count) -> Nanos| {
        Nanos(counts.iter().map(|count| of(count).0).sum())
    };
    let sums = sums.into_iter().filter_map(|(role, counts)| {
        let known = || counts.iter().filter_map(|count| count.value.as_ref().ok());
        let enabled_ns = total(&counts, |count| count.enabled_ns);
        let counted = counts.iter().filter(|count| count.value.is_ok());
        let counted_ns: u64 = counted.map(|count| count.enabled_ns.0).sum();
        let sum = known().fold(0u64, |sum, value| sum.saturating_add(*value));
        let factor = enabled_ns.0 as f64 / counted_ns as f64;
        let value = match known().count() {
            0 => Err(Missing::NotYetRead),
            n if n == counts.len() => Ok(sum),
            _ => Ok(Nanos::rounded(sum as f64 * factor).0),
        };
        Some(Count {
            role,
            of,
            value,
            enabled_ns,
            running_ns: total(&counts, |count| count.running_ns),
            provenance: counts.first()?.provenance,
        })
    });
    sums.collect()
}

/// Events that no role is made of, summed over boxes.
fn unassigned(boxes: &Boxes, sources: &[RoleSource]) -> Vec<UnassignedEvent> {
    let events = |source: &RoleSource| -> Vec<(UnitKind, String)> {
        source
            .events
            .iter()
            .map(|event| (source.unit, event.clone()))
            .collect()
    };
    let used: BTreeSet<(UnitKind, String)> = sources.iter().flat_map(events).collect();
    let mut sums: BTreeMap<String, Option<f64>> = BTreeMap::new();
    for ((unit, _), events) in boxes {
        for (event, tally) in events {
            if used.contains(&(*unit, event.to_string())) {
                continue;
            }
            let sum = sums.entry(format!("{}/{event}/", unit.name())).or_default();
            *sum = match (*sum, tally.scaled()) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
    }
    let rows = sums.into_iter().map(|(event, value)| UnassignedEvent {
        event,
        workload: None,
        of: CountScope::All,
        value: value
            .map(|value| Nanos::rounded(value).0)
            .ok_or(Missing::NotYetRead),
    });
    rows.collect()
}
