// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir record FILE --info`: what is in a recording.

use crate::exit::{Exit, print, print_json};
use crate::run::publish::wall_unix_ms;
use crate::text;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use weir_store::{FORMAT, Recording, Session};

/// A session in figures.
#[derive(Serialize)]
struct About {
    session: i64,
    started_unix_ms: u64,
    ended_unix_ms: Option<u64>,
    writer_version: String,
    kernel: String,
    devices: Vec<String>,
    interval_ms: u64,
    policy: String,
    limiting: bool,
    ticks: u64,
    spans: u64,
    lost_ticks: u64,
}

/// Prints what is in the file.
///
/// # Errors
/// It is no recording, or damaged.
pub fn info(path: &Path, json: bool) -> Result<Exit> {
    let recording = Recording::open(path)?;
    let about = |session: &Session| about(&recording, session);
    let all = recording
        .sessions()
        .iter()
        .map(about)
        .collect::<Result<Vec<About>>>()?;
    if json {
        print_json(&serde_json::json!({ "format": FORMAT, "sessions": all }))?;
    } else {
        print(&all.iter().map(said).collect::<String>())?;
    }
    Ok(Exit::Done)
}

fn about(recording: &Recording, session: &Session) -> Result<About> {
    let start = &session.start;
    let [ticks, spans, lost_ticks] = recording.counts(session.id)?;
    Ok(About {
        session: session.id,
        started_unix_ms: start.started_unix_ms,
        ended_unix_ms: session.ended_unix_ms,
        writer_version: start.writer_version.clone(),
        kernel: start.description.kernel.clone(),
        devices: start
            .description
            .devices
            .iter()
            .map(|device| device.name.clone())
            .collect(),
        interval_ms: start.interval_ms,
        policy: start.policy.clone(),
        limiting: start.config.limit,
        ticks,
        spans,
        lost_ticks,
    })
}

fn said(about: &About) -> String {
    let mut out = String::new();
    let length = match about.ended_unix_ms {
        Some(end) => text::ago(end.saturating_sub(about.started_unix_ms)),
        None => "no end: weir was killed, or still records".to_owned(),
    };
    let how = if about.limiting {
        "limiting"
    } else {
        "observing"
    };
    let devices = about.devices.join(", ");
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "session {}: {length}, {} ticks {} ms apart, {how}, policy {}\n  weir {}, Linux {}, {}\n  began {} ago",
        about.session,
        about.ticks,
        about.interval_ms,
        text::harmless(&about.policy),
        text::harmless(&about.writer_version),
        text::harmless(&about.kernel),
        text::harmless(&devices),
        text::ago(wall_unix_ms().saturating_sub(about.started_unix_ms)),
    );
    if about.lost_ticks > 0 {
        let _ = writeln!(out, "  {} ticks were lost", about.lost_ticks);
    }
    out
}
