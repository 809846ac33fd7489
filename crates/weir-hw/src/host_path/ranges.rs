// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Allowed ranges of a machine file's figures: no equation divides by zero, and no figure asks for more
//! memory or time than a model may take.

use crate::description::DescriptionError;
use crate::host_path::machine::{HostMachine, KindFigures, MemoryFigures};
use crate::host_path::ssd::SsdFigures;
use crate::server::machine::ranges::Ranges;

/// Targets that a memory can be.
const TARGETS: [&str; 2] = ["mmem", "cxl"];
/// Lines, credits and entries at most.
const LINES_MAX: u32 = 65_536;
/// Longest text of a file that is kept.
const WORDS_MAX: usize = 2000;

fn byte_rate(ranges: &Ranges, key: &str, value: f64) -> Result<(), DescriptionError> {
    ranges.figure(key, value, 1e6, 1e13)
}

fn kind_figures(ranges: &Ranges, key: &str, kind: &KindFigures) -> Result<(), DescriptionError> {
    ranges.count(&format!("cores.{key}.lines"), kind.lines, 1, 1024)?;
    ranges.figure(&format!("cores.{key}.own_ns"), kind.own_ns, 0.0, 1e6)?;
    let can_be_fenced = matches!(key, "nt" | "movdir64b");
    ranges.holds(
        can_be_fenced || !kind.is_fenced,
        &format!("cores.{key}.is_fenced"),
        true,
        "only nt and movdir64b can be fenced: the others are not posted by the core",
    )
}

pub(super) fn check(machine: &HostMachine, origin: &str) -> Result<(), DescriptionError> {
    let ranges = &Ranges { origin };
    let words = machine.provenance.iter().map(String::len).sum::<usize>();
    if machine.name.is_empty() || machine.name.len() > 64 || machine.title.len() > 200 {
        let allowed = "a name of 1 to 64 bytes and a title of at most 200 are allowed";
        return Err(ranges.wrong("name", &machine.name, allowed));
    }
    if words > WORDS_MAX * 4 {
        return Err(ranges.wrong("provenance", words, "at most 8000 bytes are allowed"));
    }
    cores(ranges, machine)?;
    let trackers = &machine.trackers;
    ranges.count("trackers.count", trackers.count, 1, LINES_MAX)?;
    ranges.count("trackers.slices", trackers.slices, 1, 1024)?;
    if let Some(count) = trackers.slow_count {
        ranges.count("trackers.slow_count", count, 1, LINES_MAX)?;
    }
    if trackers.slices > trackers.count {
        let allowed = "at most trackers.count, so that each slice has an entry";
        return Err(ranges.wrong("trackers.slices", trackers.slices, allowed));
    }
    ranges.figure("trackers.lookup_ns", trackers.lookup_ns, 0.1, 1e4)?;
    memories(ranges, machine)?;
    let iio = &machine.iio;
    ranges.count("iio.write_credits", iio.write_credits, 1, LINES_MAX)?;
    ranges.count("iio.read_credits", iio.read_credits, 1, LINES_MAX)?;
    ranges.figure("iio.idle_ns", iio.idle_ns, 1.0, 1e6)?;
    byte_rate(ranges, "iio.link_bytes_per_sec", iio.link_bytes_per_sec)?;
    ranges.figure("iio.cached_write_part", iio.cached_write_part, 0.0, 1.0)?;
    if let Some(ssd) = &machine.ssd {
        storage(ranges, ssd)?;
    }
    levers(ranges, machine)
}

fn cores(ranges: &Ranges, machine: &HostMachine) -> Result<(), DescriptionError> {
    let cores = &machine.cores;
    ranges.count("cores.count", cores.count, 1, 256)?;
    ranges.figure("cores.ghz", cores.ghz, 0.1, 10.0)?;
    ranges.figure("cores.path_ns", cores.path_ns, 0.1, 1e4)?;
    for (key, kind) in [
        ("load", &cores.load),
        ("store", &cores.store),
        ("write_back", &cores.write_back),
        ("nt", &cores.nt),
        ("movdir64b", &cores.movdir64b),
    ] {
        kind_figures(ranges, key, kind)?;
    }
    Ok(())
}

fn memories(ranges: &Ranges, machine: &HostMachine) -> Result<(), DescriptionError> {
    let all = &machine.memory;
    if all.is_empty() || all.len() > TARGETS.len() {
        let allowed = "one [[memory]] for each of mmem and cxl is allowed, at least one is needed";
        return Err(ranges.wrong("memory", format!("{} tables", all.len()), allowed));
    }
    for (number, memory) in all.iter().enumerate() {
        let key = |name: &str| format!("memory[{number}].{name}");
        let target = memory.target.as_str();
        if !TARGETS.contains(&target) {
            return Err(ranges.wrong(&key("target"), target, "mmem or cxl is allowed"));
        }
        if all[..number].iter().any(|one| one.target == target) {
            return Err(ranges.wrong(&key("target"), target, "another memory has this target"));
        }
        one_memory(ranges, &key, memory)?;
        let rates = memory.rates();
        let rates =
            rates.map_err(|why| ranges.wrong(&format!("memory[{number}]"), target, &why))?;
        if rates.idle_ns <= machine.cores.path_ns {
            let allowed = "more than cores.path_ns is needed: the path is a part of it";
            return Err(ranges.wrong(&key("idle_ns"), rates.idle_ns, allowed));
        }
    }
    Ok(())
}

fn one_memory(
    ranges: &Ranges,
    key: &impl Fn(&str) -> String,
    memory: &MemoryFigures,
) -> Result<(), DescriptionError> {
    ranges.count(&key("count"), memory.count, 1, 64)?;
    if let Some(idle_ns) = memory.idle_ns {
        ranges.figure(&key("idle_ns"), idle_ns, 1.0, 1e5)?;
    }
    for (name, rate) in [
        ("read_bytes_per_sec", memory.read_bytes_per_sec),
        ("write_bytes_per_sec", memory.write_bytes_per_sec),
    ] {
        if let Some(rate) = rate {
            byte_rate(ranges, &key(name), rate)?;
        }
    }
    Ok(())
}

fn storage(ranges: &Ranges, ssd: &SsdFigures) -> Result<(), DescriptionError> {
    let block = ssd.block_bytes;
    if !(512..=1 << 20).contains(&block) || !block.is_multiple_of(64) {
        let allowed = "512 to 1048576 is allowed, in steps of 64";
        return Err(ranges.wrong("ssd.block_bytes", block, allowed));
    }
    ranges.count("ssd.depth", ssd.depth, 1, 256)?;
    ranges.count("ssd.copy_lines", ssd.copy_lines, 1, 1024)?;
    for (key, value) in [
        ("ssd.random_read_iops", ssd.random_read_iops),
        ("ssd.random_write_iops", ssd.random_write_iops),
    ] {
        ranges.figure(key, value, 1.0, 1e9)?;
    }
    byte_rate(ranges, "ssd.read_bytes_per_sec", ssd.read_bytes_per_sec)?;
    byte_rate(ranges, "ssd.write_bytes_per_sec", ssd.write_bytes_per_sec)?;
    for (key, value) in [
        ("ssd.read_latency_ns", ssd.read_latency_ns),
        ("ssd.write_latency_ns", ssd.write_latency_ns),
        ("ssd.cpu_ns", ssd.cpu_ns),
    ] {
        ranges.figure(key, value, 1.0, 1e9)?;
    }
    Ok(())
}

fn levers(ranges: &Ranges, machine: &HostMachine) -> Result<(), DescriptionError> {
    let levers = &machine.levers;
    ranges.figure("levers.mba_least", levers.mba_least, 0.001, 1.0)?;
    let step = levers.smba_step_bytes_per_sec;
    ranges.figure("levers.smba_step_bytes_per_sec", step, 1e3, 1e12)?;
    ranges.figure("levers.least_ghz", levers.least_ghz, 0.1, 10.0)?;
    if levers.least_ghz > machine.cores.ghz {
        let allowed = "at most cores.ghz";
        return Err(ranges.wrong("levers.least_ghz", levers.least_ghz, allowed));
    }
    Ok(())
}
