// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings that were changed, and then got the checksums that they must have. The first byte says what is
//! changed, the second in which recording; the rest is
//!
//! * bytes of the file: eight bytes say where, what is done there, and with what;
//! * values of rows: four bytes say of which table, row and column, the next which kind it becomes, and what
//!   follows up to a zero byte is the value;
//! * the documents of ticks: a line of JSON for each, which is compressed.
//!
//! Each is opened, read, surveyed, exported and recovered. What was recovered is sound, and has no more than
//! there was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use weir_fuzz::{cut, desk, seal};
use weir_store::export::{Format, Range, Table, export};
use weir_store::{Recording, StoreError, recover};

/// A recording of the store's own tests.
const WHOLE: &[u8] = include_bytes!("../../../weir-store/tests/data/format-2.weir");
const TABLES: [&str; 11] = [
    "session",
    "text",
    "tick",
    "span",
    "device_figures",
    "workload_figures",
    "action",
    "word",
    "text_check",
    "span_check",
    "action_check",
];
/// Ticks of a recording that are read, from its first on: more only take time.
const FIRST_TICKS: i64 = 8;
/// Changes of one recording, likewise.
const CHANGES_MAX: usize = 32;
/// Nothing that is read out of these files is longer.
const EXPORT_MAX_BYTES: usize = 64 << 20;

/// Eight bytes: three for the place, one for what is done there, four for what with.
fn change_bytes(file: &mut Vec<u8>, changes: &[u8]) {
    for change in changes.chunks_exact(8).take(CHANGES_MAX) {
        let [a, b, c, what, with @ ..] = change else {
            return;
        };
        let at = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
        let at = at % file.len().max(1);
        match what % 8 {
            0 => file.truncate(at),
            1 => {
                let (from, to) = (at / 4096 * 4096, usize::from(with[0]) * 4096);
                if from.max(to) + 4096 <= file.len() {
                    file.copy_within(from..from + 4096, to);
                }
            }
            count => {
                let count = usize::from(count).min(4);
                let there = file.iter_mut().skip(at).take(count);
                there.zip(with).for_each(|(byte, with)| *byte = *with);
            }
        }
    }
}

fn value(kind: u8, bytes: &[u8]) -> Value {
    let mut number = [0; 8];
    number
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, byte)| *to = *byte);
    let number = i64::from_le_bytes(number);
    let text = || String::from_utf8_lossy(bytes).into_owned();
    match kind % 7 {
        0 => Value::Integer(number),
        1 => Value::Integer(text().trim().parse().unwrap_or(i64::MAX)),
        2 => Value::Real(f64::from_bits(number.cast_unsigned())),
        3 => Value::Text(text()),
        4 => Value::Blob(bytes.to_vec()),
        5 => Value::Blob(zstd::encode_all(bytes, 1).expect("memory")),
        _ => Value::Null,
    }
}

fn columns(database: &Connection, table: &str) -> Vec<String> {
    let statement = database.prepare(&format!("SELECT * FROM {table}"));
    statement.map_or_else(
        |_| Vec::new(),
        |found| {
            found
                .column_names()
                .into_iter()
                .map(str::to_owned)
                .collect()
        },
    )
}

/// Table, row, column and kind, and the value up to a zero byte. A row may go, too.
fn change_values(database: &Connection, mut changes: &[u8]) {
    for _ in 0..CHANGES_MAX {
        let [table, row, column, kind, rest @ ..] = changes else {
            return;
        };
        let (bytes, after) = cut(rest);
        changes = after;
        let table = TABLES[usize::from(*table) % TABLES.len()];
        let columns = columns(database, table);
        if columns.is_empty() {
            continue;
        }
        let name = &columns[usize::from(*column) % columns.len()];
        let keys = match columns.first() {
            Some(id) if id == "id" => "id",
            _ => &format!("{}, {}", columns[0], columns[1]),
        };
        let the =
            format!("({keys}) = (SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 1 OFFSET {row})");
        let _ = match column {
            255 => database.execute(&format!("DELETE FROM {table} WHERE {the}"), []),
            _ => {
                let change = format!("UPDATE OR REPLACE {table} SET {name} = ? WHERE {the}");
                database.execute(&change, params_from_iter([value(*kind, bytes)]))
            }
        };
    }
}

/// Lines are documents, one after the other: each a frame, or all of them one.
fn change_documents(database: &Connection, lines: &[u8]) {
    let change = "UPDATE tick SET document = ?2, is_key = 1 WHERE id = ?1";
    for (id, line) in (1i64..)
        .zip(lines.split(|byte| *byte == b'\n'))
        .take(CHANGES_MAX)
    {
        let document = zstd::encode_all(line, 1).expect("memory");
        let row = [Value::Integer(id), Value::Blob(document)];
        let _ = database.execute(change, params_from_iter(row));
    }
}

/// A base with few ticks: the first ones, and those that begin the next frame. Those between count as lost.
fn shorten(path: &Path) -> rusqlite::Result<()> {
    let database = Connection::open(path)?;
    let key = "SELECT min(id) FROM tick WHERE is_key AND session = 1 AND id > ?";
    let key: Option<i64> = database.query_row(key, [FIRST_TICKS], |row| row.get(0))?;
    let key = key.unwrap_or(i64::MAX - 9);
    let last = database.query_row(
        "SELECT min(max(id), ?2 + 3) FROM tick WHERE session = 1 AND (?2 < 1000000 OR id <= ?1)",
        [FIRST_TICKS, key],
        |row| row.get::<_, i64>(0),
    )?;
    database.execute_batch(&format!(
        "DELETE FROM tick WHERE session > 1 OR id > {last} OR (id > {FIRST_TICKS} AND id < {key});
         UPDATE tick SET lost_before = {key} - {FIRST_TICKS} - 1 WHERE id = {key};
         DELETE FROM session WHERE id > 1;
         DELETE FROM action WHERE tick NOT IN (SELECT id FROM tick);
         DELETE FROM span WHERE id > {FIRST_TICKS};
         DELETE FROM device_figures WHERE span NOT IN (SELECT id FROM span);
         DELETE FROM workload_figures WHERE span NOT IN (SELECT id FROM span);
         DELETE FROM action_check WHERE id NOT IN (SELECT tick FROM action);
         DELETE FROM span_check WHERE id NOT IN (SELECT id FROM span);"
    ))?;
    let config: String = database.query_row("SELECT config FROM session", [], |row| row.get(0))?;
    if let Some((before, after)) = config.split_once("\"last_tick\":") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let config = format!("{before}\"last_tick\":{last}{rest}");
        database.execute("UPDATE session SET config = ?", [config])?;
    }
    database.execute_batch("VACUUM")?;
    drop(database);
    seal::seal(path);
    Ok(())
}

/// The rows of ticks in a recording, as the database counts them.
fn count_ticks(path: &Path) -> u64 {
    let count = |database: Connection| {
        database.query_row("SELECT count(*) FROM tick", [], |row| row.get(0))
    };
    Connection::open(path)
        .and_then(count)
        .expect("a recording of the tests")
}

/// The recording that is changed, and how many ticks it has; made once.
fn base() -> &'static (Vec<u8>, u64) {
    static BASE: OnceLock<(Vec<u8>, u64)> = OnceLock::new();
    BASE.get_or_init(|| {
        let path = desk().join("base.weir");
        fs::write(&path, WHOLE).expect("a file in memory");
        shorten(&path).expect("a recording of the tests");
        let recording = Recording::open(&path).expect("it is a recording still");
        let faults = recording.survey_shared();
        assert!(faults.first.is_none(), "it is not sound: {faults:?}");
        for tick in recording.ticks(1) {
            assert!(tick.is_ok(), "{:?}", tick.err());
        }
        let bytes = fs::read(&path).expect("a file in memory");
        (bytes, count_ticks(&path))
    })
}

/// Makes the recording. Says how many ticks it may have at most: a change may leave the row that was there
/// before, where nothing leads to it, and recovery finds it.
fn make(path: &Path, bytes: &[u8]) -> Option<u64> {
    let [what, changes @ ..] = bytes else {
        return None;
    };
    let (file, ticks) = base();
    let mut file = file.clone();
    if what % 3 == 0 {
        change_bytes(&mut file, changes);
    }
    fs::write(path, &file).expect("a file in memory");
    if what % 3 > 0 {
        let database = Connection::open(path).ok()?;
        let quick = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
        database.execute_batch(quick).ok()?;
        match what % 3 {
            1 => change_values(&database, changes),
            _ => change_documents(&database, changes),
        }
        database.execute_batch("COMMIT").ok()?;
    }
    seal::seal(path);
    Some(ticks + CHANGES_MAX as u64)
}

/// Counts what is written, and keeps nothing.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        assert!(self.0 < EXPORT_MAX_BYTES, "an export does not end");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads all that there is, and says how many ticks have the sum they must have.
fn read(path: &Path) -> Result<u64, StoreError> {
    let recording = Recording::open(path)?;
    let mut sound = 0;
    for session in recording.sessions() {
        let survey = recording.survey(session.id)?;
        let ticks: Vec<_> = recording.ticks(session.id).take(10_000).collect();
        assert!(ticks.len() < 10_000, "ticks do not end");
        let read = ticks.iter().filter(|tick| tick.is_ok()).count() as u64;
        assert!(read <= survey.ticks, "{read} ticks of {}", survey.ticks);
        sound += read;
        if let Some(last) = recording.last_unix_ms(session.id)? {
            let _ = recording
                .ticks_from(session.id, last)
                .map(|ticks| ticks.take(100).count());
        }
    }
    let _ = recording.survey_shared();
    for table in [Table::Workloads, Table::Devices, Table::Actions] {
        for format in [
            Format::Csv,
            Format::JsonLines,
            Format::Influx,
            Format::Parquet,
        ] {
            let _ = export(&recording, table, format, Range::default(), Counted(0));
        }
    }
    Ok(sound)
}

/// What was recovered is a recording without a fault, and says of itself what it has.
fn check_recovered(path: &Path, new: &Path, sound: Option<u64>, most: u64) {
    let _ = fs::remove_file(new);
    let Ok(found) = recover(path, new) else {
        return;
    };
    let rows = found.ticks;
    assert!(
        rows <= most,
        "{rows} ticks were recovered of at most {most}"
    );
    let recording = Recording::open(new).expect("what was recovered is a recording");
    let mut ticks = 0;
    for session in recording.sessions() {
        let survey = recording.survey(session.id).expect("it can be read");
        assert_eq!(survey.damage.first, None, "session {}", session.id);
        ticks += survey.ticks;
        let bad = recording.ticks(session.id).find_map(Result::err);
        assert!(bad.is_none(), "{bad:?}");
    }
    assert_eq!(ticks, rows, "what it says that it recovered");
    assert_eq!(recording.survey_shared().first, None);
    assert!(
        sound.is_none_or(|sound| rows >= sound),
        "{rows} of {sound:?} were recovered"
    );
}

fuzz_target!(|bytes: &[u8]| {
    let (path, new) = (desk().join("a.weir"), desk().join("b.weir"));
    for name in [
        "a.weir-journal",
        "a.weir-wal",
        "a.weir-shm",
        "b.weir-wal",
        "b.weir-shm",
    ] {
        let _ = fs::remove_file(desk().join(name));
    }
    let Some(most) = make(&path, bytes) else {
        return;
    };
    let before = fs::read(&path).expect("a file in memory");
    let sound = read(&path).ok();
    assert!(
        fs::read(&path).expect("a file in memory") == before,
        "reading changed it"
    );
    check_recovered(&path, &new, sound, most);
});
