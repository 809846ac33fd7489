// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits at the stages that workloads share: the time that the requests of each workload wait there, and the
//! workloads whose requests are served meanwhile. Each unit of service is charged to the owner of the request
//! that gets it, so the shares are those of the lines moved, for each workload that waits. PathFinder's
//! PFAnalyzer names a place, by occupancy: work in service wins there. Here only waiting counts, against what
//! the stage takes on the idle machine.

use crate::counts::Counts;
use crate::figure::places::{PlaceKind, place_words};
use crate::figure::sources::Sources;
use crate::figure::{Class, Figure, Unit};
use crate::path_map::{cxl_of, lines_of};
use crate::quality::Refusal;
use crate::stalls::ways::{in_device, in_table};
use serde::Serialize;
use weir_core::Role;
use weir_core::window::CountScope;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Below this part of the idle residence, waiting is no bottleneck.
const WAIT_MIN: f64 = 0.3;

#[derive(Clone, Copy, Debug)]
pub struct Sharer<'a> {
    pub name: &'a str,
    pub counts: &'a Counts,
    /// The part of its requests that goes to the memory that is shared, 0 to 1.
    pub memory_part: f64,
    /// The part of its requests that comes from cores which share their cache, 0 to 1.
    pub cores_part: f64,
}

/// The part that a workload has in what others wait for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blame {
    pub workload: String,
    /// Its part, 0 to 1.
    pub share: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct WaitRow {
    pub workload: String,
    /// Nanoseconds that its reads wait, added up.
    pub waiting_ns: Figure,
}

#[derive(Clone, Debug, Serialize)]
pub struct StageWaits {
    /// `imc`, `port` or `device`.
    pub stage: &'static str,
    /// The socket that the waits were counted on; nothing where they are those of all sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<CountScope>,
    /// Waiting time of a request ÷ its residence on the idle machine.
    pub wait_ratio: Figure,
    /// Waiting time of a request.
    pub wait_ns: Figure,
    /// Requests that wait, on average.
    pub waiting: Figure,
    pub rows: Vec<WaitRow>,
    /// Workloads that are served there meanwhile, largest first. A workload waits for itself too.
    pub behind: Vec<Blame>,
}

impl StageWaits {
    /// The place with its stage's word before it, as `device` or `device at socket 0`.
    pub fn shown(&self, stage: &str) -> String {
        match self.place {
            None => stage.to_owned(),
            Some(place) => format!("{stage} at {}", place_words(place)),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Waits {
    pub stages: Vec<StageWaits>,
    /// The stage with the most waiting requests; nothing where none waits much.
    pub bottleneck: Option<&'static str>,
}

impl Waits {
    fn new(stages: Vec<StageWaits>) -> Waits {
        Waits {
            bottleneck: bottleneck(&stages).map(|stage| stage.stage),
            stages,
        }
    }

    /// The bottleneck with its figures; nothing where none waits much.
    pub fn bottleneck(&self) -> Option<&StageWaits> {
        bottleneck(&self.stages)
    }

    /// The waits of several sockets, side by side.
    pub fn of_sockets(sockets: impl IntoIterator<Item = (u32, Waits)>) -> Waits {
        let stages = sockets.into_iter().flat_map(|(socket, waits)| {
            let place = Some(CountScope::Socket(socket));
            waits
                .stages
                .into_iter()
                .map(move |stage| StageWaits { place, ..stage })
        });
        Waits::new(stages.collect())
    }

    /// A stage, by its word.
    pub fn stage(&self, stage: Stage) -> Option<&StageWaits> {
        self.stages.iter().find(|one| one.stage == stage.word())
    }
}

/// The stage with the most waiting requests, of those at which requests wait for long.
fn bottleneck(stages: &[StageWaits]) -> Option<&StageWaits> {
    let long = stages
        .iter()
        .filter(|stage| stage.wait_ratio.value >= WAIT_MIN);
    let most = long.max_by(|a, b| a.waiting.value.total_cmp(&b.waiting.value));
    most.filter(|stage| stage.waiting.value >= 1.0)
}

/// Residence at a stage, ns: the port's is what the table of requests has longer than the device.
fn residence(sources: &Sources, stage: Stage) -> Result<Figure, Refusal> {
    let cxl = || in_table(sources, Target::CxlOwn).or_else(|_| in_table(sources, Target::Cxl));
    match stage {
        Stage::Imc => {
            in_table(sources, Target::DramOwn).or_else(|_| in_table(sources, Target::Dram))
        }
        Stage::Device => in_device(sources).or_else(|_| cxl()),
        _ => {
            let (all, device) = (cxl()?, in_device(sources)?);
            let ns = all.value - device.value;
            if ns > 0.0 {
                Ok(all.and(&device, ns, Unit::Ns))
            } else {
                Err(Refusal::Negative {
                    what: "residence of CXL requests less that in the device".into(),
                })
            }
        }
    }
}

/// Reads of a workload that a stage serves.
fn reads(counts: &Counts, stage: Stage) -> Result<Figure, Refusal> {
    let dram = |path| {
        let own = lines_of(counts, path, Target::DramOwn);
        own.or_else(|why| lines_of(counts, path, Target::Dram).map_err(|_| why))
    };
    match stage {
        Stage::Imc => dram(AccessPath::Reads).or_else(|_| dram(AccessPath::Drd)),
        _ => cxl_of(counts, AccessPath::Reads).or_else(|_| crate::path_map::cxl_lines(counts)),
    }
}

/// Lines that a workload writes there, or is taken to: those of its stores, and all that it stores past the
/// caches.
fn writes(counts: &Counts, stage: Stage) -> f64 {
    let value = |answer: Result<Figure, Refusal>| answer.map_or(0.0, |figure| figure.value);
    let nt = |target| {
        value(counts.get(Role::new(
            Stage::SuperQueue,
            AccessPath::Nt,
            target,
            Quantity::Lines,
        )))
    };
    let stored = |target| {
        let asked = value(lines_of(counts, AccessPath::Rfo, target));
        let role = Role::new(Stage::L2, AccessPath::Rfo, Target::Miss, Quantity::Lines);
        let missed = value(counts.get(role));
        asked
            + (missed - asked)
                .max(0.0)
                .min(value(lines_of(counts, AccessPath::Pf, target)))
    };
    let targets: &[Target] = match stage {
        Stage::Imc => &[Target::DramOwn, Target::Dram],
        _ => &[Target::CxlOwn, Target::Cxl],
    };
    targets
        .iter()
        .map(|target| nt(*target) + stored(*target))
        .fold(0.0, f64::max)
}

/// Lines of a workload that a stage moves.
pub(crate) fn moved(counts: &Counts, stage: Stage) -> f64 {
    reads(counts, stage).map_or(0.0, |f| f.value) + writes(counts, stage)
}

/// What each workload has of the lines that a stage moves, largest first.
pub fn blame(sharers: &[Sharer], stage: Stage) -> Vec<Blame> {
    shares(sharers, &|one| one.memory_part * moved(one.counts, stage))
}

/// The same of lines for cores that share their last-level cache and its table of requests.
pub fn blame_in_cache(sharers: &[Sharer], stage: Stage) -> Vec<Blame> {
    shares(sharers, &|one| one.cores_part * moved(one.counts, stage))
}

/// The same of lines that go one way over the link.
pub fn blame_of_link(sharers: &[Sharer], is_written: bool) -> Vec<Blame> {
    let lines = |counts: &Counts| {
        if is_written {
            writes(counts, Stage::Port)
        } else {
            reads(counts, Stage::Port).map_or(0.0, |figure| figure.value)
        }
    };
    shares(sharers, &|one| one.memory_part * lines(one.counts))
}

fn shares(sharers: &[Sharer], lines: &dyn Fn(&Sharer) -> f64) -> Vec<Blame> {
    let all: Vec<f64> = sharers.iter().map(lines).collect();
    let sum: f64 = all.iter().sum();
    let parts = sharers.iter().zip(all).filter(|(_, lines)| *lines > 0.0);
    let mut blame: Vec<Blame> = parts
        .map(|(one, lines)| Blame {
            workload: crate::figure::printable(one.name),
            share: lines / sum,
        })
        .collect();
    blame.sort_by(|a, b| {
        b.share
            .total_cmp(&a.share)
            .then(a.workload.cmp(&b.workload))
    });
    blame
}

/// Makes the matrix of each stage.
///
/// # Errors
/// There is no recording of the idle machine, or no stage has residences in both.
pub fn waits(
    sharers: &[Sharer],
    machine: &Counts,
    idle: Option<&Counts>,
) -> Result<Waits, Refusal> {
    let stages = [Stage::Imc, Stage::Port, Stage::Device].map(|stage| (stage, 1.0));
    of_stages(sharers, machine, idle, &stages)
}

/// The same at one place of several: `machine` are the counts without those of other places of this kind,
/// `whole` all of them. That a workload's lines are spread over places as all lines are, is assumed.
///
/// # Errors
/// As [`waits`]; or the counts do not tell what waits at this place.
pub fn waits_at(
    sharers: &[Sharer],
    kind: PlaceKind,
    [machine, whole]: [&Counts; 2],
    idle: Option<&Counts>,
) -> Result<Waits, Refusal> {
    let stages: &[Stage] = match kind {
        PlaceKind::Socket => &[Stage::Imc, Stage::Port, Stage::Device],
        // What the table of requests holds for one device of several is not counted.
        PlaceKind::Port => &[],
        PlaceKind::Device => {
            in_device(&Sources::alone(machine))?;
            &[Stage::Device]
        }
    };
    let known = stages.iter().filter_map(|stage| {
        let part = part_of_requests(kind, *stage, [machine, whole])?;
        Some((*stage, part))
    });
    let known: Vec<(Stage, f64)> = known.collect();
    if known.is_empty() {
        let what = format!("requests at each {}", kind.word());
        return Err(Refusal::NotCounted { what });
    }
    of_stages(sharers, machine, idle, &known)
}

/// The part of a stage's requests that one place of several serves; nothing where that was not counted.
fn part_of_requests(kind: PlaceKind, stage: Stage, [at, whole]: [&Counts; 2]) -> Option<f64> {
    use AccessPath::{Any, Drd, Reads};
    let inserts = |stage, path, target| Role::new(stage, path, target, Quantity::Inserts);
    let roles: Vec<Role> = match (kind, stage) {
        (PlaceKind::Device, _) => [Any, Reads]
            .map(|path| inserts(Stage::Device, path, Target::Cxl))
            .into(),
        (_, stage) => {
            let targets = match stage {
                Stage::Imc => [Target::DramOwn, Target::Dram],
                _ => [Target::CxlOwn, Target::Cxl],
            };
            let of_path = |path| targets.map(|target| inserts(Stage::Tor, path, target));
            [Reads, Any, Drd].into_iter().flat_map(of_path).collect()
        }
    };
    roles.into_iter().find_map(|role| {
        let (own, all) = (at.get(role).ok()?, whole.get(role).ok()?);
        (all.value > 0.0).then(|| own.value / all.value)
    })
}

/// Waits at stages of which the counts serve such parts of the workloads' requests.
fn of_stages(
    sharers: &[Sharer],
    machine: &Counts,
    idle: Option<&Counts>,
    all: &[(Stage, f64)],
) -> Result<Waits, Refusal> {
    let idle = Sources::alone(idle.ok_or(Refusal::NotCalibrated)?);
    let now = Sources::alone(machine);
    let mut stages = Vec::new();
    let mut first = None;
    for (stage, part) in all.iter().copied() {
        let quiet = residence(&idle, stage).and_then(|quiet| {
            if quiet.value > 0.0 {
                Ok(quiet)
            } else {
                Err(Refusal::NotCalibrated)
            }
        });
        let known = residence(&now, stage).and_then(|now| Ok((now, quiet?)));
        match known {
            Ok((now, quiet)) => {
                stages.extend(stage_waits(sharers, machine, stage, part, [&now, &quiet]));
            }
            Err(why) => first = first.or(Some(why)),
        }
    }
    if let (true, Some(why)) = (stages.is_empty(), first) {
        return Err(why);
    }
    Ok(Waits::new(stages))
}

/// The waits at a stage: a request waits for as long as it takes there beyond the idle machine, a workload
/// for that time with each of its lines. By Little's law, all of that ÷ the length of the recording is the
/// mean number of requests that wait.
fn stage_waits(
    sharers: &[Sharer],
    machine: &Counts,
    stage: Stage,
    part: f64,
    [now, quiet]: [&Figure; 2],
) -> Option<StageWaits> {
    let wait = (now.value - quiet.value).max(0.0);
    let modelled = |value, unit| Figure {
        class: Class::Apportioned,
        ..now.and(quiet, value, unit)
    };
    let rows: Vec<WaitRow> = sharers
        .iter()
        .filter_map(|one| {
            let lines = reads(one.counts, stage)
                .ok()
                .filter(|lines| lines.value > 0.0)?;
            Some(WaitRow {
                workload: crate::figure::printable(one.name),
                waiting_ns: modelled(wait * lines.value * one.memory_part * part, Unit::Ns),
            })
        })
        .collect();
    let all: f64 = rows.iter().map(|row| row.waiting_ns.value).sum();
    let length = machine.length()?;
    Some(StageWaits {
        stage: stage.word(),
        place: None,
        wait_ratio: now.and(quiet, wait / quiet.value, Unit::Ratio),
        wait_ns: now.and(quiet, wait, Unit::Ns),
        waiting: modelled(all / length.0 as f64, Unit::Entries),
        rows,
        behind: blame(sharers, stage),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::counts;

    fn machine(cxl_ns: u64) -> Counts {
        counts(&[
            ("tor.any.any.clock", 1_000_000_000),
            ("tor.drd.cxl-own.occupancy", cxl_ns * 10_000_000),
            ("tor.drd.cxl-own.inserts", 10_000_000),
            ("tor.drd.dram-own.occupancy", 1_000_000_000),
            ("tor.drd.dram-own.inserts", 10_000_000),
        ])
    }

    #[test]
    fn waiting_is_shared_out_by_the_lines_that_are_served() {
        let (big, small) = (
            counts(&[("sq.reads.cxl-own.lines", 7_500_000)]),
            counts(&[
                ("sq.reads.cxl-own.lines", 1_000_000),
                ("sq.nt.cxl-own.lines", 1_500_000),
            ]),
        );
        let sharers = [("big", &big), ("small", &small)].map(|(name, counts)| Sharer {
            name,
            counts,
            memory_part: 1.0,
            cores_part: 1.0,
        });
        let made = waits(&sharers, &machine(600), Some(&machine(400))).unwrap();
        assert_eq!(made.bottleneck, Some("device"));
        let device = made
            .stages
            .iter()
            .find(|stage| stage.stage == "device")
            .unwrap();
        assert!((device.wait_ratio.value - 0.5).abs() < 1e-9);
        assert!(
            (device.waiting.value - 200.0 * 8.5e6 / 1e9).abs() < 1e-9,
            "{device:?}"
        );
        assert_eq!(device.rows[1].waiting_ns.value, 2e8);
        assert_eq!(
            device.behind[0],
            Blame {
                workload: "big".into(),
                share: 0.75
            }
        );
    }

    #[test]
    fn a_healthy_machine_has_no_bottleneck_and_without_calibration_none_is_said() {
        let one = counts(&[("sq.reads.cxl-own.lines", 7_500_000)]);
        let sharers = [Sharer {
            name: "one",
            counts: &one,
            memory_part: 1.0,
            cores_part: 1.0,
        }];
        let made = waits(&sharers, &machine(410), Some(&machine(400))).unwrap();
        assert_eq!(made.bottleneck, None);
        let why = waits(&sharers, &machine(410), None).unwrap_err();
        assert_eq!(why, Refusal::NotCalibrated);
        assert!(waits(&sharers, &counts(&[]), Some(&machine(400))).is_err());
        let no_time = waits(&sharers, &machine(410), Some(&machine(0))).unwrap();
        assert!(no_time.stage(Stage::Device).is_none(), "{no_time:?}");
    }
}
