// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which events can be sampled with the physical address of what was accessed.

use crate::counters::pmu::{Machine, Tapped};
use weir_core::Missing;
use weir_events::{Config, Sample, Table, tables};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenSampler {
    /// For people: what it is and what it leaves out.
    pub(super) name: String,
    pub(super) tapped: Tapped,
    /// What a sample stands for.
    pub(super) bytes: u64,
}

/// The one event of the kernel's own that gives samples the address of mapped memory: it is counted when the
/// fault is over (Linux 5.9). All page faults together are counted before, when there is no page yet.
const FAULTS: &str = "sw:minor-faults";
const FAULTS_PERIOD: u64 = 7;
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_PAGE_FAULTS_MIN`.
const SOFTWARE: u32 = 1;
const MINOR_FAULTS: u64 = 5;

/// The best that this machine has.
///
/// # Errors
/// It has none: why.
pub(super) fn best(machine: &Machine) -> Result<ChosenSampler, Missing> {
    let of_this_cpu = |table: &&Table| !table.cpu.is_empty() && machine.has(table);
    let Some(table) = tables().iter().find(of_this_cpu) else {
        return Err(match &machine.cpu {
            // SPE writes its samples into a buffer of its own (AUX), where no program sees them.
            _ if cfg!(target_arch = "aarch64") => {
                Missing::NotSupported("Arm's samples (SPE) cannot be seen by BPF".into())
            }
            Ok(cpu) => Missing::NotSupported(format!("weir has no table of events for {cpu}")),
            Err(why) => why.clone(),
        });
    };
    let mut why = Missing::NotSupported(format!(
        "weir knows no event of {} that is sampled with an address",
        table.family
    ));
    for sample in &table.sample {
        match encoded(machine, table, sample) {
            Ok(chosen) => return Ok(chosen),
            Err(not_here) => why = not_here,
        }
    }
    Err(why)
}

/// An event by its name: one of this CPU's table that is meant for it, or minor faults, to try it out.
///
/// # Errors
/// There is no such event here.
pub(super) fn named(machine: &Machine, name: &str) -> Result<ChosenSampler, Missing> {
    if name == FAULTS {
        return Ok(ChosenSampler {
            name: format!("{FAULTS} (no traffic: for trying it out)"),
            tapped: Tapped {
                pmu: "software".into(),
                kind: SOFTWARE,
                config: Config([MINOR_FAULTS, 0, 0, 0]),
                period: FAULTS_PERIOD,
                precise: 0,
                data_source: false,
            },
            bytes: FAULTS_PERIOD,
        });
    }
    let here = tables().iter().filter(|table| machine.has(table));
    let mut all = here.flat_map(|table| table.sample.iter().map(move |sample| (table, sample)));
    match all.find(|(_, sample)| sample.event == name) {
        Some((table, sample)) => encoded(machine, table, sample),
        None => Err(Missing::NotSupported(format!(
            "no event {name:?} that this CPU samples with an address: leave --attribution-event away, or try it \
             out with {FAULTS}"
        ))),
    }
}

fn encoded(machine: &Machine, table: &Table, sample: &Sample) -> Result<ChosenSampler, Missing> {
    let lacking = || Missing::NotSupported(format!("{} is not here", sample.event));
    let event = table.event(&sample.event).ok_or_else(lacking)?;
    let standing = machine.standing(table, event);
    let Some((pmu, config)) = standing.here.into_iter().next() else {
        return Err(standing.why.into_iter().next().unwrap_or_else(lacking));
    };
    let note = sample.note.as_ref().map(|note| format!(": {note}"));
    Ok(ChosenSampler {
        name: format!(
            "{} ({}){}",
            event.name,
            table.family,
            note.unwrap_or_default()
        ),
        tapped: Tapped {
            pmu: pmu.name.clone(),
            kind: pmu.kind,
            config,
            period: sample.period,
            precise: sample.precise,
            data_source: sample.data_source,
        },
        bytes: u64::from(sample.bytes).saturating_mul(sample.period),
    })
}
