// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `cpu.weight` of cgroups while they are limited.

use super::*;
use proptest::prelude::*;
use weir_core::seam::observation::LimitedWeight;

const FIO_DIR: &str = "sys/fs/cgroup/system.slice/fio.service";

impl World {
    fn weigh(&mut self, id: &str, ratio: f64) {
        let id = WorkloadId::new(id);
        self.actuator.weigh(&id, ratio, &mut self.context);
    }

    fn file(&self, name: &str) -> String {
        let text = self.fake.read(format!("{FIO_DIR}/{name}"));
        text.trim().to_owned()
    }

    fn set(&self, name: &str, text: &str) {
        self.fake.write(format!("{FIO_DIR}/{name}"), text);
    }

    fn seen(&self) -> Option<LimitedWeight> {
        let hold = self.actuator.holds.get(&WorkloadId::new(FIO)).unwrap();
        hold.weight.seen()
    }

    fn reset(&mut self) -> ResetReport {
        self.crash();
        reset(&self.fake.roots()).unwrap()
    }
}

fn left_alone(seen: Option<LimitedWeight>) -> String {
    match seen {
        Some(LimitedWeight::LeftAlone { why }) => why,
        other => panic!("{other:?} instead of left alone"),
    }
}

fn lowered(ratio: f64) -> Option<LimitedWeight> {
    Some(LimitedWeight::Lowered { ratio })
}

#[test]
fn a_weight_is_noted_lowered_and_put_back_with_the_limit() {
    let mut world = World::new(Fake::new());
    world.weigh(FIO, 0.25);
    assert_eq!(world.file("cpu.weight"), "100", "it has no limit");
    world.limit(FIO, 0.5);
    assert_eq!(world.seen(), None);
    world.weigh(FIO, 0.25);
    assert_eq!(world.file("cpu.weight"), "25");
    assert_eq!(world.seen(), lowered(0.25));
    let noted = world.journal().find("\"op\":\"weight\"");
    let wrote = world.journal().find("\"op\":\"weighed\"");
    assert!(noted.is_some() && noted < wrote, "{}", world.journal());
    world.weigh(FIO, 0.5);
    assert_eq!(world.file("cpu.weight"), "50", "of theirs, not of ours");
    world.weigh(FIO, 1.0);
    assert_eq!(
        (world.file("cpu.weight"), world.seen()),
        ("100".into(), None)
    );
    world.weigh(FIO, 0.3);
    assert_eq!(world.release(FIO), OutcomeKind::Applied);
    assert_eq!(world.file("cpu.weight"), "100");
    assert_eq!(world.release_all(), []);
    assert!(!world.fake.path("run/weir/journal.jsonl").exists());
}

#[test]
fn an_idle_cgroup_and_one_without_weight_are_left_alone() {
    for (name, text, why) in [
        ("cpu.idle", Some("1\n"), "cpu.idle is 1"),
        ("cpu.weight", Some("0\n"), "cpu.idle is 1"),
        ("cpu.weight", None, "no cpu.weight"),
        ("cpu.weight", Some("rubbish\n"), "cpu.weight"),
    ] {
        let mut world = World::new(Fake::new());
        match text {
            Some(text) => world.set(name, text),
            None => world.fake.remove(format!("{FIO_DIR}/{name}")),
        }
        assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Applied);
        world.weigh(FIO, 0.25);
        assert!(left_alone(world.seen()).contains(why), "{:?}", world.seen());
        let there = text.map(|text| text.trim().to_owned());
        if let Some(there) = &there {
            assert_eq!(&world.file(name), there);
        }
        assert!(!world.journal().contains("weigh"), "{}", world.journal());
        assert_eq!(world.release(FIO), OutcomeKind::Applied);
        if let Some(there) = &there {
            assert_eq!(&world.file(name), there, "after the release");
        }
    }
}

#[test]
fn what_others_set_meanwhile_stays() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    world.weigh(FIO, 0.25);
    world.set("cpu.weight", "300\n");
    world.tend();
    assert!(left_alone(world.seen()).contains("another program set weight 300"));
    world.weigh(FIO, 0.5);
    assert_eq!(world.file("cpu.weight"), "300");
    assert!(
        world.reset().left_alone.is_empty(),
        "nothing is owed any more"
    );
    assert_eq!(world.file("cpu.weight"), "300");
}

/// Nice 17 and 18 both read as weight 2; the kernel makes 18 of a written 2.
#[test]
fn a_nice_value_that_is_finer_than_a_weight_is_put_back_too() {
    for is_killed in [false, true] {
        let mut world = World::new(Fake::new());
        world.set("cpu.weight", "2\n");
        world.set("cpu.weight.nice", "17\n");
        world.limit(FIO, 0.5);
        world.weigh(FIO, 0.25);
        assert_eq!(world.file("cpu.weight"), "1");
        world.set("cpu.weight.nice", "18\n");
        if is_killed {
            assert_eq!(world.reset().restored, [WorkloadId::new(FIO)]);
        } else {
            world.release(FIO);
        }
        assert_eq!(world.file("cpu.weight"), "2");
        assert_eq!(world.file("cpu.weight.nice"), "17");
    }
}

#[test]
fn a_new_cgroup_of_the_old_name_keeps_its_weight() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    world.weigh(FIO, 0.25);
    std::fs::rename(world.fake.path(FIO_DIR), world.fake.path("old")).unwrap();
    world
        .fake
        .cgroup(&FIO_DIR["sys/fs/cgroup/".len()..], &[100]);
    world.set("cpu.weight", "25\n");
    assert_eq!(world.reset().vanished, [WorkloadId::new(FIO)]);
    assert_eq!(world.file("cpu.weight"), "25");
}

#[test]
fn a_weight_that_cannot_be_put_back_is_tried_again() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    world.weigh(FIO, 0.25);
    world.set("cpu.weight", "rubbish");
    assert!(matches!(world.release(FIO), OutcomeKind::Failed(_)));
    assert_eq!(world.reset().failed.len(), 1);
    world.set("cpu.weight", "25");
    let report = reset(&world.fake.roots()).unwrap();
    assert_eq!(report.restored, [WorkloadId::new(FIO)]);
    assert_eq!(world.file("cpu.weight"), "100");
}

#[test]
fn a_threaded_domain_is_weighed_as_it_is_limited() {
    let fake = Fake::new();
    let kind = |path: &str, kind: &str| {
        fake.write(
            format!("sys/fs/cgroup/{path}/cgroup.type"),
            format!("{kind}\n"),
        );
    };
    fake.cgroup("vm.scope/vcpu0", &[]);
    fake.cgroup("vm.scope", &[100]);
    kind("vm.scope", "domain threaded");
    kind("vm.scope/vcpu0", "threaded");
    let mut world = World::new(fake);
    assert_eq!(world.limit("/vm.scope", 0.5), OutcomeKind::Applied);
    world.weigh("/vm.scope", 0.25);
    let weight = |world: &World, path: &str| {
        let text = world.fake.read(format!("sys/fs/cgroup/{path}/cpu.weight"));
        text.trim().to_owned()
    };
    assert_eq!(weight(&world, "vm.scope"), "25");
    assert_eq!(weight(&world, "vm.scope/vcpu0"), "100");
    world.release("/vm.scope");
    assert_eq!(weight(&world, "vm.scope"), "100");
}

#[test]
fn excluded_workloads_keep_their_weight() {
    let mut world = World::new(Fake::new());
    world.fake.write("sys/fs/cgroup/cpu.weight", "100\n");
    for id in ["/", "/init.scope", "/weir.service", "/none"] {
        assert_ne!(world.limit(id, 0.5), OutcomeKind::Applied);
        world.weigh(id, 0.25);
    }
    for path in [
        "cpu.weight",
        "init.scope/cpu.weight",
        "weir.service/cpu.weight",
    ] {
        let text = world.fake.read(format!("sys/fs/cgroup/{path}"));
        assert_eq!(text.trim(), "100", "{path}");
    }
    assert!(!world.journal().contains("weigh"));
}

/// An idle cgroup reads as weight 1 and takes no other. Here that is the weight that weir had set.
#[test]
fn a_cgroup_made_idle_at_our_weight_is_left_alone() {
    for is_killed in [false, true] {
        let mut world = World::new(Fake::new());
        world.set("cpu.weight", "3");
        world.limit(FIO, 0.5);
        world.weigh(FIO, 0.1);
        assert_eq!(world.file("cpu.weight"), "1");
        world.set("cpu.idle", "1");
        if is_killed {
            drop(world.reset());
        } else {
            world.weigh(FIO, 0.9);
            assert!(left_alone(world.seen()).contains("cpu.idle"));
            world.release_all();
        }
        assert_eq!(world.file("cpu.weight"), "1", "killed: {is_killed}");
        assert!(!world.fake.path("run/weir/journal.jsonl").exists());
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Limit(f64),
    Weigh(f64),
    Release,
    Tend,
    /// Another program writes this weight.
    Others(u64),
    /// Another program makes it idle, or not idle.
    Idle(bool),
    Killed,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0.05f64..0.9).prop_map(Event::Limit),
        4 => (0.0f64..1.2).prop_map(Event::Weigh),
        1 => Just(Event::Release),
        1 => Just(Event::Tend),
        1 => (1000u64..10_000).prop_map(Event::Others),
        1 => any::<bool>().prop_map(Event::Idle),
        1 => Just(Event::Killed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In any order of events: at the end of weir the weight is the last that others set, and at no time has
    /// a cgroup without a limit of weir another.
    #[test]
    fn no_weight_is_left_behind(events in proptest::collection::vec(event(), 1..40), is_killed: bool) {
        let mut world = World::new(Fake::new());
        // Above 100, so that no part of it is a value that others set: those begin at 1000, and their parts
        // are compared.
        let mut theirs = "900".to_owned();
        world.set("cpu.weight", &theirs);
        world.set("cpu.idle", "0");
        for event in events {
            match event {
                Event::Limit(cpus) => drop(world.limit(FIO, cpus)),
                Event::Weigh(ratio) => world.weigh(FIO, ratio),
                Event::Release => drop(world.release(FIO)),
                Event::Tend => world.tend(),
                Event::Others(weight) => {
                    theirs = weight.to_string();
                    world.set("cpu.weight", &theirs);
                    world.set("cpu.idle", "0");
                }
                Event::Idle(is_idle) => {
                    // Linux 7.2 does it so: 1 while it is idle, the normal weight afterwards.
                    theirs = if is_idle { "1" } else { "100" }.to_owned();
                    world.set("cpu.weight", &theirs);
                    world.set("cpu.idle", if is_idle { "1" } else { "0" });
                }
                Event::Killed => drop(world.reset()),
            }
            if !world.actuator.is_holding() {
                prop_assert_eq!(&world.file("cpu.weight"), &theirs, "without a limit");
            }
        }
        if is_killed {
            drop(world.reset());
        } else {
            world.release_all();
        }
        prop_assert_eq!(&world.file("cpu.weight"), &theirs);
        prop_assert!(!world.fake.path("run/weir/journal.jsonl").exists());
    }
}
