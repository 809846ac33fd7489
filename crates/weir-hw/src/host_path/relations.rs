// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold between figures of a machine file. Ranges stand at the figures.

use crate::host_path::machine::HostMachine;
use weir_description::{DescriptionError, Origin};

const TARGETS: [&str; 2] = ["mmem", "cxl"];
/// Longest text of a file that is kept.
const WORDS_MAX: usize = 8000;

pub(super) fn check(machine: &HostMachine, origin: &str) -> Result<(), DescriptionError> {
    let origin = Origin(origin);
    let words = machine.provenance.iter().map(String::len).sum::<usize>();
    if machine.name.is_empty() || machine.name.len() > 64 || machine.title.len() > 200 {
        let allowed = "a name of 1 to 64 bytes and a title of at most 200 are allowed";
        return Err(origin.wrong("name", &machine.name, allowed));
    }
    let allowed = "at most 8000 bytes are allowed";
    origin.holds(words <= WORDS_MAX, "provenance", words, allowed)?;
    let cores = &machine.cores;
    for (key, kind) in [
        ("load", &cores.load),
        ("store", &cores.store),
        ("write_back", &cores.write_back),
    ] {
        let key = format!("cores.{key}.is_fenced");
        let allowed = "only nt and movdir64b can be fenced: the others are not posted by the core";
        origin.holds(!kind.is_fenced, &key, true, allowed)?;
    }
    let (slices, count) = (machine.trackers.slices, machine.trackers.count);
    let allowed = "at most trackers.count, so that each slice has an entry";
    origin.holds(slices <= count, "trackers.slices", slices, allowed)?;
    memories(origin, machine)?;
    if let Some(ssd) = &machine.ssd {
        let block = ssd.block_bytes;
        let allowed = "512 to 1048576 is allowed, in steps of 64";
        origin.holds(block.is_multiple_of(64), "ssd.block_bytes", block, allowed)?;
    }
    let least = machine.levers.least_ghz;
    let is_lower = least <= machine.cores.ghz;
    origin.holds(is_lower, "levers.least_ghz", least, "at most cores.ghz")
}

fn memories(origin: Origin, machine: &HostMachine) -> Result<(), DescriptionError> {
    let all = &machine.memory;
    if all.is_empty() || all.len() > TARGETS.len() {
        let allowed = "one [[memory]] for each of mmem and cxl is allowed, at least one is needed";
        return Err(origin.wrong("memory", format!("{} tables", all.len()), allowed));
    }
    for (number, memory) in all.iter().enumerate() {
        let key = |name: &str| format!("memory[{number}].{name}");
        let target = memory.target.as_str();
        let is_known = TARGETS.contains(&target);
        origin.holds(is_known, &key("target"), target, "mmem or cxl is allowed")?;
        let is_first = !all[..number].iter().any(|one| one.target == target);
        let allowed = "another memory has this target";
        origin.holds(is_first, &key("target"), target, allowed)?;
        let rates = memory.rates();
        let rates =
            rates.map_err(|why| origin.wrong(&format!("memory[{number}]"), target, &why))?;
        let is_longer = rates.idle_ns > machine.cores.path_ns;
        let allowed = "more than cores.path_ns is needed: the path is a part of it";
        origin.holds(is_longer, &key("idle_ns"), rates.idle_ns, allowed)?;
    }
    Ok(())
}
