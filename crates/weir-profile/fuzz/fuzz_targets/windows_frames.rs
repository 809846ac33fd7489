// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of windows in format 2. The first byte says what becomes of the rest: bytes of a file as they are;
//! or lines, compressed a frame for each part that a zero byte ends, with a checksum, and cut where the
//! second byte says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Write;
use weir_profile::WindowFile;
use zstd::stream::Encoder;

/// The text cut in parts, each of which is written as a frame.
fn framed(text: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in text.split(|byte| *byte == 0) {
        let mut encoder = Encoder::new(&mut all, 1).expect("memory");
        encoder.include_checksum(true).expect("a parameter");
        encoder.write_all(part).expect("memory");
        encoder.finish().expect("memory");
    }
    all
}

fuzz_target!(|bytes: &[u8]| {
    let [kind, cut, rest @ ..] = bytes else {
        return;
    };
    let mut file = match kind % 3 {
        0 => rest.to_vec(),
        _ => framed(rest),
    };
    if kind % 3 == 2 {
        file.truncate(file.len() * usize::from(*cut) / 255);
    }
    let Ok(read) = WindowFile::read(&file) else {
        return;
    };
    let mut as_text = read.clone();
    as_text.header.weir_windows = 1;
    let text = as_text.to_text().expect("what was read is JSON");
    assert_eq!(WindowFile::parse(&text), Ok(as_text));
});
