// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A byte that changed on the disk: reading gives what was written, or says what is wrong. Never
//! other data.

use crate::made::{add_session, cases, desk, recorded};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recording, Session, StoreError, Tick, recover};

/// Ticks of two sessions: two frames and a part of a third each.
const TICKS: [usize; 2] = [70, 75];
const TABLES: [Table; 3] = [Table::Workloads, Table::Devices, Table::Actions];

/// All that can be had of a file, and the first thing that was said to be wrong.
#[derive(Default)]
struct Read {
    sessions: Vec<Session>,
    /// The ticks, each with the number of its session.
    ticks: Vec<(i64, Tick)>,
    tables: Vec<String>,
    wrong: Option<String>,
    /// The same from the sums alone.
    surveyed: Option<String>,
}

fn read(path: &Path) -> Read {
    let mut read = Read::default();
    let recording = match Recording::open(path) {
        Ok(recording) => recording,
        Err(error) => {
            read.wrong = Some(error.to_string());
            read.surveyed = read.wrong.clone();
            return read;
        }
    };
    read.sessions = recording.sessions().to_vec();
    for session in &read.sessions {
        for tick in recording.ticks(session.id) {
            match tick {
                Ok(tick) => read.ticks.push((session.id, tick)),
                Err(error) => drop(read.wrong.get_or_insert(error.to_string())),
            }
        }
    }
    // Opened anew for each question, as commands do: the database says that a page is wrong when it first
    // meets it, and not again.
    let recording = Recording::open(path).unwrap();
    for session in &read.sessions {
        let found = recording.survey(session.id).map(|found| found.damage.first);
        let found = found.unwrap_or_else(|error| Some(error.to_string()));
        read.surveyed = read.surveyed.or(found);
    }
    read.surveyed = read.surveyed.or(recording.survey_shared().first);
    for table in TABLES {
        let recording = Recording::open(path).unwrap();
        let mut out = Vec::new();
        if let Err(error) = export(&recording, table, Format::Csv, Range::default(), &mut out) {
            read.wrong.get_or_insert(error.to_string());
        }
        read.tables.push(String::from_utf8(out).unwrap());
    }
    read
}

struct Good {
    bytes: Vec<u8>,
    read: Read,
}

/// Two sessions, made once.
fn good() -> &'static Good {
    static GOOD: OnceLock<Good> = OnceLock::new();
    GOOD.get_or_init(|| {
        let dir = desk();
        let path = dir.path().join("a.weir");
        recorded(&path, TICKS[0]);
        add_session(&path, TICKS[1], true);
        let read = read(&path);
        assert_eq!(read.wrong, None);
        assert_eq!(read.surveyed, None);
        assert_eq!(
            (read.sessions.len(), read.ticks.len()),
            (2, TICKS[0] + TICKS[1])
        );
        assert!(read.tables.iter().all(|table| table.lines().count() > 5));
        let bytes = fs::read(path).unwrap();
        Good { bytes, read }
    })
}

fn holds(harmed: &[u8]) -> Result<(), TestCaseError> {
    let good = &good().read;
    let dir = desk();
    let path = dir.path().join("a.weir");
    fs::write(&path, harmed).unwrap();
    let found = read(&path);
    for tick in &found.ticks {
        prop_assert!(good.ticks.contains(tick), "a tick that was never written");
    }
    for (table, wanted) in found.tables.iter().zip(&good.tables) {
        prop_assert!(
            wanted.starts_with(table.as_str()),
            "rows never written:\n{table}"
        );
    }
    match &found.wrong {
        None => {
            prop_assert_eq!(&found.sessions, &good.sessions);
            prop_assert!(found.ticks == good.ticks, "{} ticks", found.ticks.len());
            prop_assert!(found.tables == good.tables, "a table is not whole");
        }
        Some(wrong) => {
            prop_assert!(wrong.contains("a.weir"), "{wrong}");
            prop_assert!(found.surveyed.is_some(), "overlooked by sums: {wrong}");
        }
    }
    is_recovered(&path, good)
}

/// Recovered ticks are sound and were written.
fn is_recovered(path: &Path, good: &Read) -> Result<(), TestCaseError> {
    let new = path.with_extension("new");
    let recovered = match recover(path, &new) {
        Ok(recovered) => recovered,
        Err(StoreError::Unrecoverable { .. } | StoreError::NotARecording { .. }) => return Ok(()),
        Err(StoreError::OtherFormat { .. } | StoreError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    let found = read(&new);
    prop_assert_eq!(&found.wrong, &None);
    prop_assert_eq!(&found.surveyed, &None);
    for (session, tick) in &found.ticks {
        // How many are lost before it may be more now.
        let same = |(other, wanted): &&(i64, Tick)| other == session && wanted.plan == tick.plan;
        let wanted = good.ticks.iter().find(same);
        let wanted = wanted.map(|(_, tick)| &tick.observation);
        prop_assert_eq!(wanted, Some(&tick.observation));
    }
    let known: u64 = recovered.ticks + recovered.lost_ticks + recovered.missing_at_end;
    if recovered.sessions == 2
        && recovered.sessions_without_settings == 0
        && recovered.unknown_ends == 0
    {
        prop_assert_eq!(known, good.ticks.len() as u64, "{:?}", recovered);
    }
    for (found, wanted) in found.sessions.iter().zip(&good.sessions) {
        prop_assert!(
            found.start == wanted.start || recovered.sessions_without_settings > 0,
            "{:?}",
            recovered
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(160))]

    #[test]
    fn any_byte_changed(place: prop::sample::Index, change in 1u8..) {
        let mut bytes = good().bytes.clone();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        holds(&bytes)?;
    }

    /// Simulates a sector that came back with something else.
    #[test]
    fn eight_bytes_overwritten(place: prop::sample::Index, with: [u8; 8]) {
        let mut bytes = good().bytes.clone();
        let place = place.index(bytes.len() - 8);
        bytes[place..place + 8].copy_from_slice(&with);
        holds(&bytes)?;
    }

    /// The bytes that hold the pages together are a small part of all: tested by themselves.
    #[test]
    fn a_byte_of_a_pages_head(page: prop::sample::Index, place in 0usize..40, change in 1u8..) {
        let mut bytes = good().bytes.clone();
        let page = page.index(bytes.len() / 4096) * 4096;
        bytes[page + place] ^= change;
        holds(&bytes)?;
    }
}

/// Bytes in a document that are still a document, with other figures.
#[test]
fn a_document_with_other_figures_is_never_shown() {
    let dir = desk();
    let path = dir.path().join("a.weir");
    let ticks = recorded(&path, 100);
    let database = rusqlite::Connection::open(&path).unwrap();
    let get = "SELECT document FROM tick WHERE id = 33 AND is_key = 1";
    let document: Vec<u8> = database.query_one(get, [], |row| row.get(0)).unwrap();
    let whole = [&document[..], &[1, 0, 0]].concat();
    let text = String::from_utf8(zstd::stream::decode_all(whole.as_slice()).unwrap()).unwrap();
    let other = text.replacen("{\"Ok\":2", "{\"Ok\":3", 1);
    assert_ne!(other, text);
    let document = zstd::stream::encode_all(other.as_bytes(), 1).unwrap();
    let put = "UPDATE tick SET document = ? WHERE id = 33";
    database.execute(put, [document]).unwrap();
    drop(database);
    let recording = Recording::open(&path).unwrap();
    let read: Vec<Result<Tick, StoreError>> = recording.ticks(1).collect();
    let wrong: Vec<String> = read
        .iter()
        .filter_map(|tick| tick.as_ref().err().map(ToString::to_string))
        .collect();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(
        wrong[0].contains("tick 33: its checksum differs"),
        "{wrong:?}"
    );
    let good: Vec<Tick> = read.into_iter().flatten().collect();
    let wanted = [&ticks[..32], &ticks[64..]].concat();
    assert!(good == wanted, "and the rest of its frame is not shown");
    let found = recording.survey(1).unwrap();
    assert_eq!((found.ticks, found.damage.places), (100, 1));
    let found = recover(&path, &dir.path().join("b.weir")).unwrap();
    assert_eq!((found.ticks, found.damaged, found.lost_ticks), (68, 1, 32));
}

/// Rows that are not there leave no gap in an export: it ends where the first of them would be.
#[test]
fn rows_that_are_gone_are_an_error_of_an_export() {
    for (table, gone) in [
        (
            Table::Actions,
            "DELETE FROM action WHERE tick = (SELECT min(tick) FROM action)",
        ),
        (
            Table::Workloads,
            "DELETE FROM span WHERE id = (SELECT min(id) FROM span)",
        ),
    ] {
        let dir = desk();
        let path = dir.path().join("a.weir");
        recorded(&path, 100);
        let database = rusqlite::Connection::open(&path).unwrap();
        assert!(database.execute(gone, []).unwrap() > 0, "{gone}");
        drop(database);
        let recording = Recording::open(&path).unwrap();
        let mut out = Vec::new();
        let error = export(&recording, table, Format::Csv, Range::default(), &mut out);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("is missing"), "{gone}: {error}");
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() <= 1, "{gone}: {text}");
    }
}

/// What is done to a recording of a hundred ticks, and what is said of it.
const HARM: [(&str, &str); 21] = [
    (
        "UPDATE tick SET wall_unix_ms = wall_unix_ms + 1 WHERE id = 9",
        "tick 9",
    ),
    ("UPDATE tick SET session = 2 WHERE id = 9", "tick 9"),
    (
        "DELETE FROM tick WHERE id BETWEEN 9 AND 11",
        "ticks 9 to 11 are missing",
    ),
    (
        "DELETE FROM tick WHERE id > 90",
        "ticks 91 to 100 are missing at the end",
    ),
    ("DELETE FROM tick WHERE id < 3", "ticks 1 to 2 are missing"),
    (
        "UPDATE text SET text = 'x' WHERE id = (SELECT min(workload) FROM workload_figures)",
        "text",
    ),
    (
        "UPDATE workload_figures SET cpu_microcpus = 7 WHERE span = 21",
        "span 21",
    ),
    ("DELETE FROM workload_figures WHERE span = 21", "span 21"),
    (
        "UPDATE device_figures SET correction_ratio = 7 WHERE span = 21",
        "span 21",
    ),
    ("UPDATE span SET end_unix_ms = 1 WHERE id = 21", "span 21"),
    ("DELETE FROM span WHERE id = 21", "span 21 is missing"),
    ("UPDATE span SET session = 7 WHERE id = 21", "span 21"),
    (
        "DELETE FROM span_check WHERE id = 21",
        "span 21: it has no checksum",
    ),
    ("UPDATE action SET limit_cpus = 7.5", "action"),
    (
        "DELETE FROM action WHERE tick = (SELECT min(tick) FROM action)",
        "action",
    ),
    (
        "UPDATE word SET word = 'counted' WHERE kind = 'provenance'",
        "the word for provenance",
    ),
    (
        "UPDATE session SET policy = 'drf'",
        "session 1: its checksum differs",
    ),
    (
        "UPDATE session SET ended_unix_ms = NULL",
        "session 1: its checksum differs",
    ),
    (
        "UPDATE session SET config = json_remove(config, '$.recorded')",
        "session 1: it has no checksum",
    ),
    (
        "DELETE FROM session",
        "its last tick is of a session that is not there",
    ),
    (
        "DROP TABLE text_check; DROP TABLE span_check; DROP TABLE action_check",
        "text_check is missing",
    ),
];

#[test]
fn each_kind_of_row_is_checked() {
    for (sql, wanted) in HARM {
        let dir = desk();
        let path = dir.path().join("a.weir");
        recorded(&path, 100);
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let found = read(&path);
        let wrong = found.wrong.unwrap_or_default();
        assert!(wrong.contains(wanted), "{sql}: {wrong:?}");
        assert!(found.surveyed.is_some(), "{sql}: overlooked by sums");
    }
}
