// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, kernel, stat_line};
use crate::kernel::files::open_root;
use crate::leases::LeaseBook;
use crate::leases::restore::ResetReport;
use crate::options::By;
use crate::platform::lease_books::{BOOKS, reset};
use crate::workloads::cgroups::tree::CgroupTree;
use crate::workloads::discovery::Discovery;
use crate::workloads::exclude::Rules;

const FIO: &str = "/system.slice/fio.service";
const FIO_MAX: &str = "sys/fs/cgroup/system.slice/fio.service/cpu.max";

struct World {
    fake: Fake,
    discovery: Discovery,
    actuator: CpuMaxBackend,
    context: BackendContext,
    view: View,
}

impl World {
    fn new(fake: Fake) -> Self {
        Self::with(fake, |_| ())
    }

    fn with(fake: Fake, change: impl FnOnce(&mut Options)) -> Self {
        Self::within(100, fake, change)
    }

    fn within(budget: usize, fake: Fake, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = fake.options(By::Cgroup);
        change(&mut options);
        let proc = Arc::new(open_root(&options.roots.proc).unwrap());
        let budget = Budget::new(budget);
        let tree = CgroupTree::open(
            &options.roots.cgroup,
            Arc::clone(&proc),
            Arc::clone(&budget),
        )
        .unwrap();
        let root = tree.root();
        let rules = Rules::new(options.exclude.clone(), None, None);
        let mut discovery = match options.by {
            By::Cgroup => Discovery::of_cgroups(tree, Arc::clone(&proc), rules.clone()),
            By::Process => Discovery::of_processes(Arc::clone(&proc), rules.clone()),
        };
        let view = discovery.round(Nanos(1));
        let leases = LeaseBook::new(&options.roots, BOOKS);
        let actuator = CpuMaxBackend::new(&options, budget);
        let context = BackendContext::new([root, proc], rules, leases);
        World {
            fake,
            discovery,
            actuator,
            context,
            view,
        }
    }

    fn limit(&mut self, id: &str, cpus: f64) -> OutcomeKind {
        let id = WorkloadId::new(id);
        let watched = self.view.get(&id);
        let cpus = CpuShare::new(cpus);
        self.actuator.limit(&id, watched, cpus, &mut self.context)
    }

    fn release(&mut self, id: &str) -> OutcomeKind {
        let id = WorkloadId::new(id);
        self.actuator.release(&id, &mut self.context)
    }

    fn tend(&mut self) {
        self.actuator.tend(&self.view, &mut self.context);
    }

    fn release_all(&mut self) -> Vec<(WorkloadId, OutcomeKind)> {
        let outcomes = self.actuator.release_all(&mut self.context);
        self.context.leases.end_if_empty();
        outcomes
    }

    /// weir is killed: descriptors close, and nothing is restored.
    fn crash(&mut self) {
        self.actuator.holds.clear();
        self.context.leases.crash();
    }

    fn max(&self) -> String {
        self.fake.read(FIO_MAX)
    }

    fn rewrites(&self) -> u64 {
        Backend::limit_rewrites(&self.actuator).unwrap()
    }

    fn journal(&self) -> String {
        std::fs::read_to_string(self.fake.path("run/weir/journal.jsonl")).unwrap_or_default()
    }
}

fn refused(outcome: OutcomeKind) -> String {
    match outcome {
        OutcomeKind::Refused(why) => why,
        other => panic!("{other:?} instead of a refusal"),
    }
}

#[test]
fn a_limit_is_set_once_and_put_back_exactly() {
    let mut world = World::new(Fake::new());
    assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Applied);
    assert_eq!(world.max(), "10000 20000");
    assert!(world.journal().contains("\"max\":\"max 100000\""));
    // A second write would refill the quota: plant a mark and see that it stays.
    world.fake.write(FIO_MAX, "10000  20000");
    assert_eq!(world.limit(FIO, 0.50001), OutcomeKind::Unchanged);
    assert_eq!(world.max(), "10000  20000");
    assert_eq!(world.limit(FIO, 0.02), OutcomeKind::Applied);
    assert_eq!(world.max(), "1000 50000");
    assert_eq!(world.release(FIO), OutcomeKind::Applied);
    assert_eq!(world.max(), "max 100000");
    assert_eq!(world.release(FIO), OutcomeKind::Unchanged);
    assert_eq!(world.release_all(), []);
    assert!(!world.fake.path("run/weir/journal.jsonl").exists());
}

#[test]
fn what_others_set_stays_in_force() {
    let fake = Fake::new();
    fake.write(FIO_MAX, "30000 100000\n");
    let mut world = World::new(fake);
    assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Unchanged);
    assert_eq!(world.max(), "30000 100000\n");
    assert!(!world.actuator.is_holding());
    assert_eq!(world.limit(FIO, 0.2), OutcomeKind::Applied);
    assert_eq!(world.max(), "4000 20000");
    let hold = world.actuator.holds.get(&WorkloadId::new(FIO)).unwrap();
    assert_eq!(hold.theirs(), Some(0.3));
    assert_eq!(world.limit(FIO, 0.9), OutcomeKind::Applied);
    assert_eq!(world.max(), "30000 100000", "never looser than theirs");
}

#[test]
fn a_change_by_others_is_theirs_and_ours_is_contested_slowly() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    world.fake.write(FIO_MAX, "max 50000\n");
    world.tend();
    assert_eq!(world.max(), "10000 20000", "ours is tighter: set again");
    world.fake.write(FIO_MAX, "max 60000\n");
    world.tend();
    assert_eq!(world.max(), "max 60000\n", "not more than once a second");
    let id = WorkloadId::new(FIO);
    world.actuator.holds.get_mut(&id).unwrap().contest_at = Nanos(0);
    world.tend();
    assert_eq!(world.max(), "10000 20000");
    world.fake.write(FIO_MAX, "2000 20000\n");
    world.tend();
    assert_eq!(world.max(), "2000 20000\n", "theirs is tighter: left");
    assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Unchanged);
    assert_eq!(world.release(FIO), OutcomeKind::Unchanged);
    assert_eq!(world.max(), "2000 20000\n");
}

/// A thread that sleeps until it is dropped.
struct Sleeper {
    _until: std::sync::mpsc::Sender<()>,
    tid: u32,
}

impl Sleeper {
    fn start() -> Self {
        let (until, ended) = std::sync::mpsc::channel::<()>();
        let (send, sent) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            send.send(u32::try_from(tid).unwrap()).unwrap();
            let _ = ended.recv();
        });
        Sleeper {
            _until: until,
            tid: sent.recv().unwrap(),
        }
    }

    /// False where this process has no right to.
    fn be_real_time(&self) -> bool {
        let param = libc::sched_param { sched_priority: 1 };
        let tid = libc::pid_t::try_from(self.tid).unwrap();
        // SAFETY: reads `param`, which lives.
        unsafe { libc::sched_setscheduler(tid, libc::SCHED_RR, &raw const param) == 0 }
    }
}

/// The `/proc` here is the test's own. Policies of the cgroup's threads come from the kernel by number, also
/// those of threads that this `/proc` does not show.
#[test]
fn one_real_time_thread_of_a_cgroup_is_found_by_its_number() {
    let fake = Fake::new();
    let own = std::process::id().to_string();
    fake.remove("proc/self");
    std::os::unix::fs::symlink(own, fake.path("proc/self")).unwrap();
    let sleepers = [Sleeper::start(), Sleeper::start()];
    let tids = format!("{}\n{}\n", sleepers[0].tid, sleepers[1].tid);
    fake.write(
        "sys/fs/cgroup/system.slice/fio.service/cgroup.threads",
        tids,
    );
    let mut world = World::new(fake);
    assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Applied);
    assert_eq!(world.release(FIO), OutcomeKind::Applied);
    if sleepers[1].be_real_time() {
        assert!(refused(world.limit(FIO, 0.5)).contains("real-time tasks"));
    } else {
        eprintln!("SKIP half: real-time threads need root");
    }
    drop(sleepers);
}

#[test]
fn excluded_workloads_are_checked_again_before_the_first_write() {
    let fake = Fake::new();
    let mut world = World::with(fake, |o| o.exclude = vec!["*stress*".into()]);
    assert!(
        refused(world.limit("/system.slice/stress.service", 1.0)).contains("on the exclude list")
    );
    assert!(refused(world.limit("/init.scope", 1.0)).contains("init process"));
    assert!(refused(world.limit("/weir.service", 1.0)).contains("weir does not limit itself"));
    // Became real-time after the view was made.
    let line = stat_line(100, "fio", 1, 4000, 1);
    world.fake.write("proc/100/stat", line);
    assert!(refused(world.limit(FIO, 1.0)).contains("real-time tasks"));
    assert_eq!(world.max(), "max 100000\n");
    assert_eq!(world.journal(), "");
}

#[test]
fn refusals_name_the_next_move() {
    let mut world = World::new(Fake::new());
    world.fake.remove(FIO_MAX);
    let slice = "sys/fs/cgroup/system.slice/cgroup.subtree_control";
    world.fake.write(slice, "memory pids\n");
    let why = refused(world.limit(FIO, 1.0));
    assert!(
        why.contains("ends at /system.slice") && why.contains("set-property fio.service"),
        "{why}"
    );
    world.fake.write("sys/kernel/sched_ext/state", "enabled\n");
    world.fake.write("sys/kernel/sched_ext/root/ops", "lavd\n");
    let mut world = World::new(world.fake);
    assert!(refused(world.limit(FIO, 1.0)).contains("lavd"));
    let mut world = World::with(Fake::new(), |o| o.read_only = true);
    refused(world.limit(FIO, 0.1));
    assert!(!world.fake.path("run/weir").exists());
}

#[test]
fn a_second_weir_is_refused_and_names_the_first() {
    let mut first = World::new(Fake::new());
    assert_eq!(first.limit(FIO, 0.5), OutcomeKind::Applied);
    let (mut actuator, mut context) = (first.actuator, first.context);
    let mut second = World::new(first.fake);
    let why = refused(second.limit(FIO, 0.2));
    assert!(
        why.contains(&format!("pid {}", std::process::id())),
        "{why}"
    );
    assert_eq!(second.max(), "10000 20000");
    actuator.release_all(&mut context);
    context.leases.end_if_empty();
    assert_eq!(second.limit(FIO, 0.2), OutcomeKind::Applied);
}

#[test]
fn limits_hold_without_kept_descriptors() {
    for budget in [0, 4, 5, 6] {
        let mut world = World::within(budget, Fake::new(), |_| ());
        assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Applied);
        world.tend();
        assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Applied);
        assert_eq!(world.max(), "8000 20000", "budget {budget}");
        world.fake.write(FIO_MAX, "4000 20000\n");
        world.tend();
        assert_eq!(world.limit(FIO, 0.3), OutcomeKind::Unchanged);
        world.fake.write(FIO_MAX, "max 100000\n");
        assert_eq!(world.limit(FIO, 0.3), OutcomeKind::Applied);
        assert_eq!(world.release(FIO), OutcomeKind::Applied);
        assert_eq!(world.max(), "max 100000", "budget {budget}");
        world.limit(FIO, 0.5);
        world.fake.remove("sys/fs/cgroup/system.slice/fio.service");
        if budget == 0 {
            assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Vanished);
            assert!(!world.actuator.is_holding());
        }
    }
}

#[test]
fn cgroups_that_are_gone_are_forgotten() {
    let mut world = World::new(Fake::new());
    assert_eq!(world.limit("/no/such", 1.0), OutcomeKind::Vanished);
    world.limit(FIO, 0.5);
    // Made anew under the same name: another inode, another cgroup.
    std::fs::rename(
        world.fake.path("sys/fs/cgroup/system.slice"),
        world.fake.path("old"),
    )
    .unwrap();
    world.fake.cgroup("system.slice/fio.service", &[100]);
    world.view = world.discovery.round(Nanos(20_000_000_000));
    assert_eq!(
        world.release(FIO),
        OutcomeKind::Applied,
        "in the directory it holds"
    );
    assert_eq!(world.fake.read("old/fio.service/cpu.max"), "max 100000");
    world.limit(FIO, 0.5);
    world.fake.remove("sys/fs/cgroup/system.slice");
    world.view = world.discovery.round(Nanos(40_000_000_000));
    assert_eq!(world.limit(FIO, 0.4), OutcomeKind::Vanished);
    world.tend();
    assert!(!world.actuator.is_holding(), "no workload any more");
}

#[test]
fn a_leaf_that_gets_children_is_released() {
    let mut world = World::new(Fake::new());
    world.limit(FIO, 0.5);
    world.fake.cgroup("system.slice/fio.service/child", &[100]);
    world.view = world.discovery.round(Nanos(20_000_000_000));
    world.tend();
    assert_eq!(world.max(), "max 100000");
}

#[test]
fn nothing_is_written_without_a_journal() {
    let mut world = World::new(Fake::new());
    world.context.leases.claim().unwrap();
    // A directory where the journal's successor is to be made: compaction fails, limits go on.
    world.fake.write("run/weir/journal.new/x", "");
    assert_eq!(world.limit(FIO, 0.5), OutcomeKind::Applied);
    let fake = Fake::new();
    fake.write("run/weir/journal.new/x", "");
    use std::os::unix::fs::PermissionsExt;
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(fake.path("run/weir"), private).unwrap();
    let mut world = World::new(fake);
    refused(world.limit(FIO, 0.5));
    assert_eq!(world.max(), "max 100000\n");
}

#[test]
fn a_process_alone_in_its_cgroup_is_limited_there() {
    let mut world = World::with(Fake::new(), |o| o.by = By::Process);
    assert_eq!(world.limit("pid:100@4000", 0.5), OutcomeKind::Applied);
    assert_eq!(world.max(), "10000 20000");
    assert_eq!(world.release("pid:100@4000"), OutcomeKind::Applied);
    world
        .fake
        .write("proc/100/stat", stat_line(100, "fio", 0, 9999, 1));
    assert_eq!(world.limit("pid:100@4000", 0.5), OutcomeKind::Vanished);
    assert_eq!(world.max(), "max 100000");
}

#[test]
fn a_process_in_company_is_refused() {
    let fake = Fake::new();
    fake.process(102, "fio", FIO, 4002);
    fake.cgroup("system.slice/fio.service", &[100, 102]);
    let mut world = World::with(fake, |o| o.by = By::Process);
    let why = refused(world.limit("pid:100@4000", 0.5));
    assert!(why.contains("with another process"), "{why}");
    assert!(why.contains("--workloads cgroup"), "no next move: {why}");
    assert_eq!(world.max(), "max 100000\n", "untouched");
}

#[path = "faults_tests.rs"]
mod faults;

#[path = "many_tests.rs"]
mod many;

#[path = "weight_tests.rs"]
mod weight;
