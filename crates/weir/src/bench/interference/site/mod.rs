// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where it is measured: which node plays which target, on which CPUs, in how much memory.

pub mod conditions;
pub mod disk;
pub mod placement;

use super::super::calibrate::placement::nearest_with_cpus;
use super::super::cli::BenchInterferenceArgs;
use super::names::{NodeRole, StreamTarget};
use super::plan::CpuShare;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use weir_linux::cxl::Fabric;
use weir_linux::{Node, Nodes, Roots, cpu_topology};

const MIB: u64 = 1 << 20;
/// Buffers are whole huge pages.
const GRAIN_BYTES: u64 = 2 * MIB;
/// Bytes that each thread goes over, where the caches are small.
const THREAD_BYTES: u64 = 64 * MIB;
const THREAD_BYTES_MIN: u64 = 2 * GRAIN_BYTES;
/// What all threads of a stream use is at least this many times the last-level cache.
const PER_CACHE: u64 = 4;
/// Direct I/O is in units of at least this.
const BLOCK_UNIT_BYTES: u64 = 512;
const BLOCK_BYTES_MAX: u64 = 1024 * MIB;
/// One part in so many of a node's free memory is the most that I/Os in flight take.
const IO_PART: u64 = 8;
const RING_BYTES_MIN: u64 = 16 * MIB;
const RING_BYTES_MAX: u64 = 1024 * MIB;
const NO_CXL: &str = "no node of this machine is CXL memory (`weir topology`); --node cxl=N takes another node for it";

#[derive(Clone, Debug)]
pub struct BenchSite {
    /// The node of local memory.
    pub mmem: u32,
    /// The node of CXL memory, or why there is none.
    pub cxl: Result<u32, String>,
    pub cpus: CpuShare,
    /// Memory of each thread.
    pub thread_bytes: u64,
    /// Memory of the ring that latency is measured on.
    pub ring_bytes: u64,
}

impl BenchSite {
    /// Chooses it.
    ///
    /// # Errors
    /// There is no such node, too little memory or too few CPUs.
    pub fn choose(args: &BenchInterferenceArgs, roots: &Roots) -> Result<BenchSite> {
        let nodes = Nodes::read(roots).context("cannot read the nodes of this machine")?;
        let said = said_nodes(&args.node, &nodes)?;
        let cxl = match said.get(&StreamTarget::Cxl) {
            Some(node) => Ok(*node),
            None => found_cxl(roots, &nodes).ok_or_else(|| NO_CXL.to_owned()),
        };
        let allowed = weir_bench::cpu::allowed()?;
        let mmem = match said.get(&StreamTarget::Mmem) {
            Some(node) => *node,
            None => local(&nodes, cxl.as_ref().ok().copied(), &allowed)
                .context("no node of this machine has CPUs")?,
        };
        ensure!(
            cxl != Ok(mmem) || said.len() < 2,
            "--node: mmem and cxl are both node {mmem}; two targets need two nodes"
        );
        let near = nodes.get(mmem).and_then(|node| {
            if node.has_cpus {
                Some(node)
            } else {
                nearest_with_cpus(&nodes, node)
            }
        });
        let usable = usable(
            &allowed,
            near.map(|node| &node.cpus[..]).unwrap_or_default(),
        );
        let cores = cores(&usable, args.siblings, |cpu| {
            cpu_topology::siblings(roots, cpu)
        });
        let cpus = CpuShare::of(&cores, args.threads).map_err(anyhow::Error::msg)?;
        let cache = cores
            .first()
            .and_then(|cpu| cpu_topology::last_cache_bytes(roots, *cpu));
        let mut site = BenchSite {
            mmem,
            cxl,
            cpus,
            thread_bytes: 0,
            ring_bytes: 0,
        };
        check_io(args, &nodes, &site)?;
        let used: Vec<&Node> = site
            .nodes()
            .into_iter()
            .filter_map(|id| nodes.get(id))
            .collect();
        (site.thread_bytes, site.ring_bytes) =
            memory(&used, site.cpus.each(), cache, args.memory.map(|m| m.0))?;
        Ok(site)
    }

    fn nodes(&self) -> Vec<u32> {
        std::iter::once(self.mmem)
            .chain(self.cxl.as_ref().ok().copied())
            .collect()
    }

    /// The node of a target of memory.
    pub fn node(&self, target: StreamTarget) -> Option<u32> {
        match target {
            StreamTarget::Mmem => Some(self.mmem),
            StreamTarget::Cxl => self.cxl.as_ref().ok().copied(),
            StreamTarget::Ssd => None,
        }
    }

    pub fn all_cpus(&self) -> Vec<u32> {
        let [one, other] = &self.cpus.sides;
        one.iter()
            .chain(other)
            .chain(&self.cpus.probe)
            .copied()
            .collect()
    }
}

/// Room for what is read and written: a small part of its node.
fn check_io(args: &BenchInterferenceArgs, nodes: &Nodes, site: &BenchSite) -> Result<()> {
    let block = args.block.0;
    ensure!(
        block > 0 && block.is_multiple_of(BLOCK_UNIT_BYTES) && block <= BLOCK_BYTES_MAX,
        "--block {block} bytes: blocks are multiples of {BLOCK_UNIT_BYTES} bytes, and at most 1 GiB"
    );
    let id = args.io_node.unwrap_or(site.mmem);
    let node = nodes.get(id).filter(|node| node.total_bytes > 0);
    let node =
        node.with_context(|| format!("--io-node {id}: there is no such node with memory"))?;
    let threads = u64::from(site.cpus.each());
    let bytes = block
        .saturating_mul(u64::from(args.depth))
        .saturating_mul(threads);
    ensure!(
        bytes <= node.free_bytes / IO_PART,
        "--block and --depth: {} MiB are in flight with {threads} threads, and node {id} has {} MiB free",
        bytes / MIB,
        node.free_bytes / MIB
    );
    Ok(())
}

/// Nodes that were named.
fn said_nodes(roles: &[NodeRole], nodes: &Nodes) -> Result<BTreeMap<StreamTarget, u32>> {
    let mut said = BTreeMap::new();
    for role in roles {
        let Some(node) = nodes.get(role.node).filter(|node| node.total_bytes > 0) else {
            let there = nodes.nodes.iter().filter(|node| node.total_bytes > 0);
            let there: Vec<String> = there.map(|node| node.id.to_string()).collect();
            bail!(
                "--node {}={}: there is no such node with memory; this machine has {}",
                role.target.name(),
                role.node,
                there.join(", ")
            );
        };
        if said.insert(role.target, node.id).is_some() {
            bail!("--node {} is given twice", role.target.name());
        }
    }
    Ok(said)
}

/// The largest node of CXL memory.
fn found_cxl(roots: &Roots, nodes: &Nodes) -> Option<u32> {
    let fabric = Fabric::read(roots);
    let found = fabric.cxl_nodes().filter_map(|cxl| nodes.get(cxl.id));
    let largest = found
        .filter(|node| node.total_bytes > 0)
        .max_by_key(|node| node.total_bytes);
    largest.map(|node| node.id)
}

/// The node with CPUs: the one nearest to CXL memory, else the one with most CPUs that we may use.
fn local(nodes: &Nodes, cxl: Option<u32>, allowed: &[u32]) -> Option<u32> {
    let near = cxl
        .and_then(|id| nodes.get(id))
        .and_then(|node| nearest_with_cpus(nodes, node));
    let usable = |node: &&Node| node.cpus.iter().filter(|cpu| allowed.contains(cpu)).count();
    let most = || {
        let with = nodes
            .nodes
            .iter()
            .filter(|node| node.has_cpus && node.total_bytes > 0);
        // The first of several: `max_by_key` would take the last.
        with.rev().max_by_key(usable)
    };
    near.filter(|node| node.total_bytes > 0)
        .or_else(most)
        .map(|node| node.id)
}

/// CPUs near the node, where there are two that we may use.
fn usable(allowed: &[u32], near: &[u32]) -> Vec<u32> {
    let both: Vec<u32> = allowed
        .iter()
        .copied()
        .filter(|cpu| near.contains(cpu))
        .collect();
    if both.len() < 2 {
        allowed.to_vec()
    } else {
        both
    }
}

/// One CPU of each core; with `all` its siblings behind them.
fn cores(usable: &[u32], all: bool, siblings: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for cpu in usable.iter().copied() {
        if siblings(cpu).iter().any(|other| first.contains(other)) {
            second.push(cpu)
        } else {
            first.push(cpu)
        }
    }
    if all {
        first.extend(second);
    }
    first
}

/// Memory of each thread and of the ring: both streams and a ring fit into half of what is free on each node.
fn memory(nodes: &[&Node], each: u32, cache: Option<u64>, said: Option<u64>) -> Result<(u64, u64)> {
    let threads = 2 * u64::from(each.max(1));
    let cache = cache.unwrap_or(0);
    let usual = (PER_CACHE.saturating_mul(cache) / u64::from(each.max(1))).max(THREAD_BYTES);
    let Some(tightest) = nodes.iter().min_by_key(|node| node.free_bytes) else {
        bail!("no node with memory is left to measure");
    };
    let grains = |bytes: u64| bytes / GRAIN_BYTES * GRAIN_BYTES;
    let room = tightest.free_bytes / 2;
    let ring =
        grains(PER_CACHE.saturating_mul(cache).min(room / 4)).clamp(RING_BYTES_MIN, RING_BYTES_MAX);
    let most = grains(room.saturating_sub(ring) / threads);
    let (id, free) = (tightest.id, tightest.free_bytes / MIB);
    if let Some(said) = said {
        ensure!(
            said <= most,
            "node {id} has {free} MiB free, and half of that is used at most: --memory {} MiB for each of {threads} \
             threads is too many",
            said / MIB
        );
    }
    let thread_bytes = said.unwrap_or(usual.min(most)).max(GRAIN_BYTES);
    ensure!(
        most >= THREAD_BYTES_MIN,
        "node {id} has {free} MiB free, too few for {threads} threads and a ring of {} MiB: free some memory \
         there, or use fewer --threads",
        ring / MIB
    );
    Ok((thread_bytes, ring))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, cpus: &[u32], free_bytes: u64, distances: &[(u32, u32)]) -> Node {
        Node {
            id,
            has_cpus: !cpus.is_empty(),
            cpus: cpus.to_vec(),
            total_bytes: free_bytes,
            free_bytes,
            distances: distances.iter().copied().collect(),
            reach: weir_linux::Reach::default(),
            blocks: Vec::new(),
        }
    }

    #[test]
    fn local_memory_is_next_to_cxl_memory() {
        let nodes = Nodes {
            block_bytes: None,
            nodes: vec![
                node(0, &[0, 1], MIB, &[(0, 10)]),
                node(1, &[2, 3], MIB, &[(1, 10)]),
                node(2, &[], MIB, &[(0, 40), (1, 20)]),
            ],
        };
        let all = [0, 1, 2, 3];
        assert_eq!(local(&nodes, Some(2), &all), Some(1));
        assert_eq!(local(&nodes, None, &all), Some(0));
        assert_eq!(local(&nodes, None, &[2, 3]), Some(1));
        let role = |node| NodeRole {
            target: StreamTarget::Cxl,
            node,
        };
        assert_eq!(
            said_nodes(&[role(2)], &nodes).unwrap()[&StreamTarget::Cxl],
            2
        );
        let said = said_nodes(&[role(7)], &nodes).unwrap_err().to_string();
        assert!(said.contains("cxl=7") && said.contains("0, 1, 2"), "{said}");
        assert!(
            said_nodes(&[role(1), role(2)], &nodes)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }

    #[test]
    fn siblings_stay_idle_unless_they_are_asked_for() {
        let siblings = |cpu: u32| vec![cpu % 4, cpu % 4 + 4];
        let all: Vec<u32> = (0..8).collect();
        assert_eq!(cores(&all, false, siblings), [0, 1, 2, 3]);
        assert_eq!(cores(&all, true, siblings), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(cores(&[2, 6, 7], false, siblings), [2, 7]);
        assert_eq!(usable(&[0, 1, 2], &[1, 2, 3]), [1, 2]);
        assert_eq!(usable(&[0, 1, 2], &[2]), [0, 1, 2]);
    }

    #[test]
    fn memory_fits_into_half_of_what_is_free() {
        for free_mib in (0..40_000).step_by(123) {
            for each in [1, 2, 16, 100] {
                let node = node(1, &[], free_mib * MIB, &[]);
                if let Ok((thread, ring)) = memory(&[&node], each, Some(32 * MIB), None) {
                    let total = ring + 2 * u64::from(each) * thread;
                    assert!(
                        total <= free_mib * MIB / 2 + RING_BYTES_MIN,
                        "{free_mib} {each}: {total}"
                    );
                    assert!(thread >= GRAIN_BYTES && thread % GRAIN_BYTES == 0);
                }
            }
        }
        let large = node(0, &[0], 1 << 40, &[]);
        assert_eq!(
            memory(&[&large], 2, Some(32 * MIB), None).unwrap(),
            (64 * MIB, 128 * MIB)
        );
        assert_eq!(
            memory(&[&large], 1, Some(320 * MIB), None).unwrap(),
            (1280 * MIB, 1024 * MIB)
        );
        let small = node(3, &[], 100 * MIB, &[]);
        let said = |said| {
            memory(&[&large, &small], 1, None, said)
                .unwrap_err()
                .to_string()
        };
        assert!(
            said(Some(64 * MIB)).contains("node 3") && said(Some(u64::MAX)).contains("--memory")
        );
        let none = memory(&[&node(3, &[], 0, &[])], 1, None, None)
            .unwrap_err()
            .to_string();
        assert!(none.contains("0 MiB free"), "{none}");
    }
}
