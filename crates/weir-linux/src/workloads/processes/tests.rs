// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, stat_line};
use crate::kernel::files::{for_each_line, open_file, open_root};
use crate::workloads::processes::numa_maps::ELSEWHERE;
use crate::workloads::processes::rescan::SCAN_EVERY;
use proptest::prelude::*;
use std::fs;
use weir_core::Bytes;

fn members(fake: &Fake) -> (ProcessCache, Buffer) {
    let proc = Arc::new(open_root(&fake.roots().proc).unwrap());
    (ProcessCache::new(proc, vec![NodeId(1)]), Buffer::new())
}

fn scan(members: &mut ProcessCache, buffer: &mut Buffer, pids: &[u32], at: Nanos) {
    members.begin_round();
    for pid in pids {
        members.meet(*pid, at, buffer);
    }
    members.scan(at, Nanos(u64::MAX), buffer);
}

fn on_node_1(resident: &Resident) -> Option<u64> {
    resident.bytes.get(&NodeId(1)).copied()
}

#[test]
fn shared_files_count_once_and_private_memory_adds_up() {
    let fake = Fake::new();
    fake.numa_maps(
        100,
        &[
            ("file=/dev/shm/a", 1, 10),
            ("file=/dev/shm/a", 1, 5),
            ("anon=3", 1, 3),
        ],
    );
    fake.numa_maps(
        101,
        &[
            ("file=/dev/shm/a", 1, 12),
            ("file=/dev/shm/b", 1, 1),
            ("anon=4", 1, 4),
            ("anon=9", 0, 9),
        ],
    );
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(1));
    let both = members.resident(&[100, 101]);
    assert_eq!(on_node_1(&both), Some((15 + 1 + 3 + 4) * 4096));
    assert_eq!(both.bytes.get(&ELSEWHERE), Some(&(9 * 4096)));
    assert_eq!(both.bytes.len(), 2, "node 0 is not watched");
    assert_eq!(both.all_bytes(), Some(Bytes((23 + 9) * 4096)));
    assert_eq!(
        on_node_1(&members.resident(&[101])),
        Some((12 + 1 + 4) * 4096)
    );
    assert_eq!(members.resident(&[]).at, None);
}

/// `numa_maps` of four million bytes on node 1, of `what`, that begin at `start`.
fn thousand_pages(start: u64, what: &str) -> String {
    format!("{start:x} default {what} N1=1000 kernelpagesize_kB=4\n")
}

#[test]
fn a_process_whose_first_thread_has_ended_has_the_memory_of_the_others() {
    let fake = Fake::new();
    let maps = thousand_pages(0x7f00_0000_0000, "anon=1000");
    fake.write("proc/100/numa_maps", "");
    fake.write("proc/100/task/100/numa_maps", "");
    // This one is about to end too.
    fake.write("proc/100/task/101/numa_maps", "");
    fake.write("proc/100/task/102/numa_maps", &maps);
    fake.write("proc/100/task/103/numa_maps", &maps);
    // A zombie has no memory, and no other thread.
    fake.write("proc/101/numa_maps", "");
    fake.write("proc/101/task/101/numa_maps", "");
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(1));
    assert_eq!(on_node_1(&members.resident(&[100])), Some(1000 * 4096));
    let zombie = members.resident(&[101]);
    assert!(zombie.missing.is_none() && zombie.bytes.is_empty());
}

/// Pages on node 1 of two processes that have a file of such a name mapped, with such a device and inode.
fn of_both(name: &str, files: [Option<&str>; 2]) -> u64 {
    let fake = Fake::new();
    for (pid, start, file) in [
        (100, 0x7f00_0000_0000u64, files[0]),
        (101, 0x7f99_0000_0000, files[1]),
    ] {
        let what = format!("file={name} mapped=1000");
        fake.write(
            format!("proc/{pid}/numa_maps"),
            thousand_pages(start, &what),
        );
        if let Some(file) = file {
            let end = start + 1000 * 4096;
            let maps = format!("{start:x}-{end:x} rw-s 00000000 {file}  /some/name\n");
            fake.write(format!("proc/{pid}/maps"), maps);
        }
    }
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(1));
    on_node_1(&members.resident(&[100, 101])).unwrap() / 4096
}

#[test]
fn a_file_is_known_by_its_inode_and_else_by_a_name_that_has_a_place() {
    let (one, other, elsewhere) = (Some("00:01 4711"), Some("00:01 4712"), Some("00:31 4711"));
    for unlinked in [
        "/memfd:java_heap\\040(deleted)",
        "/SYSV00000000\\040(deleted)",
        "/dev/zero\\040(deleted)",
        "/anon_hugepage\\040(deleted)",
        "/var/lib/db/old\\040(deleted)",
    ] {
        assert_eq!(of_both(unlinked, [one, one]), 1000, "{unlinked}");
        assert_eq!(of_both(unlinked, [one, other]), 2000, "{unlinked}");
        assert_eq!(of_both(unlinked, [None, None]), 2000, "{unlinked}");
    }
    // One path in two containers.
    assert_eq!(of_both("/data/db", [one, elsewhere]), 2000);
    // Two paths of one file: a bind mount.
    assert_eq!(of_both("/data/db", [one, one]), 1000);
    assert_eq!(of_both("/data/db", [None, None]), 1000);
}

#[test]
fn processes_of_one_name_are_told_apart_whenever_they_come() {
    let fake = Fake::new();
    let begin = 0x7f00_0000_0000u64;
    for (pid, inode) in [(100, 7), (101, 8), (102, 8), (103, 7)] {
        fake.process(pid, "vm", "/system.slice/fio.service", 4000);
        let what = "file=/memfd:heap\\040(deleted) mapped=1000";
        fake.write(format!("proc/{pid}/numa_maps"), thousand_pages(begin, what));
        fake.write(
            format!("proc/{pid}/maps"),
            format!("{begin:x}-7f1000000000 rw-s 00000000 00:01 {inode} /memfd:heap (deleted)\n"),
        );
    }
    let (mut members, mut buffer) = members(&fake);
    let mut pages = |at: u64, pids: &[u32]| {
        let at = Nanos(at * 1_000_000_000_000);
        scan(&mut members, &mut buffer, pids, at);
        on_node_1(&members.resident(pids)).unwrap() / 4096
    };
    assert_eq!(pages(1, &[100]), 1000);
    assert_eq!(pages(2, &[100, 101]), 2000, "another file");
    assert_eq!(pages(3, &[100, 101, 102]), 2000, "the file of the second");
    // The first of the name has gone.
    assert_eq!(pages(4, &[101, 102, 103]), 2000);
    assert_eq!(pages(5, &[103]), 1000);
    assert_eq!(pages(6, &[101, 103]), 2000);
}

#[test]
fn memory_elsewhere_may_change_a_little_and_files_there_count_once() {
    let fake = Fake::new();
    let there = |pages| {
        [
            ("file=/usr/lib/c", 0, 20),
            ("anon=1", 0, pages),
            ("anon=2", 1, 7),
        ]
    };
    fake.numa_maps(100, &there(80));
    fake.numa_maps(101, &there(80));
    let (mut members, mut buffer) = members(&fake);
    let mut pause_after = |pages: u64| {
        fake.numa_maps(100, &there(pages));
        let at = members.get(100).map_or(Nanos(1), |m| m.due.at());
        scan(&mut members, &mut buffer, &[100, 101], at);
        let elsewhere = members.resident(&[100, 101]).bytes[&ELSEWHERE];
        let next = members.get(100).unwrap().due.at();
        (Nanos(next.0 - at.0), elsewhere)
    };
    assert_eq!(pause_after(80), (SCAN_EVERY, (20 + 80 + 80) * 4096));
    assert_eq!(pause_after(90).0, Nanos(SCAN_EVERY.0 * 2));
    assert_eq!(pause_after(120), (SCAN_EVERY, (20 + 120 + 80) * 4096));
}

#[test]
fn each_absence_has_its_own_reason() {
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    members.begin_round();
    assert!(members.meet(100, Nanos(1), &mut buffer));
    assert!(!members.meet(99, Nanos(1), &mut buffer));
    assert_eq!(members.resident(&[100]).unread, 1);
    fake.remove("proc/100/numa_maps");
    members.scan(Nanos(1), Nanos(u64::MAX), &mut buffer);
    assert!(matches!(
        members.resident(&[100]).missing,
        Some(Missing::NotSupported(_))
    ));
    fake.write("proc/100/numa_maps", "what is this\n");
    scan(&mut members, &mut buffer, &[100], Nanos(SCAN_EVERY.0 + 1));
    assert!(matches!(
        members.resident(&[100]).missing,
        Some(Missing::Lost(_))
    ));
    fake.write("proc/100/numa_maps", "");
    scan(
        &mut members,
        &mut buffer,
        &[100],
        Nanos(SCAN_EVERY.0 * 2 + 1),
    );
    let empty = members.resident(&[100]);
    assert!(empty.missing.is_none() && empty.unread == 0 && empty.bytes.is_empty());
}

#[test]
fn scans_are_spaced_and_budgeted() {
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(1));
    fake.numa_maps(100, &[("anon=1", 1, 1)]);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(SCAN_EVERY.0));
    assert_eq!(
        on_node_1(&members.resident(&[100])),
        Some(16_384 * 4096),
        "too early"
    );
    scan(
        &mut members,
        &mut buffer,
        &[100, 101],
        Nanos(1_000_000_000_000),
    );
    assert_eq!(on_node_1(&members.resident(&[100])), Some(4096));

    let (mut members, mut buffer) = self::members(&fake);
    for (turn, unread) in [(1, 1), (2, 0)] {
        members.begin_round();
        for pid in [100, 101] {
            members.meet(pid, Nanos(turn), &mut buffer);
        }
        members.scan(Nanos(turn), Nanos(0), &mut buffer);
        assert_eq!(members.resident(&[100, 101]).unread, unread, "one a turn");
        assert_eq!(members.has_unread(), unread > 0);
    }
}

#[test]
fn memory_that_cannot_have_changed_is_not_scanned() {
    let fake = Fake::new();
    fake.write("proc/vmstat", "pgmigrate_success 5\n");
    let (mut members, mut buffer) = members(&fake);
    let mut seen_at = |seconds: u64| {
        let at = Nanos::from_millis(seconds * 1000);
        scan(&mut members, &mut buffer, &[100], at);
        let resident = members.resident(&[100]);
        let is_of_now = resident.at.is_some_and(|then| then >= at);
        (on_node_1(&resident).unwrap() / 4096, is_of_now)
    };
    assert_eq!(seen_at(1).0, 16_384);
    // No kernel does that: it shows whether the memory is read.
    fake.numa_maps(100, &[("anon=1", 1, 1)]);
    assert_eq!(seen_at(10), (16_384, true), "known to be as it was");
    fake.write("proc/vmstat", "pgmigrate_success 6\n");
    assert_eq!(seen_at(20).0, 1);
    fake.numa_maps(100, &[("anon=1", 1, 2)]);
    assert_eq!(seen_at(30).0, 1);
    let faulted = stat_line(100, "fio", 0, 4000, 1).replace("4194304 0 0 0", "4194304 0 0 1");
    fake.write("proc/100/stat", faulted);
    assert_eq!(seen_at(40).0, 2);
}

#[test]
fn a_kernel_thread_is_read_seldom() {
    const PF_KTHREAD: &str = "2097152";
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    let kernel = stat_line(100, "kworker/0:1", 0, 10, 1).replace("4194304", PF_KTHREAD);
    fake.write("proc/100/stat", &kernel);
    let mut name_at = |at: u64| {
        members.begin_round();
        members.meet(100, Nanos(at), &mut buffer);
        members.scan(Nanos(at), Nanos(u64::MAX), &mut buffer);
        members.get(100).unwrap().comm.clone()
    };
    assert_eq!(name_at(1), "kworker/0:1");
    fake.write("proc/100/stat", kernel.replace("0:1", "0:2"));
    assert_eq!(name_at(POLICY_EVERY.0), "kworker/0:1", "too early");
    assert_eq!(name_at(POLICY_EVERY.0 + 1), "kworker/0:2");
    // Its number is another process's now.
    fake.write("proc/100/stat", stat_line(100, "fio", 0, 9999, 1));
    assert_eq!(name_at(3 * POLICY_EVERY.0), "fio");
}

#[test]
fn a_recycled_process_id_is_another_process() {
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100], Nanos(1));
    fake.write("proc/100/stat", stat_line(100, "other", 0, 9999, 1));
    members.begin_round();
    members.meet(100, Nanos(2), &mut buffer);
    assert_eq!(members.get(100).unwrap().start_ticks, 9999);
    assert_eq!(members.resident(&[100]).unread, 1);
    members.begin_round();
    members.scan(Nanos(3), Nanos(u64::MAX), &mut buffer);
    assert!(members.get(100).is_none(), "not met in this round");
}

#[test]
fn a_kept_file_of_an_ended_process_says_nothing_of_the_next_with_its_number() {
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    let budget = Budget::new(9);
    scan(&mut members, &mut buffer, &[100], Nanos(1));
    members.keep_stat(100, &budget);
    let mut start_of = |stat: String, at| {
        // It is as if it had ended: nothing can be read any more. Then another file stands there.
        fake.write("proc/100/stat", "");
        fake.remove("proc/100/stat");
        fake.write("proc/100/stat", stat);
        members.begin_round();
        let is_there = members.meet(100, Nanos(at), &mut buffer);
        is_there.then(|| members.get(100).unwrap().start_ticks)
    };
    let other = stat_line(100, "other", 0, 9999, 1);
    assert_eq!(start_of(other, 2), Some(9999));
    assert_eq!(start_of(String::new(), 3), None);
}

#[test]
fn one_that_ended_on_a_real_kernel_is_gone_though_its_file_is_kept() {
    let mut child = std::process::Command::new("sleep")
        .arg("100")
        .spawn()
        .unwrap();
    let proc = open_root(std::path::Path::new("/proc")).unwrap();
    let mut members = ProcessCache::new(Arc::new(proc), vec![]);
    let (mut buffer, budget) = (Buffer::new(), Budget::new(1));
    let is_kept = || !budget.has_room(Rank::EachTick);
    members.begin_round();
    assert!(members.meet(child.id(), Nanos(1), &mut buffer));
    members.keep_stat(child.id(), &budget);
    assert!(members.meet(child.id(), Nanos(2), &mut buffer) && is_kept());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!members.meet(child.id(), Nanos(3), &mut buffer) && !is_kept());
}

#[test]
fn an_unscanned_process_is_reported_until_its_scan() {
    let fake = Fake::new();
    let (mut members, mut buffer) = members(&fake);
    assert!(!members.has_unread());
    scan(&mut members, &mut buffer, &[2, 100, 101], Nanos(1));
    assert!(!members.has_unread(), "kernel threads have no memory");
    members.watch(vec![NodeId(0)]);
    assert!(members.has_unread());
    scan(&mut members, &mut buffer, &[2, 100, 101], Nanos(3));
    assert!(!members.has_unread());
}

#[test]
fn one_real_time_thread_is_enough() {
    let fake = Fake::new();
    fake.write("proc/100/stat", stat_line(100, "fio", 0, 4000, 2));
    fake.write("proc/100/task/100/stat", stat_line(100, "fio", 0, 4000, 2));
    fake.write("proc/100/task/105/stat", stat_line(105, "fio", 1, 4000, 2));
    let (mut members, mut buffer) = members(&fake);
    scan(&mut members, &mut buffer, &[100, 101], Nanos(1));
    assert!(members.get(100).unwrap().real_time);
    assert!(!members.get(101).unwrap().real_time);
    fake.write("proc/101/stat", stat_line(101, "stress", 6, 4001, 1));
    scan(&mut members, &mut buffer, &[100, 101], Nanos(2));
    assert!(
        members.get(101).unwrap().real_time,
        "at once where it shows in stat"
    );
    fake.write("proc/100/task/105/stat", stat_line(105, "fio", 0, 4000, 2));
    scan(
        &mut members,
        &mut buffer,
        &[100, 101],
        Nanos(POLICY_EVERY.0 + 2),
    );
    assert!(!members.get(100).unwrap().real_time);
}

#[test]
fn our_own_memory_adds_up_on_a_real_kernel() {
    let Ok(proc) = open_root(std::path::Path::new("/proc")) else {
        return;
    };
    let pid = std::process::id();
    if !fs::exists(format!("/proc/{pid}/numa_maps")).unwrap_or(false) {
        eprintln!("skipped: this kernel has no numa_maps");
        return;
    }
    let mut members = ProcessCache::new(Arc::new(proc), (0..64).map(NodeId).collect());
    scan(&mut members, &mut Buffer::new(), &[pid], Nanos(1));
    let sum: u64 = members.resident(&[pid]).bytes.values().sum();
    assert!((100 << 10..1 << 40).contains(&sum), "{sum} bytes");
}

/// The lines of `text` as the plain version would find them.
fn lines_by_hand(text: &[u8], most: usize) -> Vec<Vec<u8>> {
    let lines = text
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty() && l.len() < most);
    lines.map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn lines_in_chunks_are_the_lines_of_the_whole(text in "[ab\n]{0,200}", size in 8usize..40) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("maps"), &text).unwrap();
        let fd = open_file(open_root(dir.path()).unwrap(), "maps").unwrap();
        let mut seen = Vec::new();
        for_each_line(&fd, &mut vec![0; size], u64::MAX, |line| seen.push(line.to_vec())).unwrap();
        prop_assert_eq!(seen, lines_by_hand(text.as_bytes(), size));
    }

    #[test]
    fn any_numa_maps_is_survived(bytes: Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("100")).unwrap();
        fs::write(dir.path().join("100/stat"), stat_line(100, "fio", 0, 1, 1)).unwrap();
        fs::write(dir.path().join("100/numa_maps"), &bytes).unwrap();
        let proc = Arc::new(open_root(dir.path()).unwrap());
        let mut members = ProcessCache::new(proc, vec![NodeId(1)]);
        scan(&mut members, &mut Buffer::new(), &[100], Nanos(1));
        prop_assert_eq!(members.resident(&[100]).unread, 0);
    }
}
