// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carrying it out, one block after the other.

use super::map::{Map, MemoryBlocks, Owner};
use super::plan::{Refused, ResizeStep, next, targets};
use super::{BlockState, Caches, Layout};
use crate::error::LinuxError;
use serde::Serialize;
use std::time::Instant;

#[derive(Clone, Debug, Serialize)]
pub struct MovedBlocks {
    pub node: u32,
    pub block: u64,
    /// Whether the node got it.
    pub online: bool,
    pub took_ms: f64,
}

/// A block that the kernel would not let go, or would not take.
#[derive(Clone, Debug, Serialize)]
pub struct Refusal {
    pub node: u32,
    pub block: u64,
    pub why: String,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub moved: Vec<MovedBlocks>,
    /// What did not work. Other blocks were tried instead.
    pub refused: Vec<Refusal>,
    /// Whether every group has the requested size.
    pub complete: bool,
    pub map: Map,
}

/// Gives each of the named nodes the number of bytes that stands beside it; others keep what they have.
///
/// # Errors
/// The request cannot be met, caches would spoil the data, a block is online twice (before, or by another
/// program meanwhile), or the kernel's states cannot be read. What was done until then stays done, and is
/// allowed.
pub fn resize(
    kernel: &mut dyn MemoryBlocks,
    layout: &Layout,
    wanted: &[(u32, u64)],
) -> Result<Report, LinuxError> {
    if layout.cpu_caches == Caches::Separate {
        return Err(LinuxError::Copies(
            "the CPUs' caches know nothing of copies (cpu-caches = \"separate\"): lines of the old owner \
             could be written over the new owner's data, and Linux has no interface to flush them for a \
             block that is offline. Make groups of fixed sizes: weir groups acpi"
                .into(),
        ));
    }
    let mut map = Map::read(kernel, layout)?;
    exclusive(&map)?;
    let targets = targets(&map, wanted)?;
    let (mut moved, mut refused, mut refusals) = (Vec::new(), Refused::new(), Vec::new());
    while let Some(step) = next(&map, &targets, &refused) {
        let (ResizeStep::Online { copy, offset } | ResizeStep::Offline { copy, offset }) = step;
        let block = map.block(copy, offset);
        let node = map.nodes.get(copy).copied().unwrap_or(u32::MAX);
        let start = Instant::now();
        match take(kernel, &map, step)? {
            Ok(()) => moved.push(MovedBlocks {
                node,
                block,
                online: matches!(step, ResizeStep::Online { .. }),
                took_ms: start.elapsed().as_secs_f64() * 1000.0,
            }),
            Err(why) => {
                refused.insert(step);
                refusals.push(Refusal { node, block, why });
            }
        }
        let owner = map.owner(kernel, offset)?;
        if let Some(place) = usize::try_from(offset)
            .ok()
            .and_then(|o| map.owners.get_mut(o))
        {
            *place = owner;
        }
    }
    // Not only the blocks that were touched: another program may have changed others.
    let map = Map::read(kernel, layout)?;
    exclusive(&map)?;
    Ok(Report {
        moved,
        refused: refusals,
        complete: map.counts() == targets,
        map,
    })
}

/// One step. The inner error is the kernel's refusal.
fn take(
    kernel: &mut dyn MemoryBlocks,
    map: &Map,
    step: ResizeStep,
) -> Result<Result<(), String>, LinuxError> {
    match step {
        ResizeStep::Offline { copy, offset } => Ok(kernel.offline(map.block(copy, offset))),
        ResizeStep::Online { copy, offset } => {
            // Read now, not when the map was read.
            if map.owner(kernel, offset)? != Owner::Free {
                return Ok(Err("another program has brought it online meanwhile".into()));
            }
            let block = map.block(copy, offset);
            let answer = kernel.online(block);
            if let Owner::Several(copies) = map.owner(kernel, offset)? {
                let mut said = map.violation(offset, &copies);
                let back = kernel.offline(block);
                if back.is_ok() && kernel.state(block)? == BlockState::Offline {
                    said += &format!(
                        "; memory{block}, which weir had just brought online, is offline again"
                    );
                }
                return Err(LinuxError::Copies(said));
            }
            Ok(answer)
        }
    }
}

fn exclusive(map: &Map) -> Result<(), LinuxError> {
    match &map.violations()[..] {
        [] => Ok(()),
        found => Err(LinuxError::Copies(found.join("\n"))),
    }
}
