// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use crate::fake::kernel::{self, FileChange};
use crate::kernel::files::open_root;
use std::sync::atomic::AtomicBool;

const OWN: &str = "sys/fs/cgroup/weir.slice/pid-100-4000";
const FIO_PROCS: &str = "sys/fs/cgroup/system.slice/fio.service/cgroup.procs";

fn process(pid: u32, start_ticks: u64) -> Process {
    let gone = AtomicBool::new(false);
    Process {
        pid,
        start_ticks,
        gone,
    }
}

/// A process that was taken and not moved back.
fn taken(fake: &Fake) -> (OwnedFd, TakenProcess) {
    fake.write("sys/fs/cgroup/weir.slice/cgroup.subtree_control", "cpu\n");
    fake.cgroup("weir.slice/pid-100-4000", &[]);
    let root = open_root(&fake.roots().cgroup).unwrap();
    let proc = open_root(&fake.roots().proc).unwrap();
    let mut buffer = Buffer::new();
    let process = process(100, 4000);
    let home = home(root.as_fd(), &proc, &process, &mut buffer).unwrap();
    let planned = TakenProcess::planned(root.as_fd(), &process, &home).unwrap();
    let (dir, take) = prepare(root.as_fd(), planned).unwrap();
    carry(root.as_fd(), &proc, &dir, &take, &mut buffer).unwrap();
    assert_eq!(fake.read(format!("{OWN}/cgroup.procs")), "100");
    (root, take)
}

#[test]
fn home_is_where_the_process_is() {
    let fake = Fake::new();
    let root = open_root(&fake.roots().cgroup).unwrap();
    let proc = open_root(&fake.roots().proc).unwrap();
    let find = |pid, start| {
        home(
            root.as_fd(),
            &proc,
            &process(pid, start),
            &mut Buffer::new(),
        )
    };
    let fio = find(100, 4000).unwrap();
    assert_eq!(
        (fio.path.as_slice(), fio.others),
        (&b"/system.slice/fio.service"[..], 0)
    );
    assert_eq!(
        find(100, 4001).err(),
        Some(OutcomeKind::Vanished),
        "recycled"
    );
    assert_eq!(find(99, 1).err(), Some(OutcomeKind::Vanished));
    fake.write("proc/100/cgroup", "0::/../other\n");
    assert!(
        matches!(find(100, 4000), Err(OutcomeKind::Refused(_))),
        "outside our namespace"
    );
    fake.write("proc/100/cgroup", "1:cpu:/\n");
    assert!(matches!(find(100, 4000), Err(OutcomeKind::Refused(_))));
    fake.write("proc/100/cgroup", "0::/\n");
    assert!(find(100, 4000).unwrap().dir.is_none());
}

#[test]
fn what_was_taken_goes_back_with_its_children() {
    let fake = Fake::new();
    let (root, take) = taken(&fake);
    fake.write(format!("{OWN}/cgroup.procs"), "100\n107\n");
    let given = kernel::during(kernel::cgroups, || {
        put_back(root.as_fd(), &take, &mut Buffer::new())
    });
    assert_eq!(given, UndoOutcome::Restored);
    assert_eq!(fake.read(FIO_PROCS), "100\n107\n");
    assert!(!fake.path(OWN).exists());
}

/// Between the list and the move of its parent, or between the last move and the end of the cgroup.
#[test]
fn a_child_that_is_born_meanwhile_goes_back_too() {
    for born_at in ["cgroup.procs", "pid-100-4000"] {
        let fake = Fake::new();
        let (root, take) = taken(&fake);
        let own = fake.path(format!("{OWN}/cgroup.procs"));
        let mut is_born = false;
        let given = kernel::during(
            move |path, change| {
                if path.ends_with(born_at) && !std::mem::replace(&mut is_born, true) {
                    let inside = std::fs::read_to_string(&own).unwrap();
                    std::fs::write(&own, format!("{}108\n", inside.replace("100", "100\n")))
                        .unwrap();
                }
                kernel::cgroups(path, change)
            },
            || put_back(root.as_fd(), &take, &mut Buffer::new()),
        );
        assert_eq!(given, UndoOutcome::Restored, "{born_at}");
        assert!(fake.read(FIO_PROCS).contains("108"), "{born_at}");
    }
}

/// The others go back, and the lease stays.
#[test]
fn one_process_that_cannot_go_back_is_tried_again() {
    let fake = Fake::new();
    let (root, take) = taken(&fake);
    fake.write(format!("{OWN}/cgroup.procs"), "100\n107\n");
    let given = kernel::during(
        |path, change| match change {
            FileChange::Write("100") => Some(Err(Errno::BUSY)),
            _ => kernel::cgroups(path, change),
        },
        || put_back(root.as_fd(), &take, &mut Buffer::new()),
    );
    assert!(
        matches!(&given, UndoOutcome::Failed(why) if why.contains("process 100")),
        "{given:?}"
    );
    assert!(fake.read(FIO_PROCS).contains("107"));
    assert_eq!(fake.read(format!("{OWN}/cgroup.procs")), "100\n");
}

#[test]
fn an_empty_cgroup_of_ours_is_removed() {
    let fake = Fake::new();
    let (root, take) = taken(&fake);
    for entry in std::fs::read_dir(fake.path(OWN)).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(
        put_back(root.as_fd(), &take, &mut Buffer::new()),
        UndoOutcome::Restored
    );
    assert!(!fake.path(OWN).exists());
    assert_eq!(
        put_back(root.as_fd(), &take, &mut Buffer::new()),
        UndoOutcome::Vanished
    );
}

#[test]
fn without_its_old_home_a_process_stays() {
    let fake = Fake::new();
    let (root, take) = taken(&fake);
    std::fs::rename(fake.path("sys/fs/cgroup/system.slice"), fake.path("old")).unwrap();
    let given = put_back(root.as_fd(), &take, &mut Buffer::new());
    assert!(matches!(given, UndoOutcome::LeftAlone(_)), "{given:?}");
    fake.cgroup("system.slice/fio.service", &[]);
    let given = put_back(root.as_fd(), &take, &mut Buffer::new());
    assert!(
        matches!(given, UndoOutcome::LeftAlone(_)),
        "another cgroup has its name: {given:?}"
    );
}

/// weir died after the cgroup was made and before its inode was noted.
#[test]
fn a_cgroup_that_was_only_planned_is_removed_and_nothing_is_moved() {
    let fake = Fake::new();
    let (root, take) = taken(&fake);
    let planned = TakenProcess { inode: 0, ..take };
    let undo = || put_back(root.as_fd(), &planned, &mut Buffer::new());
    // Files stand for processes here: such a directory cannot be removed.
    assert!(matches!(undo(), UndoOutcome::LeftAlone(_)));
    assert_eq!(fake.read(FIO_PROCS), "100\n");
    fake.remove(OWN);
    std::fs::create_dir(fake.path(OWN)).unwrap();
    assert_eq!(undo(), UndoOutcome::Restored);
    assert_eq!(undo(), UndoOutcome::Vanished);
}

#[test]
fn only_our_own_cgroups_are_emptied() {
    for to in [
        "/system.slice/fio.service",
        "/weir.slice",
        "/weir.slice/pid-",
        "/weir.slice/pid-1/../..",
        "/weir.slice/pid-1/x",
        "weir.slice/pid-1",
    ] {
        assert!(!is_ours(to.as_bytes()), "{to}");
    }
    assert!(is_ours(b"/weir.slice/pid-1-2"));
}
