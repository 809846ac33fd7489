// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Levers: what regulates a background, and what the machine could have that regulates it.
//!
//! Each changes streams or machine before the mechanism is asked, and adds none of its own. Those that share
//! time give several phases, each with its part of the time.

use crate::host_path::compile::{HostStream, MixError, compile};
use crate::host_path::machine::HostMachine;
use crate::host_path::solver::solve;
use serde::{Deserialize, Serialize};
use weir_description::short;

/// How a core's bandwidth answers to a value of MBA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
#[serde(rename_all = "lowercase")]
pub enum MbaLaw {
    Linear,
    /// In steps of a tenth, rounded up; above 0.6 all are 0.9.
    Steps,
    /// In proportion, never below a third.
    Floor,
}

impl MbaLaw {
    /// Part of its bandwidth alone that a core keeps at a value, both 0 to 1.
    #[must_use]
    pub fn kept(self, value: f64) -> f64 {
        match self {
            MbaLaw::Linear => value,
            MbaLaw::Steps => {
                let tenths = (value * 10.0 - 1e-9).ceil();
                if tenths > 6.0 && tenths < 10.0 {
                    0.9
                } else {
                    tenths / 10.0
                }
            }
            MbaLaw::Floor => value.max(1.0 / 3.0),
        }
    }
}

impl TryFrom<String> for MbaLaw {
    type Error = String;

    fn try_from(name: String) -> Result<MbaLaw, String> {
        match name.as_str() {
            "linear" => Ok(MbaLaw::Linear),
            "steps" => Ok(MbaLaw::Steps),
            "floor" => Ok(MbaLaw::Floor),
            _ => Err(format!(
                "levers.mba_law is {name}: linear, steps or floor is allowed"
            )),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lever {
    /// A CPU quota: all threads run for this part of the time, together.
    Quota(f64),
    /// So many threads at a time; each has its turn.
    Staggered(f64),
    /// Memory bandwidth allocation of the cores, 0 to 1, by the law; without one, by the machine's.
    Mba(f64, Option<MbaLaw>),
    /// Slow-memory bandwidth allocation: what the background may move to and from `cxl`, bytes per second.
    Smba(f64),
    /// Clock of the background's cores, GHz.
    Frequency(f64),
    /// Part of the cache's ways that the background may fill, 0 to 1. No stream of this model lives in the
    /// cache, so that it changes nothing.
    Cat(f64),
    /// What if slow memory had so many trackers of its own.
    OwnPool(f64),
    /// What if the device let so many bytes per second pass in front of admission.
    RegulatorBefore(f64),
    /// What if the device did no more than so many bytes per second, of what is admitted.
    RegulatorAfter(f64),
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LeverError {
    #[error("no lever is called `{name}`: use one of {names}")]
    Unknown { name: String, names: String },
    #[error("lever {name} is {}: {allowed}", short(*.value))]
    Value {
        name: &'static str,
        value: f64,
        allowed: String,
    },
    #[error(transparent)]
    Mix(#[from] MixError),
}

/// What the levers leave for a part of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct LeverPhase {
    /// The part, 0 to 1; those of all phases add up to 1.
    pub part: f64,
    pub machine: HostMachine,
    /// The streams; a background that does not run is not among them.
    pub streams: Vec<HostStream>,
}

/// Names of the levers, with the unit of their value.
const NAMES: [(&str, &str); 12] = [
    ("quota", "part of the time, 0 to 1"),
    ("staggered", "threads at a time"),
    ("mba", "0 to 1, by the machine's law"),
    ("mba-linear", "0 to 1"),
    ("mba-steps", "0 to 1"),
    ("mba-floor", "0 to 1"),
    ("smba", "bytes per second"),
    ("frequency", "GHz"),
    ("cat", "part of the ways, 0 to 1"),
    ("own-pool", "trackers"),
    ("device-regulator-before", "bytes per second"),
    ("device-regulator-after", "bytes per second"),
];

impl Lever {
    /// Names of all levers, each with the unit of its value.
    #[must_use]
    pub fn names() -> &'static [(&'static str, &'static str)] {
        &NAMES
    }

    /// A lever by name and value.
    ///
    /// # Errors
    /// No lever has this name, or the value is out of its range: which there are, what is allowed.
    pub fn named(name: &str, value: f64, machine: &HostMachine) -> Result<Lever, LeverError> {
        let known = NAMES.iter().find(|(known, _)| *known == name);
        let Some((name, _)) = known else {
            let names = NAMES.iter().map(|(name, unit)| format!("{name} ({unit})"));
            let names: Vec<_> = names.collect();
            return Err(LeverError::Unknown {
                name: name.to_owned(),
                names: names.join(", "),
            });
        };
        let within = |low: f64, high: f64| {
            if (low..=high).contains(&value) {
                Ok(value)
            } else {
                Err(LeverError::Value {
                    name,
                    value,
                    allowed: format!("{} to {} is allowed", short(low), short(high)),
                })
            }
        };
        let levers = &machine.levers;
        let mba = |law| Ok(Lever::Mba(within(levers.mba_least, 1.0)?, law));
        match *name {
            "quota" => Ok(Lever::Quota(within(0.001, 1.0)?)),
            "staggered" => Ok(Lever::Staggered(
                within(1.0, f64::from(machine.cores.count))?.round(),
            )),
            "mba" => mba(None),
            "mba-linear" => mba(Some(MbaLaw::Linear)),
            "mba-steps" => mba(Some(MbaLaw::Steps)),
            "mba-floor" => mba(Some(MbaLaw::Floor)),
            "smba" => Ok(Lever::Smba(within(levers.smba_step_bytes_per_sec, 1e13)?)),
            "frequency" => Ok(Lever::Frequency(within(
                levers.least_ghz,
                machine.cores.ghz,
            )?)),
            "cat" => Ok(Lever::Cat(within(0.0, 1.0)?)),
            "own-pool" => Ok(Lever::OwnPool(within(1.0, 65_536.0)?.round())),
            "device-regulator-before" => Ok(Lever::RegulatorBefore(within(1e6, 1e13)?)),
            _ => Ok(Lever::RegulatorAfter(within(1e6, 1e13)?)),
        }
    }

    /// What several levers leave of a machine and its streams. They act on all streams from `background` on.
    ///
    /// # Errors
    /// The streams do not fit the machine.
    pub fn apply(
        levers: &[Lever],
        machine: &HostMachine,
        streams: &[HostStream],
        background: usize,
    ) -> Result<Vec<LeverPhase>, LeverError> {
        compile(machine, streams)?;
        let mut machine = machine.clone();
        let mut streams = streams.to_vec();
        let (mut quota, mut at_a_time) = (1.0, None);
        for lever in levers {
            match *lever {
                Lever::Quota(part) => quota = part,
                Lever::Staggered(threads) => at_a_time = Some(threads),
                Lever::Cat(_) => {}
                Lever::Frequency(ghz) => {
                    for stream in &mut streams[background..] {
                        stream.ghz = Some(ghz);
                    }
                }
                Lever::OwnPool(count) => machine.trackers.slow_count = Some(count as u32),
                Lever::RegulatorAfter(rate) => slow_device(&mut machine, rate)?,
                Lever::RegulatorBefore(rate) => limit_slow(&machine, &mut streams, 0, rate)?,
                Lever::Smba(rate) => {
                    let step = machine.levers.smba_step_bytes_per_sec;
                    let whole = (rate / step).floor().max(1.0) * step;
                    limit_slow(&machine, &mut streams, background, whole)?;
                }
                Lever::Mba(value, law) => {
                    let own = machine.levers.mba_law;
                    let kept = law.unwrap_or(own).kept(value);
                    // At its greatest value MBA delays nothing.
                    for at in (background..streams.len()).filter(|_| kept < 1.0) {
                        let alone = alone(&machine, &streams[at])?;
                        limit(&mut streams[at], alone * kept);
                    }
                }
            }
        }
        Ok(phases(machine, streams, background, quota, at_a_time))
    }
}

/// Lines per second of a stream without others.
fn alone(machine: &HostMachine, stream: &HostStream) -> Result<f64, MixError> {
    let network = compile(machine, std::slice::from_ref(stream))?;
    Ok(solve(&network).flows[0].lines_per_ns * 1e9)
}

fn limit(stream: &mut HostStream, lines_per_sec: f64) {
    let before = stream.most_lines_per_sec.unwrap_or(f64::INFINITY);
    stream.most_lines_per_sec = Some(before.min(lines_per_sec));
}

/// Streams that use slow memory share a rate in proportion to what each moves alone.
fn limit_slow(
    machine: &HostMachine,
    streams: &mut [HostStream],
    from: usize,
    bytes_per_sec: f64,
) -> Result<(), MixError> {
    let slow = streams.iter_mut().skip(from);
    let slow: Vec<_> = slow.filter(|one| one.target == "cxl").collect();
    let mut rates = Vec::with_capacity(slow.len());
    for stream in &slow {
        rates.push(alone(machine, stream)? * stream.op.lines_moved() * 64.0);
    }
    let all: f64 = rates.iter().sum();
    for (stream, rate) in slow.into_iter().zip(rates) {
        let lines = bytes_per_sec * rate / all / 64.0 / stream.op.lines_moved();
        limit(stream, lines);
    }
    Ok(())
}

/// A device that does no more than this.
fn slow_device(machine: &mut HostMachine, bytes_per_sec: f64) -> Result<(), MixError> {
    for memory in machine.memory.iter_mut().filter(|one| one.target == "cxl") {
        let rates = memory.rates().map_err(MixError::Mix)?;
        let count = f64::from(memory.count);
        memory.read_bytes_per_sec = Some(rates.read_bytes_per_sec.min(bytes_per_sec) / count);
        memory.write_bytes_per_sec = Some(rates.write_bytes_per_sec.min(bytes_per_sec) / count);
    }
    Ok(())
}

fn phases(
    machine: HostMachine,
    streams: Vec<HostStream>,
    background: usize,
    quota: f64,
    at_a_time: Option<f64>,
) -> Vec<LeverPhase> {
    let mut running = streams.clone();
    for stream in &mut running[background..] {
        let threads = at_a_time.unwrap_or(f64::INFINITY);
        stream.threads = f64::from(stream.threads).min(threads) as u32;
    }
    let mut phases = vec![LeverPhase {
        part: quota,
        machine: machine.clone(),
        streams: running,
    }];
    if quota < 1.0 {
        phases.push(LeverPhase {
            part: 1.0 - quota,
            machine,
            streams: streams[..background].to_vec(),
        });
    }
    phases
}
