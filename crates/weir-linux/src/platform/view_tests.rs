// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the platform tells discovery, and what comes of it.

use super::LinuxPlatform;
use crate::fake::Fake;
use crate::options::{By, Options};
use weir_core::Bytes;
use weir_core::seam::observation::{Excluded, Observation, WorkloadReading};
use weir_core::seam::platform::Platform;

const SLICE: &str = "sys/fs/cgroup/system.slice";

fn open(fake: &Fake, read_only: bool) -> LinuxPlatform {
    let options = Options {
        read_only,
        ..fake.options(By::Cgroup)
    };
    LinuxPlatform::open_inline(options).unwrap()
}

fn workload<'a>(seen: &'a Observation, name: &str) -> &'a WorkloadReading {
    let id = format!("/system.slice/{name}.service");
    let found = seen.workloads.iter().find(|w| w.id.as_str() == id);
    found.unwrap_or_else(|| panic!("{id} in {seen:?}"))
}

/// The tick that sees it orders the search, and the view of the next one has its owner.
#[test]
fn page_cache_that_comes_has_its_owner_a_tick_later() {
    let fake = Fake::new();
    let cached = |mib: u64| {
        let meminfo = "sys/devices/system/node/node1/meminfo";
        let kib = (64 + mib) * 1024;
        let text = format!("Node 1 AnonPages: 0 kB\nNode 1 FilePages: {kib} kB\n");
        fake.write(meminfo, text);
        let text = format!("anon N1=0\nfile N1={}\nfile_mapped N1=0\n", mib << 20);
        fake.write(format!("{SLICE}/stress.service/memory.numa_stat"), text);
    };
    cached(0);
    let mut platform = open(&fake, true);
    let mut look = || {
        let seen = platform.observe().unwrap();
        let unowned = seen.unowned_memory.iter().map(|of| of.bytes.0 >> 20);
        (unowned.sum::<u64>(), seen)
    };
    assert_eq!(look().0, 0);
    cached(200);
    assert_eq!(look().0, 200);
    let (unowned, seen) = look();
    assert_eq!(unowned, 0);
    let uses = &workload(&seen, "stress").uses;
    assert_eq!(uses[0].resident_bytes.ok(), Some(&Bytes(200 << 20)));
}

/// It is taken off the goal, and other users are not held back in its place.
#[test]
fn a_cgroup_without_cpu_max_is_excluded_where_that_is_what_limits() {
    let fake = Fake::new();
    fake.write(format!("{SLICE}/cgroup.subtree_control"), "pids\n");
    let excluded = |read_only| {
        let seen = open(&fake, read_only).observe().unwrap();
        workload(&seen, "fio").excluded.clone()
    };
    assert_eq!(excluded(false), None);
    fake.remove(format!("{SLICE}/fio.service/cpu.max"));
    let Some(Excluded::NoCpuMax(why)) = excluded(false) else {
        panic!("it cannot be limited")
    };
    let end = "the cpu controller ends at /system.slice,";
    assert!(why.contains(end), "{why}");
    assert_eq!(excluded(true), None, "nothing is limited");
}
