// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the devices move, and nothing else: for programs that measure a device and want no workloads.

use super::Counters;
use crate::error::LinuxError;
use crate::inventory::numa::Topology;
use crate::options::{CounterSource, Roots};
use weir_core::seam::observation::GroupReading;
use weir_core::seam::topology::{Device, Group};

pub struct Traffic {
    counters: Counters,
    space: Vec<u8>,
}

impl Traffic {
    /// Finds devices. `named` are nodes of CXL memory by `--device`; empty leaves it to the evidence.
    ///
    /// # Errors
    /// [`LinuxError::NoCxl`].
    pub fn open(
        roots: &Roots,
        source: CounterSource,
        named: &[u32],
    ) -> Result<Traffic, LinuxError> {
        let topology = Topology::probe(roots, named);
        let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
        let counters = Counters::probe_from(roots, nodes, None, source);
        if counters.devices.is_empty() {
            return Err(LinuxError::no_cxl(roots, &topology));
        }
        Ok(Traffic {
            counters,
            space: Vec::new(),
        })
    }

    pub fn devices(&self) -> &[Device] {
        &self.counters.devices
    }

    pub fn groups(&self) -> &[Group] {
        &self.counters.groups
    }

    pub fn is_counted(&self) -> bool {
        self.counters.are_counted()
    }

    /// What each group has moved so far, in the order of the groups.
    pub fn read(&mut self) -> Vec<GroupReading> {
        self.counters.read(&mut self.space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn counters_are_read_without_workloads() {
        let fake = Fake::new();
        fake.remove("proc");
        let mut traffic = Traffic::open(&fake.roots(), CounterSource::Driver, &[]).unwrap();
        assert!(traffic.is_counted());
        let seen = traffic.read();
        let seen: Vec<_> = seen.iter().map(|g| g.read_bytes.ok().unwrap().0).collect();
        assert_eq!((traffic.devices().len(), &seen[..]), (1, &[1000][..]));
    }
}
