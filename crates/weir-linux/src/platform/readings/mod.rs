// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one tick reads, step by step, until it is an [`Observation`]:
//!
//! ```text
//! discovered ─► with_unowned_memory ─► counted ─► attributed ─► observation
//! the view      memory of no           devices    workloads
//!               workload
//! ```
//!
//! Devices come before workloads, and close together, since rates are made of both. Each step takes the
//! readings of those before it and gives them on with its own.

pub(super) mod devices;
pub(super) mod moved_groups;
pub(super) mod page_migration;
pub(super) mod workloads;

use super::LinuxPlatform;
use crate::counters::pmu::latency::Waits;
use crate::kernel::clock::now;
use crate::workloads::discovery::View;
use std::sync::Arc;
use weir_core::seam::observation::{
    GroupReading, Skipped, TaskCountsReading, UnownedMemory, WorkloadReading,
};
use weir_core::{Missing, Observation};

/// What a tick has read so far. A part is empty until its step was made.
pub(super) struct Readings {
    view: Arc<View>,
    unowned_memory: Vec<UnownedMemory>,
    groups: Vec<GroupReading>,
    workloads: Vec<WorkloadReading>,
    task_counts: Vec<TaskCountsReading>,
    /// What could not be read, or not be done, with the reason.
    skipped: Vec<Skipped>,
}

impl LinuxPlatform {
    /// What discovery last found, and what stands in weir's way.
    pub(super) fn discovered(&mut self) -> Readings {
        let (view, is_last) = self.pace.view();
        if view.round != self.view.round {
            self.take_over(&view);
        }
        let mut skipped = view.skipped.clone();
        if is_last {
            let why = Missing::Lost("discovery ended: workloads are as last seen".into());
            skipped.push(Skipped {
                what: "discovery".into(),
                why,
            });
        }
        skipped.extend(self.backends.unenforced());
        skipped.extend(self.hotplug.standing());
        Readings {
            view,
            unowned_memory: Vec::new(),
            groups: Vec::new(),
            workloads: Vec::new(),
            task_counts: Vec::new(),
            skipped,
        }
    }

    /// Memory of the devices' nodes that no workload has. Too much of it makes discovery look for its owner.
    pub(super) fn with_unowned_memory(&mut self, mut seen: Readings) -> Readings {
        let (skipped, buffer) = (&mut seen.skipped, &mut self.buffer);
        seen.unowned_memory = self.balance.read(&seen.view, skipped, buffer);
        if self.balance.wants_search() {
            self.balance.searches(self.pace.search());
        }
        if self.balance.wants_round() {
            self.pace.sweep();
        }
        seen
    }

    /// What devices counted. The back end has it at once: weir's scheduler charges by it.
    pub(super) fn counted(&mut self, mut seen: Readings) -> Readings {
        seen.groups = self.devices.read(&seen.view, &mut seen.skipped);
        self.backends.active().on_counts(&seen.groups);
        seen
    }

    /// What workloads used, with counts of their tasks where there are any. These are taken first: what is
    /// counted after the devices were read is in one and not in the other.
    pub(super) fn attributed(&mut self, mut seen: Readings) -> Readings {
        let skipped = &mut seen.skipped;
        let traffic = self.task_traffic.as_mut();
        let traffic = traffic.map(|traffic| traffic.take(&seen.view, skipped));
        let (backends, idle) = (&self.backends, &self.devices.idle);
        let reader = &mut self.workloads;
        let workloads = reader.read(&seen.view, backends, idle, &mut self.buffer, skipped);
        if reader.has_vanished {
            self.pace.hurry();
        }
        seen.workloads = self.devices.moved.without_uses(workloads);
        let counts = traffic.map(|traffic| traffic.fill(&mut seen.workloads));
        seen.task_counts = counts.unwrap_or_default();
        seen
    }

    /// The tick's observation, with what devices and the kernel say of themselves.
    pub(super) fn observation(&mut self, seen: Readings) -> Observation {
        let seq = self.seq;
        self.seq += 1;
        let proc = &self.workloads.proc;
        Observation {
            seq,
            at: now(),
            groups: seen.groups,
            latencies: self.devices.waits.iter_mut().map(Waits::read).collect(),
            devload: self.devices.counters.loads(),
            running: self.devices.counters.running(),
            probe_traffic: Vec::new(),
            page_migration: self.page_migration.read(proc, &mut self.buffer),
            unowned_memory: seen.unowned_memory,
            workloads: seen.workloads,
            task_counts: seen.task_counts,
            skipped: seen.skipped,
        }
    }
}
