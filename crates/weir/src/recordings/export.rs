// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir export`: figures of a recording for other programs, and what can be saved of a damaged one.

use super::cli::{ExportArgs, FormatName, WhatName};
use crate::exit::{Exit, print};
use crate::text;
use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;
use weir_store::Recording;
use weir_store::export::{Format, Range, Table};

/// Exports, or saves.
///
/// # Errors
/// It is no recording, it is damaged, or the output cannot be written.
pub fn export(args: &ExportArgs) -> Result<Exit> {
    if let Some(new) = &args.salvage {
        return salvage(&args.file, new);
    }
    let recording = Recording::open(&args.file)?;
    let range = range(args, &recording)?;
    let (table, format) = (table(args.what), format(args.format));
    match &args.out {
        Some(path) => {
            let mut open = OpenOptions::new();
            let file = open.write(true).create_new(true).open(path);
            let shown = path.display();
            let file = file.with_context(|| format!("cannot make {shown}"))?;
            weir_store::export::export(&recording, table, format, range, file)?;
        }
        None => {
            let out = io::stdout();
            if format == Format::Parquet && out.is_terminal() {
                bail!("Parquet is no text for a terminal: give --out FILE");
            }
            weir_store::export::export(&recording, table, format, range, out)?;
        }
    }
    Ok(Exit::Done)
}

fn table(what: WhatName) -> Table {
    match what {
        WhatName::Workloads => Table::Workloads,
        WhatName::Devices => Table::Devices,
        WhatName::Actions => Table::Actions,
    }
}

fn format(name: FormatName) -> Format {
    match name {
        FormatName::Csv => Format::Csv,
        FormatName::Jsonl => Format::JsonLines,
        FormatName::Influx => Format::Influx,
        FormatName::Parquet => Format::Parquet,
    }
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

fn salvage(path: &Path, new: &Path) -> Result<Exit> {
    let saved = weir_store::salvage(path, new)?;
    let name = text::harmless(&new.to_string_lossy());
    print(&format!(
        "{name}: {} sessions, {} ticks, {} spans of figures saved; {} ticks are lost\n",
        saved.sessions, saved.ticks, saved.spans, saved.lost_ticks
    ))?;
    Ok(if saved.lost_ticks > 0 {
        Exit::Finding
    } else {
        Exit::Done
    })
}
