// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller of a run.

use crate::cpu::cpu_max::CpuMax;
use crate::drfq::variant::SharesVariant;
#[cfg(feature = "thesis")]
use crate::thesis::sched_ext::{ScxReading, ScxVariant};
use weir_core::controller::Goal;
use weir_core::{BytesPerSec, Config};
use weir_scenario::{Attribution, Scenario};

#[derive(Clone, Debug, PartialEq)]
pub enum ControllerKind {
    None,
    /// The thesis's scheduler (5.4.1).
    #[cfg(feature = "thesis")]
    Scx(ScxVariant),
    /// The same with another reading of the thesis's text.
    #[cfg(feature = "thesis")]
    ScxRead(ScxVariant, ScxReading),
    /// The thesis's user-space loop (5.4.2).
    #[cfg(feature = "thesis")]
    Cgroups {
        /// Limits by the bandwidth of each (4.3.3.2) instead of that of all together (4.3.3.1).
        is_individual: bool,
    },
    /// The same loop without acting: how the thesis evaluates its estimates (6.2.2).
    #[cfg(feature = "thesis")]
    Monitor,
    Weir(Box<WeirOptions>),
    /// The scheduler of shares, or its halves, or the DRFQS thesis's.
    Shares(SharesVariant),
    /// A fixed `cpu.max` for all heavy workloads.
    Fixed(CpuMax),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    CpuMax,
    /// weir's scheduler, in partial mode.
    SchedExt,
    /// The same on a kernel that guarantees `SCHED_EXT` tasks 90 % of each CPU instead of 5 %: what weir
    /// could configure, and does not yet.
    SchedExtServed,
    /// weir's scheduler for all ordinary tasks.
    SchedExtFull,
}

impl Backend {
    /// Those that are weir's scheduler.
    pub const SCHEDULERS: [Backend; 3] = [
        Backend::SchedExt,
        Backend::SchedExtServed,
        Backend::SchedExtFull,
    ];
}

#[derive(Clone, Debug, PartialEq)]
pub struct WeirOptions {
    pub backend: Backend,
    /// The controller's configuration. A missing set-point is the scenario's.
    pub config: Config,
    /// Time between two observations; nothing is the scenario's.
    pub interval_ms: Option<u64>,
    /// Period of limits; nothing is the scenario's.
    pub period_ms: Option<u64>,
    /// Rewrites wait for the refill.
    pub waits_for_refill: bool,
    /// Refills of new limits are moved apart.
    pub staggers: bool,
    /// The signal by which it shares out the traffic of a group; `None` is the scenario's.
    pub attribution: Option<Attribution>,
    /// The device reports its mean latency (DevLoad or a performance counter).
    pub sees_latency: bool,
    /// The scheduler cannot read the device's counters; weir does so for it this often, in nanoseconds. 0: it
    /// can.
    pub looks_every_ns: u64,
    /// It observes, and sets no limit.
    pub observes_only: bool,
    /// CPU time of one observation, apart from what each workload adds. At full speed, in nanoseconds.
    pub look_ns: f64,
    /// CPU time that each workload adds to an observation.
    pub look_ns_per_workload: f64,
    /// CPU time of one write of `cpu.max`.
    pub write_ns: f64,
}

impl Default for WeirOptions {
    /// The settings of the Linux back end. Costs: control.md 2.2 has 60 to 250 µs for a write with open and
    /// close from Python on 2 CPUs; a kept file costs 0.86 µs, and each workload has a handful of them.
    fn default() -> Self {
        WeirOptions {
            backend: Backend::CpuMax,
            config: Config::default(),
            interval_ms: None,
            period_ms: None,
            waits_for_refill: true,
            staggers: true,
            attribution: None,
            sees_latency: false,
            looks_every_ns: 0,
            observes_only: false,
            look_ns: 50_000.0,
            look_ns_per_workload: 5_000.0,
            write_ns: 60_000.0,
        }
    }
}

impl WeirOptions {
    /// The configuration for a scenario, with its set-point and policy: limiting, unless it only observes.
    pub(crate) fn config_for(&self, scenario: &Scenario) -> Config {
        let given = self.config.set_point_bytes_per_sec;
        let own = BytesPerSec::new(scenario.control.set_point_bytes_per_sec);
        let own = (self.config.goal == Goal::Bandwidth).then_some(own);
        Config {
            set_point_bytes_per_sec: given.or(own),
            limit: !self.observes_only,
            ..self.config.clone()
        }
    }
}

impl ControllerKind {
    /// No control, the thesis's five controllers where this build has them, and weir, in the order of the
    /// thesis's tables.
    pub fn all(scenario: &Scenario) -> Vec<ControllerKind> {
        let mut all = vec![ControllerKind::None];
        #[cfg(feature = "thesis")]
        all.extend(crate::thesis::controllers());
        all.push(ControllerKind::weir(scenario));
        all
    }

    pub fn weir(scenario: &Scenario) -> ControllerKind {
        let config = Config {
            policy: scenario.control.policy,
            goal: scenario.control.goal,
            ..Config::default()
        };
        ControllerKind::Weir(Box::new(WeirOptions {
            sees_latency: config.goal != Goal::Bandwidth,
            config,
            ..WeirOptions::default()
        }))
    }

    /// The same with another back end.
    pub fn weir_with(backend: Backend, scenario: &Scenario) -> ControllerKind {
        match ControllerKind::weir(scenario) {
            ControllerKind::Weir(mut options) => {
                options.backend = backend;
                ControllerKind::Weir(options)
            }
            other => other,
        }
    }

    /// The same where limited workloads keep their weight: what of light users' waits is due to weights.
    pub fn weir_without_weights(scenario: &Scenario) -> ControllerKind {
        ControllerKind::weir_with_weights(0.0, scenario)
    }

    /// The same with this [`Config::limited_weight_ratio`].
    pub fn weir_with_weights(ratio: f64, scenario: &Scenario) -> ControllerKind {
        match ControllerKind::weir(scenario) {
            ControllerKind::Weir(mut options) => {
                options.config.limited_weight_ratio = ratio;
                ControllerKind::Weir(options)
            }
            other => other,
        }
    }

    /// The same where the scheduler cannot read the device's counters: weir reads them for it, every 10 ms as
    /// on Linux.
    pub fn weir_that_polls(backend: Backend, scenario: &Scenario) -> ControllerKind {
        match ControllerKind::weir_with(backend, scenario) {
            ControllerKind::Weir(mut options) => {
                options.looks_every_ns = 10_000_000;
                ControllerKind::Weir(options)
            }
            other => other,
        }
    }

    /// The controller whose [`ControllerKind::name`] this is, or `weir@RATIO` for
    /// [`ControllerKind::weir_with_weights`].
    pub fn named(name: &str, scenario: &Scenario) -> Option<ControllerKind> {
        if let Some(part) = name.strip_prefix("weir@") {
            let part = part
                .parse()
                .ok()
                .filter(|part| (0.0..=1.0).contains(part))?;
            return Some(ControllerKind::weir_with_weights(part, scenario));
        }
        if let Some((_, variant)) = SharesVariant::ALL.iter().find(|(known, _)| *known == name) {
            return Some(ControllerKind::Shares(*variant));
        }
        let scx = Backend::SCHEDULERS.map(|b| ControllerKind::weir_with(b, scenario));
        let looks = [Backend::SchedExt, Backend::SchedExtFull];
        let looks = looks.map(|b| ControllerKind::weir_that_polls(b, scenario));
        let mut known = ControllerKind::all(scenario);
        #[cfg(feature = "thesis")]
        known.push(ControllerKind::Monitor);
        known.push(ControllerKind::weir_without_weights(scenario));
        known
            .into_iter()
            .chain(scx)
            .chain(looks)
            .find(|v| v.name() == name)
    }

    pub fn name(&self) -> &'static str {
        match self {
            ControllerKind::None => "none",
            #[cfg(feature = "thesis")]
            ControllerKind::Scx(ScxVariant::RoundRobin)
            | ControllerKind::ScxRead(ScxVariant::RoundRobin, _) => "thesis-scx",
            #[cfg(feature = "thesis")]
            ControllerKind::Scx(ScxVariant::Vtime)
            | ControllerKind::ScxRead(ScxVariant::Vtime, _) => "thesis-scx-vtime",
            #[cfg(feature = "thesis")]
            ControllerKind::Scx(ScxVariant::ThrottleQueue)
            | ControllerKind::ScxRead(ScxVariant::ThrottleQueue, _) => "thesis-scx-throttle",
            #[cfg(feature = "thesis")]
            ControllerKind::Cgroups {
                is_individual: true,
            } => "thesis-cgroups",
            #[cfg(feature = "thesis")]
            ControllerKind::Cgroups {
                is_individual: false,
            } => "thesis-cgroups-simple",
            #[cfg(feature = "thesis")]
            ControllerKind::Monitor => "thesis-monitor",
            ControllerKind::Weir(options) => match (options.backend, options.looks_every_ns) {
                (Backend::CpuMax, _) if options.config.limited_weight_ratio <= 0.0 => {
                    "weir-without-weights"
                }
                (Backend::CpuMax, _) => "weir",
                (Backend::SchedExt, 0) => "weir-sched-ext",
                (Backend::SchedExt, _) => "weir-sched-ext-polled",
                (Backend::SchedExtServed, _) => "weir-sched-ext-served",
                (Backend::SchedExtFull, 0) => "weir-sched-ext-full",
                (Backend::SchedExtFull, _) => "weir-sched-ext-full-polled",
            },
            ControllerKind::Shares(variant) => variant.name(),
            ControllerKind::Fixed(_) => "fixed",
        }
    }

    /// Policy and back end, as results name them.
    pub fn policy_and_backend(&self) -> (&'static str, &'static str) {
        match self {
            ControllerKind::None => ("none", "none"),
            #[cfg(feature = "thesis")]
            ControllerKind::Scx(_) | ControllerKind::ScxRead(..) => ("proportional", self.name()),
            #[cfg(feature = "thesis")]
            ControllerKind::Cgroups {
                is_individual: true,
            } => ("balance-point", self.name()),
            #[cfg(feature = "thesis")]
            ControllerKind::Cgroups {
                is_individual: false,
            } => ("proportional", self.name()),
            #[cfg(feature = "thesis")]
            ControllerKind::Monitor => ("none", "none"),
            ControllerKind::Weir(options) => match options.backend {
                Backend::CpuMax => (options.config.policy.name(), "sim-cpu-max"),
                Backend::SchedExt => (options.config.policy.name(), "sim-sched-ext"),
                Backend::SchedExtServed => (options.config.policy.name(), "sim-sched-ext-served"),
                Backend::SchedExtFull => (options.config.policy.name(), "sim-sched-ext-full"),
            },
            ControllerKind::Shares(variant) => ("drf", variant.name()),
            ControllerKind::Fixed(_) => ("none", "fixed"),
        }
    }
}
