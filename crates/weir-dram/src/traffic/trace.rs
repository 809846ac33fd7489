// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests to replay: made patterns, and traces as Ramulator and DRAMsim3 read them.

use crate::banks::command::BurstKind;
use crate::part::profile::Organisation;
use crate::part::timing::Clock;

/// Seed of the peers' traces.
pub const PEERS_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Largest region that a made pattern touches, bytes.
const REGION_BYTES_MAX: u64 = 1 << 30;
/// Distance of the four sequences of `seq4`, bytes.
const FOURTH_BYTES: u64 = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Address, bytes.
    pub address: u64,
    pub kind: BurstKind,
    /// It is not offered before this time, clocks.
    pub not_before: Clock,
}

/// Marsaglia's xorshift with shifts 13, 7, 17, as the peers' traces were made with it.
#[derive(Clone, Debug)]
pub(crate) struct XorShift64(pub(crate) u64);

impl XorShift64 {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracePattern {
    /// Bursts one after the other.
    Sequential,
    Random,
    /// Four sequences, 64 MiB apart, in turn.
    FourSequential,
    /// A sequence and random bursts of the region's upper half, in turn.
    SequentialRandom,
    /// Random lines of two bursts, one after the other.
    RandomPairs,
}

impl TracePattern {
    pub const ALL: [(&'static str, TracePattern); 5] = [
        ("seq", TracePattern::Sequential),
        ("rand", TracePattern::Random),
        ("seq4", TracePattern::FourSequential),
        ("seqrand", TracePattern::SequentialRandom),
        ("rand64pair", TracePattern::RandomPairs),
    ];

    pub fn named(name: &str) -> Option<TracePattern> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, pattern)| *pattern)
    }
}

/// Requests of a made pattern, without end.
#[derive(Clone, Debug)]
pub struct PatternTrace {
    pattern: TracePattern,
    random: XorShift64,
    burst_bytes: u64,
    bursts: u64,
    writes_percent: u64,
    index: u64,
    /// The line of the last pair, and what it is.
    pair: (u64, BurstKind),
}

impl PatternTrace {
    /// A pattern over the first GiB of a channel, or all of a smaller one. `seed` is not 0.
    ///
    /// Each request with a random address takes a draw, and with writes each one (each pair) takes another:
    /// it is a write if the draw modulo 100 is below `writes_percent`. Of whole tens the draw is taken modulo
    /// 10, as the peers' traces were made.
    pub fn new(
        pattern: TracePattern,
        parts: &Organisation,
        writes_percent: u32,
        seed: u64,
    ) -> PatternTrace {
        let region = parts.capacity_bytes().min(REGION_BYTES_MAX);
        PatternTrace {
            pattern,
            random: XorShift64(seed),
            burst_bytes: parts.burst_bytes,
            bursts: region / parts.burst_bytes,
            writes_percent: u64::from(writes_percent),
            index: 0,
            pair: (0, BurstKind::Read),
        }
    }

    fn kind(&mut self) -> BurstKind {
        if self.writes_percent == 0 {
            return BurstKind::Read;
        }
        let draw = self.random.draw();
        let is_write = if self.writes_percent.is_multiple_of(10) {
            draw % 10 < self.writes_percent / 10
        } else {
            draw % 100 < self.writes_percent
        };
        if is_write {
            BurstKind::Write
        } else {
            BurstKind::Read
        }
    }

    fn burst(&mut self) -> u64 {
        let (index, bursts) = (self.index, self.bursts);
        match self.pattern {
            TracePattern::Sequential => index % bursts,
            TracePattern::Random => self.random.draw() % bursts,
            TracePattern::FourSequential => {
                let apart = FOURTH_BYTES / self.burst_bytes;
                (index / 4 + index % 4 * apart) % bursts
            }
            TracePattern::SequentialRandom => {
                let half = bursts / 2;
                if index.is_multiple_of(2) {
                    index / 2 % half
                } else {
                    half + self.random.draw() % half
                }
            }
            TracePattern::RandomPairs => self.random.draw() % (bursts / 2) * 2,
        }
    }
}

impl Iterator for PatternTrace {
    type Item = TraceLine;

    fn next(&mut self) -> Option<TraceLine> {
        let is_second = self.pattern == TracePattern::RandomPairs && self.index % 2 == 1;
        let (burst, kind) = if is_second {
            (self.pair.0 + 1, self.pair.1)
        } else {
            let burst = self.burst();
            let kind = self.kind();
            self.pair = (burst, kind);
            (burst, kind)
        };
        self.index += 1;
        Some(TraceLine {
            address: burst * self.burst_bytes,
            kind,
            not_before: 0,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    #[error(
        "{origin}, line {line}: {problem}; write `LD ADDRESS`, `ST ADDRESS`, or `ADDRESS READ|WRITE CLOCK` \
         (addresses decimal or with 0x, in bytes)"
    )]
    Line {
        origin: String,
        /// Number of the line, from 1.
        line: usize,
        problem: String,
    },
    #[error("{origin} has no request: a trace needs at least one line such as `LD 0x1000`")]
    Empty { origin: String },
}

/// Reads a trace: one request a line; blank lines and lines that begin with `#` count for nothing.
///
/// # Errors
/// A line is malformed, or there is none.
pub fn read_trace(text: &str, origin: &str) -> Result<Vec<TraceLine>, TraceError> {
    let mut lines: Vec<TraceLine> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let earlier = lines.last().map_or(0, |last| last.not_before);
        let read = read_line(line, earlier).map_err(|problem| TraceError::Line {
            origin: origin.to_owned(),
            line: index + 1,
            problem,
        })?;
        lines.push(read);
    }
    if lines.is_empty() {
        return Err(TraceError::Empty {
            origin: origin.to_owned(),
        });
    }
    Ok(lines)
}

/// Most characters of a line that an error repeats.
const SHOWN_CHARS: usize = 40;

fn read_line(line: &str, earlier: Clock) -> Result<TraceLine, String> {
    let shown: String = line.chars().take(SHOWN_CHARS).collect();
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    match words[..] {
        [first, second] => {
            let (kind, address) = match (kind_of(first), kind_of(second)) {
                (Some(kind), _) => (kind, second),
                (None, Some(kind)) => (kind, first),
                (None, None) => return Err(format!("`{shown}` has no LD or ST")),
            };
            Ok(TraceLine {
                address: number(address)?,
                kind,
                not_before: 0,
            })
        }
        [address, kind, clock] => {
            let kind = kind_of(kind).ok_or(format!("`{shown}` has no READ or WRITE"))?;
            let not_before = number(clock)?;
            if not_before < earlier {
                return Err(format!(
                    "clock {not_before} is before {earlier} of an earlier line"
                ));
            }
            Ok(TraceLine {
                address: number(address)?,
                kind,
                not_before,
            })
        }
        _ => Err(format!(
            "`{shown}` has {} words and not 2 or 3",
            words.len()
        )),
    }
}

fn kind_of(word: &str) -> Option<BurstKind> {
    match word.to_ascii_uppercase().as_str() {
        "LD" | "R" | "READ" => Some(BurstKind::Read),
        "ST" | "W" | "WRITE" => Some(BurstKind::Write),
        _ => None,
    }
}

fn number(word: &str) -> Result<u64, String> {
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let read = match hex {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    let shown: String = word.chars().take(SHOWN_CHARS).collect();
    read.map_err(|_| format!("`{shown}` is no number of at most 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let text = "# made by hand\nLD 0x40\n\n128 W\n0x100 WRITE 7\n256 read 9\n";
        let lines = read_trace(text, "t").unwrap();
        let plain: Vec<_> = lines
            .iter()
            .map(|l| (l.address, l.kind, l.not_before))
            .collect();
        use BurstKind::{Read, Write};
        assert_eq!(
            plain,
            [
                (64, Read, 0),
                (128, Write, 0),
                (256, Write, 7),
                (256, Read, 9)
            ]
        );
    }

    #[test]
    fn a_malformed_line_is_named_with_what_to_write() {
        let wrong = [
            ("LD", "has 1 words"),
            ("LD 0xzz", "`0xzz` is no number"),
            ("LD -1", "`-1` is no number"),
            ("XX 12", "`XX 12` has no LD or ST"),
            ("0x10 FETCH 3", "has no READ or WRITE"),
            ("LD 99999999999999999999", "is no number of at most 64 bits"),
            ("LD 1 2 3", "has 4 words"),
            ("0x10 READ 3\n0x10 READ 2", "clock 2 is before 3"),
        ];
        for (text, problem) in wrong {
            let error = read_trace(&format!("LD 1\n{text}\n"), "t.trace")
                .unwrap_err()
                .to_string();
            let line = 1 + text.lines().count();
            assert!(
                error.contains(&format!("t.trace, line {line}: ")),
                "{error}"
            );
            assert!(
                error.contains(problem) && error.contains("write `LD ADDRESS`"),
                "{error}"
            );
        }
        let empty = read_trace("# nothing\n", "t").unwrap_err().to_string();
        assert!(empty.contains("t has no request"), "{empty}");
    }
}
