// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a measurement takes place: which device, which node of it, on which CPUs, in how much memory.

use super::cli::CalibrateArgs;
use anyhow::{Context, Result, bail, ensure};
use weir_core::Bytes;
use weir_core::seam::topology::{Device, Group};
use weir_figures::text::harmless;
use weir_linux::{Node, Nodes, Roots, Traffic, cpu_topology};

const MIB: u64 = 1 << 20;
/// Size of a huge page: buffers are whole ones.
const GRAIN_BYTES: u64 = 2 * MIB;
/// Bytes for each thread, unless the operator says how many.
const THREAD_BYTES: u64 = 64 * MIB;
/// The ring that latency is measured on is this many times the last-level cache, so that hardly a line of it
/// is there when its turn comes.
const RING_PER_CACHE: u64 = 4;
const RING_BYTES_MAX: u64 = 1024 * MIB;
const RING_BYTES_MIN: u64 = 8 * MIB;
/// More threads load no device better; they only take memory.
const THREADS_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    pub device: Device,
    /// Bytes of all memory of the device.
    pub device_bytes: u64,
    /// The node with the memory that is used.
    pub node: u32,
    /// The node next to the CPUs that are used, and what of it may be used for comparison.
    pub cpu_node: Option<(u32, u64)>,
    pub probe_cpu: u32,
    /// CPUs that load, one thread each.
    pub load_cpus: Vec<u32>,
    /// Memory of the ring that latency is measured on.
    pub ring_bytes: u64,
    /// Memory of each loading thread.
    pub thread_bytes: u64,
    /// The last-level cache, where it is known.
    pub cache_bytes: Option<u64>,
}

impl Placement {
    /// Chooses it.
    ///
    /// # Errors
    /// There is no such device or node, too few CPUs, or too little memory.
    pub fn choose(args: &CalibrateArgs, roots: &Roots, traffic: &Traffic) -> Result<Placement> {
        let nodes = Nodes::read(roots).context("cannot read the nodes of this machine")?;
        let device = device(args, traffic)?;
        let groups: Vec<&Group> = traffic
            .groups()
            .iter()
            .filter(|g| g.id.device == device.id)
            .collect();
        let node = node(args, &nodes, device, &groups)?;
        let near = nearest_with_cpus(&nodes, node);
        let allowed = weir_bench::cpu::allowed()?;
        let near_cpus = near.map(|near| &near.cpus[..]).unwrap_or_default();
        let (probe_cpu, load_cpus) = cpus(args.threads, &allowed, near_cpus, |cpu| {
            cpu_topology::siblings(roots, cpu)
        })?;
        let cache_bytes = cpu_topology::last_cache_bytes(roots, probe_cpu);
        let wanted = args.memory.map(|size| size.0);
        let (ring_bytes, thread_bytes) = share(wanted, node, load_cpus.len() as u64, cache_bytes)?;
        Ok(Placement {
            device: device.clone(),
            device_bytes: groups
                .iter()
                .map(|g| g.size_bytes.0)
                .fold(0, u64::saturating_add),
            node: node.id,
            cpu_node: near.map(|near| (near.id, near.free_bytes / 4)),
            probe_cpu,
            load_cpus,
            ring_bytes,
            thread_bytes,
            cache_bytes,
        })
    }
}

fn device<'a>(args: &CalibrateArgs, traffic: &'a Traffic) -> Result<&'a Device> {
    let devices = traffic.devices();
    let names = || {
        let name = |d: &Device| format!("{} ({})", d.id, harmless(&d.name));
        devices.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    if let Some(wanted) = args.device_name()? {
        let is_it = |d: &&Device| d.id.to_string() == wanted || d.name == wanted;
        let found = devices.iter().find(is_it);
        return found
            .with_context(|| format!("there is no device {wanted}: this machine has {}", names()));
    }
    if let (Some(wanted), true) = (args.node(), devices.len() > 1) {
        let on = |g: &&Group| g.node.is_some_and(|n| n.0 == wanted);
        let group = traffic.groups().iter().find(on);
        let found = group.and_then(|g| devices.iter().find(|d| d.id == g.id.device));
        return found
            .with_context(|| format!("no device has node {wanted}: this machine has {}", names()));
    }
    match devices {
        [only] => Ok(only),
        _ => bail!(
            "which device? this machine has {}: say --device NAME",
            names()
        ),
    }
}

fn node<'a>(
    args: &CalibrateArgs,
    nodes: &'a Nodes,
    device: &Device,
    groups: &[&Group],
) -> Result<&'a Node> {
    let numbers: Vec<u32> = groups.iter().filter_map(|g| g.node.map(|n| n.0)).collect();
    let name = format!("{} ({})", device.id, harmless(&device.name));
    ensure!(
        !numbers.is_empty(),
        "{name} has no node: bring its memory online as system RAM, or name its node with --device node:N; `weir doctor` \
         says which"
    );
    if let Some(wanted) = args.node() {
        let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        ensure!(
            numbers.contains(&wanted),
            "{name} is not on node {wanted}: its nodes are {}",
            list.join(", ")
        );
        return nodes
            .get(wanted)
            .with_context(|| format!("node {wanted} is not online"));
    }
    let online = numbers.iter().filter_map(|n| nodes.get(*n));
    online
        .max_by_key(|n| n.free_bytes)
        .with_context(|| format!("no node of {name} is online"))
}

/// The node with CPUs from which the way is shortest, as firmware says.
pub fn nearest_with_cpus<'a>(nodes: &'a Nodes, node: &Node) -> Option<&'a Node> {
    let with = nodes
        .nodes
        .iter()
        .filter(|n| n.has_cpus && !n.cpus.is_empty());
    with.min_by_key(|n| node.distances.get(&n.id).copied().unwrap_or(u32::MAX))
}

/// The CPU that measures and those that load. They are near the device where the affinity mask allows it.
/// Each is on a core of its own as long as there are cores. The core that measures is shared last.
fn cpus(
    threads: Option<u32>,
    allowed: &[u32],
    near: &[u32],
    siblings: impl Fn(u32) -> Vec<u32>,
) -> Result<(u32, Vec<u32>)> {
    let mut usable: Vec<u32> = allowed
        .iter()
        .copied()
        .filter(|cpu| near.contains(cpu))
        .collect();
    if usable.len() < 2 {
        usable = allowed.to_vec();
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for cpu in usable {
        let is_taken = siblings(cpu).iter().any(|other| first.contains(other));
        if is_taken {
            second.push(cpu)
        } else {
            first.push(cpu)
        }
    }
    // Interrupts are mostly answered by the first CPUs.
    let Some(probe) = first.pop() else {
        bail!("no CPU may be used");
    };
    let beside = siblings(probe);
    let cores = first.len().max(usize::from(!second.is_empty()));
    let (beside, second): (Vec<u32>, Vec<u32>) =
        second.into_iter().partition(|cpu| beside.contains(cpu));
    let mut all = first;
    all.extend(second);
    all.extend(beside);
    ensure!(
        !all.is_empty(),
        "one CPU is too few: one thread measures while others load; give weir more CPUs (taskset, cpuset.cpus)"
    );
    let most = all.len();
    let count = match threads {
        Some(n) => usize::try_from(n)?,
        None => cores.min(THREADS_MAX),
    };
    ensure!(
        count <= most,
        "--threads {count} is too many: {most} CPUs near the device are left for loading"
    );
    all.truncate(count);
    Ok((probe, all))
}

/// Memory of the ring and of each thread.
fn share(wanted: Option<u64>, node: &Node, threads: u64, cache: Option<u64>) -> Result<(u64, u64)> {
    let free = node.free_bytes;
    let usual = (threads + 1)
        .saturating_mul(THREAD_BYTES)
        .max(cache.unwrap_or(0).saturating_mul(2 * RING_PER_CACHE));
    let total = match wanted {
        Some(bytes) => bytes,
        None => usual.min(free / 4),
    };
    let least = RING_BYTES_MIN + threads * GRAIN_BYTES;
    let (id, has) = (node.id, Bytes(free));
    ensure!(
        total <= free / 2,
        "node {id} has {has} free, and half of that is the most that is used: {} are too many",
        Bytes(total)
    );
    ensure!(
        total >= least,
        "{} of node {id} are too few for {threads} threads, which need {} (it has {has} free, a quarter of which is \
         used unless --memory says more): free some memory there, or use fewer --threads",
        Bytes(total),
        Bytes(least)
    );
    let grains = |bytes: u64| bytes / GRAIN_BYTES * GRAIN_BYTES;
    let ring = RING_PER_CACHE
        .saturating_mul(cache.unwrap_or(0))
        .clamp(2 * RING_BYTES_MIN, RING_BYTES_MAX);
    // Half, and never what the threads need at least.
    let room = (total / 2).min(total - threads * GRAIN_BYTES);
    let ring = grains(ring.min(room)).max(RING_BYTES_MIN);
    let each = grains((total - ring) / threads.max(1)).clamp(GRAIN_BYTES, THREAD_BYTES);
    Ok((ring, each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_thread_has_a_core_and_the_probe_is_alone() {
        // Four cores of two threads: 0-3 and 4-7.
        let siblings = |cpu: u32| vec![cpu % 4, cpu % 4 + 4];
        let all: Vec<u32> = (0..8).collect();
        let seen = |threads, allowed: &[u32], near: &[u32]| cpus(threads, allowed, near, siblings);
        assert_eq!(seen(None, &all, &all).unwrap(), (3, vec![0, 1, 2]));
        assert_eq!(
            seen(Some(7), &all, &all).unwrap(),
            (3, vec![0, 1, 2, 4, 5, 6, 7])
        );
        assert_eq!(seen(None, &all, &[1, 2, 5, 6]).unwrap(), (2, vec![1]));
        // Nothing near that we may use: anywhere.
        assert_eq!(seen(None, &[4, 5], &[0, 1]).unwrap(), (5, vec![4]));
        // Two threads of one core are better than nothing.
        assert_eq!(seen(None, &[1, 5], &all).unwrap(), (1, vec![5]));
        let said = |threads, allowed: &[u32]| seen(threads, allowed, &all).unwrap_err().to_string();
        assert!(said(None, &[3]).contains("one CPU is too few"));
        assert!(said(Some(8), &all).contains("7 CPUs"));
        assert!(said(None, &[]).contains("no CPU"));
    }

    fn free(bytes: u64) -> Node {
        Node {
            id: 2,
            has_cpus: false,
            cpus: Vec::new(),
            total_bytes: bytes,
            free_bytes: bytes,
            distances: BTreeMap::new(),
            reach: weir_linux::Reach::default(),
            blocks: Vec::new(),
        }
    }

    #[test]
    fn never_more_than_a_share_of_what_is_free() {
        for threads in [1, 3, 16, 64] {
            for cache in [None, Some(MIB), Some(32 * MIB), Some(u64::MAX)] {
                for free_mib in (0..4096).step_by(97) {
                    let node = free(free_mib * MIB);
                    if let Ok((ring, each)) = share(None, &node, threads, cache) {
                        assert!(
                            ring + threads * each <= node.free_bytes / 4,
                            "{free_mib} {threads}"
                        );
                        assert!(each <= THREAD_BYTES && ring >= RING_BYTES_MIN);
                    }
                }
            }
        }
        assert_eq!(
            share(None, &free(1 << 40), 3, Some(32 * MIB)).unwrap(),
            (128 * MIB, 42 * MIB)
        );
    }

    #[test]
    fn too_little_memory_says_how_much_and_where() {
        let said = |wanted, free_mib| {
            share(wanted, &free(free_mib * MIB), 4, None)
                .unwrap_err()
                .to_string()
        };
        let few = said(None, 40);
        assert!(few.contains("node 2") && few.contains("--threads"), "{few}");
        let many = said(Some(600 * MIB), 1000);
        assert!(many.contains("half"), "{many}");
        assert!(said(Some(u64::MAX), 1000).contains("half"));
        assert!(said(Some(1), 1000).contains("too few"));
    }
}
