// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many limits at once.

use super::*;
use turns::{TEND_MOST, TEND_PART};

fn many(count: usize) -> (World, Vec<String>) {
    let fake = Fake::new();
    let names: Vec<String> = (0..count)
        .map(|n| format!("/w.slice/w{n:04}.service"))
        .collect();
    for name in &names {
        fake.cgroup(&name[1..], &[]);
    }
    let mut world = World::within(100, fake, |_| ());
    for name in &names {
        assert_eq!(world.limit(name, 0.5), OutcomeKind::Applied);
    }
    (world, names)
}

#[test]
fn the_journal_of_many_limits_is_not_rewritten_at_each_tick() {
    use std::os::unix::fs::MetadataExt;
    let (mut world, names) = many(300);
    let journal = world.fake.path("run/weir/journal.jsonl");
    let inode = || std::fs::metadata(&journal).unwrap().ino();
    world.tend();
    let before = inode();
    for _ in 0..20 {
        world.tend();
        assert_eq!(inode(), before);
    }
    // Killed: every limit that was set is in it.
    world.crash();
    let report = reset(&world.fake.roots()).unwrap();
    assert_eq!(report.restored.len(), names.len());
    for name in &names {
        let max = world.fake.read(format!("sys/fs/cgroup{name}/cpu.max"));
        assert_eq!(max, "max 100000");
    }
}

#[test]
fn all_limits_have_their_turn_and_at_most_tend_most_at_a_tick() {
    for (count, at_a_tick) in [
        (100, 100 / TEND_PART),
        (TEND_MOST * TEND_PART + 100, TEND_MOST),
    ] {
        let (mut world, names) = many(count);
        for name in &names {
            let max = format!("sys/fs/cgroup{name}/cpu.max");
            world.fake.write(max, "max 50000\n");
        }
        let ours = |world: &World| {
            let max = |name: &&String| world.fake.read(format!("sys/fs/cgroup{name}/cpu.max"));
            names.iter().filter(|n| max(n) == "10000 20000").count()
        };
        world.tend();
        assert_eq!(ours(&world), at_a_tick);
        for _ in 1..count.div_ceil(at_a_tick) {
            world.tend();
        }
        assert_eq!(ours(&world), count);
    }
}

#[test]
fn what_lowers_a_limit_is_done_before_what_raises_one() {
    use weir_core::seam::plan::ActionKind::{self, Release};
    use weir_core::seam::plan::Limit;
    let (world, names) = many(6);
    let cpus = |cpus: f64| {
        ActionKind::Limit(Limit::CpuTime {
            cpus: CpuShare::new(cpus),
        })
    };
    let kinds = [
        cpus(0.6),
        cpus(0.4),
        Release,
        cpus(0.5),
        cpus(0.7),
        cpus(0.1),
    ];
    let action = |(name, kind): (&String, weir_core::seam::plan::ActionKind)| weir_core::Action {
        workload: WorkloadId::new(name.as_str()),
        kind,
    };
    let plan = weir_core::Plan {
        actions: names.iter().zip(kinds).map(action).collect(),
        ..weir_core::Plan::default()
    };
    let order = crate::backends::cpu_max::write_order::in_order(&world.actuator, &plan, Nanos(0));
    let order: Vec<usize> = order.into_iter().map(|(_, _, i)| i).collect();
    assert_eq!(order, [1, 3, 5, 0, 2, 4]);
}
