// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir topology`: from NUMA nodes to CXL devices, ports and counters, as a tree. It probes nothing
//! itself, and guesses nothing: what is not known says why.

use crate::cli::TopologyArgs;
use crate::exit::{Exit, print, print_json};
use crate::text::harmless;
use anyhow::Result;
use std::fmt::Display;
use weir_core::Bytes;
use weir_linux::Roots;
use weir_linux::cxl::{Fabric, Known, Memory, Node, Region, Window};

/// Shows it.
///
/// # Errors
/// Stdout cannot be written.
pub fn topology(args: &TopologyArgs, roots: &Roots) -> Result<Exit> {
    let fabric = Fabric::read(roots);
    if args.json {
        print_json(&fabric)?;
    } else {
        print(&page(&fabric))?;
    }
    Ok(Exit::Done)
}

/// A line and what hangs below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

impl Branch {
    fn new(line: impl Into<String>) -> Branch {
        Branch {
            line: line.into(),
            below: Vec::new(),
        }
    }

    fn draw(&self, out: &mut String, stem: &str) {
        *out += &format!("{}\n", harmless(&self.line));
        for (place, branch) in self.below.iter().enumerate() {
            let (joint, more) = match place + 1 == self.below.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            *out += &format!("{stem}{joint}");
            branch.draw(out, &format!("{stem}{more}"));
        }
    }
}

fn known<T>(value: &Known<T>, text: impl Fn(&T) -> String) -> String {
    value.as_ref().map_or_else(|why| format!("({why})"), text)
}

fn plain<T: Display>(value: &Known<T>) -> String {
    known(value, ToString::to_string)
}

fn size(bytes: &Known<u64>) -> String {
    known(bytes, |bytes| Bytes(*bytes).to_string())
}

fn page(fabric: &Fabric) -> String {
    let mut out = String::new();
    let mut roots: Vec<Branch> = fabric.nodes.iter().map(|n| node(fabric, n)).collect();
    roots.extend(fabric.windows.iter().map(|w| window(fabric, w)));
    let left_over = fabric
        .devices
        .iter()
        .filter(|device| device.regions.is_empty());
    roots.extend(left_over.map(|device| Branch {
        line: format!("{}: in no region: its memory is nowhere", device.name),
        below: memory(device),
    }));
    if roots.is_empty() {
        out += "no memory-only node and no CXL device\n";
    }
    for root in roots {
        root.draw(&mut out, "");
    }
    if !fabric.port_pmus.is_empty() {
        let names = fabric.port_pmus.join(" ");
        out += &format!(
            "PMUs of CXL ports: {}; the kernel does not say which port has which\n",
            harmless(&names)
        );
    }
    for why in &fabric.problems {
        out += &format!("– {}\n", harmless(&why.to_string()));
    }
    out
}

fn node(fabric: &Fabric, node: &Node) -> Branch {
    let counters = match &node.counters[..] {
        [] => String::new(),
        groups => format!(", counted as {}", groups.join(" ")),
    };
    let mut branch = Branch::new(format!(
        "node{}: {}{counters}",
        node.id,
        size(&node.size_bytes)
    ));
    match &node.regions {
        Err(why) => branch.below.push(Branch::new(format!("– {why}"))),
        Ok(names) => {
            let of_it = fabric
                .regions
                .iter()
                .filter(|region| names.contains(&region.name));
            branch.below.extend(of_it.map(|r| region(fabric, r)));
        }
    }
    branch
}

fn region(fabric: &Fabric, region: &Region) -> Branch {
    let (name, mode) = (&region.name, plain(&region.mode));
    let dax: Vec<&str> = region.dax.iter().map(|dax| dax.name.as_str()).collect();
    let dax = match &dax[..] {
        [] => "no dax device".to_owned(),
        names => format!("as {}", names.join(" ")),
    };
    let turns = match region.targets.len() {
        0 | 1 => String::new(),
        ways => format!(
            ", {ways} devices by turns of {}",
            size(&region.granularity_bytes)
        ),
    };
    let (start, window) = (
        known(&region.start, |a| format!("{a:#x}")),
        plain(&region.window),
    );
    let line = format!(
        "{name}: {} {mode} at {start} in {window}, {dax}{turns}",
        size(&region.size_bytes)
    );
    let part = |target: &weir_linux::cxl::Target| {
        let device = target.device.as_ref().ok();
        let device = device.and_then(|name| fabric.devices.iter().find(|d| d.name == *name));
        Branch {
            line: format!(
                "{}, by its {}",
                plain(&target.device),
                plain(&target.decoder)
            ),
            below: device.map(memory).unwrap_or_default(),
        }
    };
    Branch {
        line,
        below: region.targets.iter().map(part).collect(),
    }
}

fn memory(device: &Memory) -> Vec<Branch> {
    let serial = known(&device.serial, |serial| format!("{serial:#x}"));
    let pmem = match &device.pmem_bytes {
        Ok(0) => String::new(),
        other => format!(", persistent {}", size(other)),
    };
    let or_none = |names: &[String], none: &str| match names {
        [] => none.to_owned(),
        names => names.join(" "),
    };
    [
        format!(
            "memory {}{pmem}, serial number {serial}",
            size(&device.ram_bytes)
        ),
        format!(
            "PCI {} below root port {} of host bridge {}",
            plain(&device.pci),
            plain(&device.root_port),
            plain(&device.bridge)
        ),
        format!(
            "endpoint {}, next to CPUs of {}",
            plain(&device.endpoint),
            known(&device.cpu_node, |n| format!("node{n}"))
        ),
        format!(
            "PMU {}; access counters {}",
            or_none(&device.pmus, "none (cxl_pmu)"),
            or_none(&device.counters, "none (weir_cxl)")
        ),
    ]
    .map(Branch::new)
    .into()
}

fn window(fabric: &Fabric, window: &Window) -> Branch {
    let start = known(&window.start, |start| format!("{start:#x}"));
    let bridges = known(&window.bridges, |bridges| bridges.join(" and "));
    let name = &window.name;
    let line = format!(
        "{name}: window of {} at {start} to {bridges}",
        size(&window.size_bytes)
    );
    // Regions that are a node stand there.
    let homeless = fabric.regions.iter().filter(|r| {
        let shown = |node: &Node| {
            node.regions
                .as_ref()
                .is_ok_and(|names| names.contains(&r.name))
        };
        r.window.as_ref() == Ok(name) && !fabric.nodes.iter().any(shown)
    });
    let mut branch = Branch::new(line);
    branch.below.extend(homeless.map(|r| region(fabric, r)));
    branch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_drawn_and_names_are_harmless() {
        let mut tree = Branch::new("a\u{1b}[2J");
        tree.below = vec![Branch::new("b"), Branch::new("c")];
        tree.below[0].below.push(Branch::new("d"));
        let mut out = String::new();
        tree.draw(&mut out, "");
        assert_eq!(out, "a\\u{1b}[2J\n├─ b\n│  └─ d\n└─ c\n");
    }
}
