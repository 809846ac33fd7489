// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the recorder needs of perf: groups that can be opened, started, stopped and read. The kernel's, or
//! one that a test makes.

use crate::counters::pmu::{Counted, PerfScope, Set};
use std::io;
use weir_events::Config;

/// Events that are to count together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRequest<'a> {
    /// The `type` of the PMU.
    pub(crate) kind: u32,
    /// The events.
    pub(crate) configs: &'a [Config],
    /// Where.
    pub(crate) on: PerfScope<'a>,
}

/// Opens groups.
pub(crate) trait Perf {
    /// Opens one that does not count yet.
    ///
    /// # Errors
    /// What the kernel says.
    fn open(&self, request: &GroupRequest<'_>) -> io::Result<Box<dyn PerfGroup>>;
}

/// An open group.
pub(crate) trait PerfGroup {
    /// Starts it or stops it.
    ///
    /// # Errors
    /// What the kernel says.
    fn switch(&mut self, on: bool) -> io::Result<()>;

    /// What it has counted so far.
    ///
    /// # Errors
    /// What the kernel says.
    fn read(&mut self) -> io::Result<Counted>;
}

/// The kernel's perf.
pub(super) struct KernelPerf;

impl Perf for KernelPerf {
    fn open(&self, request: &GroupRequest<'_>) -> io::Result<Box<dyn PerfGroup>> {
        let set = Set::open_idle(request.kind, request.configs, request.on)?;
        Ok(Box::new(set))
    }
}

impl PerfGroup for Set {
    fn switch(&mut self, on: bool) -> io::Result<()> {
        Set::switch(self, on)
    }

    fn read(&mut self) -> io::Result<Counted> {
        Set::read(self)
    }
}
