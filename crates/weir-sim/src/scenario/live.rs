// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The testbed's scenario files (`scenarios/live-*.toml`), read as a simulated machine: one file describes
//! both, so that a live and a simulated run of it can be compared.
//!
//! What is taken over: CPUs at HZ = 250, device (one server behind a constant latency, see
//! [`Profile::of_queue`]), set-point, interval and period, fio's blocks and rates, bounds. What is derived:
//!
//! - *A reader's own time per line* is [`INSTRUCTIONS_PER_LINE`] at the machine's time per instruction.
//! - *stress-ng* is one cgroup with as many threads as workers, and cgroups share CPUs by their weights.
//!   Weights are the threads' own here, so each thread gets its part of the cgroup's.
//! - *The cache* is not: readers go through far more than it holds.
//!
//! Operations of the work beside have another unit than stress-ng's: only gains can be compared.

use super::{
    Control, Device, Kind, MachineConfig, PhaseConfig, Role, Scenario, Sensors, WorkloadConfig,
};
use crate::controller_kind::Attribution;
use serde::Deserialize;
use weir_core::controller::Goal;
use weir_core::evaluation::Expect;
use weir_core::policy::Policy;
use weir_hw::QueueTimes;
use weir_hw::memory_device::Profile;

/// Fitted, and the only figure that is: one reader alone needs 27.39 CPU-s per GiB on the testbed, 1.633 µs a
/// line, of which it waits a quarter of 6.002 µs (`scenarios/recorded/live-fio-stress.toml`).
const INSTRUCTIONS_PER_LINE: f64 = 3.7;

/// A scenario of the testbed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Live {
    name: String,
    about: String,
    #[serde(default, rename = "seed")]
    _seed: u64,
    #[serde(default)]
    machine: LiveMachine,
    control: LiveControl,
    #[serde(rename = "workload")]
    workloads: Vec<LiveWorkload>,
    #[serde(default)]
    expect: Expect,
}

/// Its machine; what only an emulation needs is read and not used.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LiveMachine {
    cpu_count: u32,
    #[serde(rename = "dram_mib")]
    _dram_mib: u64,
    groups_mib: Vec<u64>,
    service_ns: u64,
    idle_ns: u64,
    window_lines: u32,
    #[serde(rename = "cache_lines")]
    _cache_lines: u64,
    instruction_ps: u64,
    #[serde(rename = "window_ns")]
    _window_ns: u64,
    bandwidth_slice_us: Option<u64>,
}

impl Default for LiveMachine {
    /// As the testbed's.
    fn default() -> Self {
        LiveMachine {
            cpu_count: 6,
            _dram_mib: 1024,
            groups_mib: vec![256],
            service_ns: 675,
            idle_ns: 6000,
            window_lines: 4,
            _cache_lines: 16384,
            instruction_ps: 40_000,
            _window_ns: 50_000,
            bandwidth_slice_us: None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveControl {
    set_point_ratio: f64,
    interval_ms: u64,
    period_ms: u64,
    settle_sec: f64,
    measure_sec: f64,
}

#[derive(Debug, Deserialize)]
struct LiveWorkload {
    name: String,
    #[serde(default = "super::one")]
    count: u32,
    role: Role,
    #[serde(default = "super::normal_weight")]
    weight: f64,
    #[serde(flatten)]
    load: Load,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
enum Load {
    Fio {
        #[serde(default)]
        group: u32,
        #[serde(default)]
        rw: Access,
        file_mib: u64,
        block_kib: u64,
        #[serde(default)]
        think_us: f64,
        #[serde(default)]
        rate_iops: f64,
        #[serde(default)]
        realtime: bool,
    },
    StressNg {
        workers: u32,
        #[serde(default, rename = "method")]
        _method: String,
    },
}

/// fio's `rw`; random or not makes no difference to a model without rows and pages.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Access {
    #[default]
    RandRead,
    Read,
    RandWrite,
    Write,
    RandRw,
    Rw,
}

impl Access {
    fn write_ratio(&self) -> f64 {
        match self {
            Access::RandRead | Access::Read => 0.0,
            Access::RandWrite | Access::Write => 1.0,
            Access::RandRw | Access::Rw => 0.5,
        }
    }
}

/// Whether the text is the testbed's: its machine has a queue of its own instead of a device table.
pub(super) fn is_live(text: &str) -> bool {
    let table: Result<toml::Table, _> = text.parse();
    table.is_ok_and(|t| t.contains_key("machine") && !t.contains_key("device"))
}

/// The scenario on a simulated machine, not yet checked.
pub(super) fn parse(text: &str) -> Result<Scenario, toml::de::Error> {
    let live: Live = toml::from_str(text)?;
    let m = &live.machine;
    let queue = QueueTimes {
        service_ns: m.service_ns,
        idle_ns: m.idle_ns,
    };
    let profile = Profile::of_queue(queue, f64::from(m.window_lines), m.cpu_count);
    let busy_ns = INSTRUCTIONS_PER_LINE * m.instruction_ps as f64 / 1e3;
    let c = &live.control;
    let default = MachineConfig::default();
    Ok(Scenario {
        name: live.name,
        about: live.about,
        machine: MachineConfig {
            cores: m.cpu_count,
            threads_per_core: 1,
            hz: 250,
            bandwidth_slice_us: m.bandwidth_slice_us.unwrap_or(default.bandwidth_slice_us),
            ..default
        },
        devices: vec![Device {
            profile: profile.name.clone(),
            groups: u32::try_from(m.groups_mib.len()).unwrap_or(u32::MAX),
            own: Some(Box::new(profile)),
        }],
        control: Control {
            set_point_bytes_per_sec: c.set_point_ratio * queue.capacity_bytes_per_sec(),
            goal: Goal::Bandwidth,
            interval_ms: c.interval_ms,
            period_ms: Some(c.period_ms),
            policy: Policy::default(),
            settle_sec: c.settle_sec,
            measure_sec: c.measure_sec,
            control_from_sec: 0.0,
        },
        // The emulated CPU counts no accesses of a task unless it is configured to.
        sensors: Sensors {
            attribution: Attribution::CpuTime,
            ..Sensors::default()
        },
        workloads: live
            .workloads
            .iter()
            .map(|w| workload(w, busy_ns))
            .collect(),
        faults: Vec::new(),
        expect: live.expect,
    })
}

fn workload(w: &LiveWorkload, busy_ns: f64) -> WorkloadConfig {
    let common = WorkloadConfig {
        name: w.name.clone(),
        count: w.count,
        threads: 1,
        role: w.role,
        weight: w.weight,
        realtime: false,
        device: 0,
        group: 0,
        resident_mib: 0,
        busy_ns_per_line: busy_ns,
        window_lines: super::endless_window(),
        ops_per_cpu_sec: super::default_ops(),
        start_ms: 0,
        spread_ms: super::default_spread(),
        stop_ms: None,
        phases: Vec::new(),
    };
    let phase = |kind| PhaseConfig {
        kind,
        for_ms: None,
        times: None,
        block_kib: None,
        write_ratio: None,
        non_temporal: None,
        rate_bytes_per_sec: None,
        think_us: None,
        working_set_mib: None,
        chunk_us: None,
        mean_us: None,
        random: None,
        lock: None,
    };
    match &w.load {
        Load::Fio {
            group,
            rw,
            file_mib,
            block_kib,
            think_us,
            rate_iops,
            realtime,
        } => WorkloadConfig {
            group: *group,
            resident_mib: *file_mib,
            realtime: *realtime,
            phases: vec![PhaseConfig {
                block_kib: Some(*block_kib),
                write_ratio: Some(rw.write_ratio()),
                rate_bytes_per_sec: (*rate_iops > 0.0)
                    .then_some(rate_iops * *block_kib as f64 * 1024.0),
                think_us: Some(*think_us),
                ..phase(Kind::Access)
            }],
            ..common
        },
        Load::StressNg { workers, .. } => WorkloadConfig {
            threads: *workers,
            weight: (w.weight / f64::from((*workers).max(1))).max(1.0),
            phases: vec![phase(Kind::Compute)],
            ..common
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../../../scenarios/live-fio-stress.toml");

    #[test]
    fn the_testbeds_scenario_is_a_simulated_machine() {
        let scenario = Scenario::parse(TEXT, "live").unwrap();
        assert_eq!(scenario.name, "live-fio-stress");
        assert_eq!((scenario.cpu_count(), scenario.machine.hz), (7, 250));
        let set_point = scenario.control.set_point_bytes_per_sec;
        assert!((set_point / (0.4 * 64e9 / 675.0) - 1.0).abs() < 1e-9);
        let by_name = |name: &str| scenario.workloads.iter().find(|w| w.name == name).unwrap();
        assert_eq!(
            (by_name("reader").count, by_name("reader").resident_mib),
            (5, 24)
        );
        let rate = by_name("light").phases[0].rate_bytes_per_sec;
        assert_eq!(rate, Some(12.0 * 128.0 * 1024.0));
        assert_eq!(
            (by_name("stress").threads, by_name("stress").weight),
            (5, 20.0)
        );
        assert!(scenario.expect.bias_ratio_max.is_some());
    }

    #[test]
    fn its_device_is_a_profile_like_any_other() {
        let scenario = Scenario::parse(TEXT, "live").unwrap();
        let profile = scenario.devices[0].figures().unwrap();
        let text = profile.to_toml().unwrap();
        assert_eq!(Profile::parse(&text, "written").unwrap(), profile);
    }

    #[test]
    fn mistakes_name_line_and_key() {
        let wrong = |from: &str, to: &str| {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            Scenario::parse(&text, "live.toml").unwrap_err().to_string()
        };
        let said = wrong("cpu_count = 7", "cpus = 7");
        assert!(
            said.contains("unknown field `cpus`") && said.contains("line"),
            "{said}"
        );
        let said = wrong("set_point_ratio = 0.4", "set_point_ratio = 1e-9");
        assert!(said.contains("set_point"), "{said}");
        let said = wrong("rate_iops = 12", "rate = 12");
        assert!(said.contains("rate"), "{said}");
        let said = wrong("idle_ns = 6000", "idle_ns = 6");
        assert!(said.contains("idle_ns"), "{said}");
    }
}
