// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Full mode: workloads that are not limited are guarded. The plan observes the device once in an interval; a
//! load that begins in between would have the device for itself until then. So the scheduler gives the device
//! a budget of its own. While that is used up, it holds back workloads that have had more than their part.
//! Their part is their weight's part of the set-point. It counts in no other case.

use super::Scx;
use super::cgroup_map::Owners;
use super::intf::{self, WorkloadCfg};
use super::limited::limitable;
use super::loader::{Loaded, Rule, ScxError};
use crate::workloads::discovery::{View, Watched};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::enforcement::byte_budget::whole;
use weir_core::{DeviceId, Plan, WorkloadId};

/// A rate that moved by less than this part is not written to the scheduler's map again.
const WORTH: f64 = 0.05;

/// A workload that the scheduler knows although it is not limited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarded {
    pub(super) slot: u32,
    cgroup: u64,
    rate: WorkloadCfg,
}

impl Scx {
    /// A slot for a workload that is to be limited, and whether the slot was free until now. A workload that
    /// was guarded keeps its slot. If there is none left, another workload is guarded no more.
    pub(super) fn slot_for(&mut self, id: &WorkloadId) -> Option<(u32, bool)> {
        if let Some(guarded) = self.guarded.remove(id) {
            return Some((guarded.slot, false));
        }
        if let Some(slot) = self.slots.take() {
            return Some((slot, true));
        }
        let (_, other) = self.guarded.pop_last()?;
        if let Some(loaded) = &self.loaded
            && let Err(why) = unguard(loaded, &mut self.owners, other)
        {
            tracing::warn!("{why}");
        }
        Some((other.slot, true))
    }

    /// Makes the guarded workloads those that could be limited and are not. Workloads that are guarded no
    /// more give their slots back first, so that new ones find some. A slot's count is cleared and its rate
    /// set before a cgroup gets the slot: otherwise the scheduler would hold the new workload to what the one
    /// before it had used.
    pub(super) fn guard(&mut self, plan: &Plan, view: &View) -> Result<(), ScxError> {
        let Some(loaded) = self.loaded.as_ref().filter(|_| self.rule == Rule::Full) else {
            return Ok(());
        };
        let mut wanted = rates(plan, view);
        wanted.retain(|id, _| !self.holds.contains_key(id));
        let mut is_changed = false;
        for (id, guarded) in std::mem::take(&mut self.guarded) {
            match wanted.remove(&id) {
                Some((cgroup, rate)) if cgroup == guarded.cgroup => {
                    let mut kept = guarded;
                    if is_worth(guarded.rate, rate) {
                        loaded.set_rate(guarded.slot, rate)?;
                        kept.rate = rate;
                    }
                    self.guarded.insert(id, kept);
                }
                _ => {
                    unguard(loaded, &mut self.owners, guarded)?;
                    self.slots.give(guarded.slot);
                    is_changed = true;
                }
            }
        }
        for (id, (cgroup, rate)) in wanted {
            let Some(slot) = self.slots.take() else { break };
            loaded.clear_count(slot)?;
            loaded.set_rate(slot, rate)?;
            let share = self.owners.set_slot(cgroup, slot);
            loaded.own(cgroup, slot, share)?;
            self.guarded.insert(id, Guarded { slot, cgroup, rate });
            is_changed = true;
        }
        self.beat.slots = u64::from(self.slots.end());
        self.beat.epoch += u64::from(is_changed);
        Ok(())
    }
}

fn unguard(loaded: &Loaded, owners: &mut Owners, guarded: Guarded) -> Result<(), ScxError> {
    let free = WorkloadCfg {
        active: intf::MODE_FREE,
        ..guarded.rate
    };
    loaded.set_rate(guarded.slot, free)?;
    let share = owners.set_slot(guarded.cgroup, 0);
    loaded.own(guarded.cgroup, 0, share)
}

fn is_worth(old: WorkloadCfg, new: WorkloadCfg) -> bool {
    let moved = |old: u64, new: u64| old.abs_diff(new) as f64 > WORTH * old as f64;
    old.device != new.device
        || moved(old.bytes_per_sec, new.bytes_per_sec)
        || moved(old.intensity_bytes_per_sec, new.intensity_bytes_per_sec)
}

/// The cgroup and the part of each workload that could be limited.
fn rates(plan: &Plan, view: &View) -> BTreeMap<WorkloadId, (u64, WorkloadCfg)> {
    let mut weights: BTreeMap<DeviceId, f64> = BTreeMap::new();
    let mut found = Vec::new();
    for watched in &view.workloads {
        if let Ok((leaf, device)) = limitable(watched) {
            *weights.entry(device).or_default() += watched.weight;
            found.push((watched, leaf.inode, device));
        }
    }
    let rate = |(watched, cgroup, device): (&Arc<Watched>, u64, DeviceId)| {
        let state = plan.devices.iter().find(|d| d.id == device)?;
        let target = state.set_point_bytes_per_sec?.get();
        let verdict = plan.workloads.iter().find(|v| v.id == watched.id);
        let known = verdict.and_then(|v| v.intensity_bytes_per_cpu_sec);
        // A workload that has not moved anything yet: its charge is scaled by what the device counts.
        let intensity = known
            .filter(|k| k.is_finite() && *k > 0.0)
            .unwrap_or(target);
        let part = watched.weight / weights.get(&device)?;
        let rate = WorkloadCfg {
            active: intf::MODE_CAPPED,
            bytes_per_sec: whole(target * part).max(1),
            intensity_bytes_per_sec: whole(intensity).max(1),
            device: u64::from(device.0),
        };
        Some((watched.id.clone(), (cgroup, rate)))
    };
    found.into_iter().filter_map(rate).collect()
}
