// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What brings CXL memory into use on this machine, where it is not: the command for what is lacking. `daxctl
//! online-memory` is for memory that a driver has added and that is offline; it refuses a dax device that is
//! a file in `/dev` (daxctl-reconfigure-device(1), daxctl-online-memory(1), cxl-create-region(1)).

use super::nodes::{KMEM, placed};
use super::places::meet;
use super::{CxlMemory, Dax, DaxParent, Fabric, Region};

/// Where nothing is known of the machine.
const ANYWHERE: &str = "bring CXL memory online as system RAM: daxctl online-memory";

/// The next move.
pub(crate) fn next_move(fabric: &Fabric) -> String {
    let of_regions = fabric.regions.iter().flat_map(|region| &region.dax);
    let dax = of_regions.chain(&fabric.dax);
    let mut moves: Vec<String> = dax.filter_map(|dax| of_dax(fabric, dax)).collect();
    moves.extend(fabric.regions.iter().filter_map(|r| of_region(fabric, r)));
    moves.extend(fabric.devices.iter().filter_map(|d| of_device(fabric, d)));
    match moves.is_empty() {
        true => ANYWHERE.to_owned(),
        false => moves.join("; "),
    }
}

/// Names go into commands that an operator may paste.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(plain)
}

fn of_dax(fabric: &Fabric, dax: &Dax) -> Option<String> {
    let name = Some(&dax.name).filter(|name| is_plain(name))?;
    let in_window = || {
        let window = fabric.windows.iter().filter_map(placed);
        let spans: Vec<_> = window.map(|(_, span)| span).collect();
        dax.span().is_some_and(|span| meet(&[span], &spans))
    };
    let is_cxl = match dax.of {
        DaxParent::Region => true,
        DaxParent::SoftReserved => in_window() || fabric.windows.is_empty(),
        DaxParent::PersistentMemory | DaxParent::Other => in_window(),
    };
    let is_a_node = dax
        .node
        .as_ref()
        .is_ok_and(|id| fabric.nodes.iter().any(|node| node.id == *id));
    if !is_cxl {
        return None;
    }
    match dax.driver.as_deref() {
        Ok(KMEM) if is_a_node => None,
        Ok(KMEM) => Some(format!(
            "the memory of {name} is offline: daxctl online-memory {name}"
        )),
        Err(_) if is_a_node => None,
        _ => Some(format!(
            "{name} is no system RAM: daxctl reconfigure-device --mode=system-ram {name}"
        )),
    }
}

fn of_region(fabric: &Fabric, region: &Region) -> Option<String> {
    let name = Some(&region.name).filter(|name| is_plain(name))?;
    if region.span().is_none() {
        let is_empty = region.is_committed == Ok(false) || region.size_bytes == Ok(0);
        return is_empty.then(|| {
            format!("{name} was set up halfway: cxl destroy-region {name}, then cxl create-region")
        });
    }
    let is_a_node = fabric.nodes.iter().any(|node| {
        node.regions
            .as_ref()
            .is_ok_and(|names| names.contains(name))
    });
    let is_unused = region.dax.is_empty() && !is_a_node && region.mode.as_deref() == Ok("ram");
    is_unused.then(|| format!("{name} has no dax device: cxl enable-region {name}"))
}

fn of_device(fabric: &Fabric, device: &CxlMemory) -> Option<String> {
    let name = Some(&device.name).filter(|name| is_plain(name))?;
    let is_free = device.is_in_use == Ok(false) && device.regions.is_empty();
    let bridge = device.bridge.as_ref().ok().filter(|_| is_free)?;
    let leads = |window: &&super::Window| {
        let bridges = window.bridges.as_ref();
        bridges.is_ok_and(|bridges| bridges.len() == 1 && bridges.contains(bridge))
    };
    let window = fabric
        .windows
        .iter()
        .filter(|w| is_plain(&w.name))
        .find(leads)?;
    Some(format!(
        "{name} is in no region: cxl create-region -m -t ram -d {} {name}",
        window.name
    ))
}
