// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where groups' memory is: the blocks of their nodes, as ranges of physical addresses.

use super::intf::{PLACES, RANGES};
use crate::inventory::memory_nodes::Nodes;
use crate::kernel::skeletons::samples::types::memory_range;
use crate::options::Roots;
use weir_core::Missing;
use weir_core::seam::topology::Group;

/// The ranges of all groups that are on a node; the place of a group is its place in the list.
///
/// # Errors
/// sysfs does not say, or there are more than the program can search.
pub(super) fn ranges(roots: &Roots, groups: &[Group]) -> Result<Vec<memory_range>, Missing> {
    let nodes = Nodes::read(roots).map_err(|e| Missing::Lost(e.to_string()))?;
    let block = nodes.block_bytes.ok_or_else(|| {
        let why = "the kernel does not say where nodes' memory is (CONFIG_MEMORY_HOTPLUG)";
        Missing::NotSupported(why.into())
    })?;
    let mut ranges = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        let node = group.node.and_then(|id| nodes.get(id.0));
        let Some(node) = node else {
            continue;
        };
        if place >= PLACES {
            let why = format!("samples distinguish {PLACES} groups, and there are more");
            return Err(Missing::NotSupported(why));
        }
        for n in &node.blocks {
            let first = n.saturating_mul(block);
            join(
                &mut ranges,
                first,
                first.saturating_add(block - 1),
                place as u64,
            );
        }
    }
    if ranges.len() > RANGES {
        return Err(Missing::NotSupported(format!(
            "the memory of devices is in {} pieces, and samples are looked up in {RANGES} at most",
            ranges.len()
        )));
    }
    Ok(ranges)
}

/// Blocks come in order: one next to the last makes that longer.
fn join(ranges: &mut Vec<memory_range>, first: u64, last: u64, group: u64) {
    if let Some(before) = ranges.last_mut()
        && before.group == group
        && before.last.checked_add(1) == Some(first)
    {
        before.last = last;
        return;
    }
    ranges.push(memory_range { first, last, group });
}
