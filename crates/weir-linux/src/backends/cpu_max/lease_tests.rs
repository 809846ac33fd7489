// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::backends::LIMITS;
use crate::fake::Fake;
use crate::leases::journal::{self, COMPACT_AT, Journal};
use crate::leases::replay::{OpenBook, PROBLEMS_MAX};
use crate::leases::run_dir::RunDir;
use proptest::prelude::*;

fn max(text: &str) -> CpuMax {
    cpu_max(text.as_bytes()).unwrap()
}

fn lease(inode: u64) -> CpuMaxLease {
    let mut ours = LastTwo::default();
    ours.push(max("1000 20000"));
    ours.push(max("2000 20000"));
    CpuMaxLease {
        path: b"/a\xff\\b".to_vec(),
        inode,
        theirs: max("max 100000"),
        burst_us: Some(5),
        ours,
    }
}

fn lines(records: &[CpuMaxRecord]) -> Vec<u8> {
    let line = |record: &CpuMaxRecord| {
        let mut line = serde_json::to_vec(record).unwrap();
        line.push(b'\n');
        line
    };
    records.iter().flat_map(line).collect()
}

/// What a reader finds in a text: as lines, and what makes no sense.
fn found(text: &[u8]) -> (Vec<u8>, Vec<String>) {
    let mut open = OpenBook::new(LIMITS.kinds);
    let problems = open.replay_all(text);
    (open.text().unwrap(), problems)
}

fn of_leases(leases: &[CpuMaxLease]) -> Vec<u8> {
    leases.iter().flat_map(|l| lines(&l.records())).collect()
}

#[test]
fn a_journal_is_read_as_it_was_written() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let read = || journal::read_trusted(&dir, LIMITS.files.journal, journal::SIZE_MAX).unwrap();
    assert_eq!(read(), None);
    let text = of_leases(&[lease(1), lease(2)]);
    let mut journal = Journal::rewrite(&dir, LIMITS.files, &text).unwrap();
    let wrote = CpuMaxRecord::Wrote {
        inode: 1,
        max: "3000 20000".into(),
    };
    journal
        .append(&lines(&[wrote]), RecordPhase::Write)
        .unwrap();
    let done = CpuMaxRecord::Done { inode: 2 };
    journal.append(&lines(&[done]), RecordPhase::End).unwrap();
    let mut want = lease(1);
    want.ours.push(max("3000 20000"));
    assert_eq!(found(&read().unwrap()), (of_leases(&[want]), vec![]));
    for _ in 0..2 {
        journal::remove(&dir, LIMITS.files.journal).unwrap();
    }
    assert_eq!(read(), None);
}

#[test]
fn damage_is_named_by_its_line_and_the_rest_counts() {
    let mut text = of_leases(&[lease(1)]);
    text.extend_from_slice(b"\xff\xfe{]\n{\"op\":\"wrote\",\"inode\":9,\"max\":\"1 1\"}\n\n");
    text.extend_from_slice(
        b"{\"op\":\"hold\",\"path\":\"/\\\\101\",\"inode\":4,\"max\":\"max 1\"}\n",
    );
    text.extend_from_slice(
        b"{\"op\":\"hold\",\"path\":\"/b\",\"inode\":5,\"max\":\"max 1; reboot\"}\n",
    );
    text.extend_from_slice(b"{\"op\":\"reboot\"}\n");
    text.extend_from_slice(b"{\"op\":\"hold\",\"path\":\"/c\",\"inode\":6,\"max\":\"max 100000\"}");
    let (open, problems) = found(&text);
    assert_eq!(open, of_leases(&[lease(1)]));
    assert_eq!(problems.len(), 7, "{problems:?}");
    for (problem, number) in problems.iter().zip(4..) {
        assert!(
            problem.starts_with(&format!("line {number}: ")),
            "{problem}"
        );
    }
    assert!(problems[5].contains("unknown record \"reboot\""));
    assert!(problems[6].contains("truncated"));
    assert_eq!(found(&[b'\n'; 100]).1.len(), PROBLEMS_MAX + 1);
}

/// A line may be as long as the file. What is said of it is not.
#[test]
fn what_is_said_of_a_hostile_line_is_short() {
    let long = "é".repeat(1 << 20);
    for line in [
        format!("{{\"op\":\"{long}\"}}\n"),
        format!("{{\"op\":\"wrote\",\"inode\":\"{long}\",\"max\":\"\"}}\n"),
        format!("{{\"op\":\"hold\",\"inode\":1,\"max\":\"{long}\",\"path\":\"/a\"}}\n"),
        format!("{}\n", "[".repeat(1 << 20)),
    ] {
        let (open, problems) = found(line.as_bytes());
        assert!(open.is_empty());
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("line 1: ") && problems[0].len() < 300);
    }
}

#[test]
fn what_is_held_may_be_long_and_is_not_written_anew_each_time() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let size = || {
        let file = std::fs::metadata(fake.path("run/weir/journal.jsonl"));
        file.unwrap().len()
    };
    let many: Vec<CpuMaxLease> = (0..500).map(lease).collect();
    let mut journal = Journal::rewrite(&dir, LIMITS.files, &of_leases(&many)).unwrap();
    let before = size();
    assert!(
        before > 2 * COMPACT_AT && !journal.needs_rewrite(),
        "{before} bytes"
    );
    let record = lines(&[CpuMaxRecord::Wrote {
        inode: 3,
        max: "3000 20000".into(),
    }]);
    while !journal.needs_rewrite() {
        journal.append(&record, RecordPhase::Write).unwrap();
    }
    assert!(size() > 2 * before && size() < 2 * before + 1000);
    let text = journal::read_trusted(&dir, LIMITS.files.journal, journal::SIZE_MAX);
    let open = found(&text.unwrap().unwrap()).0;
    let holds = open
        .split(|b| *b == b'\n')
        .filter(|l| l.starts_with(b"{\"op\":\"hold\""));
    assert_eq!(holds.count(), 500);
    let mut short = Journal::rewrite(&dir, LIMITS.files, b"").unwrap();
    while !short.needs_rewrite() {
        short.append(&record, RecordPhase::Write).unwrap();
    }
    assert!(size() > COMPACT_AT);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        prop_assert!(found(&bytes).1.len() <= PROBLEMS_MAX + 1);
    }

    #[test]
    fn any_cut_loses_at_most_the_last_record(cut in 0usize..400) {
        let text = of_leases(&[lease(1)]);
        let whole = text.iter().take(cut).filter(|b| **b == b'\n').count();
        let (open, problems) = found(&text[..cut.min(text.len())]);
        prop_assert_eq!(!open.is_empty(), whole > 0);
        prop_assert!(problems.len() <= 1);
    }
}
