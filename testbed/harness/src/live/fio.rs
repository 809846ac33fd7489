// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fio's latency log: `time_ms, latency_ns, direction, block size, …` a line, one line a block
//! (`fio(1)`, LOG FILE FORMATS; `--log_unix_epoch=1`).

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Block {
    /// When it was done, milliseconds since the Unix epoch, guest clock.
    pub done_unix_ms: f64,
    pub latency_ns: f64,
    pub size_bytes: u64,
}

/// Read a log; lines that are not of this form are left out (the last one may be incomplete).
pub fn parse_log(text: &str) -> Vec<Block> {
    let block = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        let done_unix_ms = fields.next()?.parse().ok()?;
        let latency_ns = fields.next()?.parse().ok()?;
        let size_bytes = fields.nth(1)?.parse().ok()?;
        Some(Block {
            done_unix_ms,
            latency_ns,
            size_bytes,
        })
    };
    text.lines().filter_map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_one_block_and_an_incomplete_line_is_none() {
        let log = "1763670000123, 2500000, 0, 262144, 0, 0\n1763670000130, 26000";
        let block = Block {
            done_unix_ms: 1_763_670_000_123.0,
            latency_ns: 2.5e6,
            size_bytes: 262_144,
        };
        assert_eq!(parse_log(log), vec![block]);
        assert!(parse_log("\u{0},,,,").is_empty());
    }
}
