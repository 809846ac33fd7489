// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one step is given, and what its stages have found so far. None of it lives to the next step: that
//! is [`super::state`].

use super::budgets::{Budgets, WorkloadBudget};
use super::config::{Config, Gains};
use super::demands::{Demands, DeviceDemand};
use super::parts::Parts;
use super::signals::{Signals, WorkloadSignals};
use super::state::State;
use crate::rates::attribution::{AccessSignal, Attributed};
use crate::rates::bandwidth::{DeviceRate, GroupRate, device_rates};
use crate::seam::observation::Observation;
use crate::seam::topology::{Actuator, Description};
use crate::units::Nanos;

/// What a step is given, and its time.
pub(super) struct StepContext<'a> {
    pub config: &'a Config,
    pub gains: Gains,
    pub machine: &'a Description,
    pub seen: &'a Observation,
    pub at: Nanos,
    /// Since the last step, in seconds; 0 on the first.
    pub dt: f64,
}

impl<'a> StepContext<'a> {
    pub fn begin(
        state: &mut State,
        config: &'a Config,
        machine: &'a Description,
        seen: &'a Observation,
    ) -> Self {
        let before = state.last_at.replace(seen.at);
        let dt = before
            .and_then(|before| seen.at.since(before))
            .map_or(0.0, |d| d.secs_f64());
        StepContext {
            config,
            gains: config.gains().with(machine.actuator.as_ref()),
            machine,
            seen,
            at: seen.at,
            dt,
        }
    }
}

/// What the devices moved since the step before.
pub(super) struct StepRates {
    /// One entry for each group, in ascending order of id.
    pub groups: Vec<GroupRate>,
    /// One entry for each device, in ascending order of id.
    pub devices: Vec<DeviceRate>,
}

impl StepRates {
    /// First stage: counters of devices become bandwidth.
    pub fn measure(state: &mut State, context: &StepContext<'_>) -> StepRates {
        let alpha = context.gains.bandwidth_alpha;
        let groups = state
            .meter
            .update(context.machine, &context.seen.groups, alpha);
        let devices = device_rates(context.machine, &groups);
        StepRates { groups, devices }
    }
}

/// What the stages of a step have found.
pub(super) struct StepFindings {
    pub rates: StepRates,
    pub signals: Signals,
    pub parts: Parts,
    pub demands: Demands,
    pub budgets: Budgets,
}

#[derive(Clone, Copy)]
pub(super) struct WorkloadFindings<'a> {
    pub signals: &'a WorkloadSignals,
    /// The demands of this workload, one for each device that it uses.
    pub demands: &'a [DeviceDemand],
    pub budget: &'a WorkloadBudget,
    /// What it may have of each device, in the order of `demands`.
    pub allowed: &'a [Option<f64>],
}

impl WorkloadFindings<'_> {
    /// It is not limited to less than this, in CPUs: the operator's floor for every workload, its part
    /// of the common floor if that is less, and at least what the back end can hold.
    pub fn floor(&self, floor_cpus: f64, min_cpus: f64) -> f64 {
        let least = if min_cpus.is_finite() { min_cpus } else { 0.0 };
        let part = self.budget.floor_part.unwrap_or(f64::INFINITY);
        floor_cpus.min(part).max(least).min(self.signals.cap)
    }

    /// This limit in CPUs is its floor, and not its part of a device.
    pub fn is_at_floor(&self, limit: Option<f64>, gains: &Gains, actuator: &Actuator) -> bool {
        let floor = self.floor(gains.floor, actuator.min_cpus);
        limit.is_some_and(|limit| limit <= floor)
    }
}

impl StepFindings {
    /// The findings of all workloads, in the order of [`State`].
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadFindings<'_>> {
        (0..self.signals.workloads.len()).map_while(|position| self.workload(position))
    }

    pub fn workload(&self, position: usize) -> Option<WorkloadFindings<'_>> {
        let range = self.demands.ranges.get(position)?;
        Some(WorkloadFindings {
            signals: self.signals.workloads.get(position)?,
            demands: self.demands.all.get(range.clone()).unwrap_or_default(),
            budget: self.budgets.workloads.get(position)?,
            allowed: self.budgets.allowed.get(range.clone()).unwrap_or_default(),
        })
    }

    /// Its parts of groups, each with the place among its uses, its signal and the part.
    pub fn parts_of(
        &self,
        signals: &WorkloadSignals,
    ) -> impl Iterator<Item = (usize, &AccessSignal, &Attributed)> {
        let of = |i: usize| {
            let access = self.signals.accesses.get(i)?;
            Some((
                *self.signals.places.get(i)?,
                access,
                self.parts.uses.get(i)?,
            ))
        };
        signals.uses.clone().map_while(of)
    }
}
