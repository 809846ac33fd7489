// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits as budgets in device bytes, as weir-linux feeds its scheduler (see its `scx/mod.rs`): the rate of
//! each limited workload, and what is left of the set-point for all others.

use crate::books::{Books, Rate, Server, Settings};
use crate::machine::Machine;
use crate::partial::Partial;
use crate::platform::SimPlatform;
use weir_core::budget::{budget_of, others_room, whole};
use weir_core::plan::{ActionKind, Outcome, OutcomeKind, Plan};
use weir_core::topology::Actuator;
use weir_core::{CpuShare, Nanos};

/// What one interval may leave open for the next, as time at the set-point.
const CARRY_SEC: f64 = 0.2;
/// The smallest limit that means something.
const MIN_CPUS: f64 = 0.001;

/// The scheduler in the kernel; nobody is limited yet.
pub(crate) fn load(machine: &mut Machine, groups: &[(u32, u32)], period_ns: u64, server: Server) {
    let devices: Vec<usize> = groups.iter().map(|(device, _)| *device as usize).collect();
    let books = Books::new(
        Settings::of_period(period_ns, server),
        machine.workloads.len(),
        machine.fluid.device_count(),
    );
    let partial = Partial::new(books, devices, machine.cpus.len());
    machine.load_partial(partial);
}

/// What the controller has to know of it.
pub(crate) fn actuator(period_ns: u64) -> Actuator {
    let settings = Settings::of_period(period_ns, Server::USUAL);
    Actuator {
        name: "sim-scx".into(),
        min_cpus: MIN_CPUS,
        grain_ns: Nanos(settings.tick_ns),
        refill_on_write_ratio: 0.0,
        period_ns: Nanos(settings.room_ns),
        min_quota_ns: Nanos(0),
        is_exact: true,
    }
}

impl SimPlatform {
    /// Carries a plan out: limits and releases first, then everybody's rate.
    pub(crate) fn apply_budgets(&mut self, plan: &Plan) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.actions.len());
        for action in &plan.actions {
            let index = self.position(&action.workload);
            let result = match (index, action.kind) {
                (None, _) => OutcomeKind::Vanished,
                (Some(index), ActionKind::Limit { cpus }) => self.budget(index, cpus, plan),
                (Some(index), ActionKind::Release) => self.end_budget(index),
            };
            outcomes.push(Outcome {
                workload: action.workload.clone(),
                result,
            });
        }
        self.feed(plan);
        outcomes
    }

    fn budget(&mut self, index: usize, cpus: CpuShare, plan: &Plan) -> OutcomeKind {
        if let Some(why) = self.refusal(index) {
            return why;
        }
        let Some((group, _)) = self.labels[index].resident else {
            return OutcomeKind::Refused("it has no memory on a device".into());
        };
        // Of whom nothing is known nothing is charged.
        let rate = self.rate(index, cpus, plan).unwrap_or(Rate {
            device: self.groups[group as usize].0 as usize,
            cpus: cpus.get(),
            ..Rate::default()
        });
        if !std::mem::replace(&mut self.held[index], true) {
            self.spend_write();
        }
        self.machine.hold(index, rate);
        OutcomeKind::Applied
    }

    /// Its tasks go back to the fair class.
    pub(crate) fn end_budget(&mut self, index: usize) -> OutcomeKind {
        if !std::mem::take(&mut self.held[index]) {
            return OutcomeKind::Unchanged;
        }
        self.spend_write();
        self.machine.let_go(index);
        OutcomeKind::Applied
    }

    fn rate(&self, index: usize, cpus: CpuShare, plan: &Plan) -> Option<Rate> {
        let label = &self.labels[index];
        let verdict = plan.workloads.iter().find(|v| v.id == label.id)?;
        let budget = budget_of(verdict, cpus)?;
        let (group, _) = label.resident?;
        Some(Rate {
            bytes_per_sec: budget.bytes_per_sec,
            intensity_bytes_per_sec: budget.intensity_bytes_per_cpu_sec,
            device: self.groups[group as usize].0 as usize,
            cpus: cpus.get(),
        })
    }

    /// Rates follow each plan, also where no limit changes.
    fn feed(&mut self, plan: &Plan) {
        let mut given = vec![0; self.machine.fluid.device_count()];
        for index in 0..self.labels.len() {
            let Some(old) = self.rate_of(index) else {
                continue;
            };
            let rate = self
                .rate(index, CpuShare::new(old.cpus), plan)
                .unwrap_or(old);
            self.machine.hold(index, rate);
            given[rate.device] += rate.bytes_per_sec;
        }
        let Some(partial) = self.machine.partial.as_deref_mut() else {
            return;
        };
        for state in &plan.devices {
            let device = state.id.0 as usize;
            let target = state.set_point_bytes_per_sec.map_or(0, |t| whole(t.get()));
            if let Some(meter) = partial.books.meters.get_mut(device) {
                meter.set_point_bytes_per_sec = target;
                meter.others_bytes_per_sec = others_room(state, given[device]);
                meter.carry_max = whole(target as f64 * CARRY_SEC) as i64;
            }
        }
    }

    fn rate_of(&self, index: usize) -> Option<Rate> {
        let partial = self.machine.partial.as_deref()?;
        partial.books.accounts[index].map(|a| a.rate)
    }
}
