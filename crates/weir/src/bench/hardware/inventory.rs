// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir finds on the machine: nodes, counters, events.

use super::check::{HardwareCheck, HardwareFigure, HardwarePromise, Harm};
use super::site::{HardwareSite, no_cxl};
use serde_json::json;
use weir_core::Missing;
use weir_core::seam::topology::NodeCoverage;
use weir_events::tables_with_roles;
use weir_figures::Bound;

/// Nodes are classified by evidence.
pub struct NodesProven;

impl HardwareCheck for NodesProven {
    fn name(&self) -> &'static str {
        "nodes-proven"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "which nodes are CXL memory",
            words: "there is evidence of what each node without CPUs is",
            unit: "of such nodes",
            bound: Bound::AtLeast(1.0),
            page: "docs/how-to/inspect-the-topology.md",
            quote: "The first line that holds decides",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Reads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let nodes = &site.fabric.bus.nodes;
        if nodes.is_empty() {
            return Err(no_cxl());
        }
        let proven = nodes.iter().filter(|node| node.verdict.is_proven).count();
        let said: Vec<String> = nodes
            .iter()
            .map(|node| format!("node{}: {}", node.id, node.verdict.words()))
            .collect();
        Ok(HardwareFigure::new(
            proven as f64 / nodes.len() as f64,
            said.join("; "),
        ))
    }
}

pub struct DevicesCounted;

impl HardwareCheck for DevicesCounted {
    fn name(&self) -> &'static str {
        "devices-counted"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "counters, bandwidth, attribution",
            words: "each CXL memory device has counts of its traffic, by a driver or by perf",
            unit: "of the devices",
            bound: Bound::AtLeast(1.0),
            page: "docs/explanation/attribution.md",
            quote: "A device counts its bytes exactly, but not by workload",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Reads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let machine = &site.description;
        if machine.devices.is_empty() {
            return Err(no_cxl());
        }
        let facts = machine.facts.iter();
        let missing: Vec<String> = facts
            .filter(|fact| fact.name.starts_with("cxl.counters"))
            .filter_map(|fact| Some(format!("{}: {}", fact.name, fact.value.as_ref().err()?)))
            .chain(machine.partly_counted.iter().map(NodeCoverage::to_string))
            .collect();
        // Their absence is a want of the machine and no fault of weir's.
        if !missing.is_empty() {
            return Err(Missing::NotSupported(missing.join("; ")));
        }
        let has_group = |device: &&weir_core::seam::topology::Device| {
            machine.groups.iter().any(|g| g.id.device == device.id)
        };
        let counted = machine.devices.iter().filter(has_group).count();
        let names: Vec<&str> = machine.devices.iter().map(|d| d.name.as_str()).collect();
        Ok(HardwareFigure::new(
            counted as f64 / names.len() as f64,
            names.join(", "),
        ))
    }
}

/// The kernel takes the events of the tables.
pub struct EventsEncode;

impl HardwareCheck for EventsEncode {
    fn name(&self) -> &'static str {
        "events-encode"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "tables of events, encoding",
            words: "all events of this CPU's table fit the fields that the kernel's PMUs have",
            unit: "of the events",
            bound: Bound::AtLeast(1.0),
            page: "docs/how-to/inspect-the-topology.md",
            quote: "families, and the events of this machine",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Reads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let machine = &site.machine;
        if let Some(next_move) = machine.obstacle() {
            return Err(Missing::NotSupported(next_move.why));
        }
        let own = |table: &&weir_events::Table| !table.cpu.is_empty() && machine.has(table);
        let table = tables_with_roles().iter().find(own);
        let table = table.ok_or_else(|| match &machine.cpu {
            Ok(cpu) => Missing::NotSupported(format!("no table is of this CPU, {cpu}")),
            Err(why) => why.clone(),
        })?;
        let mut refused = Vec::new();
        for event in &table.event {
            let standing = machine.standing(table, event);
            if standing.here.is_empty() {
                let why: Vec<String> = standing.why.iter().map(ToString::to_string).collect();
                refused.push(json!({"event": event.name, "why": why}));
            }
        }
        let (all, bad) = (table.event.len(), refused.len());
        Ok(HardwareFigure {
            value: (all - bad) as f64 / all.max(1) as f64,
            detail: format!("{} of {all} events of {}", all - bad, table.family),
            data: Some(json!(refused)),
        })
    }
}

/// BPF programs read processes and CPU time.
pub struct BpfReads;

impl HardwareCheck for BpfReads {
    fn name(&self) -> &'static str {
        "bpf-reads"
    }

    fn promise(&self) -> HardwarePromise {
        HardwarePromise {
            feature: "cgroups, processes, BPF iterators",
            words: "processes and CPU time are read by BPF programs, all at once",
            unit: "of two programs",
            bound: Bound::AtLeast(2.0),
            page: "docs/evidence/loop.md",
            quote: "On a kernel with BPF weir reads them by a program, all at once",
        }
    }

    fn harm(&self) -> Harm {
        Harm::Reads
    }

    fn measure(&self, site: &mut HardwareSite) -> Result<HardwareFigure, Missing> {
        let facts = ["processes.source", "cpu_time.source"].map(|name| site.fact(name));
        let [processes, cpu] = [facts[0].clone()?, facts[1].clone()?];
        let count = [&processes, &cpu]
            .into_iter()
            .filter(|said| said.starts_with("a BPF "));
        let count = count.count();
        let detail = format!("{processes}; {cpu}");
        match count {
            // An old kernel, or a right that is lacking.
            0 => Err(Missing::NotSupported(detail)),
            _ => Ok(HardwareFigure::new(count as f64, detail)),
        }
    }
}
