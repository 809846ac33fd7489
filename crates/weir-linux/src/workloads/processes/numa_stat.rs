// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is charged to a cgroup, by node (`memory.numa_stat`, Linux 5.10). It stands in where the maps
//! of processes cannot be read (see [`crate::workloads::processes`] for why they come first), and beside them
//! it knows what no map shows: pages of files that are read with read(2).
//!
//! ```text
//! unmapped = file − shmem − file_mapped
//! ```
//!
//! That is the least it can be, since mapped shared memory is taken off twice. A file in shared memory is
//! left out because it is charged to its writer and not to its readers. Pages of a file on a disk are charged
//! to the cgroup that had them read.

use super::Resident;
use super::numa_maps::ELSEWHERE;
use crate::kernel::files::Buffer;
use crate::kernel::parse::cgroup::{Pages, numa_stat};
use crate::workloads::cgroups::tree::Leaf;
use rustix::fd::BorrowedFd;
use std::collections::BTreeMap;
use weir_core::{Missing, Nanos, NodeId};

/// Less than this on a node fits into the caches of CPUs, and makes no workload a user of the node.
const LEAST_BYTES: u64 = 1 << 20;

/// What `memory.numa_stat` said.
#[derive(Debug)]
pub(crate) struct Charged {
    at: Nanos,
    all: BTreeMap<NodeId, u64>,
    unmapped: BTreeMap<NodeId, u64>,
}

/// Reads it. Nodes that are not watched are [`ELSEWHERE`].
pub(crate) fn read(
    leaf: &Leaf,
    root: BorrowedFd<'_>,
    is_watched: impl Fn(NodeId) -> bool,
    at: Nanos,
    buffer: &mut Buffer,
) -> Result<Charged, Missing> {
    const FILE: &str = "memory.numa_stat";
    let mut sums: BTreeMap<NodeId, [u64; 4]> = BTreeMap::new();
    let read = leaf.read(root, buffer, FILE, |text| {
        numa_stat(text, |pages, node, bytes| {
            let node = Some(NodeId(node)).filter(|n| is_watched(*n));
            let of_node = sums.entry(node.unwrap_or(ELSEWHERE)).or_default();
            let sum = match pages {
                Pages::Anon => &mut of_node[0],
                Pages::File => &mut of_node[1],
                Pages::Shared => &mut of_node[2],
                Pages::Mapped => &mut of_node[3],
            };
            *sum = sum.saturating_add(bytes);
        })
    });
    read.map_err(|why| why.into_missing(&leaf.file(FILE)))?;
    let all = |[anon, file, _, _]: &[u64; 4]| anon.saturating_add(*file);
    let unmapped =
        |[_, file, shared, mapped]: &[u64; 4]| file.saturating_sub(*shared).saturating_sub(*mapped);
    Ok(Charged {
        at,
        all: sums.iter().map(|(node, of)| (*node, all(of))).collect(),
        unmapped: sums
            .iter()
            .map(|(node, of)| (*node, unmapped(of)))
            .collect(),
    })
}

impl Charged {
    /// As what is resident, in place of what maps would say.
    pub(crate) fn resident(&self) -> Resident {
        Resident {
            at: Some(self.at),
            bytes: self.all.clone(),
            ..Resident::default()
        }
    }

    /// Where maps of some processes cannot be read: on each node what is more.
    pub(crate) fn add_unseen(&self, resident: &mut Resident) {
        for (node, bytes) in &self.all {
            let known = resident.bytes.entry(*node).or_default();
            *known = (*known).max(*bytes);
        }
        resident.missing = None;
    }

    /// Adds what no map shows.
    pub(crate) fn add_unmapped(&self, resident: &mut Resident) {
        for (node, bytes) in &self.unmapped {
            if *bytes >= LEAST_BYTES || resident.bytes.contains_key(node) {
                let sum = resident.bytes.entry(*node).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
    }
}
