// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether memory at some addresses is online, and in which node (kernel,
//! `Documentation/ABI/testing/sysfs-devices-memory`).

use super::Known;
use super::places::{Span, block_bytes, node_of};
use super::sysfs::CxlSysfs;
use crate::inventory::numa::{memory_nodes, nodes_with_memory};
use crate::options::Roots;

/// Most blocks that are looked at: 8 TiB of 128 MiB.
const COUNT_MAX: u64 = 1 << 16;

/// The memory blocks of the machine, as far as they are known.
pub(super) struct MemoryBlocks {
    roots: Roots,
    sysfs: CxlSysfs,
    block_bytes: Option<u64>,
    with_memory: Vec<u32>,
    with_cpus: Vec<u32>,
}

/// The blocks that lie in some memory as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockStates {
    pub(super) count: u64,
    pub(super) online: u64,
    pub(super) offline: u64,
    pub(super) node: Option<u32>,
}

impl MemoryBlocks {
    pub(super) fn open(roots: &Roots) -> Known<MemoryBlocks> {
        Ok(MemoryBlocks {
            sysfs: CxlSysfs::open(&roots.sys)?,
            block_bytes: block_bytes(roots).ok(),
            with_memory: nodes_with_memory(roots)?,
            with_cpus: memory_nodes(roots, &[])?.1,
            roots: roots.clone(),
        })
    }

    pub(super) fn has_cpus(&self, node: u32) -> bool {
        self.with_cpus.contains(&node)
    }

    /// Nothing where it is not known. Blocks that the kernel has not made count as neither.
    pub(super) fn states(&mut self, span: Span) -> Option<BlockStates> {
        let bytes = self.block_bytes?;
        let blocks = span.start.div_ceil(bytes)..span.end / bytes;
        let mut states = BlockStates {
            count: blocks.end.saturating_sub(blocks.start),
            online: 0,
            offline: 0,
            node: None,
        };
        if states.count > COUNT_MAX {
            return None;
        }
        for block in blocks {
            let dir = self
                .sysfs
                .path(&format!("devices/system/memory/memory{block}"));
            let real = self.sysfs.real(&dir);
            match real
                .and_then(|dir| self.sysfs.text(&dir, "state"))
                .as_deref()
            {
                Ok("online") => {
                    states.online += 1;
                    let node =
                        || node_of(&self.roots, block.checked_mul(bytes)?, &self.with_memory);
                    states.node = states.node.or_else(node);
                }
                Ok("offline") => states.offline += 1,
                Err(weir_core::Missing::NotSupported(_)) => {}
                _ => return None,
            }
        }
        Some(states)
    }
}
