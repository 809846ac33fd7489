// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU's monitor (QMP, `docs/interop/qmp-spec.rst` of QEMU): commands as JSON, a line each.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long an answer may take: saving a guest of some GiB to a slow disk is minutes.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Monitor {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    is_greeted: bool,
}

impl Monitor {
    /// The harness's end and QEMU's.
    pub(crate) fn pair() -> Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let monitor = Monitor {
            writer: ours.try_clone()?,
            reader: BufReader::new(ours),
            is_greeted: false,
        };
        Ok((monitor, theirs))
    }

    /// Has QEMU execute a command; what it returns.
    ///
    /// # Errors
    /// QEMU is gone, or refuses: with its words.
    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        if !self.is_greeted {
            self.is_greeted = true;
            self.answer("its greeting", "QMP")?;
            self.execute("qmp_capabilities", json!({}))?;
        }
        let mut line = serde_json::to_vec(&json!({"execute": command, "arguments": arguments}))?;
        line.push(b'\n');
        self.writer
            .write_all(&line)
            .with_context(|| format!("QEMU is gone before '{command}'"))?;
        self.answer(command, "return")
    }

    /// The next line that is no event.
    fn answer(&mut self, what: &str, key: &str) -> Result<Value> {
        loop {
            let mut line = String::new();
            let count = self.reader.read_line(&mut line);
            if count.with_context(|| format!("QEMU does not answer to {what}"))? == 0 {
                bail!("QEMU has ended instead of {what}");
            }
            let mut value: Value = serde_json::from_str(&line)
                .with_context(|| format!("QEMU's answer to {what} is no JSON: {line}"))?;
            if let Some(error) = value.get("error") {
                bail!("QEMU refuses {what}: {}", error["desc"]);
            }
            if let Some(found) = value.get_mut(key) {
                return Ok(found.take());
            }
        }
    }

    /// Waits until saving or loading has ended.
    ///
    /// # Errors
    /// It failed: with QEMU's words.
    pub(crate) fn wait_for_migration(&mut self) -> Result<()> {
        loop {
            let state = self.execute("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => bail!("QEMU: {}", state["error-desc"]),
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(lines: &'static str) -> Result<Value> {
        let (mut monitor, mut qemu) = Monitor::pair()?;
        qemu.write_all(lines.as_bytes())?;
        monitor.execute("stop", json!({}))
    }

    #[test]
    fn events_are_passed_over_and_refusals_have_their_words() {
        let greeting = "{\"QMP\": {}}\n{\"return\": {}}\n";
        let text = format!("{greeting}{{\"event\": \"STOP\"}}\n{{\"return\": {{\"a\": 1}}}}\n");
        assert_eq!(answered(text.leak()).unwrap(), json!({"a": 1}));
        let text = format!("{greeting}{{\"error\": {{\"desc\": \"not now\"}}}}\n");
        let why = answered(text.leak()).unwrap_err().to_string();
        assert!(why.contains("stop") && why.contains("not now"), "{why}");
        assert!(
            answered("QMP?\n")
                .unwrap_err()
                .to_string()
                .contains("no JSON")
        );
    }
}
