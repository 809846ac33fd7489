// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, stat_line};
use crate::kernel::fd_budget::Rank;
use crate::kernel::files::{inode, open_root};
use crate::workloads::task_iter::process_table::{ProcessTable, tests as rows};
use weir_core::{DeviceId, GroupId, Missing, NodeId};

pub(crate) const SECOND: u64 = 1_000_000_000;

fn group(device: u32, index: u32, node: u32, part: f64) -> GroupOnNode {
    GroupOnNode {
        group: GroupId {
            device: DeviceId(device),
            index,
        },
        node: NodeId(node),
        part,
    }
}

pub(crate) fn discovery_with(fake: &Fake, by_process: bool, globs: &[&str]) -> Discovery {
    let roots = fake.roots();
    let proc = Arc::new(open_root(&roots.proc).unwrap());
    let globs = globs.iter().map(|g| (*g).to_owned()).collect();
    let rules = Rules::new(
        globs,
        Some(b"/weir.service".to_vec()),
        Some(b"/init.scope".to_vec()),
    );
    let mut discovery = if by_process {
        Discovery::of_processes(proc, rules)
    } else {
        Discovery::of_cgroups(
            CgroupTree::open(
                &roots.cgroup,
                Arc::clone(&proc),
                crate::kernel::fd_budget::Budget::new(100),
            )
            .unwrap(),
            proc,
            rules,
        )
    };
    discovery.watch(vec![group(0, 0, 1, 1.0)]);
    discovery
}

pub(crate) fn watched<'a>(view: &'a View, id: &str) -> &'a Watched {
    view.get(&WorkloadId::new(id))
        .unwrap_or_else(|| panic!("{id} in {view:?}"))
}

pub(crate) fn bytes(watched: &Watched) -> Vec<Option<u64>> {
    watched
        .uses
        .iter()
        .map(|u| u.resident_bytes.ok().map(|b| b.0))
        .collect()
}

pub(crate) const FIO: &str = "/system.slice/fio.service";
const STRESS: &str = "/system.slice/stress.service";

/// The facts of a cgroup stay as long as no part of them is read again, and no longer.
#[test]
fn a_scan_of_memory_shows_between_two_lists() {
    let fake = Fake::new();
    fake.write("proc/vmstat", "pgmigrate_success 5\n");
    let mut discovery = discovery_with(&fake, false, &[]);
    let at = |seconds: u64| Nanos((100 + seconds) * SECOND);
    for second in [0, 2, 6] {
        discovery.round(at(second));
    }
    let before = discovery.round(at(7));
    let same = discovery.round(at(8));
    let of = |view: &View| {
        Arc::clone(
            view.workloads
                .iter()
                .find(|w| w.id.as_str() == FIO)
                .unwrap(),
        )
    };
    assert!(Arc::ptr_eq(&of(&before), &of(&same)));
    fake.numa_maps(100, &[("anon=1", 1, 256)]);
    fake.write("proc/vmstat", "pgmigrate_success 7\n");
    assert_eq!(
        bytes(&of(&discovery.round(at(10)))),
        [Some(1 << 20)],
        "its list is read at 6 and 12 s only"
    );
    discovery.watch(vec![group(0, 0, 2, 1.0)]);
    assert!(bytes(&of(&discovery.round(at(11)))).is_empty());
}

#[test]
fn cgroups_with_their_memory_and_exclusions() {
    let fake = Fake::new();
    fake.write(format!("sys/fs/cgroup{FIO}/cpu.weight"), "300\n");
    fake.write(format!("sys/fs/cgroup{FIO}/cpu.max"), "50000 100000\n");
    let view = discovery_with(&fake, false, &["*stress*"]).round(Nanos(SECOND));
    let fio = watched(&view, FIO);
    assert_eq!(
        (bytes(fio), fio.weight, fio.excluded.clone()),
        (vec![Some(64 << 20)], 300.0, None)
    );
    assert_eq!(fio.limit.unwrap().cpus(), Some(0.5));
    let stress = watched(&view, STRESS);
    assert_eq!(stress.excluded, Some(Excluded::ByUser("*stress*".into())));
    assert!(stress.uses.is_empty());
    assert_eq!(watched(&view, "/init.scope").excluded, Some(Excluded::Init));
    assert_eq!(
        watched(&view, "/weir.service").excluded,
        Some(Excluded::Weir)
    );
    assert!(view.workloads.is_sorted_by(|a, b| a.id < b.id));
}

#[test]
fn real_time_and_kernel_cgroups_are_excluded() {
    let fake = Fake::new();
    fake.write("proc/101/stat", stat_line(101, "stress", 2, 4001, 1));
    fake.cgroup("kernel", &[2]);
    let view = discovery_with(&fake, false, &[]).round(Nanos(SECOND));
    assert_eq!(watched(&view, STRESS).excluded, Some(Excluded::RealTime));
    assert_eq!(watched(&view, "/kernel").excluded, Some(Excluded::Kernel));
    assert_eq!(watched(&view, FIO).excluded, None);
}

#[test]
fn charged_memory_is_the_fallback() {
    let fake = Fake::new();
    fake.write(
        format!("sys/fs/cgroup{FIO}/memory.numa_stat"),
        "anon N0=1 N1=4096\nfile N1=8192\n",
    );
    let mut discovery = discovery_with(&fake, false, &[]);
    assert_eq!(
        bytes(watched(&discovery.round(Nanos(SECOND)), FIO)),
        [Some((64 << 20) + 8192)]
    );
    fake.remove("proc/100/numa_maps");
    let view = discovery.round(Nanos(4 * SECOND));
    assert_eq!(bytes(watched(&view, FIO)), [Some(12288)]);
    assert!(
        view.residency
            .contains("memory.numa_stat for 1 of 4 cgroups, and"),
        "{}",
        view.residency
    );
    fake.write(format!("sys/fs/cgroup{STRESS}/cgroup.procs"), "0\n");
    let view = discovery.round(Nanos(8 * SECOND));
    let reading = &watched(&view, STRESS).uses[0].resident_bytes;
    assert!(
        matches!(reading.value, Err(Missing::NotSupported(_))),
        "{reading:?}"
    );
}

#[test]
fn page_cache_that_no_process_has_mapped_counts() {
    let fake = Fake::new();
    let stat = |cgroup: &str, of_1: [u64; 3]| {
        let [file, shmem, mapped] = of_1.map(|mib| mib << 20);
        fake.write(
            format!("sys/fs/cgroup{cgroup}/memory.numa_stat"),
            format!(
                "anon N0=0 N1=0\nfile N0=1048576 N1={file}\nshmem N0=0 N1={shmem}\n\
                 file_mapped N0=0 N1={mapped}\n"
            ),
        );
    };
    let mut discovery = discovery_with(&fake, false, &[]);
    fake.numa_maps(101, &[("anon=1", 0, 256)]);
    stat(STRESS, [40, 10, 20]);
    stat(FIO, [64, 64, 64]);
    let view = discovery.round(Nanos(SECOND));
    let stress = watched(&view, STRESS);
    assert_eq!(
        bytes(stress),
        [Some(20 << 20)],
        "shared memory that no process has mapped too"
    );
    assert_eq!(
        stress.resident_bytes,
        Some(Bytes(22 << 20)),
        "its own MiB and one of the page cache on node 0"
    );
    let fio = watched(&view, FIO);
    assert_eq!(
        bytes(fio),
        [Some(64 << 20)],
        "what is mapped is in the maps"
    );
    assert!(
        view.residency.ends_with("mapped of 2"),
        "{}",
        view.residency
    );
    // What fits into caches makes no user; a file that was cut short meanwhile is no huge one.
    for of_1 in [[1, 0, 1], [0, 9, 9], [10, 9, 10]] {
        stat(STRESS, of_1);
        let at = Nanos(SECOND * (10 + of_1[0]));
        assert!(watched(&discovery.round(at), STRESS).uses.is_empty());
    }
    // Huge pages are charged in files of their own.
    let huge = format!("sys/fs/cgroup{STRESS}/hugetlb.2MB.numa_stat");
    fake.write(huge, "total=12582912 N0=4194304 N1=8388608\n");
    let view = discovery.round(Nanos(SECOND * 30));
    assert_eq!(bytes(watched(&view, STRESS)), [Some(8 << 20)]);
    fake.write(
        format!("sys/fs/cgroup{FIO}/memory.numa_stat"),
        "file N1=-1\n",
    );
    let view = discovery.round(Nanos(SECOND * 40));
    assert_eq!(bytes(watched(&view, FIO)), [Some(64 << 20)]);
}

#[test]
fn users_in_the_root_cgroup_are_a_workload_that_is_never_limited() {
    let fake = Fake::new();
    fake.numa_maps(2, &[("anon=1", 0, 1)]);
    fake.process(300, "stray", "/", 1);
    fake.write("sys/fs/cgroup/cgroup.procs", "2\n300\n");
    let mut discovery = discovery_with(&fake, false, &[]);
    assert!(discovery.round(Nanos(SECOND)).skipped.is_empty());
    fake.numa_maps(300, &[("anon=1", 1, 1)]);
    let view = discovery.round(Nanos(4 * SECOND));
    assert_eq!(view.skipped.len(), 1);
    assert_eq!(view.skipped[0].what, "/");
    let root = watched(&view, "/");
    assert_eq!(root.excluded, Some(Excluded::Root));
    assert_eq!(bytes(root), [Some(1 << 12)]);
    let inside = root.processes.as_ref().unwrap();
    assert_eq!(
        inside.busiest.len(),
        1,
        "a process without memory there is not in it: {inside:?}"
    );
    fake.numa_maps(300, &[("anon=1", 0, 1)]);
    assert!(
        discovery
            .round(Nanos(40 * SECOND))
            .get(&WorkloadId::new("/"))
            .is_none()
    );
}

#[test]
fn processes_beside_cgroups_are_a_workload_of_their_own() {
    const POD: &str = "/system.slice/pod.scope";
    let fake = Fake::new();
    fake.cgroup(&POD[1..], &[500, 501]);
    fake.cgroup(&format!("{}/nested", &POD[1..]), &[502]);
    for (pid, below) in [(500, ""), (501, ""), (502, "/nested")] {
        fake.process(pid, "worker", &format!("{POD}{below}"), 1);
    }
    let mut discovery = discovery_with(&fake, false, &[]);
    let view = discovery.round(Nanos(SECOND));
    assert!(view.get(&WorkloadId::new(POD)).is_none(), "nothing there");
    fake.numa_maps(500, &[("anon=1", 1, 256)]);
    fake.numa_maps(502, &[("anon=1", 1, 512)]);
    let view = discovery.round(Nanos(40 * SECOND));
    let pod = watched(&view, POD);
    assert_eq!(bytes(pod), [Some(1 << 20)]);
    assert_eq!(pod.excluded, Some(Excluded::Inner));
    assert_eq!(pod.processes.as_ref().unwrap().busiest.len(), 1);
    let nested = watched(&view, &format!("{POD}/nested"));
    assert_eq!(bytes(nested), [Some(2 << 20)]);
    assert_eq!(nested.excluded, None);
    assert!(view.skipped.is_empty(), "{:?}", view.skipped);
    let ids: Vec<&str> = view.workloads.iter().map(|w| w.id.as_str()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
}

#[test]
fn groups_on_one_node_share_it() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, false, &[]);
    discovery.watch(vec![
        group(0, 0, 1, 0.25),
        group(0, 1, 1, 0.75),
        group(1, 0, 2, 1.0),
    ]);
    let view = discovery.round(Nanos(SECOND));
    assert_eq!(bytes(watched(&view, FIO)), [Some(16 << 20), Some(48 << 20)]);
}

#[test]
fn processes_come_and_go() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, true, &["str*"]);
    let view = discovery.round(Nanos(SECOND));
    let fio = watched(&view, "pid:100@4000");
    assert_eq!(
        (bytes(fio), fio.excluded.clone()),
        (vec![Some(64 << 20)], None)
    );
    let stress = watched(&view, "pid:101@4001");
    assert_eq!(
        stress.excluded,
        Some(Excluded::ByUser("str*".into())),
        "by its name"
    );
    assert!(
        view.get(&WorkloadId::new("pid:2@1")).is_none(),
        "kernel threads are no workloads"
    );
    assert_eq!(watched(&view, "pid:1@1").excluded, Some(Excluded::Init));
    let me = format!("pid:{}@50", std::process::id());
    assert_eq!(watched(&view, &me).excluded, Some(Excluded::Weir));
    fake.remove("proc/101");
    fake.write("proc/100/stat", stat_line(100, "fio", 0, 5000, 1));
    let view = discovery.round(Nanos(2 * SECOND));
    assert!(view.get(&WorkloadId::new("pid:100@4000")).is_none());
    assert!(view.get(&WorkloadId::new("pid:101@4001")).is_none());
    assert_eq!(bytes(watched(&view, "pid:100@5000")), [Some(64 << 20)]);
}

#[test]
fn nice_values_are_weights() {
    assert_eq!(weight_of_nice(0), 100.0);
    assert_eq!(weight_of_nice(-1), 125.0);
    assert_eq!(weight_of_nice(5).round(), 33.0);
    assert!(weight_of_nice(-20) <= 10_000.0 && weight_of_nice(i64::MAX) >= 1.0);
}

/// Rows of the fake machine's processes, `times` times; then it fails.
pub(crate) struct Rows {
    pub(crate) rows: Vec<rows::Row>,
    times: u32,
    /// CPU time that each has more of each time.
    more_ns: u64,
}

impl crate::workloads::task_iter::TaskRows for Rows {
    fn sweep(&mut self, between: &mut dyn FnMut()) -> Result<ProcessTable, Missing> {
        between();
        if self.times == 0 {
            return Err(Missing::Lost("it broke".into()));
        }
        self.times -= 1;
        self.rows.iter_mut().for_each(|r| r.cpu_ns += self.more_ns);
        Ok(rows::table(&[&rows::bytes(&self.rows)]).unwrap())
    }
}

/// What a fake process is in its files.
pub(crate) fn row_of(fake: &Fake, pid: u32, comm: &str, cgroup: &str, start: u64) -> rows::Row {
    let dir = open_root(&fake.roots().cgroup.join(cgroup)).unwrap();
    let mut bytes = [0; 16];
    bytes[..comm.len()].copy_from_slice(comm.as_bytes());
    rows::Row {
        start_ns: start * 10_000_000 + 9_999_999,
        comm: bytes.map(u8::cast_signed),
        ..rows::row(pid.into(), pid.into(), inode(&dir).unwrap().st_ino)
    }
}

pub(crate) fn rows_of(fake: &Fake, times: u32) -> Rows {
    let rows = vec![
        row_of(fake, 1, "init", "init.scope", 1),
        rows::Row {
            flags: 1,
            ..row_of(fake, 2, "kthreadd", "", 1)
        },
        row_of(fake, std::process::id(), "weir", "weir.service", 50),
        row_of(fake, 100, "fio", "system.slice/fio.service", 4000),
        row_of(fake, 101, "stress", "system.slice/stress.service", 4001),
    ];
    Rows {
        rows,
        times,
        more_ns: 0,
    }
}

/// All that a tick takes from a view, but for its source.
fn described(view: &View) -> String {
    let of = |w: &Arc<Watched>| {
        format!(
            "{:?} {} {:?} {:?} {:?}\n",
            w.id, w.weight, w.limit, w.excluded, w.uses
        )
    };
    view.workloads.iter().map(of).collect::<String>() + &format!("{:?}", view.skipped)
}

#[test]
fn rows_and_files_give_the_same_view() {
    for (by_process, globs) in [(false, &["*stress*"][..]), (true, &["str*"])] {
        let fake = Fake::new();
        let without_scans = |mut discovery: Discovery| {
            discovery.watch(Vec::new());
            discovery.round(Nanos(SECOND))
        };
        let by_files = without_scans(discovery_with(&fake, by_process, globs));
        let discovery = discovery_with(&fake, by_process, globs);
        let by_rows = without_scans(discovery.with_tasks(Tasks::of(rows_of(&fake, 9))));
        assert_eq!(described(&by_files), described(&by_rows));
        assert_ne!(by_files.tasks, by_rows.tasks);
    }
}

/// Files say nothing of processes while rows do, but for a cgroup that came since.
#[test]
fn rows_stand_for_files_until_they_fail_and_then_no_round_is_lost() {
    let fake = Fake::new();
    let mut discovery = discovery_with(&fake, false, &[]).with_tasks(Tasks::of(rows_of(&fake, 2)));
    let in_files = stat_line(100, "fio", 1, 4000, 1);
    fake.write("proc/100/stat", &in_files);
    fake.write("proc/101/stat", stat_line(101, "other", 1, 77, 1));
    let mut at = |seconds: u64| discovery.round(Nanos((100 + seconds) * SECOND));
    let excluded = |view: &View, id: &str| watched(view, id).excluded.clone();
    assert_eq!(excluded(&at(0), FIO), None, "not as its file says");
    fake.process(102, "new", "/system.slice/new.service", 4002);
    fake.write("proc/102/stat", stat_line(102, "new", 2, 4002, 1));
    fake.cgroup("system.slice/new.service", &[102]);
    let view = at(1);
    assert_eq!(excluded(&view, FIO), None);
    let new = "/system.slice/new.service";
    assert_eq!(
        excluded(&view, new),
        Some(Excluded::RealTime),
        "by its list, at once"
    );
    let view = at(2);
    assert_eq!(excluded(&view, new), None, "the rows have no process in it");
    assert!(view.tasks.starts_with("a BPF iterator"), "{}", view.tasks);
    let view = at(4);
    for id in [FIO, STRESS, new] {
        assert_eq!(
            excluded(&view, id),
            Some(Excluded::RealTime),
            "{id}, by files"
        );
    }
    assert!(
        view.tasks.contains("one by one") && view.tasks.contains("it broke"),
        "{}",
        view.tasks
    );
    assert_eq!(view.workloads.len(), 5);
}

#[test]
fn files_kept_open_are_let_go_once_all_processes_are_read_at_once() {
    let fake = Fake::new();
    // Each of four cgroups has its list and its process read.
    let budget = Budget::new(8);
    let mut discovery = discovery_with(&fake, false, &[]).keeping(Arc::clone(&budget));
    let round =
        |discovery: &mut Discovery, seconds: u64| discovery.round(Nanos((100 + seconds) * SECOND));
    let all = || {
        let keep = |_| budget.keep(open_root(&fake.roots().proc).unwrap(), Rank::EachTick);
        let kept: Vec<_> = (0..8).filter_map(keep).collect();
        kept.len()
    };
    round(&mut discovery, 0);
    assert_eq!(all(), 8);
    round(&mut discovery, 2);
    assert_eq!(all(), 0);
    let mut discovery = discovery.with_tasks(Tasks::of(rows_of(&fake, 9)));
    round(&mut discovery, 6);
    assert_eq!(all(), 8);
}

#[test]
fn processes_of_a_workload_are_listed_where_it_has_memory_on_a_device() {
    let fake = Fake::new();
    let rows = Rows {
        more_ns: SECOND,
        ..rows_of(&fake, 9)
    };
    let mut discovery = discovery_with(&fake, false, &[]).with_tasks(Tasks::of(rows));
    let mut at = |seconds: u64| {
        let all = discovery.round(Nanos(seconds * SECOND)).processes();
        let ids: Vec<_> = all.keys().map(|id| id.as_str().to_owned()).collect();
        assert_eq!(ids, [FIO], "the others have nothing there");
        let found = all[&WorkloadId::new(FIO)].clone();
        let one = found.busiest[0].clone();
        assert_eq!(
            (one.pid, one.comm.as_str(), found.busiest.len()),
            (100, "fio", 1)
        );
        (
            found.at.0 / SECOND,
            one.cpu_cpus.map(|c| c.get()),
            one.part_ratio,
        )
    };
    assert_eq!(at(100), (100, None, None), "one read is no rate");
    assert_eq!(at(101), (100, None, None), "not read again yet");
    assert_eq!(at(102), (102, Some(0.5), Some(1.0)));
    assert_eq!(at(103), (102, Some(0.5), Some(1.0)));
}
