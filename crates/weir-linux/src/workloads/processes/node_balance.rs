// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The balance of a node: what is in use there, and what workloads are known to have of it.
//!
//! ```text
//! unowned = AnonPages + FilePages + huge pages in use − Σ memory of workloads on the node
//! ```
//!
//! What is left has users that weir does not see, or sees with too little memory: a new workload, memory that
//! grew since it was read, page cache of the root cgroup, a device that reads by DMA. While that is more than
//! [`TOLERANCE_BYTES`] and [`TOLERANCE_PART`] of the node's use, no figure of its groups is a count: part of
//! the traffic is taken to be of these pages. A file that two workloads have mapped is known twice, so that
//! less is unowned than there is, and never more.

use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::files::{Buffer, for_each_dir, open_dir, open_root};
use crate::kernel::parse::decimal;
use crate::kernel::parse::sysfs::node_figure;
use crate::options::Options;
use crate::workloads::view::View;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use weir_core::seam::observation::{Skipped, UnownedMemory};
use weir_core::{Bytes, GroupId, Missing, NodeId};

/// Less than this is no gap: lists of pages on the CPUs, and what changed since memory was read.
const TOLERANCE_BYTES: u64 = 16 << 20;
/// Nor is less than one part in this many of what is in use.
const TOLERANCE_PART: u64 = 50;
/// Sizes of huge pages that a node may have.
const SIZES_MAX: usize = 64;

/// The nodes, where the balance is kept.
#[derive(Default)]
pub(crate) struct NodeBalance {
    /// `/sys/devices/system/node`.
    nodes: Option<OwnedFd>,
}

impl NodeBalance {
    /// Where weir limits there is none: memory that grew since it was read would change limits.
    pub(crate) fn of(options: &Options) -> NodeBalance {
        let nodes = options.roots.sys.join("devices/system/node");
        NodeBalance {
            nodes: options.read_only.then(|| open_root(&nodes).ok()).flatten(),
        }
    }

    /// Notes in a view what no workload of it has on the nodes of `groups`. Nothing is said of a node of
    /// which a part is not known.
    pub(crate) fn note(&self, groups: &[GroupOnNode], view: &mut View, buffer: &mut Buffer) {
        let Some(nodes) = &self.nodes else {
            return;
        };
        let mut known: BTreeMap<GroupId, Option<u64>> = BTreeMap::new();
        for use_ in view.workloads.iter().flat_map(|w| w.uses.iter()) {
            let sum = known.entry(use_.group).or_insert(Some(0));
            let both = sum.zip(use_.resident_bytes.ok());
            *sum = both.and_then(|(sum, bytes)| sum.checked_add(bytes.0));
        }
        let mut by_node: BTreeMap<NodeId, Vec<&GroupOnNode>> = BTreeMap::new();
        for group in groups {
            by_node.entry(group.node).or_default().push(group);
        }
        for (node, there) in by_node {
            let part = |g: &&GroupOnNode| known.get(&g.group).copied().unwrap_or(Some(0));
            let Some(owned) = there.iter().map(part).sum::<Option<u64>>() else {
                continue;
            };
            let Some(used) = in_use(nodes, node, buffer) else {
                continue;
            };
            let left = used.saturating_sub(owned);
            if left <= TOLERANCE_BYTES.max(used / TOLERANCE_PART) {
                continue;
            }
            view.unowned.extend(there.iter().map(|group| UnownedMemory {
                group: group.group,
                // 0 ≤ part ≤ 1, so the product fits.
                bytes: Bytes((left as f64 * group.part) as u64),
            }));
            let (left, used) = (Bytes(left), Bytes(used));
            let why = format!(
                "{left} of the {used} in use there belong to no workload that weir sees: part of its traffic \
                 is unattributed, and the figures of the others are estimates"
            );
            view.skipped.push(Skipped {
                what: format!("node{}", node.0),
                why: Missing::Lost(why),
            });
        }
        view.unowned.sort_by_key(|memory| memory.group);
    }
}

/// Bytes of a node that are in use by programs.
fn in_use(nodes: &OwnedFd, node: NodeId, buffer: &mut Buffer) -> Option<u64> {
    let dir = open_dir(nodes, format!("node{}", node.0).as_bytes()).ok()?;
    let text = buffer.read_once_at(&dir, "meminfo").ok()?;
    let figure = |name: &str| node_figure(text, name.as_bytes());
    let pages = figure("AnonPages:").zip(figure("FilePages:"));
    let all = figure("MemTotal:").zip(figure("MemFree:"));
    let huge = huge_pages(&dir, buffer);
    match (pages, all) {
        (Some((anon, file)), _) => anon.checked_add(file)?.checked_add(huge.used),
        // An old kernel, or one that says less: what the kernel has itself is in it too.
        (None, Some((total, free))) => Some(total.saturating_sub(free).saturating_sub(huge.free)),
        (None, None) => None,
    }
}

/// Bytes of huge pages on a node.
#[derive(Default)]
struct HugePages {
    used: u64,
    free: u64,
}

fn huge_pages(node: &OwnedFd, buffer: &mut Buffer) -> HugePages {
    let mut found = HugePages::default();
    let Ok(dir) = open_dir(node, b"hugepages") else {
        return found;
    };
    let mut sizes = Vec::new();
    // A size that is not seen makes the rest look larger by it: no workload is charged for more.
    let _ = for_each_dir(&dir, SIZES_MAX, |name| sizes.push(name.to_vec()));
    for name in sizes {
        let kib = name
            .strip_prefix(b"hugepages-")
            .and_then(|n| n.strip_suffix(b"kB"));
        let (Some(Ok(kib)), Ok(size)) = (kib.map(decimal), open_dir(&dir, &name)) else {
            continue;
        };
        let mut count = |file: &str| -> u64 {
            let text = buffer.read_once_at(&size, file);
            text.ok()
                .and_then(|text| decimal(text.trim_ascii()).ok())
                .unwrap_or(0)
        };
        let (all, free) = (count("nr_hugepages"), count("free_hugepages"));
        let bytes = |pages: u64| pages.saturating_mul(kib).saturating_mul(1024);
        found.free = found.free.saturating_add(bytes(free));
        found.used = found.used.saturating_add(bytes(all.saturating_sub(free)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::options::By;
    use crate::workloads::discovery::tests::{FIO, SECOND, discovery_with, watched};
    use weir_core::Nanos;

    const MIB: u64 = 1 << 20;

    fn meminfo(fake: &Fake, lines: &[(&str, u64)]) {
        let line = |(name, mib): &(&str, u64)| format!("Node 1 {name}: {} kB\n", mib * 1024);
        let text: String = lines.iter().map(line).collect();
        fake.write("sys/devices/system/node/node1/meminfo", text);
    }

    /// Of the node, in MiB, after the workloads of [`Fake::new`] (64 MiB there).
    fn left(fake: &Fake) -> Option<u64> {
        let mut discovery = discovery_with(fake, false, &[]);
        discovery.balance = NodeBalance::of(&Options {
            read_only: true,
            ..fake.options(By::Cgroup)
        });
        let view = discovery.round(Nanos(SECOND));
        assert!(!watched(&view, FIO).uses.is_empty());
        let is_said = view.skipped.iter().any(|note| note.what == "node1");
        assert_eq!(is_said, !view.unowned.is_empty());
        view.unowned.first().map(|memory| memory.bytes.0 / MIB)
    }

    #[test]
    fn what_no_workload_has_is_unowned() {
        let fake = Fake::new();
        let pages = |anon, file| {
            [
                ("MemTotal", 512),
                ("MemFree", 9),
                ("AnonPages", anon),
                ("FilePages", file),
            ]
        };
        meminfo(&fake, &pages(0, 64));
        assert_eq!(left(&fake), None, "the balance closes");
        meminfo(&fake, &pages(10, 70));
        assert_eq!(left(&fake), None, "within the tolerance");
        meminfo(&fake, &pages(100, 164));
        assert_eq!(left(&fake), Some(200));
        // Huge pages in use are in neither.
        let size = "sys/devices/system/node/node1/hugepages/hugepages-2048kB";
        fake.write(format!("{size}/nr_hugepages"), "100\n");
        fake.write(format!("{size}/free_hugepages"), "70\n");
        meminfo(&fake, &pages(0, 64));
        assert_eq!(left(&fake), Some(60));
        meminfo(&fake, &[("MemTotal", 512), ("MemFree", 512 - 64 - 140)]);
        assert_eq!(left(&fake), None, "free huge pages are free");
        meminfo(&fake, &[("MemTotal", 512)]);
        assert_eq!(left(&fake), None, "nothing is known");
    }
}
