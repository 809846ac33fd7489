// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use proptest::prelude::*;

pub(crate) use crate::kernel::skeletons::task_iter::types::task_row as Row;

pub(crate) fn row(pid: u64, tgid: u64, cgroup: u64) -> Row {
    Row {
        pid,
        tgid,
        cgroup,
        flags: 0,
        start_ns: 40_009_999_999,
        cpu_ns: 5,
        faults: 3,
        resident_pages: 100,
        nice: 0,
        comm: b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0".map(u8::cast_signed),
    }
}

pub(crate) fn bytes(rows: &[Row]) -> Vec<u8> {
    let mut all = rows.to_vec();
    all.push(Row {
        flags: TASK_ROW_END,
        ..row(rows.len() as u64, 0, 0)
    });
    all.iter().flat_map(Row::as_bytes).copied().collect()
}

pub(crate) fn table(pieces: &[&[u8]]) -> Result<ProcessTable, Torn> {
    let mut sweep = Sweep::default();
    for piece in pieces {
        sweep.take(piece)?;
    }
    sweep.done()
}

#[test]
fn threads_are_folded_into_their_process() {
    let real_time = Row {
        flags: TASK_ROW_REAL_TIME,
        cpu_ns: 7,
        ..row(99, 100, 10)
    };
    let zombie = Row {
        flags: TASK_ROW_DEAD,
        ..row(102, 102, 10)
    };
    let kernel = Row {
        flags: TASK_ROW_KERNEL,
        nice: -20,
        ..row(2, 2, 1)
    };
    let first_of_two = Row {
        flags: TASK_ROW_DEAD,
        ..row(104, 104, 12)
    };
    // A thread's id may be below its process's; one without a process belongs to none.
    let rows = [
        kernel,
        real_time,
        row(100, 100, 10),
        zombie,
        row(103, 50, 11),
        first_of_two,
        row(105, 104, 12),
    ];
    let seen = table(&[&bytes(&rows)]).unwrap();
    assert_eq!(seen.pids().collect::<Vec<_>>(), [2, 100, 102, 104]);
    let fio = seen.get(100).unwrap();
    assert_eq!((fio.start_ticks, fio.cpu, fio.nice), (4000, Nanos(12), 0));
    assert_eq!(
        (fio.comm(), fio.real_time, fio.is_kernel),
        (&b"fio"[..], true, false)
    );
    let kernel = seen.get(2).unwrap();
    assert_eq!(
        (kernel.nice, kernel.is_kernel, kernel.real_time),
        (-20, true, false)
    );
    assert_eq!(seen.of_cgroup(10), [100], "lists have no zombies");
    assert!(seen.of_cgroup(11).is_empty());
    assert_eq!(seen.of_cgroup(12), [104], "one of its threads lives");
    assert!(seen.get(102).is_some() && seen.get(50).is_none());
}

#[test]
fn names_are_any_bytes_up_to_their_nul() {
    for (comm, name) in [
        (*b"a\nb) R 1\xff\x1b[2J\0..", &b"a\nb) R 1\xff\x1b[2J"[..]),
        (*b"\0was longer\0\0\0\0\0", b""),
        ([b'x'; 16], &[b'x'; 16]),
    ] {
        let seen = table(&[&bytes(&[Row {
            comm: comm.map(u8::cast_signed),
            ..row(7, 7, 1)
        }])])
        .unwrap();
        assert_eq!(seen.get(7).unwrap().comm(), name);
    }
}

#[test]
fn faults_are_those_of_all_threads_and_pages_may_be_unknown() {
    let faults = |faults, row| Row { faults, ..row };
    let unknown = Row {
        resident_pages: TASK_ROW_PAGES_UNKNOWN,
        ..row(20, 20, 1)
    };
    let rows = [
        faults(3, row(10, 10, 1)),
        faults(4, row(11, 10, 1)),
        unknown,
        row(21, 20, 1),
    ];
    let table = table(&[&bytes(&rows)]).unwrap();
    let signs = ChangeSigns {
        faults: 7,
        resident_pages: 100,
    };
    assert_eq!(table.get(10).unwrap().signs, Some(signs));
    assert_eq!(table.get(20).unwrap().signs, None);
}

#[test]
fn what_is_torn_has_a_name() {
    let whole = bytes(&[row(7, 7, 1), row(8, 7, 1)]);
    assert!(table(&[&whole]).is_ok());
    let at = |end: usize| table(&[&whole[..end]]).unwrap_err();
    assert_eq!(at(0), Torn::NoEnd(0));
    assert_eq!(at(ROW), Torn::NoEnd(1));
    assert_eq!(at(whole.len() - 1), Torn::Short(ROW - 1));
    assert_eq!(at(ROW + 5), Torn::Short(5));
    let lacking = [&whole[..ROW], &whole[2 * ROW..]].concat();
    let count = Torn::Count { seen: 1, said: 2 };
    assert_eq!(table(&[&lacking]).unwrap_err(), count);
    let twice = [&whole[..], &whole[..ROW]].concat();
    assert_eq!(table(&[&twice]).unwrap_err(), Torn::AfterEnd);
    for bad in [0, 1 << 31, u64::MAX] {
        let pid = bytes(&[row(bad, 7, 1)]);
        assert_eq!(table(&[&pid]).unwrap_err(), Torn::Id(bad));
        let tgid = bytes(&[row(7, bad, 1)]);
        assert_eq!(table(&[&tgid]).unwrap_err(), Torn::Id(bad));
    }
    let text = Torn::Short(5).to_string();
    assert_eq!(text, "5 bytes are left over, and a row has 88");
}

#[test]
fn rows_are_bounded() {
    let mut sweep = Sweep {
        rows: ROWS_MAX,
        ..Sweep::default()
    };
    assert_eq!(sweep.take(&bytes(&[row(7, 7, 1)])), Err(Torn::TooMany));
}

proptest! {
    #[test]
    fn pieces_of_any_length_are_the_whole(
        ids in prop::collection::vec((1u64..50, 1u64..50, 1u64..5), 0..20),
        cuts in prop::collection::vec(0usize..1500, 0..6),
    ) {
        let rows: Vec<Row> = ids.iter().map(|(pid, tgid, cgroup)| row(*pid, *tgid, *cgroup)).collect();
        let whole = bytes(&rows);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(whole.len())).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &whole[w[0]..w[1]]).collect();
        let (cut, plain) = (table(&pieces).unwrap(), table(&[&whole]).unwrap());
        prop_assert_eq!(cut.tasks, plain.tasks);
        prop_assert_eq!(cut.by_cgroup, plain.by_cgroup);
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        if let Ok(table) = table(&[&bytes]) {
            let _ = table.pids().count();
        }
    }

    #[test]
    fn any_damage_is_survived(at in 0..4 * ROW, byte: u8) {
        let mut damaged = bytes(&[row(7, 7, 1), row(8, 7, 1), row(9, 9, 2)]);
        damaged[at] = byte;
        if let Ok(table) = table(&[&damaged]) {
            let _ = (table.of_cgroup(1), table.get(7).map(|t| t.comm().len()));
        }
    }
}
