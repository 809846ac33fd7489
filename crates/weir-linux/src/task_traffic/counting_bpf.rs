// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counting program in the kernel (`bpf/probes/task_counts.bpf.c`): loaded, read, and gone with this
//! process.

use super::core_events::ChosenEvents;
use super::counting_intf::{COUNTED, Sum};
use super::{Key, TrafficSource};
use crate::counters::pmu::Set;
use crate::inventory::numa::online;
use crate::kernel::bpf::{self, BpfValue};
use crate::kernel::clock::now;
use crate::kernel::skeletons::task_counts::types::{cpu_state, event_counts};
use crate::kernel::skeletons::task_counts::{TaskCountsSkel, TaskCountsSkelBuilder};
use crate::options::{By, Roots};
use crate::workloads::cgroups::walk::Delegated;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, RawFd};
use weir_core::seam::topology::TaskEvent;
use weir_core::{Missing, Nanos};
use weir_events::Config;

/// How often it is checked which CPUs came online.
const CPUS_EVERY: Nanos = Nanos::from_millis(1000);

/// The program, in the kernel as long as this lives.
pub(crate) struct CountingBpf {
    // The order matters: the link first, so that no program counts into maps that go.
    _link: Link,
    skel: TaskCountsSkel<'static>,
    roots: Roots,
    chosen: ChosenEvents,
    cpus: BTreeSet<u32>,
    cpus_at: Nanos,
    lost: u64,
}

/// What of it could be counted here, as far as can be said without loading the program: reads alone, if
/// stores cannot be counted beside them. Its name then says which.
pub(crate) fn openable(roots: &Roots, mut chosen: ChosenEvents) -> Result<ChosenEvents, Missing> {
    bpf::has_types(roots)?;
    let first = online(roots).ok().and_then(|cpus| cpus.first().copied());
    let first = first.unwrap_or(0);
    let open = |configs: &[Config]| Set::open_raw(&chosen.pmu, chosen.kind, first, configs);
    let Some(stores) = &chosen.stores else {
        return open(&chosen.configs).map(|_| chosen);
    };
    match open(&chosen.all()) {
        Ok(_) => chosen.name = format!("{}, stores by {}", chosen.name, stores.name),
        Err(why) => {
            open(&chosen.configs)?;
            let note = format!(
                "stores not distinguished from loads ({}: {why})",
                stores.name
            );
            chosen.name = format!("{}, {note}", chosen.name);
            chosen.stores = None;
        }
    }
    Ok(chosen)
}

impl CountingBpf {
    /// Loads it; it counts from then on.
    ///
    /// # Errors
    /// The kernel refuses the program or the events.
    pub(crate) fn load(
        roots: &Roots,
        by: By,
        chosen: ChosenEvents,
    ) -> Result<CountingBpf, Missing> {
        bpf::quiet();
        let cpu_count = libbpf_rs::num_possible_cpus().map_err(|e| refused(&e))?;
        let skel = open(by, cpu_count, chosen.all().len()).map_err(|e| refused(&e))?;
        let mut cpus = BTreeSet::new();
        for cpu in online(roots)? {
            count_on(&skel, &chosen, cpu)?;
            cpus.insert(cpu);
        }
        let link = skel.progs.weir_count_switch.attach();
        let mut kernel = CountingBpf {
            _link: link.map_err(|e| refused(&e))?,
            skel,
            roots: roots.clone(),
            chosen,
            cpus,
            cpus_at: now(),
            lost: 0,
        };
        // Records the task that each CPU runs now, and from which count on.
        kernel.count_now(|_| true);
        Ok(kernel)
    }

    /// Lets CPUs count up to now. One that went offline meanwhile has nothing to say.
    fn count_now(&mut self, is_meant: impl Fn(u32) -> bool) {
        for cpu in self.cpus.iter().copied().filter(|cpu| is_meant(*cpu)) {
            // The program that makes a CPU count up to now.
            if let Err(why) = bpf::run_on(&self.skel.progs.weir_count_now, cpu) {
                tracing::trace!(cpu, %why, "not brought up to now");
            }
        }
    }

    /// CPUs that came online since the last check.
    fn follow_cpus(&mut self) {
        let at = now();
        if at.0.saturating_sub(self.cpus_at.0) < CPUS_EVERY.0 {
            return;
        }
        self.cpus_at = at;
        let Ok(there) = online(&self.roots) else {
            return;
        };
        let there: BTreeSet<u32> = there.into_iter().collect();
        for cpu in there.difference(&self.cpus) {
            if let Err(why) = count_on(&self.skel, &self.chosen, *cpu) {
                tracing::warn!(cpu, %why, "its tasks are not counted");
            }
        }
        self.cpus = there;
    }
}

impl TrafficSource for CountingBpf {
    fn name(&self) -> &str {
        &self.chosen.name
    }

    fn events(&self) -> Vec<TaskEvent> {
        let event = |counts_stores| {
            move |bytes_per_count| TaskEvent {
                bytes_per_count,
                counts_stores,
            }
        };
        let reads = self.chosen.bytes.iter().copied().map(event(false));
        let stores = self.chosen.stores.iter().map(|stores| stores.bytes);
        reads.chain(stores.map(event(true))).collect()
    }

    fn follow_delegated(&mut self, delegated: &Delegated) {
        let maps = &mut self.skel.maps;
        if let Some(bss) = &mut maps.bss_data {
            bpf::follow_delegated!(maps.delegated_cgroups, bss, delegated);
        }
    }

    fn refresh(&mut self, keys: &BTreeSet<Key>) -> u64 {
        self.follow_cpus();
        let key = 0u32.to_ne_bytes();
        let rows = self.skel.maps.cpu_states.lookup_percpu(&key, MapFlags::ANY);
        let rows = rows.ok().flatten().unwrap_or_default();
        let cpu_states: Vec<cpu_state> =
            rows.iter().map(|row| cpu_state::from_bytes(row)).collect();
        self.count_now(|cpu| {
            let state = cpu_states.get(cpu as usize).copied().unwrap_or_default();
            keys.contains(&Key(state.key))
        });
        let lost: u64 = cpu_states.iter().map(|state| state.lost).sum();
        let more = lost.saturating_sub(self.lost);
        self.lost = lost;
        more
    }

    fn of_cgroup(&mut self, id: Key) -> Result<Sum, Missing> {
        let cgroups = &self.skel.maps.cgroup_counts;
        let found = cgroups.lookup_percpu(&id.0.to_ne_bytes(), MapFlags::ANY);
        let rows = found.map_err(|e| unread(&e))?.unwrap_or_default();
        let sums = rows.iter().map(|row| event_counts::from_bytes(row).into());
        Ok(sums.fold(Sum::default(), Sum::plus))
    }

    fn of_process(&mut self, id: Key) -> Result<Sum, Missing> {
        let pid = i32::try_from(id.0).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Missing::Lost("no process id".into()))?;
        let fd = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|e| Missing::Lost(format!("process {}: {e}", id.0)))?;
        let key: RawFd = fd.as_raw_fd();
        let processes = &self.skel.maps.process_counts;
        match processes.lookup(&key.to_ne_bytes(), MapFlags::ANY) {
            Ok(row) => Ok(event_counts::from_bytes(&row.unwrap_or_default()).into()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Sum::default()),
            Err(e) => Err(unread(&e)),
        }
    }

    fn forget(&mut self, is_there: &dyn Fn(Key) -> bool) {
        let key = |bytes: &Vec<u8>| bytes.as_slice().try_into().map_or(0, u64::from_ne_bytes);
        let cgroups = &self.skel.maps.cgroup_counts;
        let gone: Vec<u64> = cgroups.keys().map(|bytes| key(&bytes)).collect();
        for key in gone.into_iter().filter(|key| !is_there(Key(*key))) {
            // Not there is as good.
            let _ = cgroups.delete(&key.to_ne_bytes());
        }
    }
}

fn open(
    by: By,
    cpu_count: usize,
    event_count: usize,
) -> Result<TaskCountsSkel<'static>, libbpf_rs::Error> {
    let mut opened = bpf::open::<TaskCountsSkelBuilder>()?;
    let places = u32::try_from(cpu_count.saturating_mul(COUNTED)).unwrap_or(u32::MAX);
    opened.maps.cpu_events.set_max_entries(places)?;
    if let Some(set) = &mut opened.maps.rodata_data {
        set.event_count = event_count as u64;
        set.by_process = u64::from(by == By::Process);
    }
    opened.load()
}

/// Opens the events on a CPU and gives them to the program, which keeps them open.
fn count_on(skel: &TaskCountsSkel<'_>, chosen: &ChosenEvents, cpu: u32) -> Result<(), Missing> {
    let set = Set::open_raw(&chosen.pmu, chosen.kind, cpu, &chosen.all())?;
    for (place, fd) in set.descriptors().enumerate() {
        let place = cpu as usize * COUNTED + place;
        let key = u32::try_from(place).unwrap_or(u32::MAX).to_ne_bytes();
        let map = &skel.maps.cpu_events;
        map.update(&key, &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| refused(&e))?;
    }
    Ok(())
}

fn refused(error: &libbpf_rs::Error) -> Missing {
    bpf::refused("the counting program", error)
}

fn unread(error: &libbpf_rs::Error) -> Missing {
    Missing::Lost(format!("counts of tasks: {error}"))
}
