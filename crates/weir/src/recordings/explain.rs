// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir explain --recording`: which workloads were limited in a recorded run, since when, how much and why,
//! and what changed until then.

use super::replay::{head, next};
use crate::cli::ExplainArgs;
use crate::exit::Exit;
use crate::explain::explain_snapshot;
use crate::run::changes::{Changes, MachineChange};
use crate::run::view::{Beside, View};
use crate::text;
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use weir_store::{Recording, Replayed};

/// Changes that are remembered: the last of a long recording.
const CHANGES_MAX: usize = 100_000;

/// Explains the last session at its end, or at `--at`.
///
/// # Errors
/// It is no recording, it has no tick until then, or no workload has that name. Damage on the way is named
/// and passed over.
pub fn explain(args: &ExplainArgs, path: &Path) -> Result<Exit> {
    let recording = Recording::open(path)?;
    let session = recording.sessions().last();
    let session = session.context("the recording has no session")?;
    let span_ms = args.at.map(|span| span.0.as_millis());
    let span_ms = span_ms.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
    let until = span_ms.map_or(u64::MAX, |ms| {
        session.start.started_unix_ms.saturating_add(ms)
    });
    let mut world = Replayed::new(&recording, session);
    let mut view = View::new(head(&session.start));
    let mut changes = Changes::default();
    let mut past: VecDeque<MachineChange> = VecDeque::new();
    let mut now = None;
    let mut exit = Exit::Done;
    while let Some(read) = next(&mut world) {
        let tick = match read {
            Ok(tick) if tick.wall_unix_ms > until => break,
            Ok(tick) => tick,
            Err(what) => {
                exit = Exit::Trouble;
                // A closed stderr is no reason to stop.
                let _ = writeln!(io::stderr(), "weir: {}", text::harmless(&what));
                continue;
            }
        };
        now = Some(tick.wall_unix_ms);
        past.extend(changes.of(tick.wall_unix_ms, &tick.plan, &tick.outcomes));
        while past.len() > CHANGES_MAX {
            past.pop_front();
        }
        view.update(tick, Beside::default());
    }
    let now =
        now.context("the recording has no tick until then: leave --at out, or give a later time")?;
    explain_snapshot(args, view.snapshot(), now, |about| {
        let mut last: Vec<MachineChange> =
            past.into_iter().filter(|change| about(change)).collect();
        last.drain(..last.len().saturating_sub(args.changes));
        Ok((last, 0))
    })?;
    Ok(exit)
}
