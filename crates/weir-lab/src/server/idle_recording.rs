// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording of a simulated server is compared with, as an operator would have it: the machine when it
//! was calibrated, idle and without faults, and each workload when it ran there alone.

use super::{described, record_server};
use anyhow::Result;
use weir_core::window::role::{AccessPath, Role, Stage, Target};
use weir_core::{Nanos, Window};
use weir_profile::WindowFile;
use weir_server_model::random::idle_scenario;
use weir_server_model::{Scenario, WhatIf};

/// Length of the window in which the idle machine is measured, µs: it does little in a short one.
const IDLE_WINDOW_US: f64 = 12_000.0;

/// Counts of the machine with next to no load, which waits are compared with, then of each workload alone,
/// which its lines are compared with.
///
/// Write-backs to memory of the idle machine are left out: they come with the read that puts them out and
/// wait for it there too.
///
/// # Errors
/// A figure of the machine is out of range.
pub fn record_idle(scenario: &Scenario, seed: u64) -> Result<WindowFile> {
    let machine = scenario.machine.without_faults();
    let mut idle = described(idle_scenario(&machine))?;
    idle.run.window_us = IDLE_WINDOW_US;
    let mut file = record_server(&idle, seed)?.file;
    let is_write_back = |role: Role| {
        role.stage == Stage::Tor && role.path == AccessPath::Wb && role.target != Target::Own
    };
    for window in &mut file.windows {
        window.workloads.clear();
        window.machine.retain(|count| !is_write_back(count.role));
    }
    for workload in &scenario.workloads.workload {
        let windows = alone(scenario, &workload.name, seed)?;
        let end = file.windows.last().map_or(0, |window| window.to.0);
        file.windows.extend(windows.into_iter().map(|mut window| {
            window.from = Nanos(end + window.from.0);
            window.to = Nanos(end + window.to.0);
            window
        }));
    }
    Ok(file)
}

/// What a workload counts in the scenario without all others, on the machine without faults.
fn alone(scenario: &Scenario, name: &str, seed: u64) -> Result<Vec<Window>> {
    let condition = WhatIf::Alone(name.to_owned());
    let applied = condition.apply(&scenario.machine.without_faults(), &scenario.workloads);
    let (machine, workloads) = described(applied)?;
    let alone = Scenario {
        machine,
        workloads,
        ..scenario.clone()
    };
    let mut windows = record_server(&alone, seed)?.file.windows;
    for window in &mut windows {
        window.machine.clear();
        window.unassigned.clear();
        window.workloads.retain(|counts| counts.id.as_str() == name);
    }
    Ok(windows)
}
