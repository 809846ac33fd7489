// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of the roles of a lane, from what its sets counted in their turns. Whatever the sets count for is
//! one pool: a workload over all CPUs, a socket over all boxes.
//!
//! ```text
//!   count of a set's role = counted by the set × (time that all sets were enabled ÷ time that it ran)
//! ```
//!
//! perf's time of a task or a cgroup passes while it runs, so that the sum of all turns is its CPU time, and
//! that of a PMU of a socket is the window.

use super::lanes::{CountingLane, LanePart, LaneRole};
use crate::counters::pmu::Counted;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountProvenance, CountScope};
use weir_core::{Missing, Nanos, Role};
use weir_events::Scope;

/// A difference may be this part of what is taken off below 0: its events are not read at one instant.
const BELOW_ZERO_RATIO: f64 = 0.01;

#[derive(Clone, Debug, Default)]
pub(super) struct SetSum {
    counts: Vec<u64>,
    pub(super) enabled_ns: u64,
    pub(super) running_ns: u64,
}

/// What the sets of a lane counted for a pool.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneSums {
    pub(super) sets: Vec<SetSum>,
}

/// A sum, and the time for which it was counted.
struct PartSum {
    value: f64,
    running_ns: u64,
}

impl LaneSums {
    pub(super) fn new(lane: &CountingLane) -> LaneSums {
        let of = |size: &usize| SetSum {
            counts: vec![0; *size],
            ..SetSum::default()
        };
        LaneSums {
            sets: lane.set_sizes.iter().map(of).collect(),
        }
    }

    /// Adds what a group of a set counted between two reads.
    pub(super) fn add(&mut self, set: usize, before: &Counted, now: &Counted) {
        let Some(sum) = self.sets.get_mut(set) else {
            return;
        };
        for (place, total) in sum.counts.iter_mut().enumerate() {
            let of = |counted: &Counted| counted.counts.get(place).copied().unwrap_or(0);
            *total = total.saturating_add(of(now).saturating_sub(of(before)));
        }
        let more = now.enabled_ns.saturating_sub(before.enabled_ns);
        sum.enabled_ns = sum.enabled_ns.saturating_add(more);
        let more = now.running_ns.saturating_sub(before.running_ns);
        sum.running_ns = sum.running_ns.saturating_add(more);
    }

    /// Adds those of another pool of the lane.
    pub(super) fn add_all(&mut self, others: &LaneSums) {
        for (sum, other) in self.sets.iter_mut().zip(&others.sets) {
            for (total, more) in sum.counts.iter_mut().zip(&other.counts) {
                *total = total.saturating_add(*more);
            }
            sum.enabled_ns = sum.enabled_ns.saturating_add(other.enabled_ns);
            sum.running_ns = sum.running_ns.saturating_add(other.running_ns);
        }
    }

    /// Time for which one set or another was enabled.
    pub(super) fn enabled_ns(&self) -> u64 {
        let all = self.sets.iter().map(|set| set.enabled_ns);
        all.fold(0, u64::saturating_add)
    }

    pub(super) fn counts(&self, lane: &CountingLane, of: CountScope) -> Vec<Count> {
        let roles = lane.roles.iter();
        roles.map(|role| self.count(role, lane.scope, of)).collect()
    }

    fn count(&self, role: &LaneRole, scope: Scope, of: CountScope) -> Count {
        let enabled_ns = self.enabled_ns();
        let (value, running_ns) = match self.sum(role) {
            // No task of it ran in the window.
            _ if enabled_ns == 0 && scope == Scope::Cpu => (Ok(0), 0),
            _ if enabled_ns == 0 => (Err(Missing::Lost("its PMU stood still".into())), 0),
            Ok(sum) if sum.running_ns == 0 => (Err(Missing::NotYetRead), 0),
            Ok(sum) => {
                let scaled = if sum.running_ns >= enabled_ns {
                    sum.value
                } else {
                    sum.value * enabled_ns as f64 / sum.running_ns as f64
                };
                // Below 2^53 events of a window the sum is exact.
                (
                    Ok(Nanos::rounded(scaled * role.ns as f64).0),
                    sum.running_ns,
                )
            }
            Err(why) => (Err(why), 0),
        };
        Count {
            role: role.role,
            of,
            value,
            enabled_ns: Nanos(enabled_ns),
            running_ns: Nanos(running_ns.min(enabled_ns)),
            provenance: role.provenance,
        }
    }

    /// The sum of one role. A clock, which is repeated in every set, gives all that its sets counted in all
    /// of their time. A sum that is spread over sets gives all of its parts, each as if it had run as long as
    /// the one that ran least.
    fn sum(&self, role: &LaneRole) -> Result<PartSum, Missing> {
        let parts: Vec<PartSum> = role
            .parts
            .iter()
            .map(|part| self.part(part))
            .collect::<Result<_, Missing>>()?;
        if role.is_repeated {
            return Ok(PartSum {
                value: parts.iter().map(|part| part.value).sum(),
                running_ns: parts
                    .iter()
                    .fold(0, |all, p| p.running_ns.saturating_add(all)),
            });
        }
        let running_ns = parts.iter().map(|part| part.running_ns).min().unwrap_or(0);
        let to_least = |part: &PartSum| match part.running_ns {
            0 => 0.0,
            ran if ran == running_ns => part.value,
            ran => part.value * running_ns as f64 / ran as f64,
        };
        Ok(PartSum {
            value: parts.iter().map(to_least).sum(),
            running_ns,
        })
    }

    fn part(&self, part: &LanePart) -> Result<PartSum, Missing> {
        let Some(set) = self.sets.get(part.set) else {
            return Err(Missing::NotYetRead);
        };
        let sum = |places: &[usize]| -> f64 {
            let all = places.iter().filter_map(|place| set.counts.get(*place));
            all.map(|count| *count as f64).sum()
        };
        let (plus, minus) = (sum(&part.plus), sum(&part.minus));
        if plus < minus * (1.0 - BELOW_ZERO_RATIO) {
            return Err(Missing::Lost(
                "the difference of its events is below 0".into(),
            ));
        }
        Ok(PartSum {
            value: (plus - minus).max(0.0),
            running_ns: set.running_ns,
        })
    }
}

/// Counts of several places in one sum.
pub(super) struct Pool {
    pub(super) lane: usize,
    pub(super) of: CountScope,
    /// Place of the workload among the subjects; nothing for the machine's.
    pub(super) subject: Option<usize>,
    pub(super) window: LaneSums,
    pub(super) all: LaneSums,
    /// CPU time in the window by socket, of a cgroup on a machine that had several when it was opened: also
    /// of those on which it did not run, because a role that stands both by socket and as a whole has no
    /// figure.
    socket_ns: BTreeMap<u32, u64>,
}

impl Pool {
    /// A pool of the lane that has this number among all. It counts at this place, and for this subject. Its
    /// CPU time is told apart by `sockets`.
    pub(super) fn new(
        number: usize,
        lane: &CountingLane,
        (of, subject): (CountScope, Option<usize>),
        sockets: BTreeSet<u32>,
    ) -> Pool {
        Pool {
            lane: number,
            of,
            subject,
            window: LaneSums::new(lane),
            all: LaneSums::new(lane),
            socket_ns: sockets.into_iter().map(|socket| (socket, 0)).collect(),
        }
    }

    /// Notes that so much of the window's time was on this socket.
    pub(super) fn ran_on(&mut self, socket: u32, ns: u64) {
        if !self.socket_ns.is_empty() {
            let all = self.socket_ns.entry(socket).or_default();
            *all = all.saturating_add(ns);
        }
    }

    /// CPU time in the window, by socket where that is known.
    pub(super) fn cpu_times(&self) -> Vec<Count> {
        if self.socket_ns.is_empty() {
            vec![cpu_time(self.window.enabled_ns(), self.of)]
        } else {
            self.socket_ns
                .iter()
                .map(|(socket, ns)| cpu_time(*ns, CountScope::Socket(*socket)))
                .collect()
        }
    }

    /// Ends the window, whose counts are part of all.
    pub(super) fn end_window(&mut self, lane: &CountingLane) {
        let sums = std::mem::replace(&mut self.window, LaneSums::new(lane));
        self.all.add_all(&sums);
        self.socket_ns.values_mut().for_each(|ns| *ns = 0);
    }
}

/// CPU time of a workload, as its counters know it.
fn cpu_time(enabled_ns: u64, of: CountScope) -> Count {
    Count {
        role: Role::new(Stage::Core, AccessPath::Any, Target::Any, Quantity::TimeNs),
        of,
        value: Ok(enabled_ns),
        enabled_ns: Nanos(enabled_ns),
        running_ns: Nanos(enabled_ns),
        provenance: CountProvenance::Documented,
    }
}
