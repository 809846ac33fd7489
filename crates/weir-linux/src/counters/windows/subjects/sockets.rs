// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket of each CPU, read once: what is counted on a CPU belongs to its socket.

use crate::inventory::cpu_topology::socket;
use crate::inventory::numa::online;
use crate::options::Roots;
use std::collections::{BTreeMap, BTreeSet};

/// The socket of each CPU that is online.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct CpuSockets(BTreeMap<u32, u32>);

impl CpuSockets {
    pub(in super::super) fn new(roots: &Roots) -> CpuSockets {
        let cpus = online(roots).unwrap_or_default().into_iter();
        let known = cpus.filter_map(|cpu| Some((cpu, socket(roots, cpu)?)));
        CpuSockets(known.collect())
    }

    /// The socket of a CPU; 0 where the kernel does not say.
    pub(in super::super) fn of(&self, cpu: u32) -> u32 {
        self.0.get(&cpu).copied().unwrap_or(0)
    }

    /// All of them, where there are several; none where there is one.
    pub(in super::super) fn several(&self) -> BTreeSet<u32> {
        let sockets: BTreeSet<u32> = self.0.values().copied().collect();
        match sockets.len() {
            0 | 1 => BTreeSet::new(),
            _ => sockets,
        }
    }
}
