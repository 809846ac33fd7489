// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How old cached facts are, as a round of discovery shows it.

use crate::fake::{Fake, stat_line};
use crate::kernel::fd_budget::{Budget, Rank};
use crate::workloads::discovery::tests::{FIO, SECOND, bytes, discovery_with, watched};
use std::sync::Arc;
use weir_core::{Nanos, WorkloadId};

/// Two seconds for the processes of a cgroup, six for its weight and limit; a new workload at once.
#[test]
fn facts_of_a_cgroup_are_kept_for_their_time_and_no_longer() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, false, &[]).for_limits(true);
    let mut at = |seconds: u64| {
        let view = discovery.round(Nanos((100 + seconds) * SECOND));
        let fio = watched(&view, FIO);
        let limit = fio.limit.and_then(|max| max.cpus());
        (bytes(fio), fio.weight, limit, view.workloads.len())
    };
    let there = vec![Some(64 << 20)];
    assert_eq!(at(0), (there.clone(), 100.0, None, 4));
    fake.write(format!("sys/fs/cgroup{FIO}/cpu.weight"), "300\n");
    fake.write(format!("sys/fs/cgroup{FIO}/cpu.max"), "50000 100000\n");
    fake.process(102, "new", "/system.slice/new.service", 4002);
    fake.cgroup("system.slice/new.service", &[102]);
    fake.remove("proc/100");
    assert_eq!(at(1), (there, 100.0, None, 5));
    assert_eq!(at(2), (vec![], 100.0, None, 5));
    assert_eq!(at(4), (vec![], 100.0, None, 5));
    assert_eq!(at(6), (vec![], 300.0, Some(0.5), 5));
}

#[test]
fn weights_are_read_seldom_where_weir_only_observes() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, false, &[]);
    let mut weight_at = |seconds: u64| {
        let view = discovery.round(Nanos((100 + seconds) * SECOND));
        watched(&view, FIO).weight
    };
    assert_eq!(weight_at(0), 100.0);
    fake.write(format!("sys/fs/cgroup{FIO}/cpu.weight"), "300\n");
    assert_eq!((weight_at(28), weight_at(30)), (100.0, 300.0));
}

/// Lists after 2, 4 and then 6 seconds as long as nothing changes; after 2 again once something has.
#[test]
fn settled_cgroups_are_read_seldom_where_weir_only_observes() {
    let new = "/system.slice/new.service";
    let read_at = |is_for_limits: bool| -> Vec<u64> {
        let fake = Fake::new();
        let stat = |faults: u32| {
            let stat = stat_line(100, "fio", 0, 4000, 1);
            fake.write(
                "proc/100/stat",
                stat.replacen(" 0 0 0 0 ", &format!(" {faults} 0 0 0 "), 1),
            );
        };
        let mut discovery = discovery_with(&fake, false, &[]).for_limits(is_for_limits);
        let mut read = Vec::new();
        for second in 0..40 {
            match second {
                // Between the lists of 12 and 18 s.
                15 => stat(7),
                29 => {
                    fake.process(102, "new", new, 4002);
                    fake.cgroup(&new[1..], &[102]);
                }
                _ => {}
            }
            let view = discovery.round(Nanos((100 + second) * SECOND));
            let at = watched(&view, FIO).processes.as_ref().unwrap().at;
            if at == Nanos((100 + second) * SECOND) {
                read.push(second);
            }
            assert_eq!(
                view.get(&WorkloadId::new(new)).is_some(),
                second >= 29,
                "at once"
            );
        }
        read
    };
    assert_eq!(read_at(false), [0, 2, 6, 12, 18, 20, 24, 30, 36]);
    assert_eq!(read_at(true), (0..40).step_by(2).collect::<Vec<u64>>());
}

/// The list and the processes' files are opened once, and read where they are from then on.
#[test]
fn files_of_what_is_settled_stay_open_while_there_is_room() {
    for (room, is_seen) in [(100, true), (0, false)] {
        let fake = Fake::new();
        let budget = Budget::new(room);
        let mut discovery = discovery_with(&fake, false, &[]).keeping(Arc::clone(&budget));
        let mut read_at = |seconds: u64| {
            let view = discovery.round(Nanos((100 + seconds) * SECOND));
            watched(&view, FIO).processes.as_ref().map(|p| p.at)
        };
        read_at(0);
        assert_eq!(read_at(2), Some(Nanos(102 * SECOND)));
        fake.remove(format!("sys/fs/cgroup{FIO}/cgroup.procs"));
        fake.remove("proc/100/stat");
        assert_eq!(read_at(6), is_seen.then_some(Nanos(106 * SECOND)));
    }
}

#[test]
fn kept_files_are_given_back_and_a_weir_that_limits_keeps_none() {
    for is_for_limits in [true, false] {
        let fake = Fake::new();
        // Each of four cgroups has its list and its process read.
        let budget = Budget::new(8);
        let has_room = || budget.has_room(Rank::EachTick);
        let discovery = discovery_with(&fake, false, &[]).for_limits(is_for_limits);
        let mut discovery = discovery.keeping(Arc::clone(&budget));
        for seconds in [0, 2, 6] {
            discovery.round(Nanos((100 + seconds) * SECOND));
        }
        assert_eq!(has_room(), is_for_limits);
        fake.remove("proc/101");
        fake.remove("sys/fs/cgroup/system.slice/stress.service");
        discovery.round(Nanos(200 * SECOND));
        assert!(has_room());
    }
}

/// Six seconds for the page cache; half a minute where there is no such file.
#[test]
fn page_cache_is_read_every_six_seconds() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, false, &[]);
    let mut mib_at = |seconds: u64| {
        let view = discovery.round(Nanos((100 + seconds) * SECOND));
        bytes(watched(&view, FIO))[0].unwrap() >> 20
    };
    let cached = |mib: u64| {
        let text = format!("file N1={}\n", mib << 20);
        fake.write(format!("sys/fs/cgroup{FIO}/memory.numa_stat"), text);
    };
    assert_eq!(mib_at(0), 64);
    cached(3);
    assert_eq!(
        [2, 4, 28].map(&mut mib_at),
        [64; 3],
        "there was no such file"
    );
    assert_eq!(mib_at(30), 67);
    cached(5);
    assert_eq!([32, 34, 36, 38].map(mib_at), [67, 67, 69, 69]);
}
