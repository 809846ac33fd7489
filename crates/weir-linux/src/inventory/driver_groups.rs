// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Devices and groups of weir's driver, as its class has them (`/sys/class/weir_cxl`): which there are, and
//! of which node a group is.

use super::cxl::node_of;
use super::numa::missing;
use crate::kernel::files::read_path;
use crate::kernel::parse::{decimal, signed};
use crate::options::Roots;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use weir_core::{Missing, NodeId};

/// Most groups a register map can hold (`contract/registers.toml`).
pub(crate) const GROUP_COUNT_MAX: u32 = 16_384;
/// Most devices that weir reads.
const DEVICE_COUNT_MAX: usize = 256;

/// Devices of the class by number, in order.
pub(crate) fn class_devices(class: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let mut devices: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let digits = name.to_str()?.strip_prefix("weir_cxl")?;
            let number = u32::try_from(decimal(digits.as_bytes()).ok()?).ok()?;
            (number.to_string() == digits).then(|| (number, entry.path()))
        })
        .take(DEVICE_COUNT_MAX)
        .collect();
    devices.sort();
    devices
}

pub(crate) fn read_number(path: &Path) -> Result<u64, Missing> {
    let text = read_path(path).map_err(|e| missing(path, &e))?;
    decimal(&text).map_err(|e| Missing::Lost(format!("{}: {e}", path.display())))
}

pub(crate) fn read_node(group: &Path) -> Option<NodeId> {
    let text = read_path(&group.join("node")).ok()?;
    u32::try_from(signed(&text).ok()?).ok().map(NodeId)
}

/// The node that has the address of a group, for drivers that do not say which node it is.
pub(crate) fn by_address(roots: &Roots, group: &Path, nodes: &[u32]) -> Option<NodeId> {
    let text = read_path(&group.join("base")).ok()?;
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let base = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => decimal(text.as_bytes()).ok()?,
    };
    node_of(roots, base, nodes).map(NodeId)
}

/// Nodes that groups of a driver are of, each with a device's name.
pub(crate) fn named_nodes(roots: &Roots, nodes: &[u32]) -> BTreeMap<u32, String> {
    let mut found = BTreeMap::new();
    for (number, dir) in class_devices(&roots.sys.join("class/weir_cxl")) {
        let count = read_number(&dir.join("group_count")).unwrap_or(0);
        for index in 0..count.min(GROUP_COUNT_MAX.into()) {
            let group = dir.join(format!("group{index}"));
            let node = read_node(&group).or_else(|| by_address(roots, &group, nodes));
            if let Some(node) = node {
                let name = format!("weir_cxl{number}");
                found.entry(node.0).or_insert(name);
            }
        }
    }
    found
}
