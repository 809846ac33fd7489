// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sampling program in the kernel (`bpf/probes/samples.bpf.c`), and an event on each CPU that runs it.

use super::super::Key;
use super::intf::{self, SampleCounts};
use crate::counters::pmu::{Tap, Tapped};
use crate::inventory::numa::online;
use crate::kernel::bpf::{self, BpfValue};
use crate::kernel::clock::now;
use crate::kernel::skeletons::samples::types::{memory_range, sample_stats};
use crate::kernel::skeletons::samples::{SamplesSkel, SamplesSkelBuilder};
use crate::options::{By, Roots};
use crate::workloads::cgroups::walk::Delegated;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use weir_core::{Missing, Nanos};

/// How often it is checked which CPUs came or went.
const CPUS_EVERY: Nanos = Nanos::from_millis(1000);

/// The program, in the kernel as long as this lives.
pub(super) struct SamplingProgram {
    // The order matters: events first, so that no event counts into maps that go.
    taps: BTreeMap<u32, Tap>,
    skel: SamplesSkel<'static>,
    tapped: Tapped,
    roots: Roots,
    on: bool,
    cpus_at: Nanos,
}

impl SamplingProgram {
    /// Loads it; nothing is sampled yet.
    ///
    /// # Errors
    /// The kernel refuses the program or the event.
    pub(super) fn load(roots: &Roots, by: By, tapped: Tapped) -> Result<SamplingProgram, Missing> {
        bpf::quiet();
        let mut program = SamplingProgram {
            taps: BTreeMap::new(),
            skel: open(by).map_err(|e| refused(&e))?,
            tapped,
            roots: roots.clone(),
            on: false,
            cpus_at: now(),
        };
        for cpu in online(roots)? {
            program.tap(cpu)?;
        }
        Ok(program)
    }

    fn tap(&mut self, cpu: u32) -> Result<(), Missing> {
        let program: RawFd = self.skel.progs.weir_sample_memory.as_fd().as_raw_fd();
        let mut tap = Tap::open(&self.tapped, cpu, Some(program))?;
        if self.on {
            let failed = |e| Missing::Lost(format!("CPU {cpu}: {e}"));
            tap.switch(true).map_err(failed)?;
        }
        self.taps.insert(cpu, tap);
        Ok(())
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn switch(&mut self, on: bool) {
        self.on = on;
        for (cpu, tap) in &mut self.taps {
            if let Err(why) = tap.switch(on) {
                tracing::warn!(cpu, on, %why, "sampling is not switched");
            }
        }
    }

    /// What runs below these cgroups counts for them.
    pub(super) fn follow_delegated(&mut self, delegated: &Delegated) {
        let maps = &mut self.skel.maps;
        if let Some(bss) = &mut maps.bss_data {
            bpf::follow_delegated!(maps.delegated_cgroups, bss, delegated);
        }
    }

    /// Where memory is that samples are taken of.
    pub(super) fn watch(&mut self, ranges: &[memory_range]) -> Result<(), Missing> {
        let (key, all) = (0u32.to_ne_bytes(), intf::all(ranges));
        let memory = &self.skel.maps.device_memory;
        let done = memory.update(&key, all.as_bytes(), MapFlags::ANY);
        done.map_err(|e| unread(&e))
    }

    /// CPUs that came and went since the last check. How often the kernel throttled samples.
    pub(super) fn tend(&mut self) -> u64 {
        let times = self.taps.values_mut().map(Tap::throttled).sum();
        let at = now();
        if at.0.saturating_sub(self.cpus_at.0) < CPUS_EVERY.0 {
            return times;
        }
        self.cpus_at = at;
        let Ok(there) = online(&self.roots) else {
            return times;
        };
        let there: BTreeSet<u32> = there.into_iter().collect();
        self.taps.retain(|cpu, _| there.contains(cpu));
        for cpu in there {
            if !self.taps.contains_key(&cpu)
                && let Err(why) = self.tap(cpu)
            {
                tracing::warn!(cpu, %why, "its tasks are not sampled");
            }
        }
        times
    }

    /// Samples of a cgroup or a process so far, by place; one without samples has zeros.
    pub(super) fn taken(&self, key: Key) -> Result<SampleCounts, Missing> {
        let key = key.0.to_ne_bytes();
        let rows = self
            .skel
            .maps
            .sample_counts
            .lookup_percpu(&key, MapFlags::ANY);
        let rows = rows.map_err(|e| unread(&e))?.unwrap_or_default();
        Ok(intf::taken(&rows))
    }

    /// What became of all samples so far.
    pub(super) fn fate(&self) -> sample_stats {
        let fates = &self.skel.maps.sample_stats;
        let rows = fates.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        intf::fate(&rows.ok().flatten().unwrap_or_default())
    }

    /// Frees what is kept of others than these.
    pub(super) fn forget(&self, is_there: &dyn Fn(Key) -> bool) {
        let key = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
        let samples = &self.skel.maps.sample_counts;
        let all: Vec<u64> = samples.keys().map(|bytes| key(&bytes)).collect();
        for key in all.into_iter().filter(|key| !is_there(Key(*key))) {
            // Not there is as good.
            let _ = samples.delete(&key.to_ne_bytes());
        }
    }
}

fn open(by: By) -> Result<SamplesSkel<'static>, libbpf_rs::Error> {
    let mut opened = bpf::open::<SamplesSkelBuilder>()?;
    if let Some(set) = &mut opened.maps.rodata_data {
        set.by_process = u64::from(by == By::Process);
    }
    opened.load()
}

fn refused(error: &libbpf_rs::Error) -> Missing {
    bpf::refused("the sampling program", error)
}

fn unread(error: &libbpf_rs::Error) -> Missing {
    Missing::Lost(format!("samples: {error}"))
}
