// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What longer and shorter frames would make of the documents of a recording: bytes a tick, and ticks that a
//! damaged one makes unreadable. The figures are in docs/evidence/recordings.md.
//!
//! `cargo run --release -p weir-store --example frame_length -- FILE`
#![allow(clippy::unwrap_used, reason = "a tool for the bench")]

use std::path::PathBuf;
use weir_store::Recording;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

fn main() {
    let path = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let recording = Recording::open(&path).unwrap();
    let sessions = recording.sessions().iter();
    let ticks = sessions.flat_map(|session| recording.ticks(session.id));
    let documents: Vec<String> = ticks
        .map(|tick| serde_json::to_string(&tick.unwrap()).unwrap() + "\n")
        .collect();
    let json: usize = documents.iter().map(String::len).sum();
    println!(
        "{} ticks, {} bytes of JSON a tick",
        documents.len(),
        json / documents.len()
    );
    for length in [1, 8, 16, 32, 64, 128, 256] {
        let bytes = encoded(&documents, length) as f64 / documents.len() as f64;
        println!("{length:4} ticks a frame: {bytes:8.0} bytes a tick");
    }
}

/// Encodes documents as `format/frame.rs` does.
fn encoded(documents: &[String], length: usize) -> usize {
    let mut zstd = Encoder::new(1).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut sum = 0;
    for (place, document) in documents.iter().enumerate() {
        if place.is_multiple_of(length) {
            zstd.reinit().unwrap();
        }
        let mut input = InBuffer::around(document.as_bytes());
        while input.pos() < document.len() {
            let mut out = OutBuffer::around(buffer.as_mut_slice());
            zstd.run(&mut input, &mut out).unwrap();
            sum += out.pos();
        }
        let mut out = OutBuffer::around(buffer.as_mut_slice());
        while zstd.flush(&mut out).unwrap() > 0 {}
        sum += out.pos();
    }
    sum
}
