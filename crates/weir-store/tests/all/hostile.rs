// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording may come from any source. Whatever its bytes are: it is read or refused, nothing panics,
//! nothing goes on for ever, and reading does not change it.

use crate::made::{Plant, cases, desk, recorded, start};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recorder, Recording, StoreError, recover};

const TICKS: usize = 100;

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
        "it was changed by reading it"
    );
    count
}

fn try_it(bytes: &[u8]) -> (usize, Option<u64>) {
    let dir = desk();
    let path = dir.path().join("a.weir");
    fs::write(&path, bytes).unwrap();
    let read = read_all(&path);
    let recovered = recover(&path, &dir.path().join("b.weir")).ok();
    if recovered.is_some() {
        // Recovered ticks are sound.
        let recording = Recording::open(&dir.path().join("b.weir")).unwrap();
        for session in recording.sessions() {
            assert!(recording.ticks(session.id).all(|tick| tick.is_ok()));
        }
    }
    let _ = Recorder::open(&path, &start()).map(|mut recorder| {
        let _ = recorder.add(&Plant::new(&["/x"]).tick());
    });
    (read, recovered.map(|recovered| recovered.ticks))
}

#[test]
fn a_good_file_is_read_and_recovered_whole() {
    assert_eq!(try_it(good()), (TICKS, Some(TICKS as u64)));
}

#[test]
fn every_length_gives_an_error_or_a_part() {
    let good = good();
    let mut most = 0;
    for length in (0..good.len()).step_by(good.len() / 40) {
        let (read, recovered) = try_it(&good[..length]);
        assert_eq!(read, 0, "a truncated file is not passed off as whole");
        most = most.max(recovered.unwrap_or(0));
    }
    assert!(
        most > TICKS as u64 / 2,
        "at most {most} ticks were recovered"
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
}

/// It is named with the one that this weir reads, by whatever it would be read, and is left as it is.
#[test]
fn another_format_is_refused() {
    for format in [1, 3, u32::MAX >> 1] {
        let dir = desk();
        let path = dir.path().join("a.weir");
        fs::write(&path, good()).unwrap();
        let sql = format!("PRAGMA user_version = {format}");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch(&sql).unwrap();
        drop(database);
        let before = fs::read(&path).unwrap();
        let new = dir.path().join("b.weir");
        for error in [
            Recording::open(&path).map(drop),
            Recorder::open(&path, &start()).map(drop),
            recover(&path, &new).map(drop),
        ] {
            let said = error.unwrap_err().to_string();
            let what = format!("is a recording of format {format}, and this weir reads format 2");
            assert!(said.contains(&what), "{said}");
        }
        assert!(fs::read(&path).unwrap() == before && !new.exists());
    }
}

#[test]
fn rows_that_break_the_rules_are_named() {
    for sql in [
        "UPDATE tick SET document = zeroblob(5) WHERE id = 5",
        "UPDATE tick SET document = x'28b52ffd00a8010000' WHERE id = 1",
        "UPDATE tick SET lost_before = -1 WHERE id = 3",
        "UPDATE tick SET crc32 = -1 WHERE id = 40",
        "UPDATE tick SET is_key = 1 WHERE id = 40",
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
        assert_eq!(recover(&path, &new).expect(sql).sessions, 1, "{sql}");
        let recovered = Recording::open(&new).unwrap();
        assert!(recovered.ticks(1).all(|tick| tick.is_ok()), "{sql}");
        let after = recording.ticks(1).filter(Result::is_ok).count();
        assert!(after < TICKS, "{sql}");
    }
}

/// Puts a document into a row, with the sum that it then must have (docs/reference/recording-format.md).
fn forge(path: &Path, id: i64, is_key: bool, document: &[u8]) {
    let database = rusqlite::Connection::open(path).unwrap();
    let get = "SELECT session, wall_unix_ms, lost_before FROM tick WHERE id = ?";
    let [session, wall, lost] = database
        .query_row(get, [id], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))
        .unwrap();
    let mut sum = crc32fast::Hasher::new();
    sum.update(b"tick");
    for number in [id, session, wall, is_key.into(), lost] {
        sum.update(b"i");
        sum.update(&i64::to_le_bytes(number));
    }
    sum.update(b"b");
    sum.update(&(document.len() as u64).to_le_bytes());
    sum.update(document);
    let put = "UPDATE tick SET is_key = ?, document = ?, crc32 = ? WHERE id = ?";
    let row = rusqlite::params![is_key, document, sum.finalize(), id];
    assert_eq!(database.execute(put, row), Ok(1));
}

/// Sums are no defence against intent: what they let through is bounded and checked by itself.
#[test]
fn documents_with_right_sums_that_are_none_are_named() {
    let zstd = |text: &[u8]| zstd::stream::encode_all(text, 1).unwrap();
    let spaces = vec![b' '; 65 << 20];
    // A reason of a kind that is not known yet is kept until it is.
    let reason = r#"{"observation":{"skipped":[{"why":{"detail":"#;
    let deep = reason.to_owned() + &"[".repeat(200_000);
    let twice = serde_json::to_string(&Plant::new(&["/x"]).tick()).unwrap() + "{}";
    for (document, wanted) in [
        (zstd(b"{}"), "missing field"),
        (zstd(twice.as_bytes()), "trailing"),
        (zstd(b"\xff"), "expected value"),
        (zstd(deep.as_bytes()), "recursion limit"),
        (zstd(&spaces), "more than"),
        (vec![], "EOF"),
        (vec![7; 40], "zstd"),
        // A window of 2^31 bytes.
        (vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0], "memory"),
    ] {
        let dir = desk();
        let path = dir.path().join("a.weir");
        fs::write(&path, good()).unwrap();
        forge(&path, 33, true, &document);
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.survey(1).unwrap().damage.first, None, "{wanted}");
        let errors: Vec<String> = recording
            .ticks(1)
            .filter_map(|tick| tick.err().map(|error| error.to_string()))
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("tick 33: "), "{errors:?}");
        assert!(errors[0].contains(wanted), "{wanted}: {errors:?}");
        let found = recover(&path, &dir.path().join("b.weir")).unwrap();
        assert_eq!((found.ticks, found.lost_ticks), (68, 32), "{wanted}");
    }
}

/// A frame that ends, and one that begins in the middle of another: the reader goes on, and shows nothing
/// else.
#[test]
fn rows_that_are_frames_of_their_own_are_read() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    fs::write(&path, good()).unwrap();
    let wanted: Vec<_> = Recording::open(&path)
        .unwrap()
        .ticks(1)
        .map(Result::unwrap)
        .collect();
    let text = serde_json::to_string(&wanted[39]).unwrap();
    let whole = zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
    forge(&path, 40, true, &whole);
    let recording = Recording::open(&path).unwrap();
    let read: Vec<_> = recording.ticks(1).collect();
    let good: Vec<_> = read.into_iter().flatten().collect();
    assert!(good == [&wanted[..40], &wanted[64..]].concat());
}

proptest! {
    #![proptest_config(cases(96))]

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
