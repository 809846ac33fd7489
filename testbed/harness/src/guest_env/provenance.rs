// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How results of the virtual machine came about, and which of its figures are not to be trusted.

use crate::guest_env::{Environment, output};
use std::time::Duration;
use weir_report::results::{Caveat, Origin};
use weir_scenario::TestbedScenario;
use weir_scenario::testbed::TestbedMachine;

/// The origin of results that were just made. Both times cover everything that was run.
pub fn origin(
    env: &Environment,
    scenario: &TestbedScenario,
    virtual_time: Duration,
    wall_time: Duration,
) -> Origin {
    Origin {
        kernel_release: Some(env.kernel_release.clone()),
        qemu_version: qemu_version(env),
        virtual_sec: Some(virtual_time.as_secs_f64()),
        wall_sec: Some(wall_time.as_secs_f64()),
        window_ns: Some(scenario.machine.window_ns),
        ..Origin::of_this_program("vm", scenario.seed)
    }
}

/// What QEMU says of itself; nothing if it does not start.
fn qemu_version(env: &Environment) -> Option<String> {
    let mut qemu = env.tool("usr/bin/qemu-system-x86_64");
    version_in(&output(qemu.arg("--version")).ok()?)
}

/// `11.0.2` of `QEMU emulator version 11.0.2 (Debian 1:11.0.2+ds-1)`.
fn version_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("version ")?;
    rest.split_whitespace().next().map(Into::into)
}

/// The figures of any run on this machine that are not to be trusted.
pub fn caveats(machine: &TestbedMachine) -> Vec<Caveat> {
    let window_us = machine.window_ns as f64 / 1e3;
    let skew = format!(
        "the clocks of two vCPUs differ by up to one window of {window_us} µs, and single \
         latencies carry that; their mean is right by Little's law"
    );
    let speed = format!(
        "a vCPU executes {:.0} million instructions a second, so the kernel's own work takes some \
         hundred times the CPU time it takes on a server",
        1e6 / machine.instruction_ps as f64
    );
    vec![
        Caveat::new("device_latency.p50_ns", skew.clone()),
        Caveat::new("device_latency.p99_ns", skew),
        Caveat::new("cpu_sec_per_gib", speed),
        Caveat::new(
            "every rate",
            "the testbed is a scale model: ratios carry over to a server, rates do not",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_word_after_version() {
        let said = "QEMU emulator version 11.0.2 (Debian 1:11.0.2+ds-1)\nCopyright (c) …\n";
        assert_eq!(version_in(said).as_deref(), Some("11.0.2"));
        assert_eq!(version_in("no such file"), None);
    }

    #[test]
    fn caveats_name_the_machine_s_own_window_and_speed() {
        let machine = TestbedMachine {
            window_ns: 50_000,
            instruction_ps: 40_000,
            ..TestbedMachine::default()
        };
        let caveats = caveats(&machine);
        let of = |figure: &str| {
            let found = caveats.iter().find(|c| c.figure == figure);
            found.map(|c| c.reason.as_str()).unwrap_or_default()
        };
        assert!(of("device_latency.p99_ns").contains("window of 50 µs"));
        assert!(of("cpu_sec_per_gib").contains("25 million instructions"));
    }
}
