// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters of a machine that is probed anew: what stays, stays as it is open, under its number.

use super::{Counters, Kind, node_join};
use crate::inventory::driver_groups::{by_address, read_node};
use crate::options::Roots;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::seam::topology::Device;
use weir_core::{DeviceId, GroupId};

impl Counters {
    /// Goes on with what `old` has open of the same devices. Gives those devices: their counts go on from
    /// where they were.
    pub(crate) fn keep(&mut self, old: &mut Counters) -> BTreeSet<DeviceId> {
        let mut kept = BTreeSet::new();
        for (source, device) in self.sources.iter_mut().zip(&self.devices) {
            let mut before = old.sources.iter_mut().zip(&old.devices);
            let same = before.find(|(_, known)| *known == device);
            if let Some((known, _)) = same
                && known.group_count == source.group_count
                && known.kind.is_same(&source.kind)
            {
                std::mem::swap(&mut known.kind, &mut source.kind);
                source.retry_at = known.retry_at;
                kept.insert(device.id);
            }
        }
        kept
    }

    /// Reads again the nodes that were not online before. Returns whether one came.
    pub(crate) fn refresh_nodes(&mut self, roots: &Roots) -> bool {
        let mut came = false;
        let without = self.groups.iter_mut().filter(|g| g.node.is_none());
        let mut nodes = None;
        for group in without {
            let GroupId { device, index } = group.id;
            let dir = format!("class/weir_cxl/weir_cxl{}/group{index}", device.0);
            let dir = roots.sys.join(dir);
            group.node = read_node(&dir).or_else(|| {
                let nodes = nodes.get_or_insert_with(|| node_join::numbers(roots));
                by_address(roots, &dir, nodes)
            });
            came |= group.node.is_some();
        }
        came
    }
}

impl Kind {
    fn is_same(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Attribute { path: a, .. }, Kind::Attribute { path: b, .. })
            | (Kind::TextFiles { dir: a }, Kind::TextFiles { dir: b })
            | (Kind::Dump { path: a }, Kind::Dump { path: b }) => a == b,
            (Kind::Perf { counting: a, .. }, Kind::Perf { counting: b, .. }) => {
                a.iter().map(|c| &c.target).eq(b.iter().map(|c| &c.target))
            }
            (Kind::None(a), Kind::None(b)) => a == b,
            _ => false,
        }
    }
}

/// Numbers for these names, in the order of the numbers: those that they had before, else the lowest that no
/// device had.
pub(super) fn numbered<'a>(
    names: impl Iterator<Item = &'a String>,
    before: &[Device],
) -> BTreeMap<DeviceId, String> {
    let mut numbers = BTreeMap::new();
    let mut new = Vec::new();
    for name in names {
        match before.iter().find(|device| device.name == *name) {
            Some(known) => drop(numbers.insert(known.id, name.clone())),
            None => new.push(name.clone()),
        }
    }
    let mut free = (0..).map(DeviceId);
    for name in new {
        let is_free = |number: &DeviceId| before.iter().all(|device| device.id != *number);
        if let Some(number) = free.find(is_free) {
            numbers.insert(number, name);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::seam::topology::CountedBy;

    #[test]
    fn a_device_keeps_its_number_whatever_comes_and_goes() {
        let device = |id, name: &str| Device {
            id: DeviceId(id),
            name: name.into(),
            capacity_bytes_per_sec: None,
            counter_mask_bytes: u64::MAX,
            counted_by: CountedBy::PerfEvents,
        };
        let before = [device(0, "mem0"), device(1, "mem1"), device(2, "mem2")];
        let names = ["a", "b", "mem0", "mem2"].map(str::to_owned);
        let found: Vec<_> = numbered(names.iter(), &before)
            .into_iter()
            .map(|(id, name)| (id.0, name))
            .collect();
        let found: Vec<_> = found
            .iter()
            .map(|(id, name)| (*id, name.as_str()))
            .collect();
        assert_eq!(found, [(0, "mem0"), (2, "mem2"), (3, "a"), (4, "b")]);
    }
}
