// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recorder where a program of the kernel adds up by cgroup.

use super::fake_perf::{FakePerf, Spot, rate};
use super::{roots, sapphire};
use crate::counters::windows::{Asked, WindowRecorder};
use crate::fake::Fake;
use crate::kernel::clock::made;
use weir_core::window::role::Quantity;
use weir_core::window::{CountScope, WorkloadCounts};
use weir_core::{Nanos, Window};
use weir_events::Config;

const SECOND: Nanos = Nanos::from_millis(1000);
const CLOCK: Config = Config([0x3c, 0, 0, 0]);

fn recorder(fake: &Fake, perf: &FakePerf, names: &[&str], parts: &[f64]) -> WindowRecorder {
    perf.0.borrow_mut().parts = parts.to_vec();
    for name in names {
        fake.write(format!("sys/fs/cgroup/{name}/cgroup.procs"), "");
    }
    let asked = Asked::Cgroups(names.iter().map(|name| (*name).to_owned()).collect());
    WindowRecorder::open_with(&roots(fake), asked, Box::new(perf.clone())).unwrap()
}

fn value(workload: &WorkloadCounts, name: &str) -> f64 {
    let role = name.parse().unwrap();
    let counts = workload.counts.iter().filter(|count| count.role == role);
    let values: Vec<f64> = counts
        .map(|count| *count.value.as_ref().unwrap() as f64)
        .collect();
    assert!(!values.is_empty(), "{name}");
    values.iter().sum()
}

/// Clocks and CPU time of each workload, over windows.
fn sums(windows: &[Window], names: &[&str]) -> Vec<(f64, f64)> {
    let sum = |name: &&str| {
        let of = windows.iter().flat_map(|window| {
            let mut all = window.workloads.iter();
            all.find(|workload| workload.id.as_str() == format!("/{name}"))
        });
        of.fold((0.0, 0.0), |(clock, time), workload| {
            let more = value(workload, "core.any.any.clock");
            (clock + more, time + value(workload, "core.any.any.time-ns"))
        })
    };
    names.iter().map(sum).collect()
}

#[test]
fn each_cpu_has_the_events_once_however_many_cgroups_there_are() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let names = ["a.slice", "b.slice", "c.slice"];
    let mut recorder = recorder(&fake, &perf, &names, &[0.5, 0.25, 0.0]);
    let spots = |kind: u32| -> Vec<Spot> {
        let world = perf.0.borrow();
        let open = world.groups.iter().filter(|group| group.is_open);
        open.filter(|group| group.kind == kind)
            .map(|group| group.spot)
            .collect()
    };
    let cpus = |cpu| {
        spots(4)
            .iter()
            .filter(|spot| **spot == Spot::Cpu(cpu))
            .count()
    };
    assert_eq!((cpus(0), cpus(1)), (16, 16), "sets of a core");
    assert_eq!(spots(4).len(), 32);
    recorder.start().unwrap();
    let windows: Vec<Window> = (0..8).map(|_| recorder.window(SECOND, &|| false)).collect();
    let seen = sums(&windows, &names);
    for ((clock, time), part) in seen.iter().zip([0.5, 0.25, 0.0]) {
        // Two CPUs for eight seconds; the clock is in each set.
        let us = 16e6 * part;
        assert!((time / 1e3 - us).abs() < 1e4, "{time}");
        assert!(
            (clock - us * rate(CLOCK)).abs() < 1e4 * rate(CLOCK),
            "{clock}"
        );
    }
    assert_eq!((recorder.unread(), recorder.events_apart()), (0, None));
}

/// CPU time of the first workload by socket, in two windows of a second, in hundredths of it.
fn times_by_socket(recorder: &mut WindowRecorder) -> Vec<(CountScope, u64)> {
    recorder.start().unwrap();
    let windows = [0, 1].map(|_| recorder.window(SECOND, &|| false));
    let counts = windows
        .iter()
        .flat_map(|window| &window.workloads[0].counts);
    let times = counts.filter(|count| count.role.quantity == Quantity::TimeNs);
    let parts = times.map(|time| {
        let ns = time.value.clone().unwrap();
        (time.of, (ns + 5_000_000) / 10_000_000)
    });
    parts.collect()
}

#[test]
fn cpu_time_is_known_by_socket() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    perf.0.borrow_mut().second_socket = 0.25;
    let mut by_program = recorder(&fake, &perf, &["a.slice"], &[0.4]);
    let expected = [(0, 40), (1, 10)].map(|(socket, part)| (CountScope::Socket(socket), part));
    assert_eq!(
        times_by_socket(&mut by_program),
        [expected, expected].concat()
    );
    // One that does not run yet has a time on each, so that later windows fit.
    let mut idle = recorder(&fake, &FakePerf::new(), &["a.slice"], &[0.0]);
    let expected = [0, 1].map(|socket| (CountScope::Socket(socket), 0));
    assert_eq!(times_by_socket(&mut idle), [expected, expected].concat());
    let mut by_events = recorder(&fake, &FakePerf::new(), &["a.slice"], &[]);
    let expected = [0, 1].map(|socket| (CountScope::Socket(socket), 100));
    assert_eq!(
        times_by_socket(&mut by_events),
        [expected, expected].concat()
    );
    // A machine with one socket has one sum.
    fake.write(
        "sys/devices/system/cpu/cpu1/topology/physical_package_id",
        "0\n",
    );
    let mut single = recorder(&fake, &FakePerf::new(), &["a.slice"], &[]);
    assert_eq!(times_by_socket(&mut single), [(CountScope::All, 200); 2]);
    assert!(single.sockets().is_empty());
}

#[test]
fn a_cgroup_has_the_counts_of_those_below_it() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let names = ["a.slice", "a.slice/b.scope", "ab.slice"];
    let mut recorder = recorder(&fake, &perf, &names, &[0.5, 0.25, 0.125]);
    recorder.start().unwrap();
    let windows = [recorder.window(SECOND, &|| false)];
    let times: Vec<f64> = sums(&windows, &names)
        .iter()
        .map(|sum| sum.1 / 2e9)
        .collect();
    for (time, part) in times.iter().zip([0.75, 0.25, 0.125]) {
        assert!((time - part).abs() < 0.01, "{times:?}");
    }
}

#[test]
fn runs_that_the_program_cannot_count_are_said() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let mut recorder = recorder(&fake, &perf, &["a.slice"], &[1.0]);
    recorder.start().unwrap();
    perf.0.borrow_mut().lost = 3;
    recorder.window(SECOND, &|| false);
    recorder.window(SECOND, &|| false);
    assert_eq!(recorder.unread(), 3);
}

/// Some kernels do not take the program, and some users lack the right to load it.
#[test]
fn without_the_program_each_cgroup_has_events_of_its_own() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    perf.0.borrow_mut().is_unattached = true;
    let names = ["a.slice", "b.slice"];
    let mut recorder = recorder(&fake, &perf, &names, &[0.5, 0.5]);
    recorder.start().unwrap();
    let why = recorder.events_apart().unwrap().to_string();
    assert!(why.contains("CAP_PERFMON"), "{why}");
    let counting = perf.counting();
    let of_cgroups = counting
        .iter()
        .filter(|group| matches!(group.spot, Spot::Cgroup(_)));
    assert_eq!(of_cgroups.count(), 4, "two cgroups on two CPUs");
    let windows = [recorder.window(SECOND, &|| false)];
    for (_, time) in sums(&windows, &names) {
        assert!((time / 2e9 - 1.0).abs() < 0.01, "{time}");
    }
}
