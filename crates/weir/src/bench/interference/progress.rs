// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far it is, on stderr: a line for each round; on a terminal one more that changes.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use weir_figures::text::{ago, harmless};

pub struct BenchProgress {
    is_terminal: bool,
}

impl BenchProgress {
    /// Progress that is shown on this process's stderr.
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

/// How long something takes; what is no time is none.
pub fn time(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.round()).unwrap_or_default();
    ago(whole.as_secs().saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        let all = [59.6, 7325.0, f64::NAN, -1.0].map(time);
        assert_eq!(all, ["1 min 0 s", "2 h 2 min", "0 s", "0 s"]);
    }
}
