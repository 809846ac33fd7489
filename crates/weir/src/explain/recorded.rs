// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir explain --recording`: which workloads were limited in a recorded run, since when, how much and why,
//! and what changed until then.

use crate::cli::exit::Exit;
use crate::explain::cli::ExplainArgs;
use crate::explain::explain_snapshot;
use crate::recordings::replay::{head, next};
use crate::run::screens::changes::{Changes, MachineChange};
use crate::run::screens::snapshot_builder::{Beside, View};
use anyhow::{Context, Result};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;
use weir_figures::text;
use weir_store::{Recording, Replayed, Session};

/// Changes that are remembered: the last of a long recording.
const CHANGES_MAX: usize = 100_000;

/// The session of this number, or the last.
fn chosen(recording: &Recording, id: Option<i64>) -> Result<&Session> {
    let sessions = recording.sessions();
    let Some(id) = id else {
        return sessions.last().context("the recording has no session");
    };
    let found = sessions.iter().find(|session| session.id == id);
    found.with_context(|| format!("there is no session {id}: `weir record FILE --info` lists them"))
}

/// Explains the last session, or `--session`, at its end, or at `--at`.
///
/// # Errors
/// It is no recording, it has no tick until then, or no workload has that name. Damage on the way is named
/// and passed over.
pub fn explain(args: &ExplainArgs, path: &Path) -> Result<Exit> {
    let recording = Recording::open(path)?;
    let session = chosen(&recording, args.session)?;
    let start_ms = session.start.started_unix_ms;
    let until = args.at.map_or(u64::MAX, |at| at.unix_ms(start_ms));
    let mut world = Replayed::new(&recording, session);
    let mut view = View::new(head(&session.start));
    let mut changes = Changes::default();
    let mut past: VecDeque<MachineChange> = VecDeque::new();
    let mut now = None;
    let mut exit = Exit::Done;
    let mut is_end = true;
    while let Some(read) = next(&mut world) {
        let tick = match read {
            Ok(tick) if tick.wall_unix_ms > until => {
                is_end = false;
                break;
            }
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
    if args.at.is_some() && is_end && now < until {
        // A closed stderr is no reason to stop.
        let _ = writeln!(
            io::stderr(),
            "weir: --at is later than the session's last tick: this is its end, {} after its beginning",
            text::ago(now.saturating_sub(start_ms))
        );
    }
    explain_snapshot(args, view.snapshot(), now, |about| {
        let mut last: Vec<MachineChange> =
            past.into_iter().filter(|change| about(change)).collect();
        last.drain(..last.len().saturating_sub(args.changes));
        Ok((last, 0))
    })?;
    Ok(exit)
}
