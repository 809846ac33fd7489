// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that adds counts of sets to the cgroup that runs (`bpf/probes/set_counts.bpf.c`): loaded,
//! read, and gone with this process.

use crate::counters::pmu::Counted;
use crate::inventory::cpu_topology::socket;
use crate::kernel::bpf::{self, BpfValue, bpf_values};
use crate::kernel::skeletons::set_counts::types::{set_cpu_ctx, set_sum, set_sum_key};
use crate::kernel::skeletons::set_counts::{
    MAX_SET_CGROUPS, MAX_SET_EVENTS, MAX_SETS, SetCountsSkel, SetCountsSkelBuilder,
};
use crate::options::Roots;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, MapCore, MapFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::RawFd;
use weir_core::Missing;

bpf_values!(set_cpu_ctx, set_sum, set_sum_key);

/// Events of a set, at most.
pub(super) const SET_EVENTS_MAX: usize = MAX_SET_EVENTS as usize;

/// Counts on the CPUs of each socket.
pub(crate) type BySocket = BTreeMap<u32, Counted>;

/// Adds up by cgroup what the sets of a lane count on each CPU for all tasks.
pub(crate) trait CgroupCounter {
    /// Counts for this cgroup and those below it that are not counted themselves. Before any set counts.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn count_for(&mut self, cgroup: u64) -> Result<(), Missing>;

    /// Watches switches from now on; no cgroup is added any more.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn attach(&mut self) -> Result<(), Missing>;

    /// Reads these events as a set of a CPU. They stay open as long as the caller has them open.
    ///
    /// # Errors
    /// The kernel refuses it, or the set is too large.
    fn read_on(&mut self, cpu: u32, set: usize, events: &[RawFd]) -> Result<(), Missing>;

    /// From now on any set may count, until [`CgroupCounter::turn`] says which.
    fn begin_turn(&mut self);

    fn turn(&mut self, set: usize);

    /// Lets CPUs that run a cgroup add up to now. Gives the number of runs that could not be counted since
    /// the last call.
    fn count_now(&mut self) -> u64;

    /// What a set has counted for a cgroup so far.
    ///
    /// # Errors
    /// The kernel does not say.
    fn sum(&mut self, cgroup: u64, set: usize) -> Result<BySocket, Missing>;
}

/// The program, in the kernel as long as this lives.
pub(crate) struct CgroupCounterBpf {
    // The order matters: the link first, so that no program counts into maps that go.
    link: Option<Link>,
    skel: SetCountsSkel<'static>,
    cpus: BTreeSet<u32>,
    /// The socket of each CPU, indexed by the CPU's number.
    sockets: Vec<u32>,
    lost: u64,
}

impl CgroupCounterBpf {
    /// Loads it. It counts for no cgroup yet.
    ///
    /// # Errors
    /// The kernel refuses it, or has no tree of cgroups or no types.
    pub(crate) fn load(roots: &Roots) -> Result<CgroupCounterBpf, Missing> {
        bpf::has_types(roots)?;
        bpf::is_cgroup2(roots)?;
        bpf::quiet();
        let cpu_count = libbpf_rs::num_possible_cpus().map_err(|e| refused(&e))?;
        let skel = open(cpu_count).map_err(|e| refused(&e))?;
        Ok(CgroupCounterBpf {
            link: None,
            skel,
            cpus: BTreeSet::new(),
            sockets: (0..u32::try_from(cpu_count).unwrap_or(u32::MAX))
                .map(|cpu| socket(roots, cpu).unwrap_or(0))
                .collect(),
            lost: 0,
        })
    }

    fn say(&mut self, set: u32) {
        if let Some(shared) = &mut self.skel.maps.bss_data {
            shared.counting_set = set;
        }
    }

    /// Lets a CPU add up to now. One that went offline has nothing to say.
    fn count_on(&self, cpu: u32) {
        if let Err(why) = bpf::run_on(&self.skel.progs.weir_set_now, cpu) {
            tracing::trace!(cpu, %why, "not brought up to now");
        }
    }

    fn cpu_ctxs(&self) -> Vec<set_cpu_ctx> {
        let key = 0u32.to_ne_bytes();
        let ctxs = &self.skel.maps.set_cpu_ctxs;
        let rows = ctxs.lookup_percpu(&key, MapFlags::ANY).ok().flatten();
        let rows = rows.unwrap_or_default();
        rows.iter()
            .map(|row| set_cpu_ctx::from_bytes(row))
            .collect()
    }
}

fn open(cpu_count: usize) -> Result<SetCountsSkel<'static>, libbpf_rs::Error> {
    let mut opened = bpf::open::<SetCountsSkelBuilder>()?;
    let places = cpu_count.saturating_mul((MAX_SETS * MAX_SET_EVENTS) as usize);
    let places = u32::try_from(places).unwrap_or(u32::MAX);
    opened.maps.set_events.set_max_entries(places)?;
    opened.load()
}

impl CgroupCounter for CgroupCounterBpf {
    fn count_for(&mut self, cgroup: u64) -> Result<(), Missing> {
        let map = &self.skel.maps.counted_cgroups;
        map.update(&cgroup.to_ne_bytes(), &1u64.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Missing::NotSupported(format!("{MAX_SET_CGROUPS} cgroups at most: {e}")))
    }

    fn attach(&mut self) -> Result<(), Missing> {
        let link = self.skel.progs.weir_set_switch.attach();
        self.link = Some(link.map_err(|e| refused(&e))?);
        Ok(())
    }

    fn read_on(&mut self, cpu: u32, set: usize, events: &[RawFd]) -> Result<(), Missing> {
        let (sets, sizes) = (MAX_SETS as usize, MAX_SET_EVENTS as usize);
        if set >= sets || events.len() > sizes {
            let why = format!("more than {sets} sets, or than {sizes} events in one");
            return Err(Missing::NotSupported(why));
        }
        for (number, fd) in events.iter().enumerate() {
            let place = (cpu as usize * sets + set) * sizes + number;
            let key = u32::try_from(place).unwrap_or(u32::MAX).to_ne_bytes();
            let map = &self.skel.maps.set_events;
            map.update(&key, &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| refused(&e))?;
        }
        if let Some(shared) = &mut self.skel.maps.bss_data {
            shared.set_sizes[set] = u32::try_from(events.len()).unwrap_or(u32::MAX);
        }
        if self.cpus.insert(cpu) {
            // The cgroup that it runs.
            self.count_on(cpu);
        }
        Ok(())
    }

    fn begin_turn(&mut self) {
        self.say(MAX_SETS as u32);
    }

    fn turn(&mut self, set: usize) {
        self.say(u32::try_from(set).unwrap_or(u32::MAX));
    }

    fn count_now(&mut self) -> u64 {
        let ctxs = self.cpu_ctxs();
        let runs_one = |cpu: &u32| ctxs.get(*cpu as usize).is_some_and(|ctx| ctx.owner != 0);
        for cpu in self.cpus.iter().filter(|cpu| runs_one(cpu)) {
            self.count_on(*cpu);
        }
        let lost: u64 = ctxs.iter().map(|ctx| ctx.lost).sum();
        let more = lost.saturating_sub(self.lost);
        self.lost = lost;
        more
    }

    fn sum(&mut self, cgroup: u64, set: usize) -> Result<BySocket, Missing> {
        let key = set_sum_key {
            cgroup,
            set: set as u64,
        };
        let sums = &self.skel.maps.set_sums;
        let found = sums.lookup_percpu(key.as_bytes(), MapFlags::ANY);
        let rows = found.map_err(|e| Missing::Lost(format!("counts of a cgroup: {e}")))?;
        let mut all = BySocket::new();
        for (row, socket) in rows.unwrap_or_default().iter().zip(&self.sockets) {
            let sum = set_sum::from_bytes(row);
            let total = all.entry(*socket).or_insert_with(|| Counted {
                counts: vec![0; MAX_SET_EVENTS as usize],
                ..Counted::default()
            });
            for (total, more) in total.counts.iter_mut().zip(sum.counts) {
                *total = total.wrapping_add(more);
            }
            total.enabled_ns = total.enabled_ns.wrapping_add(sum.enabled_ns);
            total.running_ns = total.running_ns.wrapping_add(sum.running_ns);
        }
        Ok(all)
    }
}

fn refused(error: &libbpf_rs::Error) -> Missing {
    bpf::refused("the program that counts by cgroup", error)
}
