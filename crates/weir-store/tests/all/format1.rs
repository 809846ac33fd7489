// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of format 1 are exported, and made recordings of today's format of. Two are kept in
//! `tests/data`: one without checksums, as its first writers made them, and one with checksums and two
//! sessions, the second of which was killed. This file goes with `src/format1`.

use crate::format::{data, is_it, kept};
use crate::made::{desk, old, start};
use std::fs;
use std::path::Path;
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recorder, Recording, StoreError, Tick, recover};

const FILES: [&str; 2] = ["format-1.weir", "format-1-sums.weir"];

/// All ticks of a recording of today, session by session.
fn ticks(path: &Path) -> Vec<Tick> {
    let recording = Recording::open(path).unwrap();
    let sessions = recording.sessions().iter();
    let ticks = sessions.flat_map(|session| recording.ticks(session.id).map(Result::unwrap));
    ticks.collect()
}

fn tables(path: &Path) -> Result<Vec<String>, StoreError> {
    let tables = [Table::Workloads, Table::Devices, Table::Actions];
    let exported = tables.map(|table| {
        let recording = Recording::open_for_export(path)?;
        let mut out = Vec::new();
        export(&recording, table, Format::Csv, Range::default(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    });
    exported.into_iter().collect()
}

fn change(path: &Path, sql: &str) {
    let database = rusqlite::Connection::open(path).unwrap();
    database.execute_batch(sql).unwrap();
}

#[test]
fn it_is_upgraded_to_the_last_bit() {
    for (name, sessions, count, lines, bare) in
        [(FILES[0], 1, 140, 12, 1), (FILES[1], 2, 151, 10, 0)]
    {
        let dir = desk();
        let new = dir.path().join("new.weir");
        let found = recover(&data(name), &new).unwrap();
        assert_eq!(
            (found.sessions, found.ticks),
            (sessions, count),
            "{found:?}"
        );
        assert_eq!(found.sessions_without_checksums, bare, "{found:?}");
        let lost = found.lost_ticks + found.missing_at_end + found.unknown_ends;
        assert_eq!(
            (lost, found.damaged, found.unchecked),
            (0, 0, 0),
            "{found:?}"
        );
        let read = ticks(&new);
        let wanted = kept(&name.replace(".weir", ".jsonl"));
        assert_eq!(wanted.len(), lines);
        for wanted in wanted {
            let is_kept = read.iter().any(|tick| is_it(tick, &wanted));
            assert!(is_kept, "{name}: seq {}", wanted.plan.seq);
        }
        let recording = Recording::open(&new).unwrap();
        for session in recording.sessions() {
            assert_eq!(session.start, start(), "{name}");
            assert_eq!(recording.survey(session.id).unwrap().damage.first, None);
        }
        assert_eq!(recording.survey_shared().first, None, "{name}");
    }
}

#[test]
fn it_is_exported_as_what_is_made_of_it() {
    for name in FILES {
        let dir = desk();
        let new = dir.path().join("new.weir");
        recover(&data(name), &new).unwrap();
        let (old, new) = (tables(&data(name)).unwrap(), tables(&new).unwrap());
        assert!(old.iter().all(|table| table.lines().count() > 5), "{name}");
        // The last span of a killed session is made anew from its ticks: it is one more.
        for (old, new) in old.iter().zip(&new) {
            assert!(new.starts_with(old.as_str()), "{name}:\n{old}\n{new}");
        }
    }
}

/// Documents and tables have the names of today, although the file has those of then.
#[test]
fn it_has_the_names_of_today_after_an_export() {
    for name in FILES {
        let exported = tables(&data(name)).unwrap();
        let why = |word: &str| exported[0].contains(&format!(",{word}\n"));
        assert!(why("limited") && !why("cut"), "{name}: {}", exported[0]);
        let dir = desk();
        let new = dir.path().join("new.weir");
        recover(&data(name), &new).unwrap();
        let said: Vec<_> = ticks(&new)
            .iter()
            .map(|tick| serde_json::to_string(tick).unwrap())
            .collect();
        let said = said.concat();
        // The first writers had no such member.
        let has_traffic = said.contains("\"traffic\":{\"read\"");
        assert_eq!(has_traffic, name == FILES[1], "{name}");
        assert!(said.contains("\"why\":\"limited\""), "{name}");
        for former in ["own", "loads", "figure", "cut"] {
            assert!(!said.contains(&format!("\"{former}\"")), "{name}: {former}");
        }
        let database = rusqlite::Connection::open(&new).unwrap();
        let words: String = database
            .query_one(
                "SELECT group_concat(word, ' ' ORDER BY code) FROM word WHERE kind = 'why'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        let wanted = "observe_only excluded learning below_fair_share headroom limited at_floor no_data not_enforced";
        assert_eq!(words, wanted, "{name}");
    }
}

#[test]
fn what_is_made_of_it_can_be_gone_on_with() {
    let dir = desk();
    let new = dir.path().join("new.weir");
    recover(&data(FILES[1]), &new).unwrap();
    let added = crate::made::add_session(&new, 40, true);
    let read = ticks(&new);
    assert!(read[151..] == added[..]);
    // Texts of documents are not texts of columns.
    let database = rusqlite::Connection::open(&new).unwrap();
    let texts: u64 = database
        .query_one("SELECT count(*) FROM text", [], |row| row.get(0))
        .unwrap();
    assert!(texts < 20, "{texts} texts");
}

#[test]
fn elsewhere_it_is_named_with_the_next_move_and_left_as_it_is() {
    let dir = desk();
    let path = dir.path().join("old.weir");
    fs::copy(data(FILES[1]), &path).unwrap();
    let before = fs::read(&path).unwrap();
    let opened = Recording::open(&path).map(drop).unwrap_err();
    let extended = Recorder::open(&path, &start()).map(drop).unwrap_err();
    for error in [opened, extended] {
        let said = error.to_string();
        assert!(said.contains("format 1"), "{said}");
        assert!(said.contains("`weir export --upgrade NEW "), "{said}");
    }
    let recording = Recording::open_for_export(&path).unwrap();
    let tick = recording.ticks(1).next().unwrap();
    assert!(matches!(tick, Err(StoreError::TooOld { .. })));
    assert_eq!(recording.ticks(1).count(), 1);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn harm_is_found_and_the_rest_is_recovered() {
    for (sql, count, damaged, lost) in [
        (
            "UPDATE tick SET wall_unix_ms = 1 WHERE id = 100",
            151 - 29,
            1,
            29,
        ),
        (
            "UPDATE tick SET document = zeroblob(5) WHERE id = 5",
            151 - 124,
            1,
            124,
        ),
        // Two sessions have numbers of their own for it.
        (
            "UPDATE text SET text = 'x' WHERE text = 'observation'",
            0,
            2,
            0,
        ),
        ("DELETE FROM tick WHERE id > 140", 140, 0, 0),
    ] {
        let dir = desk();
        let path = dir.path().join("old.weir");
        fs::copy(data(FILES[1]), &path).unwrap();
        change(&path, sql);
        let new = dir.path().join("new.weir");
        let found = recover(&path, &new).unwrap();
        assert_eq!(
            (found.ticks, found.damaged),
            (count, damaged),
            "{sql}: {found:?}"
        );
        assert_eq!(found.lost_ticks, lost, "{sql}: {found:?}");
        assert_eq!(
            ticks(&new).len() as u64,
            count,
            "{sql}: all of them are read"
        );
    }
}

/// A figure that changed is not exported.
#[test]
fn an_export_of_it_compares_checksums() {
    for (sql, wanted) in [
        (
            "UPDATE workload_figures SET cpu_microcpus = 7 WHERE span = 21",
            "span 21",
        ),
        ("UPDATE action SET limit_cpus = 7.5", "action"),
        ("UPDATE session SET policy = 'drf'", "session 1"),
        (
            "UPDATE tick SET wall_unix_ms = 1 WHERE id = (SELECT min(tick) FROM action)",
            "tick",
        ),
    ] {
        let dir = desk();
        let path = dir.path().join("old.weir");
        fs::copy(data(FILES[1]), &path).unwrap();
        change(&path, sql);
        let said = tables(&path).unwrap_err().to_string();
        assert!(said.contains(wanted), "{sql}: {said}");
    }
}

/// The bits that say that a document has a sum may be hit, and the session's own row be lost.
#[test]
fn ticks_of_a_session_have_sums_throughout_or_none() {
    let dir = desk();
    let path = dir.path().join("old.weir");
    fs::copy(data(FILES[1]), &path).unwrap();
    let database = rusqlite::Connection::open(&path).unwrap();
    let key = "SELECT id, document FROM tick WHERE is_key = 1 AND id > 1 LIMIT 1";
    let (id, document): (i64, Vec<u8>) = database
        .query_row(key, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    database.execute("DELETE FROM session", []).unwrap();
    for bit in 0..64 {
        let mut changed = document.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        database
            .execute("UPDATE tick SET document = ? WHERE id = ?", (&changed, id))
            .unwrap();
        let new = dir.path().join(format!("{bit}.weir"));
        let found = recover(&path, &new).unwrap();
        assert_eq!((found.damaged, found.ticks), (1, 151 - 3), "bit {bit}");
        assert_eq!(ticks(&new).len() as u64, found.ticks, "bit {bit}");
    }
}

/// A setting that is not known, as of a weir of tomorrow, is passed over.
#[test]
fn settings_that_are_not_known_are_passed_over() {
    let dir = desk();
    let path = dir.path().join("old.weir");
    old(&path, 1);
    change(
        &path,
        "UPDATE session SET config = json_set(config, '$.of_tomorrow', 1)",
    );
    let recording = Recording::open_for_export(&path).unwrap();
    assert_eq!(recording.sessions()[0].start, start());
}
