// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One repetition of a pair: its streams are made, run alone and together as the plan says, and ended.

use super::cells::RepetitionSample;
use super::names::StreamTarget;
use super::plan::{PairPlan, PairTask, WARM_SECONDS};
use super::program::{ProgramSpec, RunningProgram, figure};
use super::setup::BenchSetup;
use super::site::placement::steady;
use anyhow::Result;
use std::time::{Duration, Instant};
use weir_bench::kernels::Operation;
use weir_bench::round_trip::round_trip_ns;
use weir_bench::streams::{MemoryStream, Part, Stream, StreamCount, measure, measure_while};
use weir_report::interference::document::StreamFigures;

/// What a background program has to begin its work.
const PROGRAM_WARM: Duration = Duration::from_secs(1);
/// A measurement in which our threads had their CPUs for less than this part of the time is made again.
pub const RUN_RATIO_MIN: f64 = 0.97;
/// Tries of a measurement at most; the last one counts, whatever it had. Others can have the CPUs for as long
/// as a run lasts: in 12 % of the measurements of quick runs they still had more than 3 % of a CPU after
/// three tries (docs/evidence/interference-bench.md).
const TRIES_MAX: usize = 3;
/// CPUs to which round trips are measured, from the first.
const ROUND_TRIPS_MAX: usize = 8;

pub enum SideRig {
    Ours(Box<dyn Stream>),
    /// A command that is judged.
    Victim(ProgramSpec),
    /// A command that is not.
    Background(ProgramSpec),
}

pub struct Repetition {
    pub figures: RepetitionSample,
    /// How far the CPUs were from each other, in a virtual machine.
    pub round_trip_ns: Option<f64>,
}

pub struct RepetitionEnd {
    /// Nothing if the host moved the CPUs meanwhile.
    pub repetition: Option<Repetition>,
    /// The part of the time that our threads had their CPUs, of each measurement.
    pub run_ratios: Vec<f64>,
    /// Streams with memory that is not where it was put.
    pub moved: Vec<String>,
}

/// A ring on a node, on the CPU that measures latency. It is kept: making one takes longer than a repetition.
pub struct ProbeRing {
    node: u32,
    stream: MemoryStream,
}

pub struct PairRig<'a> {
    setup: &'a BenchSetup<'a>,
    plan: &'a PairPlan,
    sides: [SideRig; 2],
    probes: &'a mut Vec<ProbeRing>,
}

struct Measured {
    figures: [StreamFigures; 2],
    /// The least of the streams.
    run_ratio: Option<f64>,
}

impl<'a> PairRig<'a> {
    /// Makes them. Rings that are missing are added.
    ///
    /// # Errors
    /// The CPU cannot do it, or there is no memory or no storage for it.
    pub fn prepare(
        setup: &'a BenchSetup<'a>,
        plan: &'a PairPlan,
        probes: &'a mut Vec<ProbeRing>,
    ) -> Result<PairRig<'a>> {
        let sides = [setup.side(plan, 0)?, setup.side(plan, 1)?];
        let rig = PairRig {
            setup,
            sides,
            probes,
            plan,
        };
        let Some(cpu) = setup.site.cpus.probe else {
            return Ok(rig);
        };
        for node in [setup.probed_node(plan, 0), setup.probed_node(plan, 1)]
            .into_iter()
            .flatten()
        {
            if !rig.probes.iter().any(|known| known.node == node) {
                let stream =
                    setup.memory(Operation::LdChase, &[cpu], node, setup.site.ring_bytes)?;
                rig.probes.push(ProbeRing { node, stream });
            }
        }
        Ok(rig)
    }

    /// All measurements of a repetition, in its order. Nothing if it was stopped.
    ///
    /// # Errors
    /// A stream failed.
    pub fn repetition(mut self, place: usize, repetition: u32) -> Result<Option<RepetitionEnd>> {
        let mut figures = RepetitionSample::new();
        let (mut run_ratios, mut trips) = (Vec::new(), vec![self.round_trip()?]);
        for task in self.plan.order(self.setup.seed, place, repetition) {
            let Some(found) = self.undisturbed(task, repetition)? else {
                return Ok(None);
            };
            figures.insert(task, found.figures);
            run_ratios.extend(found.run_ratio);
            trips.push(self.round_trip()?);
        }
        let trips: Option<Vec<f64>> = trips.into_iter().collect();
        let round_trip_ns = trips.as_deref().and_then(steady);
        let is_steady = round_trip_ns.is_some() || !self.setup.is_virtual;
        let repetition = is_steady.then_some(Repetition {
            figures,
            round_trip_ns,
        });
        Ok(Some(RepetitionEnd {
            repetition,
            run_ratios,
            moved: self.moved(),
        }))
    }

    /// Mean time of a line from the first CPU to the others and back, in a virtual machine. Nothing if one of
    /// them is taken up by something else.
    fn round_trip(&self) -> Result<Option<f64>> {
        let cpus = self.setup.site.all_cpus();
        let (Some((first, others)), true) = (cpus.split_first(), self.setup.is_virtual) else {
            return Ok(None);
        };
        let others = others.iter().take(ROUND_TRIPS_MAX);
        let trips = others.map(|other| round_trip_ns(*first, *other));
        let trips: Option<Vec<f64>> = trips.collect::<Result<_, _>>()?;
        Ok(trips.map(|all| {
            let logs: f64 = all.iter().map(|ns| ns.ln()).sum();
            (logs / all.len().max(1) as f64).exp()
        }))
    }

    /// A measurement, made again where others took our CPUs.
    fn undisturbed(&mut self, task: PairTask, repetition: u32) -> Result<Option<Measured>> {
        let has_program = self
            .sides
            .iter()
            .any(|side| !matches!(side, SideRig::Ours(_)));
        let mut tries = if has_program { TRIES_MAX } else { 1 };
        loop {
            let found = self.measure(task, repetition)?;
            let ratio = found.as_ref().and_then(|found| found.run_ratio);
            if tries >= TRIES_MAX || ratio.is_none_or(|ratio| ratio >= RUN_RATIO_MIN) {
                return Ok(found);
            }
            tries += 1;
        }
    }

    /// One measurement: figures of the sides that ran. Nothing if it was stopped.
    fn measure(&mut self, task: PairTask, repetition: u32) -> Result<Option<Measured>> {
        let cpus = match task {
            PairTask::Alone(0) => [self.plan.full[0], 0],
            PairTask::Alone(_) => [0, self.plan.full[1]],
            PairTask::Together(cpus) => cpus,
        };
        let nodes = [0, 1].map(|side| self.setup.probed_node(self.plan, side));
        let probed = self.probed_side(task, repetition, nodes);
        let probed_node = probed.and_then(|side| nodes[side]);
        let background = self.start_background(cpus)?;
        let (mut parts, mut owners, mut victim) = (Vec::new(), Vec::new(), None);
        let sides = self.sides.iter_mut().enumerate();
        for (side, rig) in sides.filter(|(side, _)| cpus[*side] > 0) {
            match rig {
                SideRig::Ours(stream) => {
                    let cpus = usize::try_from(cpus[side])?;
                    parts.push(Part {
                        stream: &mut **stream,
                        cpus,
                    });
                    owners.push(side);
                }
                SideRig::Victim(spec) => victim = Some((side, spec.clone())),
                SideRig::Background(_) => {}
            }
        }
        let probe = self
            .probes
            .iter_mut()
            .find(|ring| Some(ring.node) == probed_node);
        let has_probe = probe.is_some();
        parts.extend(probe.map(|ring| Part {
            stream: &mut ring.stream,
            cpus: 1,
        }));
        let Some((output, counts)) =
            run_parts(self.setup, &mut parts, victim.as_ref().map(|(_, s)| s))?
        else {
            return Ok(None);
        };
        if let Some(mut program) = background {
            program.check()?;
        }
        let mut figures = [StreamFigures::default(); 2];
        for (side, count) in owners.iter().zip(&counts) {
            figures[*side] = of_count(count, self.is_storage(*side));
        }
        if let (Some((side, _)), Some(output), Some(expression)) =
            (&victim, output, &self.setup.figure)
        {
            figures[*side].ops_per_sec = Some(figure(&output, expression)?);
        }
        let latency_ns = counts
            .last()
            .filter(|_| has_probe)
            .and_then(|count| count.latency_ns);
        for side in [0, 1]
            .into_iter()
            .filter(|side| cpus[*side] > 0 && nodes[*side].is_some())
        {
            // What was measured on the node of another is not its latency.
            figures[side].latency_ns = latency_ns.filter(|_| nodes[side] == probed_node);
        }
        let run_ratio = counts
            .iter()
            .filter_map(|count| count.run_ratio)
            .reduce(f64::min);
        Ok(Some(Measured { figures, run_ratio }))
    }

    /// The side whose node is probed: of two in turn, where their nodes differ.
    fn probed_side(
        &self,
        task: PairTask,
        repetition: u32,
        nodes: [Option<u32>; 2],
    ) -> Option<usize> {
        let sides: &[usize] = match task {
            PairTask::Alone(0) => &[0],
            PairTask::Alone(_) => &[1],
            PairTask::Together(_) => &[0, 1],
        };
        let with: Vec<usize> = sides
            .iter()
            .copied()
            .filter(|side| nodes[*side].is_some())
            .collect();
        let turn = usize::try_from(repetition).unwrap_or(0) % with.len().max(1);
        with.get(turn).copied()
    }

    fn is_storage(&self, side: usize) -> bool {
        self.plan.sides[side].target() == Some(StreamTarget::Ssd)
    }

    /// Starts the background program, where one takes part.
    fn start_background(&self, cpus: [u32; 2]) -> Result<Option<RunningProgram>> {
        let both = self.sides.iter().zip(cpus).filter(|(_, cpus)| *cpus > 0);
        let mut specs = both.filter_map(|(rig, _)| match rig {
            SideRig::Background(spec) => Some(spec),
            _ => None,
        });
        let Some(spec) = specs.next_back() else {
            return Ok(None);
        };
        let program = spec.start()?;
        let begun = Instant::now();
        while begun.elapsed() < PROGRAM_WARM && !(self.setup.is_stopped)() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(program))
    }

    /// Streams with memory that is not where it was put.
    fn moved(&self) -> Vec<String> {
        let ours = self
            .sides
            .iter()
            .zip(&self.plan.sides)
            .filter_map(|(rig, stream)| match rig {
                SideRig::Ours(rig) => Some((stream, rig)),
                _ => None,
            });
        ours.filter_map(|(stream, rig)| {
            let why = rig.check().err()?;
            Some(format!("{}: {why}", stream.label()))
        })
        .collect()
    }
}

/// Runs what takes part, as long as the plan says or as a program lasts: its output, and what was counted.
fn run_parts(
    setup: &BenchSetup<'_>,
    parts: &mut [Part<'_>],
    victim: Option<&ProgramSpec>,
) -> Result<Option<(Option<String>, Vec<StreamCount>)>> {
    let warm = Duration::from_secs_f64(WARM_SECONDS);
    let Some(spec) = victim else {
        let span = Duration::from_secs_f64(setup.time.seconds);
        let counts = measure(parts, warm, span, setup.is_stopped)?;
        return Ok(counts.map(|counts| (None, counts)));
    };
    let found = measure_while(parts, warm, setup.is_stopped, |is_over| {
        spec.start()?.wait(is_over)
    })?;
    let Some((output, counts)) = found else {
        return Ok(None);
    };
    Ok(output?.map(|output| (Some(output), counts)))
}

fn of_count(count: &StreamCount, is_storage: bool) -> StreamFigures {
    let rate = |amount: u64| amount as f64 * 1e9 / count.span_ns as f64;
    StreamFigures {
        bytes_per_sec: Some(rate(count.bytes)),
        latency_ns: count.latency_ns,
        ops_per_sec: is_storage.then(|| rate(count.count)),
        cpu_ns_per_op: count
            .cpu_ns
            .filter(|_| count.count > 0)
            .map(|ns| ns as f64 / count.count as f64),
        latency_p99_ns: count.latency_p99_ns,
    }
}
