// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which slots of the scheduler are free. Low ones first: the scheduler reads all below the highest.

use std::collections::BTreeSet;

/// Slots in use. Slot 0 belongs to no workload.
#[derive(Debug)]
pub(crate) struct Slots {
    used: BTreeSet<u32>,
    end: u32,
}

impl Slots {
    /// All free, from 1 to below `end`.
    pub(crate) fn below(end: u32) -> Self {
        Slots {
            used: BTreeSet::new(),
            end,
        }
    }

    /// The lowest free one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let free = (1..self.end).find(|slot| !self.used.contains(slot))?;
        self.used.insert(free);
        Some(free)
    }

    /// All slots in use lie below this.
    pub(crate) fn end(&self) -> u32 {
        self.used.last().map_or(1, |last| last + 1)
    }

    pub(crate) fn give(&mut self, slot: u32) {
        self.used.remove(&slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_given_once_and_the_lowest_first() {
        let mut slots = Slots::below(20);
        let all: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(all, (1..20).collect::<Vec<_>>());
        assert_eq!((slots.end(), Slots::below(20).end()), (20, 1));
        slots.give(7);
        slots.give(3);
        assert_eq!(
            (slots.take(), slots.take(), slots.take()),
            (Some(3), Some(7), None)
        );
    }
}
