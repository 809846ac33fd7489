// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thesis's controllers: its sched_ext schedulers (5.4.1) and its loop in user space (5.4.2). In builds
//! with the feature `thesis` only.

pub(crate) mod sched_ext;
pub(crate) mod user_space;

use crate::controller_kind::ControllerKind;
use crate::from_scenario::build;
use crate::metrics::{Reader, RunMetrics};
use crate::run::{EstimateErrors, SimError, nanos, plain, prepare};
use sched_ext::{ScxReading, ScxVariant, ThesisSched};
use user_space::UserSpaceLoop;
use weir_scenario::Scenario;

/// The five that limit, in the order of the thesis's table 1.
pub(crate) fn controllers() -> [ControllerKind; 5] {
    [
        ControllerKind::Scx(ScxVariant::RoundRobin),
        ControllerKind::Scx(ScxVariant::Vtime),
        ControllerKind::Scx(ScxVariant::ThrottleQueue),
        ControllerKind::Cgroups {
            is_individual: true,
        },
        ControllerKind::Cgroups {
            is_individual: false,
        },
    ]
}

pub(crate) fn run_sched_ext(
    scenario: &Scenario,
    which: ScxVariant,
    reading: ScxReading,
    seed: u64,
) -> Result<RunMetrics, SimError> {
    plain(scenario, seed, |machine, _| {
        let set_point = scenario.control.set_point_bytes_per_sec;
        let scheduler = ThesisSched::new(which, reading, set_point, machine.tasks.len());
        sched_ext::load(machine, scheduler);
    })
}

/// The loop; without a rule it only observes.
pub(crate) fn run_user_space(
    scenario: &Scenario,
    is_individual: Option<bool>,
    seed: u64,
) -> Result<RunMetrics, SimError> {
    let mut built = build(scenario, seed, Some("cbc"))?;
    prepare(scenario, &mut built.machine);
    let mut thesis = UserSpaceLoop::new(built, scenario, is_individual, seed);
    let mut errors = EstimateErrors::new(scenario);
    let from = nanos(scenario.control.control_from_sec);
    thesis.run(from, nanos(scenario.run_sec()), |machine, estimates| {
        let truth: Vec<f64> = machine.workloads.iter().map(|w| w.tally.bytes()).collect();
        errors.note(machine.now, &truth, estimates.iter().copied());
    });
    let daemon = thesis.labels.len() - 1;
    let reader = Reader {
        machine: &thesis.machine,
        labels: &thesis.labels,
        scenario,
        daemon: Some(daemon),
    };
    let mut measures = reader.read();
    measures.estimate_error_ratio = errors.errors(&thesis.labels);
    measures.loop_ms = thesis.loop_ms;
    measures.estimates = thesis.estimates;
    Ok(measures)
}
