// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::fake_perf::{FakePerf, Spot, rate};
use super::{roots, sapphire};
use crate::counters::windows::{Asked, WindowRecorder};
use crate::kernel::clock::made;
use std::collections::{BTreeMap, BTreeSet};
use weir_core::window::{Count, CountScope};
use weir_core::{Missing, Nanos, Role, Window};
use weir_events::{Config, tables_with_roles};

const SECOND: Nanos = Nanos::from_millis(1000);

fn role(text: &str) -> Role {
    text.parse().unwrap()
}

fn find<'a>(counts: &'a [Count], name: &str, of: CountScope) -> Option<&'a Count> {
    let mut found = counts.iter().filter(|c| c.role == role(name) && c.of == of);
    let first = found.next();
    assert!(found.next().is_none(), "{name} stands twice");
    first
}

/// Value, enabled and running time over windows, as a report sums them: windows in which another set had the
/// counters are in proportion to the others.
fn all_of(windows: &[Window], name: &str, of: CountScope) -> (f64, f64, f64) {
    let (mut value, mut counted, mut enabled, mut running) = (0.0, 0.0, 0.0, 0.0);
    for count in windows
        .iter()
        .filter_map(|window| find(&window.machine, name, of))
    {
        enabled += count.enabled_ns.0 as f64;
        running += count.running_ns.0 as f64;
        if let Ok(number) = &count.value {
            value += *number as f64;
            counted += count.enabled_ns.0 as f64;
        }
    }
    (value * enabled / counted, enabled, running)
}

fn cgroups(names: &[&str]) -> Asked {
    Asked::Cgroups(names.iter().map(|name| (*name).to_owned()).collect())
}

const FIO: &str = "system.slice/fio.service";
const STRESS: &str = "/sys/fs/cgroup/system.slice/stress.service";

#[test]
fn counts_of_turns_stand_for_the_whole_time() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let opened = WindowRecorder::open_with(&roots(&fake), Asked::Machine, Box::new(perf.clone()));
    let mut recorder = opened.unwrap();
    assert_eq!(recorder.family(), Some("sapphire-rapids"));
    assert_eq!(recorder.capacities()[&role("lfb.drd.any.occupancy")], 16);
    recorder.start().unwrap();
    let windows: Vec<Window> = (0..32)
        .map(|_| recorder.window(SECOND, &|| false))
        .collect();
    assert!(windows.windows(2).all(|pair| pair[0].to == pair[1].from));
    // A core's event of one set of sixteen, and the clock, which all sets have.
    let umask_3 = Config([0x0300_0347, 0, 0, 0]);
    for (name, config, part) in [
        ("l1d.drd.miss.stalls", umask_3, 1.0 / 16.0),
        ("core.any.any.clock", Config([0x3c, 0, 0, 0]), 1.0),
    ] {
        for socket in [0, 1] {
            let (value, enabled, running) = all_of(&windows, name, CountScope::Socket(socket));
            let seen = value / (enabled / 1e3);
            assert!((seen / rate(config) - 1.0).abs() < 0.01, "{name}: {seen}");
            assert!(
                (running / enabled / part - 1.0).abs() < 0.05,
                "{name}: {}",
                running / enabled
            );
        }
    }
    // A socket's: of the boxes of that socket in one sum.
    let inserts = Config([0x10c8_1782_0000_0135, 0, 0, 0]);
    let (value, enabled, _) = all_of(&windows, "tor.drd.cxl.inserts", CountScope::Socket(1));
    assert!((value / (enabled / 1e3) / rate(inserts) - 1.0).abs() < 0.01);
    assert!(
        (enabled / 1e9 - 4.0 * 32.0).abs() < 0.1,
        "four boxes: {enabled}"
    );
    assert!(
        find(
            &windows[0].machine,
            "port.reads.cxl.lines",
            CountScope::Port(1)
        )
        .is_some()
    );
    let places = [
        "port 0: uncore_cxlcm_0, socket 0",
        "port 1: uncore_cxlcm_1, socket 0",
    ];
    assert_eq!(recorder.places(), places);
    assert_eq!((recorder.never_ran(), recorder.unread()), (Vec::new(), 0));
}

/// Whatever counts at a place counts alone, and the boxes of a socket count different sets.
#[test]
fn one_set_counts_at_a_place_and_boxes_are_ahead_of_each_other() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let asked = cgroups(&[FIO, STRESS]);
    let opened = WindowRecorder::open_with(&roots(&fake), asked, Box::new(perf.clone()));
    let mut recorder = opened.unwrap();
    assert!(perf.counting().is_empty(), "not before it is started");
    recorder.start().unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..16 {
        let counting = perf.counting();
        let of_kind = |kind| counting.iter().filter(move |group| group.kind == kind);
        let cgroups: Vec<&Spot> = of_kind(4).map(|group| &group.spot).collect();
        assert_eq!(cgroups.len(), 4, "two cgroups on two CPUs: {cgroups:?}");
        let sets: BTreeSet<Vec<[u64; 4]>> = (40..44)
            .flat_map(of_kind)
            .map(|group| group.configs.iter().map(|config| config.0).collect())
            .collect();
        assert_eq!(sets.len(), 8, "four boxes on two sockets");
        seen.extend(of_kind(40).map(|group| group.configs.iter().map(|c| c.0).collect::<Vec<_>>()));
        let mut spots = BTreeMap::new();
        for group in counting.iter().filter(|group| group.kind != 4) {
            *spots.entry((group.kind, group.spot)).or_insert(0) += 1;
        }
        assert!(spots.values().all(|count| *count == 1), "{spots:?}");
        recorder.window(Nanos::from_millis(100), &|| false);
    }
    assert!(seen.len() > 1, "sets take turns");
}

#[test]
fn a_workload_has_its_own_counts_and_its_cpu_time() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let asked = cgroups(&[FIO, STRESS, "/system.slice/fio.service/"]);
    let mut recorder = WindowRecorder::open_with(&roots(&fake), asked, Box::new(perf)).unwrap();
    recorder.start().unwrap();
    let window = recorder.window(SECOND, &|| false);
    let ids: Vec<&str> = window.workloads.iter().map(|w| w.id.as_str()).collect();
    assert_eq!(
        ids,
        ["/system.slice/fio.service", "/system.slice/stress.service"]
    );
    let fio = &window.workloads[0].counts;
    for socket in [0, 1].map(CountScope::Socket) {
        let time = find(fio, "core.any.any.time-ns", socket).unwrap();
        let ns = *time.value.as_ref().unwrap() as f64;
        assert!((ns / 1e9 - 1.0).abs() < 0.01, "a CPU each");
    }
    assert!(
        find(fio, "core.any.any.clock", CountScope::All)
            .unwrap()
            .value
            .is_ok()
    );
    // Six of sixteen sets had no turn in the window: others had the counters, which is what that reason says.
    let without = fio
        .iter()
        .filter(|count| count.value == Err(Missing::NotYetRead));
    assert!(without.clone().count() > 0 && without.clone().all(|count| count.enabled_ns.0 > 0));
    assert!(
        window
            .machine
            .iter()
            .all(|count| count.role != role("core.any.any.clock"))
    );
    // What is not here has its reason in the first window, and there alone.
    let absent = find(&window.machine, "imc.any.any.clock", CountScope::All).unwrap();
    assert!(
        absent
            .value
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("no PMU uncore_imc_#")
    );
    let next = recorder.window(SECOND, &|| false);
    assert!(find(&next.machine, "imc.any.any.clock", CountScope::All).is_none());
}

#[test]
fn a_cgroup_that_goes_is_left_out_and_the_last_one_ends_the_recording() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let asked = cgroups(&[FIO, STRESS]);
    let opened = WindowRecorder::open_with(&roots(&fake), asked, Box::new(perf.clone()));
    let mut recorder = opened.unwrap();
    recorder.start().unwrap();
    recorder.window(SECOND, &|| false);
    fake.remove("sys/fs/cgroup/system.slice/fio.service");
    let last = recorder.window(SECOND, &|| false);
    assert_eq!(last.workloads.len(), 2, "what it still counted is kept");
    assert_eq!(recorder.gone(), ["/system.slice/fio.service"]);
    assert!(!recorder.is_over());
    fake.remove("sys/fs/cgroup/system.slice/stress.service");
    let cut = recorder.window(SECOND, &|| false);
    assert!(recorder.is_over() && cut.length().is_none_or(|length| length < SECOND));
}

#[test]
fn cpus_that_come_are_counted_and_those_that_go_are_closed() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let opened = WindowRecorder::open_with(&roots(&fake), Asked::Machine, Box::new(perf.clone()));
    let mut recorder = opened.unwrap();
    recorder.start().unwrap();
    let cpus = |perf: &FakePerf| -> Vec<Spot> {
        let mut spots: Vec<Spot> = perf
            .counting()
            .iter()
            .filter(|g| g.kind == 4)
            .map(|g| g.spot)
            .collect();
        spots.sort_unstable();
        spots
    };
    assert_eq!(cpus(&perf), [Spot::Cpu(0), Spot::Cpu(1)]);
    fake.write("sys/devices/system/cpu/online", "0,2\n");
    recorder.window(SECOND, &|| false);
    assert_eq!(cpus(&perf), [Spot::Cpu(0), Spot::Cpu(2)]);
    let of_one = |group: &super::fake_perf::Seen| group.kind == 4 && group.spot == Spot::Cpu(1);
    assert!(
        !perf
            .0
            .borrow()
            .groups
            .iter()
            .any(|group| of_one(group) && group.is_open)
    );
    let window = recorder.window(SECOND, &|| false);
    assert!(find(&window.machine, "core.any.any.clock", CountScope::Socket(0)).is_some());
}

#[test]
fn a_stop_ends_the_window_and_what_had_no_turn_is_said() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let mut recorder =
        WindowRecorder::open_with(&roots(&fake), Asked::Machine, Box::new(perf)).unwrap();
    recorder.start().unwrap();
    let window = recorder.window(SECOND, &|| true);
    assert!(window.length().unwrap() < Nanos::from_millis(100));
    let never = recorder.never_ran();
    assert_eq!(never.len(), 1);
    assert!(
        never[0].why.to_string().contains("record for longer"),
        "{:?}",
        never[0].why
    );
    assert!(!never[0].roles.contains(&role("core.any.any.clock")));
}

/// Another user of perf holds the counters: the sets have turns and do not run.
#[test]
fn counters_that_others_hold_are_said() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    perf.0.borrow_mut().running = Box::new(|group| if group.kind == 4 { 0.0 } else { 1.0 });
    let mut recorder =
        WindowRecorder::open_with(&roots(&fake), Asked::Machine, Box::new(perf)).unwrap();
    recorder.start().unwrap();
    let windows: Vec<Window> = (0..3).map(|_| recorder.window(SECOND, &|| false)).collect();
    let clock = find(
        &windows[2].machine,
        "core.any.any.clock",
        CountScope::Socket(0),
    )
    .unwrap();
    assert_eq!(
        (&clock.value, clock.running_ns.0),
        (&Err(Missing::NotYetRead), 0)
    );
    assert!(clock.enabled_ns.0 > 0);
    let never = recorder.never_ran();
    assert!(
        never[0].why.to_string().contains("held by others"),
        "{never:?}"
    );
    assert!(never[0].roles.contains(&role("core.any.any.clock")));
}

#[test]
fn a_line_that_all_want_takes_the_occupancies_away() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    perf.0.borrow_mut().factor = Box::new(|group| if group.kind == 42 { 5.0 } else { 1.0 });
    let mut recorder =
        WindowRecorder::open_with(&roots(&fake), Asked::Machine, Box::new(perf)).unwrap();
    recorder.start().unwrap();
    let windows: Vec<Window> = (0..4).map(|_| recorder.window(SECOND, &|| false)).collect();
    let of = CountScope::Socket(0);
    let held = find(&windows[3].machine, "tor.drd.cxl.occupancy", of).unwrap();
    let why = held.value.as_ref().unwrap_err().to_string();
    assert!(why.contains("5.0 times as many"), "{why}");
    assert!(
        find(&windows[3].machine, "tor.any.any.clock", of)
            .unwrap()
            .value
            .is_ok()
    );
}

/// Every role of the family stands in the first window once, with a value or with its reason.
#[test]
fn each_role_is_counted_or_absent() {
    let (_clock, fake, perf) = (made::clock(), sapphire(), FakePerf::new());
    let mut recorder =
        WindowRecorder::open_with(&roots(&fake), cgroups(&[FIO]), Box::new(perf)).unwrap();
    recorder.start().unwrap();
    let window = recorder.window(SECOND, &|| false);
    let counts = window.machine.iter().chain(&window.workloads[0].counts);
    let found: BTreeSet<Role> = counts.map(|count| count.role).collect();
    let mut tables = tables_with_roles().iter();
    let table = tables
        .find(|table| table.family == "sapphire-rapids")
        .unwrap();
    let missing: Vec<&str> = table
        .role
        .iter()
        .map(|role| role.name.as_str())
        .filter(|name| !found.contains(&role(name)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
