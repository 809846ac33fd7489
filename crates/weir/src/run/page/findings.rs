// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile that runs beside weir says: what is wrong, and where each workload stalls most. A thread
//! reads its file, so that the loop waits for no disk, and only while there are clients.

use super::audience::Viewers;
use super::message::EventMessage;
use crate::run::screens::waits_in::{self, PublishedWaits};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;
use weir_figures::text;

/// Time between two reads of the file.
const EVERY: Duration = Duration::from_secs(2);

/// Rows of each kind.
const ROWS_MAX: usize = 200;
/// Cells of a text.
const CELLS_MAX: usize = 600;

/// What the thread has read last.
type ReadProfile = Mutex<Option<Arc<PublishedWaits>>>;

/// The reader's other end.
#[derive(Default)]
pub struct Findings {
    newest: Arc<ReadProfile>,
    sent: Option<Arc<PublishedWaits>>,
}

impl Findings {
    /// Findings of the profile that leaves its file in this directory; a recording has none.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn of(run_dir: Option<&Path>, viewers: &Arc<dyn Viewers>) -> Result<Findings> {
        let findings = Findings::default();
        if let Some(run_dir) = run_dir {
            let (dir, viewers) = (run_dir.to_path_buf(), Arc::downgrade(viewers));
            let newest = Arc::downgrade(&findings.newest);
            let thread = thread::Builder::new().name("weir-page-waits".into());
            thread
                .spawn(move || follow(&dir, &viewers, &newest))
                .context("cannot start the thread that reads a profile")?;
        }
        Ok(findings)
    }

    pub fn write_new(&mut self, to: &mut EventMessage) {
        let newest = self
            .newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let is_same = match (&newest, &self.sent) {
            (None, None) => true,
            (Some(new), Some(old)) => new == old,
            _ => false,
        };
        if !is_same {
            self.sent = newest;
            self.write_all(to);
        }
    }

    /// All, as it was sent last.
    pub fn write_all(&self, to: &mut EventMessage) {
        to.field("profile", self.sent.as_deref().map(shown));
    }
}

/// A part of what the profile says, in harmless words.
#[derive(Serialize)]
struct ShownProfile {
    /// Subject, what is wrong, next move.
    findings: Vec<[String; 3]>,
    /// Workload, stage, part of its time.
    stalls: Vec<(String, String, Option<f64>)>,
}

fn shown(profile: &PublishedWaits) -> ShownProfile {
    let text = |text: &str| text::fit(&text::harmless(text), CELLS_MAX);
    let findings = profile.findings.iter().take(ROWS_MAX);
    let stalls = profile.workloads.iter().take(ROWS_MAX);
    ShownProfile {
        findings: findings
            .map(|one| [&one.subject, &one.what, &one.next_move].map(|said| text(said)))
            .collect(),
        stalls: stalls
            .map(|(id, waits)| (text(id.as_str()), text(&waits.stage), waits.time_ratio))
            .collect(),
    }
}

/// Until the page has gone.
fn follow(dir: &Path, viewers: &Weak<dyn Viewers>, newest: &Weak<ReadProfile>) {
    while let (Some(viewers), Some(newest)) = (viewers.upgrade(), newest.upgrade()) {
        if viewers.is_there().0 {
            let read = waits_in::read(dir).map(Arc::new);
            *newest.lock().unwrap_or_else(PoisonError::into_inner) = read;
        }
        drop((viewers, newest));
        thread::sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::wall_clock::wall_unix_ms;
    use crate::run::page::audience::Audience;

    #[test]
    fn what_a_profile_says_is_read_while_there_are_clients_and_sent_once() {
        let dir = tempfile::tempdir().unwrap();
        let now = wall_unix_ms();
        let profile = serde_json::json!({
            "schema_version": 1, "writer_pid": std::process::id(), "wall_unix_ms": now,
            "valid_until_unix_ms": now + 3_000_000,
            "workloads": {"/db\u{1b}": {"stage": "device", "time_ratio": 0.5}},
            "findings": [{"subject": "machine", "what": "the device <is> full", "next_move": "limit"}],
        });
        std::fs::write(dir.path().join(waits_in::FILE_NAME), profile.to_string()).unwrap();
        let audience = Arc::new(Audience::default());
        let _client = audience.join().unwrap();
        let viewers: Arc<dyn Viewers> = audience;
        let mut findings = Findings::of(Some(dir.path()), &viewers).unwrap();
        let said = |findings: &mut Findings| {
            let mut message = EventMessage::default();
            message.start("tick");
            findings.write_new(&mut message);
            String::from_utf8(message.finish().to_vec()).unwrap()
        };
        let mut text = said(&mut findings);
        while !text.contains("profile") {
            thread::yield_now();
            text = said(&mut findings);
        }
        let wanted = r#"{"profile":{"findings":[["machine","the device <is> full","limit"]],"stalls":[["/db\\u{1b}","device",0.5]]}}"#;
        assert_eq!(text, format!("event: tick\ndata: {wanted}\n\n"));
        assert_eq!(said(&mut findings), "event: tick\ndata: {}\n\n");
    }
}
