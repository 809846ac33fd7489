// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes with memory and without CPUs: which of them are CXL memory, and what of the bus they are.

use super::classification::{Case, NodeVerdict, classify};
use super::evidence::Evidence;
use super::places::{Places, Span, meet};
use super::read::{self, Read};
use super::{CxlNode, Dax, Fabric, Known, Region, Window, devices};
use crate::inventory::numa::{MemoryNode, memory_nodes};
use crate::options::Roots;
use weir_core::Missing;

/// A node with memory and without CPUs, or one that was named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Classified {
    pub(crate) node: MemoryNode,
    pub(crate) verdict: NodeVerdict,
}

/// The bus, and all nodes that come into question. `named` are those that `--device` names, in its order.
///
/// # Errors
/// sysfs does not list the bus or the nodes.
pub(crate) fn classified(
    roots: &Roots,
    named: &[u32],
) -> Result<(Fabric, Vec<Classified>), Missing> {
    let mut bus = read::bus(roots)?;
    let classified = add(roots, named, &mut bus)?;
    Ok((bus.fabric, classified))
}

/// Adds the nodes to the fabric, and what follows from them for devices. Which devices a node is on is asked
/// only of CXL memory; of all others the verdict is the reason why nothing is said.
pub(super) fn add(
    roots: &Roots,
    named: &[u32],
    bus: &mut Read,
) -> Result<Vec<Classified>, Missing> {
    let machine = NodeEvidence::read(roots, named)?;
    let classified = machine.classified(&bus.fabric, named);
    for Classified { node, verdict } in &classified {
        let id = node.id.0;
        let links = machine.links(&bus.fabric, id);
        let regions: Vec<String> = links.regions.iter().map(|r| r.name.clone()).collect();
        let node = CxlNode {
            id,
            size_bytes: match node.size_bytes.0 {
                0 => Err(Missing::Lost(format!("node{id}/meminfo has no size"))),
                bytes => Ok(bytes),
            },
            devices: if verdict.is_cxl {
                devices::of_node(bus, &links)
            } else {
                Err(Missing::NotSupported(verdict.words()))
            },
            verdict: verdict.clone(),
            dax: links.dax.iter().map(|dax| dax.name.clone()).collect(),
            windows: links.windows.iter().map(|w| w.name.clone()).collect(),
            regions: if regions.is_empty() {
                Err(Missing::NotSupported(format!(
                    "no region has memory of node {id}"
                )))
            } else {
                Ok(regions)
            },
        };
        bus.fabric.nodes.push(node);
    }
    devices::note_use(bus, &machine.places);
    Ok(classified)
}

/// Nodes, their addresses, and other evidence of what they are.
struct NodeEvidence {
    nodes: Vec<MemoryNode>,
    with_cpus: Vec<u32>,
    places: Places,
    evidence: Evidence,
}

/// What of the bus a node is.
pub(super) struct Links<'a> {
    pub(super) spans: Vec<Span>,
    pub(super) dax: Vec<&'a Dax>,
    pub(super) regions: Vec<&'a Region>,
    pub(super) windows: Vec<&'a Window>,
}

impl NodeEvidence {
    fn read(roots: &Roots, named: &[u32]) -> Result<NodeEvidence, Missing> {
        let (nodes, with_cpus) = memory_nodes(roots, named)?;
        let numbers: Vec<u32> = nodes.iter().map(|node| node.id.0).collect();
        let all: Vec<u32> = numbers.iter().chain(&with_cpus).copied().collect();
        Ok(NodeEvidence {
            places: Places::read(roots, &all),
            evidence: Evidence::read(roots, &numbers, &with_cpus),
            nodes,
            with_cpus,
        })
    }

    fn classified(&self, fabric: &Fabric, named: &[u32]) -> Vec<Classified> {
        let (windows, windows_missing) = self.windows(fabric);
        let one = |node: &MemoryNode, proven| {
            let links = self.links(fabric, node.id.0);
            classify(&Case {
                node: node.id.0,
                named,
                spans: self.places.of(node.id.0),
                dax: &links.dax,
                regions: &links.regions,
                windows: &windows,
                windows_missing: windows_missing.as_deref(),
                evidence: &self.evidence,
                with_cpus: &self.with_cpus,
                proven,
            })
        };
        // The kernel's word decides: a counter driver need not know of other nodes.
        let is_proven = |node: &&MemoryNode| {
            let verdict = one(node, None);
            let by_counters = self.evidence.counters.contains_key(&node.id.0);
            verdict.is_cxl && verdict.is_proven && !by_counters
        };
        let proven = self.nodes.iter().find(is_proven).map(|node| node.id.0);
        let classified = self.nodes.iter().map(|node| Classified {
            node: *node,
            verdict: one(node, proven),
        });
        classified.collect()
    }

    /// Windows with addresses, and why not all have some. `/proc/iomem` has those that are missing in sysfs.
    fn windows(&self, fabric: &Fabric) -> (Vec<(String, Span)>, Option<String>) {
        let of_sysfs: Vec<(String, Span)> = fabric.windows.iter().filter_map(placed).collect();
        let of_iomem = &self.evidence.windows;
        let unplaced = |window: &&Window| !is_empty(window) && placed(window).is_none();
        match fabric.windows.iter().find(unplaced) {
            None if of_sysfs.is_empty() => (of_iomem.clone(), None),
            None => (of_sysfs, None),
            Some(_) if of_iomem.len() >= fabric.windows.len() => (of_iomem.clone(), None),
            Some(window) => {
                let name = &window.name;
                let why = match window.start.as_ref().and(window.size_bytes.as_ref()) {
                    Err(why) => {
                        format!("the addresses of the CXL window {name} are not known ({why})")
                    }
                    Ok(_) => format!("the CXL window {name} ends above all addresses"),
                };
                (of_sysfs, Some(why))
            }
        }
    }

    fn links<'a>(&self, fabric: &'a Fabric, node: u32) -> Links<'a> {
        let mut spans = self.places.of(node).to_vec();
        let of_regions = fabric.regions.iter().flat_map(|region| &region.dax);
        let dax: Vec<&Dax> = of_regions
            .chain(&fabric.dax)
            .filter(|dax| dax.node == Ok(node) && dax.may_be_ram())
            .collect();
        if spans.is_empty() {
            spans.extend(dax.iter().filter_map(|dax| dax.span()));
        }
        let has_dax = |region: &Region| {
            let mut of_region = region.dax.iter();
            of_region.any(|of_it| dax.iter().any(|dax| dax.name == of_it.name))
        };
        let regions: Vec<&Region> = fabric
            .regions
            .iter()
            .filter(|r| has_dax(r) || r.span().is_some_and(|at| meet(&spans, &[at])))
            .collect();
        let is_window = |window: &&Window| {
            let of_region = |r: &&Region| r.window.as_ref() == Ok(&window.name);
            let met = placed(window).is_some_and(|(_, at)| meet(&spans, &[at]));
            met || regions.iter().any(of_region)
        };
        Links {
            windows: fabric.windows.iter().filter(is_window).collect(),
            spans,
            dax,
            regions,
        }
    }
}

pub(super) fn placed(window: &Window) -> Option<(String, Span)> {
    let (start, size) = (
        window.start.as_ref().ok()?,
        window.size_bytes.as_ref().ok()?,
    );
    Some((window.name.clone(), Span::new(*start, *size)?))
}

fn is_empty(window: &Window) -> bool {
    window.size_bytes == Ok(0)
}

fn span(start: &Known<u64>, size_bytes: &Known<u64>) -> Option<Span> {
    Span::new(*start.as_ref().ok()?, *size_bytes.as_ref().ok()?)
}

impl Dax {
    pub(super) fn span(&self) -> Option<Span> {
        span(&self.start, &self.size_bytes)
    }

    /// Whether its memory may be its node's: not where another driver has it.
    fn may_be_ram(&self) -> bool {
        self.driver.as_ref().map_or(true, |driver| driver == KMEM)
    }
}

/// What makes a dax device system RAM (kernel, `drivers/dax/kmem.c`).
pub(super) const KMEM: &str = "kmem";

impl Region {
    /// Its addresses; none where it decodes none.
    pub(super) fn span(&self) -> Option<Span> {
        let is_committed = self.is_committed != Ok(false);
        span(&self.start, &self.size_bytes).filter(|_| is_committed)
    }
}
