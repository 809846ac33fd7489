// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ways that a workload's requests take, with the time at each stage: from residences at the core, in the
//! table of requests, and at the device. Cycles are those of the core's clock.

use super::core_model::Leg;
use super::load_counts::{l2_hits, met_prefetch};
use crate::figure::sources::Sources;
use crate::figure::{Figure, Unit};
use crate::path_map::lines_of;
use crate::quality::Refusal;
use crate::stages::{clock_hz, clock_of, residence_cycles, residence_ns};
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Cycles from L1D to the answer of L2, where the counts do not say it.
const L2_CYCLES: f64 = 15.0;
/// Cycles that they may say.
const L2_CYCLES_BOUNDS: [f64; 2] = [8.0, 40.0];
/// Nanoseconds on the mesh, to the last-level cache and back, where the counts do not say it.
const MESH_NS: f64 = 20.0;
/// A line that prefetch brings late is late by this much at least, on average. This constant and the next one
/// were chosen on machines of the synthetic server (seeds 1 to 60); on hardware they are assumptions
/// (docs/evidence/stalls.md).
const LATE_NS: f64 = 25.0;
/// Added to it: so many times what is waited for such a line on average.
const LATE_BURST: f64 = 1.7;
/// Paths whose residence in the table of requests stands for a target's, best first.
const PATHS: [AccessPath; 6] = [
    AccessPath::Drd,
    AccessPath::PfL2,
    AccessPath::Rfo,
    AccessPath::PfLlc,
    AccessPath::Reads,
    AccessPath::Any,
];

/// Time behind the lookup in the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behind {
    pub target: Target,
    /// Cycles of the core's clock.
    pub cycles: f64,
    /// The CXL port's part of them, where it is told apart from the device's.
    pub port: Option<f64>,
}

/// Times that the counts say, in cycles of the core.
#[derive(Clone, Debug)]
pub struct Times {
    /// Rate of the core's clock, GHz.
    pub ghz: f64,
    /// L1D to the answer of L2.
    pub l2: f64,
    /// Mesh and ingress, on the way there.
    pub mesh_in: f64,
    /// Mesh, on the way back.
    pub mesh_out: f64,
    /// Lookup in the last-level cache.
    pub llc: f64,
    /// In the table of requests behind the lookup, by supplier.
    pub behind: Vec<Behind>,
    /// What they are made of.
    pub figure: Figure,
}

/// Suppliers behind the last-level cache, with the whole that stands for a part.
pub const SUPPLIERS: [(Target, Option<Target>); 5] = [
    (Target::DramOwn, Some(Target::Dram)),
    (Target::DramRemote, None),
    (Target::CxlOwn, Some(Target::Cxl)),
    (Target::CxlRemote, None),
    (Target::RemoteCache, None),
];

/// Residence in the table of requests of what has this target, ns.
///
/// # Errors
/// No path of it was counted, or it is refused.
pub fn in_table(sources: &Sources, target: Target) -> Result<Figure, Refusal> {
    let mut first = None;
    for path in PATHS {
        let role = Role::new(Stage::Tor, path, target, Quantity::Occupancy);
        match residence_ns(sources.machine, role) {
            Ok(figure) => return Ok(figure),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or(Refusal::NotCounted {
        what: "residences in the table of requests".into(),
    }))
}

fn value(answer: Result<Figure, Refusal>) -> f64 {
    answer.map_or(0.0, |figure| figure.value)
}

/// Makes the times.
///
/// # Errors
/// The core's clock was not counted, or no residence behind the last-level cache.
pub fn times(sources: &Sources) -> Result<Times, Refusal> {
    let core = clock_of(Stage::Core).ok_or(Refusal::NoTime)?;
    let hz = clock_hz(sources.own, core)?;
    let ghz = hz.value / 1e9;
    let mut figure = hz;
    let llc = in_table(sources, Target::Own).map_or(0.0, |figure| figure.value);
    let mut behind = Vec::new();
    let mut first = None;
    for (target, whole) in SUPPLIERS {
        let known = in_table(sources, target);
        let known = match (known, whole) {
            (Err(why), Some(whole)) => in_table(sources, whole).map_err(|_| why),
            (other, _) => other,
        };
        match known {
            Ok(ns) => {
                figure = figure.and(&ns, 0.0, Unit::Cycles);
                let left = (ns.value - llc).max(0.0);
                let port = is_cxl(target).then(|| port_ns(sources, left)).flatten();
                behind.push(Behind {
                    target,
                    cycles: left * ghz,
                    port: port.map(|ns| ns * ghz),
                });
            }
            Err(why) => first = first.or(Some(why)),
        }
    }
    if let (true, Some(why)) = (behind.is_empty(), first) {
        return Err(why);
    }
    let [mesh_in, mesh_out] = mesh_ns(sources, llc, &behind, ghz);
    Ok(Times {
        ghz,
        l2: l2_cycles(sources),
        mesh_in: mesh_in * ghz,
        mesh_out: mesh_out * ghz,
        llc: llc * ghz,
        behind,
        figure,
    })
}

/// Whether it is CXL memory.
pub fn is_cxl(target: Target) -> bool {
    matches!(target, Target::Cxl | Target::CxlOwn | Target::CxlRemote)
}

/// Residence in the device, ns, where its own queue is counted.
///
/// # Errors
/// It is not, or is refused.
pub fn in_device(sources: &Sources) -> Result<Figure, Refusal> {
    let of = |path| {
        let role = Role::new(Stage::Device, path, Target::Cxl, Quantity::Occupancy);
        residence_ns(sources.machine, role)
    };
    of(AccessPath::Reads).or_else(|why| of(AccessPath::Any).map_err(|_| why))
}

/// The port's part of the time behind the last-level cache.
fn port_ns(sources: &Sources, whole: f64) -> Option<f64> {
    let device = in_device(sources).ok()?;
    (device.value < whole).then_some(whole - device.value)
}

/// Time on the mesh, there and back: what the core's residence leaves of that in the table of requests.
fn mesh_ns(sources: &Sources, llc: f64, behind: &[Behind], ghz: f64) -> [f64; 2] {
    let of = |target| {
        Role::new(
            Stage::SuperQueue,
            AccessPath::Drd,
            target,
            Quantity::Occupancy,
        )
    };
    for counts in [sources.own, sources.peers] {
        let Ok(core) = residence_ns(counts, of(Target::Any)) else {
            continue;
        };
        let lines = |target| value(lines_of(counts, AccessPath::Drd, target));
        let hits = lines(Target::Own) + lines(Target::Snc);
        let missed: f64 = behind.iter().map(|way| lines(way.target)).sum();
        let all = hits + missed;
        if all <= 0.0 {
            continue;
        }
        let table: f64 = behind
            .iter()
            .map(|way| lines(way.target) / all * way.cycles / ghz)
            .sum();
        let mesh = core.value - llc - table;
        if mesh <= 0.0 {
            continue;
        }
        let after = residence_cycles(counts, of(Target::Miss));
        let there = after.ok().filter(|_| missed > 0.0).map(|after| {
            // All of the residence, less hits, less what comes behind the lookup of a miss.
            (core.value * all - hits * (mesh + llc)) / missed - after.value / ghz - llc
        });
        let there = there.filter(|ns| (0.0..=mesh).contains(ns));
        let there = there.unwrap_or(mesh / 2.0);
        return [there, mesh - there];
    }
    [MESH_NS / 2.0; 2]
}

/// Cycles from L1D to the answer of L2: what the fill buffers hold longer than the super queue does.
fn l2_cycles(sources: &Sources) -> f64 {
    let own = |stage, quantity| {
        value(
            sources
                .own
                .get(Role::new(stage, AccessPath::Drd, Target::Any, quantity)),
        )
    };
    let held = own(Stage::FillBuffer, Quantity::Occupancy);
    let behind = own(Stage::SuperQueue, Quantity::Occupancy);
    let requests = own(Stage::SuperQueue, Quantity::Inserts) + l2_hits(sources);
    let met: f64 = met_prefetch(sources).iter().map(|(_, loads)| loads).sum();
    let cycles = (held - behind) / requests;
    let is_known = held > 0.0 && behind > 0.0 && met <= 0.01 * requests && cycles.is_finite();
    if is_known {
        cycles.clamp(L2_CYCLES_BOUNDS[0], L2_CYCLES_BOUNDS[1])
    } else {
        L2_CYCLES
    }
}

/// The way of a line from a supplier.
pub fn legs(times: &Times, target: Target) -> Vec<Leg> {
    let leg = |stage, cycles| Leg { stage, cycles };
    let mut all = vec![
        leg(Stage::L2, times.l2),
        leg(Stage::Ingress, times.mesh_in),
        leg(Stage::Llc, times.llc),
    ];
    let behind = times.behind.iter().find(|way| way.target == target);
    match behind {
        Some(Behind {
            cycles,
            port: Some(port),
            ..
        }) => {
            all.push(leg(Stage::Port, port / 2.0));
            all.push(leg(Stage::Device, cycles - port));
            all.push(leg(Stage::Port, port / 2.0));
        }
        Some(way) if is_cxl(target) => all.push(leg(Stage::Device, way.cycles)),
        Some(way) => all.push(leg(Stage::Imc, way.cycles)),
        None => {}
    }
    all.push(leg(Stage::Ingress, times.mesh_out));
    all
}

/// Time that is spent on the last part of a way, over its legs: single waits are exponential, with this mean.
pub fn at_the_end(legs: &[Leg], time: f64, mean_cycles: f64) -> Vec<f64> {
    let mut past = 0.0;
    let mass = legs.iter().rev().map(|leg| {
        let from = f64::exp(-past / mean_cycles);
        past += leg.cycles;
        from - f64::exp(-past / mean_cycles)
    });
    let mut mass: Vec<f64> = mass.collect();
    mass.reverse();
    let all: f64 = mass.iter().sum();
    if all > 0.0 {
        mass.iter().map(|part| time * part / all).collect()
    } else {
        vec![time / legs.len().max(1) as f64; legs.len()]
    }
}

/// The mean of single waits for lines that prefetch brings late, where `stalled` cycles fall on `lines`. Few
/// lines are late, and these by more than the mean over all says: assumed, with constants that fit a
/// synthetic server.
pub fn late_cycles(times: &Times, stalled: f64, lines: f64) -> f64 {
    LATE_NS * times.ghz + LATE_BURST * stalled / lines.max(1.0)
}
