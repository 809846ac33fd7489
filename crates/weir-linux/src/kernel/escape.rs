// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of workloads: cgroup paths as text that can be undone (see `weir_core::ids`), and the
//! patterns of the exclude list.
//!
//! A path stands as the kernel and systemd write it, so that names of weir are those of `systemctl status`,
//! cadvisor and `/proc/PID/cgroup`: what systemd has escaped (`\x2d`) is part of the name and stays. Only
//! bytes that would harm a terminal or a line, or that are not UTF-8, are written as `\ooo`, a backslash and
//! three octal digits, as the kernel does in `/proc/self/mountinfo`. systemd never writes that form. A
//! backslash that has three such digits behind it in the path itself is written `\134`, so that no two paths
//! have one text; and so is one at the end or before a blank, a comma or an equals sign, which a line of
//! InfluxDB cannot have, so that the text is the same there.

use std::fmt::Write;

/// A path as text.
pub fn escape(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        let valid = chunk.valid();
        for (at, c) in valid.char_indices() {
            let behind = valid.as_bytes().get(at + 1..).unwrap_or_default();
            // Only the last chunk has nothing invalid behind it.
            let is_odd = match behind.first() {
                Some(next) => b" ,=".contains(next) || octal(Some(behind)).is_some(),
                None => chunk.invalid().is_empty(),
            };
            if c == '\\' && is_odd || is_harmful(c) {
                octals(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                text.push(c);
            }
        }
        octals(&mut text, chunk.invalid());
    }
    text
}

fn octals(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing into a String cannot fail.
        let _ = write!(text, "\\{byte:03o}");
    }
}

/// Characters that move a cursor, end a line, are invisible or change the direction of text (UAX #9;
/// Unicode's format characters).
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The byte that three octal digits at the start of these stand for.
fn octal(digits: Option<&[u8]>) -> Option<u8> {
    let digits = digits?.get(..3)?;
    let value = digits.iter().try_fold(0u16, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|d| *d < 8)?;
        Some(sum * 8 + u16::from(digit))
    })?;
    u8::try_from(value).ok()
}

/// The path that [`escape`] turned into `text`; nothing if it cannot have made it.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match octal(Some(after)).filter(|_| *first == b'\\') {
            Some(byte) => {
                path.push(byte);
                rest = after.get(3..)?;
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    // One name, one text: `\101` for `A` would give a workload two ids.
    (escape(&path) == text).then_some(path)
}

/// Whether `text` matches a pattern in which `*` stands for any bytes (slashes too) and `?` for one
/// byte. Takes at most pattern × text steps.
pub(crate) fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if the bytes after the last star turn out wrong: it then swallows one more.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(want) if *want == b'?' || *want == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    p = after_star;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_systemd_stay_as_they_are() {
        for name in [
            "/system.slice/fio.service",
            r"/machine.slice/machine-qemu\x2d1\x2dvm.scope",
            r"/system.slice/dev-disk-by\x2dlabel-gr\xc3\xb6\xc3\x9fe.swap",
            r"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/cri-containerd-0.scope",
            r"/system.slice/docker-0123.scope",
            r"/a\b\\c",
            r"/\8\48\400\9",
            "/Größe/日本",
        ] {
            assert_eq!(escape(name.as_bytes()), name);
            assert_eq!(unescape(name).as_deref(), Some(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_harms_is_written_in_octal_and_nothing_else_reads_so() {
        for (path, text) in [
            (&b"/a\xff\nb\xc3\xa9"[..], "/a\\377\\012b\u{e9}"),
            (b"/\x1b[2J", "/\\033[2J"),
            ("/a\u{202e}b".as_bytes(), "/a\\342\\200\\256b"),
            (b"/a\\012b", "/a\\134012b"),
            (b"/a\\", "/a\\134"),
            (b"/a\\ b\\,c\\=", "/a\\134 b\\134,c\\134="),
            (b"/\\\\377", "/\\\\134377"),
            (b"/\\\xff", "/\\\\377"),
            // A byte that is none, and then digits: three belong to it.
            (b"/\xff12", "/\\37712"),
        ] {
            assert_eq!(escape(path), text);
            assert_eq!(unescape(text).as_deref(), Some(path), "{text}");
        }
        // What is never written so is no name.
        for forged in ["\\101", "\\012\u{1b}", "\\303\\251", "a\nb", "\\134x2d"] {
            assert_eq!(unescape(forged), None, "{forged:?}");
        }
    }

    #[test]
    fn stars_cross_slashes() {
        for (pattern, text, want) in [
            ("/system.slice/*", "/system.slice/a/b", true),
            ("*fio*", "/x/fio.service", true),
            ("/fi?", "/fio", true),
            ("/fi?", "/fi", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("fio", "/fio", false),
        ] {
            assert_eq!(glob_matches(pattern, text), want, "{pattern} on {text}");
        }
        assert!(!glob_matches(&"*a".repeat(50), &"a".repeat(40)));
    }

    /// The plain version: what the fast one must agree with.
    fn by_hand(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                by_hand(rest, text) || text.split_first().is_some_and(|(_, t)| by_hand(pattern, t))
            }
            (Some((p, rest)), Some((t, tail))) => (*p == b'?' || p == t) && by_hand(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn any_path_comes_back(path: Vec<u8>, odd in "[\\\\0-9x/\u{1b}\u{202e}é]{0,12}") {
            prop_assert_eq!(unescape(&escape(&path)), Some(path));
            prop_assert_eq!(unescape(&escape(odd.as_bytes())), Some(odd.clone().into_bytes()));
            prop_assert!(!escape(odd.as_bytes()).chars().any(is_harmful));
        }

        #[test]
        fn any_text_is_survived(text: String) {
            if let Some(path) = unescape(&text) {
                prop_assert_eq!(escape(&path), text);
            }
        }

        #[test]
        fn the_fast_glob_agrees_with_the_plain_one(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(glob_matches(&pattern, &text), by_hand(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
