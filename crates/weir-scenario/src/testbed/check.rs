// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scenario of the testbed may not be.

use super::{Load, TestbedScenario, TestbedWorkload};
use crate::place::Part::{self, Index, Key};
use crate::simulated::Role;
use crate::wrong::{Checked, check_expect, join, within, wrong};
use std::collections::BTreeSet;

/// The kernel keeps a little of each node for itself.
const KEPT_MIB: u64 = 16;
const ACCESSES: [&str; 6] = ["randread", "read", "randwrite", "write", "randrw", "rw"];

pub(crate) fn check(scenario: &TestbedScenario) -> Checked {
    scenario.machine.validate()?;
    check_expect(&scenario.expect)?;
    let c = &scenario.control;
    let at = |key| [Key("control"), Key(key)];
    if !(c.set_point_ratio > 0.0 && c.set_point_ratio <= 1.0) {
        return wrong(
            &at("set_point_ratio"),
            c.set_point_ratio,
            "above 0, at most 1",
        );
    }
    within(&at("interval_ms"), c.interval_ms as f64, 1.0, 10_000.0)?;
    within(&at("period_ms"), c.period_ms as f64, 1.0, 1000.0)?;
    within(&at("measure_sec"), c.measure_sec as f64, 1.0, 600.0)?;
    within(&at("settle_sec"), c.settle_sec as f64, 1.0, 600.0)?;
    let mut names = BTreeSet::new();
    let mut used_mib = vec![0; scenario.machine.groups_mib.len()];
    for (i, workload) in scenario.workloads.iter().enumerate() {
        let path = [Key("workload"), Index(i)];
        check_workload(&path, workload)?;
        if !names.insert(&workload.name) {
            let allowed = "a name stands only once";
            return wrong(&join(&path, "name"), &workload.name, allowed);
        }
        if let Load::Fio {
            group, file_mib, ..
        } = &workload.load
        {
            let Some(used) = used_mib.get_mut(*group) else {
                let allowed = "it is not in machine.groups_mib";
                return wrong(&join(&path, "group"), group, allowed);
            };
            *used += file_mib * workload.count as u64;
        }
    }
    for (group, (used, size)) in used_mib
        .iter()
        .zip(&scenario.machine.groups_mib)
        .enumerate()
    {
        if *used + KEPT_MIB > *size {
            let allowed = format!("files of group {group} need {used} MiB of it");
            return wrong(&[Key("machine"), Key("groups_mib")], size, allowed);
        }
    }
    Ok(())
}

fn check_workload(path: &[Part], workload: &TestbedWorkload) -> Checked {
    let at = |key| join(path, key);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if workload.name.is_empty() || !workload.name.chars().all(plain) {
        return wrong(&at("name"), &workload.name, "letters, digits, - and _");
    }
    within(&at("count"), workload.count as f64, 1.0, 100.0)?;
    within(&at("weight"), f64::from(workload.weight), 1.0, 10_000.0)?;
    if workload.role == Role::System {
        return wrong(&at("role"), "system", "allowed are heavy, light and beside");
    }
    check_load(path, &workload.load)
}

fn check_load(path: &[Part], load: &Load) -> Checked {
    let at = |key| join(path, key);
    match load {
        Load::Fio {
            rw,
            file_mib,
            block_kib,
            think_us,
            burst_blocks,
            pause_ms,
            ..
        } => {
            let are_both = (*burst_blocks == 0) == (*pause_ms == 0);
            if !are_both || (*burst_blocks > 0 && *think_us > 0) {
                let allowed = "burst_blocks and pause_ms: both or neither, and not with think_us";
                return wrong(&at("burst_blocks"), burst_blocks, allowed);
            }
            if !ACCESSES.contains(&rw.as_str()) {
                let allowed = format!("allowed are {}", ACCESSES.join(", "));
                return wrong(&at("rw"), rw, allowed);
            }
            if *file_mib == 0 {
                return wrong(&at("file_mib"), file_mib, "above 0");
            }
            within(
                &at("block_kib"),
                *block_kib as f64,
                1.0,
                *file_mib as f64 * 1024.0,
            )
        }
        Load::StressNg { workers, method } => {
            within(&at("workers"), *workers as f64, 1.0, 256.0)?;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if method.chars().all(plain) {
                Ok(())
            } else {
                wrong(&at("method"), method, "a CPU method of stress-ng")
            }
        }
    }
}
