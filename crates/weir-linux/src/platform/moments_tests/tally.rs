// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of what happened, so that a test of random moments cannot pass without meeting them.

use super::fake_host::DeathPlace;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) deaths: BTreeMap<DeathPlace, usize>,
    pub(super) faults: BTreeMap<DeathPlace, usize>,
    pub(super) second_deaths: usize,
    pub(super) left_alone: usize,
    pub(super) restored: usize,
    pub(super) torn: usize,
    /// Weirs that ended by themselves.
    pub(super) ends: usize,
}
