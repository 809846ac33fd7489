// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kind of lease that no folder has yet: one type and one entry in the list of a book, and nothing else is
//! needed.

use super::undo::{LastTwo, LeaseChange, RecordPhase, Undo, UndoHost, UndoOutcome};
use super::*;
use crate::fake::Fake;
use crate::kernel::files::{open_root, write_at};
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_core::WorkloadId;

/// `scaling_max_freq` of a frequency domain, as a back end to come would note it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MaxFrequency {
    domain: u32,
    theirs_khz: u64,
    ours: LastTwo<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum FrequencyRecord {
    Frequency { domain: u32, khz: u64 },
    FrequencySet { domain: u32, khz: u64 },
    FrequencyDone { domain: u32 },
}

impl Undo for MaxFrequency {
    type Key = u32;
    type Record = FrequencyRecord;
    const OPS: &'static [(&'static str, RecordPhase)] = &[
        ("frequency", RecordPhase::Begin),
        ("frequency_set", RecordPhase::Write),
        ("frequency_done", RecordPhase::End),
    ];

    fn replay(
        open: &BTreeMap<u32, Self>,
        record: FrequencyRecord,
    ) -> Result<LeaseChange<Self>, String> {
        Ok(match record {
            FrequencyRecord::Frequency { domain, khz } => {
                let ours = LastTwo::default();
                let lease = MaxFrequency {
                    domain,
                    theirs_khz: khz,
                    ours,
                };
                Box::new(move |open| drop(open.insert(domain, lease)))
            }
            FrequencyRecord::FrequencySet { domain, khz } => {
                open.get(&domain).ok_or("a domain that is not held")?;
                Box::new(move |open| {
                    open.entry(domain).and_modify(|lease| lease.ours.push(khz));
                })
            }
            FrequencyRecord::FrequencyDone { domain } => {
                Box::new(move |open| drop(open.remove(&domain)))
            }
        })
    }

    fn records(&self) -> Vec<FrequencyRecord> {
        let domain = self.domain;
        let begin = FrequencyRecord::Frequency {
            domain,
            khz: self.theirs_khz,
        };
        let set = |khz: &u64| FrequencyRecord::FrequencySet { domain, khz: *khz };
        std::iter::once(begin)
            .chain(self.ours.iter().map(set))
            .collect()
    }

    fn undo(&self, host: &mut UndoHost<'_>) -> Vec<(WorkloadId, UndoOutcome)> {
        let name = format!("cpufreq/policy{}", self.domain);
        let dir = open_root(&host.roots.sys.join(&name)).unwrap();
        let text = host.buffer.read_at(&dir, "scaling_max_freq").unwrap();
        let now: u64 = String::from_utf8_lossy(text).trim().parse().unwrap();
        let outcome = match now {
            now if now == self.theirs_khz => UndoOutcome::Unchanged,
            now if !self.ours.contains(&now) => UndoOutcome::LeftAlone(now.to_string()),
            _ => {
                write_at(&dir, "scaling_max_freq", &self.theirs_khz.to_string()).unwrap();
                UndoOutcome::Restored
            }
        };
        vec![(WorkloadId::new(name), outcome)]
    }
}

const BOOK: &[BookSpec] = &[BookSpec {
    doing: "set frequencies",
    lock: "frequency.lock",
    files: JournalFiles {
        journal: "frequency.jsonl",
        new: "frequency.new",
        damaged: "frequency.damaged",
    },
    kinds: &[LeaseKind::of::<MaxFrequency>()],
}];

const FILES: [&str; 2] = [
    "sys/cpufreq/policy0/scaling_max_freq",
    "sys/cpufreq/policy1/scaling_max_freq",
];

/// Two domains that weir has slowed down.
fn slowed(fake: &Fake) -> LeaseBook {
    let mut book = LeaseBook::new(&fake.roots(), BOOK);
    assert!(book.claim().unwrap().is_empty());
    for (domain, file) in (0..).zip(FILES) {
        fake.write(file, "3500000\n");
        let khz = 3_500_000;
        book.note(&FrequencyRecord::Frequency { domain, khz })
            .unwrap();
        for khz in [3_000_000, 2_000_000] {
            book.note(&FrequencyRecord::FrequencySet { domain, khz })
                .unwrap();
            fake.write(file, khz.to_string());
        }
    }
    book
}

#[test]
fn a_new_kind_is_restored_after_a_kill() {
    let fake = Fake::new();
    let mut book = slowed(&fake);
    // Another program sets one of them.
    fake.write(FILES[1], "1000000");
    book.crash();
    let report = restore::reset(&fake.roots(), BOOK).unwrap();
    assert_eq!(report.restored, [WorkloadId::new("cpufreq/policy0")]);
    assert_eq!(report.left_alone.len(), 1);
    assert_eq!(
        [fake.read(FILES[0]), fake.read(FILES[1])],
        ["3500000", "1000000"]
    );
    assert!(restore::reset(&fake.roots(), BOOK).unwrap().is_empty());
    assert!(!fake.path("run/weir/frequency.jsonl").exists());
}

#[test]
fn a_book_holds_what_a_reader_would_find_and_is_rewritten_from_it() {
    let fake = Fake::new();
    let mut book = slowed(&fake);
    let journal = || fake.read("run/weir/frequency.jsonl");
    for _ in 0..1000 {
        let (domain, khz) = (0, 2_000_000);
        book.note(&FrequencyRecord::FrequencySet { domain, khz })
            .unwrap();
    }
    let before = journal().len();
    book.compact();
    assert!(before > 10 * journal().len(), "{}", journal());
    let mut read = OpenBook::new(BOOK[0].kinds);
    assert!(read.replay_all(journal().as_bytes()).is_empty());
    assert_eq!(read.text().unwrap(), journal().into_bytes());
    let report = book.undo_all().unwrap();
    assert_eq!(report.restored.len(), 2);
    assert_eq!(journal(), "", "the right is still held");
    drop(book);
    assert!(!fake.path("run/weir/frequency.jsonl").exists());
}

#[test]
fn nothing_is_noted_without_the_right_or_that_a_reader_would_refuse() {
    let fake = Fake::new();
    let record = FrequencyRecord::Frequency { domain: 0, khz: 1 };
    let mut book = LeaseBook::new(&fake.roots(), BOOK);
    assert!(matches!(book.note(&record), Err(OutcomeKind::Failed(_))));
    book.claim().unwrap();
    let mut second = LeaseBook::new(&fake.roots(), BOOK);
    assert!(matches!(second.claim(), Err(LinuxError::Locked { .. })));
    #[derive(Serialize)]
    #[serde(tag = "op", rename_all = "snake_case")]
    enum Strange {
        Reboot { now: bool },
    }
    let why = book.note(&Strange::Reboot { now: true });
    assert!(matches!(why, Err(OutcomeKind::Failed(why)) if why.contains("reboot")));
    assert!(
        book.note(&FrequencyRecord::FrequencySet { domain: 7, khz: 1 })
            .is_err()
    );
    assert_eq!(fake.read("run/weir/frequency.jsonl"), "");
    book.end_if_empty();
    second.claim().unwrap();
}

#[test]
fn limits_of_a_weir_that_runs_are_in_order_and_those_of_a_dead_one_are_not() {
    let fake = Fake::new();
    let said = || fact(&fake.roots(), BOOK);
    assert_eq!(said().value, Ok("no limits left behind".into()));
    let mut book = slowed(&fake);
    let (value, next_move) = (said().value.unwrap(), said().next_move);
    let pid = std::process::id().to_string();
    assert!(
        value.contains(&pid) && value.contains("frequency.jsonl"),
        "{value}"
    );
    assert_eq!(next_move, None);
    book.crash();
    let (why, next_move) = (said().value.unwrap_err().to_string(), said().next_move);
    assert!(
        why.contains("a weir died while it set frequencies"),
        "{why}"
    );
    assert!(next_move.is_some_and(|next| next.to_string() == "weir reset"));
    restore::reset(&fake.roots(), BOOK).unwrap();
    assert_eq!(said().value, Ok("no limits left behind".into()));
}
