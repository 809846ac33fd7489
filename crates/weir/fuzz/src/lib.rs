// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the targets share: a directory in memory, a small machine in it, and recordings whose checksums are
//! made right.

pub mod machine;
pub mod seal;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A directory of this process, in memory: targets make and remove files at each run. libFuzzer ends without
/// cleaning up: `xtask/fuzz` says where it is made, and removes it.
pub fn desk() -> &'static Path {
    static DESK: OnceLock<PathBuf> = OnceLock::new();
    DESK.get_or_init(|| {
        let place = std::env::var_os("WEIR_FUZZ_DESK").unwrap_or("/dev/shm".into());
        let dir = tempfile::Builder::new()
            .prefix("weir-fuzz-")
            .tempdir_in(place);
        dir.map(TempDir::keep).expect("a directory in memory")
    })
}

/// The text of bytes up to the next zero byte, and what follows that.
pub fn cut(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (head, tail) = bytes.split_at(end.unwrap_or(bytes.len()));
    (head, tail.get(1..).unwrap_or_default())
}

/// The bytes that a word of base64 stands for, up to the first character that is none; whatever its padding.
pub fn base64(word: &[u8]) -> Vec<u8> {
    let mut bits = 0u32;
    let mut count = 0;
    let mut bytes = Vec::new();
    for letter in word {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
