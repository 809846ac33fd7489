// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload's bandwidth is made of: reads and writes, each with how it is known, and how old the
//! oldest reading behind them is. Where several workloads share a group and stores are not counted by task,
//! its writes are shared out as its reads are, and that is an estimate even where the reads are not.

use super::findings::{StepContext, StepFindings};
use super::signals::WorkloadSignals;
use crate::rates::attribution::{Attributed, Estimate, Provenance};
use crate::rates::bandwidth::GroupRate;
use crate::seam::observation::{Observation, Use};
use crate::seam::plan::{DirectionTraffic, TrafficBreakdown};
use crate::units::Nanos;

/// The figures of one workload; nothing where a part is not known, since a part is not passed off as the
/// whole.
pub(super) fn breakdown(
    context: &StepContext<'_>,
    found: &StepFindings,
    signals: &WorkloadSignals,
) -> Option<TrafficBreakdown> {
    let workload = context.seen.workloads.get(signals.index?)?;
    let mut sum = None;
    for (place, access, part) in found.parts_of(signals) {
        let group = found.rates.groups.get(access.group)?;
        let use_ = workload.uses.get(place)?;
        let part = figure(context.seen, group, (use_, signals.counted_at), *part)?;
        sum = Some(match sum {
            Some(sum) => plus(sum, part),
            None => part,
        });
    }
    sum
}

fn figure(
    seen: &Observation,
    group: &GroupRate,
    access: (&Use, Option<Nanos>),
    part: Attributed,
) -> Option<TrafficBreakdown> {
    if part.all.provenance == Provenance::Unknown {
        return None;
    }
    let flow = |way: Estimate| DirectionTraffic {
        bytes_per_sec: way.bytes_per_sec,
        provenance: way.provenance,
    };
    Some(TrafficBreakdown {
        read: flow(part.read),
        write: flow(part.write),
        age_ns: age(seen, group, access, part.all.provenance),
    })
}

/// Age of the oldest reading that went into it, at the time of the observation.
fn age(
    seen: &Observation,
    group: &GroupRate,
    (use_, counted_at): (&Use, Option<Nanos>),
    provenance: Provenance,
) -> Nanos {
    let counted = seen.groups.iter().find(|g| g.id == group.id);
    let counted = counted.map(|g| g.read_bytes.at.min(g.write_bytes.at));
    let sign = match provenance {
        Provenance::Sampled => {
            let sampled = use_.sampled_read_bytes.as_ref().map(|r| r.at);
            sampled.or(counted_at)
        }
        Provenance::Apportioned => Some(use_.resident_bytes.at),
        Provenance::Counted | Provenance::Unknown => None,
    };
    let oldest = counted.into_iter().chain(sign).min().unwrap_or(seen.at);
    seen.at.since(oldest).unwrap_or(Nanos(0))
}

fn plus(a: TrafficBreakdown, b: TrafficBreakdown) -> TrafficBreakdown {
    let flow = |a: DirectionTraffic, b: DirectionTraffic| DirectionTraffic {
        bytes_per_sec: a.bytes_per_sec + b.bytes_per_sec,
        provenance: a.provenance.max(b.provenance),
    };
    TrafficBreakdown {
        read: flow(a.read, b.read),
        write: flow(a.write, b.write),
        age_ns: a.age_ns.max(b.age_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::observation::{GroupReading, Missing, Reading, WorkloadKind, WorkloadReading};
    use crate::seam::topology::{Description, Device, Group};
    use crate::units::BytesPerSec;
    use crate::{Bytes, Config, DeviceId, GroupId, Plan, State, WorkloadId, step};

    const GROUP: GroupId = GroupId {
        device: DeviceId(0),
        index: 0,
    };

    fn machine() -> Description {
        Description {
            cpu_count: 4,
            devices: vec![Device {
                id: DeviceId(0),
                name: "weir_cxl0".into(),
                capacity_bytes_per_sec: None,
                counter_mask_bytes: u64::MAX,
                counted_by: crate::seam::topology::CountedBy::AccessCounters,
            }],
            groups: vec![Group {
                id: GROUP,
                node: None,
                size_bytes: Bytes(0),
            }],
            ..Description::default()
        }
    }

    /// A second of a group that is read at 600 and written at 200 bytes a second, by workloads with these
    /// rates of accesses (reads, writes) and memory scanned in the beginning.
    fn seen(sec: u64, rates: &[(Option<u64>, Option<u64>)]) -> Observation {
        let at = Nanos::from_millis(sec * 1000);
        let counter = |rate: u64| Reading::new(at, Bytes(rate * sec));
        let workload =
            |(i, (reads, writes)): (usize, &(Option<u64>, Option<u64>))| WorkloadReading {
                id: WorkloadId::new(format!("/{i}")),
                kind: WorkloadKind::Cgroup,
                cpu_ns: Reading::new(at, at),
                throttled_ns: Reading::new(at, Nanos(0)),
                uses: [Use {
                    group: GROUP,
                    resident_bytes: Reading::new(Nanos(0), Bytes(1 << 30)),
                    sampled_read_bytes: reads.map(counter),
                    sampled_write_bytes: writes.map(counter),
                }]
                .into(),
                resident_bytes: None,
                weight: 100.0,
                their_limit_cpus: None,
                limited_weight: None,
                excluded: None,
            };
        Observation {
            seq: sec,
            at: Nanos(at.0 + 5),
            groups: vec![GroupReading {
                id: GROUP,
                read_bytes: counter(600),
                write_bytes: counter(200),
            }],
            workloads: rates.iter().enumerate().map(workload).collect(),
            ..Observation::default()
        }
    }

    fn figures_of(rates: &[(Option<u64>, Option<u64>)]) -> Vec<Option<TrafficBreakdown>> {
        let (mut state, config) = (State::default(), Config::default());
        let mut plan = Plan::default();
        for sec in 0..3 {
            plan = step(&mut state, &config, &machine(), &seen(sec, rates));
        }
        plan.workloads.iter().map(|v| v.traffic).collect()
    }

    fn figure(
        reads: (f64, Provenance),
        writes: (f64, Provenance),
        age_ns: u64,
    ) -> Option<TrafficBreakdown> {
        let flow = |(rate, provenance)| DirectionTraffic {
            bytes_per_sec: BytesPerSec::new(rate),
            provenance,
        };
        Some(TrafficBreakdown {
            read: flow(reads),
            write: flow(writes),
            age_ns: Nanos(age_ns),
        })
    }

    use Provenance::{Apportioned, Counted, Sampled};

    #[test]
    fn alone_both_directions_are_counted() {
        let alone = figures_of(&[(None, None)]);
        assert_eq!(alone, [figure((600.0, Counted), (200.0, Counted), 5)]);
    }

    #[test]
    fn writes_are_apportioned_where_only_reads_are_counted_by_task() {
        let both = figures_of(&[(Some(10), None), (Some(30), None)]);
        let want = [
            figure((150.0, Sampled), (50.0, Apportioned), 5),
            figure((450.0, Sampled), (150.0, Apportioned), 5),
        ];
        assert_eq!(both, want);
    }

    #[test]
    fn writes_are_attributed_by_stores() {
        let both = figures_of(&[(Some(10), Some(0)), (Some(10), Some(10))]);
        let want = [
            figure((200.0, Sampled), (0.0, Sampled), 5),
            figure((400.0, Sampled), (200.0, Sampled), 5),
        ];
        assert_eq!(both, want);
        // For one of them it is not known.
        let one = figures_of(&[(Some(10), None), (Some(5), Some(5))]);
        assert_eq!(one[0], figure((300.0, Sampled), (100.0, Apportioned), 5));
    }

    /// A reader beside one that stored 100 bytes in the first second, which are written back in the next, and
    /// 100 more in the third, which are unattributed.
    #[test]
    fn late_write_backs_are_attributed_to_the_workload_that_stored() {
        let (mut state, config) = (State::default(), Config::default());
        let mut writes = Vec::new();
        for (sec, stored, written) in [(0, 0, 0), (1, 100, 0), (2, 100, 100), (3, 100, 200)] {
            let mut seen = seen(sec, &[(Some(10), Some(0)), (Some(10), Some(0))]);
            let at = Nanos::from_millis(sec * 1000);
            let uses = std::sync::Arc::make_mut(&mut seen.workloads[1].uses);
            uses[0].sampled_write_bytes = Some(Reading::new(at, Bytes(stored)));
            seen.groups[0].write_bytes = Reading::new(at, Bytes(written));
            let plan = step(&mut state, &config, &machine(), &seen);
            let figures = plan.workloads.iter().filter_map(|v| v.traffic);
            writes.push(
                figures
                    .map(|f| (f.write.bytes_per_sec.get(), f.write.provenance))
                    .collect::<Vec<_>>(),
            );
        }
        assert_eq!(writes[1], [(0.0, Sampled), (0.0, Sampled)]);
        assert_eq!(writes[2], [(0.0, Sampled), (100.0, Sampled)]);
        assert_eq!(writes[3], [(50.0, Apportioned), (50.0, Apportioned)]);
    }

    #[test]
    fn an_estimate_is_as_old_as_the_memory_scan() {
        let estimated = figures_of(&[(None, None), (None, None)]);
        let half = figure((300.0, Apportioned), (100.0, Apportioned), 2_000_000_005);
        assert_eq!(estimated, [half, half]);
    }

    #[test]
    fn what_is_not_known_has_no_figure() {
        let (mut state, config) = (State::default(), Config::default());
        for sec in 0..3 {
            let mut seen = seen(sec, &[(None, None)]);
            seen.groups[0].write_bytes = Reading::missing(seen.at, Missing::NotYetRead);
            let plan = step(&mut state, &config, &machine(), &seen);
            assert_eq!(plan.workloads[0].traffic, None);
        }
    }
}
