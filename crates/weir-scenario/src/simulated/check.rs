// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scenario may not be: values out of range, keys in the wrong place, impossible machines.

use super::{
    Device, DeviceKind, DramNode, GroupOrder, Kind, PhaseConfig, Scenario, WorkloadConfig,
};
use crate::place::Part::{self, Index, Key};
use crate::wrong::{Checked, check_expect, join, within, wrong};
use std::collections::BTreeSet;
use weir_core::controller::Goal;
use weir_dram::{AddressMapping, DramProfile};
use weir_hw::memory_device::Profile;

pub(crate) fn check(scenario: &Scenario) -> Checked {
    let machine = |key| [Key("machine"), Key(key)];
    let m = &scenario.machine;
    within(&machine("cores"), f64::from(m.cores), 1.0, 1024.0)?;
    within(
        &machine("threads_per_core"),
        f64::from(m.threads_per_core),
        1.0,
        2.0,
    )?;
    // Below a half two threads would do less than one, above 1 more than two cores.
    within(&machine("smt_speed_ratio"), m.smt_speed_ratio, 0.5, 1.0)?;
    if ![100, 250, 300, 1000].contains(&m.hz) {
        return wrong(&machine("hz"), m.hz, "allowed are 100, 250, 300 and 1000");
    }
    within(&machine("slice_us"), m.slice_us as f64, 100.0, 100_000.0)?;
    let slice_us = m.bandwidth_slice_us as f64;
    within(&machine("bandwidth_slice_us"), slice_us, 1.0, 1e6)?;
    within(&machine("llc_mib"), m.llc_mib, 0.0, 4096.0)?;
    let spread = m.speed_spread_ratio;
    within(&machine("speed_spread_ratio"), spread, 0.0, 0.9)?;
    within(&machine("speed_hold_ms"), m.speed_hold_ms, 1.0, 1e6)?;
    if !(1..=16).contains(&scenario.devices.len()) {
        return wrong(
            &[Key("device")],
            scenario.devices.len(),
            "1 to 16 [[device]] tables",
        );
    }
    for (i, device) in scenario.devices.iter().enumerate() {
        check_device(&[Key("device"), Index(i)], device)?;
    }
    for (i, disk) in scenario.disks.iter().enumerate() {
        let path = [Key("disk"), Index(i)];
        within(&join(&path, "bytes_per_sec"), disk.bytes_per_sec, 1e3, 1e12)?;
        let lines_out = f64::from(disk.lines_out);
        within(&join(&path, "lines_out"), lines_out, 1.0, 4096.0)?;
    }
    check_control(scenario)?;
    let mut names = BTreeSet::new();
    if scenario.workloads.is_empty() {
        return wrong(&[Key("workload")], 0, "at least one [[workload]] table");
    }
    for (i, workload) in scenario.workloads.iter().enumerate() {
        let path = [Key("workload"), Index(i)];
        check_workload(&path, scenario, workload)?;
        if !names.insert(&workload.name) {
            return wrong(
                &join(&path, "name"),
                &workload.name,
                "a name stands only once",
            );
        }
    }
    for (i, fault) in scenario.faults.iter().enumerate() {
        let path = [Key("fault"), Index(i)];
        within(
            &join(&path, "capacity_ratio"),
            fault.capacity_ratio,
            0.01,
            1.0,
        )?;
        known_device(&path, scenario, fault.device)?;
    }
    check_expect(&scenario.expect)
}

fn check_device(path: &[Part], device: &Device) -> Checked {
    within(&join(path, "groups"), f64::from(device.groups), 1.0, 512.0)?;
    if let Some(capacity) = device.capacity_bytes_per_sec {
        within(
            &join(path, "capacity_bytes_per_sec"),
            capacity,
            4096.0,
            1e13,
        )?;
    }
    if device.kind == DeviceKind::Dram {
        return check_dram(path, device);
    }
    if device.dram != DramNode::default() {
        let why = "only for kind = \"dram\"";
        return wrong(&join(path, "dram"), "given", why);
    }
    let Some(own) = &device.own else {
        return check_name(path, device);
    };
    // The testbed's keys, which stand under its machine.
    let machine = |key| [Key("machine"), Key(key)];
    let service_ns = 64e9 / own.mix[0].media_bytes_per_sec;
    within(&machine("service_ns"), service_ns, 1.0, 1e9)?;
    within(&machine("idle_ns"), own.device.idle_ns, service_ns, 1e9)?;
    within(&machine("window_lines"), own.host.window_lines, 1.0, 1e4)
}

fn check_dram(path: &[Part], device: &Device) -> Checked {
    if DramProfile::named(&device.profile).is_err() {
        let names = DramProfile::names().join(", ");
        let why = format!("for kind = \"dram\" allowed are {names}");
        return wrong(&join(path, "profile"), &device.profile, why);
    }
    if device.groups != 1 {
        let why = "a DRAM node has one group";
        return wrong(&join(path, "groups"), device.groups, why);
    }
    if device.group_order != GroupOrder::default() {
        let why = "only for kind = \"cxl\"; a DRAM node has dram.order";
        return wrong(&join(path, "group_order"), "given", why);
    }
    let mut path = path.to_vec();
    path.push(Key("dram"));
    let entries = f64::from(device.dram.entries);
    within(&join(&path, "entries"), entries, 4.0, 1024.0)?;
    if AddressMapping::named(&device.dram.mapping).is_none() {
        let why = "allowed are RoBaRaCoCh, ChRaBaRoCo, MOP4CLXOR";
        return wrong(&join(&path, "mapping"), &device.dram.mapping, why);
    }
    Ok(())
}

fn check_name(path: &[Part], device: &Device) -> Checked {
    match Profile::named(&device.profile) {
        Ok(_) => Ok(()),
        Err(_) => {
            let names = Profile::names().join(", ");
            wrong(
                &join(path, "profile"),
                &device.profile,
                format!("allowed are {names}"),
            )
        }
    }
}

fn check_control(scenario: &Scenario) -> Checked {
    let at = |key| [Key("control"), Key(key)];
    let c = &scenario.control;
    within(
        &at("set_point_bytes_per_sec"),
        c.set_point_bytes_per_sec,
        4096.0,
        1e13,
    )?;
    if let Goal::LatencyNs(wanted) = c.goal {
        within(&at("goal"), wanted.0 as f64, 1.0, 6e10)?;
    }
    within(&at("interval_ms"), c.interval_ms as f64, 1.0, 10_000.0)?;
    if let Some(period_ms) = c.period_ms {
        within(&at("period_ms"), period_ms as f64, 1.0, 1000.0)?;
    }
    within(&at("settle_sec"), c.settle_sec, 0.0, 3600.0)?;
    within(&at("measure_sec"), c.measure_sec, 0.5, 3600.0)?;
    within(
        &at("control_from_sec"),
        c.control_from_sec,
        0.0,
        c.settle_sec + c.measure_sec,
    )?;
    let sensors = |key| [Key("sensors"), Key(key)];
    let s = &scenario.sensors;
    within(
        &sensors("counter_read_ns"),
        s.counter_read_ns as f64,
        0.0,
        1e9,
    )?;
    within(
        &sensors("counts_bias_stddev"),
        s.counts_bias_stddev,
        0.0,
        2.0,
    )?;
    within(&sensors("sampled_ratio"), s.sampled_ratio, 1e-9, 1.0)?;
    within(&sensors("bytes_per_sample"), s.bytes_per_sample, 64.0, 1e12)?;
    within(&sensors("bias_stddev"), s.bias_stddev, 0.0, 2.0)
}

fn known_device(path: &[Part], scenario: &Scenario, device: u32) -> Checked {
    let count = scenario.devices.len();
    if (device as usize) < count {
        Ok(())
    } else {
        wrong(
            &join(path, "device"),
            device,
            format!("allowed is 0 to {}", count - 1),
        )
    }
}

fn check_workload(path: &[Part], scenario: &Scenario, w: &WorkloadConfig) -> Checked {
    let at = |key| join(path, key);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if w.name.is_empty() || !w.name.chars().all(plain) {
        return wrong(&at("name"), &w.name, "letters, digits, - and _");
    }
    within(&at("count"), f64::from(w.count), 1.0, 10_000.0)?;
    within(&at("threads"), f64::from(w.threads), 1.0, 1024.0)?;
    within(&at("weight"), w.weight, 1.0, 10_000.0)?;
    known_device(path, scenario, w.device)?;
    let groups = scenario.devices[w.device as usize].groups;
    if w.group >= groups {
        return wrong(
            &at("group"),
            w.group,
            format!("allowed is 0 to {}", groups - 1),
        );
    }
    within(&at("busy_ns_per_line"), w.busy_ns_per_line, 0.1, 1e6)?;
    within(&at("spread_ms"), w.spread_ms, 0.0, 1e6)?;
    within(&at("window_lines"), w.window_lines, 1.0, 1e9)?;
    within(&at("ops_per_cpu_sec"), w.ops_per_cpu_sec, 1e-6, 1e12)?;
    if w.stop_ms.is_some_and(|stop| stop <= w.start_ms) {
        return wrong(
            &at("stop_ms"),
            w.stop_ms.unwrap_or(0),
            format!("after start_ms = {}", w.start_ms),
        );
    }
    if w.phases.is_empty() {
        return wrong(&at("phase"), 0, "at least one [[workload.phase]] table");
    }
    let accesses = w
        .phases
        .iter()
        .any(|p| matches!(p.kind, Kind::Access | Kind::Dma));
    if accesses && w.resident_mib == 0 {
        let why = "above 0: a workload that accesses a device has memory there";
        return wrong(&at("resident_mib"), w.resident_mib, why);
    }
    for (i, phase) in w.phases.iter().enumerate() {
        let mut path = at("phase");
        path.push(Index(i));
        check_phase(&path, w, phase)?;
        check_places(&path, scenario, phase)?;
        let is_endless =
            phase.for_ms.is_none() && phase.times.is_none() && phase.kind != Kind::Sleep;
        if is_endless && w.phases.len() > 1 {
            let why = "for_ms or times is needed where there is more than one phase";
            return wrong(&join(&path, "for_ms"), "missing", why);
        }
    }
    Ok(())
}

fn check_places(path: &[Part], scenario: &Scenario, phase: &PhaseConfig) -> Checked {
    if let Some(device) = phase.device {
        known_device(path, scenario, device)?;
    }
    let disk = phase.disk.unwrap_or(0);
    if phase.kind == Kind::Dma && disk as usize >= scenario.disks.len() {
        let why = format!("there are {} [[disk]] tables", scenario.disks.len());
        return wrong(&join(path, "disk"), disk, why);
    }
    Ok(())
}

/// Keys, whether they are given, and the kinds they belong to.
fn keys(phase: &PhaseConfig) -> [(&'static str, bool, &'static [Kind]); 14] {
    const ACCESS: &[Kind] = &[Kind::Access];
    const MOVES: &[Kind] = &[Kind::Access, Kind::Dma];
    [
        (
            "times",
            phase.times.is_some(),
            &[Kind::Access, Kind::Compute, Kind::Dma],
        ),
        ("block_kib", phase.block_kib.is_some(), MOVES),
        ("write_ratio", phase.write_ratio.is_some(), MOVES),
        ("device", phase.device.is_some(), MOVES),
        ("scattered", phase.scattered.is_some(), ACCESS),
        ("disk", phase.disk.is_some(), &[Kind::Dma]),
        ("non_temporal", phase.non_temporal.is_some(), ACCESS),
        (
            "rate_bytes_per_sec",
            phase.rate_bytes_per_sec.is_some(),
            ACCESS,
        ),
        ("think_us", phase.think_us.is_some(), MOVES),
        ("working_set_mib", phase.working_set_mib.is_some(), ACCESS),
        ("chunk_us", phase.chunk_us.is_some(), &[Kind::Compute]),
        ("mean_us", phase.mean_us.is_some(), &[Kind::Sleep]),
        ("random", phase.random.is_some(), &[Kind::Sleep]),
        ("lock", phase.lock.is_some(), &[Kind::Access, Kind::Compute]),
    ]
}

fn check_phase(path: &[Part], w: &WorkloadConfig, phase: &PhaseConfig) -> Checked {
    let at = |key| join(path, key);
    for (key, is_given, kinds) in keys(phase) {
        if is_given && !kinds.contains(&phase.kind) {
            let fitting = keys(phase)
                .into_iter()
                .filter(|(.., k)| k.contains(&phase.kind));
            let fitting: Vec<_> = fitting.map(|(name, ..)| name).collect();
            let allowed = format!(
                "not for kind = {:?}; allowed are for_ms, {}",
                phase.kind,
                fitting.join(", ")
            );
            return wrong(&at(key), "given", allowed.to_lowercase());
        }
    }
    let range = |key, value: Option<f64>, low, high| {
        value.map_or(Ok(()), |v| within(&at(key), v, low, high))
    };
    range("for_ms", phase.for_ms.map(|v| v as f64), 1.0, 1e9)?;
    range("times", phase.times.map(f64::from), 1.0, 1e9)?;
    range(
        "block_kib",
        phase.block_kib.map(|v| v as f64),
        1.0,
        1048576.0,
    )?;
    range("write_ratio", phase.write_ratio, 0.0, 1.0)?;
    range("rate_bytes_per_sec", phase.rate_bytes_per_sec, 1.0, 1e13)?;
    range("think_us", phase.think_us, 0.0, 1e9)?;
    range("working_set_mib", phase.working_set_mib, 0.001, 1e9)?;
    range("chunk_us", phase.chunk_us, 1.0, 1e9)?;
    range("mean_us", phase.mean_us, 1.0, 1e9)?;
    range("lock", phase.lock.map(f64::from), 0.0, 1023.0)?;
    if phase
        .working_set_mib
        .is_some_and(|set| set > w.resident_mib as f64)
    {
        let allowed = format!("at most resident_mib = {}", w.resident_mib);
        return wrong(
            &at("working_set_mib"),
            phase.working_set_mib.unwrap_or(0.0),
            allowed,
        );
    }
    match phase.kind {
        Kind::Sleep if phase.mean_us.is_none() => {
            wrong(&at("mean_us"), "missing", "needed for kind = sleep")
        }
        Kind::Access | Kind::Dma if phase.block_kib.is_none() => {
            let why = "needed for kind = access and kind = dma";
            wrong(&at("block_kib"), "missing", why)
        }
        _ => Ok(()),
    }
}
