// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why CXL memory is not in use on this machine, and what brings it into use. A command is named only where
//! files show what it needs (daxctl-reconfigure-device(1), daxctl-online-memory(1), cxl-create-region(1),
//! cxl-enable-region(1)):
//!
//! ```text
//! daxctl online-memory       kmem has the dax device, blocks of it are offline       ┐ and its node has
//! daxctl reconfigure-device  another driver or none has it; a node, a whole block    ┘ no CPUs
//! cxl enable-region          the region is committed, and no driver has it
//! cxl create-region          volatile memory, in no region; a window to it that takes such memory, with room
//! ```

use super::blocks::{BlockStates, MemoryBlocks};
use super::nodes::{KMEM, placed};
use super::places::{Span, meet};
use super::sysfs::CxlSysfs;
use super::{CxlMemory, Dax, DaxParent, Fabric, Known, Region, Window};
use crate::options::Roots;
use std::fmt;
use weir_core::seam::next_move::{Act, NextMove, Precondition};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnusedMemory {
    /// The dax device, region or memory device.
    pub(crate) of: String,
    pub(crate) why: String,
    /// What helps, where files show that it can.
    pub(crate) next_move: Option<NextMove>,
}

impl fmt::Display for UnusedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.next_move {
            Some(next_move) => f.write_str(&next_move.with_why()),
            None => f.write_str(&self.why),
        }
    }
}

fn known(of: &str, why: String) -> Option<UnusedMemory> {
    let (of, next_move) = (of.to_owned(), None);
    Some(UnusedMemory { of, why, next_move })
}

fn helps(of: &str, why: String, command: String, needs: Precondition) -> Option<UnusedMemory> {
    let next_move = NextMove {
        act: Act::Command(command),
        why: why.clone(),
        needs,
    };
    Some(UnusedMemory {
        of: of.to_owned(),
        why,
        next_move: Some(next_move),
    })
}

/// What is the matter with each dax device, region and device that is not in use.
pub(crate) fn unused_memory(roots: &Roots) -> Vec<UnusedMemory> {
    let fabric = Fabric::read(roots);
    let (Ok(sysfs), Ok(blocks)) = (CxlSysfs::open(&roots.sys), MemoryBlocks::open(roots)) else {
        return Vec::new();
    };
    let mut advice = Advice {
        fabric: &fabric,
        sysfs,
        blocks,
    };
    let of_regions = fabric.regions.iter().flat_map(|region| &region.dax);
    let dax = of_regions.chain(&fabric.dax);
    let mut found: Vec<UnusedMemory> = dax.filter_map(|dax| advice.of_dax(dax)).collect();
    found.extend(fabric.regions.iter().filter_map(|r| advice.of_region(r)));
    found.extend(fabric.devices.iter().filter_map(|d| advice.of_device(d)));
    found
}

/// Names go into commands that an operator may paste.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(plain)
}

struct Advice<'a> {
    fabric: &'a Fabric,
    sysfs: CxlSysfs,
    blocks: MemoryBlocks,
}

impl Advice<'_> {
    fn of_dax(&mut self, dax: &Dax) -> Option<UnusedMemory> {
        let name = Some(&dax.name).filter(|name| is_plain(name))?;
        if !self.is_cxl(dax) {
            return None;
        }
        let is_kmem = dax.driver.as_deref() == Ok(KMEM);
        let states = dax.span().and_then(|span| self.blocks.states(span));
        let is_a_node = dax.node.as_ref().is_ok_and(|id| self.is_a_node(*id));
        if let Some(found) = states.and_then(|states| self.among_dram(name, states)) {
            return Some(found);
        }
        let node = match &dax.node {
            Ok(node) => *node,
            Err(why) => return known(name, format!("{name} has no node to be memory of ({why})")),
        };
        if self.blocks.has_cpus(node) {
            let offline = match &states {
                Some(states) if states.offline > 0 => ", and its memory is offline",
                _ => "",
            };
            return known(
                name,
                format!(
                    "{name} is of node {node}, which has CPUs{offline}: weir could not tell its memory from DRAM there"
                ),
            );
        }
        match (is_kmem, states) {
            (true, Some(states)) if states.offline > 0 => {
                let how_much = match states.online {
                    0 => format!("the memory of {name} is offline"),
                    _ => format!(
                        "{} of {} memory blocks of {name} are offline",
                        states.offline, states.count
                    ),
                };
                let needs = format!("kmem has {name}, and its blocks are offline");
                let command = format!("daxctl online-memory {name}");
                helps(name, how_much, command, Precondition::Seen(needs))
            }
            (_, Some(states)) if states.online > 0 => None,
            _ if is_a_node && (is_kmem || dax.driver.is_err()) => None,
            (true, Some(_)) => known(
                name,
                format!("kmem has {name}, and made no memory block of it"),
            ),
            (true, None) => known(
                name,
                format!("whether the memory of {name} is online is not known"),
            ),
            (false, Some(states)) if states.count == 0 => known(
                name,
                format!("{name} is no system RAM, and has no whole memory block"),
            ),
            (false, _) => self.to_system_ram(name),
        }
    }

    fn to_system_ram(&self, name: &str) -> Option<UnusedMemory> {
        let (why, needs) = if self.sysfs.path("bus/dax/drivers/kmem").is_dir() {
            (
                format!("{name} is no system RAM"),
                Precondition::Seen("the driver kmem is loaded".into()),
            )
        } else {
            (
                format!("{name} is no system RAM, and the driver kmem is not loaded"),
                Precondition::Operator("this kernel has its module dax_kmem".into()),
            )
        };
        let command = format!("daxctl reconfigure-device --mode=system-ram {name}");
        helps(name, why, command, needs)
    }

    fn is_cxl(&self, dax: &Dax) -> bool {
        let in_window = || {
            let windows = self.fabric.windows.iter().filter_map(placed);
            let spans: Vec<Span> = windows.map(|(_, span)| span).collect();
            dax.span().is_some_and(|span| meet(&[span], &spans))
        };
        match dax.of {
            DaxParent::Region => true,
            DaxParent::SoftReserved => in_window() || self.fabric.windows.is_empty(),
            DaxParent::PersistentMemory | DaxParent::Other => in_window(),
        }
    }

    fn is_a_node(&self, id: u32) -> bool {
        self.fabric.nodes.iter().any(|node| node.id == id)
    }

    /// Memory that is online in a node with CPUs.
    fn among_dram(&self, name: &str, states: BlockStates) -> Option<UnusedMemory> {
        let node = states.node.filter(|node| self.blocks.has_cpus(*node))?;
        known(
            name,
            format!(
                "the memory of {name} lies in node {node}, among the DRAM of its CPUs, where weir cannot tell the two apart"
            ),
        )
    }

    fn of_region(&mut self, region: &Region) -> Option<UnusedMemory> {
        let name = Some(&region.name).filter(|name| is_plain(name))?;
        let Some(span) = region.span() else {
            let is_empty = region.is_committed == Ok(false) || region.size_bytes == Ok(0);
            let help = || {
                helps(
                    name,
                    format!("{name} was set up halfway"),
                    format!("cxl destroy-region {name}"),
                    Precondition::Seen("it has no size, or is not committed".into()),
                )
            };
            return is_empty.then(help).flatten();
        };
        let has_it =
            |names: &Known<Vec<String>>| names.as_ref().is_ok_and(|names| names.contains(name));
        let is_a_node = self.fabric.nodes.iter().any(|node| has_it(&node.regions));
        if !region.dax.is_empty() || is_a_node || region.mode.as_deref() != Ok("ram") {
            return None;
        }
        let states = self.blocks.states(span);
        let found = states.and_then(|states| self.among_dram(name, states));
        let is_memory = states.is_some_and(|states| states.online + states.offline > 0);
        if found.is_some() || is_memory || region.is_committed != Ok(true) {
            return found;
        }
        let driver = self.sysfs.path(&format!("bus/cxl/devices/{name}/driver"));
        if driver.exists() {
            known(
                name,
                format!(
                    "{name} is enabled, and no driver made a dax device of it (module dax_cxl)"
                ),
            )
        } else {
            helps(
                name,
                format!("{name} has no dax device"),
                format!("cxl enable-region {name}"),
                Precondition::Seen("it is committed, and no driver has it".into()),
            )
        }
    }

    fn of_device(&mut self, device: &CxlMemory) -> Option<UnusedMemory> {
        let name = Some(&device.name).filter(|name| is_plain(name))?;
        let is_free = device.is_in_use == Ok(false) && device.regions.is_empty();
        let bridge = device.bridge.as_ref().ok().filter(|_| is_free)?;
        if let Err(why) = &device.endpoint {
            return known(name, format!("{name} cannot be in a region: {why}"));
        }
        if *device.ram_bytes.as_ref().ok()? == 0 {
            return known(
                name,
                format!("{name} has no volatile memory, of which system RAM is made"),
            );
        }
        let fabric = self.fabric;
        let leads = |window: &&Window| {
            let bridges = window.bridges.as_ref();
            is_plain(&window.name) && bridges.is_ok_and(|bridges| bridges[..] == [bridge.clone()])
        };
        let mut windows = fabric.windows.iter().filter(leads).peekable();
        if windows.peek().is_none() {
            return known(
                name,
                format!("{name} is in no region, and no window is known that leads to it alone"),
            );
        }
        let fits = |window: &&Window| {
            let dir = self
                .sysfs
                .real(&self.sysfs.path(&format!("bus/cxl/devices/{}", window.name)));
            let takes_ram = dir.is_ok_and(|dir| self.sysfs.number(&dir, "cap_ram") == Ok(1));
            takes_ram && room(fabric, window).is_some_and(|bytes| bytes > 0)
        };
        match windows.find(fits) {
            Some(window) => helps(
                name,
                format!("{name} is in no region"),
                format!("cxl create-region -m -t ram -d {} {name}", window.name),
                Precondition::Seen(format!(
                    "{} leads to it alone, takes volatile memory (cap_ram), and has room",
                    window.name
                )),
            ),
            None => known(
                name,
                format!(
                    "{name} is in no region, and no window that leads to it is known to take volatile memory (cap_ram) and to \
                 have room"
                ),
            ),
        }
    }
}

/// What regions leave of a window.
fn room(fabric: &Fabric, window: &Window) -> Option<u64> {
    let mut left = *window.size_bytes.as_ref().ok()?;
    for region in &fabric.regions {
        if *region.window.as_ref().ok()? == window.name {
            left = left.saturating_sub(*region.size_bytes.as_ref().ok()?);
        }
    }
    Some(left)
}
