// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one process has mapped, summed up from its `numa_maps`: by node, and files apart, so that one that
//! several processes have mapped can count once.

use crate::inventory::numa::missing;
use crate::options::{By, Roots};
use std::collections::BTreeMap;
use weir_core::NodeId;
use weir_core::seam::topology::Fact;

/// Stands for all nodes that are not watched.
pub(crate) const ELSEWHERE: NodeId = NodeId(u32::MAX);
/// Memory elsewhere that comes or goes by less than this part is as it was.
const ELSEWHERE_PART: u64 = 8;
/// Most files of one process that are counted by file; the others count as private.
const FILES_MAX: usize = 4096;

/// Bytes by node: private ones, and files by a hash of their name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodePages {
    pub(crate) private: BTreeMap<NodeId, u64>,
    pub(crate) files: BTreeMap<(NodeId, u64), u64>,
}

impl NodePages {
    /// The same on watched nodes, and about as much elsewhere.
    pub(crate) fn is_much_like(&self, other: &NodePages) -> bool {
        let (old, new) = (self.elsewhere(), other.elsewhere());
        old.abs_diff(new) <= old / ELSEWHERE_PART
            && self
                .private
                .range(..ELSEWHERE)
                .eq(other.private.range(..ELSEWHERE))
            && self
                .files
                .range(..(ELSEWHERE, 0))
                .eq(other.files.range(..(ELSEWHERE, 0)))
    }

    fn elsewhere(&self) -> u64 {
        let files = self.files.range((ELSEWHERE, 0)..).map(|(_, bytes)| *bytes);
        let private = self.private.get(&ELSEWHERE).copied();
        files.chain(private).fold(0, u64::saturating_add)
    }

    /// Adds pages of a file, by its name, or private ones.
    pub(crate) fn add(&mut self, node: NodeId, file: Option<&[u8]>, bytes: u64) {
        let key = file.map(|name| (node, hash(name)));
        // Those elsewhere leave room for those that count.
        let most = match node {
            ELSEWHERE => FILES_MAX / 2,
            _ => FILES_MAX,
        };
        match key {
            Some(key) if self.files.len() < most || self.files.contains_key(&key) => {
                let sum = self.files.entry(key).or_default();
                *sum = sum.saturating_add(bytes);
            }
            _ => add(&mut self.private, node, bytes),
        }
    }
}

/// Adds to the sum of a node.
pub(crate) fn add(sums: &mut BTreeMap<NodeId, u64>, node: NodeId, bytes: u64) {
    let sum = sums.entry(node).or_default();
    *sum = sum.saturating_add(bytes);
}

/// FNV-1a of 64 bits. A user that finds two file names with one hash changes the count of that user's memory
/// only. A mapping changes that as well.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Whether maps of processes say where their memory is.
pub(crate) fn fact(roots: &Roots, by: By) -> Fact {
    let path = roots.proc.join("self/numa_maps");
    let value = match std::fs::File::open(&path) {
        Ok(_) => Ok("residency is read from the maps of processes".into()),
        Err(e) => Err(missing(&path, &e)),
    };
    let next_move = value.is_err().then_some(match by {
        By::Cgroup => {
            "memory.numa_stat is used instead: shared pages count for the cgroup that they are charged to"
        }
        By::Process => "use a kernel with CONFIG_NUMA, or limit by cgroup",
    });
    Fact {
        name: "proc.numa_maps".into(),
        value,
        next_move: next_move.map(str::to_owned),
    }
}
