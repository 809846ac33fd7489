// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mean time of a request to CXL memory, over the requests of all tasks, by events of the CPU.
//!
//! *Intel*: in each cycle, the boxes of the last-level cache (CHA) add up how many requests wait in their
//! table of requests (TOR occupancy). They also count how many came in (inserts). By Little's law the mean
//! wait is occupancy ÷ inserts, in cycles of the box. The clock of the box gives the length of a cycle.
//! Occupancy can only be counted on counter 0. All three are one group of perf, so that they cover the same
//! time. A box that was not counted, because of multiplexing, is left out.
//!
//! ```text
//!   mean = Σ (occupancy / (clock / running)) / Σ inserts          over all boxes, each scaled by enabled / running
//! ```
//!
//! *AMD*: the L3 samples requests and adds up their latencies; the quotient is in tens of nanoseconds.
//!
//! What the core adds before the request gets there is not in it. A socket sees all CXL memory as one, so the
//! figure is one device's only where there is one. **No such event was ever opened on hardware by weir's
//! authors.**

use super::machine::Machine;
use super::set::{Counted, Set};
use crate::kernel::clock::now;
use crate::options::Roots;
use weir_core::seam::observation::{LatencyReading, LatencySource};
use weir_core::{DeviceId, Missing, Nanos, Reading};
use weir_events::groups::fit;
use weir_events::{Config, Event, Latency, Table, tables};

/// A socket has some sixty boxes, and reading each interrupts a CPU of its socket: not at every tick.
const READ_EVERY: Nanos = Nanos::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// A cycle, and the third event counts them.
    Cycles,
    /// So many nanoseconds.
    Nanos(f64),
}

#[derive(Clone, Debug, PartialEq)]
struct LatencyEvents {
    pmu: String,
    kind: u32,
    cpu: u32,
    /// Waiting, requests and, by [`Unit::Cycles`], the clock.
    configs: Vec<Config>,
    unit: Unit,
}

/// What can be had on this machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LatencyCounters {
    pub(crate) name: String,
    plans: Vec<LatencyEvents>,
}

/// Waiting that was seen in some time, scaled to all of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Waited {
    ns: f64,
    requests: f64,
}

struct Gauge {
    set: Set,
    unit: Unit,
    last: Counted,
}

pub(crate) struct Waits {
    device: DeviceId,
    gauges: Vec<Gauge>,
    seen: Reading<Nanos>,
    due: Nanos,
}

/// Finds events that count it.
///
/// # Errors
/// Why there are none.
pub(crate) fn find(roots: &Roots) -> Result<LatencyCounters, Missing> {
    of(&Machine::probe(roots))
}

fn of(machine: &Machine) -> Result<LatencyCounters, Missing> {
    let is_of_this = |table: &&Table| !table.cpu.is_empty() && machine.has(table);
    let table = tables().iter().find(is_of_this);
    let Some(table) = table.filter(|table| !table.latency.is_empty()) else {
        let none = |cpu: String| {
            Missing::NotSupported(format!("no table has an event of CXL latency for {cpu}"))
        };
        return Err(match &machine.cpu {
            Ok(cpu) => none(cpu.to_string()),
            Err(why) => why.clone(),
        });
    };
    let mut plans = Vec::new();
    for latency in &table.latency {
        plans.extend(plan(machine, table, latency)?);
    }
    let named: Vec<&str> = table.latency.iter().map(|l| l.total.as_str()).collect();
    Ok(LatencyCounters {
        name: format!("{} ({})", named.join(" + "), table.family),
        plans,
    })
}

/// A group on each PMU that has all the events of a latency, for each CPU it is to be opened on.
fn plan(
    machine: &Machine,
    table: &Table,
    latency: &Latency,
) -> Result<Vec<LatencyEvents>, Missing> {
    let names = [
        Some(&latency.total),
        Some(&latency.requests),
        latency.clock.as_ref(),
    ];
    let events: Vec<&Event> = names
        .into_iter()
        .flatten()
        .filter_map(|name| table.event(name))
        .collect();
    let together = events.first().and_then(|event| table.pmu.get(&event.pmu));
    if !together.is_some_and(|pmu| fit(pmu, &events)) {
        let why = format!(
            "{} cannot be counted together with its requests",
            latency.total
        );
        return Err(Missing::NotSupported(why));
    }
    let mut of_pmu: Vec<LatencyEvents> = Vec::new();
    for (place, event) in events.iter().enumerate() {
        let standing = machine.standing(table, event);
        if standing.here.is_empty() {
            let nothing = Missing::NotSupported(format!("{} is not here", event.name));
            return Err(standing.why.into_iter().next().unwrap_or(nothing));
        }
        for (pmu, config) in standing.here {
            if place == 0 {
                of_pmu.extend(pmu.cpus.iter().map(|cpu| LatencyEvents {
                    pmu: pmu.name.clone(),
                    kind: pmu.kind,
                    cpu: *cpu,
                    configs: Vec::new(),
                    unit: latency.ns.map_or(Unit::Cycles, |ns| Unit::Nanos(ns.into())),
                }));
            }
            for plan in of_pmu.iter_mut().filter(|plan| plan.pmu == pmu.name) {
                plan.configs.push(config);
            }
        }
    }
    of_pmu.retain(|plan| plan.configs.len() == events.len());
    Ok(of_pmu)
}

impl LatencyCounters {
    /// Opens all groups, which count from then on.
    ///
    /// # Errors
    /// perf refuses one: with the PMU's name.
    pub(crate) fn open(&self, device: DeviceId) -> Result<Waits, Missing> {
        let open = |plan: &LatencyEvents| {
            Ok(Gauge {
                set: Set::open_raw(&plan.pmu, plan.kind, plan.cpu, &plan.configs)?,
                unit: plan.unit,
                last: Counted::default(),
            })
        };
        Ok(Waits {
            device,
            gauges: self
                .plans
                .iter()
                .map(open)
                .collect::<Result<_, Missing>>()?,
            seen: Reading::missing(now(), Missing::NotYetRead),
            due: now(),
        })
    }
}

impl Waits {
    /// The mean since the last reading; the last again, with its time, while that is not long ago.
    pub(crate) fn read(&mut self) -> LatencyReading {
        let at = now();
        if at >= self.due {
            self.due = Nanos(at.0.saturating_add(READ_EVERY.0));
            let parts = self.gauges.iter_mut().map(Gauge::read).collect::<Vec<_>>();
            self.seen = Reading {
                at,
                value: mean(parts),
            };
        }
        LatencyReading {
            id: self.device,
            mean_ns: self.seen.clone(),
            source: LatencySource::PerfEvents,
        }
    }
}

impl Gauge {
    fn read(&mut self) -> Result<Waited, Missing> {
        let counted = self.set.read();
        let counted = counted.map_err(|e| Missing::Lost(format!("perf events of latency: {e}")))?;
        let waited = waited(&self.last, &counted, self.unit);
        // If its group did not run, the next reading spans the gap: nothing has been counted meanwhile.
        self.last = counted;
        waited
    }
}

/// What waited between two readings of a group.
///
/// # Errors
/// The group did not run, or its clock stood still while requests came.
fn waited(before: &Counted, now: &Counted, unit: Unit) -> Result<Waited, Missing> {
    let running = now.running_since(before)?;
    let count = |place| now.count_since(before, place);
    let (total, requests) = (count(0), count(1));
    let unit_ns = match unit {
        Unit::Nanos(ns) => ns,
        Unit::Cycles if count(2) > 0.0 => running.running_ns() / count(2),
        Unit::Cycles if requests == 0.0 => 0.0,
        Unit::Cycles => return Err(Missing::Lost("the clock of a box stood still".into())),
    };
    Ok(Waited {
        ns: running.scaled(total * unit_ns),
        requests: running.scaled(requests),
    })
}

/// The mean time of a request over all boxes. Requests are spread over boxes alike, so a box may be left out
/// if its group did not run. If no group ran, that is the reason.
fn mean(parts: Vec<Result<Waited, Missing>>) -> Result<Nanos, Missing> {
    let mut sum = Waited::default();
    let mut lost = None;
    let mut is_any = false;
    for part in parts {
        match part {
            Ok(part) => {
                is_any = true;
                sum.ns += part.ns;
                sum.requests += part.requests;
            }
            Err(why) => lost = Some(why),
        }
    }
    match lost {
        Some(why) if !is_any => Err(why),
        _ if sum.requests > 0.0 => Ok(Nanos::rounded(sum.ns / sum.requests)),
        _ => Err(Missing::Lost("no traffic since the last tick".into())),
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
