// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::options::{By, Options};
use crate::platform::LinuxPlatform;
use crate::workloads::discovery::tests::{FIO, SECOND, bytes, discovery_with, watched as found};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_core::rates::attribution::Provenance;
use weir_core::{Config, Platform, State, step};

fn kind(fake: &Fake, path: &str, kind: &str) {
    fake.write(
        format!("sys/fs/cgroup{path}/cgroup.type"),
        format!("{kind}\n"),
    );
}

/// A virtual machine as libvirt makes it: one cgroup for each virtual CPU.
fn virtual_machine(fake: &Fake, scope: &str, pid: u32) {
    fake.cgroup(&format!("{}/libvirt", &scope[1..]), &[pid]);
    kind(fake, scope, "domain");
    kind(fake, &format!("{scope}/libvirt"), "domain threaded");
    for below in ["emulator", "vcpu0", "vcpu1"] {
        let path = format!("{scope}/libvirt/{below}");
        fake.cgroup(&path[1..], &[]);
        // The kernel answers EOPNOTSUPP.
        fake.remove(format!("sys/fs/cgroup{path}/cgroup.procs"));
        kind(fake, &path, "threaded");
    }
    fake.process(pid, "qemu", &format!("{scope}/libvirt/emulator"), 1);
}

#[test]
fn a_threaded_domain_is_one_workload_that_may_be_limited() {
    const VM: &str = "/machine.slice/machine-qemu.scope";
    let fake = Fake::new();
    virtual_machine(&fake, VM, 700);
    fake.numa_maps(700, &[("anon=1", 1, 1024)]);
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    let domain = found(&view, &format!("{VM}/libvirt"));
    assert_eq!(
        (bytes(domain), domain.excluded.clone()),
        (vec![Some(4 << 20)], None)
    );
    assert!(matches!(domain.source, WorkloadSource::Cgroup(_)));
    let ids: Vec<&str> = view.workloads.iter().map(|w| w.id.as_str()).collect();
    assert!(!ids.iter().any(|id| id.contains("vcpu")), "{ids:?}");
    assert!(view.skipped.is_empty(), "{:?}", view.skipped);
}

/// Containers as Docker without systemd makes them: threaded cgroups right below one domain.
fn docker(fake: &Fake, containers: &[(&str, &[u32])]) {
    let all: Vec<u32> = containers
        .iter()
        .flat_map(|(_, tids)| tids.to_vec())
        .collect();
    fake.cgroup("docker", &all);
    kind(fake, "/docker", "domain threaded");
    fake.write("sys/fs/cgroup/docker/cgroup.threads", "");
    for (name, pids) in containers {
        let path = format!("/docker/{name}");
        fake.cgroup(&path[1..], &[]);
        fake.remove(format!("sys/fs/cgroup{path}/cgroup.procs"));
        kind(fake, &path, "threaded");
        let list: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
        fake.write(format!("sys/fs/cgroup{path}/cgroup.threads"), list);
        for pid in *pids {
            fake.process(*pid, "app", &path, 1);
            fake.numa_maps(*pid, &[("anon=1", 1, 1024)]);
        }
    }
}

#[test]
fn containers_of_a_threaded_domain_are_workloads_each() {
    let fake = Fake::new();
    docker(&fake, &[("a", &[700]), ("b", &[701, 702])]);
    let mut discovery = discovery_with(&fake, false, &[]);
    let view = discovery.round(Nanos(SECOND));
    for (id, bytes_there) in [("/docker/a", 4 << 20), ("/docker/b", 8 << 20)] {
        let one = found(&view, id);
        assert_eq!(
            (bytes(one), one.excluded.clone()),
            (vec![Some(bytes_there)], None)
        );
    }
    assert!(
        view.get(&WorkloadId::new("/docker")).is_none(),
        "counted once"
    );
    assert!(view.get(&WorkloadId::new(UNLISTED_ID)).is_none());
    assert!(view.skipped.is_empty(), "{:?}", view.skipped);
}

/// What else can be limited than the domain alone is a reason to leave it, unless the operator says that it
/// is limited all the same.
#[test]
fn a_domain_in_which_a_limit_would_hit_others_is_left_alone_without_limit_domains() {
    let spread = |fake: &Fake| {
        // A thread of 701 is in the cgroup of 700.
        fake.write("sys/fs/cgroup/docker/a/cgroup.threads", "700\n703\n");
        for tid in [701, 703] {
            fake.write(format!("proc/701/task/{tid}/stat"), "");
        }
    };
    let in_domain = |fake: &Fake| fake.write("sys/fs/cgroup/docker/cgroup.threads", "701\n");
    let no_limit = |fake: &Fake| fake.remove("sys/fs/cgroup/docker/b/cpu.max");
    let faults: [&dyn Fn(&Fake); 3] = [&spread, &in_domain, &no_limit];
    for change in faults {
        let fake = Fake::new();
        docker(&fake, &[("a", &[700]), ("b", &[701])]);
        change(&fake);
        fake.numa_maps(701, &[("anon=1", 0, 1024)]);
        let others = vec!["/docker/b: app (701)".to_owned()];
        let is_excluded = |limit_domains| {
            let mut platform = LinuxPlatform::open_inline(Options {
                limit_domains,
                ..fake.options(By::Cgroup)
            });
            let seen = platform.as_mut().unwrap().observe().unwrap();
            let of_docker = |id: &str| id.starts_with("/docker");
            let there = seen.workloads.iter().filter(|w| of_docker(w.id.as_str()));
            let there: Vec<_> = there.map(|w| (w.id.as_str(), w.excluded.clone())).collect();
            let [("/docker", excluded)] = &there[..] else {
                panic!("{there:?}");
            };
            excluded.clone()
        };
        assert_eq!(is_excluded(false), Some(Excluded::Domain(others)));
        assert_eq!(is_excluded(true), None);
        fake.remove("sys/fs/cgroup/docker/cpu.max");
        assert_eq!(
            is_excluded(false),
            Some(Excluded::Inner),
            "no limit is possible there"
        );
    }
}

#[test]
fn what_a_domain_would_hold_back_is_counted_where_it_is_too_much_to_name() {
    let fake = Fake::new();
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    let pids: Vec<[u32; 2]> = (0..10).map(|number| [710 + number, 810 + number]).collect();
    let containers: Vec<(&str, &[u32])> = names
        .iter()
        .map(String::as_str)
        .zip(pids.iter().map(|p| &p[..]))
        .collect();
    docker(&fake, &containers);
    // One that can have no limit makes the domain a shared one.
    fake.remove("sys/fs/cgroup/docker/c0/cpu.max");
    for pid in pids.iter().skip(1).flatten() {
        fake.numa_maps(*pid, &[]);
    }
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    let Some(Excluded::Domain(others)) = &found(&view, "/docker").excluded else {
        panic!("{view:?}");
    };
    let named = (1..9).map(|number| format!("/docker/c{number}: app (71{number}) and 1 more"));
    let wanted: Vec<String> = named.chain(["2 more processes".to_owned()]).collect();
    assert_eq!(*others, wanted);
}

#[test]
fn threads_below_the_root_are_of_processes_of_the_root() {
    let fake = Fake::new();
    fake.cgroup("loose", &[]);
    kind(&fake, "/loose", "threaded");
    fake.remove("sys/fs/cgroup/loose/cgroup.procs");
    fake.process(300, "stray", "/loose", 1);
    fake.write("sys/fs/cgroup/cgroup.procs", "2\n300\n");
    fake.numa_maps(300, &[("anon=1", 1, 1)]);
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    assert_eq!(bytes(found(&view, "/")), [Some(4096)]);
    assert!(view.get(&WorkloadId::new("/loose")).is_none());
    assert!(view.get(&WorkloadId::new(UNLISTED_ID)).is_none());
}

#[test]
fn processes_in_cgroups_that_are_not_seen_are_a_workload_with_a_reason() {
    let fake = Fake::new();
    fake.process(800, "pod", "/../../kubepods/a", 1);
    fake.process(801, "idle", "/../../kubepods/b", 1);
    fake.numa_maps(800, &[("anon=1", 1, 512)]);
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    let rest = found(&view, UNLISTED_ID);
    assert_eq!(rest.excluded, Some(Excluded::Unlisted));
    assert_eq!(bytes(rest), [Some(2 << 20)]);
    assert_eq!(rest.processes.as_ref().unwrap().busiest.len(), 1);
    let said = format!("{:?}", view.skipped);
    assert!(
        said.contains("--cgroupns=host") && said.contains("/../../kubepods/"),
        "{said}"
    );
}

/// A process that came after its cgroup's list was read is not taken for one that is not seen.
#[test]
fn a_process_that_is_newer_than_its_list_is_of_its_cgroup() {
    let fake = Fake::new();
    fake.process(102, "new", FIO, 1);
    fake.numa_maps(102, &[("anon=1", 1, 1)]);
    let mut discovery = discovery_with(&fake, false, &[]);
    let rest = WorkloadId::new(UNLISTED_ID);
    assert!(discovery.round(Nanos(SECOND)).get(&rest).is_none());
    assert!(discovery.round(Nanos(20 * SECOND)).get(&rest).is_none());
}

#[test]
fn hidden_processes_of_inner_cgroups_are_users_of_which_nothing_is_known() {
    const POD: &str = "/pod.scope";
    let fake = Fake::new();
    fake.cgroup("pod.scope", &[0]);
    fake.cgroup("pod.scope/below", &[]);
    fake.write("sys/fs/cgroup/cgroup.procs", "2\n0\n");
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    for (id, excluded) in [("/", Excluded::Root), (POD, Excluded::Inner)] {
        let watched = found(&view, id);
        assert_eq!(bytes(watched), [None], "{id}");
        assert_eq!(watched.excluded, Some(excluded));
    }
}

#[test]
fn processes_of_a_pid_namespace_are_never_alone() {
    let fake = Fake::new();
    fake.numa_maps(100, &[("anon=1", 1, 512)]);
    let rest = WorkloadId::new(UNLISTED_ID);
    let mut discovery = discovery_with(&fake, true, &[]);
    assert!(discovery.round(Nanos(SECOND)).get(&rest).is_none());
    std::fs::create_dir_all(fake.roots().proc.join("self/ns")).unwrap();
    std::os::unix::fs::symlink("pid:[1]", fake.roots().proc.join("self/ns/pid")).unwrap();
    let view = discovery.round(Nanos(20 * SECOND));
    assert_eq!(bytes(found(&view, UNLISTED_ID)), [None]);
    let mut platform = LinuxPlatform::open_inline(fake.options(By::Process)).unwrap();
    let plan = steps(&mut platform, |second| {
        fake.counters(0, &[(1, second << 30, 0)])
    });
    let figures = plan.workloads.iter().filter_map(|w| w.traffic.as_ref());
    assert!(
        figures
            .filter(|f| f.read.provenance != Provenance::Unknown)
            .count()
            == 0,
        "{plan:?}"
    );
    let (rest, all) = (
        plan.devices[0].unattributed_bytes_per_sec,
        plan.devices[0].read_bytes_per_sec,
    );
    assert!(
        rest.is_some_and(|rest| rest.get() > 0.0) && rest == all,
        "{plan:?}"
    );
}

#[test]
fn memory_that_weir_may_not_read_is_unknown_and_not_zero() {
    let fake = Fake::new();
    fake.process(300, "stray", "/", 1);
    fake.write("sys/fs/cgroup/cgroup.procs", "2\n300\n");
    // Permissions do not hold for root: a link that is not followed is refused in another way.
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    assert!(view.get(&WorkloadId::new("/")).is_none());
    let resident = |missing: Missing| crate::workloads::processes::Resident {
        at: Some(Nanos(1)),
        missing: Some(missing),
        ..Default::default()
    };
    let denied = resident(Missing::NotPermitted("/proc/7/numa_maps".into()));
    let groups = [crate::inventory::group_nodes::GroupOnNode {
        group: weir_core::GroupId {
            device: weir_core::DeviceId(0),
            index: 0,
        },
        node: weir_core::NodeId(1),
        part: 1.0,
    }];
    assert_eq!(
        uses(&groups, &denied, Nanos(1))[0].resident_bytes.ok(),
        None
    );
    let ended = resident(Missing::Lost("it ended".into()));
    assert!(uses(&groups, &ended, Nanos(1)).is_empty());
}

/// Where a process of the machine below lives.
#[derive(Clone, Copy, Debug)]
enum Home {
    Leaf,
    Inner,
    Root,
    Domain,
    Outside,
    /// In another PID namespace.
    HiddenInRoot,
    HiddenInInner,
}

/// A process: its home, its CPU time in a second in ms (whole ticks), its memory on the device and elsewhere
/// in MiB.
type Lives = (Home, u64, u64, u64);

fn lives() -> impl Strategy<Value = Lives> {
    let home = prop_oneof![
        Just(Home::Leaf),
        Just(Home::Inner),
        Just(Home::Root),
        Just(Home::Domain),
        Just(Home::Outside),
        Just(Home::HiddenInRoot),
        Just(Home::HiddenInInner)
    ];
    let memory = || prop_oneof![Just(0u64), 8..4096u64];
    (
        home,
        (1..80u64).prop_map(|ticks| ticks * 10),
        memory(),
        memory(),
    )
}

fn home_of(number: usize, home: Home) -> (String, String) {
    let at = |path: String, id: &str| (path, id.to_owned());
    match home {
        Home::Leaf => at(
            format!("/s.slice/{number}.service"),
            &format!("/s.slice/{number}.service"),
        ),
        Home::Inner | Home::HiddenInInner => at(
            format!("/s.slice/pod{number}"),
            &format!("/s.slice/pod{number}"),
        ),
        Home::Root | Home::HiddenInRoot => at("/".into(), "/"),
        Home::Domain => at(
            format!("/m.slice/vm{number}/libvirt/vcpu0"),
            &format!("/m.slice/vm{number}/libvirt"),
        ),
        Home::Outside => at(format!("/../pod{number}"), UNLISTED_ID),
    }
}

/// Writes `cpu.stat` with this usage.
fn use_cpu(fake: &Fake, path: &str, ms: u64) {
    let usec = ms * 1000;
    let text = format!("usage_usec {usec}\nuser_usec {usec}\nsystem_usec 0\n");
    fake.write(format!("sys/fs/cgroup{path}/cpu.stat"), text);
}

struct Machine {
    fake: Fake,
    all: Vec<Lives>,
}

impl Machine {
    fn new(all: &[Lives]) -> Machine {
        let fake = Fake::new();
        fake.numa_maps(100, &[]);
        let mut in_root = String::from("2\n");
        for (number, (home, _, here, elsewhere)) in all.iter().enumerate() {
            let pid = 1000 + u32::try_from(number).unwrap();
            let (path, _) = home_of(number, *home);
            match home {
                Home::Leaf => fake.cgroup(&path[1..], &[pid]),
                Home::Inner => {
                    fake.cgroup(&path[1..], &[pid]);
                    fake.cgroup(&format!("{}/below", &path[1..]), &[]);
                }
                Home::Domain => virtual_machine(&fake, &format!("/m.slice/vm{number}"), pid),
                Home::HiddenInInner => {
                    fake.cgroup(&path[1..], &[0]);
                    fake.cgroup(&format!("{}/below", &path[1..]), &[]);
                }
                Home::Root => in_root.push_str(&format!("{pid}\n")),
                Home::HiddenInRoot => in_root.push_str("0\n"),
                Home::Outside => {}
            }
            if matches!(home, Home::HiddenInRoot | Home::HiddenInInner) {
                continue;
            }
            fake.process(pid, "p", &path, 1);
            fake.numa_maps(
                pid,
                &[("anon=1", 1, here << 8), ("anon=1", 0, elsewhere << 8)],
            );
        }
        fake.write("sys/fs/cgroup/cgroup.procs", in_root);
        // Room for all that may be there.
        let size = "sys/class/weir_cxl/weir_cxl0/group0/size_bytes";
        fake.write(size, format!("{}\n", 64u64 << 30));
        let all = all.to_vec();
        Machine { fake, all }
    }

    /// So many seconds later.
    fn at(&self, second: u64, per_second: u64) {
        let mut whole = BTreeMap::from([("", 0), ("/s.slice", 0), ("/m.slice", 0)]);
        for (number, (home, ms, ..)) in self.all.iter().enumerate() {
            let pid = 1000 + u32::try_from(number).unwrap();
            let (_, id) = home_of(number, *home);
            let used = ms * second;
            for (path, sum) in &mut whole {
                *sum += if id.starts_with(path) || path.is_empty() {
                    used
                } else {
                    0
                };
            }
            match home {
                Home::HiddenInRoot => {}
                Home::Leaf | Home::Inner | Home::HiddenInInner | Home::Domain => {
                    use_cpu(&self.fake, &id, used);
                }
                Home::Root | Home::Outside => {
                    let stat = crate::fake::stat_line(pid, "p", 0, 1, 1);
                    let ticks = used / 10;
                    let stat = stat.replace(" 100 20 0 0 20 0 ", &format!(" {ticks} 0 0 0 20 0 "));
                    self.fake.write(format!("proc/{pid}/stat"), stat);
                }
            }
        }
        for (path, ms) in whole {
            use_cpu(&self.fake, path, ms);
        }
        self.fake.counters(0, &[(1, per_second * second, 0)]);
    }
}

/// The plan after three seconds of a machine that moves on by whole seconds, whatever the clock says.
fn steps(platform: &mut LinuxPlatform, go_on: impl Fn(u64)) -> weir_core::Plan {
    let (mut state, config) = (State::default(), Config::default());
    let mut plan = weir_core::Plan::default();
    for second in 0..3 {
        go_on(second);
        let mut seen = platform.observe().unwrap();
        let at = Nanos(second * SECOND);
        seen.at = at;
        for group in &mut seen.groups {
            (group.read_bytes.at, group.write_bytes.at) = (at, at);
        }
        for workload in &mut seen.workloads {
            workload.cpu_ns.at = at;
        }
        plan = step(&mut state, &config, platform.describe(), &seen);
    }
    plan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Wherever processes live: none is given more than it moved, and what is given and what has no owner is
    /// what the device counted. Each moves bytes as it runs on its memory of the device.
    #[test]
    fn none_is_given_more_than_its_own_processes_moved(all in prop::collection::vec(lives(), 1..7)) {
        let machine = Machine::new(&all);
        let mut moved: BTreeMap<String, f64> = BTreeMap::new();
        let mut memory: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
        for (number, (home, ms, here, elsewhere)) in all.iter().enumerate() {
            // Sets and cgroups of several processes are one workload, which runs on its memory as a whole.
            let (cpu, on, off) = memory.entry(home_of(number, *home).1).or_default();
            let has_some = !matches!(home, Home::Root | Home::Outside) || *here > 0;
            if has_some {
                (*cpu, *on, *off) = (*cpu + *ms as f64, *on + *here as f64, *off + *elsewhere as f64);
            }
        }
        for (id, (ms, here, elsewhere)) in &memory {
            let mib = (1u64 << 20) as f64;
            let share = weir_core::rates::attribution::part_share(ms / 1e3, here * mib, (here + elsewhere) * mib);
            moved.insert(id.clone(), share * 1e9);
        }
        let total = moved.values().sum::<f64>().round();
        let mut platform = LinuxPlatform::open_inline(machine.fake.options(By::Cgroup)).unwrap();
        let plan = steps(&mut platform, |second| machine.at(second, total as u64));
        let mut sum = plan.devices[0].unattributed_bytes_per_sec.map_or(0.0, |b| b.get());
        for verdict in &plan.workloads {
            let Some(figure) = &verdict.traffic else { continue };
            let given = figure.read.bytes_per_sec.get() + figure.write.bytes_per_sec.get();
            let own = moved.get(verdict.id.as_str()).copied().unwrap_or(0.0);
            prop_assert!(given <= own * 1.001 + 1.0, "{} has {given} of {own} of {total}", verdict.id);
            let is_counted = figure.read.provenance == Provenance::Counted;
            let others = moved.iter().filter(|(id, moved)| id.as_str() != verdict.id.as_str() && **moved > 0.0);
            prop_assert!(!is_counted || others.count() == 0, "{} is counted", verdict.id);
            sum += given;
        }
        prop_assert!((sum - total).abs() <= total * 1e-6 + 1.0, "{sum} of {total}: {plan:?}");
    }
}
