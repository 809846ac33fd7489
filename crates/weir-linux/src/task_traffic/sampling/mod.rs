// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attribution by samples: an event of each CPU interrupts every so many times, and the kernel gives the
//! physical address. A BPF program counts the samples within the memory of groups, for the task that ran, by
//! group ([`program`]).
//!
//! ```text
//! event ─► sample with address ─► in a group's memory? ─► sums of cgroups or processes, by group ─► ledger
//! plan: how near overload ─► on or off
//! ```
//!
//! Samples cost an interrupt each, so they are taken only while a device carries a good part of its set-point
//! (or has none). While they are off, the last known shares hold for a while, and then nothing is known.

mod events;
mod intf;
mod memory;
mod program;
mod totals;

use super::counting_intf::Sum;
use super::{ByGroup, Key, TrafficSource};
use crate::counters::pmu::{Machine, Tap};
use crate::inventory::numa::online;
use crate::kernel::bpf::has_types;
use crate::kernel::clock::now;
use crate::kernel::privilege::next_move;
use crate::kernel::skeletons::samples::types::sample_stats;
use crate::options::{Options, Roots};
use crate::workloads::cgroups::walk::Delegated;
use events::ChosenSampler;
use program::SamplingProgram;
use std::collections::BTreeSet;
use totals::SampleTotals;
use weir_core::seam::observation::Skipped;
use weir_core::seam::plan::DeviceState;
use weir_core::seam::topology::{Fact, Group, TaskEvent};
use weir_core::{GroupId, Missing, Nanos};

const FACT: &str = "attribution.sampling";
/// Samples are taken from this part of a set-point on. Far below it no workload is limited, and no share
/// decides anything.
const NEAR_RATIO: f64 = 0.5;
/// Samples are not taken any more after no device has been near for so long.
const OFF_AFTER: Nanos = Nanos::from_millis(2000);
/// Shares are believed for so long after the last sample.
const HELD: Nanos = Nanos::from_millis(10_000);
/// The first Linux that has the sample ready when the program runs.
const KERNEL: (u32, u32) = (6, 3);

/// The program, and what came of it.
pub(super) struct Samples {
    program: SamplingProgram,
    ledger: SampleTotals,
    chosen: ChosenSampler,
    roots: Roots,
    groups: Vec<Group>,
    /// Why no sample is attributed.
    trouble: Option<Missing>,
    near_at: Nanos,
    off_at: Nanos,
    seen: sample_stats,
    throttled: u64,
}

/// Whether samples could be had here, and of what.
fn found(options: &Options) -> Result<ChosenSampler, Missing> {
    let roots = &options.roots;
    let machine = Machine::probe(roots);
    let chosen = match &options.attribution_event {
        Some(name) => events::named(&machine, name)?,
        None => events::best(&machine)?,
    };
    has_types(roots)?;
    let release = std::fs::read_to_string(roots.proc.join("sys/kernel/osrelease"));
    if let Some(version) = release.ok().and_then(|text| version(&text))
        && version < KERNEL
    {
        return Err(Missing::NotSupported(format!(
            "Linux {}.{} does not show programs the address of a sample: use {}.{} or newer",
            version.0, version.1, KERNEL.0, KERNEL.1
        )));
    }
    let first = online(roots).ok().and_then(|cpus| cpus.first().copied());
    Tap::open(&chosen.tapped, first.unwrap_or(0), None)?;
    Ok(chosen)
}

/// `6.18.5-cloud` is 6.18.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

pub(super) fn fact(options: &Options) -> Fact {
    let can = |chosen: ChosenSampler| {
        format!(
            "can be used (--attribution sampling): {}; not chosen automatically",
            chosen.name
        )
    };
    let value = found(options).map(can);
    let is_refused = matches!(value, Err(Missing::NotPermitted(_)));
    Fact {
        name: FACT.into(),
        value,
        next_move: is_refused.then(|| next_move(&options.roots)),
    }
}

/// Whether a device moves enough to make attribution worth its cost.
fn is_near(devices: &[DeviceState]) -> bool {
    let near = |device: &DeviceState| {
        let rates = device.read_bytes_per_sec.zip(device.write_bytes_per_sec);
        match (rates, device.set_point_bytes_per_sec) {
            (Some((read, write)), Some(set_point)) => {
                read.get() + write.get() >= NEAR_RATIO * set_point.get()
            }
            // Its set-point or its rate is not known.
            _ => true,
        }
    };
    devices.is_empty() || devices.iter().any(near)
}

impl Samples {
    /// Begins to sample.
    ///
    /// # Errors
    /// It cannot be had.
    pub(super) fn open(options: &Options) -> Result<Samples, Missing> {
        let chosen = found(options)?;
        let mut program = SamplingProgram::load(&options.roots, options.by, chosen.tapped.clone())?;
        program.switch(true);
        Ok(Samples {
            program,
            ledger: SampleTotals::new(chosen.bytes),
            chosen,
            roots: options.roots.clone(),
            groups: Vec::new(),
            trouble: Some(Missing::NotYetRead),
            near_at: now(),
            off_at: Nanos(0),
            seen: sample_stats::default(),
            throttled: 0,
        })
    }

    /// Finds the groups' memory and gives it to the program.
    fn watch(&mut self) {
        let ranges = memory::ranges(&self.roots, &self.groups);
        let watched = ranges.and_then(|ranges| {
            self.program.watch(&ranges)?;
            if ranges.is_empty() {
                Err(Missing::NotSupported(
                    "no memory of a device is online as a node".into(),
                ))
            } else {
                Ok(())
            }
        });
        self.trouble = watched.err();
    }

    /// How long ago samples were switched off.
    fn age(&self) -> Option<Nanos> {
        let age = now().0.saturating_sub(self.off_at.0);
        (!self.program.is_on()).then_some(Nanos(age))
    }
}

fn note(why: Missing) -> Skipped {
    Skipped {
        what: "samples".into(),
        why,
    }
}

impl TrafficSource for Samples {
    fn name(&self) -> &str {
        &self.chosen.name
    }

    fn events(&self) -> Vec<TaskEvent> {
        // Samples are by group.
        Vec::new()
    }

    fn place(&mut self, groups: &[Group]) {
        // Sums are kept by a group's place in the list: where one has another, they begin anew.
        let ids = |groups: &[Group]| -> Vec<GroupId> { groups.iter().map(|g| g.id).collect() };
        if !ids(groups).starts_with(&ids(&self.groups)) {
            self.ledger = SampleTotals::new(self.chosen.bytes);
        }
        self.groups = groups.to_vec();
        self.watch();
    }

    fn on_plan(&mut self, devices: &[DeviceState]) {
        let at = now();
        if is_near(devices) {
            self.near_at = at;
            if !self.program.is_on() {
                self.program.switch(true);
            }
        } else if self.program.is_on() && at.0.saturating_sub(self.near_at.0) >= OFF_AFTER.0 {
            self.program.switch(false);
            self.off_at = at;
        }
    }

    fn follow_delegated(&mut self, delegated: &Delegated) {
        self.program.follow_delegated(delegated);
    }

    fn refresh(&mut self, _: &BTreeSet<Key>) -> u64 {
        self.throttled = self.program.tend();
        let fate = self.program.fate();
        let lost = fate.lost.saturating_sub(self.seen.lost);
        self.seen = fate;
        lost
    }

    fn by_group(&mut self, key: Key) -> Option<ByGroup> {
        if let Some(why) = &self.trouble {
            return Some(Err(why.clone()));
        }
        let taken = match self.program.taken(key) {
            Ok(taken) => taken,
            Err(why) => return Some(Err(why)),
        };
        let counted = match self.age() {
            None => Ok(self.ledger.add(key, &taken)),
            Some(age) if age.0 <= HELD.0 => self.ledger.hold(key, &taken),
            Some(_) => {
                self.ledger.skip(key, &taken);
                Err(Missing::NotYetRead)
            }
        };
        let by_group = |sums: [u64; intf::PLACES]| {
            let ids = self.groups.iter().map(|group| group.id);
            ids.zip(sums).collect()
        };
        Some(counted.map(by_group))
    }

    fn of_cgroup(&mut self, _: Key) -> Result<Sum, Missing> {
        // Counts are by group.
        Err(Missing::NotYetRead)
    }

    fn of_process(&mut self, _: Key) -> Result<Sum, Missing> {
        Err(Missing::NotYetRead)
    }

    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool) {
        self.program.forget(is_there);
        self.ledger.forget(is_there);
        // Memory may have come or gone.
        self.watch();
    }

    fn notes(&self) -> Vec<Skipped> {
        let mut notes = Vec::new();
        notes.extend(self.trouble.clone().map(note));
        if let Some(age) = self.age() {
            let sec = age.0 / 1_000_000_000;
            let held = if age.0 <= HELD.0 {
                "shares are of before"
            } else {
                "shares are by CPU time and memory"
            };
            let why = format!("off for {sec} s, as no device is near its set-point: {held}");
            notes.push(note(Missing::NotSupported(why)));
        }
        if self.throttled > 0 {
            let why = format!("the kernel held them back {} times", self.throttled);
            notes.push(note(Missing::Lost(why)));
        }
        let seen = self.seen;
        let others = seen.without_address + seen.elsewhere + seen.from_cache;
        if seen.counted == 0 && others > 0 {
            let why = format!(
                "none of {others} was of a device: {} elsewhere, {} without an address, {} from a cache",
                seen.elsewhere, seen.without_address, seen.from_cache
            );
            notes.push(note(Missing::NotSupported(why)));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
