// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold between figures of a machine, and between workloads and the machine that they run on.
//! Ranges stand at the figures.

use crate::machine::Machine;
use crate::machine::workload::{MemoryArea, Workload, Workloads};
use weir_description::{DescriptionError, Origin};
use weir_hw::memory_device::Profile;

pub(super) fn machine(machine: &Machine, origin: &str) -> Result<(), DescriptionError> {
    let origin = Origin(origin);
    let (least, latency) = (machine.l1d.latency_cycles, machine.l2.latency_cycles);
    let allowed = format!("{least} to 1000 is allowed");
    origin.holds(latency >= least, "l2.latency_cycles", latency, &allowed)?;
    for (key, kib, ways) in [
        ("l1d.ways", machine.l1d.kib, machine.l1d.ways),
        ("l2.ways", machine.l2.kib, machine.l2.ways),
        ("cha.llc_ways", machine.cha.llc_kib, machine.cha.llc_ways),
    ] {
        let allowed = "a way needs a line of 64 bytes";
        origin.holds(kib * 16 >= ways, key, ways, allowed)?;
    }
    let (count, clusters) = (machine.cha.count, machine.cha.clusters);
    let divides = matches!(clusters, 1 | 2 | 4) && count % clusters == 0;
    let allowed = "1, 2 or 4 that divides cha.count";
    origin.holds(divides, "cha.clusters", clusters, allowed)?;
    let devices = machine.device.len();
    origin.holds(devices <= 4, "device", devices, "at most 4 devices")?;
    for (number, device) in machine.device.iter().enumerate() {
        let key = |name: &str| format!("device[{number}].{name}");
        if let Err(error) = Profile::named(&device.profile) {
            return Err(origin.wrong(&key("profile"), &device.profile, &error.to_string()));
        }
        let reachable = machine.remote.is_some() || !device.is_remote;
        let allowed = "[remote] is needed for it";
        origin.holds(reachable, &key("is_remote"), "true", allowed)?;
    }
    Ok(())
}

pub(super) fn workloads(
    workloads: &Workloads,
    machine: &Machine,
    origin: &str,
) -> Result<(), DescriptionError> {
    let origin = Origin(origin);
    let all = &workloads.workload;
    let needed = "at least one [[workload]] is needed";
    origin.holds(!all.is_empty(), "workload", "empty", needed)?;
    origin.holds(
        all.len() <= 32,
        "workload",
        all.len(),
        "at most 32 workloads",
    )?;
    let mut taken = vec![None; machine.cpus() as usize];
    for (number, workload) in all.iter().enumerate() {
        let key = |name: &str| format!("workload[{number}].{name}");
        let twice = all[..number].iter().any(|w| w.name == workload.name);
        let allowed = "another workload has this name";
        origin.holds(!twice, &key("name"), &workload.name, allowed)?;
        for &cpu in &workload.cpus {
            let Some(place) = taken.get_mut(usize::from(cpu)) else {
                let allowed = format!("the machine has CPUs 0 to {}", machine.cpus() - 1);
                return Err(origin.wrong(&key("cpus"), cpu, &allowed));
            };
            if let Some(other) = place.replace(&workload.name) {
                let allowed = format!("workload {other} runs on it; give each CPU to one");
                return Err(origin.wrong(&key("cpus"), cpu, &allowed));
            }
        }
        let works = !workload.cpus.is_empty() || workload.dma.is_some();
        let allowed = "CPUs or [workload.dma] are needed";
        origin.holds(works, &key("cpus"), "empty", allowed)?;
        one_workload(origin, &key, workload, machine)?;
    }
    Ok(())
}

fn one_workload(
    origin: Origin,
    key: &dyn Fn(&str) -> String,
    workload: &Workload,
    machine: &Machine,
) -> Result<(), DescriptionError> {
    for (n, area) in workload.area.iter().enumerate() {
        memory_area(
            origin,
            &|name| key(&format!("area[{n}].{name}")),
            area,
            machine,
        )?;
    }
    let runs = workload.cpus.is_empty() || !workload.phase.is_empty();
    let needed = "at least one [[workload.phase]] is needed";
    origin.holds(runs, &key("phase"), "empty", needed)?;
    for (n, phase) in workload.phase.iter().enumerate() {
        let key = |name: &str| key(&format!("phase[{n}].{name}"));
        let needed = "at least one mix is needed";
        origin.holds(!phase.mix.is_empty(), &key("mix"), "empty", needed)?;
        for (m, mix) in phase.mix.iter().enumerate() {
            area_name(origin, &key(&format!("mix[{m}].area")), &mix.area, workload)?;
        }
    }
    for (n, page_move) in workload.page_move.iter().enumerate() {
        let key = key(&format!("page_move[{n}].area"));
        area_name(origin, &key, &page_move.area, workload)?;
    }
    if let Some(dma) = &workload.dma {
        area_name(origin, &key("dma.area"), &dma.area, workload)?;
    }
    let all = (1u64 << machine.cha.llc_ways) - 1;
    let ways = u64::from(workload.llc_ways.unwrap_or(1)) & all;
    let allowed = "a mask with at least one way of the slice";
    origin.holds(ways != 0, &key("llc_ways"), "0", allowed)
}

fn area_name(
    origin: Origin,
    key: &str,
    name: &str,
    workload: &Workload,
) -> Result<(), DescriptionError> {
    let is_known = workload.area.iter().any(|area| area.name == name);
    origin.holds(is_known, key, name, "no [[workload.area]] has this name")
}

fn memory_area(
    origin: Origin,
    key: &dyn Fn(&str) -> String,
    area: &MemoryArea,
    machine: &Machine,
) -> Result<(), DescriptionError> {
    let has_device = area.cxl_part == 0.0 || area.device < machine.device.len();
    let allowed = "the machine has no such [[device]]";
    origin.holds(has_device, &key("device"), area.device, allowed)?;
    let has_remote = area.remote_part == 0.0 || machine.remote.is_some();
    let allowed = "the machine has no [remote]";
    origin.holds(has_remote, &key("remote_part"), area.remote_part, allowed)
}
