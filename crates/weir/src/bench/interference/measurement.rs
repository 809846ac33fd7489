// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measurements of a pair: its streams are made once, and run alone and together as the plan says.

use super::cells::{PairSamples, RepetitionSample};
use super::names::{StreamOperation, StreamTarget};
use super::plan::{PairPlan, PairTask, PlannedStream, TimePlan, WARM_SECONDS};
use super::program::{ProgramSpec, RunningProgram, figure};
use super::site::BenchSite;
use anyhow::{Context, Result};
use regex::Regex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_bench::kernels::Operation;
use weir_bench::storage::{Engine, IoTarget, StorageOperation, StoragePlan, StorageStream};
use weir_bench::streams::{
    MemoryPlan, MemoryStream, Part, Stream, StreamCount, measure, measure_while,
};
use weir_report::interference::document::{InterferenceStream, StreamFigures};

/// What a background program has to begin its work.
const PROGRAM_WARM: Duration = Duration::from_secs(1);
/// Repetitions that a pair has even if there is no time left.
const REPEATS_MIN: u32 = 2;
const NO_PROBE: &str = "no CPU is left for the thread that measures latency";

/// What all pairs have in common.
pub struct BenchSetup<'a> {
    /// The place.
    pub site: &'a BenchSite,
    /// Bytes of one access, where that is said.
    pub width_bytes: Option<u32>,
    /// What plays the SSD.
    pub disk: Option<Arc<IoTarget>>,
    /// Bytes of one I/O.
    pub block_bytes: u64,
    /// I/Os in flight for each thread.
    pub depth: u32,
    /// How they reach the kernel.
    pub engine: Engine,
    /// The node of the I/O buffers.
    pub io_node: u32,
    /// Where the figure of a program stands.
    pub figure: Option<Regex>,
    /// Cgroups of the programs, by side.
    pub cgroups: [Option<PathBuf>; 2],
    /// How long.
    pub time: TimePlan,
    /// Of orders and places.
    pub seed: u64,
    /// Whether a signal came.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// One side.
enum SideRig {
    Ours(Box<dyn Stream>),
    Victim(ProgramSpec),
    Background(ProgramSpec),
}

/// How a pair ended.
pub struct PairEnd {
    /// What was measured.
    pub samples: PairSamples,
    /// What is to be said of it.
    pub caveats: Vec<String>,
    /// A signal came.
    pub was_stopped: bool,
}

/// The streams of a pair.
pub struct PairRig<'a> {
    setup: &'a BenchSetup<'a>,
    plan: PairPlan,
    sides: [SideRig; 2],
    /// Rings on the nodes of the sides, on the CPU that measures latency.
    probes: Vec<(u32, MemoryStream)>,
}

impl<'a> PairRig<'a> {
    /// Makes them.
    ///
    /// # Errors
    /// The CPU cannot do it, or there is no memory or no storage for it.
    pub fn prepare(setup: &'a BenchSetup<'a>, plan: &PairPlan) -> Result<PairRig<'a>> {
        let sides = [setup.side(plan, 0)?, setup.side(plan, 1)?];
        let mut rig = PairRig {
            setup,
            sides,
            probes: Vec::new(),
            plan: plan.clone(),
        };
        for node in [rig.probed_node(0), rig.probed_node(1)]
            .into_iter()
            .flatten()
        {
            let Some(cpu) = setup.site.cpus.probe else {
                break;
            };
            if !rig.probes.iter().any(|(known, _)| *known == node) {
                let ring = setup.memory(Operation::LdChase, &[cpu], node, setup.site.ring_bytes)?;
                rig.probes.push((node, ring));
            }
        }
        Ok(rig)
    }

    /// The node on which latency is measured for a side: it has a stream of memory, that is no chase itself.
    fn probed_node(&self, side: usize) -> Option<u32> {
        let PlannedStream::Ours { name, .. } = &self.plan.sides[side] else {
            return None;
        };
        let is_chase = name.operation == StreamOperation::Memory(Operation::LdChase);
        self.setup.site.node(name.target).filter(|_| !is_chase)
    }

    /// All measurements, until enough is known. `after` is called after each repetition.
    ///
    /// # Errors
    /// A stream failed.
    pub fn run(
        mut self,
        place: usize,
        end: Option<Instant>,
        after: &mut dyn FnMut(&PairSamples),
    ) -> Result<PairEnd> {
        let mut samples = PairSamples {
            streams: [
                self.setup.described(&self.plan, 0)?,
                self.setup.described(&self.plan, 1)?,
            ],
            plan: self.plan.clone(),
            repetitions: Vec::new(),
            missing: [self.missing(0), self.missing(1)],
        };
        let mut was_stopped = false;
        for repetition in 0..self.setup.time.repeats {
            let is_late = repetition >= REPEATS_MIN && end.is_some_and(|end| Instant::now() >= end);
            if is_late || samples.is_enough() {
                break;
            }
            match self.repetition(place, repetition)? {
                Some(sample) => samples.repetitions.push(sample),
                None => {
                    was_stopped = true;
                    break;
                }
            }
            after(&samples);
        }
        let caveats = self.moved();
        Ok(PairEnd {
            samples,
            caveats,
            was_stopped,
        })
    }

    /// Nothing if it was stopped.
    fn repetition(&mut self, place: usize, repetition: u32) -> Result<Option<RepetitionSample>> {
        let mut sample = RepetitionSample::new();
        for task in self.plan.order(self.setup.seed, place, repetition) {
            match self.measure(task, repetition)? {
                Some(figures) => drop(sample.insert(task, figures)),
                None => return Ok(None),
            }
        }
        Ok(Some(sample))
    }

    /// One measurement: figures of the sides that ran. Nothing if it was stopped.
    fn measure(&mut self, task: PairTask, repetition: u32) -> Result<Option<[StreamFigures; 2]>> {
        let cpus = match task {
            PairTask::Alone(0) => [self.plan.full[0], 0],
            PairTask::Alone(_) => [0, self.plan.full[1]],
            PairTask::Together(cpus) => cpus,
        };
        let probed = self.probed_side(task, repetition);
        let probed_node = probed.and_then(|side| self.probed_node(side));
        let nodes = [self.probed_node(0), self.probed_node(1)];
        let background = self.start_background(cpus)?;
        let (mut parts, mut owners, mut victim) = (Vec::new(), Vec::new(), None);
        for (side, rig) in self
            .sides
            .iter_mut()
            .enumerate()
            .filter(|(side, _)| cpus[*side] > 0)
        {
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
            .find(|(node, _)| Some(*node) == probed_node);
        let has_probe = probe.is_some();
        parts.extend(probe.map(|(_, stream)| Part { stream, cpus: 1 }));
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
        Ok(Some(figures))
    }

    /// The side whose node is probed: of two in turn, where their nodes differ.
    fn probed_side(&self, task: PairTask, repetition: u32) -> Option<usize> {
        let sides: Vec<usize> = match task {
            PairTask::Alone(side) => vec![side],
            PairTask::Together(_) => vec![0, 1],
        };
        let with: Vec<usize> = sides
            .into_iter()
            .filter(|side| self.probed_node(*side).is_some())
            .collect();
        with.get(usize::try_from(repetition).unwrap_or(0) % with.len().max(1))
            .copied()
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

    /// Why figures of a side are not known.
    fn missing(&self, side: usize) -> BTreeMap<String, String> {
        let mut missing = BTreeMap::new();
        if self.probed_node(side).is_some() && self.setup.site.cpus.probe.is_none() {
            missing.insert("latency_ns".to_owned(), NO_PROBE.to_owned());
        }
        missing
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

impl BenchSetup<'_> {
    fn memory(
        &self,
        operation: Operation,
        cpus: &[u32],
        node: u32,
        bytes: u64,
    ) -> Result<MemoryStream> {
        Ok(MemoryStream::prepare(MemoryPlan {
            kernel: operation.kernel(self.width_bytes)?,
            cpus: cpus.to_vec(),
            node,
            other_node: self.site.mmem,
            thread_bytes: usize::try_from(bytes)?,
            seed: self.seed,
        })?)
    }

    fn side(&self, plan: &PairPlan, side: usize) -> Result<SideRig> {
        let threads = usize::try_from(plan.full[side])?;
        let cpus = self.site.cpus.sides[side]
            .iter()
            .copied()
            .take(threads)
            .collect::<Vec<u32>>();
        let program = |command: &String| ProgramSpec {
            command: command.clone(),
            cpus: cpus.clone(),
            node: self.site.mmem,
            cgroup: self.cgroups[side].clone(),
        };
        let (name, direct) = match &plan.sides[side] {
            PlannedStream::VictimProgram(command) => return Ok(SideRig::Victim(program(command))),
            PlannedStream::BackgroundProgram(command) => {
                return Ok(SideRig::Background(program(command)));
            }
            PlannedStream::Ours { name, direct } => (name, *direct),
        };
        Ok(SideRig::Ours(match name.operation {
            StreamOperation::Memory(operation) => {
                let node = self
                    .site
                    .node(name.target)
                    .context("there is no node for it")?;
                Box::new(self.memory(operation, &cpus, node, self.site.thread_bytes)?)
            }
            StreamOperation::Storage(operation) => Box::new(self.storage(operation, cpus, direct)?),
        }))
    }

    /// A stream of storage.
    ///
    /// # Errors
    /// There is no disk, or it refuses.
    pub fn storage(
        &self,
        operation: StorageOperation,
        cpus: Vec<u32>,
        direct: bool,
    ) -> Result<StorageStream> {
        let disk = self.disk.as_ref().context("there is no SSD for it")?;
        Ok(StorageStream::prepare(
            disk,
            StoragePlan {
                operation,
                block_bytes: self.block_bytes,
                depth: self.depth,
                direct,
                engine: self.engine,
                cpus,
                node: self.io_node,
                seed: self.seed,
            },
        )?)
    }

    /// A side as documents describe it.
    fn described(&self, plan: &PairPlan, side: usize) -> Result<InterferenceStream> {
        let threads = plan.full[side];
        let none = |target: &str, op: String| InterferenceStream {
            target: target.into(),
            op,
            threads,
            width_bytes: None,
            block_bytes: None,
            depth: None,
            direct: None,
        };
        let (name, direct) = match &plan.sides[side] {
            PlannedStream::VictimProgram(command) | PlannedStream::BackgroundProgram(command) => {
                return Ok(none("program", command.clone()));
            }
            PlannedStream::Ours { name, direct } => (name, *direct),
        };
        let described = none(name.target.name(), name.operation.name().to_owned());
        Ok(match name.operation {
            StreamOperation::Memory(operation) => InterferenceStream {
                width_bytes: Some(operation.kernel(self.width_bytes)?.width_bytes),
                ..described
            },
            StreamOperation::Storage(_) => InterferenceStream {
                block_bytes: Some(self.block_bytes),
                depth: Some(self.depth),
                direct: Some(direct),
                ..described
            },
        })
    }
}
