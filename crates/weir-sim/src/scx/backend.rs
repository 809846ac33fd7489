// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits as budgets in device bytes, as weir-linux feeds its scheduler (its `backends/sched_ext`): the rate
//! of each limited workload, and what is left of the set-point for all others.

use super::budgets::{Account, Mode, Rate, SchedStats, Settings};
use super::full::Full;
use super::partial::{Partial, Server};
use super::{Ext, Rule, full, partial, tick};
use crate::controller_kind::{Backend, WeirOptions};
use crate::engine::machine::Machine;
use crate::platform::SimPlatform;
use weir_core::Nanos;
use weir_core::enforcement::byte_budget::{WholeBudget, others_room, whole};
use weir_core::enforcement::sched_settings::{CARRY, MIN_CPUS, OVERLOAD_CAP};
use weir_core::seam::plan::{ActionKind, Limit, Outcome, OutcomeKind, Plan};
use weir_core::seam::topology::Actuator;

/// The scheduler in the kernel, where a back end needs it; no workload is limited yet.
pub(crate) fn load(
    machine: &mut Machine,
    groups: &[(u32, u32)],
    period_ns: u64,
    options: &WeirOptions,
) {
    let cpu_count = machine.cpus.len();
    let partial = |server| Rule::Partial(Partial::new(server, cpu_count));
    let rule = match options.backend {
        Backend::CpuMax => return,
        Backend::SchedExt => partial(Server::USUAL),
        Backend::SchedExtServed => partial(Server::RAISED),
        Backend::SchedExtFull => {
            let member =
                |t: &crate::engine::machine::Task| (t.workload as usize, whole(t.weight).max(1));
            let members: Vec<(usize, u64)> = machine.tasks.iter().map(member).collect();
            Rule::Full(Full::new(&members, machine.workloads.len(), cpu_count))
        }
    };
    let settings = Settings {
        looks_every_ns: options.looks_every_ns,
        ..Settings::of_period(period_ns)
    };
    let stats = SchedStats::new(
        settings,
        machine.workloads.len(),
        machine.fluid.device_count(),
    );
    let devices: Vec<usize> = groups.iter().map(|(device, _)| *device as usize).collect();
    tick::load(machine, Ext::new(stats, rule, devices));
}

/// What the controller has to know of it.
pub(crate) fn actuator(period_ns: u64) -> Actuator {
    let settings = Settings::of_period(period_ns);
    Actuator {
        name: "sim-sched-ext".into(),
        levers: vec![weir_core::seam::topology::Lever::DeviceBytes],
        min_cpus: MIN_CPUS,
        grain_ns: Nanos(settings.tick_ns),
        refill_on_write_ratio: 0.0,
        period_ns: Nanos(settings.burst_ns),
        min_quota_ns: Nanos(0),
        is_exact: true,
    }
}

impl SimPlatform {
    /// Carries a plan out: limits and releases first, then the rates of all workloads.
    pub(crate) fn apply_budgets(&mut self, plan: &Plan) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(plan.actions.len());
        for action in &plan.actions {
            let index = self.position(&action.workload);
            let result = match (index, action.kind) {
                (None, _) => OutcomeKind::Vanished,
                (Some(index), ActionKind::Limit(limit)) => self.budget(index, limit),
                (Some(index), ActionKind::Release) => self.end_budget(index),
            };
            outcomes.push(Outcome {
                workload: action.workload.clone(),
                result,
            });
        }
        self.cap_unlimited(plan);
        self.feed(plan);
        outcomes
    }

    fn budget(&mut self, index: usize, limit: Limit) -> OutcomeKind {
        if let Some(why) = self.refusal(index) {
            return why;
        }
        let Limit::DeviceBytes {
            bytes_per_sec,
            intensity_bytes_per_cpu_sec,
            cpus,
        } = limit
        else {
            return OutcomeKind::Refused("the scheduler limits device bytes, not CPU time".into());
        };
        let budget = WholeBudget::of(bytes_per_sec.get(), intensity_bytes_per_cpu_sec);
        let Some(rate) = self.rate(index, budget, cpus.get()) else {
            return OutcomeKind::Refused("it has no memory on a device".into());
        };
        if !std::mem::replace(&mut self.held[index], true) {
            self.spend_write();
        }
        partial::hold(&mut self.machine, index, rate);
        OutcomeKind::Applied
    }

    pub(crate) fn end_budget(&mut self, index: usize) -> OutcomeKind {
        if !std::mem::take(&mut self.held[index]) {
            return OutcomeKind::Unchanged;
        }
        self.spend_write();
        partial::let_go(&mut self.machine, index);
        OutcomeKind::Applied
    }

    fn rate(&self, index: usize, budget: WholeBudget, cpus: f64) -> Option<Rate> {
        let (group, _) = self.labels[index].resident?;
        Some(Rate {
            bytes_per_sec: budget.bytes_per_sec,
            intensity_bytes_per_sec: budget.intensity_bytes_per_cpu_sec,
            device: self.groups[group as usize].0 as usize,
            cpus,
        })
    }

    /// Rates follow each plan, also where no limit changes.
    fn feed(&mut self, plan: &Plan) {
        let mut given = vec![0; self.machine.fluid.device_count()];
        for index in 0..self.labels.len() {
            let Some(old) = self.rate_of(index) else {
                continue;
            };
            let budget = plan
                .budget_of(&self.labels[index].id)
                .map(WholeBudget::from);
            let rate = budget.and_then(|budget| self.rate(index, budget, old.cpus));
            let rate = rate.unwrap_or(old);
            partial::hold(&mut self.machine, index, rate);
            given[rate.device] += rate.bytes_per_sec;
        }
        let Some(ext) = self.machine.ext.as_deref_mut() else {
            return;
        };
        for state in &plan.devices {
            let device = state.id.0 as usize;
            let target = state.target().map_or(0, |t| whole(t.get()));
            if let Some(meter) = ext.stats.meters.get_mut(device) {
                meter.set_point_bytes_per_sec = target;
                meter.others_bytes_per_sec = others_room(state, given[device]);
                // While no workload is limited all of it is for the others, and what they leave is no credit
                // of any workload.
                let carry_sec = if given[device] > 0 {
                    CARRY.secs_f64()
                } else {
                    0.0
                };
                meter.carry_max = whole(target as f64 * carry_sec) as i64;
                if matches!(ext.rule, Rule::Full(_)) {
                    meter.overload_max = whole(target as f64 * OVERLOAD_CAP.secs_f64());
                }
            }
        }
    }

    fn rate_of(&self, index: usize) -> Option<Rate> {
        let ext = self.machine.ext.as_deref()?;
        let limited = ext.stats.accounts[index].filter(|a| a.mode == Mode::Limited);
        limited.map(|a| a.rate)
    }

    /// Full mode: the overload cap applies to workloads that could be limited and are not (see weir-linux,
    /// `sched_ext/overload_cap.rs`): each with its weight's part of the set-point, at the intensity the plan
    /// knows, if it does.
    fn cap_unlimited(&mut self, plan: &Plan) {
        if full::of(&mut self.machine).is_none() {
            return;
        }
        let rates: Vec<Option<Rate>> = (0..self.labels.len())
            .map(|index| self.part_of(index, plan))
            .collect();
        let Some(ext) = self.machine.ext.as_deref_mut() else {
            return;
        };
        for (account, rate) in ext.stats.accounts.iter_mut().zip(rates) {
            match (account.as_mut(), rate) {
                (Some(known), _) if known.mode == Mode::Limited => {}
                (Some(known), Some(rate)) => known.rate = rate,
                (None, Some(rate)) => *account = Some(Account::of(rate, Mode::Capped)),
                (_, None) => *account = None,
            }
        }
    }

    /// The device of a workload that could be limited.
    fn limitable(&self, index: usize) -> Option<usize> {
        let (group, _) = self.labels[index].resident?;
        let is_there = self.machine.workloads[index].is_alive && self.refusal(index).is_none();
        is_there.then_some(self.groups[group as usize].0 as usize)
    }

    fn part_of(&self, index: usize, plan: &Plan) -> Option<Rate> {
        let device = self.limitable(index)?;
        let state = plan.devices.iter().find(|d| d.id.0 as usize == device)?;
        let target = state.set_point_bytes_per_sec?.get();
        let all = (0..self.labels.len()).filter(|i| self.limitable(*i) == Some(device));
        let weights: f64 = all.map(|i| self.labels[i].weight).sum();
        let label = &self.labels[index];
        let verdict = plan.workloads.iter().find(|v| v.id == label.id);
        let known = verdict.and_then(|v| v.intensity_bytes_per_cpu_sec);
        let intensity = known.filter(|k| k.is_finite() && *k > 0.0);
        Some(Rate {
            bytes_per_sec: whole(target * label.weight / weights).max(1),
            intensity_bytes_per_sec: whole(intensity.unwrap_or(target)).max(1),
            device,
            cpus: f64::INFINITY,
        })
    }
}
