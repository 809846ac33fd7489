// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Monitoring groups and the memory nodes they appear as.

use std::collections::BTreeMap;
use weir_core::seam::topology::Group;
use weir_core::{GroupId, NodeId};

/// A group and the node it appears as. Groups that share a node share its memory by their sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GroupOnNode {
    pub(crate) group: GroupId,
    pub(crate) node: NodeId,
    pub(crate) part: f64,
}

/// Groups with a node. Several on one node share its memory by size, or evenly where no size is known: pages
/// cannot be distinguished there.
pub(crate) fn groups_on_nodes(groups: &[Group]) -> Vec<GroupOnNode> {
    let with_node = || groups.iter().filter_map(|g| Some((g, g.node?)));
    let mut on_node: BTreeMap<NodeId, (u128, u32)> = BTreeMap::new();
    for (group, node) in with_node() {
        let (bytes, count) = on_node.entry(node).or_default();
        *bytes += u128::from(group.size_bytes.0);
        *count += 1;
    }
    let part = |group: &Group, node| match on_node.get(&node) {
        Some((0, count)) => 1.0 / f64::from(*count),
        Some((bytes, _)) => group.size_bytes.0 as f64 / *bytes as f64,
        None => 1.0,
    };
    with_node()
        .map(|(g, node)| GroupOnNode {
            group: g.id,
            node,
            part: part(g, node),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{Bytes, DeviceId};

    #[test]
    fn groups_share_a_node_by_size() {
        let group = |index, node, size| Group {
            id: GroupId {
                device: DeviceId(0),
                index,
            },
            node,
            size_bytes: Bytes(size),
        };
        let one = Some(NodeId(1));
        let parts = |groups: &[Group]| -> Vec<f64> {
            groups_on_nodes(groups).iter().map(|g| g.part).collect()
        };
        assert_eq!(
            parts(&[group(0, one, 1), group(1, one, 3), group(2, None, 9)]),
            [0.25, 0.75]
        );
        assert_eq!(parts(&[group(0, one, 0), group(1, one, 0)]), [0.5, 0.5]);
        assert_eq!(
            parts(&[group(0, one, u64::MAX), group(1, Some(NodeId(2)), 0)]),
            [1.0, 1.0]
        );
    }
}
