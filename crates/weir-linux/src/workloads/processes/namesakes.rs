// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which processes have files of one name on watched nodes. Only of these it must be asked which files they
//! are ([`super::numa_maps`]): that costs as much as most of a scan, and where one process alone has a name,
//! the name is enough.

use super::numa_maps::{self, NodePages};
use super::{ProcessCache, ReachableMemory};
use std::collections::BTreeMap;
use weir_core::Missing;

/// The first process that was seen to have each name.
#[derive(Default)]
pub(crate) struct Namesakes {
    first: BTreeMap<u64, u32>,
}

impl Namesakes {
    /// A process has files of these names. Returns other processes that have one of them.
    pub(crate) fn note(&mut self, pid: u32, names: &[u64]) -> Vec<u32> {
        let first = names
            .iter()
            .map(|name| *self.first.entry(*name).or_insert(pid));
        let mut others: Vec<u32> = first.filter(|first| *first != pid).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Begins anew with those that are there.
    pub(crate) fn renew<'a>(&mut self, all: impl Iterator<Item = (u32, &'a [u64])>) {
        self.first.clear();
        for (pid, names) in all {
            let _ = self.note(pid, names);
        }
    }
}

impl ProcessCache {
    pub(super) fn read_maps(&mut self, pid: u32) -> Result<NodePages, Missing> {
        let maps = numa_maps::read(&self.proc, pid, &self.nodes, &mut self.chunk)?;
        let names = maps.names();
        let others = self.namesakes.note(pid, &names);
        let mut is_shared = !others.is_empty();
        if let Some(member) = self.by_pid.get_mut(&pid) {
            member.has_namesake |= is_shared;
            is_shared = member.has_namesake;
            member.names = names;
        }
        for other in others {
            self.tell_apart(other);
        }
        Ok(if is_shared {
            maps.by_identity(&self.proc, &mut self.chunk)
        } else {
            maps.by_name()
        })
    }

    /// Its files were known by their names, and another process has one of these.
    fn tell_apart(&mut self, pid: u32) {
        let known = self.by_pid.get_mut(&pid);
        let Some(member) = known.filter(|member| !member.has_namesake) else {
            return;
        };
        member.has_namesake = true;
        if let ReachableMemory::Read { usage, .. } = &mut member.memory
            && let Ok(maps) = numa_maps::read(&self.proc, pid, &self.nodes, &mut self.chunk)
        {
            *usage = maps.by_identity(&self.proc, &mut self.chunk);
            member.read_in = self.round;
        }
    }
}
