// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir topology`: from NUMA nodes to CXL devices, ports and counters, as a tree. It probes nothing
//! itself, and guesses nothing: what is not known says why. Each node says whether it is CXL memory.

use crate::cli::exit::{Exit, print, print_json};
use crate::inventory::cli::TopologyArgs;
use anyhow::Result;
use std::fmt::Display;
use weir_core::Bytes;
use weir_figures::text::harmless;
use weir_linux::cxl::{
    CxlMemory, CxlNode, Dax, DaxParent, DecoderTarget, Fabric, Known, Region, Window,
};
use weir_linux::{CountedFabric, Roots};

/// Shows it.
///
/// # Errors
/// A node that is named does not exist, stdout cannot be written.
pub fn topology(args: &TopologyArgs, roots: &Roots) -> Result<Exit> {
    let fabric = CountedFabric::read(roots, &args.devices.nodes(roots)?);
    if args.json {
        print_json(&fabric)?;
    } else {
        print(&page(&fabric))?;
    }
    Ok(Exit::Done)
}

/// A line and what hangs below it.
struct TopologyBranch {
    line: String,
    below: Vec<TopologyBranch>,
}

impl TopologyBranch {
    fn new(line: impl Into<String>) -> TopologyBranch {
        TopologyBranch {
            line: line.into(),
            below: Vec::new(),
        }
    }

    fn draw(&self, out: &mut String, stem: &str) {
        *out += &format!("{}\n", harmless(&self.line));
        for (place, branch) in self.below.iter().enumerate() {
            let (joint, more) = if place + 1 == self.below.len() {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
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

fn page(counted: &CountedFabric) -> String {
    let (mut out, fabric) = (String::new(), &counted.bus);
    let nodes = fabric.nodes.iter();
    let mut roots: Vec<TopologyBranch> = nodes.map(|n| node(counted, n)).collect();
    roots.extend(fabric.windows.iter().map(|w| window(fabric, w)));
    let left_over = fabric.devices.iter().filter(|device| {
        let has_it = |node: &CxlNode| {
            let devices = node.devices.as_ref();
            devices.is_ok_and(|names| names.contains(&device.name))
        };
        device.regions.is_empty() && !fabric.nodes.iter().any(has_it)
    });
    roots.extend(left_over.map(|device| TopologyBranch {
        line: format!("{}: in no region{}", device.name, where_else(device)),
        below: memory(device),
    }));
    if roots.is_empty() {
        out += "no memory-only node and no CXL device\n";
    }
    for root in roots {
        root.draw(&mut out, "");
    }
    if !counted.port_pmus.is_empty() {
        let names = counted.port_pmus.join(" ");
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

/// Where the memory of a device is that no region has. That it is nowhere is said with proof only.
fn where_else(device: &CxlMemory) -> String {
    match &device.is_in_use {
        Ok(false) => {
            ": its memory is nowhere (no decoder of it is set, no memory lies in its window)".into()
        }
        Ok(true) => ", and firmware has set it up".into(),
        Err(why) => format!("; where its memory is, is not known ({why})"),
    }
}

fn node(counted: &CountedFabric, node: &CxlNode) -> TopologyBranch {
    let fabric = &counted.bus;
    let counters = match counted.counters_of(node) {
        [] => String::new(),
        groups => format!(", counted as {}", groups.join(" ")),
    };
    let uncounted = match counted.uncounted_of(node) {
        [] => String::new(),
        devices => format!(", not counted: {}", devices.join(" ")),
    };
    let mut branch = TopologyBranch::new(format!(
        "node{}: {}{counters}{uncounted}, {}",
        node.id,
        size(&node.size_bytes),
        node.verdict.words()
    ));
    let below = &mut branch.below;
    let is_here = |name: &String, names: &Known<Vec<String>>| {
        names.as_ref().is_ok_and(|names| names.contains(name))
    };
    let regions = fabric
        .regions
        .iter()
        .filter(|r| is_here(&r.name, &node.regions));
    below.extend(regions.map(|r| region(fabric, r)));
    let own = fabric.dax.iter().filter(|dax| node.dax.contains(&dax.name));
    below.extend(own.map(|dax| TopologyBranch::new(soft(dax, node))));
    // Those of regions stand there.
    if node.regions.is_err() && node.verdict.is_cxl {
        match &node.devices {
            Err(why) => below.push(TopologyBranch::new(format!("– {why}"))),
            Ok(_) => below.extend(
                fabric
                    .devices
                    .iter()
                    .filter(|device| is_here(&device.name, &node.devices))
                    .map(|device| TopologyBranch {
                        line: format!("{}, in no region", device.name),
                        below: memory(device),
                    }),
            ),
        }
    }
    branch
}

/// A dax device that is made of no region.
fn soft(dax: &Dax, node: &CxlNode) -> String {
    let what = match dax.of {
        DaxParent::SoftReserved => "soft-reserved memory",
        DaxParent::PersistentMemory => "persistent memory",
        DaxParent::Region | DaxParent::Other => "memory",
    };
    let window = match &node.windows[..] {
        [] => String::new(),
        names => format!(" in {}", names.join(" and ")),
    };
    format!(
        "{}: {} of {what} ({}) at {}{window}",
        dax.name,
        size(&dax.size_bytes),
        plain(&dax.parent),
        known(&dax.start, |a| format!("{a:#x}"))
    )
}

fn region(fabric: &Fabric, region: &Region) -> TopologyBranch {
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
    let window = plain(&region.window);
    let not = match region.is_committed {
        Ok(false) => ", not committed",
        _ => "",
    };
    let line = match (&region.start, &region.size_bytes) {
        (Err(_), Ok(0)) => {
            format!("{name}: a region without memory{not}, {mode}, in {window}{turns}")
        }
        (start, bytes) => format!(
            "{name}: {} {mode} at {} in {window}{not}, {dax}{turns}",
            size(bytes),
            known(start, |a| format!("{a:#x}"))
        ),
    };
    TopologyBranch {
        line,
        below: region.targets.iter().map(|t| target(fabric, t)).collect(),
    }
}

fn target(fabric: &Fabric, target: &DecoderTarget) -> TopologyBranch {
    let device = target.device.as_ref().ok();
    let device = device.and_then(|name| fabric.devices.iter().find(|d| d.name == *name));
    let line = match (&target.device, &target.decoder) {
        // Without a decoder there is no device, for the same reason.
        (_, Err(why)) => format!("({why})"),
        (device, decoder) => format!("{}, by its {}", plain(device), plain(decoder)),
    };
    TopologyBranch {
        line,
        below: device.map(memory).unwrap_or_default(),
    }
}

fn memory(device: &CxlMemory) -> Vec<TopologyBranch> {
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
    .map(TopologyBranch::new)
    .into()
}

fn window(fabric: &Fabric, window: &Window) -> TopologyBranch {
    let start = known(&window.start, |start| format!("{start:#x}"));
    let bridges = known(&window.bridges, |bridges| bridges.join(" and "));
    let name = &window.name;
    let line = format!(
        "{name}: window of {} at {start} to {bridges}",
        size(&window.size_bytes)
    );
    // Regions that are a node stand there.
    let homeless = fabric.regions.iter().filter(|r| {
        let shown = |node: &CxlNode| {
            node.regions
                .as_ref()
                .is_ok_and(|names| names.contains(&r.name))
        };
        r.window.as_ref() == Ok(name) && !fabric.nodes.iter().any(shown)
    });
    let mut branch = TopologyBranch::new(line);
    branch.below.extend(homeless.map(|r| region(fabric, r)));
    branch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_drawn_and_names_are_harmless() {
        let mut tree = TopologyBranch::new("a\u{1b}[2J");
        tree.below = vec![TopologyBranch::new("b"), TopologyBranch::new("c")];
        tree.below[0].below.push(TopologyBranch::new("d"));
        let mut out = String::new();
        tree.draw(&mut out, "");
        assert_eq!(out, "a\\u{1b}[2J\n├─ b\n│  └─ d\n└─ c\n");
    }
}
