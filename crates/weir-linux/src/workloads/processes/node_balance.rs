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
//!
//! *Where weir limits*, only what has come since the last round of discovery is unowned ([`NodeGrowth`]).
//! What has been there longer would be taken off what there is to divide, and is mostly such that nothing
//! reads: code of programs, logs. What moves bytes without an owner shows in CPU time that does not explain
//! them.

use super::rescan::SCAN_EVERY;
use crate::inventory::group_nodes::GroupOnNode;
use crate::kernel::clock::now;
use crate::kernel::files::{Buffer, for_each_dir, open_dir, open_root};
use crate::kernel::parse::decimal;
use crate::kernel::parse::sysfs::node_figure;
use crate::options::Options;
use crate::workloads::discovery::{View, Watched};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::seam::observation::{Skipped, UnownedMemory};
use weir_core::{Bytes, GroupId, Missing, Nanos, NodeId};

/// Less than this is no gap: lists of pages on the CPUs, and what changed since memory was read.
const TOLERANCE_BYTES: u64 = 16 << 20;
/// Nor is less than one part in this many of what is in use.
const TOLERANCE_PART: u64 = 50;
/// Time between two reads of the huge pages in use. There is a file for each size and node, and what they say
/// changes seldom.
const HUGE_PAGES_EVERY: Nanos = Nanos::from_millis(1000);
/// Sizes of huge pages that a node may have.
const SIZES_MAX: usize = 64;

/// What is said while memory has come and weir limits.
const CAME: &str = "memory has come there since workloads were looked for: it is not known which moves what \
                    until they are looked for again, in a moment";

/// What workloads have in a group, as discovery has found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedMemory {
    place: GroupOnNode,
    /// In bytes; nothing where that of one workload is not known.
    bytes: Option<u64>,
}

impl OwnedMemory {
    /// What the group has of so many unowned bytes of its node.
    fn unowned(&self, bytes: u64, is_new: bool) -> UnownedMemory {
        UnownedMemory {
            group: self.place.group,
            // 0 ≤ part ≤ 1, so the product fits.
            bytes: Bytes((bytes as f64 * self.place.part) as u64),
            is_new,
        }
    }
}

/// What these workloads have in each of `groups`, ordered by group.
pub(crate) fn owned(groups: &[GroupOnNode], workloads: &[Arc<Watched>]) -> Vec<OwnedMemory> {
    let mut known: BTreeMap<GroupId, Option<u64>> = BTreeMap::new();
    for use_ in workloads.iter().flat_map(|w| w.uses.iter()) {
        let sum = known.entry(use_.group).or_insert(Some(0));
        let both = sum.zip(use_.resident_bytes.ok());
        *sum = both.and_then(|(sum, bytes)| sum.checked_add(bytes.0));
    }
    let of = |place: &GroupOnNode| OwnedMemory {
        place: *place,
        bytes: known.get(&place.group).copied().unwrap_or(Some(0)),
    };
    let mut owned: Vec<OwnedMemory> = groups.iter().map(of).collect();
    owned.sort_by_key(|memory| memory.place.group);
    owned
}

/// The balance of all nodes with groups. What is in use is read at each tick, so that pages of a workload
/// that has just come belong to no other.
#[derive(Default)]
pub(crate) struct NodeBalance {
    /// `/sys/devices/system/node`.
    nodes: Option<OwnedFd>,
    /// What was unowned of each node after the last search for its owner, or has been the least since.
    settled: BTreeMap<NodeId, u64>,
    /// Huge pages of each node, and when they were read.
    huge: BTreeMap<NodeId, (Nanos, HugePages)>,
    search: OwnerSearch,
    round: u64,
    growth: Option<NodeGrowth>,
}

/// Memory that has come since the last round of discovery. It may belong to a workload that has just started,
/// or to one that has grown: until the next round, which then is to come early, no figure there is known, and
/// limits stand. A round takes CPU time from limited tasks: this is done at most once in [`SCAN_EVERY`], and
/// no memory is read again for it.
#[derive(Default)]
struct NodeGrowth {
    /// What was unowned of each node when the round was new.
    before: BTreeMap<NodeId, u64>,
    /// The round after which memory came last, and when it did.
    noted: Option<(u64, Nanos)>,
    wants_round: bool,
}

impl NodeGrowth {
    /// What has come. `left` is unowned now, if that is known; `is_new` says that the round is.
    fn came(&mut self, node: NodeId, left: Option<u64>, is_new: bool) -> u64 {
        let Some(left) = left else {
            self.before.remove(&node);
            return 0;
        };
        if is_new {
            self.before.insert(node, left);
        }
        left.saturating_sub(*self.before.entry(node).or_insert(left))
    }

    /// Whether figures wait for the round after this one.
    fn waits(&mut self, round: u64) -> bool {
        let at = now();
        match self.noted {
            Some((known, _)) if known == round => true,
            Some((_, then)) if at.0.saturating_sub(then.0) < SCAN_EVERY.0 => false,
            _ => {
                (self.noted, self.wants_round) = (Some((round, at)), true);
                true
            }
        }
    }
}

/// Whether owners of memory that has come are searched.
#[derive(Clone, Copy, Default)]
enum OwnerSearch {
    #[default]
    None,
    Wanted,
    /// Views that were made after it have at least this number.
    Ordered {
        number: u64,
        at: Nanos,
    },
}

impl NodeBalance {
    pub(crate) fn of(options: &Options) -> NodeBalance {
        let nodes = options.roots.sys.join("devices/system/node");
        NodeBalance {
            nodes: open_root(&nodes).ok(),
            growth: (!options.read_only).then(NodeGrowth::default),
            ..NodeBalance::default()
        }
    }

    /// What no workload of `view` has on the nodes of its groups, ordered by group. Nothing is said of a node
    /// of which a part is not known.
    pub(crate) fn read(
        &mut self,
        view: &View,
        skipped: &mut Vec<Skipped>,
        buffer: &mut Buffer,
    ) -> Vec<UnownedMemory> {
        let mut unowned = Vec::new();
        let Some(nodes) = &self.nodes else {
            return unowned;
        };
        let is_searched = match self.search {
            OwnerSearch::Ordered { number, .. } => view.watched >= number,
            OwnerSearch::None | OwnerSearch::Wanted => false,
        };
        // Workloads that have ended are in the view until the next round, and make the rest look small.
        let is_new = view.round != self.round;
        self.round = view.round;
        for (node, there) in by_node(&view.owned) {
            let owned = there.iter().map(|of| of.bytes).sum::<Option<u64>>();
            let used = owned.and_then(|_| in_use(nodes, node, &mut self.huge, buffer));
            let sums = owned
                .zip(used)
                .map(|(o, used)| (used.saturating_sub(o), used));
            let tolerance = sums.map_or(0, |(_, used)| TOLERANCE_BYTES.max(used / TOLERANCE_PART));
            let mut say = |why: String| {
                skipped.push(Skipped {
                    what: format!("node{}", node.0),
                    why: Missing::Lost(why),
                });
            };
            if let Some(growth) = &mut self.growth {
                let came = growth.came(node, sums.map(|(left, _)| left), is_new);
                if came > tolerance && growth.waits(view.round) {
                    unowned.extend(there.iter().map(|of| of.unowned(came, true)));
                    say(CAME.into());
                }
                continue;
            }
            let Some((left, used)) = sums else {
                continue;
            };
            let settled = self.settled.entry(node).or_insert(0);
            if is_searched || (is_new && left < *settled) {
                *settled = left;
            }
            let came = left.saturating_sub(*settled);
            if left <= tolerance {
                continue;
            }
            if came > TOLERANCE_BYTES && matches!(self.search, OwnerSearch::None) {
                self.search = OwnerSearch::Wanted;
            }
            unowned.extend(there.iter().map(|of| of.unowned(left, false)));
            let (left, used) = (Bytes(left), Bytes(used));
            say(format!(
                "{left} of the {used} in use there belong to no workload that weir sees: part of its traffic \
                 is unattributed, and the figures of the others are estimates"
            ));
        }
        if let OwnerSearch::Ordered { at, .. } = self.search
            && is_searched
            && now().0.saturating_sub(at.0) >= SCAN_EVERY.0
        {
            self.search = OwnerSearch::None;
        }
        unowned.sort_by_key(|memory| memory.group);
        unowned
    }

    /// Memory has come while weir limits, and the next round of discovery should come soon. Says so once.
    pub(crate) fn wants_round(&mut self) -> bool {
        let growth = self.growth.as_mut();
        growth.is_some_and(|growth| std::mem::take(&mut growth.wants_round))
    }

    /// Memory has come whose owner is to be searched.
    pub(crate) fn wants_search(&self) -> bool {
        matches!(self.search, OwnerSearch::Wanted)
    }

    /// A search was ordered: views that are made after it have at least this number.
    pub(crate) fn searches(&mut self, number: u64) {
        self.search = OwnerSearch::Ordered { number, at: now() };
    }
}

fn by_node(owned: &[OwnedMemory]) -> BTreeMap<NodeId, Vec<&OwnedMemory>> {
    let mut by_node: BTreeMap<NodeId, Vec<&OwnedMemory>> = BTreeMap::new();
    for memory in owned {
        by_node.entry(memory.place.node).or_default().push(memory);
    }
    by_node
}

/// Bytes of a node that are in use by programs.
fn in_use(
    nodes: &OwnedFd,
    node: NodeId,
    kept: &mut BTreeMap<NodeId, (Nanos, HugePages)>,
    buffer: &mut Buffer,
) -> Option<u64> {
    let dir = open_dir(nodes, format!("node{}", node.0).as_bytes()).ok()?;
    let text = buffer.read_once_at(&dir, "meminfo").ok()?;
    let figure = |name: &str| node_figure(text, name.as_bytes());
    let pages = figure("AnonPages:").zip(figure("FilePages:"));
    let all = figure("MemTotal:").zip(figure("MemFree:"));
    let at = now();
    let is_recent = |then: Nanos| at.0.saturating_sub(then.0) < HUGE_PAGES_EVERY.0;
    let huge = match kept.get(&node) {
        Some((then, huge)) if is_recent(*then) => *huge,
        _ => {
            let huge = huge_pages(&dir, buffer);
            kept.insert(node, (at, huge));
            huge
        }
    };
    match (pages, all) {
        (Some((anon, file)), _) => anon.checked_add(file)?.checked_add(huge.used),
        // An old kernel, or one that says less: what the kernel has itself is in it too.
        (None, Some((total, free))) => Some(total.saturating_sub(free).saturating_sub(huge.free)),
        (None, None) => None,
    }
}

/// Bytes of huge pages on a node.
#[derive(Clone, Copy, Default)]
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

    fn balance_of(fake: &Fake) -> NodeBalance {
        NodeBalance::of(&Options {
            read_only: true,
            ..fake.options(By::Cgroup)
        })
    }

    /// Where weir limits: what has come, and no search for it.
    #[test]
    fn where_weir_limits_only_what_has_come_since_the_last_round_is_unowned() {
        let fake = Fake::new();
        let in_use = |mib| meminfo(&fake, &[("AnonPages", mib), ("FilePages", 64)]);
        in_use(300);
        let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
        let of_round = |round| View {
            round,
            owned: view.owned.clone(),
            ..View::default()
        };
        let mut balance = NodeBalance::of(&fake.options(By::Cgroup));
        let mut came = |mib, round| {
            in_use(mib);
            let found = unowned(&mut balance, &of_round(round));
            assert!(!balance.wants_search());
            (found, balance.wants_round())
        };
        assert_eq!(came(300, 1), (None, false), "it has been there before");
        assert_eq!(came(316, 1), (None, false), "within the tolerance");
        assert_eq!(came(340, 1), (Some(40), true));
        assert_eq!(came(350, 1), (Some(50), false), "a round is on its way");
        assert_eq!(came(350, 2), (None, false), "that round has looked");
        assert_eq!(came(400, 2), (None, false), "not again so soon");
        if let Some(growth) = &mut balance.growth {
            growth.noted = Some((1, Nanos(0)));
        }
        let unknown = View {
            round: 3,
            owned: owned_by_none(&view),
            ..View::default()
        };
        assert_eq!(unowned(&mut balance, &unknown), None);
        in_use(450);
        assert_eq!(
            unowned(&mut balance, &of_round(3)),
            None,
            "since when is not known"
        );
        in_use(480);
        assert_eq!(unowned(&mut balance, &of_round(3)), Some(30));
        assert!(balance.wants_round());
    }

    /// It is not known what one of the workloads has.
    fn owned_by_none(view: &View) -> Vec<OwnedMemory> {
        let unknown = |of: &OwnedMemory| OwnedMemory { bytes: None, ..*of };
        view.owned.iter().map(unknown).collect()
    }

    /// What is left without an owner, in MiB.
    fn unowned(balance: &mut NodeBalance, view: &View) -> Option<u64> {
        let mut skipped = Vec::new();
        let unowned = balance.read(view, &mut skipped, &mut Buffer::new());
        let is_said = skipped.iter().any(|note| note.what == "node1");
        assert_eq!(is_said, !unowned.is_empty());
        unowned.first().map(|memory| memory.bytes.0 / MIB)
    }

    /// What is left of the node, in MiB, after the workloads of [`Fake::new`], which have 64 MiB there.
    fn left(fake: &Fake) -> Option<u64> {
        let view = discovery_with(fake, false, &[]).round(Nanos(SECOND));
        assert!(!watched(&view, FIO).uses.is_empty());
        unowned(&mut balance_of(fake), &view)
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

    /// Pages of a workload that has just come belong to no workload at first, and are searched for once.
    #[test]
    fn what_comes_between_two_looks_is_unowned_and_searched() {
        let fake = Fake::new();
        let in_use = |mib| meminfo(&fake, &[("AnonPages", mib), ("FilePages", 64)]);
        in_use(0);
        let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
        let mut balance = balance_of(&fake);
        assert_eq!(unowned(&mut balance, &view), None);
        assert!(!balance.wants_search());
        in_use(300);
        assert_eq!(unowned(&mut balance, &view), Some(300));
        assert!(balance.wants_search());
        balance.searches(1);
        assert_eq!(unowned(&mut balance, &view), Some(300));
        let searched = View {
            watched: 1,
            owned: view.owned.clone(),
            ..View::default()
        };
        // It is nowhere: the search is not made again and again.
        for _ in 0..3 {
            assert_eq!(unowned(&mut balance, &searched), Some(300));
            assert!(!balance.wants_search());
            balance.search = OwnerSearch::None;
        }
        in_use(340);
        assert_eq!(unowned(&mut balance, &searched), Some(340));
        assert!(balance.wants_search());
    }
}
