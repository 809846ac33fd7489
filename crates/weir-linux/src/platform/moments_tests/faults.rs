// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes that fail while weir lives on.

use super::fake_host::DeathPlace;
use super::random::Random;
use std::collections::BTreeMap;

/// A part of the changes fails, and weir lives on.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) random: Option<Random>,
    /// Lines of journals that were written in part and not truncated yet.
    pub(super) partial: usize,
    /// How many there were, by place.
    pub(super) count: BTreeMap<DeathPlace, usize>,
}

impl Faults {
    pub(super) fn of(seed: u64) -> Self {
        Faults {
            random: Some(Random::new(seed)),
            ..Faults::default()
        }
    }

    /// One of eight changes. A host with a full disk refuses several in succession.
    pub(super) fn strikes(&mut self, place: DeathPlace) -> Option<&mut Random> {
        let random = self.random.as_mut()?;
        if random.below(8) > 0 {
            return None;
        }
        *self.count.entry(place).or_default() += 1;
        Some(random)
    }
}
