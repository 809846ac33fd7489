// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated host behind weir's one seam.
//!
//! weir is a process of this machine: its observations, with the decision, and its writes take CPU time on a
//! CPU that it has to get, so on a busy machine it is late.

mod description;
mod refill_timing;
pub(crate) mod sensors;

use crate::controller_kind::{Backend, WeirOptions};
use crate::cpu::cpu_max::CpuMax;
use crate::cpu::eevdf;
use crate::engine::machine::Machine;
use crate::engine::{accounting, task_exec};
use crate::from_scenario::{Built, Label};
use crate::scx;
use crate::scx::cpu_shortage::CpuRoom;
use refill_timing::Refills;
use sensors::AccessSource;
use weir_core::enforcement::class_rank::CpuShortage;
use weir_core::enforcement::overload_poll::OverloadPoll;
use weir_core::seam::observation::{
    Excluded, GroupReading, LatencyReading, LatencySource, LimitedWeight, Missing,
    TaskCountsReading, Use, WorkloadKind, WorkloadReading,
};
use weir_core::seam::plan::{ActionKind, Limit, Outcome, OutcomeKind, Plan};
use weir_core::seam::topology::Description;
use weir_core::units::off_beat;
use weir_core::{
    Bytes, CpuShare, DeviceId, GroupId, Nanos, Observation, Platform, PlatformError, Reading,
    WorkloadId,
};
use weir_scenario::simulated::{Role, Scenario};

/// Shortest quota the kernel takes.
const QUOTA_MIN_NS: f64 = 1e6;
const PERIOD_MAX_NS: f64 = 1e9;
/// Period of limits where none is configured.
const PERIOD: Nanos = Nanos::from_millis(10);

pub struct SimPlatform {
    pub(crate) machine: Machine,
    pub(crate) labels: Vec<Label>,
    pub(crate) groups: Vec<(u32, u32)>,
    daemon: u32,
    /// Positions of workloads in ascending order of id.
    order: Vec<usize>,
    description: Description,
    options: WeirOptions,
    pub(crate) interval_ns: u64,
    pub(crate) period_ns: u64,
    counter_read_ns: u64,
    signs: AccessSource,
    pub(crate) refills: Refills,
    pub(crate) held: Vec<bool>,
    /// Part of its own weight that each workload has.
    weight_ratio: Vec<f64>,
    latency_before: Vec<(f64, f64)>,
    room: CpuRoom,
    rush: OverloadPoll,
    due: u64,
    end: u64,
    seq: u64,
    /// Cumulative device bytes by workload at the last observation: the truth.
    pub(crate) truth: Vec<f64>,
}

impl SimPlatform {
    /// A host that runs a scenario until its end.
    ///
    /// # Errors
    /// A device profile that does not exist.
    pub fn new(
        scenario: &Scenario,
        options: &WeirOptions,
        seed: u64,
    ) -> Result<Self, crate::SimError> {
        let built = crate::from_scenario::build(scenario, seed, Some("weir"))?;
        Ok(Self::of(built, scenario, options, seed))
    }

    pub(crate) fn of(built: Built, scenario: &Scenario, options: &WeirOptions, seed: u64) -> Self {
        let Built {
            mut machine,
            labels,
            groups,
            daemon,
        } = built;
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by(|a, b| labels[*a].id.cmp(&labels[*b].id));
        let control = &scenario.control;
        let millis = |ms: u64| ms.max(1) * 1_000_000;
        let interval_ns = millis(options.interval_ms.unwrap_or(control.interval_ms));
        let configured = options.period_ms.or(control.period_ms).map(millis);
        let period_ns = configured.unwrap_or(off_beat(PERIOD).0);
        let refills = Refills::new(options, interval_ns, period_ns, labels.len(), seed);
        scx::backend::load(&mut machine, &groups, period_ns, options);
        let mut description =
            description::describe(&machine, scenario, &groups, &refills, period_ns);
        if options.backend != Backend::CpuMax {
            description.actuator = Some(scx::backend::actuator(period_ns));
        }
        let signs = AccessSource::new(&scenario.sensors, options.attribution, &labels, seed);
        description.task_events = signs.events();
        SimPlatform {
            description,
            signs,
            counter_read_ns: scenario.sensors.counter_read_ns,
            due: (scenario.control.control_from_sec * 1e9) as u64,
            end: (scenario.run_sec() * 1e9) as u64,
            held: vec![false; labels.len()],
            weight_ratio: vec![1.0; labels.len()],
            latency_before: vec![(0.0, 0.0); scenario.devices.len()],
            truth: vec![0.0; labels.len()],
            room: CpuRoom::default(),
            rush: OverloadPoll::default(),
            options: options.clone(),
            daemon: daemon.unwrap_or(0),
            seq: 0,
            machine,
            labels,
            groups,
            order,
            interval_ns,
            period_ns,
            refills,
        }
    }

    pub fn now(&self) -> Nanos {
        Nanos(self.machine.now)
    }

    /// Why limits cannot be held by this back end, once that is known.
    pub(crate) fn shortage(&self) -> Option<CpuShortage> {
        self.room.shortage()
    }

    pub(crate) fn spend(&mut self, ns: f64) {
        let latest = self.machine.now + 1_000_000_000;
        task_exec::give(&mut self.machine, self.daemon, ns);
        self.machine
            .run_until_served(self.daemon, latest.min(self.end.max(self.machine.now)));
    }

    pub(crate) fn spend_write(&mut self) {
        self.spend(self.options.write_ns);
    }

    fn groups_seen(&mut self) -> Vec<GroupReading> {
        let mut seen = Vec::with_capacity(self.groups.len());
        for (index, (device, group)) in self.groups.clone().into_iter().enumerate() {
            self.machine
                .run_until(self.machine.now + self.counter_read_ns);
            self.machine.settle_all();
            let [read, write] = accounting::counter(&mut self.machine, index);
            let at = self.now();
            seen.push(GroupReading {
                id: GroupId {
                    device: DeviceId(device),
                    index: group,
                },
                read_bytes: Reading::new(at, Bytes(read)),
                write_bytes: Reading::new(at, Bytes(write)),
            });
        }
        seen
    }

    fn workload_seen(
        &mut self,
        index: usize,
        task_counts: &mut Vec<TaskCountsReading>,
    ) -> WorkloadReading {
        let at = self.now();
        let label = &self.labels[index];
        let (id, weight, excluded) = (label.id.clone(), label.weight, excluded(label));
        let resident = label.resident;
        let accesses = resident.map(|(group, _)| self.signs.read(&self.machine, index, group));
        let accesses = accesses.unwrap_or_default();
        task_counts.extend(accesses.counts.map(|counts| TaskCountsReading {
            id: id.clone(),
            counts: Reading::new(at, counts),
        }));
        let uses = resident.map(|(group, bytes)| {
            let (device, number) = self.groups[group as usize];
            let sampled = accesses.sampled;
            Use {
                group: GroupId {
                    device: DeviceId(device),
                    index: number,
                },
                resident_bytes: Reading::new(at, Bytes(bytes)),
                sampled_read_bytes: sampled.map(|[loads, _]| Reading::new(at, loads)),
                sampled_write_bytes: sampled.map(|[_, stores]| Reading::new(at, stores)),
            }
        });
        WorkloadReading {
            id,
            kind: WorkloadKind::Cgroup,
            cpu_ns: Reading::new(at, Nanos(accounting::cpu_ns(&self.machine, index as u32))),
            throttled_ns: Reading::new(at, Nanos(scx::throttled_ns(&self.machine, index))),
            uses: uses.into_iter().collect(),
            // A scenario gives a workload memory on the device or none.
            resident_bytes: resident.map(|(_, bytes)| Bytes(bytes)),
            weight,
            their_limit_cpus: None,
            limited_weight: (self.weight_ratio[index] < 1.0).then(|| LimitedWeight::Lowered {
                ratio: self.weight_ratio[index],
            }),
            excluded,
        }
    }

    fn latencies(&mut self) -> Vec<LatencyReading> {
        if !self.options.sees_latency {
            return Vec::new();
        }
        let at = self.now();
        let fluid = &self.machine.fluid;
        let seen = self
            .latency_before
            .iter_mut()
            .enumerate()
            .map(|(device, before)| {
                let now = fluid.totals(device).latency_sum();
                let (lines, sum) = (now.0 - before.0, now.1 - before.1);
                *before = now;
                let mean_ns = if lines > 0.0 {
                    Reading::new(at, Nanos((sum / lines) as u64))
                } else {
                    Reading::missing(at, Missing::Lost("no line was moved".into()))
                };
                LatencyReading {
                    id: DeviceId(device as u32),
                    mean_ns,
                    source: LatencySource::Model,
                }
            });
        seen.collect()
    }

    pub(crate) fn position(&self, id: &WorkloadId) -> Option<usize> {
        self.find(id)
    }

    fn find(&self, id: &WorkloadId) -> Option<usize> {
        let found = self.order.binary_search_by(|i| self.labels[*i].id.cmp(id));
        found.ok().map(|at| self.order[at])
    }

    /// Why it is never limited, if so.
    pub(crate) fn refusal(&self, index: usize) -> Option<OutcomeKind> {
        excluded(&self.labels[index])
            .map(|why| OutcomeKind::Refused(format!("never limited: {why:?}")))
    }

    fn limit(&mut self, index: usize, cpus: CpuShare) -> OutcomeKind {
        if let Some(why) = self.refusal(index) {
            return why;
        }
        if !self.machine.ordinary.is_fair_class() {
            return OutcomeKind::Refused(
                "a sched_ext scheduler is loaded: cpu.max is not enforced".into(),
            );
        }
        let limit = quota(cpus, self.period_ns);
        if self.machine.workloads[index].quota.limit() == Some(limit) {
            return OutcomeKind::Unchanged;
        }
        self.spend(self.options.write_ns);
        eevdf::write_cpu_max(&mut self.machine, index as u32, Some(limit));
        self.held[index] = true;
        OutcomeKind::Applied
    }

    /// Gives a limited workload this part of its own weight. How far its tasks are ahead of or behind others
    /// stays.
    fn weigh(&mut self, index: usize, ratio: f64) {
        if self.weight_ratio[index] == ratio {
            return;
        }
        self.spend_write();
        self.weight_ratio[index] = ratio;
        for task in self.machine.workloads[index].tasks.clone() {
            self.machine.tasks[task as usize].weight = self.labels[index].weight * ratio;
        }
    }

    /// Weights of what has a limit, once that is set.
    fn change_weights(&mut self, plan: &Plan) {
        for change in &plan.weights {
            let found = self.find(&change.workload);
            if let Some(index) = found.filter(|index| self.held[*index]) {
                self.weigh(index, change.ratio.clamp(0.0, 1.0));
            }
        }
    }

    fn give_back(&mut self, index: usize) -> OutcomeKind {
        if self.options.backend != Backend::CpuMax {
            return self.end_budget(index);
        }
        if !std::mem::take(&mut self.held[index]) {
            return OutcomeKind::Unchanged;
        }
        self.spend(self.options.write_ns);
        eevdf::write_cpu_max(&mut self.machine, index as u32, None);
        self.weigh(index, 1.0);
        self.refills.forget(index);
        OutcomeKind::Applied
    }
}

impl Platform for SimPlatform {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn observe(&mut self) -> Result<Observation, PlatformError> {
        let next = self.due.max(self.machine.now);
        if next >= self.end {
            self.machine.run_until(self.end.max(self.machine.now));
            return Err(PlatformError::End);
        }
        self.machine.run_until(next);
        // Ticks that were missed are not made up for.
        self.due += ((next - self.due) / self.interval_ns + 1) * self.interval_ns;
        self.spend(
            self.options.look_ns + self.options.look_ns_per_workload * self.labels.len() as f64,
        );
        let groups = self.groups_seen();
        let order = std::mem::take(&mut self.order);
        let mut task_counts = Vec::new();
        let seen = |i: &usize| self.workload_seen(*i, &mut task_counts);
        let workloads = order.iter().map(seen).collect();
        self.order = order;
        let latencies = self.latencies();
        if self.options.backend == Backend::SchedExt {
            self.room.observe(&self.machine, self.daemon);
        }
        self.truth.clear();
        self.truth
            .extend(self.machine.workloads.iter().map(|w| w.tally.bytes()));
        let seq = self.seq;
        self.seq += 1;
        Ok(Observation {
            seq,
            at: self.now(),
            groups,
            latencies,
            devload: Vec::new(),
            running: Vec::new(),
            probe_traffic: Vec::new(),
            page_migration: None,
            unowned_memory: Vec::new(),
            workloads,
            task_counts,
            skipped: Vec::new(),
        })
    }

    /// Observations come sooner while a device is far above its set-point, and the grid begins anew there.
    fn on_plan(&mut self, plan: &Plan) {
        if let Some(early) = self.rush.next(plan, Nanos(self.interval_ns)) {
            self.due = self.due.min(self.machine.now.saturating_add(early.0));
        }
    }

    /// Carries a plan out by `cpu.max`. Each write waits for the next refill of its group, so writes are made
    /// in the order of those refills and not in the plan's; outcomes are returned in the plan's. Refills of
    /// new limits are looked for after all writes, because that takes a period in which the machine goes on.
    fn apply(&mut self, plan: &Plan) -> Vec<Outcome> {
        if self.options.backend != Backend::CpuMax {
            return self.apply_budgets(plan);
        }
        let begun = self.machine.now;
        let found: Vec<Option<usize>> = plan
            .actions
            .iter()
            .map(|a| self.find(&a.workload))
            .collect();
        let wait = |i: usize| found[i].map_or(0, |index| self.refills.wait(&self.machine, index));
        let mut order: Vec<(u64, usize)> = (0..found.len()).map(|i| (wait(i), i)).collect();
        order.sort_unstable();
        let mut results = vec![OutcomeKind::Vanished; found.len()];
        let mut new = Vec::new();
        for (wait, i) in order {
            let Some(index) = found[i] else { continue };
            results[i] = match plan.actions[i].kind {
                ActionKind::Limit(Limit::DeviceBytes { .. }) => {
                    OutcomeKind::Refused("cpu.max limits CPU time, not device bytes".into())
                }
                ActionKind::Limit(Limit::CpuTime { cpus }) => {
                    self.machine.run_until((begun + wait).max(self.machine.now));
                    let result = self.limit(index, cpus);
                    if result == OutcomeKind::Applied && !self.refills.knows(&self.machine, index) {
                        new.push(index);
                    }
                    result
                }
                ActionKind::Release => self.give_back(index),
            };
        }
        if !new.is_empty() {
            self.spread_refills(&new);
        }
        self.change_weights(plan);
        let outcome = |(action, result): (&weir_core::Action, OutcomeKind)| Outcome {
            workload: action.workload.clone(),
            result,
        };
        plan.actions.iter().zip(results).map(outcome).collect()
    }

    fn release_all(&mut self) -> Vec<Outcome> {
        let held: Vec<usize> = self
            .order
            .iter()
            .copied()
            .filter(|i| self.held[*i])
            .collect();
        let outcome = |index: usize| Outcome {
            workload: self.labels[index].id.clone(),
            result: self.give_back(index),
        };
        held.into_iter().map(outcome).collect()
    }
}

fn excluded(label: &Label) -> Option<Excluded> {
    match label.role {
        Role::System if label.name == "weir" => Some(Excluded::Weir),
        Role::System => Some(Excluded::Kernel),
        _ => label.is_realtime.then_some(Excluded::RealTime),
    }
}

/// The `cpu.max` that allows `cpus`: a limit too small for the shortest quota makes the period longer.
pub(crate) fn quota(cpus: CpuShare, period_ns: u64) -> CpuMax {
    let cpus = cpus.get().max(QUOTA_MIN_NS / PERIOD_MAX_NS);
    let quota_ns = cpus * period_ns as f64;
    let limit = if quota_ns >= QUOTA_MIN_NS {
        CpuMax {
            quota_ns: quota_ns.round() as u64,
            period_ns,
        }
    } else {
        let period_ns = (QUOTA_MIN_NS / cpus).min(PERIOD_MAX_NS) as u64;
        CpuMax {
            quota_ns: QUOTA_MIN_NS as u64,
            period_ns,
        }
    };
    limit.accepted()
}
