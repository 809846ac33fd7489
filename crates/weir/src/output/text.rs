// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for terminals: hostile names made harmless, numbers made short.
//!
//! Every user that may create cgroups chooses their names, and weir shows these to root. Escape
//! sequences, line breaks, invisible and direction-changing characters are therefore shown as
//! `\u{…}`, and widths are counted in terminal cells and not in bytes or characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use weir_core::{BytesPerSec, CpuShare};

/// The name with everything that could move the cursor or hide text spelled out.
pub fn harmless(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_control() || UnicodeWidthChar::width(c).unwrap_or(0) == 0 || changes_direction(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Unicode bidirectional controls and the Arabic letter mark (UAX #9, table of explicit
/// formatting characters); most of them have width 0 anyway, but not in every version of the table.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// How like a name must be to be thought of (Jaro-Winkler, 0 to 1): as clap has it for its own.
const LIKE: f64 = 0.8;

/// The name that was probably meant, as a question to be put behind the wrong one; nothing where none is like
/// it.
pub fn perhaps(wrong: &str, names: &[&str]) -> String {
    let like = |name: &&str| strsim::jaro_winkler(wrong, name);
    let nearest = names.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
    match nearest.filter(|name| like(name) > LIKE) {
        Some(name) => format!("; did you mean `{name}`?"),
        None => String::new(),
    }
}

/// At most `cells` wide. A longer text loses its middle, because the end of a cgroup's path says more
/// than its middle.
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

/// Three digits and a binary unit, at most 10 cells: `3.74 GiB/s`, `812 MiB/s`, `0 B/s`.
pub fn rate(value: BytesPerSec) -> String {
    let mut value = value.get();
    let mut unit = "B/s";
    for next in ["KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"] {
        // 999.5 would print as 1000: four digits are kept up to 1023 as people expect of KiB.
        if value < 1023.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if value > 99_999.0 {
        return format!("{value:.0e} {unit}");
    }
    format!("{} {unit}", three_digits(value, unit == "B/s"))
}

fn three_digits(value: f64, whole: bool) -> String {
    if whole || value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Bytes per CPU-second as MiB, three digits.
pub fn intensity(bytes_per_cpu_sec: f64) -> String {
    let mebi = bytes_per_cpu_sec / 1_048_576.0;
    if mebi >= 99_999.5 {
        format!("{mebi:.1e}")
    } else {
        three_digits(mebi, false)
    }
}

/// CPUs with three digits: `0.25`, `12.5`.
pub fn cpus(value: CpuShare) -> String {
    if value.get() >= 99_999.5 {
        format!("{:.0e}", value.get())
    } else {
        three_digits(value.get(), false)
    }
}

/// A ratio as percent without decimals: `34 %`.
pub fn percent(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{:.0} %", (ratio * 100.0).min(99_999.0))
    } else {
        "–".into()
    }
}

/// Hours, minutes and seconds: `1:02:03`.
pub fn clock(millis: u64) -> String {
    let secs = millis / 1000;
    format!("{}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// A span in the two largest units: `4 s`, `3 min 20 s`, `5 h 2 min`, `9 d 4 h`.
pub fn ago(millis: u64) -> String {
    let secs = millis / 1000;
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        3600..86_400 => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
        _ => format!("{} d {} h", secs / 86_400, secs % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn numbers_are_short() {
        let mib = |n: f64| rate(BytesPerSec::new(n * 1_048_576.0));
        assert_eq!(mib(3830.0), "3.74 GiB/s");
        assert_eq!(mib(812.4), "812 MiB/s");
        assert_eq!(mib(1023.0), "1023 MiB/s");
        assert_eq!(rate(BytesPerSec::ZERO), "0 B/s");
        assert_eq!(cpus(CpuShare::new(0.256)), "0.26");
        assert_eq!(ago(200_000), "3 min 20 s");
    }

    proptest! {
        #[test]
        fn every_text_fits(name in "\\PC{0,60}|(?s).{0,60}", cells in 0usize..40) {
            let clean = harmless(&name);
            prop_assert!(!clean.chars().any(char::is_control));
            prop_assert!(fit(&clean, cells).width() <= cells);
            prop_assert_eq!(left(&clean, cells).width(), cells);
        }

        #[test]
        fn every_rate_is_at_most_ten_cells(value in proptest::num::f64::ANY) {
            let text = rate(BytesPerSec::new(value));
            prop_assert!(text.width() <= 11, "{}", text);
        }
    }
}
