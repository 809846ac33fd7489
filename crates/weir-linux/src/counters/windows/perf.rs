// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the recorder needs of perf: groups that can be opened, started, stopped and read. The kernel's, or
//! one that a test makes.

use super::by_cgroup::counter::{CgroupCounter, CgroupCounterBpf};
use crate::counters::pmu::{Counted, PerfScope, Set};
use crate::options::Roots;
use std::io;
use std::os::fd::RawFd;
use weir_core::Missing;
use weir_events::Config;

#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRequest<'a> {
    /// The `type` of the PMU.
    pub(crate) kind: u32,
    pub(crate) configs: &'a [Config],
    pub(crate) on: PerfScope<'a>,
}

pub(crate) trait Perf {
    /// Opens one that does not count yet.
    ///
    /// # Errors
    /// What the kernel says.
    fn open(&self, request: &GroupRequest<'_>) -> io::Result<Box<dyn PerfGroup>>;

    /// What adds up by cgroup, where there is such a thing.
    ///
    /// # Errors
    /// There is none here.
    fn cgroup_counter(&self, roots: &Roots) -> Result<Box<dyn CgroupCounter>, Missing>;
}

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

    /// File descriptors of the events, in the order of the events.
    fn descriptors(&self) -> Vec<RawFd>;
}

pub(super) struct KernelPerf;

impl Perf for KernelPerf {
    fn open(&self, request: &GroupRequest<'_>) -> io::Result<Box<dyn PerfGroup>> {
        let set = Set::open_idle(request.kind, request.configs, request.on)?;
        Ok(Box::new(set))
    }

    fn cgroup_counter(&self, roots: &Roots) -> Result<Box<dyn CgroupCounter>, Missing> {
        Ok(Box::new(CgroupCounterBpf::load(roots)?))
    }
}

impl PerfGroup for Set {
    fn switch(&mut self, on: bool) -> io::Result<()> {
        Set::switch(self, on)
    }

    fn read(&mut self) -> io::Result<Counted> {
        Set::read(self)
    }

    fn descriptors(&self) -> Vec<RawFd> {
        Set::descriptors(self).collect()
    }
}
