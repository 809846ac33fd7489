// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated run in the format of `docs/reference/results.md`, and its scenario as reports see it.

use super::builtin_scenarios::Loaded;
use super::controllers::Choice;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::time::Duration;
use weir_dram::DramProfile;
use weir_hw::memory_device::Profile;
use weir_hw::{Equilibrium, LoadedDevice, Requester};
use weir_report::ScenarioInfo;
use weir_report::results::{Caveat, LimitedLatency, Origin, Results, Run};
use weir_scenario::figures::WorkloadShares;
use weir_scenario::simulated::DeviceKind;
use weir_sim::{RunMetrics, Scenario};

pub fn run_of(measures: &RunMetrics, choice: &Choice) -> Run {
    let m = measures;
    Run {
        fingerprint: None,
        world: "sim".into(),
        policy: choice.policy.into(),
        backend: choice.backend.into(),
        set_point_bytes_per_sec: m.set_point_bytes_per_sec,
        seed: m.seed,
        bandwidth: m.bandwidth,
        device_latency: m.device_latency,
        light_reader: m.light_reader,
        limited_readers: LimitedLatency {
            latency: m.limited_readers,
            little_bound_ns: m.little_bound_ns,
        },
        limited_gap_ms: None,
        cpu_sec_per_gib: m.cpu_sec_per_gib,
        throughput_ops_per_sec: m.throughput_ops_per_sec,
        start_ms: None,
        settle_ms: m.settle_ms,
        overshoot_ratio: m.overshoot_ratio,
        estimate_error_ratio: m.estimate_error_ratio.clone(),
        series: m.series.clone(),
        shares: shown_shares(m),
        virtual_sec: Some(m.simulated_sec),
        // Runs share the CPUs: what one took says nothing about it.
        wall_sec: None,
        missing: m.missing.clone(),
    }
}

/// Shares of scenarios whose workloads ran alone too, so that shares have a target.
fn shown_shares(m: &RunMetrics) -> BTreeMap<String, WorkloadShares> {
    let has_target = m.shares.values().any(|s| s.target_ratio.is_some());
    if has_target {
        m.shares.clone()
    } else {
        BTreeMap::new()
    }
}

/// The results with how they came about, and what of any simulation is not to be trusted.
pub fn with_origin(results: Results, seed: u64, took: Duration) -> Results {
    let virtual_sec = results.runs.iter().filter_map(|run| run.virtual_sec).sum();
    let origin = Origin {
        virtual_sec: Some(virtual_sec),
        wall_sec: Some(took.as_secs_f64()),
        ..Origin::of_this_program("sim", seed)
    };
    let caveat = |(figure, reason): (&str, &str)| Caveat::new(figure, reason);
    Results {
        origin: Some(origin),
        caveats: CAVEATS.map(caveat).into(),
        ..results
    }
}

/// Those of the shortcuts that weir-sim lists at its head which change a figure.
const CAVEATS: [(&str, &str); 4] = [
    ("device_latency.p50_ns", LINES),
    ("device_latency.p99_ns", LINES),
    (
        "cpu_sec_per_gib",
        "the kernel's own work (context switches, throttling, ticks) is not charged",
    ),
    (
        "throughput_ops_per_sec",
        "an operation is the scenario's own: ratios carry over, amounts do not",
    ),
];
const LINES: &str = "single lines are a distribution around the mean of the device's equilibrium";

/// What the report says of the scenario.
///
/// # Errors
/// A device profile does not exist.
pub fn subject(loaded: &Loaded, seed: u64) -> Result<ScenarioInfo> {
    let Loaded { scenario, text } = loaded;
    Ok(ScenarioInfo {
        about: scenario.about.clone(),
        seed,
        capacity_bytes_per_sec: capacity(scenario)?,
        set_point_bytes_per_sec: scenario.control.set_point_bytes_per_sec
            * scenario.devices.len() as f64,
        settle_sec: scenario.control.settle_sec,
        measure_sec: scenario.control.measure_sec,
        toml: text.clone(),
        expect: scenario.expect.clone(),
    })
}

/// What the devices give to readers on all cores of the host they were calibrated on, bytes per second.
fn capacity(scenario: &Scenario) -> Result<f64> {
    let mut sum = 0.0;
    for device in &scenario.devices {
        if device.kind == DeviceKind::Dram {
            let profile = DramProfile::named(&device.profile)
                .with_context(|| format!("scenario {}", scenario.name))?;
            let burst_ns = profile.ns(profile.timing.bl_clocks as f64);
            sum += profile.organisation.burst_bytes as f64 / burst_ns * 1e9;
            continue;
        }
        let profile = device
            .figures()
            .with_context(|| format!("scenario {}", scenario.name))?;
        sum += peak(&profile);
    }
    Ok(sum)
}

fn peak(profile: &Profile) -> f64 {
    let readers = Requester {
        cores: f64::from(profile.host.cores),
        window_lines: profile.host.window_lines,
        ..Requester::default()
    };
    let mut out = Equilibrium::default();
    LoadedDevice::new(profile).solve(&[readers], &mut out);
    out.bytes_per_sec()
}
