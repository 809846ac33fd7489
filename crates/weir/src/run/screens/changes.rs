// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What weir changed, as a list of events: `weir explain` reads it, the log shows it.
//!
//! Changes, not ticks: a limit that is nudged every 200 ms would bury the moment at which it
//! began. An event is a workload that comes under a limit, leaves it, or cannot be limited (once
//! per reason), and an adjustment only when it is large against the last one written down
//! ([`ADJUSTED_BY`]) or that one is old ([`ADJUSTED_AFTER_MS`]).

use crate::cli::output::labels;
use crate::run::sink::{Sink, TickContext};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use weir_core::seam::plan::{Action, ActionKind, Outcome, OutcomeKind, Plan, Why};
use weir_core::{CpuShare, WorkloadId};
use weir_figures::text;
use weir_files::{Access, Folder};
use weir_store::Tick;

/// An adjustment by less than this ratio is not an event.
const ADJUSTED_BY: f64 = 0.25;
/// Unless the last event about this workload is older than this.
const ADJUSTED_AFTER_MS: u64 = 10_000;
/// The file is turned over at this size; one older file is kept.
const FILE_MAX_BYTES: u64 = 1 << 20;
/// Entries of workloads that have gone are removed when there are more entries than this.
const SLACK: usize = 256;

/// The current list, and the one before it.
pub const FILE_NAME: &str = "changes.jsonl";
const OLDER_FILE_NAME: &str = "changes.1.jsonl";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineChange {
    /// Wall-clock time, milliseconds since the Unix epoch.
    pub wall_unix_ms: u64,
    pub seq: u64,
    pub workload: WorkloadId,
    pub what: ChangeKind,
    /// The limit before, if there was one.
    pub from_cpus: Option<CpuShare>,
    /// The limit now, if there is one.
    pub to_cpus: Option<CpuShare>,
    /// What a refusal or a failure said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it was decided.
    pub why: Option<Why>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It came under a limit.
    Limited,
    /// Its limit was moved.
    Adjusted,
    /// Its limit was taken away.
    Released,
    /// It ended while it was limited.
    Vanished,
    /// The back end refused.
    Refused,
    /// The back end tried and could not.
    Failed,
}

impl ChangeKind {
    pub fn word(self) -> &'static str {
        match self {
            ChangeKind::Limited => "limited",
            ChangeKind::Adjusted => "adjusted",
            ChangeKind::Released => "released",
            ChangeKind::Vanished => "ended",
            ChangeKind::Refused => "not limited",
            ChangeKind::Failed => "failed",
        }
    }
}

impl MachineChange {
    /// One line of text, harmless on a terminal.
    pub fn sentence(&self) -> String {
        let mut line = format!(
            "{}: {}",
            text::harmless(self.workload.as_str()),
            self.what.word()
        );
        match (self.from_cpus, self.to_cpus) {
            (Some(from), Some(to)) if from != to => {
                line += &format!(" from {} to {} CPU", text::cpus(from), text::cpus(to));
            }
            (None, Some(to)) => line += &format!(" to {} CPU", text::cpus(to)),
            (Some(from), None) => line += &format!(" from {} CPU", text::cpus(from)),
            _ => {}
        }
        if let Some(detail) = &self.detail {
            line += &format!(" ({})", text::harmless(detail));
        }
        if let Some(why) = &self.why {
            line += &format!(": {}", labels::why_long(why));
        }
        line
    }
}

#[derive(Debug, Default)]
struct Known {
    cpus: Option<CpuShare>,
    written_cpus: CpuShare,
    written_ms: u64,
    refusal: Option<String>,
}

/// Turns outcomes into events.
#[derive(Debug, Default)]
pub struct Changes {
    known: BTreeMap<WorkloadId, Known>,
}

impl Changes {
    /// The events of one tick, in the plan's order.
    pub fn of(
        &mut self,
        wall_unix_ms: u64,
        plan: &Plan,
        outcomes: &[Outcome],
    ) -> Vec<MachineChange> {
        let pairs = plan.actions.iter().zip(outcomes);
        let events = pairs.filter_map(|(action, outcome)| {
            let known = self.known.entry(action.workload.clone()).or_default();
            let (what, from_cpus, detail) = event(known, wall_unix_ms, action, &outcome.result)?;
            Some(MachineChange {
                wall_unix_ms,
                seq: plan.seq,
                workload: action.workload.clone(),
                what,
                from_cpus,
                to_cpus: known.cpus,
                detail,
                why: why(plan, &action.workload).cloned(),
            })
        });
        let events = events.collect();
        self.sweep(plan);
        events
    }

    fn sweep(&mut self, plan: &Plan) {
        if self.known.len() > plan.workloads.len() + SLACK {
            self.known.retain(|id, _| why(plan, id).is_some());
        }
    }
}

fn why<'a>(plan: &'a Plan, id: &WorkloadId) -> Option<&'a Why> {
    let found = plan
        .workloads
        .binary_search_by(|verdict| verdict.id.cmp(id))
        .ok()?;
    plan.workloads.get(found).map(|verdict| &verdict.why)
}

type Event = (ChangeKind, Option<CpuShare>, Option<String>);

fn event(known: &mut Known, now_ms: u64, action: &Action, outcome: &OutcomeKind) -> Option<Event> {
    match outcome {
        OutcomeKind::Unchanged => None,
        OutcomeKind::Vanished => {
            let from = std::mem::take(known).cpus;
            from.is_some().then_some((ChangeKind::Vanished, from, None))
        }
        OutcomeKind::Refused(why) => once(known, ChangeKind::Refused, why),
        OutcomeKind::Failed(why) => once(known, ChangeKind::Failed, why),
        OutcomeKind::Applied => {
            known.refusal = None;
            match action.kind {
                ActionKind::Release => {
                    let from = known.cpus.take();
                    Some((ChangeKind::Released, from, None))
                }
                ActionKind::Limit(limit) => limited(known, now_ms, limit.cpus()),
            }
        }
    }
}

fn once(known: &mut Known, what: ChangeKind, why: &str) -> Option<Event> {
    if known.refusal.as_deref() == Some(why) {
        return None;
    }
    known.refusal = Some(why.to_owned());
    Some((what, known.cpus, Some(why.to_owned())))
}

fn limited(known: &mut Known, now_ms: u64, cpus: CpuShare) -> Option<Event> {
    let from = known.cpus.replace(cpus);
    let what = if from.is_none() {
        ChangeKind::Limited
    } else {
        ChangeKind::Adjusted
    };
    let moved = (cpus.get() - known.written_cpus.get()).abs();
    let large = moved > known.written_cpus.get() * ADJUSTED_BY;
    let old = now_ms.saturating_sub(known.written_ms) >= ADJUSTED_AFTER_MS;
    if what == ChangeKind::Adjusted && !large && !old {
        return None;
    }
    known.written_cpus = cpus;
    known.written_ms = now_ms;
    Some((what, from, None))
}

/// The list on disk, bounded in size.
pub struct ChangeLog {
    dir: Folder,
    file: File,
    size: u64,
}

impl ChangeLog {
    /// Opens or creates the list in `dir`.
    ///
    /// # Errors
    /// The file cannot be opened for writing.
    pub fn open(dir: &Path) -> io::Result<ChangeLog> {
        let dir = Folder::open(dir)?;
        let file = append(&dir)?;
        let size = file.metadata()?.len();
        Ok(ChangeLog { dir, file, size })
    }

    /// Adds events.
    ///
    /// # Errors
    /// The disk is full, or the directory has gone.
    pub fn add(&mut self, changes: &[MachineChange]) -> io::Result<()> {
        let mut lines = Vec::new();
        for change in changes {
            serde_json::to_writer(&mut lines, change)?;
            lines.push(b'\n');
        }
        if self.size > 0 && self.size + lines.len() as u64 > FILE_MAX_BYTES {
            self.dir.rename(FILE_NAME, OLDER_FILE_NAME)?;
            self.file = append(&self.dir)?;
            self.size = 0;
        }
        self.file.write_all(&lines)?;
        self.size += lines.len() as u64;
        Ok(())
    }
}

impl Sink for ChangeLog {
    fn tick(&mut self, _: &Arc<Tick>, context: &TickContext<'_>) -> Option<Result<(), String>> {
        if context.changes.is_empty() {
            return None;
        }
        let failed = |error| format!("the list of changes cannot be written: {error}");
        Some(self.add(context.changes).map_err(failed))
    }
}

fn append(dir: &Folder) -> io::Result<File> {
    dir.open_own(FILE_NAME, true, Access::OwnerWrites)
}

/// The last `count` events that `wanted` takes, oldest first. Lines that are no events (a line cut
/// off by a full disk) are skipped and counted.
///
/// # Errors
/// A file is there and cannot be read.
pub fn last(
    dir: &Path,
    count: usize,
    wanted: impl Fn(&MachineChange) -> bool,
) -> io::Result<(Vec<MachineChange>, u64)> {
    let mut text = Vec::new();
    for name in [OLDER_FILE_NAME, FILE_NAME] {
        match weir_files::open_regular(&dir.join(name)) {
            Ok(file) => read_tail(file, &mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let mut unreadable = 0;
    let mut found: Vec<MachineChange> = Vec::new();
    for line in text
        .split(|byte| *byte == b'\n')
        .rev()
        .filter(|line| !line.is_empty())
    {
        if found.len() >= count {
            break;
        }
        match serde_json::from_slice(line) {
            Ok(change) if wanted(&change) => found.push(change),
            Ok(_) => {}
            Err(_) => unreadable += 1,
        }
    }
    found.reverse();
    Ok((found, unreadable))
}

/// The writer keeps its files small; another file in their place is not read whole.
fn read_tail(mut file: File, into: &mut Vec<u8>) -> io::Result<()> {
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(2 * FILE_MAX_BYTES)))?;
    file.take(2 * FILE_MAX_BYTES).read_to_end(into)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::seam::plan::Limit;

    fn tick(
        changes: &mut Changes,
        ms: u64,
        kind: ActionKind,
        result: OutcomeKind,
    ) -> Vec<ChangeKind> {
        let workload = WorkloadId::new("/a");
        let actions = vec![Action {
            workload: workload.clone(),
            kind,
        }];
        let plan = Plan {
            actions,
            ..Plan::default()
        };
        let events = changes.of(ms, &plan, &[Outcome { workload, result }]);
        events.into_iter().map(|event| event.what).collect()
    }

    fn limit(cpus: f64) -> ActionKind {
        ActionKind::Limit(Limit::CpuTime {
            cpus: CpuShare::new(cpus),
        })
    }

    #[test]
    fn small_adjustments_are_not_events_and_large_or_old_ones_are() {
        let mut changes = Changes::default();
        let mut at = |ms, cpus| tick(&mut changes, ms, limit(cpus), OutcomeKind::Applied);
        assert_eq!(at(0, 1.0), [ChangeKind::Limited]);
        assert_eq!(at(200, 1.25), [], "25 % is not yet large");
        assert_eq!(at(400, 1.26), [ChangeKind::Adjusted]);
        assert_eq!(at(10_399, 1.25), []);
        assert_eq!(
            at(10_400, 1.25),
            [ChangeKind::Adjusted],
            "ten seconds after the last event"
        );
    }

    #[test]
    fn a_refusal_is_said_once_per_reason() {
        let mut changes = Changes::default();
        let mut no = |why: &str| {
            tick(
                &mut changes,
                0,
                limit(1.0),
                OutcomeKind::Refused(why.into()),
            )
        };
        assert_eq!(no("busy"), [ChangeKind::Refused]);
        assert_eq!(no("busy"), []);
        assert_eq!(no("gone"), [ChangeKind::Refused]);
    }

    #[test]
    fn limits_end_by_release_or_with_the_workload() {
        let mut changes = Changes::default();
        assert_eq!(
            tick(&mut changes, 0, limit(1.0), OutcomeKind::Applied),
            [ChangeKind::Limited]
        );
        let released = tick(&mut changes, 1, ActionKind::Release, OutcomeKind::Applied);
        assert_eq!(released, [ChangeKind::Released]);
        assert_eq!(tick(&mut changes, 2, limit(1.0), OutcomeKind::Vanished), []);
        assert_eq!(
            tick(&mut changes, 3, limit(1.0), OutcomeKind::Applied),
            [ChangeKind::Limited]
        );
        assert_eq!(
            tick(&mut changes, 4, limit(1.0), OutcomeKind::Vanished),
            [ChangeKind::Vanished]
        );
    }

    #[test]
    fn the_list_on_disk_is_bounded_and_survives_a_broken_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = ChangeLog::open(dir.path()).unwrap();
        let change = |seq| MachineChange {
            wall_unix_ms: seq,
            seq,
            workload: WorkloadId::new("/a".repeat(500)),
            what: ChangeKind::Limited,
            from_cpus: None,
            to_cpus: Some(CpuShare::new(0.5)),
            detail: None,
            why: Some(Why::AtFloor),
        };
        for seq in 0..3000 {
            log.add(&[change(seq)]).unwrap();
        }
        let mut size = 0;
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            size += entry.unwrap().metadata().unwrap().len();
        }
        assert!(size <= 2 * FILE_MAX_BYTES, "{size} bytes");
        log.file.write_all(b"{\"wall_unix_ms\": 1, \n").unwrap();
        let (found, unreadable) = last(dir.path(), 2000, |_| true).unwrap();
        assert_eq!(unreadable, 1);
        assert_eq!(found.last().map(|change| change.seq), Some(2999));
        assert!(
            found.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq),
            "both files, in order"
        );
    }
}
