// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording may come from anybody. Whatever its bytes are: it is read or refused, nothing panics,
//! nothing goes on for ever, and it is not changed by looking at it.

use crate::made::{Plant, desk, old, recorded, start};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recorder, Recording, StoreError, salvage};

const TICKS: usize = 150;

/// A good file, made once.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = desk();
        let path = dir.path().join("a.weir");
        recorded(&path, TICKS);
        fs::read(path).unwrap()
    })
}

/// Everything that can be done with a file that is only read, and how many ticks came out.
fn read_all(path: &Path) -> usize {
    let before = fs::read(path).unwrap();
    let mut count = 0;
    if let Ok(recording) = Recording::open(path) {
        for session in recording.sessions().iter().take(3) {
            let _ = recording.counts(session.id);
            // No more than there can be: ids only go up.
            count += recording.ticks(session.id).filter(Result::is_ok).count();
        }
        for table in [Table::Workloads, Table::Devices, Table::Actions] {
            for format in [
                Format::Csv,
                Format::JsonLines,
                Format::Influx,
                Format::Parquet,
            ] {
                let _ = export(&recording, table, format, Range::default(), std::io::sink());
            }
        }
    }
    assert!(
        fs::read(path).unwrap() == before,
        "it was changed by looking at it"
    );
    count
}

fn try_it(bytes: &[u8]) -> (usize, Option<u64>) {
    let dir = desk();
    let path = dir.path().join("a.weir");
    fs::write(&path, bytes).unwrap();
    let read = read_all(&path);
    let saved = salvage(&path, &dir.path().join("b.weir")).ok();
    if saved.is_some() {
        // What was saved is sound.
        let recording = Recording::open(&dir.path().join("b.weir")).unwrap();
        for session in recording.sessions() {
            assert!(recording.ticks(session.id).all(|tick| tick.is_ok()));
        }
    }
    let _ = Recorder::open(&path, &start()).map(|mut recorder| {
        let _ = recorder.add(&Plant::new(&["/x"]).tick());
    });
    (read, saved.map(|saved| saved.ticks))
}

#[test]
fn a_good_file_is_read_and_saved_whole() {
    assert_eq!(try_it(good()), (TICKS, Some(TICKS as u64)));
}

#[test]
fn every_length_gives_an_error_or_a_part() {
    let good = good();
    let mut saved_most = 0;
    for length in (0..good.len()).step_by(good.len() / 40) {
        let (read, saved) = try_it(&good[..length]);
        assert_eq!(read, 0, "a file that is cut off is not passed off as whole");
        saved_most = saved_most.max(saved.unwrap_or(0));
    }
    assert!(
        saved_most > TICKS as u64 / 2,
        "at most {saved_most} ticks were saved"
    );
}

#[test]
fn tables_that_are_not_ours_are_refused() {
    let with = |sql: &str| {
        let dir = desk();
        let path = dir.path().join("a.weir");
        fs::write(&path, good()).unwrap();
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch(sql).unwrap();
        drop(database);
        Recording::open(&path).map(drop)
    };
    let endless = "DROP TABLE tick; CREATE VIEW tick AS WITH RECURSIVE n(id) AS
        (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 1 AS session, 1 AS wall_unix_ms,
        1 AS is_key, 0 AS lost_before, x'00' AS document FROM n";
    let trigger = "CREATE TRIGGER t AFTER INSERT ON tick BEGIN DELETE FROM session; END";
    for (sql, why) in [
        (endless, "tick"),
        (trigger, "triggers"),
        ("DROP TABLE text", "text"),
    ] {
        match with(sql) {
            Err(StoreError::NotARecording { why: said, .. }) => {
                assert!(said.contains(why), "{said}")
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
    with("CREATE INDEX mine ON workload_figures (workload)")
        .expect("an index of one's own is no harm");
    let dir = desk();
    let path = dir.path().join("a.weir");
    old(&path, 1);
    let tomorrow = "UPDATE session SET config = json_set(config, '$.of_tomorrow', 1)";
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(tomorrow)
        .unwrap();
    Recording::open(&path).expect("a setting that is not known yet is passed over");
    let newer = with("PRAGMA user_version = 2").unwrap_err();
    assert!(newer.to_string().contains("format 2"), "{newer}");
}

#[test]
fn rows_that_break_the_rules_are_named() {
    for sql in [
        "UPDATE tick SET document = zeroblob(5) WHERE id = 5",
        "UPDATE tick SET document = x'0907ffffffffffffffff7f' WHERE id = 1",
        "DELETE FROM text WHERE id < 5",
        "UPDATE text SET text = CAST(x'ff' AS TEXT) WHERE id = 7",
        "UPDATE tick SET lost_before = -1 WHERE id = 3",
    ] {
        let dir = desk();
        let path = dir.path().join("a.weir");
        fs::write(&path, good()).unwrap();
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let recording = Recording::open(&path).unwrap();
        let error = recording.ticks(1).find_map(Result::err).expect(sql);
        assert!(error.to_string().contains("tick "), "{sql}: {error}");
        let new = dir.path().join("b.weir");
        assert_eq!(salvage(&path, &new).expect(sql).sessions, 1, "{sql}");
        let saved = Recording::open(&new).unwrap();
        assert!(saved.ticks(1).all(|tick| tick.is_ok()), "{sql}");
        let after = recording.ticks(1).filter(Result::is_ok).count();
        assert!(after < TICKS, "{sql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn flipped_bits(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..20)) {
        let mut bytes = good().to_vec();
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        try_it(&bytes);
    }

    /// Flips are mostly in documents; here they are in what holds the pages together.
    #[test]
    fn flipped_bits_in_heads_of_pages(flips in prop::collection::vec((any::<prop::sample::Index>(), 0usize..40, 0u8..8), 1..6)) {
        let mut bytes = good().to_vec();
        for (page, place, bit) in flips {
            let page = page.index(bytes.len() / 4096);
            let start = if page == 0 { 100 } else { page * 4096 };
            bytes[start + place] ^= 1 << bit;
        }
        try_it(&bytes);
    }

    #[test]
    fn pages_in_a_wrong_place(swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4)) {
        let mut bytes = good().to_vec();
        let pages = bytes.len() / 4096;
        for (a, b) in swaps {
            let (a, b) = (1 + a.index(pages - 1), 1 + b.index(pages - 1));
            let copy = bytes[a * 4096..(a + 1) * 4096].to_vec();
            bytes[b * 4096..(b + 1) * 4096].copy_from_slice(&copy);
        }
        try_it(&bytes);
    }

    #[test]
    fn any_bytes(head: bool, tail in prop::collection::vec(any::<u8>(), 0..5000)) {
        let mut bytes = if head { good()[..100].to_vec() } else { Vec::new() };
        bytes.extend(tail);
        prop_assert_eq!(try_it(&bytes).0, 0);
    }
}
