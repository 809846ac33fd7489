// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that is measured, what was found of it once for all checks, and how long they may take.

use super::known_lines::CountedLines;
use crate::run::probe;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_core::{Description, Missing};
use weir_linux::pmu::Machine;
use weir_linux::{CountedFabric, Options, Roots};

pub struct HardwareSite {
    /// Roots and nodes, to observe only.
    pub options: Options,
    /// What `weir doctor` finds.
    pub description: Description,
    /// What `weir topology` finds.
    pub fabric: CountedFabric,
    pub machine: Machine,
    /// Above 0 once a signal has come.
    pub stop: Arc<AtomicUsize>,
    /// What sources counted of known lines: two checks need it.
    pub(super) counted: Option<Result<CountedLines, Missing>>,
    until: Instant,
}

impl HardwareSite {
    /// Finds what there is. Changes nothing.
    pub fn new(roots: &Roots, nodes: Vec<u32>, may_take: Duration, stop: Arc<AtomicUsize>) -> Self {
        let options = Options {
            roots: roots.clone(),
            nodes,
            reads: Some(probe::reads),
            read_only: true,
            ..Options::default()
        };
        HardwareSite {
            description: weir_linux::describe(&options),
            fabric: CountedFabric::read(roots, &options.nodes),
            machine: Machine::probe(roots),
            options,
            stop,
            counted: None,
            until: Instant::now() + may_take,
        }
    }

    /// Why no further check begins, if so.
    pub fn end(&self) -> Option<Missing> {
        if self.stop.load(Ordering::Relaxed) != 0 {
            return Some(Missing::Lost("it was interrupted".into()));
        }
        let why = "the time was over: give it more --max-duration";
        self.left().is_zero().then(|| Missing::Lost(why.into()))
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The answer of a fact of `weir doctor`.
    ///
    /// # Errors
    /// Its reason, or that there is no such fact.
    pub fn fact(&self, name: &str) -> Result<String, Missing> {
        let found = self.description.facts.iter().find(|f| f.name == name);
        found.map_or_else(
            || Err(Missing::NotSupported(format!("there is no fact {name}"))),
            |fact| fact.value.clone(),
        )
    }

    /// The first node of CXL memory that is online.
    ///
    /// # Errors
    /// There is none.
    pub fn node(&self) -> Result<u32, Missing> {
        let node = self.fabric.bus.cxl_nodes().next().map(|node| node.id);
        node.ok_or_else(no_cxl)
    }
}

/// There is nothing to measure.
pub fn no_cxl() -> Missing {
    Missing::NotSupported("this machine has no CXL memory that is online as a node".into())
}
