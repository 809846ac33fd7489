// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner of each block of device memory, as the kernel says it now; and whether that is allowed.

use super::Layout;
use crate::error::LinuxError;

/// What the kernel says of one of its memory blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// There is no such block: the copy is not plugged in.
    Absent,
    /// It is there, and no task can use it.
    Offline,
    /// It is in use, or on the way in or out.
    Online,
}

/// What weir reads from the kernel and requests from it. The real one is [`super::Sysfs`].
pub trait MemoryBlocks {
    fn block_bytes(&self) -> u64;
    /// The state of a block.
    ///
    /// # Errors
    /// It cannot be read.
    fn state(&self, block: u64) -> Result<BlockState, LinuxError>;
    /// The node a block belongs to.
    ///
    /// # Errors
    /// It cannot be read.
    fn node(&self, block: u64) -> Result<Option<u32>, LinuxError>;
    /// Brings a block online for memory that can be moved away again.
    ///
    /// # Errors
    /// The kernel's answer.
    fn online(&mut self, block: u64) -> Result<(), String>;
    /// Takes a block offline, after its pages were moved elsewhere.
    ///
    /// # Errors
    /// The kernel's answer.
    fn offline(&mut self, block: u64) -> Result<(), String>;
}

/// The owner of a block of device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Offline in all copies.
    Free,
    /// Online in this copy only.
    Copy(usize),
    /// Online in several: the kernel hands out its pages several times.
    Several(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    pub block_bytes: u64,
    pub nodes: Vec<u32>,
    /// The owner of each block, in the order of device addresses.
    pub owners: Vec<Owner>,
    first: Vec<u64>,
}

impl Map {
    /// Reads it.
    ///
    /// # Errors
    /// The layout is impossible here, a copy is not (wholly) plugged in, or copies share a node.
    pub fn read(kernel: &dyn MemoryBlocks, layout: &Layout) -> Result<Self, LinuxError> {
        let block_bytes = kernel.block_bytes();
        let count = layout.blocks(block_bytes)?;
        let first: Vec<u64> = layout.bases_bytes.iter().map(|b| b / block_bytes).collect();
        let mut nodes: Vec<u32> = Vec::new();
        for (base, first) in layout.bases_bytes.iter().zip(&first) {
            let node = node_of_copy(kernel, *base, *first..*first + count)?;
            if nodes.contains(&node) {
                let why =
                    format!("two copies belong to node {node}: they could not be distinguished");
                return Err(LinuxError::Copies(why));
            }
            nodes.push(node);
        }
        let mut map = Map {
            block_bytes,
            nodes,
            owners: Vec::new(),
            first,
        };
        for offset in 0..count {
            let owner = map.owner(kernel, offset)?;
            map.owners.push(owner);
        }
        Ok(map)
    }

    pub(super) fn owner(
        &self,
        kernel: &dyn MemoryBlocks,
        offset: u64,
    ) -> Result<Owner, LinuxError> {
        let mut online = Vec::new();
        for copy in 0..self.first.len() {
            if kernel.state(self.block(copy, offset))? == BlockState::Online {
                online.push(copy);
            }
        }
        Ok(match online[..] {
            [] => Owner::Free,
            [copy] => Owner::Copy(copy),
            _ => Owner::Several(online),
        })
    }

    /// The kernel's number of a block of device memory in one of the copies.
    pub fn block(&self, copy: usize, offset: u64) -> u64 {
        self.first
            .get(copy)
            .map_or(u64::MAX, |first| first + offset)
    }

    /// How many blocks each copy has for itself.
    pub fn counts(&self) -> Vec<u64> {
        let count = |copy| {
            self.owners
                .iter()
                .filter(|o| **o == Owner::Copy(copy))
                .count()
        };
        (0..self.nodes.len())
            .map(|copy| count(copy) as u64)
            .collect()
    }

    /// What must never be: blocks that are online in several copies. Each with where they are.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (offset, owner) in self.owners.iter().enumerate() {
            if let Owner::Several(copies) = owner {
                found.push(self.violation(offset as u64, copies));
            }
        }
        found
    }

    pub(super) fn violation(&self, offset: u64, copies: &[usize]) -> String {
        let places: Vec<String> = copies
            .iter()
            .map(|copy| {
                let node = self.nodes.get(*copy).copied().unwrap_or(u32::MAX);
                format!("memory{} (node {node})", self.block(*copy, offset))
            })
            .collect();
        format!(
            "device memory at {:#x} is online in several copies: {}; its pages are handed out more than \
             once. Take all but one offline (echo offline > /sys/devices/system/memory/memoryN/state) and \
             distrust the data of everything that uses these nodes",
            offset * self.block_bytes,
            places.join(", ")
        )
    }
}

fn node_of_copy(
    kernel: &dyn MemoryBlocks,
    base: u64,
    blocks: std::ops::Range<u64>,
) -> Result<u32, LinuxError> {
    let wrong = |why: String| LinuxError::Copies(format!("the copy at {base:#x}: {why}"));
    let mut node = None;
    for block in blocks {
        if kernel.state(block)? == BlockState::Absent {
            return Err(wrong(format!(
                "memory{block} is not there; is it plugged in (lsmem)?"
            )));
        }
        let here = kernel.node(block)?;
        let here = here.ok_or_else(|| wrong(format!("memory{block} belongs to no node")))?;
        if *node.get_or_insert(here) != here {
            return Err(wrong(format!(
                "memory{block} is on node {here}, and others are not"
            )));
        }
    }
    node.ok_or_else(|| wrong("it has no blocks".into()))
}
