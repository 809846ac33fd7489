// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use proptest::prelude::*;
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::Path;

/// The first documents of a recording that is kept, and its texts.
fn recorded(count: u32) -> (Vec<Vec<u8>>, HashMap<u64, String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format-1-sums.weir");
    let database = Connection::open(path).unwrap();
    let mut query = database
        .prepare("SELECT document FROM tick ORDER BY id LIMIT ?")
        .unwrap();
    let documents = query.query_map([count], |row| row.get(0)).unwrap();
    let documents = documents.map(Result::unwrap).collect();
    let mut query = database.prepare("SELECT id, text FROM text").unwrap();
    let texts = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    (documents, texts.map(Result::unwrap).collect())
}

#[test]
fn bytes_cannot_grow_without_end() {
    let mut texts = |number| (number == 0).then(|| "x".repeat(1000));
    // Each document is a list of two copies of the one before: 2^n values after n documents.
    let mut reader = Reader::default();
    let first = [LIST, 1, LIST, 2, TEXT, 0, TEXT, 0];
    let mut result = reader.read(&first, &mut texts).map(|_| ());
    for _ in 0..40 {
        let twice = [ITEMS, 1, ITEM_CHANGED, LIST, 2, SAME, SAME];
        result = result.and_then(|()| reader.read(&twice, &mut texts).map(|_| ()));
    }
    assert!(result.is_err());
    let deep = [LIST, 1].repeat(1000);
    assert!(reader.read(&deep, &mut texts).is_err(), "depth");
}

#[test]
fn numbers_are_read_as_they_were_written() {
    for (bytes, wanted) in [
        (&[0x7f][..], 127),
        (&[0x80, 0x01], 128),
        (
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            u64::MAX,
        ),
    ] {
        assert_eq!(number(&mut &bytes[..]), Ok(wanted));
    }
    assert!(number(&mut [0xff; 10].as_slice()).is_err());
    assert!(number(&mut [].as_slice()).is_err());
    // 0, −1, 1, −2, … around the ring.
    assert_eq!(
        [0, 1, 2, 3].map(|step| walk(0, step)),
        [0, u64::MAX, 1, u64::MAX - 1]
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..6)) {
        let names = ["at", "id", "a"];
        let mut texts = |number| names.get(usize::try_from(number).ok()?).map(|name| (*name).to_owned());
        let mut reader = Reader::default();
        let _ = reader.read(&[OBJECT, 1, 1, LIST, 2, UINT, 1, NULL], &mut texts);
        for bytes in all {
            let _ = reader.read(&bytes, &mut texts);
        }
    }

    #[test]
    fn no_flipped_bit_panics(which: prop::sample::Index, place: prop::sample::Index, bit in 0u8..8) {
        let (mut documents, texts) = recorded(4);
        let which = which.index(documents.len());
        let place = place.index(documents[which].len());
        documents[which][place] ^= 1 << bit;
        let mut reader = Reader::default();
        for bytes in &documents {
            let _ = reader.read(bytes, &mut |number| texts.get(&number).cloned());
        }
    }
}
