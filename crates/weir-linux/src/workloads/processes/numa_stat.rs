// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that is charged to a cgroup, by node (`memory.numa_stat`, Linux 5.10). It stands in where the maps
//! of processes cannot be read (see [`crate::workloads::processes`] for why they come first), and beside them
//! it knows what no map shows: pages of files that are read with read(2).
//!
//! ```text
//! unmapped = file − file_mapped
//! ```
//!
//! Shared memory is in both: a file there is charged to its writer, and while any process has it mapped, the
//! maps say whose it is. Pages of a file on a disk are charged to the cgroup that had them read. Huge pages
//! of hugetlb have files of their own (`hugetlb.SIZE.numa_stat`, Linux 5.17), and are never in `memory.*`.
//! Maps show those that are mapped: of huge pages alone, the larger of the two counts.

use super::Resident;
use super::numa_maps::{ELSEWHERE, add};
use crate::kernel::files::Buffer;
use crate::kernel::parse::cgroup::{Pages, numa_stat};
use crate::kernel::parse::{node_count, words};
use crate::workloads::cgroups::tree::Leaf;
use rustix::fd::BorrowedFd;
use std::collections::BTreeMap;
use weir_core::{Missing, Nanos, NodeId};

/// Less than this on a node fits into the caches of CPUs, and makes no workload a user of the node.
const LEAST_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Charged {
    at: Nanos,
    all: BTreeMap<NodeId, u64>,
    unmapped: BTreeMap<NodeId, u64>,
    huge: BTreeMap<NodeId, u64>,
}

/// Sizes of huge pages, as the kernel names them.
const HUGE_SIZES: [&str; 6] = ["2MB", "1GB", "64KB", "32MB", "512MB", "16GB"];

/// Reads it. Nodes that are not watched are [`ELSEWHERE`].
pub(crate) fn read(
    leaf: &Leaf,
    root: BorrowedFd<'_>,
    is_watched: impl Fn(NodeId) -> bool,
    at: Nanos,
    buffer: &mut Buffer,
) -> Result<Charged, Missing> {
    const FILE: &str = "memory.numa_stat";
    let mut sums: BTreeMap<NodeId, [u64; 3]> = BTreeMap::new();
    let read = leaf.read(root, buffer, FILE, |text| {
        numa_stat(text, |pages, node, bytes| {
            let node = Some(NodeId(node)).filter(|n| is_watched(*n));
            let of_node = sums.entry(node.unwrap_or(ELSEWHERE)).or_default();
            let sum = match pages {
                Pages::Anon => &mut of_node[0],
                Pages::File => &mut of_node[1],
                Pages::Mapped => &mut of_node[2],
            };
            *sum = sum.saturating_add(bytes);
        })
    });
    read.map_err(|why| why.into_missing(&leaf.file(FILE)))?;
    let mut huge: BTreeMap<NodeId, u64> = BTreeMap::new();
    for size in HUGE_SIZES {
        let file = format!("hugetlb.{size}.numa_stat");
        // Most hosts have one or two of them. A count that is none ends the line, and adds nothing.
        let _ = leaf.read(root, buffer, &file, |text| {
            for (node, bytes) in words(text).filter_map(node_count) {
                let node = Some(NodeId(node)).filter(|n| is_watched(*n));
                add(&mut huge, node.unwrap_or(ELSEWHERE), bytes?);
            }
            Ok(())
        });
    }
    let all = |[anon, file, _]: &[u64; 3]| anon.saturating_add(*file);
    let unmapped = |[_, file, mapped]: &[u64; 3]| file.saturating_sub(*mapped);
    Ok(Charged {
        at,
        all: sums.iter().map(|(node, of)| (*node, all(of))).collect(),
        unmapped: sums
            .iter()
            .map(|(node, of)| (*node, unmapped(of)))
            .collect(),
        huge,
    })
}

impl Charged {
    /// All of its bytes, huge pages included.
    fn bytes(&self) -> BTreeMap<NodeId, u64> {
        let mut bytes = self.all.clone();
        for (node, huge) in &self.huge {
            add(&mut bytes, *node, *huge);
        }
        bytes
    }

    /// The charged bytes as resident ones, in place of what maps would say.
    pub(crate) fn resident(&self) -> Resident {
        Resident {
            at: Some(self.at),
            bytes: self.bytes(),
            ..Resident::default()
        }
    }

    /// Where maps of some processes cannot be read: on each node what is more.
    pub(crate) fn add_unseen(&self, resident: &mut Resident) {
        for (node, bytes) in self.bytes() {
            let known = resident.bytes.entry(node).or_default();
            *known = (*known).max(bytes);
        }
        resident.missing = None;
    }

    /// Adds what no map shows.
    pub(crate) fn add_unmapped(&self, resident: &mut Resident) {
        for (node, charged) in &self.huge {
            let mapped = resident.huge.get(node).copied().unwrap_or(0);
            if *charged > mapped {
                add(&mut resident.bytes, *node, *charged - mapped);
            }
        }
        for (node, bytes) in &self.unmapped {
            if *bytes >= LEAST_BYTES || resident.bytes.contains_key(node) {
                add(&mut resident.bytes, *node, *bytes);
            }
        }
    }
}
