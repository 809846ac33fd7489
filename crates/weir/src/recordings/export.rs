// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir export`: figures of a recording for other programs, and new recordings of what can be read of a
//! damaged one or an old one.

use super::cli::{ExportArgs, FormatName, TableName};
use crate::exit::{Exit, print, print_json};
use crate::text;
use anyhow::{Context, Result, bail};
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;
use weir_store::export::{Format, Range, Table};
use weir_store::{FORMAT, Recording, Recovered};

/// Exports, or writes a new recording.
///
/// # Errors
/// It is no recording, it is damaged, or the output cannot be written.
pub fn export(args: &ExportArgs) -> Result<Exit> {
    if let Some(new) = &args.recover {
        return recover(&args.file, new, args.json);
    }
    if let Some(new) = &args.upgrade {
        if Recording::open_for_export(&args.file).is_ok_and(|old| old.format() == FORMAT) {
            let name = text::harmless(&args.file.to_string_lossy());
            bail!("{name} is a recording of format {FORMAT} already: use it as it is");
        }
        return recover(&args.file, new, args.json);
    }
    let recording = Recording::open_for_export(&args.file)?;
    let range = range(args, &recording)?;
    let (table, format) = (table(args.table), format(args)?);
    let Some(path) = &args.out else {
        let out = io::stdout();
        if format == Format::Parquet && out.is_terminal() {
            bail!("Parquet is no text for a terminal: give --out FILE");
        }
        weir_store::export::export(&recording, table, format, range, out)?;
        return Ok(Exit::Done);
    };
    let mut open = OpenOptions::new();
    let file = open.write(true).create_new(true).open(path);
    let shown = text::harmless(&path.to_string_lossy());
    let file = file.with_context(|| format!("cannot make {shown}"))?;
    let rows = match weir_store::export::export(&recording, table, format, range, file) {
        Ok(rows) => rows,
        Err(error) => {
            // weir made this file, and it is a part that seems complete. If it cannot be removed, the error
            // below is still the one to report.
            let _ = fs::remove_file(path);
            return Err(error).with_context(|| format!("{shown} is not made"));
        }
    };
    if args.json {
        let bytes = fs::metadata(path).map(|file| file.len()).ok();
        print_json(&serde_json::json!({ "file": path, "rows": rows, "bytes": bytes }))?;
    }
    Ok(Exit::Done)
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
            bail!("--json without --out writes JSON lines: leave --format out, or give --out FILE")
        }
        Some(FormatName::Csv) | None => Format::Csv,
        Some(FormatName::Influx) => Format::Influx,
        Some(FormatName::Parquet) => Format::Parquet,
    })
}

/// Times are counted from the beginning of the session, or of the first.
fn range(args: &ExportArgs, recording: &Recording) -> Result<Range> {
    let mut sessions = recording.sessions().iter();
    let session = sessions.find(|s| args.session.is_none_or(|id| id == s.id));
    if let (None, Some(id)) = (session, args.session) {
        bail!("there is no session {id}: `weir record FILE --info` lists them");
    }
    let start = session.map_or(0, |session| session.start.started_unix_ms);
    let at = |span: Duration| {
        let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        start.saturating_add(millis)
    };
    Ok(Range {
        session: args.session,
        from_unix_ms: args.from.map(|span| at(span.0)),
        to_unix_ms: args.to.map(|span| at(span.0)),
    })
}

fn recover(path: &Path, new: &Path, json: bool) -> Result<Exit> {
    let recovered = weir_store::recover(path, new)?;
    if json {
        print_json(&recovered)?;
    } else {
        let name = text::harmless(&new.to_string_lossy());
        print(&format!("{name}: {}", said(&recovered)))?;
    }
    let is_whole = recovered.lost_ticks == 0
        && recovered.missing_at_end == 0
        && recovered.missing_at_end_about == 0
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
    let about = recovered.missing_at_end_about;
    let by_time = "ticks are missing at the end, by the time that is missing";
    add(about, format!("about {about} {by_time}"));
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
    let old = recovered.sessions_without_checksums;
    let of = sessions(old);
    add(
        old,
        format!("there were no checksums {of}: damage may have passed unnoticed"),
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
