// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of workloads: cgroup paths as text that can be undone (see `weir_core::ids`), and the
//! patterns of the exclude list.

use std::fmt::Write;

/// A path as text. Bytes that are not UTF-8 are written `\xNN`, and so is the backslash.
pub fn escape(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' {
                text.push_str("\\x5c")
            } else {
                text.push(c)
            }
        }
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The path that [`escape`] turned into `text`; nothing if it cannot have made it.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'\\' {
            path.push(*first);
            rest = after;
            continue;
        }
        let digits = after.strip_prefix(b"x")?.get(..2)?;
        let nibble = |b: u8| {
            char::from(b)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        path.push(nibble(digits[0])? << 4 | nibble(digits[1])?);
        rest = after.get(3..)?;
    }
    // One name, one text: `\x41` for `A` would give a workload two ids.
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
    fn names_of_systemd_and_of_enemies() {
        assert_eq!(
            escape(b"/system.slice/fio.service"),
            "/system.slice/fio.service"
        );
        assert_eq!(escape(b"/dev-disk\\x2d1.swap"), "/dev-disk\\x5cx2d1.swap");
        assert_eq!(escape(b"/a\xff\nb\xc3\xa9"), "/a\\xff\nb\u{e9}");
        for forged in ["\\", "\\x", "\\x4", "\\x41", "\\xFF", "\\y41", "\\xc3\\xa9"] {
            assert_eq!(unescape(forged), None, "{forged}");
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
        fn any_path_comes_back(path: Vec<u8>) {
            prop_assert_eq!(unescape(&escape(&path)), Some(path));
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
