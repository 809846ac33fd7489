// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which devices have a node's memory, and whether a device's memory is in use at all.
//!
//! A region names its devices. Without one (soft-reserved memory, memory that firmware brought online) an
//! endpoint decoder that is set gives its addresses. Without that, a window leads to host bridges: where each
//! of them has one device that is in no region, the memory belongs to these devices. Else nothing is claimed.

use super::nodes::{Links, placed};
use super::places::{Places, Span, meet, total};
use super::read::Read;
use super::{CxlMemory, Fabric, Known, Region, Window};
use weir_core::Missing;

pub(super) fn of_node(bus: &Read, links: &Links) -> Known<Vec<String>> {
    let targets = links.regions.iter().flat_map(|region| &region.targets);
    let of_regions = targets.filter_map(|target| target.device.as_ref().ok());
    let of_decoders = bus.decoders.iter().filter(|decoder| {
        let span = Span::new(decoder.start, decoder.size_bytes);
        span.is_some_and(|span| meet(&links.spans, &[span]))
    });
    let mut names: Vec<String> = Vec::new();
    for name in of_regions.chain(of_decoders.map(|decoder| &decoder.device)) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    match (&names[..], &links.regions[..]) {
        ([], []) => by_windows(bus, links),
        ([], [region, ..]) => Err(Missing::NotSupported(format!(
            "no target of {} leads to a device",
            region.name
        ))),
        _ => Ok(names),
    }
}

/// The devices that a node's memory is on, by the windows that it lies in. No region has such memory, and the
/// kernel does not say which device decodes it. So it is known only where each bridge of the window has just
/// one device that has no memory elsewhere. Devices that are smaller than the node together cannot be all of
/// them, and nothing is said.
fn by_windows(bus: &Read, links: &Links) -> Known<Vec<String>> {
    let unknown = |why: String| Err(Missing::NotSupported(why));
    if links.windows.is_empty() {
        return unknown("no region and no CXL window has its memory".into());
    }
    let mut found: Vec<&CxlMemory> = Vec::new();
    for window in &links.windows {
        for bridge in window.bridges.clone()? {
            let below: Vec<&CxlMemory> = free(bus, &bridge).collect();
            match below[..] {
                [device] if device.bridge.is_err() => {
                    return unknown(format!("where {} is plugged is not known", device.name));
                }
                [device] if !found.contains(&device) => found.push(device),
                [_] => {}
                [] => {
                    return unknown(format!(
                        "{} leads to {bridge}, and the kernel knows no device there that is in no region",
                        window.name
                    ));
                }
                [..] => {
                    let names: Vec<&str> = below.iter().map(|d| d.name.as_str()).collect();
                    return unknown(format!(
                        "{} leads to {bridge}, and of {} the kernel does not say which has the memory",
                        window.name,
                        names.join(", ")
                    ));
                }
            }
        }
    }
    let size = |sum: u64, device: &&CxlMemory| {
        let ram = device.ram_bytes.as_ref().ok()?;
        let pmem = device.pmem_bytes.as_ref().ok()?;
        sum.checked_add(*ram)?.checked_add(*pmem)
    };
    let sizes = found.iter().try_fold(0, size);
    if sizes.is_some_and(|sizes| sizes < total(&links.spans)) {
        return unknown("the devices that the kernel knows are smaller than the node".into());
    }
    Ok(found.iter().map(|device| device.name.clone()).collect())
}

/// Devices below a host bridge that have no memory elsewhere.
fn free<'a>(bus: &'a Read, bridge: &str) -> impl Iterator<Item = &'a CxlMemory> {
    let is_elsewhere = |device: &CxlMemory| {
        let set = bus.decoders.iter().any(|d| d.device == device.name);
        set || bus.fabric.regions_of(device).any(has_memory)
    };
    bus.fabric
        .devices
        .iter()
        // One of which that is not known may be anywhere.
        .filter(move |device| device.bridge.as_deref().map_or(true, |its| its == bridge))
        .filter(move |device| !is_elsewhere(device))
}

/// Addresses are for root; sizes are not.
fn has_memory(region: &Region) -> bool {
    let is_empty = region.size_bytes.as_ref().map_or(true, |size| *size == 0);
    region.is_committed != Ok(false) && !is_empty
}

impl Fabric {
    fn regions_of<'a>(&'a self, device: &'a CxlMemory) -> impl Iterator<Item = &'a Region> {
        let is_of_it = |region: &&Region| device.regions.contains(&region.name);
        self.regions.iter().filter(is_of_it)
    }
}

/// Notes of each device whether its memory is in use.
pub(super) fn note_use(bus: &mut Read, places: &Places) {
    let use_of = |device: &CxlMemory| {
        let has_it = |node: &super::CxlNode| {
            node.devices
                .as_ref()
                .is_ok_and(|names| names.contains(&device.name))
        };
        let is_set = bus.decoders.iter().any(|d| d.device == device.name);
        if is_set
            || bus.fabric.regions_of(device).any(has_memory)
            || bus.fabric.nodes.iter().any(has_it)
        {
            Ok(true)
        } else {
            is_nowhere(&bus.fabric, device, places).map(|()| false)
        }
    };
    let uses: Vec<Known<bool>> = bus.fabric.devices.iter().map(use_of).collect();
    for (device, is_in_use) in bus.fabric.devices.iter_mut().zip(uses) {
        device.is_in_use = is_in_use;
    }
}

/// The proof: no decoder of the device is set, and no memory that the kernel knows lies in a window that
/// leads to it.
fn is_nowhere(fabric: &Fabric, device: &CxlMemory, places: &Places) -> Known<()> {
    let unknown = |why: String| Err(Missing::NotSupported(why));
    let bridge = device.bridge.clone()?;
    let mut spans = Vec::new();
    for window in &fabric.windows {
        if window.bridges.clone()?.contains(&bridge) {
            spans.extend(addresses(window)?);
        }
    }
    if let Some(why) = &places.missing {
        return Err(why.clone());
    }
    let Some(memory) = places.all() else {
        return unknown("the addresses of some nodes are not known".into());
    };
    if meet(&memory, &spans) {
        return unknown("memory lies in a window that leads to it".into());
    }
    let of_regions = fabric.regions.iter().flat_map(|region| &region.dax);
    for dax in of_regions.chain(&fabric.dax) {
        if dax.span().is_none_or(|span| meet(&[span], &spans)) {
            return unknown(format!("{} may have its memory", dax.name));
        }
    }
    Ok(())
}

fn addresses(window: &Window) -> Known<Option<Span>> {
    window.start.clone()?;
    window.size_bytes.clone()?;
    Ok(placed(window).map(|(_, span)| span))
}
