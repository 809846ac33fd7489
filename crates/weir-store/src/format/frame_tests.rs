// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn documents(count: usize) -> Vec<Value> {
    let one = |n: usize| json!({"seq": n, "workloads": ["/a", "/b"], "at": 1_000_000_007 * n, "ratio": 0.1 * n as f64});
    (0..count).map(one).collect()
}

fn encoded(documents: &[Value]) -> Vec<(Vec<u8>, bool)> {
    let mut encoder = Encoder::new().unwrap();
    let add = |document| encoder.add(document).unwrap();
    documents.iter().map(add).collect()
}

#[test]
fn each_frame_is_read_alone() {
    let count = DOCUMENTS_PER_FRAME as usize;
    let documents = documents(3 * count);
    let rows = encoded(&documents);
    for (place, (_, is_key)) in rows.iter().enumerate() {
        assert_eq!(*is_key, place % count == 0, "{place}");
    }
    let mut decoder = Decoder::new().unwrap();
    for (row, document) in rows.iter().zip(&documents).skip(count) {
        let text = decoder.read(&row.0, row.1).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(text).unwrap(), *document);
    }
}

/// Rows from a frame's first on, and an empty last block, are what any program takes for a file of zstd.
#[test]
fn any_part_of_a_frame_from_its_beginning_on_is_a_whole_frame() {
    let documents = documents(5);
    let rows = encoded(&documents);
    for count in 1..=5 {
        let mut frame: Vec<u8> = rows[..count].iter().flat_map(|row| row.0.clone()).collect();
        frame.extend([1, 0, 0]);
        let text = zstd::stream::decode_all(frame.as_slice()).unwrap();
        let lines: Vec<Value> = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!(lines, documents[..count]);
    }
}

#[test]
fn what_could_not_be_kept_is_not_referred_to() {
    let mut encoder = Encoder::new().unwrap();
    let document = json!({"a": "x".repeat(500)});
    assert!(encoder.add(&document).unwrap().1);
    assert!(!encoder.add(&document).unwrap().1);
    encoder.restart();
    assert!(encoder.add(&document).unwrap().1);
    // No text can be made of a key that is a list.
    let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
    assert!(matches!(encoder.add(&odd), Err(FrameError::Json(_))));
    let (bytes, is_key) = encoder.add(&document).unwrap();
    assert!(is_key);
    assert!(Decoder::new().unwrap().read(&bytes, true).is_ok());
}

/// A few bytes of a frame can stand for gigabytes of text, and a head can claim as much memory.
#[test]
fn bytes_cannot_grow_without_end() {
    let text = vec![b' '; DOCUMENT_MAX_BYTES + 1];
    let bomb = zstd::stream::encode_all(text.as_slice(), 1).unwrap();
    assert!(bomb.len() < 100_000);
    let said = Decoder::new().unwrap().read(&bomb, true).unwrap_err();
    assert!(said.contains("more than"), "{said}");
    // Magic number, no flags, and a window of 2^31 bytes.
    let greedy = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0];
    let said = Decoder::new().unwrap().read(&greedy, true).unwrap_err();
    assert!(said.contains("memory"), "{said}");
    let long = json!("x".repeat(DOCUMENT_MAX_BYTES));
    let mut encoder = Encoder::new().unwrap();
    assert!(matches!(encoder.add(&long), Err(FrameError::TooLong(_))));
}

proptest! {
    #[test]
    fn no_bytes_panic(all in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 1..6)) {
        let mut decoder = Decoder::new().unwrap();
        for (bytes, is_key) in all {
            let _ = decoder.read(&bytes, is_key);
        }
    }

    #[test]
    fn no_flipped_bit_panics(which: prop::sample::Index, place: prop::sample::Index, bit in 0u8..8) {
        let mut rows = encoded(&documents(6));
        let row = which.get(&rows).0.len();
        let which = which.index(rows.len());
        rows[which].0[place.index(row)] ^= 1 << bit;
        let mut decoder = Decoder::new().unwrap();
        for (bytes, is_key) in &rows {
            let _ = decoder.read(bytes, *is_key);
        }
    }
}
