// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use proptest::prelude::*;
use rusqlite::params;
use std::collections::BTreeMap;
use std::path::Path;

fn all(path: &Path) -> BTreeMap<i64, Vec<Value>> {
    let pages = Pages::new(File::open(path).unwrap()).unwrap();
    let mut budget = pages.bytes();
    let mut found = BTreeMap::new();
    pages.scan(&mut |shape, place| {
        if let (Shape::Tick, Some(row)) = (shape, pages.row(place, &mut budget)) {
            found.insert(place.id, row);
        }
    });
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Rows that fit a page, rows that go on over many, numbers of each length.
    #[test]
    fn rows_are_read_as_the_database_reads_them(
        rows in prop::collection::vec((any::<i64>(), -1i64..3, 0usize..20_000, any::<u8>()), 1..80),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch("PRAGMA synchronous = OFF").unwrap();
        database.execute_batch(crate::format::SCHEMA).unwrap();
        database.execute_batch("BEGIN").unwrap();
        let mut wanted = BTreeMap::new();
        for (number, (wall, key, length, byte)) in (1i64..).zip(rows) {
            let document = vec![byte; length];
            database.execute(
                "INSERT INTO tick VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![number, number, wall, key, i64::from(byte), document, number],
            ).unwrap();
            wanted.insert(number, vec![
                Value::Integer(number),
                Value::Integer(number),
                Value::Integer(wall),
                Value::Integer(key),
                Value::Integer(byte.into()),
                Value::Blob(document),
                Value::Integer(number),
            ]);
        }
        database.execute_batch("COMMIT").unwrap();
        drop(database);
        prop_assert_eq!(all(&path), wanted);
    }

    /// Whatever the pages say: no panic, and no more than there is.
    #[test]
    fn any_pages(mut bytes in prop::collection::vec(any::<u8>(), 1024..8192), leaf: bool) {
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..18].copy_from_slice(&512u16.to_be_bytes());
        bytes[20] = 0;
        if leaf {
            for page in bytes.chunks_mut(512) {
                page[0] = LEAF;
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        std::fs::write(&path, &bytes).unwrap();
        if let Some(pages) = Pages::new(File::open(&path).unwrap()) {
            let mut budget = pages.bytes();
            let mut places = Vec::new();
            pages.scan(&mut |_, place| places.push(place));
            for place in places {
                pages.row(place, &mut budget);
            }
        }
    }
}

#[test]
fn numbers_are_those_of_the_file_format() {
    for (bytes, wanted) in [
        (&[0x7f][..], 127),
        (&[0x81, 0x00], 128),
        (&[0xff; 9], u64::MAX),
        (&[0x80, 0x80, 0x01], 1),
    ] {
        assert_eq!(varint(&mut &bytes[..]), Some(wanted), "{bytes:?}");
    }
    assert_eq!(varint(&mut &[0xff, 0xff][..]), None);
    assert_eq!(signed(&[0xff]), -1);
    assert_eq!(signed(&[0x01, 0x00]), 256);
    assert_eq!(signed(&[]), 0);
}
