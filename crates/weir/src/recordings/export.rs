// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir export`: figures of a recording for other programs, and new recordings of what can be read of a
//! damaged one.

use super::cli::{ExportArgs, FormatName, TableName};
use super::moment::{Moment, utc};
use super::open_metrics;
use crate::cli::exit::{Exit, print, print_json};
use anyhow::{Context, Result, bail};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use weir_figures::text;
use weir_files::Access;
use weir_store::export::{Format, Range, Table};
use weir_store::{Recording, Recovered, Session, StoreError};

const JSON_IS_LINES: &str =
    "--json without --out writes JSON lines: leave --format out, or give --out FILE";

/// Exports, or writes a new recording.
///
/// # Errors
/// It is no recording, it is damaged, or the output cannot be written.
pub fn export(args: &ExportArgs) -> Result<Exit> {
    if let Some(new) = &args.recover {
        return recover(&args.file, new, args.json);
    }
    if args.format == Some(FormatName::Openmetrics) {
        if args.json && args.out.is_none() {
            bail!(JSON_IS_LINES);
        }
        return open_metrics::export(args);
    }
    let recording = Recording::open(&args.file)?;
    let range = range(args, &recording)?;
    let (table, format) = (table(args.table), format(args)?);
    let Some(path) = &args.out else {
        let out = io::stdout();
        if format == Format::Parquet && out.is_terminal() {
            bail!("Parquet is no text for a terminal: give --out FILE");
        }
        let rows = weir_store::export::export(&recording, table, format, range, out)?;
        has_rows(rows, &range, &recording)?;
        return Ok(Exit::Done);
    };
    let file = weir_files::create_new(path, Access::Shared);
    let shown = text::harmless(&path.to_string_lossy());
    let file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(exists(path));
        }
        other => other.with_context(|| format!("cannot make {shown}"))?,
    };
    let written = weir_store::export::export(&recording, table, format, range, file.file());
    let written = written.map_err(anyhow::Error::from);
    let rows = written.and_then(|rows| has_rows(rows, &range, &recording).map(|()| rows));
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            // weir made this file, and it is a part that seems complete. If it cannot be removed, the error
            // below is still the one to report.
            let _ = file.remove();
            return Err(error).with_context(|| format!("{shown} is not made"));
        }
    };
    if args.json {
        let bytes = file.file().metadata().map(|file| file.len()).ok();
        print_json(&serde_json::json!({ "file": path, "rows": rows, "bytes": bytes }))?;
    }
    Ok(Exit::Done)
}

/// No file is overwritten.
pub fn exists(path: &Path) -> anyhow::Error {
    let shown = text::harmless(&path.to_string_lossy());
    anyhow::anyhow!("{shown} exists: give another name, or delete it")
}

/// An export without rows is whole, and often not what was meant.
///
/// # Errors
/// There can be none: the time is not in the recording.
pub fn has_rows(rows: u64, range: &Range, recording: &Recording) -> Result<()> {
    if rows > 0 {
        return Ok(());
    }
    if let Some(why) = outside(range, recording) {
        bail!(why);
    }
    // A closed stderr is no reason to stop.
    let _ = writeln!(io::stderr(), "weir: there was no row to export");
    Ok(())
}

fn table(name: TableName) -> Table {
    match name {
        TableName::Workloads => Table::Workloads,
        TableName::Devices => Table::Devices,
        TableName::Actions => Table::Actions,
    }
}

fn format(args: &ExportArgs) -> Result<Format> {
    let to_stdout = args.json && args.out.is_none();
    Ok(match args.format {
        Some(FormatName::Jsonl) => Format::JsonLines,
        None if to_stdout => Format::JsonLines,
        Some(_) if to_stdout => {
            bail!(JSON_IS_LINES)
        }
        Some(FormatName::Csv) | None => Format::Csv,
        Some(FormatName::Openmetrics) => bail!("metrics are no table"),
        Some(FormatName::Influx) => Format::Influx,
        Some(FormatName::Parquet) => Format::Parquet,
    })
}

/// Spans are counted from the beginning of the session, or of the first.
///
/// # Errors
/// There is no such session, or no time between the two.
pub fn range(args: &ExportArgs, recording: &Recording) -> Result<Range> {
    let wanted = |session: &&Session| args.session.is_none_or(|id| id == session.id);
    let sessions: Vec<&Session> = recording.sessions().iter().filter(wanted).collect();
    if let ([], Some(id)) = (&sessions[..], args.session) {
        bail!("there is no session {id}: `weir record FILE --info` lists them");
    }
    let start = sessions.first().map_or(0, |s| s.start.started_unix_ms);
    let unix_ms = |moment: Option<Moment>| moment.map(|moment| moment.unix_ms(start));
    let (from, to) = (unix_ms(args.from), unix_ms(args.to));
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        bail!("--to is not later than --from: no row is between them");
    }
    Ok(Range {
        session: args.session,
        from_unix_ms: from,
        to_unix_ms: to,
    })
}

/// Why there is no row: the time is before the recording or after it. Nothing where it is in it, and where it
/// is not known when the recording ended.
fn outside(range: &Range, recording: &Recording) -> Option<String> {
    let wanted = |session: &&Session| range.session.is_none_or(|id| id == session.id);
    let sessions = || recording.sessions().iter().filter(wanted);
    let begins = |session: &Session| session.start.started_unix_ms;
    let ends = |session: &Session| {
        let last = recording.last_unix_ms(session.id).ok().flatten();
        session.ended_unix_ms.or(last)
    };
    let start = sessions().map(begins).min()?;
    let end = sessions().filter_map(ends).max()?;
    let is_later = range.from_unix_ms.is_some_and(|from| from >= end);
    let is_earlier = range.to_unix_ms.is_some_and(|to| to <= start);
    let (start_utc, end_utc) = (utc(start), utc(end));
    if is_later {
        let length = text::ago(end.saturating_sub(start));
        return Some(format!(
            "no row is later than --from: the recording ends at {end_utc}, {length} after its beginning"
        ));
    }
    is_earlier.then(|| format!("no row is earlier than --to: the recording begins at {start_utc}"))
}

fn recover(path: &Path, new: &Path, json: bool) -> Result<Exit> {
    let recovered = weir_store::recover(path, new).map_err(|error| match &error {
        StoreError::Open { source, .. } if source.kind() == ErrorKind::AlreadyExists => exists(new),
        _ => error.into(),
    })?;
    if json {
        print_json(&recovered)?;
    } else {
        let name = text::harmless(&new.to_string_lossy());
        print(&format!("{name}: {}", said(&recovered)))?;
    }
    let is_whole = recovered.lost_ticks == 0
        && recovered.missing_at_end == 0
        && recovered.unknown_ends == 0
        && recovered.sessions_without_settings == 0
        && recovered.damaged == 0;
    Ok(if is_whole { Exit::Done } else { Exit::Finding })
}

/// What was recovered, and a line for each way in which something is lost.
fn said(recovered: &Recovered) -> String {
    let mut out = format!(
        "{} sessions, {} ticks, {} spans of figures recovered\n",
        recovered.sessions, recovered.ticks, recovered.spans
    );
    let sessions = |count| match count {
        1 => "of one session".to_owned(),
        count => format!("of {count} sessions"),
    };
    let mut add = |count: u64, line: String| {
        if count > 0 {
            out += &format!("  {line}\n");
        }
    };
    let lost = recovered.lost_ticks;
    add(lost, format!("{lost} ticks are lost in the middle"));
    let end = recovered.missing_at_end;
    add(end, format!("{end} ticks are missing at the end"));
    let unknown = recovered.unknown_ends;
    let ends = sessions(unknown);
    add(
        unknown,
        format!("how many ticks are missing at the end {ends} cannot be known"),
    );
    let bare = recovered.sessions_without_settings;
    let of = sessions(bare);
    add(
        bare,
        format!("settings and machine {of} are lost: `weir replay --check` says nothing of it"),
    );
    let damaged = recovered.damaged;
    add(
        damaged,
        format!("{damaged} rows were not what was written, and are left out"),
    );
    let unchecked = recovered.unchecked;
    add(
        unchecked,
        format!("{unchecked} rows could not be checked: their checksums are lost"),
    );
    out
}
