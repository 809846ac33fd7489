// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allowed ranges of all figures.

use crate::description::DescriptionError;
use crate::memory_device::Profile;
use crate::server::machine::ranges::Ranges;
use crate::server::machine::workload::{AccessMix, MemoryArea, Phase, Workload, Workloads};
use crate::server::machine::{CxlFigures, Machine};

pub(super) fn machine(machine: &Machine, origin: &str) -> Result<(), DescriptionError> {
    let ranges = Ranges { origin };
    core_figures(&ranges, machine)?;
    uncore_figures(&ranges, machine)?;
    if let Some(remote) = &machine.remote {
        ranges.figure("remote.load_to_use_ns", remote.load_to_use_ns, 1.0, 1e5)?;
        ranges.figure("remote.bytes_per_sec", remote.bytes_per_sec, 1e8, 1e13)?;
        ranges.count("remote.entries", remote.entries, 1, 4096)?;
        ranges.figure("remote.cache_hit_part", remote.cache_hit_part, 0.0, 1.0)?;
        ranges.figure("remote.cache_saves_ns", remote.cache_saves_ns, 0.0, 1e4)?;
    }
    ranges.holds(
        machine.device.len() <= 4,
        "device",
        machine.device.len(),
        "at most 4 devices",
    )?;
    for (number, device) in machine.device.iter().enumerate() {
        cxl_figures(&ranges, number, device, machine.remote.is_some())?;
    }
    Ok(())
}

fn core_figures(ranges: &Ranges, machine: &Machine) -> Result<(), DescriptionError> {
    let m = machine;
    ranges.count("cores.count", m.cores.count, 1, 256)?;
    ranges.count("cores.threads_per_core", m.cores.threads_per_core, 1, 2)?;
    ranges.figure("cores.ghz", m.cores.ghz, 0.1, 10.0)?;
    ranges.figure("cores.width", m.cores.width, 0.1, 16.0)?;
    ranges.count("cores.window", m.cores.window, 8, 4096)?;
    ranges.count("cores.store_buffer", m.cores.store_buffer, 1, 1024)?;
    ranges.count("cores.rfo_ahead", m.cores.rfo_ahead, 1, 256)?;
    for (cache, kib, ways) in [
        ("l1d", m.l1d.kib, m.l1d.ways),
        ("l2", m.l2.kib, m.l2.ways),
        ("cha", m.cha.llc_kib, m.cha.llc_ways),
    ] {
        let prefix = if cache == "cha" {
            "cha.llc_"
        } else {
            &format!("{cache}.")
        };
        ranges.count(&format!("{prefix}kib"), kib, 1, 1 << 20)?;
        ranges.count(&format!("{prefix}ways"), ways, 1, 32)?;
        let fits = kib * 16 >= ways;
        ranges.holds(
            fits,
            &format!("{prefix}ways"),
            ways,
            "a way needs a line of 64 bytes",
        )?;
    }
    ranges.count("l1d.latency_cycles", m.l1d.latency_cycles, 1, 100)?;
    ranges.count("l1d.fill_buffers", m.l1d.fill_buffers, 1, 256)?;
    ranges.count(
        "l2.latency_cycles",
        m.l2.latency_cycles,
        m.l1d.latency_cycles,
        1000,
    )?;
    ranges.count("l2.super_queue", m.l2.super_queue, 1, 1024)?;
    ranges.count("l2.write_back_buffers", m.l2.write_back_buffers, 1, 1024)?;
    ranges.count("prefetch.streams", m.prefetch.streams, 0, 64)?;
    ranges.count("prefetch.distance_lines", m.prefetch.distance_lines, 0, 512)?;
    ranges.count("prefetch.degree", m.prefetch.degree, 0, 16)?;
    ranges.count("prefetch.queue_limit", m.prefetch.queue_limit, 0, 1024)?;
    ranges.count(
        "prefetch.llc_distance_lines",
        m.prefetch.llc_distance_lines,
        0,
        512,
    )
}

fn uncore_figures(ranges: &Ranges, machine: &Machine) -> Result<(), DescriptionError> {
    let m = machine;
    ranges.figure("mesh.ghz", m.mesh.ghz, 0.1, 10.0)?;
    ranges.figure("mesh.hop_ns", m.mesh.hop_ns, 0.1, 1e4)?;
    ranges.figure("mesh.other_cluster_ns", m.mesh.other_cluster_ns, 0.0, 1e4)?;
    ranges.count("cha.count", m.cha.count, 1, 256)?;
    let (count, clusters) = (m.cha.count, m.cha.clusters);
    let divides = matches!(clusters, 1 | 2 | 4) && count % clusters == 0;
    ranges.holds(
        divides,
        "cha.clusters",
        clusters,
        "1, 2 or 4 that divides cha.count",
    )?;
    ranges.count("cha.ingress_entries", m.cha.ingress_entries, 1, 4096)?;
    ranges.count("cha.tor_entries", m.cha.tor_entries, 1, 4096)?;
    ranges.figure("cha.lookup_ns", m.cha.lookup_ns, 0.1, 1e4)?;
    ranges.count("cha.io_ways", m.cha.io_ways, 1, m.cha.llc_ways)?;
    ranges.count("dram.channels", m.dram.channels, 1, 64)?;
    ranges.figure("dram.load_to_use_ns", m.dram.load_to_use_ns, 1.0, 1e5)?;
    ranges.figure("dram.bytes_per_sec", m.dram.bytes_per_sec, 1e8, 1e13)?;
    ranges.count("dram.read_queue", m.dram.read_queue, 1, 4096)?;
    ranges.count("dram.write_queue", m.dram.write_queue, 1, 4096)?;
    ranges.figure("dram.turnaround_ns", m.dram.turnaround_ns, 0.0, 1e4)?;
    ranges.count("dram.drain_from", m.dram.drain_from, 1, m.dram.write_queue)?;
    ranges.count("dram.drain_to", m.dram.drain_to, 0, m.dram.drain_from - 1)?;
    ranges.figure("dram.clock_ghz", m.dram.clock_ghz, 0.1, 10.0)?;
    ranges.count("pmu.core_counters", m.pmu.core_counters, 1, 32)?;
    ranges.count("pmu.uncore_counters", m.pmu.uncore_counters, 1, 32)?;
    ranges.count("pmu.width_bits", m.pmu.width_bits, 8, 64)?;
    ranges.figure("pmu.read_ns", m.pmu.read_ns, 0.0, 1e6)
}

fn cxl_figures(
    ranges: &Ranges,
    number: usize,
    device: &CxlFigures,
    has_remote: bool,
) -> Result<(), DescriptionError> {
    let key = |name: &str| format!("device[{number}].{name}");
    if let Err(error) = Profile::named(&device.profile) {
        return Err(ranges.wrong(&key("profile"), &device.profile, &error.to_string()));
    }
    let reachable = has_remote || !device.is_remote;
    ranges.holds(
        reachable,
        &key("is_remote"),
        "true",
        "[remote] is needed for it",
    )?;
    ranges.count(&key("ingress_entries"), device.ingress_entries, 1, 4096)?;
    ranges.count(&key("credits"), device.credits.unwrap_or(1), 1, 4096)?;
    ranges.figure(
        &key("link_bytes_per_sec"),
        device.link_bytes_per_sec,
        1e8,
        1e13,
    )?;
    ranges.count(&key("header_bytes"), device.header_bytes, 1, 256)?;
    ranges.count(&key("data_bytes"), device.data_bytes, 64, 1024)?;
    ranges.figure(&key("flight_ns"), device.flight_ns, 0.0, 1e4)?;
    ranges.figure(&key("resend_part"), device.resend_part, 0.0, 1.0)?;
    ranges.figure(&key("resend_ns"), device.resend_ns, 0.0, 1e6)?;
    ranges.figure(&key("slower_by_ns"), device.slower_by_ns, 0.0, 1e5)?;
    ranges.figure(&key("clock_ghz"), device.clock_ghz, 0.1, 10.0)?;
    for (name, value, low) in [
        ("idle_ns", device.idle_ns, 1.0),
        ("media_bytes_per_sec", device.media_bytes_per_sec, 1e8),
        ("rise_ns", device.rise_ns, 0.0),
        ("burst_ns", device.burst_ns, 0.0),
    ] {
        ranges.figure(&key(name), value.unwrap_or(low), low, 1e13)?;
    }
    Ok(())
}

pub(super) fn workloads(
    workloads: &Workloads,
    machine: &Machine,
    origin: &str,
) -> Result<(), DescriptionError> {
    let ranges = Ranges { origin };
    let all = &workloads.workload;
    ranges.holds(
        !all.is_empty(),
        "workload",
        "empty",
        "at least one [[workload]] is needed",
    )?;
    ranges.holds(
        all.len() <= 32,
        "workload",
        all.len(),
        "at most 32 workloads",
    )?;
    let mut taken = vec![None; machine.cpus() as usize];
    for (number, workload) in all.iter().enumerate() {
        let key = |name: &str| format!("workload[{number}].{name}");
        let twice = all[..number].iter().any(|w| w.name == workload.name);
        ranges.holds(
            !twice,
            &key("name"),
            &workload.name,
            "another workload has this name",
        )?;
        for &cpu in &workload.cpus {
            let Some(place) = taken.get_mut(usize::from(cpu)) else {
                let allowed = format!("the machine has CPUs 0 to {}", machine.cpus() - 1);
                return Err(ranges.wrong(&key("cpus"), cpu, &allowed));
            };
            if let Some(other) = place.replace(&workload.name) {
                let allowed = format!("workload {other} runs on it; give each CPU to one");
                return Err(ranges.wrong(&key("cpus"), cpu, &allowed));
            }
        }
        let works = !workload.cpus.is_empty() || workload.dma.is_some();
        ranges.holds(
            works,
            &key("cpus"),
            "empty",
            "CPUs or [workload.dma] are needed",
        )?;
        one_workload(&ranges, number, workload, machine)?;
    }
    Ok(())
}

fn one_workload(
    ranges: &Ranges,
    number: usize,
    workload: &Workload,
    machine: &Machine,
) -> Result<(), DescriptionError> {
    let key = |name: &str| format!("workload[{number}].{name}");
    ranges.figure(&key("start_us"), workload.start_us, 0.0, 1e9)?;
    ranges.figure(
        &key("end_us"),
        workload.end_us.unwrap_or(1e9),
        workload.start_us,
        1e9,
    )?;
    for (n, area) in workload.area.iter().enumerate() {
        memory_area(
            ranges,
            &|name| key(&format!("area[{n}].{name}")),
            area,
            machine,
        )?;
    }
    let runs = workload.cpus.is_empty() || !workload.phase.is_empty();
    let needed = "at least one [[workload.phase]] is needed";
    ranges.holds(runs, &key("phase"), "empty", needed)?;
    for (n, phase) in workload.phase.iter().enumerate() {
        one_phase(
            ranges,
            &|name| key(&format!("phase[{n}].{name}")),
            phase,
            workload,
        )?;
    }
    for (n, page_move) in workload.page_move.iter().enumerate() {
        let key = |name: &str| key(&format!("page_move[{n}].{name}"));
        area_name(ranges, &key("area"), &page_move.area, workload)?;
        ranges.figure(&key("at_us"), page_move.at_us, 0.0, 1e9)?;
        ranges.figure(&key("from_part"), page_move.from_part, 0.0, 1.0)?;
        let from_part = page_move.from_part;
        ranges.figure(&key("to_part"), page_move.to_part, from_part, 1.0)?;
    }
    if let Some(dma) = &workload.dma {
        area_name(ranges, &key("dma.area"), &dma.area, workload)?;
        ranges.figure(&key("dma.mb_per_sec"), dma.mb_per_sec, 0.001, 1e7)?;
        ranges.count(&key("dma.outstanding"), dma.outstanding, 1, 1024)?;
    }
    let all = (1u64 << machine.cha.llc_ways) - 1;
    let ways = u64::from(workload.llc_ways.unwrap_or(1)) & all;
    let allowed = "a mask with at least one way of the slice";
    ranges.holds(ways != 0, &key("llc_ways"), "0", allowed)
}

fn area_name(
    ranges: &Ranges,
    key: &str,
    name: &str,
    workload: &Workload,
) -> Result<(), DescriptionError> {
    let is_known = workload.area.iter().any(|area| area.name == name);
    ranges.holds(is_known, key, name, "no [[workload.area]] has this name")
}

fn memory_area(
    ranges: &Ranges,
    key: &dyn Fn(&str) -> String,
    area: &MemoryArea,
    machine: &Machine,
) -> Result<(), DescriptionError> {
    ranges.figure(&key("kib"), area.kib, 0.0625, 4.0 * 1024.0 * 1024.0)?;
    ranges.figure(&key("cxl_part"), area.cxl_part, 0.0, 1.0)?;
    let rest = 1.0 - area.cxl_part;
    ranges.figure(&key("remote_part"), area.remote_part, 0.0, rest)?;
    let rest = rest - area.remote_part;
    let other = area.other_cluster_part;
    ranges.figure(&key("other_cluster_part"), other, 0.0, rest)?;
    let has_device = area.cxl_part == 0.0 || area.device < machine.device.len();
    let allowed = "the machine has no such [[device]]";
    ranges.holds(has_device, &key("device"), area.device, allowed)?;
    let has_remote = area.remote_part == 0.0 || machine.remote.is_some();
    let allowed = "the machine has no [remote]";
    ranges.holds(has_remote, &key("remote_part"), area.remote_part, allowed)
}

fn one_phase(
    ranges: &Ranges,
    key: &dyn Fn(&str) -> String,
    phase: &Phase,
    workload: &Workload,
) -> Result<(), DescriptionError> {
    ranges.figure(&key("ipc"), phase.ipc, 0.01, 16.0)?;
    ranges.figure(&key("for_us"), phase.for_us.unwrap_or(1.0), 0.001, 1e9)?;
    let mb_per_sec = phase.mb_per_sec.unwrap_or(1.0);
    ranges.figure(&key("mb_per_sec"), mb_per_sec, 0.001, 1e7)?;
    let needed = "at least one mix is needed";
    ranges.holds(!phase.mix.is_empty(), &key("mix"), "empty", needed)?;
    for (m, mix) in phase.mix.iter().enumerate() {
        let key = |name: &str| key(&format!("mix[{m}].{name}"));
        area_name(ranges, &key("area"), &mix.area, workload)?;
        access_mix(ranges, &key, mix)?;
    }
    Ok(())
}

fn access_mix(
    ranges: &Ranges,
    key: &dyn Fn(&str) -> String,
    mix: &AccessMix,
) -> Result<(), DescriptionError> {
    ranges.figure(&key("weight"), mix.weight, 0.0001, 1e6)?;
    ranges.count(&key("gap"), mix.gap, 0, 100_000)?;
    ranges.count(&key("per_line"), mix.per_line, 1, 64)?;
    ranges.count(&key("run_lines"), mix.run_lines, 1, 100_000)?;
    ranges.count(&key("chains"), mix.chains, 0, 16)?;
    ranges.figure(&key("dependence"), mix.dependence, 0.0, 1.0)?;
    ranges.figure(&key("hot_part"), mix.hot_part, 0.0, 1.0)?;
    ranges.figure(&key("hot_probability"), mix.hot_probability, 0.0, 1.0)
}
