// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run: a scenario, its controller, a seed.

use crate::controller_kind::{ControllerKind, WeirOptions};
use crate::cpu::cpu_max::CpuMax;
use crate::cpu::eevdf;
use crate::drfq;
use crate::drfq::fair_shares::UsePerSec;
use crate::drfq::variant::{MEMORIES_MAX, SharesVariant};
use crate::engine::accounting;
use crate::engine::event_queue::Event;
use crate::engine::machine::Machine;
use crate::from_scenario::{Built, build};
use crate::metrics::{Reader, RunMetrics};
use crate::platform::SimPlatform;
#[cfg(feature = "thesis")]
use crate::thesis;
use std::collections::BTreeMap;
use weir_core::controller::{Config, State, step};
use weir_core::{Description, Observation, Outcome, Plan, Platform};
use weir_scenario::simulated::{Device, DeviceKind, Role, Scenario};

#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A profile of a device or of DRAM does not exist or cannot be read.
    #[error(transparent)]
    Profile(#[from] weir_description::DescriptionError),
    #[error(transparent)]
    Config(#[from] weir_core::controller::ConfigError),
    /// The scheduler of shares has no clocks for so many memories.
    #[error(
        "{name}: {devices} devices are more than the {MEMORIES_MAX} that a flow has clocks for: leave some out"
    )]
    Memories { name: &'static str, devices: usize },
    /// The back end cannot hold limits on this machine.
    #[error("seed {seed}, second {at_sec}: the back end {name} is refused: {why}")]
    Refused {
        name: &'static str,
        seed: u64,
        /// When, in seconds since the start.
        at_sec: u64,
        why: weir_core::enforcement::class_rank::CpuShortage,
    },
}

/// Runs a scenario. The same scenario, variant and seed give the same measures, bit for bit.
///
/// # Errors
/// A device profile that does not exist, or a configuration of weir that makes no sense.
pub fn run(
    scenario: &Scenario,
    variant: &ControllerKind,
    seed: u64,
) -> Result<RunMetrics, SimError> {
    run_watched(scenario, variant, seed, &mut |_: &Observation, _: &Plan| ())
}

/// Sees what weir saw and did in a run. Of other controllers there is nothing to see.
pub trait Witness {
    /// Before the first observation: weir's configuration, and the machine.
    fn begin(&mut self, config: &Config, machine: &Description);

    /// After each step: what was seen, what was decided, and what became of it.
    fn tick(&mut self, seen: &Observation, plan: &Plan, outcomes: &[Outcome]);
}

/// One that sees observations and decisions only.
impl<F: FnMut(&Observation, &Plan)> Witness for F {
    fn begin(&mut self, _: &Config, _: &Description) {}

    fn tick(&mut self, seen: &Observation, plan: &Plan, _: &[Outcome]) {
        self(seen, plan);
    }
}

/// The same before a witness.
///
/// # Errors
/// As [`run`].
pub fn run_watched(
    scenario: &Scenario,
    variant: &ControllerKind,
    seed: u64,
    witness: &mut dyn Witness,
) -> Result<RunMetrics, SimError> {
    let mut measures = match variant {
        ControllerKind::None => plain(scenario, seed, |_, _| ())?,
        #[cfg(feature = "thesis")]
        ControllerKind::Scx(which) => thesis::run_sched_ext(
            scenario,
            *which,
            thesis::sched_ext::ScxReading::default(),
            seed,
        )?,
        #[cfg(feature = "thesis")]
        ControllerKind::ScxRead(which, reading) => {
            thesis::run_sched_ext(scenario, *which, *reading, seed)?
        }
        ControllerKind::Fixed(limit) => plain(scenario, seed, |machine, built| {
            limit_heavy(machine, built, *limit)
        })?,
        #[cfg(feature = "thesis")]
        ControllerKind::Cgroups { is_individual } => {
            thesis::run_user_space(scenario, Some(*is_individual), seed)?
        }
        #[cfg(feature = "thesis")]
        ControllerKind::Monitor => thesis::run_user_space(scenario, None, seed)?,
        ControllerKind::Shares(which) => shares(scenario, *which, seed)?,
        ControllerKind::Weir(options) => weir(scenario, options, seed, witness)?,
    };
    if shows_targets(scenario, variant) {
        let alone = uses_alone(scenario, seed)?;
        measures.shares = drfq::fair_shares::shares(scenario, &measures.uses, Some(&alone));
    }
    let (policy, backend) = variant.policy_and_backend();
    (measures.policy, measures.backend, measures.seed) = (policy.into(), backend.into(), seed);
    if matches!(variant, ControllerKind::None) {
        (measures.settle_ms, measures.overshoot_ratio) = (None, None);
        for name in ["settle_ms", "overshoot_ratio"] {
            measures
                .missing
                .insert(name.into(), "nothing is controlled in this run".into());
        }
    }
    Ok(measures)
}

/// Targets cost a run of each workload alone: they are for scenarios of shares.
fn shows_targets(scenario: &Scenario, variant: &ControllerKind) -> bool {
    let is_dram = |d: &Device| d.kind == DeviceKind::Dram;
    let is_of_shares = matches!(variant, ControllerKind::Shares(_));
    is_of_shares || scenario.devices.iter().any(is_dram)
}

/// What each workload uses alone on the machine, without a controller. Workloads of which there are several
/// are run once.
///
/// # Errors
/// As [`run`].
pub fn uses_alone(scenario: &Scenario, seed: u64) -> Result<BTreeMap<String, UsePerSec>, SimError> {
    let mut all = BTreeMap::new();
    for config in &scenario.workloads {
        let mut one = config.clone();
        one.count = 1;
        let lone = Scenario {
            workloads: vec![one],
            ..scenario.clone()
        };
        let uses = plain(&lone, seed, |_, _| ())?.uses;
        let Some(used) = uses.into_iter().next() else {
            continue;
        };
        for copy in 1..=config.count {
            let name = match config.count {
                1 => config.name.clone(),
                _ => format!("{}-{copy}", config.name),
            };
            let used = UsePerSec {
                name: name.clone(),
                ..used.clone()
            };
            all.insert(name, used);
        }
    }
    Ok(all)
}

pub(crate) fn nanos(sec: f64) -> u64 {
    (sec * 1e9) as u64
}

/// What every run begins with: latencies are measured from the end of settling.
pub(crate) fn prepare(scenario: &Scenario, machine: &mut Machine) {
    machine
        .queue
        .push(nanos(scenario.control.settle_sec), Event::Measure);
}

pub(crate) fn plain(
    scenario: &Scenario,
    seed: u64,
    set_up: impl FnOnce(&mut Machine, &[crate::from_scenario::Label]),
) -> Result<RunMetrics, SimError> {
    let Built {
        mut machine,
        labels,
        ..
    } = build(scenario, seed, None)?;
    prepare(scenario, &mut machine);
    set_up(&mut machine, &labels);
    machine.run_until(nanos(scenario.run_sec()));
    let reader = Reader {
        machine: &machine,
        labels: &labels,
        scenario,
        daemon: None,
    };
    Ok(reader.read())
}

fn shares(scenario: &Scenario, variant: SharesVariant, seed: u64) -> Result<RunMetrics, SimError> {
    if scenario.devices.len() > MEMORIES_MAX {
        return Err(SimError::Memories {
            name: variant.name(),
            devices: scenario.devices.len(),
        });
    }
    plain(scenario, seed, |machine, labels| {
        drfq::variant::load(machine, variant, scenario, labels);
    })
}

fn limit_heavy(machine: &mut Machine, labels: &[crate::from_scenario::Label], limit: CpuMax) {
    for (i, label) in labels.iter().enumerate() {
        if label.role == Role::Heavy {
            eevdf::write_cpu_max(machine, i as u32, Some(limit));
        }
    }
}

fn weir(
    scenario: &Scenario,
    options: &WeirOptions,
    seed: u64,
    witness: &mut dyn Witness,
) -> Result<RunMetrics, SimError> {
    let config: Config = options.config_for(scenario);
    config.validate()?;
    let mut built = build(scenario, seed, Some("weir"))?;
    prepare(scenario, &mut built.machine);
    let mut platform = SimPlatform::of(built, scenario, options, seed);
    let mut state = State::default();
    let mut errors = EstimateErrors::new(scenario);
    witness.begin(&config, platform.describe());
    while let Ok(seen) = platform.observe() {
        let plan = step(&mut state, &config, platform.describe(), &seen);
        let estimate = |v: &weir_core::seam::plan::Decision| {
            Some((platform.position(&v.id)?, v.bandwidth.bytes_per_sec.get()))
        };
        errors.note(
            seen.at.0,
            &platform.truth,
            plan.workloads.iter().filter_map(estimate),
        );
        platform.on_plan(&plan);
        let outcomes = platform.apply(&plan);
        witness.tick(&seen, &plan, &outcomes);
        state.note(&outcomes);
        if let Some(why) = platform.shortage() {
            let name = ControllerKind::Weir(Box::new(options.clone())).name();
            let at_sec = seen.at.0 / 1_000_000_000;
            return Err(SimError::Refused {
                name,
                seed,
                at_sec,
                why,
            });
        }
    }
    let daemon = platform.labels.len() - 1;
    let (machine, labels) = (&platform.machine, &platform.labels);
    let mut measures = Reader {
        machine,
        labels,
        scenario,
        daemon: Some(daemon),
    }
    .read();
    measures.estimate_error_ratio = errors.errors(labels);
    Ok(measures)
}

/// Compares estimates with the truth: means over a second, within the measured time.
pub(crate) struct EstimateErrors {
    from: u64,
    last: Option<(u64, Vec<f64>)>,
    /// Estimated and true bytes, by second and workload.
    seconds: BTreeMap<(u64, usize), (f64, f64)>,
}

impl EstimateErrors {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        EstimateErrors {
            from: nanos(scenario.control.settle_sec),
            last: None,
            seconds: BTreeMap::new(),
        }
    }

    pub(crate) fn note(
        &mut self,
        at: u64,
        truth: &[f64],
        estimates: impl Iterator<Item = (usize, f64)>,
    ) {
        if let Some((then, before)) = &self.last
            && *then >= self.from
        {
            let span = (at - then) as f64 / 1e9;
            for (workload, rate) in estimates {
                let slot = self
                    .seconds
                    .entry(((at - self.from) / 1_000_000_000, workload))
                    .or_default();
                slot.0 += rate * span;
                slot.1 += truth[workload] - before[workload];
            }
        }
        self.last = Some((at, truth.to_vec()));
    }

    pub(crate) fn errors(&self, labels: &[crate::from_scenario::Label]) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
        for ((_, workload), (estimate, truth)) in &self.seconds {
            let sum = sums.entry(*workload).or_default();
            sum.0 += 1.0;
            sum.1 += (estimate - truth).powi(2);
            sum.2 += truth;
        }
        let known = sums.into_iter().filter(|(_, s)| s.2 > 0.0);
        let ratio = |(workload, (count, squares, truth)): (usize, (f64, f64, f64))| {
            (
                labels[workload].name.clone(),
                (squares / count).sqrt() / (truth / count),
            )
        };
        known.map(ratio).collect()
    }
}

/// How often the same `cpu.max` is written again.
#[derive(Clone, Copy, Debug)]
pub struct Rewriting {
    /// Time between two writes; nothing is never.
    pub every_ns: Option<u64>,
    /// Each interval is longer by up to this much, at random.
    pub jitter_ns: u64,
}

/// Part of one CPU that a task gets which would use all of it, limited by `limit` on a machine with
/// two CPUs: the experiment that the model of `cpu.max` is compared with.
pub fn spin(limit: CpuMax, rewriting: Rewriting, hz: u32, for_ns: u64, seed: u64) -> f64 {
    let mut machine = crate::from_scenario::spinner(hz, seed);
    let mut rng = crate::engine::rng::Rng::new(seed, 997);
    machine.run_until(10_000_000 + rng.below(100_000_000) as u64);
    eevdf::write_cpu_max(&mut machine, 0, Some(limit));
    let settled = machine.now + 500_000_000;
    machine.run_until(settled);
    let before = accounting::exact_cpu_ns(&machine, 0);
    let end = settled + for_ns;
    while let Some(every) = rewriting.every_ns
        && machine.now < end
    {
        let jitter = rng.below(rewriting.jitter_ns as usize + 1) as u64;
        machine.run_until((machine.now + every + jitter).min(end));
        eevdf::write_cpu_max(&mut machine, 0, Some(limit));
    }
    machine.run_until(end);
    (accounting::exact_cpu_ns(&machine, 0) - before) as f64 / for_ns as f64
}
