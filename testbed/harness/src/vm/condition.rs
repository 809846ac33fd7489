// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the guest's agent waits for by itself: a shell that polls forks a program each time, and on CPUs as
//! slow as the guest's that is what its time goes into.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};
use std::path::Path;

/// How far from a file's end the newest line is searched for first.
const TAIL_BYTES: u64 = 32 << 10;

/// Something that files of the guest say, or not. A file that is not there says nothing. In a pattern `*`
/// stands for anything within a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    Exists(String),
    /// The file has a line with this in it.
    Says(String, String),
    /// Its newest line that is there in full has this in it.
    LastSays(String, String),
    /// This is all it says, but for blanks around it.
    Is(String, String),
    /// It begins with a number, and that is at least this.
    AtLeast(String, u64),
    Filled(String),
    /// So many lines came after its first bytes.
    Lines {
        path: String,
        /// Bytes that are passed over.
        from: u64,
        count: usize,
    },
    /// There are threads in the cgroup or below it, and a file of each in `/proc` has such a line.
    EachThread {
        cgroup: String,
        /// The name of the file.
        file: String,
        pattern: String,
    },
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

impl Condition {
    pub fn holds(&self) -> bool {
        use Condition::{
            All, Any, AtLeast, EachThread, Exists, Filled, Is, LastSays, Lines, Not, Says,
        };
        match self {
            Exists(path) => Path::new(path).exists(),
            Says(path, pattern) => text(path).lines().any(|line| has(line, pattern)),
            LastSays(path, pattern) => {
                last_line(path).is_ok_and(|line| line.is_some_and(|line| has(&line, pattern)))
            }
            Is(path, wanted) => text(path).trim() == wanted,
            AtLeast(path, least) => number(&text(path)).is_some_and(|n| n >= *least),
            Filled(path) => !text(path).is_empty(),
            Lines { path, from, count } => lines_from(path, *from).is_ok_and(|n| n >= *count),
            EachThread {
                cgroup,
                file,
                pattern,
            } => each_thread(Path::new(cgroup), file, pattern),
            Not(other) => !other.holds(),
            All(these) => these.iter().all(Condition::holds),
            Any(these) => these.iter().any(Condition::holds),
        }
    }
}

impl std::ops::Not for Condition {
    type Output = Condition;

    fn not(self) -> Condition {
        Condition::Not(Box::new(self))
    }
}

fn text(path: &str) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Whether the parts of a pattern are in a line, one after the other.
fn has(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    pattern.split('*').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

fn last_line(path: &str) -> Result<Option<String>> {
    let length = std::fs::metadata(path)?.len();
    for from in [length.saturating_sub(TAIL_BYTES), 0] {
        let bytes = bytes_from(path, from)?;
        let whole = &bytes[..bytes.iter().rposition(|b| *b == b'\n').unwrap_or(0)];
        let begin = whole.iter().rposition(|b| *b == b'\n').map(|at| at + 1);
        if let Some(begin) = begin.or((from == 0 && !whole.is_empty()).then_some(0)) {
            return Ok(Some(String::from_utf8_lossy(&whole[begin..]).into_owned()));
        }
    }
    Ok(None)
}

fn lines_from(path: &str, from: u64) -> Result<usize> {
    Ok(bytes_from(path, from)?
        .iter()
        .filter(|b| **b == b'\n')
        .count())
}

fn bytes_from(path: &str, from: u64) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A thread that has ended since its cgroup was read is none.
fn each_thread(cgroup: &Path, file: &str, pattern: &str) -> bool {
    let mut threads = Vec::new();
    threads_below(cgroup, &mut threads);
    let files = threads
        .iter()
        .map(|thread| text(&format!("/proc/{thread}/{file}")));
    let mut files = files.filter(|said| !said.is_empty()).peekable();
    files.peek().is_some() && files.all(|said| said.lines().any(|line| has(line, pattern)))
}

fn threads_below(cgroup: &Path, threads: &mut Vec<String>) {
    let own = std::fs::read_to_string(cgroup.join("cgroup.threads")).unwrap_or_default();
    threads.extend(own.lines().map(str::to_owned));
    for entry in std::fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            threads_below(&entry.path(), threads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Condition::{
        All, Any, AtLeast, EachThread, Exists, Filled, Is, LastSays, Lines, Says,
    };
    use super::*;

    /// A file with this in it, and its path.
    fn file(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file").display().to_string();
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn says(path: &str, pattern: &str) -> bool {
        Says(path.to_owned(), pattern.to_owned()).holds()
    }

    #[test]
    fn parts_of_a_pattern_are_in_one_line_and_in_order() {
        let (_dir, path) = file("weir took the scheduler out\nof the kernel\n");
        assert!(says(&path, "took * scheduler out") && says(&path, "kernel"));
        assert!(!says(&path, "scheduler*took") && !says(&path, "weir*kernel"));
        assert!(!says(&path, "took*took") && !says("/nowhere", "took"));
    }

    #[test]
    fn the_newest_line_is_one_with_an_end() {
        let last =
            |path: &str, pattern: &str| LastSays(path.to_owned(), pattern.to_owned()).holds();
        let (_dir, path) = file("one\ntwo\nthr");
        assert!(last(&path, "two") && !last(&path, "one") && !last(&path, "thr"));
        let (_dir, path) = file("alone\n");
        assert!(last(&path, "alone"));
        for nothing in ["", "half", "\n"] {
            let (_dir, path) = file(nothing);
            assert!(!last(&path, "h"), "{nothing:?}");
        }
        let long = "x".repeat(3 * TAIL_BYTES as usize);
        let (_dir, path) = file(&format!("{long}\nshort {long} end\n"));
        assert!(
            last(&path, "short*end"),
            "longer than the first part that is read"
        );
    }

    #[test]
    fn contents_and_numbers_are_compared() {
        let (_dir, path) = file("70000 100000\n");
        let is = |text: &str| Is(path.clone(), text.to_owned()).holds();
        assert!(is("70000 100000") && !is("70000"));
        let at_least = |least| AtLeast(path.clone(), least).holds();
        assert!(at_least(70_000) && !at_least(70_001));
        assert!(!AtLeast("/nowhere".into(), 0).holds());
        assert!(Filled(path.clone()).holds() && !Filled("/nowhere".into()).holds());
        assert!((!Exists("/nowhere".into())).holds() && Exists(path.clone()).holds());
    }

    #[test]
    fn lines_are_counted_from_a_place_on() {
        let (_dir, path) = file("a\nb\nc");
        let lines = |from, count| {
            Lines {
                path: path.clone(),
                from,
                count,
            }
            .holds()
        };
        assert!(lines(0, 2) && !lines(0, 3) && lines(2, 1) && !lines(2, 2));
    }

    #[test]
    fn several_are_put_together() {
        let (yes, no) = (Exists("/proc".into()), Exists("/nowhere".into()));
        assert!(All(vec![yes.clone(), !no.clone()]).holds());
        assert!(!All(vec![yes.clone(), no.clone()]).holds());
        assert!(Any(vec![no.clone(), yes]).holds() && !Any(vec![no]).holds());
    }

    #[test]
    fn each_thread_of_a_cgroup_and_below_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let each = |pattern: &str| {
            let cgroup = dir.path().display().to_string();
            let (file, pattern) = ("status".to_owned(), pattern.to_owned());
            EachThread {
                cgroup,
                file,
                pattern,
            }
            .holds()
        };
        let me = std::process::id();
        assert!(!each("Pid:"), "there is none");
        std::fs::write(dir.path().join("cgroup.threads"), format!("{me}\n")).unwrap();
        assert!(each(&format!("Pid:*{me}")));
        std::fs::write(below.join("cgroup.threads"), "1\n").unwrap();
        assert!(
            each("Pid:") && !each(&format!("Pid:*{me}")),
            "the one below is another"
        );
    }
}
