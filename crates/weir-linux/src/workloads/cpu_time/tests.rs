// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::kernel::clock::made;
use crate::options::By;
use crate::platform::LinuxPlatform;
use weir_core::seam::plan::{Action, ActionKind, Limit, Plan};
use weir_core::{CpuShare, Observation, Platform};

const STRESS: &str = "/system.slice/stress.service";
const FIO: &str = "/system.slice/fio.service";

fn cpu(seen: &Observation, id: &str) -> (Nanos, Nanos) {
    let found = seen.workloads.iter().find(|w| w.id.as_str() == id);
    let reading = &found.unwrap().cpu_ns;
    (reading.at, *reading.ok().unwrap())
}

fn uses(seen: &Observation, id: &str) -> usize {
    let found = seen.workloads.iter().find(|w| w.id.as_str() == id);
    found.unwrap().uses.len()
}

fn set_cpu(fake: &Fake, id: &str, usec: u64) {
    fake.write(
        format!("sys/fs/cgroup{id}/cpu.stat"),
        format!("usage_usec {usec}\n"),
    );
}

/// The next tick, at which every cgroup has used so much.
fn observe(fake: &Fake, platform: &mut LinuxPlatform, usec: u64) -> Observation {
    for id in [FIO, STRESS] {
        set_cpu(fake, id, usec);
    }
    platform.observe().unwrap()
}

fn open(fake: &Fake, by: By) -> LinuxPlatform {
    LinuxPlatform::open_inline(fake.options(by)).unwrap()
}

#[test]
fn workloads_without_memory_there_rest_and_others_are_read_at_each_tick() {
    let clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    for tick in 1..=u64::from(REST_AFTER) {
        let seen = observe(&fake, &mut platform, tick);
        assert_eq!(
            cpu(&seen, STRESS).1,
            Nanos(tick * 1000),
            "not yet at {tick}"
        );
    }
    let last = u64::from(REST_AFTER) * 1000;
    let seen = observe(&fake, &mut platform, 77);
    assert_eq!(cpu(&seen, FIO).1, Nanos(77_000));
    let (at, value) = cpu(&seen, STRESS);
    assert_eq!(
        value,
        Nanos(last),
        "it rests, and its reading says from when it is"
    );
    assert!(at < cpu(&seen, FIO).0 && at < seen.at);
    clock.advance(REST);
    let seen = observe(&fake, &mut platform, 78);
    assert_eq!(
        cpu(&seen, STRESS).1,
        Nanos(78_000),
        "after a second it is read again"
    );
}

#[test]
fn memory_counts_from_the_second_read_after_a_rest_on() {
    let clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    for tick in 0..=u64::from(REST_AFTER) + 1 {
        observe(&fake, &mut platform, tick);
    }
    // Memory appears, and discovery finds it in a round of its own. A process is scanned again after a
    // second and a half at the earliest.
    fake.numa_maps(101, &[("anon=4", 1, 4)]);
    let mut before = observe(&fake, &mut platform, 100);
    for _ in 0..1000 {
        let seen = observe(&fake, &mut platform, 101);
        if uses(&seen, STRESS) > 0 {
            let (earlier, now) = (cpu(&before, STRESS), cpu(&seen, STRESS));
            assert!(
                earlier.0 > before.workloads[0].cpu_ns.at,
                "read at the tick before, too"
            );
            assert_eq!((earlier.1, now.1), (Nanos(101_000), Nanos(101_000)));
            assert!(now.0 > earlier.0);
            return;
        }
        before = seen;
        clock.advance(Nanos::from_millis(10));
    }
    panic!("discovery never found it");
}

#[test]
fn a_limit_of_ours_and_an_unreadable_file_keep_awake() {
    let _clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    let workload = WorkloadId::new(STRESS);
    let cpus = CpuShare::new(0.5);
    let kind = ActionKind::Limit(Limit::CpuTime { cpus });
    let actions = vec![Action { workload, kind }];
    platform.apply(&Plan {
        actions,
        ..Plan::default()
    });
    fake.write("sys/fs/cgroup/init.scope/cpu.stat", "usage_usec x\n");
    for tick in 0..3 * u64::from(REST_AFTER) {
        let seen = observe(&fake, &mut platform, tick);
        assert_eq!(cpu(&seen, STRESS).1, Nanos(tick * 1000));
        assert_eq!(seen.skipped.len(), 1, "{:?}", seen.skipped);
    }
}

#[test]
fn a_new_view_knows_which_workloads_rest() {
    let clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    for tick in 0..=u64::from(REST_AFTER) {
        observe(&fake, &mut platform, tick);
    }
    fake.cgroup("a.service", &[]);
    let mut tick = 1000;
    loop {
        tick += 1;
        let seen = observe(&fake, &mut platform, tick);
        if seen.workloads.iter().any(|w| w.id.as_str() == "/a.service") {
            assert!(
                platform
                    .workloads
                    .idle_skips
                    .of
                    .iter()
                    .any(|rest| rest.idle_reads >= REST_AFTER)
            );
            assert_eq!(platform.workloads.idle_skips.of.len(), seen.workloads.len());
            return;
        }
        assert!(tick < 3000, "discovery never found it");
        clock.advance(Nanos::from_millis(2));
    }
}

/// Ticks at which no workload has run and the device has moved nothing, until all that may rest do.
fn be_still(fake: &Fake, platform: &mut LinuxPlatform) {
    for _ in 0..REST_AFTER + 3 {
        observe(fake, platform, 5);
    }
}

#[test]
fn a_workload_that_does_not_run_rests_while_the_device_is_quiet() {
    let clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    be_still(&fake, &mut platform);
    let seen = observe(&fake, &mut platform, 6);
    let (at, value) = cpu(&seen, FIO);
    assert_eq!(value, Nanos(5000), "not read at this tick");
    assert!(at < seen.groups[0].read_bytes.at);
    assert_eq!(uses(&seen, FIO), 1, "its memory is shown all the same");
    clock.advance(REST);
    let seen = observe(&fake, &mut platform, 6);
    assert_eq!(cpu(&seen, FIO).1, Nanos(6000), "read again within a second");
    assert_eq!(uses(&seen, FIO), 1);
    let seen = observe(&fake, &mut platform, 7);
    assert_eq!(cpu(&seen, FIO).1, Nanos(7000), "it runs: read at each tick");
}

#[test]
fn all_are_read_at_the_very_tick_at_which_the_device_moves() {
    let _clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    be_still(&fake, &mut platform);
    fake.counters(0, &[(1, 1000 + (1 << 20), 2000)]);
    let seen = observe(&fake, &mut platform, 9);
    assert_eq!(cpu(&seen, FIO).1, Nanos(9000));
    assert_eq!(uses(&seen, FIO), 1);
}

#[test]
fn a_workload_that_runs_is_read_at_each_tick_on_a_quiet_device() {
    let _clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    for tick in 0..3 * u64::from(REST_AFTER) {
        let seen = observe(&fake, &mut platform, tick);
        assert_eq!(cpu(&seen, FIO).1, Nanos(tick * 1000));
    }
}

#[test]
fn a_limited_workload_is_read_at_each_tick_on_a_quiet_device() {
    let _clock = made::clock();
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    be_still(&fake, &mut platform);
    platform.apply(&Plan {
        actions: vec![Action {
            workload: WorkloadId::new(FIO),
            kind: ActionKind::Limit(Limit::CpuTime {
                cpus: CpuShare::new(0.5),
            }),
        }],
        ..Plan::default()
    });
    for tick in 10..40 {
        let seen = observe(&fake, &mut platform, tick);
        assert_eq!(cpu(&seen, FIO).1, Nanos(tick * 1000));
    }
}
