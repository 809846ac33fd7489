// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The next step on the way to the requested sizes. It depends on nothing but what is now, so that there is
//! no plan to be left half done.

use super::map::{Map, Owner};
use crate::error::LinuxError;
use std::collections::BTreeSet;

/// One step; offsets count blocks of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResizeStep {
    /// No copy has it, this copy shall.
    Online { copy: usize, offset: u64 },
    /// This copy has it and shall not.
    Offline { copy: usize, offset: u64 },
}

/// Steps that did not work and are not tried again.
pub(super) type Refused = BTreeSet<ResizeStep>;

/// How many blocks each copy shall have, if that can be: whole blocks, and no more than there are.
pub(super) fn targets(map: &Map, wanted: &[(u32, u64)]) -> Result<Vec<u64>, LinuxError> {
    let wrong = |why: String| Err(LinuxError::Copies(why));
    let mut targets = map.counts();
    for (node, bytes) in wanted {
        let Some(copy) = map.nodes.iter().position(|n| n == node) else {
            return wrong(format!(
                "node {node} is no copy; copies are nodes {:?}",
                map.nodes
            ));
        };
        if bytes % map.block_bytes != 0 {
            return wrong(format!(
                "node {node}: {bytes} bytes are no multiple of a block ({} bytes)",
                map.block_bytes
            ));
        }
        if let Some(target) = targets.get_mut(copy) {
            *target = bytes / map.block_bytes;
        }
    }
    let sum = targets.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let there = map.owners.len() as u64;
    if sum > there {
        return wrong(format!(
            "that would be {sum} blocks of {} bytes in all, and the device has {there}; name a group that \
             shrinks as well",
            map.block_bytes
        ));
    }
    Ok(targets)
}

/// The next step, or nothing if there is none left that may work.
pub(super) fn next(map: &Map, targets: &[u64], refused: &Refused) -> Option<ResizeStep> {
    let counts = map.counts();
    let pairs = || counts.iter().zip(targets).enumerate();
    let offsets = |owner: Owner| {
        let of = map
            .owners
            .iter()
            .enumerate()
            .filter(move |(_, o)| **o == owner);
        of.map(|(offset, _)| offset as u64)
    };
    let allowed = |step: &ResizeStep| !refused.contains(step);
    // A copy that shall grow gets blocks without an owner, lowest first.
    for (copy, _) in pairs().filter(|(_, (has, target))| has < target) {
        let online = |offset| ResizeStep::Online { copy, offset };
        if let Some(step) = offsets(Owner::Free).map(online).find(allowed) {
            return Some(step);
        }
    }
    // Then a copy that has too much releases a block, highest first.
    for (copy, _) in pairs().filter(|(_, (has, target))| has > target) {
        let offline = |offset| ResizeStep::Offline { copy, offset };
        let mine: Vec<u64> = offsets(Owner::Copy(copy)).collect();
        if let Some(step) = mine.into_iter().rev().map(offline).find(allowed) {
            return Some(step);
        }
    }
    None
}
