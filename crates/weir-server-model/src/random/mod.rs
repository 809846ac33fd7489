// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random machines with random workloads, and machines on which one thing is wrong. Each seed gives one; the
//! truth of a run says how much of what happened.

mod build;
mod causes;

pub use causes::{Cause, Strength, two_causes_scenario};

use crate::machine::{AccessKind, AccessMix, Machine, Pattern, Phase, Workload, Workloads};
use crate::scenario::{RunFigures, Scenario};
use build::{Draw, area, mix, program};
use weir_description::DescriptionError;

/// A machine and workloads as a seed draws them: 4 to 8 cores, each with a workload of its own; part of CXL
/// memory 0 to 1, dependence 0 to 1, a device of 11 to 32 GB/s and 100 to 400 ns, a TOR of 12 to 42 entries.
///
/// # Errors
/// Never for the machines that are built in.
pub fn random_scenario(seed: u64) -> Result<Scenario, DescriptionError> {
    let mut draw = Draw::new(seed);
    let mut machine = build::machine(&mut draw)?;
    let cores = machine.cores.count;
    let device = &mut machine.device[0];
    device.media_bytes_per_sec = Some(draw.between(11e9, 32e9));
    device.idle_ns = Some(draw.between(100.0, 400.0) + build::HOST_WAY_NS);
    device.burst_ns = Some(draw.between(5.0, 100.0));
    device.rise_ns = Some(draw.between(0.0, 60.0));
    let workload = (0..cores).map(|cpu| random_workload(&mut draw, &machine, cpu as u16));
    let workload = workload.collect();
    finished("random", seed, machine, Workloads { workload })
}

/// Machines without anything wrong: programs with enough work of their own, on caches, DRAM and some CXL
/// memory.
///
/// # Errors
/// Never for the machines that are built in.
pub fn healthy_scenario(seed: u64) -> Result<Scenario, DescriptionError> {
    let mut draw = Draw::new(seed ^ 0x4ea1);
    let machine = build::machine(&mut draw)?;
    let workload = (0..machine.cores.count).map(|cpu| {
        let mut own = mix("heap", Pattern::Random, AccessKind::Load);
        own.gap = draw.integer(300, 1200);
        own.hot_part = 0.01;
        own.hot_probability = draw.between(0.7, 0.95);
        own.per_line = draw.integer(1, 8);
        let heap = area("heap", draw.between(4e3, 32e3), draw.between(0.0, 0.2));
        program(
            &format!("service-{cpu}"),
            &[cpu as u16],
            vec![heap],
            vec![own],
        )
    });
    let workload = workload.collect();
    finished("healthy", seed, machine, Workloads { workload })
}

/// Machines that work hard and lack nothing: prefetched streams of DRAM and CXL memory, half of what each can
/// do.
///
/// # Errors
/// Never for the machines that are built in.
pub fn busy_scenario(seed: u64) -> Result<Scenario, DescriptionError> {
    let mut draw = Draw::new(seed ^ 0xb057);
    let machine = build::machine(&mut draw)?;
    let cores = machine.cores.count;
    let part = draw.between(0.3, 0.5);
    let dram = machine.dram.bytes_per_sec * part;
    let device = machine.device[0]
        .media_bytes_per_sec
        .unwrap_or(build::DEVICE_BYTES_PER_SEC)
        * part;
    let workload = (0..cores).map(|cpu| {
        let is_cxl = cpu % 3 == 2;
        let users = f64::from(if is_cxl { cores / 3 } else { cores - cores / 3 }.max(1));
        let mut stream = mix("data", Pattern::Stream, AccessKind::Load);
        stream.gap = draw.integer(30, 60);
        stream.per_line = 8;
        let data = area("data", 65_536.0, f64::from(u8::from(is_cxl)));
        let mut workload = program(
            &format!("stream-{cpu}"),
            &[cpu as u16],
            vec![data],
            vec![stream],
        );
        let all = if is_cxl { device } else { dram };
        workload.phase[0].mb_per_sec = Some((all / users / 1e6).min(4000.0));
        workload
    });
    let workload = workload.collect();
    finished("busy", seed, machine, Workloads { workload })
}

/// Length of a phase of the idle machine, µs, and what its CPU asks for there, MB/s.
const IDLE_PHASE_US: f64 = 100.0;
const IDLE_MB_PER_SEC: f64 = 200.0;

/// A machine with next to no load: one CPU that reads a little of each memory and of the last-level cache,
/// line by line, then stores, then stores past the caches. Its residences are those of the idle machine,
/// which waits are compared with: it does nothing in bursts, and reads and writes do not alternate.
///
/// # Errors
/// A figure of the machine is out of range.
pub fn idle_scenario(machine: &Machine) -> Result<Scenario, DescriptionError> {
    let mut areas = vec![area("dram", 65_536.0, 0.0)];
    for device in 0..machine.device.len() {
        let mut cxl = area(&format!("cxl-{device}"), 65_536.0, 1.0);
        cxl.device = device;
        areas.push(cxl);
    }
    if machine.remote.is_some() {
        let mut remote = area("remote", 65_536.0, 0.0);
        remote.remote_part = 1.0;
        areas.push(remote);
    }
    // The last one: its lines are in the cache when the run begins.
    let llc_kib = f64::from(machine.cha.count * machine.cha.llc_kib);
    areas.push(area("llc", llc_kib / 4.0, 0.0));
    let kinds = [
        (Pattern::Cycle, AccessKind::Load),
        (Pattern::Random, AccessKind::Store),
        (Pattern::Stream, AccessKind::NtStore),
    ];
    let phases = kinds.map(|(pattern, kind)| Phase {
        for_us: Some(IDLE_PHASE_US),
        ipc: 4.0,
        mb_per_sec: Some(IDLE_MB_PER_SEC),
        mix: areas
            .iter()
            .map(|area| AccessMix {
                chains: 1,
                ..mix(&area.name, pattern, kind)
            })
            .collect(),
    });
    let mut only = program("idle", &[0], areas.clone(), Vec::new());
    only.phase = phases.to_vec();
    finished(
        "idle",
        0,
        machine.clone(),
        Workloads {
            workload: vec![only],
        },
    )
}

fn random_workload(draw: &mut Draw, machine: &Machine, cpu: u16) -> Workload {
    let cxl_part = match draw.integer(0, 3) {
        0 => 0.0,
        1 => 1.0,
        _ => draw.between(0.0, 1.0),
    };
    let llc_kib = f64::from(machine.cha.count * machine.cha.llc_kib);
    let size = match draw.integer(0, 4) {
        0 => llc_kib * draw.between(0.2, 1.5),
        _ => draw.between(16e3, 64e3),
    };
    let data = area("data", size, cxl_part);
    let (name, mut only) = match draw.integer(0, 5) {
        0 => ("chaser", mix("data", Pattern::Cycle, AccessKind::Load)),
        1 | 2 => ("random", mix("data", Pattern::Random, AccessKind::Load)),
        3 => ("stream", mix("data", Pattern::Stream, AccessKind::Load)),
        4 => ("updater", mix("data", Pattern::Random, AccessKind::Update)),
        _ => ("writer", mix("data", Pattern::Stream, AccessKind::Store)),
    };
    only.chains = 1;
    only.dependence = match name {
        "chaser" => 1.0,
        "stream" | "writer" => 0.0,
        _ => draw.between(0.0, 1.0),
    };
    only.gap = draw.integer(2, 80);
    only.per_line = if only.pattern == Pattern::Stream {
        8
    } else {
        draw.integer(1, 3)
    };
    program(&format!("{name}-{cpu}"), &[cpu], vec![data], vec![only])
}

/// A scenario of one window of 400 µs, as the accuracy tables take them.
fn finished(
    name: &str,
    seed: u64,
    machine: Machine,
    workloads: Workloads,
) -> Result<Scenario, DescriptionError> {
    machine.check(name)?;
    workloads.check(&machine, name)?;
    Ok(Scenario {
        name: format!("{name}-{seed}"),
        about: format!("drawn by seed {seed}"),
        machine,
        workloads,
        run: RunFigures {
            windows: 1,
            window_us: 400.0,
            warm_up_us: 40.0,
            is_warm: true,
        },
        plan: None,
        causes: Vec::new(),
    })
}
