// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a tick reads of devices: their counters, and what latency and load they report.

use super::moved_groups::MovedGroups;
use crate::counters::Counters;
use crate::counters::idle_groups::IdleGroups;
use crate::counters::link_bound::Bounds;
use crate::counters::pmu::latency::Waits;
use crate::workloads::discovery::View;
use weir_core::seam::observation::{GroupReading, Skipped};

pub(crate) struct DeviceReader {
    pub(crate) counters: Counters,
    pub(crate) bounds: Bounds,
    /// Events that measure latency, where there are any.
    pub(crate) waits: Option<Waits>,
    /// Groups whose users are not known yet.
    pub(crate) moved: MovedGroups,
    /// Groups that moved next to nothing since the last tick.
    pub(crate) idle: IdleGroups,
    space: Vec<u8>,
}

impl DeviceReader {
    pub(crate) fn new(counters: Counters, bounds: Bounds, waits: Option<Waits>) -> Self {
        DeviceReader {
            counters,
            bounds,
            waits,
            moved: MovedGroups::default(),
            idle: IdleGroups::default(),
            space: Vec::new(),
        }
    }

    /// Reads all counters. A count that the device's link could not carry is lost, and that is logged.
    pub(crate) fn plausible(&mut self) -> (Vec<GroupReading>, Vec<Skipped>) {
        self.bounds.read(&mut self.counters, &mut self.space)
    }

    /// Reads all counters for a tick that has this view of workloads: plausible ones, of groups whose users
    /// are known. Notes which groups are idle.
    pub(crate) fn read(&mut self, view: &View, skipped: &mut Vec<Skipped>) -> Vec<GroupReading> {
        let (groups, dropped) = self.plausible();
        skipped.extend(dropped);
        self.moved.settle(view);
        let groups = self.moved.without_counts(groups);
        self.idle.follow(&groups);
        skipped.extend(self.counters.scaled());
        groups
    }
}
