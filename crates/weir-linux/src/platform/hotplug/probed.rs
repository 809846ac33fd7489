// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine, as it is found at the start and each time that names have changed.

use crate::backends;
use crate::backends::sched_ext::Scx;
use crate::counters::Counters;
use crate::counters::link_bound::Bounds;
use crate::inventory::numa::Topology;
use crate::options::Options;
use crate::platform::description::description;
use weir_core::Description;
use weir_core::seam::topology::Device;

pub(crate) struct ProbedMachine {
    pub(crate) topology: Topology,
    pub(crate) counters: Counters,
    pub(crate) bounds: Bounds,
    /// The description with the facts of all this alone.
    pub(crate) description: Description,
    /// Events that count for each task can be had, and could not at the start.
    pub(crate) can_count: bool,
}

impl ProbedMachine {
    /// Probes all of it. Devices that were there `before` keep their numbers.
    pub(crate) fn probe(options: &Options, before: &[Device]) -> ProbedMachine {
        let roots = &options.roots;
        let topology = Topology::probe(roots, &options.nodes);
        let nodes = topology.memory_nodes.as_deref().unwrap_or_default();
        let capacity = options.capacity_bytes_per_sec;
        let counters = Counters::probe_after(roots, nodes, capacity, options.counters, before);
        let mut description = description(options, &topology, &counters);
        let bounds = Bounds::of(roots, &counters.devices, &mut description.facts);
        ProbedMachine {
            topology,
            counters,
            bounds,
            description,
            can_count: false,
        }
    }

    /// Limits are set by that scheduler, where there is one.
    pub(crate) fn limited_by(&mut self, scx: Option<&Scx>) {
        if let Some(scx) = scx {
            self.description.actuator = Some(scx.describe());
            backends::facts::scheduler_in_use(&mut self.description, scx.takes_all());
        }
    }
}
