// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::fake_perf::{FakePerf, Spot};
use super::{roots, sapphire};
use crate::counters::pmu::PerfScope;
use crate::counters::windows::{Asked, RecordError, WindowRecorder};
use crate::fake::Fake;
use crate::kernel::clock::made;
use weir_core::Nanos;
use weir_core::window::CountScope;

fn opened(fake: &Fake, asked: Asked, perf: FakePerf) -> Result<WindowRecorder, RecordError> {
    WindowRecorder::open_with(&roots(fake), asked, Box::new(perf))
}

fn said(fake: &Fake, asked: Asked, perf: FakePerf) -> String {
    opened(fake, asked, perf).err().unwrap().to_string()
}

fn cgroup(name: &str) -> Asked {
    Asked::Cgroups(vec![name.to_owned()])
}

#[test]
fn a_machine_without_a_pmu_is_refused_by_name() {
    let fake = Fake::new();
    fake.write(
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n",
    );
    fake.write("sys/bus/event_source/devices/software/type", "1\n");
    let why = said(&fake, Asked::Machine, FakePerf::new());
    assert!(
        why.contains("nothing can be counted here: not supported: no PMU"),
        "{why}"
    );
    assert!(why.contains("`weir events`"), "{why}");
    let other = Fake::new();
    other.write(
        "proc/cpuinfo",
        "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n",
    );
    other.write("sys/bus/event_source/devices/cpu/type", "4\n");
    let why = said(&other, Asked::Machine, FakePerf::new());
    assert!(why.contains("nothing can be counted here"), "{why}");
}

#[test]
fn rights_that_lack_are_said_with_what_gives_them() {
    let denied = || FakePerf::refusing(|_| Some(libc::EACCES));
    let why = said(&sapphire(), Asked::Machine, denied());
    assert!(why.contains("not permitted: perf_event_open on"), "{why}");
    // What lacks depends on whether this test is root, and is said once.
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(
        why.matches("run weir as root").count(),
        usize::from(!is_root),
        "{why}"
    );
}

#[test]
fn an_event_that_the_kernel_refuses_takes_its_roles_and_no_others() {
    let _clock = made::clock();
    let fake = sapphire();
    let perf = FakePerf::refusing(|request| {
        let is_stores = request
            .configs
            .iter()
            .any(|config| config.0[0] == 0x0200_40a6);
        is_stores.then_some(libc::ENOENT)
    });
    let recorder = opened(&fake, Asked::Machine, perf).unwrap();
    let groups = recorder.not_counted();
    let mut named = groups
        .iter()
        .filter(|group| group.roles.contains(&"sb.any.any.stalls".parse().unwrap()));
    let group = named.next().unwrap();
    assert_eq!(group.roles.len(), 1, "{group:?}");
    assert!(
        group
            .why
            .to_string()
            .contains("perf_event_open on cpu, CPU 0"),
        "{group:?}"
    );
}

/// Events that the kernel takes alone and not together: the set is left out, and its roles are named.
#[test]
fn a_set_that_the_kernel_refuses_is_left_out() {
    let _clock = made::clock();
    let fake = sapphire();
    let perf = FakePerf::refusing(|request| {
        let has = |code| request.configs.iter().any(|config| config.0[0] == code);
        (request.configs.len() > 1 && has(0x0300_0347)).then_some(libc::EINVAL)
    });
    let mut recorder = opened(&fake, Asked::Machine, perf).unwrap();
    recorder.start().unwrap();
    let window = recorder.window(Nanos::from_millis(2000), &|| false);
    let of = |name: &str| {
        let role = name.parse().unwrap();
        let mut found = window
            .machine
            .iter()
            .filter(move |count| count.role == role);
        found.next().unwrap().clone()
    };
    let lost = of("l1d.drd.miss.stalls");
    assert_eq!((lost.of, lost.enabled_ns), (CountScope::All, Nanos(0)));
    assert!(
        lost.value
            .unwrap_err()
            .to_string()
            .contains("Invalid argument")
    );
    assert!(
        of("core.any.any.clock").value.is_ok(),
        "other sets have it too"
    );
    assert!(of("lfb.drd.any.occupancy").value.is_ok());
}

#[test]
fn what_is_asked_for_and_not_there_is_named() {
    let fake = sapphire();
    let why = said(&fake, cgroup("system.slice/fio"), FakePerf::new());
    assert!(
        why.contains("\"system.slice/fio\"") && why.contains("there is fio.service"),
        "{why}"
    );
    for name in ["", "/", "../etc", "a//b"] {
        let why = said(&fake, cgroup(name), FakePerf::new());
        assert!(
            why.contains("system.slice/db.service is wanted"),
            "{name}: {why}"
        );
    }
    let why = said(&fake, Asked::Process(u32::MAX), FakePerf::new());
    assert!(why.contains("there is no process"), "{why}");
}

#[test]
fn a_process_is_counted_by_its_threads() {
    let _clock = made::clock();
    let fake = sapphire();
    let pid = std::process::id();
    fake.write(format!("proc/{pid}/comm"), "weir test\n");
    for tid in [pid, 77_777] {
        fake.write(format!("proc/{pid}/task/{tid}/comm"), "x\n");
    }
    // One thread ended between the list and its events.
    let perf = FakePerf::refusing(|request| match request.on {
        PerfScope::Task { tid: 77_777, .. } => Some(libc::ESRCH),
        _ => None,
    });
    let mut recorder = opened(&fake, Asked::Process(pid), perf.clone()).unwrap();
    recorder.start().unwrap();
    let own = Spot::Task(i32::try_from(pid).unwrap());
    let counting = perf.counting();
    let tasks: Vec<Spot> = counting
        .iter()
        .filter(|g| g.kind == 4)
        .map(|g| g.spot)
        .collect();
    assert_eq!(tasks, [own]);
    let window = recorder.window(Nanos::from_millis(300), &|| false);
    assert_eq!(window.workloads[0].id.as_str(), format!("weir test-{pid}"));
}

#[test]
fn want_of_descriptors_is_no_fault_of_an_event() {
    let _clock = made::clock();
    let fake = sapphire();
    let perf = FakePerf::refusing(|request| {
        let is_cgroup = matches!(request.on, PerfScope::Cgroup(..));
        is_cgroup.then_some(libc::EMFILE)
    });
    let why = said(&fake, cgroup("system.slice/fio.service"), perf);
    assert!(
        why.contains("cannot count /system.slice/fio.service"),
        "{why}"
    );
    assert!(why.contains("Too many open files"), "{why}");
}

#[test]
fn a_tree_without_perf_events_is_said_with_what_gives_them() {
    let _clock = made::clock();
    let perf = FakePerf::refusing(|request| {
        let is_cgroup = matches!(request.on, PerfScope::Cgroup(..));
        is_cgroup.then_some(libc::EBADF)
    });
    let why = said(&sapphire(), cgroup("system.slice/fio.service"), perf);
    assert!(
        why.contains("cannot count /system.slice/fio.service"),
        "{why}"
    );
    assert!(why.contains("cgroup_no_v1=perf_event"), "{why}");
}
