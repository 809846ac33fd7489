// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CHA that has a line, and how far it is.

use crate::engine::clockwork::Clockwork;
use crate::engine::request::NO_CPU;
use crate::machine::Machine;
use crate::memory::pages::{interleaved, is_of_other_cluster, mixed};
use crate::words::Target;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    chas: u64,
    clusters: u64,
    cores: u64,
}

impl Route {
    pub fn new(machine: &Machine) -> Self {
        Route {
            chas: u64::from(machine.cha.count),
            clusters: u64::from(machine.cha.clusters),
            cores: u64::from(machine.cores.count),
        }
    }

    pub fn core(&self, cpu: u16) -> usize {
        usize::from(cpu) % self.cores as usize
    }

    fn cluster(&self, cpu: u16) -> u64 {
        match cpu {
            NO_CPU => 0,
            cpu => self.core(cpu) as u64 * self.clusters / self.cores,
        }
    }

    /// CHAs over which a line's neighbours are spread: the first one, and how many. A cluster's DRAM is in
    /// its own slices, all other memory in those of the socket.
    fn spread(&self, line: u64, work: &Clockwork) -> (u64, u64) {
        if self.clusters == 1 || work.pages.memory(line) != Target::Dram {
            return (0, self.chas);
        }
        let own = self.cluster(work.pages.cpu(line));
        let cluster = (own + u64::from(is_of_other_cluster(line))) % self.clusters;
        let parts = self.chas / self.clusters;
        (cluster * parts, parts)
    }

    /// Number of the CHA that has a line.
    pub fn cha(&self, line: u64, work: &Clockwork) -> usize {
        let (first, parts) = self.spread(line, work);
        (first + interleaved(line, 0, parts)) as usize
    }

    /// The line's number among those of its slice.
    pub fn in_slice(&self, line: u64, work: &Clockwork) -> u64 {
        let (_, parts) = self.spread(line, work);
        (line & 0xffff_ffff) / parts + (mixed(line >> 32) >> 40)
    }

    /// Whether the line's CHA is in another cluster than the CPU.
    pub fn is_far(&self, line: u64, cpu: u16, work: &Clockwork) -> bool {
        if self.clusters == 1 {
            return false;
        }
        let parts = self.chas / self.clusters;
        self.cha(line, work) as u64 / parts != self.cluster(cpu)
    }

    /// Time from a CPU's core to the line's CHA, and back.
    pub fn hop(&self, line: u64, cpu: u16, work: &Clockwork) -> u64 {
        let far = u64::from(self.is_far(line, cpu, work));
        work.timings.hop + far * work.timings.other_cluster
    }
}
