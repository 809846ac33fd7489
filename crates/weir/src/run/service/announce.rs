// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weir run` says on stderr before it begins.

use crate::cli::{BackendName, WorkloadsName};
use crate::run::platform;
use crate::run::service::capabilities;
use crate::run::settings::Settings;
use std::io::{self, Write};
use tracing::Level;
use weir_core::policy::Policy;
use weir_core::seam::topology::Fact;
use weir_core::{Config, Description};
use weir_figures::text;
use weir_linux::Roots;

/// Says on stderr what will happen, before it happens.
pub(in crate::run) fn announce(settings: &Settings, machine: &Description, roots: &Roots) {
    let format = settings.log_format;
    let mut lines = Vec::new();
    let config = &settings.config;
    let policy = platform::policy_name(config.policy);
    match (config.limit, config.set_point_bytes_per_sec) {
        (true, Some(rate)) => {
            lines.push(format!(
                "weir limits: each device is held at {rate}, split by {policy}"
            ));
        }
        (_, Some(rate)) => {
            lines.push(format!(
                "weir observes only (set-point {rate}); --limit makes it act"
            ));
        }
        (_, None) => lines.push("weir observes only; --limit --set-point RATE makes it act".into()),
    }
    lines.extend(devices(machine));
    lines.extend(crate::cli::devices::lacks(machine));
    lines.push(format!(
        "samples each {} every {:?}; {}",
        if settings.workloads == WorkloadsName::Cgroup {
            "leaf cgroup"
        } else {
            "process"
        },
        settings.interval,
        match &machine.actuator {
            Some(actuator) => {
                let name = text::harmless(&actuator.name);
                format!("acts through {name}, period {}", actuator.period_ns)
            }
            None => "nothing here can limit (see `weir doctor`)".to_owned(),
        }
    ));
    if config.limit {
        let dir = text::harmless(&roots.run.to_string_lossy());
        lines.push(format!(
            "limits end when weir ends; earlier values are noted in {dir}"
        ));
    }
    let mut warned = warnings(machine, settings.workloads);
    warned.extend(capabilities::lacking(settings));
    warned.extend(unfit(config, settings.backend));
    let mut stderr = io::stderr().lock();
    let lines = lines.iter().map(|line| format.line(Level::INFO, line));
    let warned = warned
        .iter()
        .map(|line| format.line(Level::WARN, &format!("warning: {line}")));
    for line in lines.chain(warned) {
        // A closed stderr is no reason to leave a machine unguarded.
        let _ = writeln!(stderr, "{line}");
    }
}

/// A back end that cannot do what the policy plans.
pub(super) fn unfit(config: &Config, backend: BackendName) -> Option<String> {
    let is_unfit = config.limit && config.policy == Policy::Drf && backend == BackendName::SchedExt;
    is_unfit.then(|| {
        "sched-ext does not give CPU time of limited workloads to others, so that shares by drf are not kept \
         where all CPUs are busy (--backend sched-ext-full or cpu-max keeps them)"
            .into()
    })
}

/// Facts that the operator may not expect: workloads that are not seen, names that fit none.
fn warnings(machine: &Description, by: WorkloadsName) -> Vec<String> {
    let is_shown = |name: &str| match name {
        weir_linux::V2 => by == WorkloadsName::Cgroup,
        weir_linux::NAMESPACE | weir_linux::PIDS => true,
        name => name.starts_with(weir_linux::NAMES),
    };
    let shown = machine.facts.iter().filter(|fact| is_shown(&fact.name));
    let warning = |fact: &Fact| {
        let why = text::harmless(fact.value.as_ref().err()?.reason());
        let what = match fact.name.strip_prefix(weir_linux::NAMES) {
            Some(list) => format!("{list}: "),
            None => String::new(),
        };
        let next_move = fact.next_move.as_ref().map(|next| format!(" ({next})"));
        let next_move = text::harmless(&next_move.unwrap_or_default());
        Some(format!("{what}{why}{next_move}"))
    };
    shown.filter_map(warning).collect()
}

fn devices(machine: &Description) -> impl Iterator<Item = String> + '_ {
    machine.devices.iter().map(|device| {
        let groups = machine
            .groups
            .iter()
            .filter(|group| group.id.device == device.id);
        let groups: Vec<String> = groups
            .map(|group| match group.node {
                Some(node) => format!("{} on {node}, {}", group.id, group.size_bytes),
                None => format!("{} without a node, {}", group.id, group.size_bytes),
            })
            .collect();
        let capacity = device.capacity_bytes_per_sec;
        let capacity =
            capacity.map_or_else(|| "capacity unknown".into(), |c| format!("capacity {c}"));
        let name = text::harmless(&device.name);
        format!(
            "device {} ({name}), {capacity}: {}",
            device.id,
            groups.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drf_in_partial_mode_is_warned_of() {
        let with = |limit, policy| Config {
            limit,
            policy,
            ..Config::default()
        };
        let drf = with(true, Policy::Drf);
        let said = unfit(&drf, BackendName::SchedExt).unwrap();
        assert!(said.contains("--backend sched-ext-full"), "{said}");
        for backend in [BackendName::CpuMax, BackendName::SchedExtFull] {
            assert_eq!(unfit(&drf, backend), None);
        }
        for config in [with(true, Policy::MaxMin), with(false, Policy::Drf)] {
            assert_eq!(unfit(&config, BackendName::SchedExt), None);
        }
    }
}
