// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The testbed's scenarios (`scenarios/*.toml`) on a simulated machine: one file describes both, so that a
//! live and a simulated run of it can be compared.
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

use super::{CoreEvents, Load, TestbedScenario, TestbedWorkload};
use crate::simulated::{
    self, Attribution, Control, Device, DeviceKind, DramNode, GroupOrder, Kind, MachineConfig,
    PhaseConfig, Scenario, Sensors, WorkloadConfig,
};
use weir_core::controller::Goal;
use weir_core::policy::Policy;
use weir_hw::QueueTimes;
use weir_hw::memory_device::Profile;

/// Fitted, and the only figure that is: one reader alone needs 27.39 CPU-s per GiB on the testbed, 1.633 µs a
/// line, of which it waits a quarter of 6.002 µs (`scenarios/recorded/live-fio-stress.toml`).
const INSTRUCTIONS_PER_LINE: f64 = 3.7;

impl TestbedScenario {
    /// The testbed's scenario on a simulated machine. What has no counterpart there stays at the simulated
    /// machine's default. Operations of the work beside have another unit there than stress-ng's, so gains
    /// are all that a reader of both results may compare.
    pub fn as_simulated(&self) -> Scenario {
        let m = &self.machine;
        let queue = QueueTimes {
            service_ns: m.service_ns,
            idle_ns: m.idle_ns,
        };
        let cpu_count = whole(m.cpu_count);
        let profile = Profile::of_queue(queue, m.window_lines as f64, cpu_count);
        let busy_ns = INSTRUCTIONS_PER_LINE * m.instruction_ps as f64 / 1e3;
        let c = &self.control;
        let default = MachineConfig::default();
        Scenario {
            name: self.name.clone(),
            about: self.about.clone(),
            machine: MachineConfig {
                cores: cpu_count,
                threads_per_core: 1,
                hz: 250,
                bandwidth_slice_us: m.bandwidth_slice_us.unwrap_or(default.bandwidth_slice_us),
                ..default
            },
            devices: vec![Device {
                kind: DeviceKind::Cxl,
                dram: DramNode::default(),
                group_order: GroupOrder::default(),
                capacity_bytes_per_sec: None,
                profile: profile.name.clone(),
                groups: whole(m.groups_mib.len()),
                own: Some(Box::new(profile)),
            }],
            disks: Vec::new(),
            control: Control {
                set_point_bytes_per_sec: c.set_point_ratio * queue.capacity_bytes_per_sec(),
                goal: Goal::Bandwidth,
                interval_ms: c.interval_ms,
                period_ms: Some(c.period_ms),
                policy: Policy::default(),
                settle_sec: c.settle_sec as f64,
                measure_sec: c.measure_sec as f64,
                control_from_sec: 0.0,
            },
            sensors: sensors(m.core_events),
            workloads: self
                .workloads
                .iter()
                .map(|w| workload(w, busy_ns))
                .collect(),
            faults: Vec::new(),
            expect: self.expect.clone(),
        }
    }
}

/// The emulated CPU counts no accesses of a task unless it is configured to.
fn sensors(events: Option<CoreEvents>) -> Sensors {
    Sensors {
        attribution: match events {
            Some(_) => Attribution::TaskCounts,
            None => Attribution::CpuTime,
        },
        counts_stores: events.is_none_or(CoreEvents::count_stores),
        ..Sensors::default()
    }
}

/// Converts counts that are checked, or far below what the number holds.
fn whole(count: impl TryInto<u32>) -> u32 {
    count.try_into().unwrap_or(u32::MAX)
}

/// What part of fio's bytes are stores; random or not makes no difference to a model without rows and pages.
fn write_ratio(rw: &str) -> f64 {
    match rw {
        "randwrite" | "write" => 1.0,
        "randrw" | "rw" => 0.5,
        _ => 0.0,
    }
}

/// A phase with no key but its kind.
fn empty(kind: Kind) -> PhaseConfig {
    PhaseConfig {
        kind,
        for_ms: None,
        times: None,
        block_kib: None,
        write_ratio: None,
        device: None,
        scattered: None,
        disk: None,
        non_temporal: None,
        rate_bytes_per_sec: None,
        think_us: None,
        working_set_mib: None,
        chunk_us: None,
        mean_us: None,
        random: None,
        lock: None,
    }
}

fn workload(w: &TestbedWorkload, busy_ns: f64) -> WorkloadConfig {
    let common = WorkloadConfig {
        name: w.name.clone(),
        count: whole(w.count),
        threads: 1,
        role: w.role,
        weight: f64::from(w.weight),
        realtime: false,
        device: 0,
        group: 0,
        resident_mib: 0,
        busy_ns_per_line: busy_ns,
        window_lines: simulated::endless_window(),
        ops_per_cpu_sec: simulated::default_ops(),
        start_ms: 0,
        spread_ms: simulated::default_spread(),
        stop_ms: None,
        phases: Vec::new(),
    };
    match &w.load {
        Load::Fio {
            group,
            rw,
            file_mib,
            block_kib,
            think_us,
            burst_blocks,
            pause_ms,
            rate_iops,
            realtime,
        } => {
            let rate = *rate_iops as f64 * *block_kib as f64 * 1024.0;
            let blocks = PhaseConfig {
                times: (*burst_blocks > 0).then(|| whole(*burst_blocks)),
                block_kib: Some(*block_kib),
                write_ratio: Some(write_ratio(rw)),
                rate_bytes_per_sec: (*rate_iops > 0).then_some(rate),
                think_us: Some(*think_us as f64),
                ..empty(Kind::Access)
            };
            let pause = (*burst_blocks > 0).then(|| PhaseConfig {
                mean_us: Some(*pause_ms as f64 * 1e3),
                ..empty(Kind::Sleep)
            });
            WorkloadConfig {
                group: whole(*group),
                resident_mib: *file_mib,
                realtime: *realtime,
                phases: [Some(blocks), pause].into_iter().flatten().collect(),
                ..common
            }
        }
        Load::StressNg { workers, .. } => WorkloadConfig {
            threads: whole(*workers),
            weight: (f64::from(w.weight) / (*workers).max(1) as f64).max(1.0),
            phases: vec![empty(Kind::Compute)],
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
