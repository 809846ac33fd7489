// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions: from their rows, from the copy in their first tick, or else from their ticks.

use super::walk::walk;
use super::{DamagedFile, Recovered, Strays};
use crate::format::session::{self, Extent, SessionRow};
use crate::format::tick::{RawTick, Start, Tick};
use crate::writer::unwritable;
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::BTreeMap;
use weir_core::{Config, Description, Nanos};

/// No recording that is read has more.
const SESSIONS_MAX: i64 = 10_000;
/// Stands where a session's version and policy are lost.
const UNKNOWN: &str = "unknown";
/// Steps between ticks that an interval is taken from.
const STEPS: usize = 64;

#[derive(Default)]
struct Found {
    row: Option<SessionRow>,
    /// The ticks that the session has; only from a row that is what was written.
    extent: Option<Extent>,
    copy: Option<Start>,
    /// The first and the last tick that were recovered.
    ticks: Option<(i64, i64)>,
    first_unix_ms: i64,
    last_at: Nanos,
    steps: Vec<u64>,
}

#[derive(Default)]
pub(super) struct Sessions {
    found: BTreeMap<i64, Found>,
}

impl Sessions {
    /// The rows that can be read. Of two for one session the later one counts: it knows the end.
    pub(super) fn read(from: &DamagedFile, strays: &mut Strays) -> rusqlite::Result<Sessions> {
        let mut sessions = Sessions::default();
        walk(from.database, "session", &mut |row| {
            sessions.take(row);
            Ok(())
        })?;
        for place in std::mem::take(&mut strays.sessions) {
            let row = from
                .pages
                .and_then(|pages| pages.row(place, &mut strays.budget));
            row.into_iter().for_each(|row| sessions.take(row));
        }
        Ok(sessions)
    }

    fn take(&mut self, values: Vec<Value>) {
        let Some(row) = row(values).filter(|row| self.can_be(row.id)) else {
            return;
        };
        let found = self.found.entry(row.id).or_default();
        let extent = row.check().ok();
        let is_better = match (&found.row, found.extent) {
            (None, _) => true,
            (Some(_), None) => extent.is_some(),
            (Some(old), Some(_)) => extent.is_some() && old.ended_unix_ms.is_none(),
        };
        if is_better {
            (found.row, found.extent) = (Some(row), extent);
        }
    }

    /// Whether there can be a session of this number.
    pub(super) fn can_be(&self, id: i64) -> bool {
        (1..=SESSIONS_MAX).contains(&id)
    }

    pub(super) fn meet(&mut self, id: i64) {
        self.found.entry(id).or_default();
    }

    /// How many ticks are missing before this one, in its own session.
    pub(super) fn missing_before(&self, row: &RawTick, last: i64, is_first: bool) -> i64 {
        let found = self.found.get(&row.session);
        let before = match found.and_then(|found| found.ticks) {
            Some((_, last)) => last,
            None if is_first => return 0,
            None => match found.and_then(|found| found.extent) {
                Some(extent) => extent.first_tick.saturating_sub(1),
                // It is not known whether they belonged to this session or to the one before.
                None => last,
            },
        };
        row.id.saturating_sub(before).saturating_sub(1).max(0)
    }

    /// A tick of it was recovered. Gives the session's interval, as far as it is known.
    pub(super) fn note(&mut self, row: &RawTick, tick: &Tick, copy: Option<Start>) -> Nanos {
        let found = self.found.entry(row.session).or_default();
        let at = tick.observation.at;
        match &mut found.ticks {
            Some((_, last)) => *last = row.id,
            None => {
                found.ticks = Some((row.id, row.id));
                found.first_unix_ms = row.wall_unix_ms;
            }
        }
        if let Some(step) = at.since(found.last_at)
            && found.last_at != Nanos(0)
            && found.steps.len() < STEPS
        {
            found.steps.push(step.0);
        }
        found.last_at = at;
        found.copy = found.copy.take().or(copy);
        let known = found.row.as_ref().map(|row| row.interval_ms);
        let known = known.or(found
            .copy
            .as_ref()
            .and_then(|c| i64::try_from(c.interval_ms).ok()));
        Nanos::from_millis(known.map_or(0, |ms| ms.clamp(0, 1 << 40).unsigned_abs()))
    }

    /// Writes their rows, and says how much is missing at their ends.
    pub(super) fn write(
        mut self,
        to: &Connection,
        is_torn: bool,
        recovered: &mut Recovered,
    ) -> rusqlite::Result<()> {
        let Some(last) = self.found.last_key_value().map(|(id, _)| *id) else {
            return Ok(());
        };
        // One of which nothing is left has a place nevertheless: numbers have no holes.
        let ids: Vec<i64> = (1..=last).collect();
        for id in &ids {
            self.meet(*id);
        }
        for id in ids {
            let end = self.end(id, is_torn);
            match end {
                End::Known(count) => recovered.missing_at_end += count,
                End::Unknown => recovered.unknown_ends += 1,
            }
            if let Some(found) = self.found.remove(&id) {
                found
                    .row(id, end, recovered)
                    .map_err(unwritable)?
                    .insert(to)?;
                recovered.sessions += 1;
            }
        }
        Ok(())
    }

    /// What is missing at the end of a session. Those before it have been taken out.
    ///
    /// What a session should have at its end is known from three places: its own row, if the session ended in
    /// order; the row of the next session, which says where that begins; or the first tick of the next
    /// session. Where none of them is left, and the file is torn, it is not known, and is reported so.
    fn end(&self, id: i64, is_torn: bool) -> End {
        let Some(found) = self.found.get(&id) else {
            return End::Known(0);
        };
        let next = self.found.range(id + 1..).next().map(|(_, next)| next);
        let first_of = |next: &Found| match (next.extent, &next.copy, next.ticks) {
            (Some(extent), ..) => Some(extent.first_tick),
            (None, Some(_), Some((first, _))) => Some(first),
            _ => None,
        };
        let extent = found.extent.unwrap_or_default();
        let last = match found.ticks {
            Some((_, last)) => last,
            None if found.extent.is_some() => extent.first_tick.saturating_sub(1),
            None => return if is_torn { End::Unknown } else { End::Known(0) },
        };
        let known = extent
            .last_tick
            .or(next.and_then(first_of).map(|first| first.saturating_sub(1)));
        if let Some(known) = known {
            let missing = known.saturating_sub(last).max(0).unsigned_abs();
            return End::Known(missing.saturating_add(extent.missing_at_end.unwrap_or(0)));
        }
        if !is_torn || next.is_some_and(|next| next.ticks.is_some()) {
            End::Known(0)
        } else {
            End::Unknown
        }
    }
}

/// What is missing at the end of a session.
#[derive(Clone, Copy)]
enum End {
    Known(u64),
    Unknown,
}

impl Found {
    /// The row to be written: the row that was, a copy of it, or what follows from the ticks.
    fn row(self, id: i64, end: End, recovered: &mut Recovered) -> Result<SessionRow, String> {
        let (first_tick, last_tick) = self.ticks.unwrap_or((1, 0));
        let extent = Extent {
            first_tick,
            last_tick: Some(last_tick),
            missing_at_end: match end {
                End::Known(count) => Some(count),
                End::Unknown => None,
            },
        };
        let mut row = match (self.row, self.copy) {
            (Some(row), _) if self.extent.is_some() && is_readable(&row) => row,
            // A right sum is no defence against intent.
            (Some(row), None) if self.extent.is_some() => {
                recovered.sessions_without_settings += 1;
                mended(row)
            }
            (_, Some(copy)) => SessionRow::new(id, &copy).map_err(|error| error.to_string())?,
            _ => {
                recovered.sessions_without_settings += 1;
                let mut steps = self.steps;
                steps.sort_unstable();
                let step = steps.get(steps.len() / 2).copied().unwrap_or(0);
                let start = Start {
                    started_unix_ms: self.first_unix_ms.unsigned_abs(),
                    writer_version: UNKNOWN.to_owned(),
                    writer_pid: 0,
                    interval_ms: step.saturating_add(500_000) / 1_000_000,
                    policy: UNKNOWN.to_owned(),
                    config: Config::default(),
                    description: Description::default(),
                };
                SessionRow::new(id, &start).map_err(|error| error.to_string())?
            }
        };
        row.put_sum(&extent, 0)?;
        Ok(row)
    }
}

/// A row as it stands in the file. Its texts may have become no text; a row that is not at all as it should
/// be is none.
fn row(values: Vec<Value>) -> Option<SessionRow> {
    let whole = |value: &Value| match value {
        Value::Integer(number) => Some(*number),
        _ => None,
    };
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let [
        id,
        started,
        ended,
        version,
        pid,
        interval,
        policy,
        limiting,
        config,
        description,
    ] = values.as_slice()
    else {
        return None;
    };
    Some(SessionRow {
        id: whole(id)?,
        started_unix_ms: whole(started).unwrap_or(0),
        ended_unix_ms: whole(ended),
        writer_version: text(version),
        writer_pid: whole(pid).unwrap_or(0),
        interval_ms: whole(interval).unwrap_or(0),
        policy: text(policy),
        limiting: whole(limiting).unwrap_or(0),
        config: text(config),
        description: text(description),
    })
}

/// Whether a reader takes what a row says. One row that it refuses makes all of a recording unreadable.
fn is_readable(row: &SessionRow) -> bool {
    row.start().is_ok() && row.ended_unix_ms.is_none_or(|ms| ms >= 0)
}

/// Makes a row readable: ticks must not be lost because the settings they were made with are.
fn mended(mut row: SessionRow) -> SessionRow {
    let json = |default: serde_json::Result<String>| default.unwrap_or_default();
    row.started_unix_ms = row.started_unix_ms.max(0);
    row.ended_unix_ms = row.ended_unix_ms.filter(|ms| *ms >= 0);
    row.interval_ms = row.interval_ms.max(0);
    row.writer_pid = u32::try_from(row.writer_pid).map_or(0, i64::from);
    row.limiting = i64::from(row.limiting == 1);
    if session::config(&row.config).is_err() {
        row.config = json(serde_json::to_string(&Config::default()));
    }
    if serde_json::from_str::<Description>(&row.description).is_err() {
        row.description = json(serde_json::to_string(&Description::default()));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut SessionRow);

    /// Makes a row with a right sum, as a forged one has.
    fn recovered(change: Change) -> (SessionRow, Recovered) {
        let start = Start {
            started_unix_ms: 1_000,
            writer_version: "0.1.0".into(),
            writer_pid: 7,
            interval_ms: 50,
            policy: "max-min".into(),
            config: Config::default(),
            description: Description::default(),
        };
        let mut row = SessionRow::new(1, &start).unwrap();
        change(&mut row);
        row.put_sum(&Extent::default(), 0).unwrap();
        let found = Found {
            extent: row.check().ok(),
            row: Some(row),
            ..Found::default()
        };
        assert!(found.extent.is_some());
        let mut recovered = Recovered::default();
        let row = found.row(1, End::Unknown, &mut recovered).unwrap();
        (row, recovered)
    }

    #[test]
    fn a_row_that_a_reader_refuses_is_mended_whatever_its_sum() {
        let changes: [(Change, u64); 7] = [
            (|_| (), 0),
            (|row| row.started_unix_ms = -1, 1),
            (|row| row.ended_unix_ms = Some(-1), 1),
            (|row| row.interval_ms = i64::MIN, 1),
            (|row| row.writer_pid = 1 << 40, 1),
            (|row| row.config = r#"{"policy":7}"#.into(), 1),
            (|row| row.description = "[]".into(), 1),
        ];
        for (place, (change, without_settings)) in changes.into_iter().enumerate() {
            let (row, recovered) = recovered(change);
            assert!(is_readable(&row), "{place}");
            assert!(row.check().is_ok(), "{place}");
            assert_eq!(
                recovered.sessions_without_settings, without_settings,
                "{place}"
            );
        }
    }
}
