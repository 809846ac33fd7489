// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, stat_line};
use crate::options::By;
use crate::workloads::discovery::WorkloadSource;
use weir_core::CpuShare;
use weir_core::seam::conformance;
use weir_core::seam::observation::WorkloadReading;
use weir_core::seam::observation::{Excluded, LimitedWeight};
use weir_core::seam::plan::{ActionKind, Limit, WeightChange};
use weir_core::{Action, Bytes};

const FIO: &str = "/system.slice/fio.service";
const FIO_DIR: &str = "sys/fs/cgroup/system.slice/fio.service";

fn open(fake: &Fake, by: By) -> LinuxPlatform {
    LinuxPlatform::open_inline(fake.options(by)).unwrap()
}

fn workload<'a>(seen: &'a Observation, id: &str) -> &'a WorkloadReading {
    let found = seen.workloads.iter().find(|w| w.id.as_str() == id);
    found.unwrap_or_else(|| panic!("{id} in {seen:?}"))
}

fn plan(id: &str, kind: ActionKind) -> Plan {
    let workload = WorkloadId::new(id);
    Plan {
        actions: vec![Action { workload, kind }],
        ..Plan::default()
    }
}

fn limit(cpus: f64) -> ActionKind {
    ActionKind::Limit(Limit::CpuTime {
        cpus: CpuShare::new(cpus),
    })
}

/// Makes the next tick begin with a round of discovery.
fn hurry(platform: &mut LinuxPlatform) {
    platform.pace.hurry();
}

#[test]
fn one_look_has_everything() {
    let fake = Fake::new();
    fake.write(format!("{FIO_DIR}/cpu.max"), "150000 100000\n");
    let mut platform = open(&fake, By::Cgroup);
    let seen = platform.observe().unwrap();
    assert_eq!(seen.seq, 0);
    assert_eq!(seen.groups[0].read_bytes.ok(), Some(&Bytes(1000)));
    assert_eq!(seen.groups[0].write_bytes.ok(), Some(&Bytes(2000)));
    let fio = workload(&seen, FIO);
    assert_eq!(fio.cpu_ns.ok(), Some(&Nanos(5_000_000)));
    assert_eq!(fio.throttled_ns.ok(), Some(&Nanos(70_000)));
    assert_eq!(fio.their_limit_cpus, Some(CpuShare::new(1.5)));
    assert_eq!(fio.uses[0].resident_bytes.ok(), Some(&Bytes(64 << 20)));
    assert_eq!(
        workload(&seen, "/weir.service").excluded,
        Some(Excluded::Weir)
    );
    assert!(seen.skipped.is_empty(), "{:?}", seen.skipped);
    let fact = platform
        .describe()
        .facts
        .iter()
        .find(|f| f.name == "residency.source");
    assert!(fact.unwrap().value.as_ref().unwrap().contains("numa_maps"));
}

/// Its CPU time is that of its processes with memory on a device, and no limit is put on it.
#[test]
fn processes_of_the_root_cgroup_are_seen_and_not_limited() {
    let fake = Fake::new();
    fake.process(300, "stray", "/", 1);
    fake.numa_maps(300, &[("anon=1", 1, 4096)]);
    fake.write("sys/fs/cgroup/cgroup.procs", "2\n300\n");
    let mut platform = open(&fake, By::Cgroup);
    let used = |seen: &Observation| *workload(seen, "/").cpu_ns.ok().unwrap();
    let before = used(&platform.observe().unwrap());
    let path = "proc/300/stat";
    let stat = fake.read(path);
    let at = stat.rfind(')').unwrap();
    let mut fields: Vec<String> = stat[at..].split(' ').map(str::to_owned).collect();
    let ticks: u64 = fields[12].parse().unwrap();
    fields[12] = (ticks + 7).to_string();
    fake.write(path, format!("{}{}", &stat[..at], fields.join(" ")));
    let seen = platform.observe().unwrap();
    assert_eq!(used(&seen).0 - before.0, 70_000_000);
    let root = workload(&seen, "/");
    assert_eq!(root.excluded, Some(Excluded::Root));
    assert_eq!(root.uses[0].resident_bytes.ok(), Some(&Bytes(16 << 20)));
    let outcomes = platform.apply(&plan("/", limit(0.5)));
    assert!(
        matches!(&outcomes[0].result, OutcomeKind::Refused(why) if why.contains("root cgroup")),
        "{outcomes:?}"
    );
}

#[test]
fn it_keeps_the_promises_of_a_platform() {
    for by in [By::Cgroup, By::Process] {
        let fake = Fake::new();
        let mut platform = open(&fake, by);
        assert_eq!(conformance::act(&mut platform, 5, CpuShare::new(0.5)), []);
        let (violations, _) = conformance::dry_run(platform);
        assert_eq!(violations, []);
        assert_eq!(fake.read(format!("{FIO_DIR}/cpu.max")).trim(), "max 100000");
    }
}

#[test]
fn discovery_in_its_thread_keeps_them_too() {
    let fake = Fake::new();
    let mut platform = LinuxPlatform::open(fake.options(By::Cgroup)).unwrap();
    assert_eq!(conformance::act(&mut platform, 20, CpuShare::new(0.5)), []);
    fake.remove("sys/fs/cgroup/system.slice/stress.service");
    // Whenever the thread makes its next round.
    loop {
        let seen = platform.observe().unwrap();
        if seen.workloads.len() == 3 && platform.view.round > 1 {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn without_cxl_there_is_a_clear_error() {
    let fake = Fake::new();
    fake.remove("sys/class");
    assert!(
        LinuxPlatform::open_inline(fake.options(By::Cgroup)).is_ok(),
        "a node is enough"
    );
    fake.write("sys/devices/system/node/has_memory", "0\n");
    let error = LinuxPlatform::open_inline(fake.options(By::Cgroup))
        .err()
        .unwrap();
    assert!(matches!(error, LinuxError::NoCxl { .. }));
    // No file shows memory that could be brought online.
    let said = error.to_string();
    assert!(
        said.contains("weir doctor") && !said.contains("daxctl"),
        "{said}"
    );
}

#[test]
fn vanished_and_malformed_things_are_counted_skips() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    // The kernel answers so on a descriptor of a removed cgroup: here by a mark.
    let WorkloadSource::Cgroup(leaf) = platform
        .view
        .get(&WorkloadId::new(FIO))
        .unwrap()
        .source
        .clone()
    else {
        panic!("not a cgroup")
    };
    leaf.mark_gone();
    fake.write(
        "sys/fs/cgroup/system.slice/stress.service/cpu.stat",
        "usage_usec -5\n",
    );
    let seen = platform.observe().unwrap();
    assert!(seen.workloads.iter().all(|w| w.id.as_str() != FIO));
    let stress = workload(&seen, "/system.slice/stress.service");
    assert!(matches!(stress.cpu_ns.value, Err(Missing::Lost(_))));
    assert_eq!(seen.skipped.len(), 1);
    assert!(seen.skipped[0].what.ends_with("stress.service/cpu.stat"));
    fake.counters(0, &[]);
    let seen = platform.observe().unwrap();
    assert!(seen.groups[0].read_bytes.value.is_err());
}

#[test]
fn a_vanished_process_is_skipped_once() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Process);
    let seen = platform.observe().unwrap();
    assert_eq!(
        workload(&seen, "pid:100@4000").cpu_ns.ok(),
        Some(&Nanos(1_200_000_000))
    );
    fake.write("proc/100/stat", stat_line(100, "other", 0, 7777, 1));
    let seen = platform.observe().unwrap();
    assert_eq!(seen.skipped.len(), 1);
    assert_eq!(seen.skipped[0].what, "pid:100@4000");
    let seen = platform.observe().unwrap();
    assert!(seen.skipped.is_empty());
    workload(&seen, "pid:100@7777");
}

#[test]
fn a_limit_is_ours_and_theirs_is_still_shown() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    let outcomes = platform.apply(&plan(FIO, limit(0.25)));
    assert_eq!(outcomes[0].result, OutcomeKind::Applied);
    hurry(&mut platform);
    let theirs = |p: &mut LinuxPlatform| workload(&p.observe().unwrap(), FIO).their_limit_cpus;
    assert_eq!(theirs(&mut platform), None, "ours is not theirs");
    let outcomes = platform.apply(&plan(FIO, ActionKind::Release));
    assert_eq!(outcomes[0].result, OutcomeKind::Applied);
    for _ in 0..4 {
        assert_eq!(
            theirs(&mut platform),
            None,
            "nor is it just after the release"
        );
        hurry(&mut platform);
    }
    platform.backends.cpu_max.released.age();
    hurry(&mut platform);
    platform.observe().unwrap();
    assert!(platform.backends.cpu_max.released.is_empty());
}

#[test]
fn a_lowered_weight_is_not_theirs() {
    let fake = Fake::new();
    let file = format!("{FIO_DIR}/cpu.weight");
    fake.write(&file, "300\n");
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    let weigh = |ratio| Plan {
        weights: vec![WeightChange {
            workload: WorkloadId::new(FIO),
            ratio,
        }],
        ..plan(FIO, limit(0.25))
    };
    platform.apply(&weigh(0.5));
    assert_eq!(fake.read(&file).trim(), "150");
    hurry(&mut platform);
    let seen = platform.observe().unwrap();
    let found = workload(&seen, FIO);
    assert_eq!(found.weight, 300.0);
    let lowered = LimitedWeight::Lowered { ratio: 0.5 };
    assert_eq!(found.limited_weight, Some(lowered));
    platform.apply(&plan(FIO, ActionKind::Release));
    assert_eq!(fake.read(&file).trim(), "300");
    let seen = platform.observe().unwrap();
    assert_eq!(workload(&seen, FIO).limited_weight, None);
    assert_eq!(workload(&seen, FIO).weight, 300.0);
    platform.apply(&weigh(0.1));
    assert_eq!(fake.read(&file).trim(), "30");
    drop(platform);
    assert_eq!(fake.read(&file).trim(), "300", "at the end of weir");
}

#[test]
fn killed_in_mid_throttle_the_next_start_restores() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    platform.apply(&plan(FIO, limit(0.25)));
    let max = format!("{FIO_DIR}/cpu.max");
    assert_eq!(fake.read(&max), "5000 20000");
    platform.backends.crash();
    drop(platform);
    assert_eq!(
        fake.read(&max),
        "5000 20000",
        "a killed weir puts nothing back"
    );
    let reader = fake.options(By::Cgroup);
    drop(
        LinuxPlatform::open_inline(Options {
            read_only: true,
            ..reader
        })
        .unwrap(),
    );
    assert_eq!(
        fake.read(&max),
        "5000 20000",
        "nor does one that only observes"
    );
    let next = open(&fake, By::Cgroup);
    assert_eq!(fake.read(&max), "max 100000");
    assert!(
        next.describe()
            .facts
            .iter()
            .any(|f| f.name == "leases.recovered" && f.value.is_ok())
    );
}

/// A limit stays while the view says that it may, and the back end refuses none that the view allows.
#[test]
fn names_that_are_excluded_later_count_from_the_next_view_on() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    let applied = |platform: &mut LinuxPlatform| {
        let outcomes = platform.apply(&plan(FIO, limit(0.5)));
        outcomes[0].result.clone()
    };
    assert_eq!(applied(&mut platform), OutcomeKind::Applied);
    let patterns = ["*/fio.service".to_owned(), "/none".to_owned()];
    platform.exclude(&patterns, &[]);
    let names = |platform: &LinuxPlatform| {
        let facts = platform.description.facts.iter();
        let is_it = |fact: &&Fact| fact.name == "names.exclude";
        facts.filter(is_it).map(|fact| fact.value.clone()).next()
    };
    assert_eq!(names(&platform), None);
    assert_eq!(applied(&mut platform), OutcomeKind::Unchanged);
    let seen = platform.observe().unwrap();
    let by_user = Excluded::ByUser("*/fio.service".into());
    assert_eq!(workload(&seen, FIO).excluded, Some(by_user));
    let said = names(&platform).unwrap().unwrap_err().to_string();
    assert!(said.contains("/none") && !said.contains("fio"), "{said}");
    assert!(matches!(applied(&mut platform), OutcomeKind::Refused(_)));
    platform.apply(&plan(FIO, ActionKind::Release));
    assert_eq!(fake.read(format!("{FIO_DIR}/cpu.max")).trim(), "max 100000");
    platform.exclude(&[], &[]);
    let seen = platform.observe().unwrap();
    assert_eq!(workload(&seen, FIO).excluded, None);
    assert_eq!(names(&platform), None);
    assert_eq!(applied(&mut platform), OutcomeKind::Applied);
    platform.release_all();
}

#[test]
fn limits_that_are_not_enforced_are_told() {
    let fake = Fake::new();
    let mut platform = open(&fake, By::Cgroup);
    platform.observe().unwrap();
    platform.apply(&plan(FIO, limit(0.25)));
    fake.write("sys/kernel/sched_ext/state", "enabled\n");
    platform.backends.cpu_max.sched_ext =
        crate::inventory::sched_ext_state::SchedExt::new(&fake.roots());
    let seen = platform.observe().unwrap();
    assert_eq!(seen.skipped[0].what, "cpu.max");
    let outcomes = platform.apply(&plan(FIO, limit(0.1)));
    assert!(matches!(outcomes[0].result, OutcomeKind::Refused(_)));
    let outcomes = platform.apply(&plan(FIO, ActionKind::Release));
    assert_eq!(
        outcomes[0].result,
        OutcomeKind::Applied,
        "giving back always works"
    );
}

#[test]
fn this_machine_can_be_described() {
    let seen = crate::describe(&Options::default());
    assert!(seen.cpu_count > 0 && !seen.kernel.is_empty());
    for fact in &seen.facts {
        assert!(!fact.name.is_empty());
        assert!(
            fact.value.as_ref().map_or(true, |text| !text.is_empty()),
            "{fact:?}"
        );
    }
}

const STARVED: &str = "WEIR_TEST_STARVED";

/// In a process of its own, since the limit of open files is the process's.
#[test]
fn without_descriptors_nothing_known_is_lost_and_no_limit_is_released() {
    if std::env::var_os(STARVED).is_some() {
        return starved();
    }
    let name =
        "platform::tests::without_descriptors_nothing_known_is_lost_and_no_limit_is_released";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(STARVED, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn starved() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let few = Rlimit {
        current: Some(120),
        maximum: Some(120),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let fake = Fake::new();
    let names: Vec<String> = (0..100).map(|n| format!("/w.slice/w{n}.service")).collect();
    for name in &names {
        fake.cgroup(&name[1..], &[]);
    }
    // Some are warm and some are cold, and all are seen and limited.
    let mut platform = open(&fake, By::Cgroup);
    assert_eq!(platform.observe().unwrap().workloads.len(), 104);
    for name in &names {
        let outcome = platform.apply(&plan(name, limit(0.25)));
        assert_eq!(outcome[0].result, OutcomeKind::Applied, "{name}");
    }
    let mut hoard = Vec::new();
    while let Ok(fd) = crate::kernel::files::open_root(&fake.path("")) {
        hoard.push(fd);
    }
    hurry(&mut platform);
    let seen = platform.observe().unwrap();
    assert_eq!(seen.workloads.len(), 104, "{:?}", seen.skipped);
    let said = |what: &str| seen.skipped.iter().any(|s| s.what.contains(what));
    assert!(said("cgroup tree"), "{:?}", seen.skipped);
    let missing = |w: &&WorkloadReading| w.cpu_ns.value.is_err();
    assert!(
        seen.workloads.iter().any(|w| !missing(&w)),
        "warm ones are read"
    );
    assert!(
        seen.workloads.iter().filter(missing).count() > 0,
        "cold ones are not"
    );
    for _ in 0..40 {
        platform.apply(&Plan::default());
    }
    let outcome = platform.apply(&plan(&names[99], limit(0.1)));
    assert!(
        matches!(outcome[0].result, OutcomeKind::Failed(_)),
        "{outcome:?}"
    );
    assert_eq!(
        platform.backends.cpu_max.holds.len(),
        100,
        "a limit was let go"
    );
    let max = |name: &str| fake.read(format!("sys/fs/cgroup{name}/cpu.max"));
    hoard.clear();
    assert!(names.iter().all(|name| max(name) == "5000 20000"));
    hurry(&mut platform);
    let seen = platform.observe().unwrap();
    assert!(!seen.workloads.iter().any(|w| w.cpu_ns.value.is_err()));
    drop(platform);
    assert!(names.iter().all(|name| max(name) == "max 100000"));
}
