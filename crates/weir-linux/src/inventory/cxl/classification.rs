// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which nodes without CPUs are CXL memory. High-bandwidth memory, persistent memory, memory of GPUs and DRAM
//! of a socket that is offline are nodes without CPUs too. What decides, first that holds:
//!
//! | evidence | verdict |
//! |---|---|
//! | `--device node:N` names it | CXL |
//! | a counter driver's group names the node, or has its addresses | CXL |
//! | `--device` names other nodes | other |
//! | at least half of its memory lies in CXL regions and windows | CXL |
//! | its addresses are not known, and a dax device of a CXL region names it | CXL |
//! | CPUs belong to it and are offline | DRAM |
//! | its dax device is persistent memory, or `/proc/iomem` calls it that | persistent |
//! | it is the node of an accelerator, or a driver other than `kmem` brought it | accelerator's |
//! | its addresses and all windows are known, and it lies in none | other |
//! | no window is known, and firmware says it is faster than DRAM (HMAT) | high-bandwidth |
//! | nothing of all this is known | taken for CXL, and said |

use super::evidence::Evidence;
use super::places::{Span, common, meet, total};
use super::{Dax, DaxParent, Region};
use serde::Serialize;

/// What a node's memory is, and what says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeVerdict {
    /// Whether it is treated as CXL memory.
    pub is_cxl: bool,
    pub kind: MemoryKind,
    /// Whether there is evidence; without, a node without CPUs is taken for CXL memory.
    pub is_proven: bool,
    /// What says so, what decided first.
    pub evidence: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    Cxl,
    /// Ordinary memory of a socket whose CPUs are all offline.
    Dram,
    /// Persistent, on a memory bus.
    Persistent,
    /// Memory of a GPU or of another accelerator.
    Accelerator,
    /// Memory that is faster than DRAM, such as HBM.
    HighBandwidth,
    /// None of CXL; more is not known.
    Other,
    Unknown,
}

impl MemoryKind {
    pub fn words(self) -> &'static str {
        match self {
            MemoryKind::Cxl => "CXL memory",
            MemoryKind::Dram => "DRAM",
            MemoryKind::Persistent => "persistent memory",
            MemoryKind::Accelerator => "memory of an accelerator",
            MemoryKind::HighBandwidth => "high-bandwidth memory",
            MemoryKind::Other => "other memory",
            MemoryKind::Unknown => "memory of a kind that is not known",
        }
    }
}

impl NodeVerdict {
    fn new(kind: MemoryKind, evidence: String) -> NodeVerdict {
        NodeVerdict {
            is_cxl: kind == MemoryKind::Cxl,
            kind,
            is_proven: true,
            evidence: vec![evidence],
        }
    }

    /// One line for people.
    pub fn words(&self) -> String {
        let evidence = self.evidence.join("; ");
        match (self.is_cxl, self.is_proven) {
            (true, true) => format!("CXL memory: {evidence}"),
            (true, false) => format!("taken for CXL memory: {evidence}"),
            (false, _) if matches!(self.kind, MemoryKind::Other | MemoryKind::Unknown) => {
                format!("no CXL memory: {evidence}")
            }
            (false, _) => format!("no CXL memory but {}: {evidence}", self.kind.words()),
        }
    }
}

pub(super) struct Case<'a> {
    pub(super) node: u32,
    /// Nodes that `--device` names; empty: it was not given.
    pub(super) named: &'a [u32],
    /// Its addresses; empty where not known.
    pub(super) spans: &'a [Span],
    /// Dax devices that this memory belongs to.
    pub(super) dax: &'a [&'a Dax],
    /// Regions that have memory of it.
    pub(super) regions: &'a [&'a Region],
    /// Windows with their addresses.
    pub(super) windows: &'a [(String, Span)],
    /// Why not all windows are known, if so.
    pub(super) windows_missing: Option<&'a str>,
    pub(super) evidence: &'a Evidence,
    pub(super) with_cpus: &'a [u32],
    /// A node that is proven to be CXL memory.
    pub(super) proven: Option<u32>,
}

/// Decides what memory a node is. The first of these that says something decides: the operator and counters
/// that are joined to the node; addresses within a CXL window or region; evidence of other memory (CPUs that
/// are offline, persistent memory, an accelerator, addresses outside of all windows, a faster figure of the
/// firmware); and the rule for what is left. The figures of the firmware are added to the evidence that
/// decided.
///
/// A node without CPUs was taken for CXL memory at first. High-bandwidth memory, persistent memory, memory of
/// GPUs and DRAM of an offline socket are such nodes too, and a workload with memory there was charged for
/// what a CXL device moved.
pub(super) fn classify(case: &Case) -> NodeVerdict {
    let mut verdict = said(case)
        .or_else(|| for_cxl(case))
        .or_else(|| against_cxl(case))
        .unwrap_or_else(|| by_default(case));
    verdict.evidence.extend(figures(case));
    verdict
}

fn said(case: &Case) -> Option<NodeVerdict> {
    if case.named.contains(&case.node) {
        let why = format!("--device node:{} says so", case.node);
        return Some(NodeVerdict::new(MemoryKind::Cxl, why));
    }
    if let Some(device) = case.evidence.counters.get(&case.node) {
        let why = format!("the counters {device} are of it");
        return Some(NodeVerdict::new(MemoryKind::Cxl, why));
    }
    let others: Vec<String> = case.named.iter().map(|n| format!("node:{n}")).collect();
    (!others.is_empty()).then(|| {
        let why = format!("--device names {} only", others.join(", "));
        NodeVerdict::new(MemoryKind::Other, why)
    })
}

fn for_cxl(case: &Case) -> Option<NodeVerdict> {
    let spans = known_spans(case);
    let windows = case.windows.iter().map(|(_, span)| *span);
    let regions = case.regions.iter().filter_map(|region| region.span());
    let cxl: Vec<Span> = windows.chain(regions).collect();
    let names: Vec<&str> = match case.regions {
        [] => case
            .windows
            .iter()
            .filter(|(_, window)| meet(&spans, &[*window]))
            .map(|(name, _)| name.as_str())
            .collect(),
        regions => regions.iter().map(|region| region.name.as_str()).collect(),
    };
    let what = if case.regions.is_empty() {
        "window"
    } else {
        "region"
    };
    let names = names.join(" and ");
    // A region's dax device names the node, and more is not known.
    if spans.is_empty() || cxl.is_empty() {
        let why = format!("it is memory of the CXL {what} {names}");
        return (!case.regions.is_empty()).then(|| NodeVerdict::new(MemoryKind::Cxl, why));
    }
    let (inside, size) = (common(&spans, &cxl), total(&spans));
    if inside == 0 || inside < size.div_ceil(2) {
        return None;
    }
    let why = if inside == size {
        format!("it lies in the CXL {what} {names}")
    } else {
        format!(
            "{inside:#x} of {size:#x} bytes of it lie in the CXL {what} {names}; the rest is other memory, and weir \
             cannot separate the two"
        )
    };
    Some(NodeVerdict::new(MemoryKind::Cxl, why))
}

fn against_cxl(case: &Case) -> Option<NodeVerdict> {
    let evidence = case.evidence;
    let spans = known_spans(case);
    if let Some(cpus) = evidence.offline_cpus.get(&case.node) {
        let some: Vec<String> = cpus.iter().take(4).map(u32::to_string).collect();
        let more = if cpus.len() > some.len() { ", …" } else { "" };
        let why = format!(
            "CPUs {}{more} belong to it and are offline",
            some.join(", ")
        );
        return Some(NodeVerdict::new(MemoryKind::Dram, why));
    }
    let is_persistent = |dax: &&&Dax| dax.of == DaxParent::PersistentMemory;
    if let Some(dax) = case.dax.iter().find(is_persistent) {
        let parent = dax.parent.as_deref().unwrap_or("ndbus");
        let why = format!("{} is persistent memory ({parent})", dax.name);
        return Some(NodeVerdict::new(MemoryKind::Persistent, why));
    }
    if meet(&spans, &evidence.persistent) {
        let why = "/proc/iomem calls its addresses persistent memory".to_owned();
        return Some(NodeVerdict::new(MemoryKind::Persistent, why));
    }
    if let Some(why) = evidence.accelerators.get(&case.node) {
        return Some(NodeVerdict::new(MemoryKind::Accelerator, why.clone()));
    }
    if let Some((name, _)) = evidence.managed.iter().find(|(_, m)| meet(&spans, &[*m])) {
        let why = format!("/proc/iomem calls it {name:?}");
        return Some(NodeVerdict::new(MemoryKind::Accelerator, why));
    }
    outside(case, &spans).or_else(|| faster_than_dram(case))
}

/// All windows are known, and its addresses are, and lie in none.
fn outside(case: &Case, spans: &[Span]) -> Option<NodeVerdict> {
    if case.windows.is_empty() || case.windows_missing.is_some() || spans.is_empty() {
        return None;
    }
    let all: Vec<Span> = case.windows.iter().map(|(_, span)| *span).collect();
    let names = names_of(case.windows.iter());
    let mut why = match (common(spans, &all), total(spans)) {
        (0, _) => format!("it lies outside of all CXL windows ({names})"),
        (inside, size) => {
            format!("only {inside:#x} of {size:#x} bytes of it lie in CXL windows ({names})")
        }
    };
    let reserved = case.dax.iter().find(|d| d.of == DaxParent::SoftReserved);
    if let Some(dax) = reserved {
        why += &format!(
            "; {} is memory that firmware reserved for a purpose",
            dax.name
        );
    }
    let kind = fast(case).map_or(MemoryKind::Other, |_| MemoryKind::HighBandwidth);
    Some(NodeVerdict::new(kind, why))
}

/// High-bandwidth memory, by the firmware's figures: where no window is known, these decide.
fn faster_than_dram(case: &Case) -> Option<NodeVerdict> {
    let (node, dram) = fast(case)?;
    case.windows.is_empty().then(|| {
        let why = format!("firmware gives it {node} MB/s, and DRAM {dram} (HMAT)");
        NodeVerdict::new(MemoryKind::HighBandwidth, why)
    })
}

/// Bandwidths of the node and of DRAM, where the node has more at a latency below 1.5 times that of DRAM.
/// Several interleaved CXL devices may have more bandwidth too, but not at such a latency.
fn fast(case: &Case) -> Option<(u64, u64)> {
    let reach = case.evidence.reach.get(&case.node)?;
    let node = reach.read_bandwidth_mb_per_sec?;
    let dram = case.evidence.dram_mb_per_sec(case.with_cpus)?;
    let dram_ns = case.evidence.dram_latency_ns(case.with_cpus);
    let is_near = match (reach.read_latency_ns, dram_ns) {
        (Some(node), Some(dram)) => node.saturating_mul(2) < dram.saturating_mul(3),
        _ => true,
    };
    (node > dram && is_near).then_some((node, dram))
}

fn by_default(case: &Case) -> NodeVerdict {
    let lacks = match case.windows_missing {
        Some(missing) => missing.to_owned(),
        None if case.windows.is_empty() => "the kernel knows no CXL window".to_owned(),
        None => "its addresses are not known".to_owned(),
    };
    let why = format!("it has memory and no CPUs, and {lacks}");
    let (kind, why) = match case.proven {
        None => (MemoryKind::Cxl, why),
        Some(other) => (
            MemoryKind::Unknown,
            format!("{why}; node{other} is CXL memory for sure, and nothing says so of this one"),
        ),
    };
    NodeVerdict {
        is_proven: false,
        ..NodeVerdict::new(kind, why)
    }
}

/// What supports a verdict and does not make it.
fn figures(case: &Case) -> Option<String> {
    let ns = case.evidence.reach.get(&case.node)?.read_latency_ns?;
    let dram = case.evidence.dram_latency_ns(case.with_cpus)?;
    Some(format!("reads take {ns} ns, those of DRAM {dram} (HMAT)"))
}

/// Addresses of its blocks; where those are not known, of its dax devices.
fn known_spans(case: &Case) -> Vec<Span> {
    if !case.spans.is_empty() {
        return case.spans.to_vec();
    }
    case.dax.iter().filter_map(|dax| dax.span()).collect()
}

fn names_of<'a>(windows: impl Iterator<Item = &'a (String, Span)>) -> String {
    let names: Vec<&str> = windows.map(|(name, _)| name.as_str()).collect();
    names.join(" and ")
}
