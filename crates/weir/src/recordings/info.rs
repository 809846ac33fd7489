// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir record FILE --info`: what is in a recording.

use super::moment::utc;
use crate::cli::exit::{Exit, print, print_json};
use crate::cli::output::wall_clock::wall_unix_ms;
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use weir_figures::text;
use weir_store::{Damage, FORMAT, Recording, Session, Survey};

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
    /// Nothing where it is not known.
    missing_ticks_at_end: Option<u64>,
    damage: Damaged,
}

/// What is not as it was written.
#[derive(Serialize)]
struct Damaged {
    places: u64,
    first: Option<String>,
}

impl From<Damage> for Damaged {
    fn from(damage: Damage) -> Self {
        let Damage { places, first } = damage;
        Damaged { places, first }
    }
}

impl Damaged {
    fn said(&self, of: &str) -> Option<String> {
        let first = text::harmless(self.first.as_deref()?);
        let places = match self.places {
            1 => "in one place".to_owned(),
            count => format!("in {count} places, the first"),
        };
        Some(format!("{of} is damaged {places}: {first}\n"))
    }
}

/// Prints what is in the file, and whether all of it is what was written.
///
/// # Errors
/// It is no recording, or damaged so that it cannot be opened.
pub fn info(path: &Path, json: bool) -> Result<Exit> {
    let recording = Recording::open(path)?;
    let about = |session: &Session| about(&recording, session);
    let all = recording
        .sessions()
        .iter()
        .map(about)
        .collect::<Result<Vec<About>>>()?;
    let shared = Damaged::from(recording.survey_shared());
    let is_damaged = shared.places > 0 || all.iter().any(|about| about.damage.places > 0);
    if json {
        let found = serde_json::json!({ "format": FORMAT, "sessions": all, "damage": shared });
        print_json(&found)?;
    } else {
        let mut out: String = all.iter().map(said).collect();
        if all.is_empty() {
            out += "no session has begun in it yet\n";
        }
        if let Some(damage) = shared.said("what sessions share") {
            out += &damage;
        }
        if is_damaged {
            let name = text::harmless(&path.to_string_lossy());
            out += &format!(
                "`weir export --recover NEW {name}` writes what can be read into a new recording\n"
            );
        }
        print(&out)?;
    }
    Ok(if is_damaged {
        Exit::Trouble
    } else {
        Exit::Done
    })
}

fn about(recording: &Recording, session: &Session) -> Result<About> {
    let start = &session.start;
    let Survey {
        ticks,
        spans,
        lost_ticks,
        damage,
    } = recording.survey(session.id)?;
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
        missing_ticks_at_end: session.missing_at_end,
        damage: damage.into(),
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
        "session {}: {length}, {} ticks {} ms apart, {how}, policy {}\n  weir {}, Linux {}, {}\n  began {} ({} ago)",
        about.session,
        about.ticks,
        about.interval_ms,
        text::harmless(&about.policy),
        text::harmless(&about.writer_version),
        text::harmless(&about.kernel),
        text::harmless(&devices),
        utc(about.started_unix_ms),
        text::ago(wall_unix_ms().saturating_sub(about.started_unix_ms)),
    );
    if let Some(end) = about.ended_unix_ms {
        let _ = writeln!(out, "  ended {}", utc(end));
    }
    if about.lost_ticks > 0 {
        let _ = writeln!(out, "  {} ticks were lost", about.lost_ticks);
    }
    if let Some(missing) = about.missing_ticks_at_end.filter(|count| *count > 0) {
        let _ = writeln!(out, "  {missing} ticks are missing at its end");
    }
    if let Some(damage) = about.damage.said("  it") {
        out += &damage;
    }
    out
}
