// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scheduler's map of cgroups: of which slot a cgroup's tasks are, and with which share. Slot and share
//! come from two parts of weir, and the kernel's map has both in one entry.

use std::collections::BTreeMap;

/// Slot and share of each cgroup, by the cgroup's id; 0 stands for none.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<u64, (u32, u32)>);

impl Owners {
    /// Returns its share.
    pub(super) fn set_slot(&mut self, cgroup: u64, slot: u32) -> u32 {
        let entry = self.0.entry(cgroup).or_default();
        entry.0 = slot;
        let share = entry.1;
        self.tidy(cgroup);
        share
    }

    /// Returns its slot.
    pub(super) fn set_share(&mut self, cgroup: u64, share: u32) -> u32 {
        let entry = self.0.entry(cgroup).or_default();
        entry.1 = share;
        let slot = entry.0;
        self.tidy(cgroup);
        slot
    }

    fn tidy(&mut self, cgroup: u64) {
        if self.0.get(&cgroup) == Some(&(0, 0)) {
            self.0.remove(&cgroup);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_and_share_do_not_disturb_each_other() {
        let mut owners = Owners::default();
        assert_eq!(owners.set_slot(7, 3), 0);
        assert_eq!(owners.set_share(7, 9), 3);
        assert_eq!((owners.set_slot(7, 0), owners.set_share(7, 0)), (9, 0));
        assert!(owners.0.is_empty());
    }
}
