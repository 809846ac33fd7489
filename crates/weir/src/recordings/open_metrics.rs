// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir export --format openmetrics`: the metrics of a recorded run with their times, as a server that
//! scraped it each `--step` would have them. `promtool tsdb create-blocks-from openmetrics` and the import of
//! VictoriaMetrics read it.

use super::cli::{ExportArgs, ReplayArgs};
use super::export::{exists, has_rows, range};
use super::replay::play;
use crate::cli::exit::{Exit, print_json};
use anyhow::{Context, Result, bail};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use weir_core::seam::snapshot::Snapshot;
use weir_figures::text;
use weir_files::Access;
use weir_store::export::Range;
use weir_store::metrics::{Backfill, Totals, gather};
use weir_store::{Recording, Tick};

/// The label `job` of all samples: that of the dashboards and rules.
const JOB: &str = "weir";

/// Exports.
///
/// # Errors
/// It is no recording, it is damaged, there are too many samples, or the output cannot be written.
pub fn export(args: &ExportArgs) -> Result<Exit> {
    let recording = Recording::open(&args.file)?;
    let range = range(args, &recording)?;
    let run = gathered(&recording, args, &range)?;
    let Some(path) = &args.out else {
        let rows = run.write(&mut BufWriter::new(io::stdout().lock()))?;
        has_rows(rows, &range, &recording)?;
        return Ok(Exit::Done);
    };
    let shown = text::harmless(&path.to_string_lossy());
    let file = match weir_files::create_new(path, Access::Shared) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
        other => other.with_context(|| format!("cannot make {shown}"))?,
    };
    let rows = written(&run, file.file()).and_then(|rows| {
        has_rows(rows, &range, &recording)?;
        Ok(rows)
    });
    let rows = rows.inspect_err(|_| {
        // weir made this file, and it is a part that seems complete. The error below is the one to report.
        let _ = file.remove();
    });
    let rows = rows.with_context(|| format!("{shown} is not made"))?;
    if args.json {
        let bytes = file.file().metadata().map(|file| file.len()).ok();
        print_json(&serde_json::json!({ "file": path, "rows": rows, "bytes": bytes }))?;
    }
    Ok(Exit::Done)
}

fn written(run: &Backfill, file: &File) -> Result<u64> {
    let mut out = BufWriter::new(file);
    let rows = run.write(&mut out)?;
    out.flush()?;
    Ok(rows)
}

fn gathered(recording: &Recording, args: &ExportArgs, range: &Range) -> Result<Backfill> {
    let labels = [("instance", args.instance.as_str()), ("job", JOB)];
    let mut scrapes = Scrapes {
        step_ms: u64::try_from(args.step.0.as_millis())?.max(1),
        from_ms: range.from_unix_ms.unwrap_or(0),
        to_ms: range.to_unix_ms.unwrap_or(u64::MAX),
        next_ms: 0,
        run: Backfill::new(&labels),
    };
    let totals = RefCell::new(Totals::default());
    let mut count = |tick: &Tick| {
        let (seen, plan) = (&tick.observation, &tick.plan);
        totals.borrow_mut().add(seen, plan, &tick.outcomes);
    };
    let all = ReplayArgs {
        file: args.file.clone(),
        session: args.session,
        ..ReplayArgs::default()
    };
    let played = play(recording, &all, &mut count, &mut |snapshot| {
        scrapes.tick(snapshot, &totals.borrow())
    })?;
    if played.damaged {
        bail!(
            "the recording is damaged: `weir export FILE --recover NEW` makes one of what can be read"
        );
    }
    Ok(scrapes.run)
}

/// Takes the first tick of each step.
struct Scrapes {
    step_ms: u64,
    from_ms: u64,
    to_ms: u64,
    next_ms: u64,
    run: Backfill,
}

impl Scrapes {
    fn tick(&mut self, snapshot: &Snapshot, totals: &Totals) -> Result<()> {
        let now_ms = snapshot.wall_unix_ms;
        let is_wanted = (self.from_ms..self.to_ms).contains(&now_ms);
        if !is_wanted || now_ms < self.next_ms {
            return Ok(());
        }
        self.next_ms = (now_ms / self.step_ms)
            .saturating_add(1)
            .saturating_mul(self.step_ms);
        self.run.at(now_ms)?;
        gather(snapshot, totals, None, &mut self.run);
        Ok(())
    }
}
