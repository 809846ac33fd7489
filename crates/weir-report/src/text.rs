// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words and numbers for people.
//!
//! Names and reasons in results come from files and from programs in the guest: they may hold
//! anything. Nothing of them reaches a terminal, a page or a picture without passing [`line()`]
//! (one line, no control characters, no direction overrides) and, for markup, [`escape`].

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What is printed for a value that is not known.
pub const NONE: &str = "–";

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

/// Characters that change how their neighbours are shown, or show nothing themselves.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
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

/// Pad to `columns` on the right (left-aligned) by what is seen, not by bytes.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Pad to `columns` on the left (right-aligned).
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Three significant digits, more for whole numbers above 1000; a real minus sign.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return NONE.into();
    }
    let digits = match size {
        s if s >= 1e7 => format!("{s:.2e}"),
        s if s >= 99.95 => format!("{s:.0}"),
        s if s >= 9.995 => format!("{s:.1}"),
        s if s >= 0.9995 || s == 0.0 => format!("{s:.2}"),
        s if s >= 0.0005 => format!("{s:.3}"),
        s => format!("{s:.1e}"),
    };
    if value < 0.0 {
        format!("−{digits}")
    } else {
        digits
    }
}

/// [`number`] without zeros at its end: for what was chosen, not measured.
pub fn plain_number(value: f64) -> String {
    let digits = number(value);
    match digits.contains('.') && !digits.contains('e') {
        true => digits.trim_end_matches('0').trim_end_matches('.').into(),
        false => digits,
    }
}

/// A ratio in percent. With `signed` a plus stands before what is above zero.
pub fn percent(ratio: f64, signed: bool) -> String {
    let value = ratio * 100.0;
    let digits = match value.abs() {
        s if !s.is_finite() => return NONE.into(),
        s if s >= 1e7 => format!("{s:.2e}"),
        s if s >= 99.95 => format!("{s:.0}"),
        s if s >= 9.995 => format!("{s:.1}"),
        s => format!("{s:.2}"),
    };
    let sign = match value {
        _ if digits == "0.00" => "",
        v if v < 0.0 => "−",
        _ if signed => "+",
        _ => "",
    };
    format!("{sign}{digits}")
}

/// A signed ratio in percent with two digits, for what is only to be seen at a glance.
pub fn short_percent(ratio: f64) -> String {
    let value = ratio * 100.0;
    let digits = match value.abs() {
        s if !s.is_finite() => return NONE.into(),
        s if s >= 1e5 => format!("{s:.0e}"),
        s if s >= 9.95 => format!("{s:.0}"),
        s => format!("{s:.1}"),
    };
    match value {
        _ if digits == "0.0" => digits,
        v if v < 0.0 => format!("−{digits}"),
        _ => format!("+{digits}"),
    }
}

/// A unit that makes the largest of some values a small number: what to divide by, and its name.
pub type Unit = (f64, &'static str);

/// For bytes per second: binary units.
pub fn bandwidth_unit(largest_bytes_per_sec: f64) -> Unit {
    match largest_bytes_per_sec.abs() {
        v if v >= (1u64 << 30) as f64 => ((1u64 << 30) as f64, "GiB/s"),
        v if v >= (1u64 << 20) as f64 => ((1u64 << 20) as f64, "MiB/s"),
        v if v >= 1024.0 => (1024.0, "KiB/s"),
        _ => (1.0, "B/s"),
    }
}

/// A value in a unit, with its name.
pub fn in_unit(value: f64, (divisor, name): Unit) -> String {
    format!("{} {name}", number(value / divisor))
}

/// For nanoseconds.
pub fn time_unit(largest_ns: f64) -> Unit {
    match largest_ns.abs() {
        v if v >= 1e9 => (1e9, "s"),
        v if v >= 1e6 => (1e6, "ms"),
        v if v >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough_for_people() {
        for (value, shown) in [
            (0.0, "0.00"),
            (84.24, "84.2"),
            (-1.5, "−1.50"),
            (1234.5, "1234"),
            (9.999, "10.0"),
            (0.0514, "0.051"),
            (0.000_04, "4.0e-5"),
            (1e300, "1.00e300"),
            (f64::NAN, "–"),
            (f64::NEG_INFINITY, "–"),
        ] {
            assert_eq!(number(value), shown);
        }
        let chosen = [40.0, 2.5, 0.0, 100.0, 1e-5, f64::NAN];
        assert_eq!(
            chosen.map(plain_number),
            ["40", "2.5", "0", "100", "1.0e-5", "–"]
        );
        assert_eq!(percent(0.0123, true), "+1.23");
        assert_eq!(percent(-0.42, true), "−42.0");
        assert_eq!(percent(-1e-9, true), "0.00", "no sign before nothing");
        assert_eq!(percent(f64::INFINITY, false), "–");
        let ratios = [-0.4949, 0.0999, -1e-9, 1.561, 1e5, f64::NAN];
        assert_eq!(
            ratios.map(short_percent),
            ["−49", "+10", "0.0", "+156", "+1e7", "–"]
        );
    }

    #[test]
    fn units_change_where_the_number_would_get_long() {
        assert_eq!(bandwidth_unit(1048575.0).1, "KiB/s");
        assert_eq!(bandwidth_unit(1048576.0), (1048576.0, "MiB/s"));
        assert_eq!(time_unit(999.0).1, "ns");
        assert_eq!(time_unit(1e6), (1e6, "ms"));
    }

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
}
