// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::Fake;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

fn max(text: &str) -> CpuMax {
    cpu_max(text.as_bytes()).unwrap()
}

fn lease(inode: u64) -> Lease {
    Lease {
        path: b"/a\xff\\b".to_vec(),
        inode,
        theirs: max("max 100000"),
        burst_us: Some(5),
        ours: vec![max("1000 20000"), max("2000 20000")],
    }
}

#[test]
fn a_story_is_told_again_as_it_was() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    assert_eq!(read(&dir).unwrap(), None);
    let records: Vec<_> = [lease(1), lease(2)]
        .iter()
        .flat_map(Lease::records)
        .collect();
    let mut journal = Journal::rewrite(&dir, &records).unwrap();
    journal
        .append(&Record::Wrote {
            inode: 1,
            max: "3000 20000".into(),
        })
        .unwrap();
    journal.append(&Record::Done { inode: 2 }).unwrap();
    let story = read(&dir).unwrap().unwrap();
    let mut want = lease(1);
    want.note_ours(max("3000 20000"));
    assert_eq!((story.leases, story.problems), (vec![want], vec![]));
    remove(&dir).unwrap();
    remove(&dir).unwrap();
    assert_eq!(read(&dir).unwrap(), None);
}

#[test]
fn damage_is_told_and_the_rest_counts() {
    let mut text = Vec::new();
    for record in lease(1).records() {
        text.extend(serde_json::to_vec(&record).unwrap());
        text.push(b'\n');
    }
    text.extend_from_slice(b"\xff\xfe{]\n{\"op\":\"wrote\",\"inode\":9,\"max\":\"1 1\"}\n\n");
    text.extend_from_slice(
        b"{\"op\":\"hold\",\"path\":\"/\\\\101\",\"inode\":4,\"max\":\"max 1\"}\n",
    );
    text.extend_from_slice(
        b"{\"op\":\"hold\",\"path\":\"/b\",\"inode\":5,\"max\":\"max 1; reboot\"}\n",
    );
    text.extend_from_slice(b"{\"op\":\"hold\",\"path\":\"/c\",\"inode\":6,\"max\":\"max 100000\"}");
    let story = parse(&text);
    assert_eq!(story.leases, vec![lease(1)]);
    assert_eq!(story.problems.len(), 6, "{:?}", story.problems);
    assert!(story.problems[5].contains("cut off"));
    assert_eq!(parse(&[b'\n'; 100]).problems.len(), PROBLEMS_MAX + 1);
}

fn many(count: u64) -> Vec<Record> {
    (0..count).flat_map(|n| lease(n).records()).collect()
}

#[test]
fn what_is_held_may_be_long_and_is_not_written_anew_each_time() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, &many(500)).unwrap();
    let size = journal.size;
    assert!(size > 2 * COMPACT_AT && !journal.is_long(), "{size} bytes");
    let record = Record::Wrote {
        inode: 3,
        max: "3000 20000".into(),
    };
    while !journal.is_long() {
        journal.append(&record).unwrap();
    }
    assert!(journal.size > 2 * size && journal.size < 2 * size + 1000);
    let bytes = std::fs::metadata(fake.path("run/weir/journal.jsonl"));
    assert_eq!(bytes.unwrap().len(), journal.size);
    assert_eq!(read(&dir).unwrap().unwrap().leases.len(), 500);
    let mut short = Journal::rewrite(&dir, &[]).unwrap();
    while !short.is_long() {
        short.append(&record).unwrap();
    }
    assert!(short.size > COMPACT_AT);
}

#[test]
fn it_is_rewritten_before_a_reader_would_refuse_it() {
    for size in [0, 1, 1 << 20, 6 << 20, 12 << 20, SIZE_MAX - DONE_ROOM - 1] {
        let at = compact_at(size);
        assert!(
            (size.max(1)..SIZE_MAX - DONE_ROOM).contains(&at),
            "{size}: {at}"
        );
    }
}

#[test]
fn nothing_is_held_that_a_reader_would_not_read_and_giving_back_is_told_all_the_same() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, &many(2)).unwrap();
    let before = read(&dir).unwrap();
    journal.size = SIZE_MAX - DONE_ROOM - 10;
    let wrote = Record::Wrote {
        inode: 1,
        max: "3000 20000".into(),
    };
    for record in [&wrote, &lease(7).hold()] {
        assert_eq!(journal.append(record), Err(Errno::FBIG));
    }
    assert_eq!(read(&dir).unwrap(), before);
    journal.append(&Record::Done { inode: 1 }).unwrap();
    assert_eq!(read(&dir).unwrap().unwrap().leases, [lease(0)]);
}

#[test]
fn a_journal_of_others_is_not_read() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let path = fake.path("run/weir/journal.jsonl");
    Journal::rewrite(&dir, &[]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(read(&dir), Err(LinuxError::Distrusted { .. })));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(SIZE_MAX + 1)
        .unwrap();
    assert!(
        read(&dir)
            .unwrap_err()
            .to_string()
            .contains("never writes so much")
    );
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    assert!(matches!(read(&dir), Err(LinuxError::Distrusted { .. })));
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mkdirat(dir.fd(), JOURNAL, Mode::RWXU).unwrap();
    assert!(matches!(read(&dir), Err(LinuxError::Distrusted { .. })));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        let story = parse(&bytes);
        prop_assert!(story.problems.len() <= PROBLEMS_MAX + 1);
    }

    #[test]
    fn any_cut_loses_at_most_the_last_record(cut in 0usize..400) {
        let mut text = Vec::new();
        for record in lease(1).records() {
            text.extend(serde_json::to_vec(&record).unwrap());
            text.push(b'\n');
        }
        let whole = text.iter().take(cut).filter(|b| **b == b'\n').count();
        let story = parse(&text[..cut.min(text.len())]);
        prop_assert_eq!(story.leases.len(), usize::from(whole > 0));
        prop_assert!(story.problems.len() <= 1);
    }
}
