// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::kernel::FileChange;
use crate::fake::{Fake, kernel as fake_kernel};
use crate::kernel::files::{inode, open_root};
use crate::leases::LeaseBook;
use crate::platform::lease_books::{BOOKS, reset, reset_even_if_running};
use crate::task_traffic::COUNTING;
use rustix::io::Errno;
use std::os::unix::fs::PermissionsExt;

const FIO: &str = "/system.slice/fio.service";

fn max_of(path: &str) -> String {
    format!("sys/fs/cgroup{path}/cpu.max")
}

fn inode_of(fake: &Fake, path: &str) -> u64 {
    inode(open_root(&fake.path(format!("sys/fs/cgroup{path}"))).unwrap())
        .unwrap()
        .st_ino
}

/// A journal as a weir process leaves it when it is killed after it has written `wrote` to each cgroup.
fn left_behind(fake: &Fake, lines: &str) {
    fake.write("run/weir/journal.jsonl", lines);
    for (path, mode) in [("run/weir", 0o700), ("run/weir/journal.jsonl", 0o600)] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(fake.path(path), mode).unwrap();
    }
}

fn hold(fake: &Fake, path: &str, wrote: &[&str]) -> String {
    let inode = inode_of(fake, path);
    let mut text = format!(
        "{{\"op\":\"hold\",\"path\":\"{path}\",\"inode\":{inode},\"max\":\"max 100000\",\"burst_us\":7}}\n"
    );
    for max in wrote {
        text += &format!("{{\"op\":\"wrote\",\"inode\":{inode},\"max\":\"{max}\"}}\n");
    }
    text
}

fn ids(list: &[WorkloadId]) -> Vec<&str> {
    list.iter().map(WorkloadId::as_str).collect()
}

#[test]
fn without_a_journal_there_is_nothing_to_do() {
    let fake = Fake::new();
    assert!(reset(&fake.roots()).unwrap().is_empty());
    assert!(!fake.path("run/weir").exists());
    assert!(reset_even_if_running(&fake.roots()).unwrap().is_empty());
}

#[test]
fn a_burst_comes_back_under_the_quota_that_stands() {
    let burst = format!("sys/fs/cgroup{FIO}/cpu.max.burst");
    // A value that another program set since is left alone, but the lowered burst was weir's.
    for (there, wanted) in [
        ("50000 100000", "7"),
        ("5 100000", "5"),
        ("max 100000", "7"),
    ] {
        let fake = Fake::new();
        left_behind(&fake, &hold(&fake, FIO, &["2000 20000"]));
        fake.write(max_of(FIO), there);
        fake.write(&burst, "0\n");
        let report = reset(&fake.roots()).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(fake.read(max_of(FIO)), there);
        assert_eq!(fake.read(&burst), wanted, "under {there}");
    }
}

#[test]
fn each_moment_of_death_is_restored_exactly() {
    // What was in the file when weir died: the last value, the one before (the last did not get
    // there), or still theirs.
    for (there, restored) in [("2000 20000", 1), ("1000 20000", 1), ("max 100000", 0)] {
        let fake = Fake::new();
        left_behind(
            &fake,
            &hold(&fake, FIO, &["5 5", "1000 20000", "2000 20000"]),
        );
        fake.write(max_of(FIO), there);
        let report = reset(&fake.roots()).unwrap();
        assert_eq!(report.restored.len() + report.unchanged.len(), 1);
        assert!(report.restored.len() >= restored, "{there}: {report:?}");
        assert_eq!(fake.read(max_of(FIO)), "max 100000");
        let burst = fake.read(format!("sys/fs/cgroup{FIO}/cpu.max.burst"));
        assert_eq!(burst, "7", "was 0, as weir leaves it");
        assert!(!fake.path("run/weir/journal.jsonl").exists());
        assert!(reset(&fake.roots()).unwrap().is_empty(), "once is enough");
    }
}

#[test]
fn gone_cgroups_and_new_ones_under_the_old_name() {
    let fake = Fake::new();
    fake.cgroup("a", &[]);
    let text = hold(&fake, FIO, &["1000 20000"]) + &hold(&fake, "/a", &["1000 20000"]);
    left_behind(&fake, &text);
    fake.remove("sys/fs/cgroup/a");
    std::fs::rename(fake.path(format!("sys/fs/cgroup{FIO}")), fake.path("old")).unwrap();
    fake.cgroup("system.slice/fio.service", &[100]);
    fake.write(max_of(FIO), "1000 20000");
    let mut report = reset(&fake.roots()).unwrap();
    report.vanished.sort();
    assert_eq!(ids(&report.vanished), ["/a", FIO]);
    assert_eq!(fake.read(max_of(FIO)), "1000 20000");
}

#[test]
fn a_hostile_journal_writes_nothing_outside_the_tree() {
    let fake = Fake::new();
    fake.write("outside/cpu.max", "1000 20000");
    let inode = inode(open_root(&fake.path("outside")).unwrap())
        .unwrap()
        .st_ino;
    std::os::unix::fs::symlink(fake.path("outside"), fake.path("sys/fs/cgroup/link")).unwrap();
    let absolute = fake.path("outside").display().to_string();
    let mut text = String::new();
    for (n, path) in [
        "/../../../outside",
        "/link",
        "/a/../../../../outside",
        &absolute,
    ]
    .iter()
    .enumerate()
    {
        // The right inode with each path in succession: only the path is wrong.
        let inode = if n == 0 { inode } else { inode + n as u64 };
        text += &format!(
            "{{\"op\":\"hold\",\"path\":\"{path}\",\"inode\":{inode},\"max\":\"max 100000\"}}\n"
        );
        text += &format!("{{\"op\":\"wrote\",\"inode\":{inode},\"max\":\"1000 20000\"}}\n");
    }
    left_behind(&fake, &text);
    let report = reset(&fake.roots()).unwrap();
    assert!(
        report.restored.is_empty() && report.unchanged.is_empty(),
        "{report:?}"
    );
    assert_eq!(fake.read("outside/cpu.max"), "1000 20000");
}

#[test]
fn damage_is_reported_kept_and_does_not_stop_the_rest() {
    let fake = Fake::new();
    left_behind(
        &fake,
        &format!("{{nonsense\n{}", hold(&fake, FIO, &["1000 20000"])),
    );
    fake.write(max_of(FIO), "1000 20000");
    let report = reset(&fake.roots()).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert_eq!(report.problems.len(), 1);
    assert!(!report.is_clean());
    assert_eq!(fake.read(max_of(FIO)), "max 100000");
    assert!(fake.path("run/weir/journal.damaged").exists());
    assert!(!fake.path("run/weir/journal.jsonl").exists());
}

/// A damaged journal with one limit that was left behind.
fn damaged(there: &str) -> Fake {
    let fake = Fake::new();
    let text = format!("{{nonsense\n{}", hold(&fake, FIO, &["1000 20000"]));
    left_behind(&fake, &text);
    fake.write(max_of(FIO), there);
    fake
}

/// While there is no inode left in the file system of `/run`.
fn without_inodes<T>(act: impl FnOnce() -> T) -> T {
    let is_full = |change: FileChange<'_>| matches!(change, FileChange::Create | FileChange::Link);
    fake_kernel::install(
        Box::new(move |_, change| is_full(change).then_some(Err(Errno::NOSPC))),
        Box::new(|_, _| None),
    );
    let done = act();
    fake_kernel::uninstall();
    done
}

#[test]
fn a_damaged_journal_is_restored_where_it_cannot_be_kept() {
    let fake = damaged("1000 20000");
    std::fs::create_dir_all(fake.path("run/weir/journal.damaged/there")).unwrap();
    let before = fake.read("run/weir/journal.jsonl");
    let report = reset(&fake.roots()).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert_eq!(fake.read(max_of(FIO)), "max 100000");
    assert_eq!(report.problems.len(), 2, "{report:?}");
    assert!(report.problems[1].contains("journal.damaged"), "{report:?}");
    assert_eq!(
        fake.read("run/weir/journal.jsonl"),
        before,
        "nothing is lost"
    );
    // Then a weir process can limit.
    let mut book = LeaseBook::new(&fake.roots(), BOOKS);
    assert_eq!(ids(&book.claim().unwrap().unchanged), [FIO]);
}

#[test]
fn a_damaged_journal_is_restored_and_kept_without_a_free_inode() {
    let fake = damaged("1000 20000");
    let report = without_inodes(|| reset(&fake.roots())).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert!(fake.read("run/weir/journal.damaged").contains("nonsense"));
    assert!(!fake.path("run/weir/journal.jsonl").exists());
}

#[test]
fn what_failed_stays_in_a_damaged_journal_that_cannot_be_written_anew() {
    let fake = damaged("unreadable");
    let before = fake.read("run/weir/journal.jsonl");
    let report = without_inodes(|| reset(&fake.roots())).unwrap();
    assert_eq!((report.failed.len(), report.problems.len()), (1, 2));
    assert_eq!(fake.read("run/weir/journal.jsonl"), before);
    fake.write(max_of(FIO), "1000 20000");
    assert_eq!(ids(&reset(&fake.roots()).unwrap().restored), [FIO]);
    assert!(fake.read("run/weir/journal.damaged").contains("nonsense"));
}

#[test]
fn an_unsound_file_of_another_book_does_not_hide_what_was_restored() {
    let fake = damaged("1000 20000");
    let counting = fake.path("run/weir/counting.jsonl");
    std::os::unix::fs::symlink("/etc/passwd", counting).unwrap();
    let report = reset(&fake.roots()).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert!(report.problems[1].contains("counting.jsonl"), "{report:?}");
    assert!(!report.is_clean());
}

/// A weir process that only observes counts by resctrl, and none limits.
#[test]
fn a_living_observer_is_left_alone_also_by_a_caller_who_insists() {
    let fake = Fake::new();
    left_behind(&fake, &hold(&fake, FIO, &["1000 20000"]));
    fake.write(max_of(FIO), "1000 20000");
    let (group, mask) = (
        "mon_groups/weir-7-ab-0",
        "info/L3_MON/mbm_total_bytes_config",
    );
    fake.write(format!("sys/fs/resctrl/{group}/tasks"), "");
    fake.write(format!("sys/fs/resctrl/{mask}"), "0=0x30\n");
    let mut observer = LeaseBook::new(&fake.roots(), &[COUNTING]);
    observer.claim().unwrap();
    let setting = serde_json::json!({"file": mask, "theirs": "0=0x7f", "ours": "0=0x30"});
    let lease = serde_json::json!({"op": "resctrl", "mark": "weir-7-ab", "setting": setting});
    observer.note(&lease).unwrap();
    let report = reset_even_if_running(&fake.roots()).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fake.read(format!("sys/fs/resctrl/{mask}")), "0=0x30\n");
    assert!(fake.path(format!("sys/fs/resctrl/{group}")).exists());
    assert!(fake.path("run/weir/counting.jsonl").exists());
    drop(observer);
}

/// A weight and a limit of one cgroup are two leases and one line of the report.
#[test]
fn a_cgroup_is_listed_once() {
    for (max, weight, list) in [
        ("1000 20000", "10", "restored"),
        ("max 100000", "10", "restored"),
        ("max 100000", "100", "unchanged"),
        ("5 5", "10", "left alone"),
        ("1000 20000", "77", "left alone"),
        ("5 5", "77", "left alone"),
        ("unreadable", "10", "failed"),
        ("unreadable", "77", "failed"),
        ("unreadable", "unreadable", "failed"),
    ] {
        let fake = Fake::new();
        let inode = inode_of(&fake, FIO);
        let weights = format!(
            "{{\"op\":\"weight\",\"path\":\"{FIO}\",\"inode\":{inode},\"weight\":100}}\n\
             {{\"op\":\"weighed\",\"inode\":{inode},\"weight\":10}}\n"
        );
        let text = hold(&fake, FIO, &["1000 20000"]).replace(",\"burst_us\":7", "");
        left_behind(&fake, &(text + &weights));
        fake.write(max_of(FIO), max);
        fake.write(format!("sys/fs/cgroup{FIO}/cpu.weight"), weight);
        let report = reset(&fake.roots()).unwrap();
        let counts = [
            ("restored", report.restored.len()),
            ("unchanged", report.unchanged.len()),
            ("vanished", report.vanished.len()),
            ("left alone", report.left_alone.len()),
            ("failed", report.failed.len()),
        ];
        for (name, count) in counts {
            assert_eq!(
                count,
                usize::from(name == list),
                "{max}, {weight}: {report:?}"
            );
        }
    }
}

#[test]
fn a_living_weir_is_not_reset_unless_the_caller_insists() {
    let fake = Fake::new();
    left_behind(&fake, &hold(&fake, FIO, &["1000 20000"]));
    fake.write(max_of(FIO), "1000 20000");
    let dir = RunDir::open(&fake.roots()).unwrap().unwrap();
    let _lock = dir.lock().unwrap();
    assert!(matches!(
        reset(&fake.roots()),
        Err(LinuxError::Locked { .. })
    ));
    let report = reset_even_if_running(&fake.roots()).unwrap();
    assert_eq!(ids(&report.restored), [FIO]);
    assert!(
        fake.path("run/weir/journal.jsonl").exists(),
        "the living weir's own"
    );
}

/// Each line as it stands in the file, to the byte.
#[test]
fn a_journal_with_lines_of_each_kind_is_restored() {
    let fake = Fake::new();
    for (name, pids) in [("a", &[201, 202][..]), ("a\u{7f}b", &[203]), ("c", &[])] {
        fake.cgroup(name, pids);
        fake.write(format!("sys/fs/cgroup/{name}/cgroup.threads"), "");
    }
    let inode = |path: &str| inode_of(&fake, path);
    let (fio, b, c) = (inode(FIO), inode("/a\u{7f}b"), inode("/c"));
    let lines = [
        format!(r#"{{"op":"hold","path":"{FIO}","inode":{fio},"max":"max 100000","burst_us":7}}"#),
        format!(r#"{{"op":"wrote","inode":{fio},"max":"10000 20000"}}"#),
        format!(r#"{{"op":"weight","path":"{FIO}","inode":{fio},"weight":313,"nice":-5}}"#),
        format!(r#"{{"op":"weighed","inode":{fio},"weight":31}}"#),
        format!(r#"{{"op":"hold","path":"/a\\177b","inode":{b},"max":"50000 100000"}}"#),
        format!(r#"{{"op":"wrote","inode":{b},"max":"1000 20000"}}"#),
        format!(r#"{{"op":"moved","path":"/c","inode":{c},"policies":{{"4000000":[3,70]}}}}"#),
        format!(r#"{{"op":"hold","path":"/c","inode":{c},"max":"max 100000","burst_us":0}}"#),
        format!(r#"{{"op":"done","inode":{c}}}"#),
        format!(r#"{{"op":"weight","path":"/c","inode":{c},"weight":100}}"#),
        format!(r#"{{"op":"weight_done","inode":{c}}}"#),
        format!(r#"{{"op":"moved","path":"/c","inode":{c}}}"#),
    ];
    left_behind(&fake, &(lines.join("\n") + "\n"));
    for (path, value) in [
        (max_of(FIO), "10000 20000"),
        (format!("sys/fs/cgroup{FIO}/cpu.weight"), "31"),
        (format!("sys/fs/cgroup{FIO}/cpu.weight.nice"), "12"),
        (max_of("/a\u{7f}b"), "1000 20000"),
        (max_of("/c"), "1000 20000"),
    ] {
        fake.write(path, value);
    }
    let mut report = reset(&fake.roots()).unwrap();
    report.restored.sort();
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(fake.read(max_of(FIO)), "max 100000");
    assert_eq!(fake.read(format!("sys/fs/cgroup{FIO}/cpu.max.burst")), "7");
    assert_eq!(fake.read(format!("sys/fs/cgroup{FIO}/cpu.weight")), "313");
    let nice = fake.read(format!("sys/fs/cgroup{FIO}/cpu.weight.nice"));
    assert_eq!(nice, "-5");
    assert_eq!(fake.read(max_of("/a\u{7f}b")), "50000 100000");
    assert_eq!(fake.read(max_of("/c")), "1000 20000", "it was done with");
    assert_eq!(ids(&report.restored), ["/a\\177b", FIO]);
    assert_eq!(ids(&report.unchanged), ["/c"]);
    assert!(report.failed.is_empty(), "{report:?}");
}

fn line(record: &impl serde::Serialize) -> String {
    serde_json::to_string(record).unwrap()
}

/// A journal outlives an upgrade: its lines keep their form.
#[test]
fn lines_of_limits_have_their_form() {
    use crate::backends::cpu_max::lease::CpuMaxRecord;
    use crate::backends::cpu_max::weight_lease::WeightRecord;
    let (path, inode) = ("/a".to_owned(), 7);
    let hold = |burst_us| CpuMaxRecord::Hold {
        path: path.clone(),
        inode,
        max: "max 100000".into(),
        burst_us,
    };
    let start = r#"{"op":"hold","path":"/a","inode":7,"max":"max 100000""#;
    assert_eq!(line(&hold(None)), format!("{start}}}"));
    assert_eq!(line(&hold(Some(5))), format!(r#"{start},"burst_us":5}}"#));
    let done = CpuMaxRecord::Done { inode };
    assert_eq!(line(&done), r#"{"op":"done","inode":7}"#);
    let weight = WeightRecord::Weight {
        path,
        inode,
        weight: 100,
        nice: Some(0),
    };
    let text = r#"{"op":"weight","path":"/a","inode":7,"weight":100,"nice":0}"#;
    assert_eq!(line(&weight), text);
    let weighed = WeightRecord::Weighed { inode, weight: 5 };
    assert_eq!(line(&weighed), r#"{"op":"weighed","inode":7,"weight":5}"#);
    let done = WeightRecord::WeightDone { inode };
    assert_eq!(line(&done), r#"{"op":"weight_done","inode":7}"#);
}

#[test]
fn lines_of_moves_have_their_form() {
    use crate::backends::sched_ext::threads::{ScxThread, ThreadsRecord};
    let (path, inode) = ("/a".to_owned(), 7);
    let policies = [(9, serde_json::from_str("[3,70]").unwrap())].into();
    let moved = ThreadsRecord::Moved(ScxThread {
        path,
        inode,
        policies,
        chosen: Default::default(),
    });
    let text = r#"{"op":"moved","path":"/a","inode":7,"policies":{"9":[3,70]}}"#;
    assert_eq!(line(&moved), text);
    let done = r#"{"op":"done","inode":7}"#;
    assert_eq!(line(&ThreadsRecord::Done { inode }), done);
}
