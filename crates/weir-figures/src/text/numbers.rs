// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers for people. Three significant digits say all that a measurement of a computer knows; what was
//! chosen, and not measured, is written without zeros at its end.

use crate::text::NONE;
use weir_core::{BytesPerSec, CpuShare};

/// Three significant digits of what is not negative, at most two of them decimals; whole numbers have more.
fn three_digits(size: f64) -> String {
    match size {
        s if s >= 99.95 => format!("{s:.0}"),
        s if s >= 9.995 => format!("{s:.1}"),
        s => format!("{s:.2}"),
    }
}

/// Three significant digits, more for whole numbers above 1000; a real minus sign.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return NONE.into();
    }
    let digits = match size {
        s if s >= 1e7 => format!("{s:.2e}"),
        s if s >= 0.9995 || s == 0.0 => three_digits(s),
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
    if digits.contains('.') && !digits.contains('e') {
        digits.trim_end_matches('0').trim_end_matches('.').into()
    } else {
        digits
    }
}

/// A ratio in percent. With `signed` a plus stands before what is above zero.
pub fn percent(ratio: f64, signed: bool) -> String {
    let value = ratio * 100.0;
    let digits = match value.abs() {
        s if !s.is_finite() => return NONE.into(),
        s if s >= 1e7 => format!("{s:.2e}"),
        s => three_digits(s),
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

/// The unit in which bytes per second are written, by the largest of them: binary units.
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

/// The unit in which nanoseconds are written, by the largest of them.
pub fn time_unit(largest_ns: f64) -> Unit {
    match largest_ns.abs() {
        v if v >= 1e9 => (1e9, "s"),
        v if v >= 1e6 => (1e6, "ms"),
        v if v >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    }
}

/// So many decimals, for columns whose values are compared with each other; no sign before nothing.
pub fn decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_nothing = text.trim_start_matches(['-', '0', '.']).is_empty();
    text.replace('-', if is_nothing { "" } else { "−" })
}

/// A change, as `+3.1 %`.
pub fn signed_percent(ratio: f64) -> String {
    if ratio.abs() < 5e-4 {
        return "0.0 %".into();
    }
    format!("{:+.1} %", ratio * 1e2).replace('-', "−")
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
    match unit {
        "B/s" => format!("{value:.0} {unit}"),
        _ => format!("{} {unit}", three_digits(value)),
    }
}

/// Bytes in the largest binary unit of which there is one, at most two decimals: `1.5 GiB`, `128 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} B");
    };
    // Exact below 2^53, and a rounded size above is still right to three digits.
    let text = format!("{:.2}", bytes as f64 / (1_u64 << shift) as f64);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {unit}")
}

/// Bytes per CPU-second as MiB, three digits.
pub fn intensity(bytes_per_cpu_sec: f64) -> String {
    let mebi = bytes_per_cpu_sec / 1_048_576.0;
    if mebi >= 99_999.5 {
        format!("{mebi:.1e}")
    } else {
        three_digits(mebi)
    }
}

/// CPUs with three digits: `0.25`, `12.5`.
pub fn cpus(value: CpuShare) -> String {
    if value.get() >= 99_999.5 {
        format!("{:.0e}", value.get())
    } else {
        three_digits(value.get())
    }
}

/// A ratio as percent without decimals: `34 %`.
pub fn whole_percent(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{:.0} %", (ratio * 100.0).min(99_999.0))
    } else {
        NONE.into()
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
    use unicode_width::UnicodeWidthStr;

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
    fn numbers_are_short() {
        let mib = |n: f64| rate(BytesPerSec::new(n * 1_048_576.0));
        assert_eq!(mib(3830.0), "3.74 GiB/s");
        assert_eq!(mib(812.4), "812 MiB/s");
        assert_eq!(mib(1023.0), "1023 MiB/s");
        assert_eq!(rate(BytesPerSec::ZERO), "0 B/s");
        assert_eq!(cpus(CpuShare::new(0.256)), "0.26");
        assert_eq!(ago(200_000), "3 min 20 s");
        let sizes = [0, 128 << 20, 3 << 29, 1 << 40, (1 << 30) + (5 << 20)];
        let shown = ["0 B", "128 MiB", "1.5 GiB", "1 TiB", "1 GiB"];
        assert_eq!(sizes.map(size), shown);
    }

    proptest! {
        #[test]
        fn every_rate_is_at_most_ten_cells(value in proptest::num::f64::ANY) {
            let text = rate(BytesPerSec::new(value));
            prop_assert!(text.width() <= 11, "{}", text);
        }
    }
}
