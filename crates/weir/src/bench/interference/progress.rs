// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far it is, on stderr: a line for each round; on a terminal one more that changes.

use crate::output::text::harmless;
use std::io::{self, IsTerminal, Write};

/// Progress of a run.
pub struct BenchProgress {
    is_terminal: bool,
}

impl BenchProgress {
    /// On this process's stderr.
    pub fn new() -> BenchProgress {
        BenchProgress {
            is_terminal: io::stderr().is_terminal(),
        }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        // A closed stderr is no reason to stop.
        let _ = writeln!(io::stderr(), "{clear}{}", harmless(line));
    }

    /// The line that changes.
    pub fn repetition(&self, round: u32, label: &str, left_seconds: f64) {
        if !self.is_terminal {
            return;
        }
        let left = time(left_seconds);
        let line = format!("round {}, {label}: {left} left at most", round + 1);
        let _ = write!(io::stderr(), "\r\x1b[K{}", harmless(&line));
        let _ = io::stderr().flush();
    }

    /// A round is over: so many of the pairs are known well enough.
    pub fn round(
        &self,
        round: u32,
        enough: usize,
        pairs: usize,
        widest: Option<f64>,
        left_seconds: f64,
    ) {
        self.say(&format!(
            "round {}: {enough} of {pairs} pairs are within ± 2 %{}; {} left at most",
            round + 1,
            width(widest),
            time(left_seconds)
        ));
    }
}

fn width(half_width: Option<f64>) -> String {
    half_width.map_or_else(String::new, |ratio| {
        format!(", the widest ± {:.1} %", ratio * 100.0)
    })
}

/// `2 min 05 s`.
pub fn time(seconds: f64) -> String {
    let whole = seconds.clamp(0.0, 1e9).round();
    let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
    match minutes {
        m if m >= 60.0 => format!("{:.0} h {:02.0} min", (m / 60.0).floor(), m % 60.0),
        m if m >= 1.0 => format!("{m:.0} min {rest:02.0} s"),
        _ => format!("{rest:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        let all = [0.2, 59.4, 59.6, 125.0, 7325.0, f64::NAN, -1.0].map(time);
        assert_eq!(
            all[..5],
            ["0 s", "59 s", "1 min 00 s", "2 min 05 s", "2 h 02 min"]
        );
        assert_eq!(all[6], "0 s");
    }
}
