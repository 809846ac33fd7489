// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::fake::{Fake, kernel};
use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

const FILES: JournalFiles = JournalFiles {
    journal: "journal.jsonl",
    new: "journal.new",
    damaged: "journal.damaged",
};

fn read(dir: &RunDir) -> Result<Option<Vec<u8>>, LinuxError> {
    read_trusted(dir, FILES.journal, SIZE_MAX)
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
fn nothing_is_held_that_a_reader_would_not_read_and_an_end_is_noted_all_the_same() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, FILES, b"one\ntwo\n").unwrap();
    journal.size = SIZE_MAX - DONE_ROOM - 2;
    for phase in [RecordPhase::Begin, RecordPhase::Write] {
        assert_eq!(journal.append(b"more\n", phase), Err(Errno::FBIG));
    }
    assert_eq!(read(&dir).unwrap().unwrap(), b"one\ntwo\n");
    journal.append(b"end\n", RecordPhase::End).unwrap();
    assert_eq!(read(&dir).unwrap().unwrap(), b"one\ntwo\nend\n");
}

#[test]
fn a_line_that_could_not_be_written_is_not_continued_by_the_next() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, FILES, b"one\n").unwrap();
    // A descriptor that takes no writes: nothing can be truncated either.
    let broken = dir.folder().open_to_read(FILES.journal).unwrap();
    let whole = std::mem::replace(&mut journal.file, broken);
    assert!(journal.append(b"two\n", RecordPhase::Write).is_err());
    journal.file = whole;
    assert_eq!(
        journal.append(b"three\n", RecordPhase::Begin),
        Err(Errno::IO)
    );
    assert!(journal.needs_rewrite(), "it is to be written anew");
    assert_eq!(read(&dir).unwrap().unwrap(), b"one\n");
}

/// A kernel that answers each flush with `answer`, and counts them.
fn flushing(answer: Result<(), Errno>) -> Rc<Cell<usize>> {
    let flushes = Rc::new(Cell::new(0));
    let counted = Rc::clone(&flushes);
    let kernel = move |_: &Path, change: FileChange<'_>| {
        (change == FileChange::Flush).then(|| {
            counted.set(counted.get() + 1);
            answer
        })
    };
    kernel::install(Box::new(kernel), Box::new(|_, _| None));
    flushes
}

#[test]
fn a_begin_is_on_the_disk_when_it_is_noted() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, FILES, b"").unwrap();
    let flushes = flushing(Ok(()));
    journal.append(b"write\n", RecordPhase::Write).unwrap();
    journal.append(b"end\n", RecordPhase::End).unwrap();
    assert_eq!(flushes.get(), 0);
    journal.append(b"begin\n", RecordPhase::Begin).unwrap();
    kernel::uninstall();
    assert_eq!(flushes.get(), 1);
    assert_eq!(read(&dir).unwrap().unwrap(), b"write\nend\nbegin\n");
}

#[test]
fn a_begin_that_is_not_on_the_disk_is_not_in_the_file() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let mut journal = Journal::rewrite(&dir, FILES, b"one\n").unwrap();
    flushing(Err(Errno::IO));
    let refused = journal.append(b"begin\n", RecordPhase::Begin);
    kernel::uninstall();
    assert_eq!(refused, Err(Errno::IO));
    assert_eq!(read(&dir).unwrap().unwrap(), b"one\n");
    journal.append(b"two\n", RecordPhase::Begin).unwrap();
    assert_eq!(read(&dir).unwrap().unwrap(), b"one\ntwo\n");
}

#[test]
fn a_journal_of_others_is_not_read() {
    let fake = Fake::new();
    let dir = RunDir::open_or_make(&fake.roots()).unwrap();
    let path = fake.path("run/weir/journal.jsonl");
    Journal::rewrite(&dir, FILES, b"").unwrap();
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
    rustix::fs::mkdirat(dir.folder().fd(), FILES.journal, Mode::RWXU).unwrap();
    assert!(matches!(read(&dir), Err(LinuxError::Distrusted { .. })));
}
