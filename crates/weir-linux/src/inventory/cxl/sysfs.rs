// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading below one root that is not trusted: bounded, and never out of it.

use super::Known;
use crate::inventory::numa::missing;
use crate::kernel::files::{Buffer, open_file, open_root};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_core::Missing;

/// Most entries of a directory that are read.
const ENTRY_COUNT_MAX: usize = 16_384;
/// Longest line that is taken for a value.
const VALUE_LEN_MAX: usize = 256;

/// sysfs, or a tree that imitates it.
pub(super) struct CxlSysfs {
    root: PathBuf,
    buffer: Buffer,
}

pub(super) fn lost(path: &Path, why: impl std::fmt::Display) -> Missing {
    Missing::Lost(format!("{}: {why}", path.display()))
}

impl CxlSysfs {
    pub(super) fn open(root: &Path) -> Known<Self> {
        let root = fs::canonicalize(root).map_err(|e| missing(root, &e))?;
        Ok(CxlSysfs {
            root,
            buffer: Buffer::new(),
        })
    }

    pub(super) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Where a directory or a link to one really lies.
    pub(super) fn real(&self, path: &Path) -> Known<PathBuf> {
        let real = fs::canonicalize(path).map_err(|e| missing(path, &e))?;
        if !real.starts_with(&self.root) {
            return Err(lost(path, "the link leads out of sysfs"));
        }
        Ok(real)
    }

    /// Names in a directory, in order; those that are not UTF-8 are no kernel's.
    pub(super) fn names(&self, dir: &Path) -> Known<Vec<String>> {
        let real = self.real(dir)?;
        let entries = fs::read_dir(real).map_err(|e| missing(dir, &e))?;
        let mut names = Vec::new();
        for entry in entries.take(ENTRY_COUNT_MAX) {
            let name = entry.map_err(|e| missing(dir, &e))?.file_name();
            names.extend(name.into_string());
        }
        names.sort_by_cached_key(|name| natural(name));
        Ok(names)
    }

    /// The only line of a file in a directory that was found by [`CxlSysfs::real`].
    pub(super) fn text(&mut self, dir: &Path, name: &str) -> Known<String> {
        let path = dir.join(name);
        let failed = |e: rustix::io::Errno| missing(&path, &io::Error::from(e));
        let dir = open_root(dir).map_err(failed)?;
        let file = open_file(&dir, name).map_err(failed)?;
        let bytes = self.buffer.read_all(&file).map_err(failed)?.trim_ascii();
        let text = std::str::from_utf8(bytes).map_err(|_| lost(&path, "it is no text"))?;
        if text.len() > VALUE_LEN_MAX || text.chars().any(char::is_control) {
            return Err(lost(&path, "it is no single short line"));
        }
        Ok(text.to_owned())
    }

    /// A number, decimal or with 0x.
    pub(super) fn number(&mut self, dir: &Path, name: &str) -> Known<u64> {
        let text = self.text(dir, name)?;
        number(&text).ok_or_else(|| lost(&dir.join(name), format!("{text:?} is no number")))
    }

    /// A node's number. The kernel writes -1 where it has none.
    pub(super) fn node(&mut self, dir: &Path, name: &str) -> Known<u32> {
        let text = self.text(dir, name)?;
        if text == "-1" {
            let why = format!("{}: the firmware names no node", dir.join(name).display());
            return Err(Missing::NotSupported(why));
        }
        let node = number(&text).and_then(|n| u32::try_from(n).ok());
        node.ok_or_else(|| lost(&dir.join(name), format!("{text:?} is no node")))
    }
}

pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()
        }
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// Alternating text and numbers, so that mem10 comes after mem9.
pub(crate) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (head, tail) = rest.split_at(text);
        let digits = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(digits);
        parts.push((head.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_and_the_order_of_names() {
        assert_eq!(number("0x1234"), Some(0x1234));
        assert_eq!(number("268435456"), Some(256 << 20));
        for bad in ["", "0x", "-1", "+1", "1 ", "0x1g", "18446744073709551616"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
        let mut names = ["mem10", "mem9", "decoder2.10", "decoder2.9", "mem"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["decoder2.9", "decoder2.10", "mem9", "mem10", "mem"]);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,40}") {
            let _ = (number(&text), natural(&text));
        }
    }
}
