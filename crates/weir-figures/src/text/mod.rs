// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words and numbers for people.
//!
//! Names and reasons come from files, from programs in the guest, and from every user that may create
//! cgroups, and weir shows them to root: they may hold anything. Nothing of them reaches a terminal, a page
//! or a picture without passing [`harmless`] (a name: what cannot be seen is spelled out) or [`line()`] (a
//! sentence: one line, without what cannot be seen) and, for markup, [`escape`]. Widths are counted in cells
//! of a terminal, and not in bytes or characters.

mod numbers;

pub use numbers::{
    Unit, ago, bandwidth_unit, clock, cpus, decimals, in_unit, intensity, number, percent,
    plain_number, rate, short_percent, signed_percent, size, time_unit, whole_percent,
};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is printed for a value that is not known.
pub const NONE: &str = "–";

/// Cells of a terminal that a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` as one line of at most `columns` columns; what is left out shows as `…`.
pub fn line(text: &str, columns: usize) -> String {
    let visible = text.chars().filter(|c| !is_invisible(*c));
    let plain: String = visible
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let whole = words.join(" ");
    if whole.width() <= columns {
        return whole;
    }
    let mut shortened = String::new();
    let mut used = 0;
    for c in whole.chars() {
        used += c.width().unwrap_or(0);
        if used >= columns {
            break;
        }
        shortened.push(c);
    }
    shortened + "…"
}

/// Characters that change how their neighbours are shown, or show nothing themselves: among them the controls
/// of direction and the Arabic letter mark (UAX #9).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The name with everything that could move the cursor or hide text spelled out.
pub fn harmless(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || UnicodeWidthChar::width(c).unwrap_or(0) == 0 || is_invisible(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// `text` for an HTML or SVG text node or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || is_invisible(c) => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// `text` broken into lines of at most `columns` columns, at spaces where there are any, but not between a
/// number and `%`. It keeps the spaces it begins with; later lines are indented by `indent`.
pub fn wrap(text: &str, columns: usize, indent: usize) -> String {
    let body = text.trim_start_matches(' ');
    let mut used = text.len() - body.len();
    let mut lines = " ".repeat(used);
    let mut at_start = true;
    for word in body.replace(" %", "\u{a0}%").split(' ') {
        let word = word.replace("\u{a0}%", " %");
        if !at_start && used + 1 + word.width() > columns {
            lines += &format!("\n{}", " ".repeat(indent));
            (used, at_start) = (indent, true);
        }
        if !at_start {
            lines.push(' ');
            used += 1;
        }
        at_start = false;
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > columns {
                lines += &format!("\n{}", " ".repeat(indent));
                used = indent;
            }
            lines.push(c);
            used += wide;
        }
    }
    lines
}

/// The text in at most `cells` cells. A longer text loses its middle, because the end of a cgroup's path says
/// more than its middle.
pub fn fit(text: &str, cells: usize) -> String {
    if text.width() <= cells {
        return text.to_owned();
    }
    if cells == 0 {
        return String::new();
    }
    let room = cells - 1;
    let head = take_cells(text.chars(), room / 4);
    let tail = take_cells(text.chars().rev(), room - head.width());
    let tail: String = tail.chars().rev().collect();
    format!("{head}…{tail}")
}

/// [`left`] of a text, with its first `keep` cells kept where there is room for them and for a little more.
pub fn left_keeping(text: &str, keep: usize, cells: usize) -> String {
    const MORE: usize = 4;
    let head = take_cells(text.chars(), keep);
    match (text.get(head.len()..), cells.checked_sub(keep)) {
        (Some(rest), Some(room)) if room >= MORE => left(&(head + &fit(rest, room)), cells),
        _ => left(text, cells),
    }
}

fn take_cells(chars: impl Iterator<Item = char>, cells: usize) -> String {
    let mut used = 0;
    let within = |c: &char| {
        used += UnicodeWidthChar::width(*c).unwrap_or(0);
        used <= cells
    };
    chars.take_while(within).collect()
}

/// `text` in exactly `cells` cells, cut by [`fit`] or padded on the right.
pub fn left(text: &str, cells: usize) -> String {
    let text = fit(text, cells);
    let pad = cells.saturating_sub(text.width());
    format!("{text}{}", " ".repeat(pad))
}

/// `text` in exactly `cells` cells, padded on the left.
pub fn right(text: &str, cells: usize) -> String {
    let text = fit(text, cells);
    let pad = cells.saturating_sub(text.width());
    format!("{}{text}", " ".repeat(pad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_one_line_and_cannot_drive_the_terminal() {
        assert_eq!(line("a\n b\u{1b}[31m\u{202e}c\0", 80), "a b [31mc");
        assert_eq!(line("twelve chars", 12), "twelve chars");
        assert_eq!(line("twelve chars", 8), "twelve …");
        assert_eq!(line("日本語日本語", 5).width(), 5);
        assert_eq!(line("", 0), "");
    }

    #[test]
    fn wrapping_keeps_the_words_and_the_width() {
        let text = "none of these words is long but there are many of them in this line";
        let wrapped = wrap(text, 20, 4);
        assert!(wrapped.lines().all(|l| l.width() <= 20), "{wrapped}");
        assert!(
            wrapped.lines().skip(1).all(|l| l.starts_with("    ")),
            "{wrapped}"
        );
        let words: Vec<&str> = wrapped.split_whitespace().collect();
        assert_eq!(words.join(" "), text);
        assert_eq!(wrap("  ab cd", 80, 4), "  ab cd");
        assert_eq!(wrap("within 5 %", 9, 0), "within\n5 %");
        assert_eq!(wrap("ab cdefghijkl", 6, 2), "ab\n  cdef\n  ghij\n  kl");
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(
            escape("<b a='1'>&\"\u{0}"),
            "&lt;b a=&#39;1&#39;&gt;&amp;&quot; "
        );
    }

    #[test]
    fn escapes_cannot_reach_the_terminal() {
        assert_eq!(harmless("/a\u{1b}[2Jb"), "/a\\u{1b}[2Jb");
        assert_eq!(harmless("x\ny\u{202e}z\u{9b}"), "x\\u{a}y\\u{202e}z\\u{9b}");
        assert_eq!(harmless("/Größe/日本"), "/Größe/日本");
    }

    #[test]
    fn the_middle_goes_first() {
        assert_eq!(fit("/system.slice/fio-1.service", 16), "/sy…io-1.service");
        assert_eq!(fit("short", 5), "short");
        assert_eq!(
            fit("日本日本日本", 4).width(),
            3,
            "half a wide character does not exist"
        );
        assert_eq!(left("日本日本日本", 5).width(), 5);
    }

    #[test]
    fn what_is_to_be_kept_is_kept() {
        let name = "pod:2f4c1a7e /kubepods.slice/kubepods-pod1.slice/crio-9.scope";
        assert_eq!(left_keeping(name, 13, 30), "pod:2f4c1a7e /kub…crio-9.scope");
        assert_eq!(left_keeping(name, 13, 15).width(), 15);
        assert_eq!(left_keeping("short", 0, 8), "short   ");
        assert_eq!(left_keeping("ab", 7, 12).width(), 12);
    }

    proptest! {
        #[test]
        fn every_text_fits(name in "\\PC{0,60}|(?s).{0,60}", cells in 0usize..40) {
            let clean = harmless(&name);
            prop_assert!(!clean.chars().any(char::is_control));
            prop_assert!(fit(&clean, cells).width() <= cells);
            prop_assert_eq!(left(&clean, cells).width(), cells);
        }
    }
}
