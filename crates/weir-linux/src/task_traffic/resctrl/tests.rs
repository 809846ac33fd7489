// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On a tree of files in the kernel's formats. No resctrl of a kernel was ever met by this code.

use super::*;
use crate::fake::Fake;
use crate::options::{AttributionSource, By};
use crate::workloads::discovery::Process;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

pub(super) const ROOT: &str = "sys/fs/resctrl";
pub(super) const MASKS: &str = "sys/fs/resctrl/info/L3_MON/mbm_total_bytes_config";
const FILTER: &str = "sys/fs/resctrl/info/L3_MON/event_configs/mbm_total_bytes/event_filter";
pub(super) const JOURNAL: &str = "run/weir/counting.jsonl";
const FREE: &str = "res:/\nmon:\n";

/// Makes groups as the kernel does, as long as there are ids.
struct Made {
    dir: PathBuf,
    room: AtomicU32,
    answer: Errno,
    names: Arc<Mutex<Vec<String>>>,
}

impl Maker for Made {
    fn make(&self, _: &OwnedFd, name: &str) -> Result<(), Errno> {
        let left = self.room.load(Ordering::Relaxed);
        if left == 0 {
            return Err(self.answer);
        }
        self.room.store(left - 1, Ordering::Relaxed);
        for cache in ["mon_L3_00", "mon_L3_01"] {
            let dir = self.dir.join(name).join("mon_data").join(cache);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("mbm_total_bytes"), "0\n").unwrap();
            fs::write(dir.join("mbm_local_bytes"), "0\n").unwrap();
        }
        fs::write(self.dir.join(name).join("tasks"), "").unwrap();
        self.names.lock().unwrap().push(name.to_owned());
        Ok(())
    }

    fn remove(&self, _: &OwnedFd, name: &str) -> Result<(), Errno> {
        self.room.fetch_add(1, Ordering::Relaxed);
        fs::remove_dir_all(self.dir.join(name)).map_err(|_| Errno::NOENT)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Cpu {
    /// Total and local: Intel, AMD before Zen 4.
    Plain,
    /// The CPU has BMEC: its events can be masked.
    Masks,
    /// The CPU has ABMC, and it is in use.
    Filters,
}

pub(super) fn mounted(cpu: Cpu) -> Fake {
    let fake = Fake::new();
    let mut features = "llc_occupancy\nmbm_total_bytes\n".to_owned();
    if cpu == Cpu::Masks {
        features += "mbm_total_bytes_config\n";
        fake.write(MASKS, "0=0x7f;1=0x7f\n");
    }
    if cpu == Cpu::Filters {
        fake.write(FILTER, "local_reads,remote_reads,local_reads_slow_memory\n");
        fake.write(
            format!("{ROOT}/info/L3_MON/mbm_assign_mode"),
            "[mbm_event]\ndefault\n",
        );
    }
    features += "mbm_local_bytes\n";
    fake.write(format!("{ROOT}/info/L3_MON/mon_features"), features);
    fake.write(format!("{ROOT}/info/L3_MON/num_rmids"), "256\n");
    fake.write(format!("{ROOT}/tasks"), "");
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups"))).unwrap();
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_data/mon_L3_00"))).unwrap();
    for pid in [100, 101] {
        thread(&fake, pid, pid, FREE);
    }
    fake
}

fn thread(fake: &Fake, pid: u32, tid: u32, standing: &str) {
    fs::create_dir_all(fake.path(format!("proc/{pid}/task/{tid}"))).unwrap();
    fake.write(format!("proc/{tid}/cpu_resctrl_groups"), standing);
}

fn process(pid: u32) -> Watches {
    Watches::Process(Arc::new(Process {
        pid,
        start_ticks: 1,
        gone: false.into(),
    }))
}

pub(super) struct World {
    resctrl: Resctrl,
    names: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(super) fn new(fake: &Fake, room: u32, answer: Errno) -> World {
        let names = Arc::default();
        let maker = Made {
            dir: fake.path(format!("{ROOT}/mon_groups")),
            room: room.into(),
            answer,
            names: Arc::clone(&names),
        };
        let tree = ResctrlTree::open(&fake.roots()).unwrap();
        let resctrl = Resctrl::with(&fake.roots(), tree, Box::new(maker)).unwrap();
        World { resctrl, names }
    }

    pub(super) fn follow(&mut self, pids: &[u32]) {
        self.resctrl.follow_at = Nanos(0);
        let sources: Vec<(Key, Watches)> = pids
            .iter()
            .map(|pid| (Key((*pid).into()), process(*pid)))
            .collect();
        self.resctrl
            .follow(&sources.iter().map(|(key, source)| (*key, source)).collect());
    }

    pub(super) fn count(&mut self, pid: u32) -> Result<u64, Missing> {
        let sum = self.resctrl.of_process(Key(pid.into()));
        sum.map(|sum| sum.0[0].count)
    }

    /// Where the group is that was made as the nth.
    fn group(&self, nth: usize) -> String {
        format!("{ROOT}/mon_groups/{}", self.names.lock().unwrap()[nth])
    }

    fn says(&self, fake: &Fake, nth: usize, values: [&str; 2]) {
        for (cache, value) in values.iter().enumerate() {
            let file = format!(
                "{}/mon_data/mon_L3_{cache:02}/mbm_total_bytes",
                self.group(nth)
            );
            fake.write(file, format!("{value}\n"));
        }
    }
}

pub(super) fn groups(fake: &Fake) -> Vec<String> {
    let entries = fs::read_dir(fake.path(format!("{ROOT}/mon_groups"))).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn why_not(fake: &Fake) -> String {
    ResctrlTree::open(&fake.roots()).unwrap_err().to_string()
}

#[test]
fn what_is_lacking_is_named() {
    let fake = Fake::new();
    assert!(why_not(&fake).contains("CONFIG_X86_CPU_RESCTRL"));
    fs::create_dir_all(fake.path(ROOT)).unwrap();
    assert!(
        why_not(&fake).contains("mount -t resctrl resctrl"),
        "{}",
        why_not(&fake)
    );
    let features = format!("{ROOT}/info/L3_MON/mon_features");
    fs::create_dir_all(fake.path(format!("{ROOT}/info"))).unwrap();
    assert!(why_not(&fake).contains("mon_features"));
    fake.write(&features, "llc_occupancy\n");
    assert!(why_not(&fake).contains("counts no bandwidth"));
    fake.write(&features, "mbm_total_bytes\n");
    assert!(why_not(&fake).contains("neither slow nor remote"));
    fake.write(&features, vec![b'm'; 1 << 20]);
    assert!(matches!(
        ResctrlTree::open(&fake.roots()),
        Err(Missing::Lost(_))
    ));
    fake.remove(&features);
    std::os::unix::fs::symlink("/proc/uptime", fake.path(&features)).unwrap();
    assert!(matches!(
        ResctrlTree::open(&fake.roots()),
        Err(Missing::Lost(_))
    ));
}

#[test]
fn each_cpu_has_its_events() {
    let of = |cpu| ResctrlTree::open(&mounted(cpu).roots()).unwrap();
    assert_eq!(of(Cpu::Plain).events, Events::Remote);
    assert_eq!(of(Cpu::Masks).events, Events::Slow(Knob::Mask));
    let filters = of(Cpu::Filters);
    assert_eq!(filters.events, Events::Slow(Knob::Filter));
    assert_eq!((filters.id_count, filters.foreign_groups), (Some(256), 0));
    let fake = mounted(Cpu::Plain);
    fs::create_dir_all(fake.path(format!("{ROOT}/database"))).unwrap();
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/theirs"))).unwrap();
    fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/weir-1-2-3"))).unwrap();
    assert_eq!(ResctrlTree::open(&fake.roots()).unwrap().foreign_groups, 2);
}

#[test]
fn a_workload_is_counted_and_all_is_given_back() {
    for (cpu, file, before, during) in [
        (Cpu::Masks, MASKS, "0=0x7f;1=0x7f\n", "0=0x30;1=0x30\n"),
        (
            Cpu::Filters,
            FILTER,
            "local_reads,remote_reads,local_reads_slow_memory\n",
            "local_reads_slow_memory,remote_reads_slow_memory\n",
        ),
    ] {
        let fake = mounted(cpu);
        fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/theirs"))).unwrap();
        let mut world = World::new(&fake, 9, Errno::NOSPC);
        assert_eq!(fake.read(file), during);
        assert_eq!(world.count(100), Err(Missing::NotYetRead));
        world.follow(&[100, 101]);
        assert_eq!(fake.read(format!("{}/tasks", world.group(0))), "100\n");
        assert_eq!(fake.read(format!("{}/tasks", world.group(1))), "101\n");
        assert_eq!((world.count(100), world.count(101)), (Ok(0), Ok(0)));
        world.says(&fake, 0, ["640", "Unavailable"]);
        assert!(world.count(100).is_err(), "it had a count there");
        world.says(&fake, 0, ["640", "64"]);
        assert_eq!((world.count(100), world.count(101)), (Ok(704), Ok(0)));
        drop(world);
        assert_eq!(fake.read(file).trim(), before.trim());
        assert_eq!(groups(&fake), ["theirs"]);
        assert!(!fake.path(JOURNAL).exists());
    }
}

#[test]
fn what_is_not_local_is_counted_where_nothing_else_can_be() {
    let fake = mounted(Cpu::Plain);
    let mut world = World::new(&fake, 9, Errno::NOSPC);
    world.follow(&[100]);
    assert_eq!(world.count(100), Ok(0));
    world.says(&fake, 0, ["100", "100"]);
    fake.write(
        format!("{}/mon_data/mon_L3_00/mbm_local_bytes", world.group(0)),
        "70\n",
    );
    assert_eq!(world.count(100), Ok(130));
    let notes = world.resctrl.notes();
    assert!(
        notes[0].why.to_string().contains("other sockets"),
        "{notes:?}"
    );
}

/// The list of features names the setting, and the kernel does not take it.
#[test]
fn a_setting_that_is_refused_is_done_without() {
    let fake = mounted(Cpu::Masks);
    fake.remove(MASKS);
    let world = World::new(&fake, 9, Errno::NOSPC);
    assert_eq!(world.resctrl.tree.events, Events::Remote);
    drop(world);
    assert!(!fake.path(JOURNAL).exists());
}

#[test]
fn ids_run_out_for_some() {
    for (answer, want) in [
        (Errno::NOSPC, "no id (RMID) is left, of 256"),
        (Errno::BUSY, "waiting"),
    ] {
        let fake = mounted(Cpu::Masks);
        let mut world = World::new(&fake, 1, answer);
        world.follow(&[100, 101]);
        assert_eq!(world.count(100), Ok(0));
        let why = world.count(101).unwrap_err().to_string();
        assert!(why.contains(want), "{why}");
        let notes = world.resctrl.notes();
        assert!(notes[0].why.to_string().contains(want), "{notes:?}");
        assert_eq!(world.resctrl.said.len(), 1);
        // The first ends, and its id is the other's.
        world.resctrl.forget(&|key| key != Key(100));
        assert_eq!(groups(&fake).len(), 0);
        world.resctrl.groups.clear();
        world.follow(&[101]);
        assert_eq!(world.count(101), Ok(0));
    }
}

#[test]
fn who_comes_and_leaves_is_followed() {
    let fake = mounted(Cpu::Masks);
    let mut world = World::new(&fake, 9, Errno::NOSPC);
    world.follow(&[100]);
    let tasks = format!("{}/tasks", world.group(0));
    let name = world.names.lock().unwrap()[0].clone();
    fake.write(
        "proc/100/cpu_resctrl_groups",
        format!("res:/\nmon:{name}\n"),
    );
    fake.write(&tasks, "");
    // One came by a move, one was made inside.
    thread(&fake, 100, 110, FREE);
    thread(&fake, 100, 111, &format!("res:/\nmon:{name}\n"));
    world.follow(&[100]);
    assert_eq!(fake.read(&tasks), "110\n");
    // One left by a move, and is still counted here; another program moved another on.
    for (tid, standing) in [
        (110, format!("res:/\nmon:{name}\n")),
        (111, "res:/\nmon:theirs\n".into()),
    ] {
        fake.remove(format!("proc/100/task/{tid}"));
        fake.write(format!("proc/{tid}/cpu_resctrl_groups"), standing);
    }
    world.follow(&[100]);
    assert_eq!(fake.read(format!("{ROOT}/tasks")), "110\n");
    // One that was made inside and has left unseen: the recount finds it.
    fake.write(format!("{ROOT}/tasks"), "");
    thread(&fake, 101, 112, &format!("res:/\nmon:{name}\n"));
    fake.write(&tasks, "100\n112\n");
    world.follow(&[100]);
    assert_eq!(fake.read(format!("{ROOT}/tasks")), "");
    for state in world.resctrl.groups.values_mut() {
        if let GroupState::Counted(group) = state {
            group.recount_at = Nanos(0);
        }
    }
    world.follow(&[100]);
    assert_eq!(fake.read(format!("{ROOT}/tasks")), "112\n");
}

#[test]
fn groups_of_others_keep_their_tasks() {
    for standing in [
        "res:/\nmon:theirs\n",
        "res:database\nmon:\n",
        "res:database\nmon:weir-1-1-1\n",
        "\x1b[2J",
    ] {
        let fake = mounted(Cpu::Masks);
        fs::create_dir_all(fake.path(format!("{ROOT}/mon_groups/theirs"))).unwrap();
        thread(&fake, 100, 110, standing);
        let mut world = World::new(&fake, 9, Errno::NOSPC);
        world.follow(&[100, 101]);
        assert_eq!(fake.read(format!("{}/tasks", world.group(0))), "100\n");
        let why = world.count(100).unwrap_err().to_string();
        assert!(
            why.contains("1 of its tasks are in groups of others"),
            "{why}"
        );
        assert_eq!(world.count(101), Ok(0));
        fake.remove("proc/100/task/110");
        world.follow(&[100, 101]);
        assert_eq!(world.count(100), Ok(0));
    }
}

#[test]
fn a_cgroup_is_asked_for_its_threads() {
    let fake = mounted(Cpu::Masks);
    let cgroup = "sys/fs/cgroup/system.slice/fio.service";
    fake.write(format!("{cgroup}/cgroup.threads"), "100\n0\n");
    let mut tree = crate::workloads::cgroups::tree::CgroupTree::open(
        &fake.roots().cgroup,
        Arc::new(crate::kernel::files::open_root(&fake.roots().proc).unwrap()),
        crate::kernel::fd_budget::Budget::new(9),
    )
    .unwrap();
    tree.refresh(Nanos(1), &mut Buffer::new());
    let leaf = tree
        .leaves()
        .find(|l| l.id.as_str().contains("fio"))
        .unwrap();
    let source = Watches::Cgroup(Arc::clone(leaf));
    let mut world = World::new(&fake, 9, Errno::NOSPC);
    let follow = |world: &mut World| {
        world.resctrl.follow_at = Nanos(0);
        world.resctrl.follow(&BTreeMap::from([(Key(5), &source)]));
        world.resctrl.of_cgroup(Key(5)).map(|sum| sum.0[0].count)
    };
    assert_eq!(follow(&mut world), Ok(0));
    assert_eq!(fake.read(format!("{}/tasks", world.group(0))), "100\n");
    for text in ["what is this\n".to_owned(), "1\n".repeat(4 << 20)] {
        fake.write(format!("{cgroup}/cgroup.threads"), text);
        assert!(follow(&mut world).is_err());
    }
    // It ends: its group goes once it was not wanted for a while.
    fake.remove(cgroup);
    assert!(follow(&mut world).is_err());
    for state in world.resctrl.groups.values_mut() {
        if let GroupState::Counted(group) = state {
            group.wanted_at = Nanos(0);
        }
    }
    world.follow(&[]);
    assert!(groups(&fake).is_empty());
}

#[test]
fn a_counter_is_asked_for_and_a_group_that_somebody_removed_is_made_anew() {
    let fake = mounted(Cpu::Filters);
    let mut world = World::new(&fake, 9, Errno::NOSPC);
    world.follow(&[100]);
    let assignments = format!("{}/mbm_L3_assignments", world.group(0));
    fake.write(&assignments, "mbm_total_bytes:0=_;1=_\n");
    world.says(&fake, 0, ["Unassigned", "Unassigned"]);
    assert!(world.count(100).is_err());
    assert_eq!(fake.read(&assignments), "mbm_total_bytes:*=e\n");
    world.says(&fake, 0, ["7", "0"]);
    assert_eq!(world.count(100), Ok(0));
    fake.remove(world.group(0));
    assert!(world.count(100).is_err());
    for _ in 0..2 {
        world.follow(&[100]);
    }
    assert_eq!(world.count(100), Ok(0));
    assert_eq!(groups(&fake), [world.names.lock().unwrap()[1].clone()]);
}

#[test]
fn it_is_taken_unasked_only_where_it_disturbs_nobody() {
    let auto = |fake: &Fake, read_only| {
        let mut options = fake.options(By::Process);
        options.read_only = read_only;
        Resctrl::open(&options, true)
            .map(drop)
            .map_err(|e| e.to_string())
    };
    let fake = mounted(Cpu::Masks);
    assert_eq!(auto(&fake, false), Ok(()));
    assert!(auto(&fake, true).unwrap_err().contains("only observes"));
    assert!(
        auto(&mounted(Cpu::Plain), false)
            .unwrap_err()
            .contains("remote")
    );
    fs::create_dir_all(fake.path(format!("{ROOT}/database"))).unwrap();
    assert!(auto(&fake, false).unwrap_err().contains("another program"));
    assert_eq!(fake.read(MASKS).trim(), "0=0x7f;1=0x7f");
    // If the operator chose it, it says what is in the way.
    let bare = Fake::new();
    let mut options = bare.options(By::Process);
    options.attribution = AttributionSource::Resctrl;
    let refused =
        crate::task_traffic::TaskTraffic::choose(&options, &mut weir_core::Description::default());
    let why = refused.err().unwrap().to_string();
    assert!(
        why.contains("resctrl cannot be used") && why.contains("leave --attribution"),
        "{why}"
    );
    let text = fact(&fake.options(By::Process)).value.unwrap();
    assert!(
        text.contains("groups of others: 1; not chosen automatically"),
        "{text}"
    );
}

#[test]
fn what_stands_in_proc_is_understood() {
    use tree::{GroupPlace, standing};
    let of = |text: &str| standing(text.as_bytes());
    assert_eq!(of(FREE), GroupPlace::Free);
    assert_eq!(of("res:/\nmon:a b\n"), GroupPlace::In("a b".into()));
    assert_eq!(of("res:x\nmon:\n"), GroupPlace::Controlled);
    for text in ["", "res:\nmon:\n", "mon:a\n", "res:/\n"] {
        assert_eq!(of(text), GroupPlace::Unknown, "{text}");
    }
}
