// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long requests stay at each stage, by Little's law: residence = occupancy ÷ inserts, in cycles, and in
//! nanoseconds by the clock that counted with them. Waiting time is what of it the idle machine does not
//! have. A cycle in which a queue is not empty is *busy*: nothing need wait in it.

mod before_tor;
mod waiting;

use crate::counts::Counts;
use crate::figure::{Answer, Figure, Unit, sum};
use crate::quality::{self, Refusal};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_core::Role;
use weir_core::window::CountProvenance;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Entries of queues, by the role of their occupancy, for each PMU that counts it.
pub type Capacities = BTreeMap<Role, u32>;

/// A stage, for one path and target.
#[derive(Clone, Debug, Serialize)]
pub struct StageFigures {
    /// The queue: the role of its occupancy, or of its sampled latency.
    pub role: Role,
    /// Mean cycles of a request in it.
    pub residence_cycles: Answer,
    /// The same as time.
    pub residence_ns: Answer,
    /// What of it the idle machine does not have.
    pub waiting_ns: Answer,
    /// Requests that enter it each second.
    pub requests_per_sec: Answer,
    /// Requests in one such queue, on average over all cycles.
    pub entries: Answer,
    /// The same ÷ its entries.
    pub pressure: Answer,
    /// Requests in it, on average over the cycles in which it is not empty.
    pub entries_while_busy: Answer,
}

/// What is behind the last-level cache, in parts that have names and a rest that has none.
#[derive(Clone, Debug, Serialize)]
pub struct Whole {
    pub role: Role,
    /// Sum of the parts ÷ the whole.
    pub covered: Answer,
    /// The share of CXL memory in the whole.
    pub cxl_share: Answer,
    /// Requests of the rest.
    pub rest: Answer,
    /// How long these stay, in cycles.
    pub rest_residence_cycles: Answer,
}

#[derive(Clone, Debug, Serialize)]
pub struct Stages {
    /// Queues with an occupancy.
    pub queues: Vec<StageFigures>,
    /// Mesh and ingress by difference: residence at the core less residence in the table of requests.
    pub before_tor_ns: Answer,
    /// What of it the idle machine does not have.
    pub before_tor_waiting_ns: Answer,
    /// Cycles in which a stage is full ÷ cycles.
    pub full: Vec<(Role, Answer)>,
    /// Parts and wholes in the table of requests.
    pub wholes: Vec<Whole>,
}

/// The clock in whose cycles a stage counts.
pub fn clock_of(stage: Stage) -> Option<Role> {
    let of = |stage| Role::new(stage, AccessPath::Any, Target::Any, Quantity::Clock);
    match stage {
        Stage::Core | Stage::StoreBuffer | Stage::L1d | Stage::FillBuffer | Stage::L2 => {
            Some(of(Stage::Core))
        }
        Stage::SuperQueue => Some(of(Stage::Core)),
        Stage::Tor | Stage::Ingress => Some(of(Stage::Tor)),
        Stage::Imc | Stage::M2pcie | Stage::Port | Stage::Device => Some(of(stage)),
        Stage::Llc => None,
    }
}

/// Rate of a clock, in Hz. A core's clock stands while the core is halted: its time is the CPU time of what
/// was counted.
///
/// # Errors
/// There is none, it stood, or no such clock has that rate.
pub fn clock_hz(counts: &Counts, clock: Role) -> Answer {
    let ticks = match counts.get(clock) {
        Err(Refusal::NotRecorded { .. }) => return Err(Refusal::NoClock { clock }),
        other => other?,
    };
    if ticks.value <= 0.0 {
        return Err(Refusal::ClockStood { clock });
    }
    let (ns, ticks) = if clock.stage == Stage::Core {
        let time = Role::new(Stage::Core, AccessPath::Any, Target::Any, Quantity::TimeNs);
        let time = counts.get(time)?;
        let note = "by CPU time: too long where whole CPUs were counted that idled";
        (time.value, ticks.noting(note))
    } else {
        (counts.enabled_ns(clock).ok_or(Refusal::NoTime)?, ticks)
    };
    if ns <= 0.0 {
        return Err(Refusal::NotCounted {
            what: format!("the time of the clock {clock}"),
        });
    }
    let hz = ticks.value / (ns / 1e9);
    if !(quality::CLOCK_HZ[0]..=quality::CLOCK_HZ[1]).contains(&hz) {
        return Err(Refusal::ClockImplausible { clock, hz });
    }
    Ok(ticks.and(&ticks, hz, Unit::Ratio))
}

/// Whether a target is memory, which answers later than a cache.
fn is_memory(target: Target) -> bool {
    !matches!(
        target,
        Target::Own | Target::Snc | Target::RemoteCache | Target::Any
    )
}

/// Mean cycles of a request in a queue.
///
/// # Errors
/// Counts are missing or contradict each other, or one box holds a hot line.
pub fn residence_cycles(counts: &Counts, occupancy: Role) -> Answer {
    let inserts = occupancy.with(Quantity::Inserts);
    counts.even(occupancy)?;
    let (held, came) = counts.pair(occupancy, inserts)?;
    if came.value <= 0.0 {
        return Err(if held.value > 0.0 {
            Refusal::OccupancyWithoutInserts { occupancy }
        } else {
            Refusal::NoRequests {
                what: inserts.to_string(),
            }
        });
    }
    Ok(held.and(&came, held.value / came.value, Unit::Cycles))
}

/// The same in nanoseconds.
///
/// # Errors
/// As [`residence_cycles`]; or there is no clock to make time of cycles.
pub fn residence_ns(counts: &Counts, occupancy: Role) -> Answer {
    let cycles = residence_cycles(counts, occupancy)?;
    let clock = clock_of(occupancy.stage).ok_or(Refusal::NotRecorded { role: occupancy })?;
    let hz = clock_hz(counts, clock)?;
    counts.with_clock(occupancy, clock)?;
    let ns = cycles.value / hz.value * 1e9;
    // A write is taken over long before memory has it.
    let is_read = !matches!(occupancy.path, AccessPath::Wb | AccessPath::Nt);
    let is_memory = is_read && is_memory(occupancy.target);
    if is_memory && matches!(occupancy.stage, Stage::Tor | Stage::SuperQueue) {
        quality::plausible_latency(occupancy, ns)?;
    }
    Ok(cycles.and(&hz, ns, Unit::Ns))
}

/// Sampled latency, where the PMU gives that instead of an occupancy.
fn sampled_ns(counts: &Counts, total: Role) -> Answer {
    let (time, requests) = counts.pair(total, total.with(Quantity::Samples))?;
    if requests.value <= 0.0 {
        return Err(Refusal::NoRequests {
            what: total.with(Quantity::Samples).to_string(),
        });
    }
    let ns = quality::plausible_latency(total, time.value / requests.value)?;
    Ok(time
        .and(&requests, ns, Unit::Ns)
        .noting("of sampled requests"))
}

fn requests_per_sec(counts: &Counts, occupancy: Role) -> Answer {
    let came = counts.get(occupancy.with(Quantity::Inserts))?;
    let length = counts.length().ok_or(Refusal::NoTime)?;
    Ok(came.and(&came, came.value / length.secs_f64(), Unit::RequestsPerSec))
}

fn entries(counts: &Counts, occupancy: Role) -> Answer {
    let clock = clock_of(occupancy.stage).ok_or(Refusal::NotRecorded { role: occupancy })?;
    if matches!(counts.get(clock), Err(Refusal::NotRecorded { .. })) {
        return Err(Refusal::NoClock { clock });
    }
    let (held, ticks) = counts.with_clock(occupancy, clock)?;
    if ticks.value <= 0.0 {
        return Err(Refusal::ClockStood { clock });
    }
    let entries = held.value / ticks.value;
    if entries > quality::ENTRIES_MAX {
        return Err(Refusal::NoSuchQueue { occupancy, entries });
    }
    Ok(held.and(&ticks, entries, Unit::Entries))
}

fn pressure(occupancy: Role, entries: &Answer, capacities: &Capacities) -> Answer {
    let entries = entries.clone()?;
    let Some(capacity) = capacities.get(&occupancy) else {
        return Err(Refusal::NotPublished { queue: occupancy });
    };
    let ratio = entries.value / f64::from(*capacity);
    if ratio > 1.0 + quality::PARTS_SLACK {
        return Err(Refusal::AboveCapacity {
            occupancy,
            entries: entries.value,
            capacity: *capacity,
        });
    }
    Ok(entries.and(&entries, ratio, Unit::Ratio))
}

fn entries_while_busy(counts: &Counts, occupancy: Role) -> Answer {
    let busy = occupancy.with(Quantity::Busy);
    let (held, cycles) = counts.pair(occupancy, busy)?;
    if cycles.value <= 0.0 {
        return Err(Refusal::NoRequests {
            what: busy.to_string(),
        });
    }
    Ok(held.and(&cycles, held.value / cycles.value, Unit::Entries))
}

/// Why a count cannot be, by the counts that make figures with it. What is wrong with one figure of a queue
/// is wrong with its occupancy, and so with all others that are made of it.
pub(crate) fn contradiction(
    counts: &Counts,
    role: Role,
    capacities: &Capacities,
) -> Option<Refusal> {
    match role.quantity {
        Quantity::Occupancy => {
            let entries = entries(counts, role);
            let whys = [
                residence_ns(counts, role).err(),
                pressure(role, &entries, capacities).err(),
            ];
            whys.into_iter().flatten().find(|why| {
                matches!(
                    why,
                    Refusal::OccupancyWithoutInserts { .. }
                        | Refusal::BelowCache { .. }
                        | Refusal::NoSuchQueue { .. }
                        | Refusal::AboveCapacity { .. }
                )
            })
        }
        // Cycles of a clock are no more than its ticks.
        Quantity::Busy | Quantity::Full | Quantity::Stalls => {
            let clock = clock_of(role.stage)?;
            let (part, ticks) = counts.with_clock(role, clock).ok()?;
            let ratio = part.value / ticks.value;
            // A core that is halted has neither.
            (ticks.value > 0.0 && ratio > 1.0 + quality::PARTS_SLACK).then(|| {
                Refusal::PartAboveWhole {
                    part: role.to_string(),
                    whole: clock,
                    ratio,
                }
            })
        }
        _ => None,
    }
}

/// Figures of a queue: `role` is that of its occupancy, or of its sampled latency.
pub(crate) fn queue(
    counts: &Counts,
    idle: Option<&Counts>,
    role: Role,
    capacities: &Capacities,
) -> StageFigures {
    let is_sampled = role.quantity == Quantity::TimeNs;
    let ns = |counts: &Counts, role: Role| {
        if is_sampled {
            sampled_ns(counts, role)
        } else {
            residence_ns(counts, role)
        }
    };
    let of_occupancy = |answer: &dyn Fn() -> Answer| {
        if is_sampled {
            Err(Refusal::NotRecorded {
                role: role.with(Quantity::Occupancy),
            })
        } else {
            answer()
        }
    };
    let residence_ns = ns(counts, role);
    let idle_ns = idle.map(|idle| waiting::idle_ns(counts, idle, role, &ns));
    let waiting_ns = waiting::waiting_ns(&residence_ns, idle_ns);
    let entries = of_occupancy(&|| entries(counts, role));
    StageFigures {
        role,
        residence_cycles: of_occupancy(&|| residence_cycles(counts, role)),
        residence_ns,
        waiting_ns,
        requests_per_sec: of_occupancy(&|| requests_per_sec(counts, role)),
        pressure: pressure(role, &entries, capacities),
        entries_while_busy: of_occupancy(&|| entries_while_busy(counts, role)),
        entries,
    }
}

/// Parts of what is behind the last-level cache. Which of them were counted decides; the whole of CXL memory
/// stands for its parts.
fn parts_of(counts: &Counts, path: AccessPath, quantity: Quantity) -> Vec<(Target, Figure)> {
    let get = |target| {
        counts
            .get(Role::new(Stage::Tor, path, target, quantity))
            .ok()
    };
    let kinds = [
        [Target::Dram, Target::DramOwn, Target::DramRemote],
        [Target::Cxl, Target::CxlOwn, Target::CxlRemote],
    ];
    let mut parts = Vec::new();
    for [all, own, remote] in kinds {
        match get(all) {
            Some(figure) => parts.push((all, figure)),
            None => parts.extend([own, remote].into_iter().filter_map(|t| Some((t, get(t)?)))),
        }
    }
    parts
}

/// The requests of a path that miss the last-level cache, and what of them has a name. Where the parts with a
/// name do not cover the whole, the share of CXL memory is a range, and no figure is given: from none to all
/// of the rest may belong to it.
fn whole(counts: &Counts, path: AccessPath) -> Option<Whole> {
    let role = Role::new(Stage::Tor, path, Target::Miss, Quantity::Inserts);
    let all = counts.get(role).ok()?;
    let parts = parts_of(counts, path, Quantity::Inserts);
    let named = sum(parts.iter().map(|(_, figure)| figure))?;
    let is_cxl = |t: &Target| matches!(t, Target::Cxl | Target::CxlOwn | Target::CxlRemote);
    let cxl = sum(parts
        .iter()
        .filter(|(t, _)| is_cxl(t))
        .map(|(_, figure)| figure));
    let ratio = named.value / all.value;
    let covered = match ratio {
        _ if all.value <= 0.0 => Err(Refusal::NoRequests {
            what: role.to_string(),
        }),
        ratio if ratio > 1.0 + quality::PARTS_SLACK => Err(Refusal::PartAboveWhole {
            part: format!("the sum of DRAM and CXL of {}", path.word()),
            whole: role,
            ratio,
        }),
        ratio => Ok(named.and(&all, ratio, Unit::Ratio)),
    };
    let rest_value = (all.value - named.value).max(0.0);
    let cxl_share = match (&covered, cxl) {
        (Err(why), _) => Err(why.clone()),
        (_, None) => Err(Refusal::NotCounted {
            what: format!("requests to CXL memory of {}", path.word()),
        }),
        (Ok(covered), Some(cxl)) if covered.value < 1.0 - quality::PARTS_SLACK => {
            Err(Refusal::NamelessRest {
                whole: role,
                covered: covered.value,
                low: cxl.value / all.value,
                high: (cxl.value + rest_value) / all.value,
            })
        }
        (Ok(_), Some(cxl)) => cxl.share_of(&all, &role.to_string()),
    };
    Some(Whole {
        role,
        rest: covered
            .clone()
            .map(|c| all.and(&c, rest_value, Unit::Requests)),
        rest_residence_cycles: rest_residence(counts, path, rest_value),
        covered,
        cxl_share,
    })
}

/// How long what has no name stays, by subtraction.
fn rest_residence(counts: &Counts, path: AccessPath, rest: f64) -> Answer {
    let role = Role::new(Stage::Tor, path, Target::Miss, Quantity::Occupancy);
    let all = counts.get(role)?;
    let inserted = parts_of(counts, path, Quantity::Inserts);
    let held = parts_of(counts, path, Quantity::Occupancy);
    let targets = |parts: &[(Target, Figure)]| parts.iter().map(|p| p.0).collect::<Vec<_>>();
    if targets(&inserted) != targets(&held) || rest <= 0.0 {
        return Err(Refusal::NotCounted {
            what: "occupancies of the same parts".into(),
        });
    }
    let named: f64 = held.iter().map(|(_, figure)| figure.value).sum();
    let cycles = (all.value - named) / rest;
    if cycles < 0.0 {
        return Err(Refusal::Negative {
            what: format!("{role} less its parts"),
        });
    }
    let mut figure = all.and(&all, cycles, Unit::Cycles);
    figure.provenance = figure.provenance.max(CountProvenance::Difference);
    Ok(figure)
}

/// Figures of all stages that the recording has counts of. `idle` are counts of the idle machine.
pub fn stages(counts: &Counts, idle: Option<&Counts>, capacities: &Capacities) -> Stages {
    let is_queue = |role: &Role| {
        role.quantity == Quantity::Occupancy
            || (role.quantity == Quantity::TimeNs && role.stage != Stage::Core)
    };
    let full = counts
        .roles()
        .filter(|role| role.quantity == Quantity::Full);
    let full = full.map(|role| (role, full_ratio(counts, role)));
    let paths = AccessPath::ALL.iter();
    let before_tor = before_tor::residence_ns(counts);
    Stages {
        queues: counts
            .roles()
            .filter(is_queue)
            .map(|role| queue(counts, idle, role, capacities))
            .collect(),
        before_tor_waiting_ns: waiting::waiting_ns(&before_tor, idle.map(before_tor::residence_ns)),
        before_tor_ns: before_tor,
        full: full.collect(),
        wholes: paths.filter_map(|path| whole(counts, *path)).collect(),
    }
}

fn full_ratio(counts: &Counts, role: Role) -> Answer {
    let clock = clock_of(role.stage).ok_or(Refusal::NotRecorded { role })?;
    let (full, ticks) = counts.with_clock(role, clock)?;
    if ticks.value <= 0.0 {
        return Err(Refusal::ClockStood { clock });
    }
    full.share_of(&ticks, &clock.to_string())
}
