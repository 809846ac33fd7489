// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controllers of the simulator: their names on the command line, and their meaning.

use crate::cli::PolicyName;
use crate::cli::left_out::NOT_IN_THIS_BUILD;
use crate::cli::output::suggestion::perhaps;
use anyhow::{Result, bail};
use weir_figures::text::harmless;
use weir_sim::{Backend, ControllerKind, Scenario, SharesVariant};

/// weir's own back end, as it is called everywhere else.
pub const WEIR: &str = "cpu-max";
/// Name of weir's scheduler, as it is called everywhere else.
pub const WEIR_SCHED_EXT: &str = "sched-ext";
/// The same on a kernel that serves limited tasks better.
pub const WEIR_SCHED_EXT_SERVED: &str = "sched-ext-served";
/// The same for all ordinary tasks.
pub const WEIR_SCHED_EXT_FULL: &str = "sched-ext-full";
/// Where the scheduler cannot read the device's counters, and weir does for it.
pub const WEIR_SCHED_EXT_POLLED: &str = "sched-ext-polled";
/// The same for all ordinary tasks.
pub const WEIR_SCHED_EXT_FULL_POLLED: &str = "sched-ext-full-polled";

/// The thesis's, which the operators' program does not have.
const THESIS: [&str; 6] = [
    "thesis-scx",
    "thesis-scx-vtime",
    "thesis-scx-throttle",
    "thesis-cgroups",
    "thesis-cgroups-simple",
    "thesis-monitor",
];

/// One of those compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What the table calls it.
    pub label: String,
    /// Its name in flags.
    pub name: &'static str,
    /// Its back end, as in results.
    pub backend: &'static str,
    /// Its policy, as in results.
    pub policy: &'static str,
    /// The simulator's name for it.
    pub variant: ControllerKind,
}

impl Choice {
    /// The choice of a variant of the simulator.
    pub fn of(variant: ControllerKind) -> Self {
        let (policy, backend) = variant.policy_and_backend();
        let (name, backend) = match &variant {
            ControllerKind::Weir(options) => {
                let name = match (options.backend, options.looks_every_ns) {
                    (Backend::CpuMax, _) => WEIR,
                    (Backend::SchedExt, 0) => WEIR_SCHED_EXT,
                    (Backend::SchedExt, _) => WEIR_SCHED_EXT_POLLED,
                    (Backend::SchedExtServed, _) => WEIR_SCHED_EXT_SERVED,
                    (Backend::SchedExtFull, 0) => WEIR_SCHED_EXT_FULL,
                    (Backend::SchedExtFull, _) => WEIR_SCHED_EXT_FULL_POLLED,
                };
                (name, name)
            }
            // It limits nothing, but it is another run than one without it.
            #[cfg(feature = "thesis")]
            ControllerKind::Monitor => (variant.name(), variant.name()),
            _ => (variant.name(), backend),
        };
        Choice {
            label: name.to_owned(),
            name,
            backend,
            policy,
            variant,
        }
    }
}

impl Choice {
    /// weir sets no limit in it. Other controllers are what they are.
    pub fn observe(&mut self) {
        if let ControllerKind::Weir(options) = &mut self.variant {
            options.observes_only = true;
        }
    }
}

/// No control, the thesis's five controllers where this build has them, and weir, in the order of the
/// thesis's tables.
pub fn all(scenario: &Scenario) -> Vec<Choice> {
    ControllerKind::all(scenario)
        .into_iter()
        .map(Choice::of)
        .collect()
}

/// The named choices, each once, in the order of the command line.
///
/// # Errors
/// A back end that does not exist, or policies where nothing uses them.
pub fn choose(
    backends: &[String],
    policies: &[PolicyName],
    scenario: &Scenario,
) -> Result<Vec<Choice>> {
    let mut usual = all(scenario);
    for backend in Backend::SCHEDULERS {
        usual.push(Choice::of(ControllerKind::weir_with(backend, scenario)));
    }
    // The thesis's loop as a mere observer is no controller: `all` leaves it out.
    let mut known = usual.clone();
    #[cfg(feature = "thesis")]
    known.push(Choice::of(ControllerKind::Monitor));
    for (_, variant) in SharesVariant::ALL {
        known.push(Choice::of(ControllerKind::Shares(variant)));
    }
    for backend in [Backend::SchedExt, Backend::SchedExtFull] {
        known.push(Choice::of(ControllerKind::weir_that_polls(
            backend, scenario,
        )));
    }
    let mut chosen: Vec<Choice> = Vec::new();
    for name in backends {
        let found: Vec<&Choice> = match name.as_str() {
            // Partial mode is refused where the CPUs are full.
            "all" => usual.iter().filter(|c| c.name != WEIR_SCHED_EXT).collect(),
            name => known.iter().filter(|c| c.name == name).collect(),
        };
        if found.is_empty() && THESIS.contains(&name.as_str()) {
            bail!("--backend {name}: {}", NOT_IN_THIS_BUILD);
        }
        if found.is_empty() {
            let names: Vec<&str> = known.iter().map(|c| c.name).collect();
            bail!(
                "--backend: there is no `{}`{}: use {} or all",
                harmless(name),
                perhaps(name, &names),
                names.join(", ")
            );
        }
        for choice in found {
            for one in with_policies(choice, policies) {
                if !chosen.contains(&one) {
                    chosen.push(one);
                }
            }
        }
    }
    if !policies.is_empty()
        && !chosen
            .iter()
            .any(|c| matches!(c.variant, ControllerKind::Weir(_)))
    {
        bail!(
            "--policy is for --backend {WEIR}, {WEIR_SCHED_EXT} and {WEIR_SCHED_EXT_FULL}: the thesis's controllers have policies of their own"
        );
    }
    Ok(chosen)
}

/// weir once for each policy; the other controllers have no policy.
fn with_policies(choice: &Choice, policies: &[PolicyName]) -> Vec<Choice> {
    let ControllerKind::Weir(options) = &choice.variant else {
        return vec![choice.clone()];
    };
    let with = |policy: &PolicyName| {
        let mut options = options.clone();
        options.config.policy = policy.policy();
        let mut own = Choice::of(ControllerKind::Weir(options));
        if policies.len() > 1 {
            own.label = format!("{}/{}", own.name, own.policy);
        }
        own
    };
    match policies {
        [] => vec![choice.clone()],
        given => given.iter().map(with).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::builtin_scenarios::named;

    fn names(backends: &[&str], policies: &[PolicyName]) -> Result<Vec<String>> {
        let scenario = named("thesis-limit").unwrap()?.scenario;
        let backends: Vec<String> = backends.iter().map(ToString::to_string).collect();
        let chosen = choose(&backends, policies, &scenario)?;
        Ok(chosen.into_iter().map(|c| c.label).collect())
    }

    #[test]
    fn names_are_found_and_kept_in_order() {
        assert_eq!(
            names(&["cpu-max", "none"], &[]).unwrap(),
            ["cpu-max", "none"]
        );
        assert_eq!(names(&["none", "none"], &[]).unwrap(), ["none"]);
        let polled = ["sched-ext-polled", "sched-ext-full-polled"];
        assert_eq!(names(&polled, &[]).unwrap(), polled);
        assert_eq!(names(&["all"], &[]).unwrap().len(), 9);
        let two = [PolicyName::MaxMin, PolicyName::Drf];
        let labels = names(&["none", "cpu-max"], &two).unwrap();
        assert_eq!(labels, ["none", "cpu-max/max-min", "cpu-max/drf"]);
    }

    /// The help and the answer to a wrong name list the same.
    #[test]
    fn the_help_names_every_back_end_that_there_is() {
        let said = names(&["foo"], &[]).unwrap_err().to_string();
        let all = said.split_once(": use ").unwrap().1;
        let all = all.strip_suffix(" or all").unwrap();
        let command = <crate::commands::Cli as clap::CommandFactory>::command();
        let sim = command.find_subcommand("sim").unwrap();
        let backend = sim
            .get_arguments()
            .find(|a| a.get_id() == "backend")
            .unwrap();
        let help = backend.get_help().unwrap().to_string();
        let help: Vec<&str> = help
            .split(|c: char| c != '-' && !c.is_alphanumeric())
            .collect();
        for name in all.split(", ") {
            assert!(help.contains(&name), "{name} is not in {help:?}");
        }
    }

    #[test]
    fn nonsense_is_answered_with_what_there_is() {
        let said = names(&["thesis"], &[]).unwrap_err().to_string();
        assert!(
            said.contains("`thesis`") && said.contains("thesis-scx-vtime"),
            "{said}"
        );
        let said = names(&["none"], &[PolicyName::MaxMin])
            .unwrap_err()
            .to_string();
        assert!(said.contains("--policy is for --backend cpu-max"), "{said}");
    }
}
