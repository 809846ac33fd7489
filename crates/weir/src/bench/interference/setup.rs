// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all pairs have in common, and how their streams are made from it.

use super::cells::PairSamples;
use super::measurement::SideRig;
use super::names::StreamOperation;
use super::plan::{PairPlan, PlannedStream, TimePlan};
use super::program::ProgramSpec;
use super::site::BenchSite;
use anyhow::{Context, Result};
use regex_lite::Regex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use weir_bench::kernels::Operation;
use weir_bench::storage::{Engine, IoTarget, StorageOperation, StoragePlan, StorageStream};
use weir_bench::streams::{MemoryPlan, MemoryStream};
use weir_report::interference::document::InterferenceStream;

const NO_PROBE: &str = "no CPU is left for the thread that measures latency";

/// What all pairs have in common.
pub struct BenchSetup<'a> {
    pub site: &'a BenchSite,
    /// Bytes of one access, where that is said.
    pub width_bytes: Option<u32>,
    /// What plays the SSD.
    pub disk: Option<Arc<IoTarget>>,
    /// Bytes of one I/O.
    pub block_bytes: u64,
    /// I/Os in flight for each thread.
    pub depth: u32,
    /// How I/Os reach the kernel.
    pub engine: Engine,
    pub io_node: u32,
    /// Where the figure of a program stands.
    pub figure: Option<Regex>,
    /// Cgroups of the programs, by side.
    pub cgroups: [Option<PathBuf>; 2],
    pub time: TimePlan,
    /// Whether a host may move the CPUs.
    pub is_virtual: bool,
    /// Seed of orders and places.
    pub seed: u64,
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl BenchSetup<'_> {
    /// A pair before its first repetition.
    ///
    /// # Errors
    /// The CPU lacks an instruction.
    pub fn samples(&self, plan: &PairPlan) -> Result<PairSamples> {
        Ok(PairSamples {
            streams: [self.described(plan, 0)?, self.described(plan, 1)?],
            plan: plan.clone(),
            repetitions: Vec::new(),
            placements: Vec::new(),
            missing: [self.missing(plan, 0), self.missing(plan, 1)],
        })
    }

    /// The node on which latency is measured for a side: it has a stream of memory, that is no chase itself.
    pub fn probed_node(&self, plan: &PairPlan, side: usize) -> Option<u32> {
        let PlannedStream::Ours { name, .. } = &plan.sides[side] else {
            return None;
        };
        let is_chase = name.operation == StreamOperation::Memory(Operation::LdChase);
        self.site.node(name.target).filter(|_| !is_chase)
    }

    /// Why figures of a side are not known.
    fn missing(&self, plan: &PairPlan, side: usize) -> BTreeMap<String, String> {
        let mut missing = BTreeMap::new();
        if self.probed_node(plan, side).is_some() && self.site.cpus.probe.is_none() {
            missing.insert("latency_ns".to_owned(), NO_PROBE.to_owned());
        }
        missing
    }

    /// A stream of memory accesses.
    ///
    /// # Errors
    /// The CPU lacks the instruction, or there is no memory.
    pub fn memory(
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

    /// A side of a pair.
    ///
    /// # Errors
    /// The CPU cannot do it, or there is no memory or no storage for it.
    pub fn side(&self, plan: &PairPlan, side: usize) -> Result<SideRig> {
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
