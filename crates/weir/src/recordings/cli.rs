// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir record`, `weir replay` and `weir export`.

use super::moment::Moment;
use crate::cli::PolicyName;
use crate::cli::quantities::{Rate, SetPoint, Span};
use crate::run::settings::args::LoopArgs;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `weir record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP)]
pub struct RecordArgs {
    /// The recording: a new file, or one that is there already, which gets one session more
    pub file: PathBuf,

    /// Print what is in the file and whether it is as it was written; record nothing
    #[arg(long)]
    pub info: bool,

    /// As of `weir run`; the interval is 1s unless it is given
    #[command(flatten)]
    pub how: LoopArgs,
}

const RECORD_HELP: &str = "\
Examples:
  weir record today.weir                        once a second, until Ctrl-C; changes nothing
  weir record today.weir --interval 50ms --duration 1h
  weir record today.weir --info                 what is in it
  weir run --limit --set-point 4GiB/s --record today.weir

A kill loses at most the tick it falls into. While it is being written the file has companions \
(-wal, -shm): copy it when weir has ended, or together with them.

--info reads all of the file, compares it with its checksums, and ends with 2 if something in it is \
not what was written.

It is an SQLite database:
  sqlite3 today.weir 'SELECT workload, max(bytes_per_sec) FROM workloads GROUP BY workload'";

/// `weir replay`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = REPLAY_HELP)]
pub struct ReplayArgs {
    /// The recording
    pub file: PathBuf,

    /// Only this session (see `weir record FILE --info`) [default: all of them]
    #[arg(long, value_name = "N")]
    pub session: Option<i64>,

    /// Show it on the screen of `weir top` instead of printing lines of JSON
    #[arg(long)]
    pub top: bool,

    /// How fast: 1 is as it was recorded [default: without waiting; with --top 1]
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    pub speed: Option<f64>,

    /// Offer its metrics to Prometheus at http://ADDR/metrics while it is replayed, as `weir run --metrics`
    /// does; --speed is 1 unless it is given [ADDR if left out: 127.0.0.1:9779]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9779", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address, conflicts_with_all = ["top", "check"])]
    pub metrics: Option<SocketAddr>,

    /// Show it on a live page at http://ADDR/, as `weir run --page` does; --speed is 1 unless it is given.
    /// The page stays at the end, until Ctrl-C [ADDR if left out: 127.0.0.1:9780]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9780", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address, conflicts_with_all = ["top", "check"])]
    pub page: Option<SocketAddr>,

    /// File with the token that browsers must give as password to see the page
    #[arg(long, value_name = "FILE", requires = "page")]
    pub page_token_file: Option<PathBuf>,

    /// Run the controller again with its recorded settings: are its plans the recorded ones?
    #[arg(long, conflicts_with_all = ["top", "policy", "set_point"])]
    pub check: bool,

    /// What would it have decided with this policy?
    #[arg(long, value_enum)]
    pub policy: Option<PolicyName>,

    /// What would it have decided with this set-point?
    #[arg(long, value_name = "RATE|PERCENT")]
    pub set_point: Option<SetPoint>,

    /// Bandwidth that the device can sustain, for a set-point in percent
    #[arg(long, value_name = "RATE")]
    pub capacity: Option<Rate>,

    /// Print JSON: with --check its findings; without it the lines are JSON anyway
    #[arg(long, conflicts_with = "top")]
    pub json: bool,
}

const REPLAY_HELP: &str = "\
Examples:
  weir replay today.weir                        the lines that `weir run --json` printed
  weir replay today.weir --top --speed 10       on the screen, ten times as fast; ? shows the keys
  weir replay today.weir --metrics              for Prometheus, as if it happened now
  weir replay today.weir --page --speed 10      on a page in a browser
  weir replay today.weir --check                same recording, same plan?
  weir replay today.weir --set-point 4GiB/s --policy drf

With another policy or set-point the lines show what weir would have decided on what was seen then. \
What its limits would have changed is not in the recording: from the first limit on, the workloads \
go on as if it were not there.

Exit codes: 0 done, 1 a plan is not the recorded one (with --check), 2 trouble.";

/// `weir export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub struct ExportArgs {
    /// The recording
    pub file: PathBuf,

    /// For what program [default: csv; with --json jsonl]
    #[arg(long, value_enum)]
    pub format: Option<FormatName>,

    /// Which table of it
    #[arg(long, value_enum, default_value = "workloads")]
    pub table: TableName,

    /// With --format openmetrics: time between two samples, as of a server that scrapes
    #[arg(long, value_name = "TIME", default_value = "15s")]
    pub step: Span,

    /// With --format openmetrics: label `instance` of all samples
    #[arg(long, value_name = "NAME", default_value = "recording")]
    pub instance: String,

    /// Only this session (see `weir record FILE --info`) [default: all of them]
    #[arg(long, value_name = "N")]
    pub session: Option<i64>,

    /// Leave out what came earlier: 2h after the beginning of the recording, or of --session; or a time with
    /// its zone, such as 2026-11-25T22:00+01:00
    #[arg(long, value_name = "TIME")]
    pub from: Option<Moment>,

    /// Leave out what came later, likewise
    #[arg(long, value_name = "TIME")]
    pub to: Option<Moment>,

    /// Write into this new file [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Of a damaged recording: write what can be read into this new recording
    #[arg(long, value_name = "NEW", conflicts_with_all = ["format", "table", "session", "from", "to", "out"])]
    pub recover: Option<PathBuf>,

    /// With --out or --recover print what was written as JSON; else write rows as JSON lines
    #[arg(long)]
    pub json: bool,
}

const EXPORT_HELP: &str = "\
Examples:
  weir export today.weir > today.csv
  weir export today.weir --table devices --from 1h --to 2h
  weir export today.weir --from \"$(date -Is -d 'yesterday 22:00')\" > night.csv
  weir export today.weir --format parquet --out today.parquet
  weir export today.weir --format influx --table devices | influx write …
  weir export today.weir --format openmetrics --instance db7 --out day.om
  promtool tsdb create-blocks-from openmetrics day.om /var/lib/prometheus
  weir export broken.weir --recover new.weir

Columns have their units in their names; docs/reference/recording-format.md describes them. Control characters \
in names are written as \\ooo, as bytes that are not UTF-8 are: a name cannot break a line or a screen.

A damaged recording is exported up to the damage, and the exit code is 2; a file that --out was making \
is removed then. --recover ends with 1 if something is lost.";

/// A format for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// Comma-separated values with a line of titles (RFC 4180)
    Csv,
    /// One JSON object a line
    Jsonl,
    /// InfluxDB line protocol
    Influx,
    /// All metrics with their times, for Prometheus and VictoriaMetrics; --table does not matter
    Openmetrics,
    /// Apache Parquet
    Parquet,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TableName {
    /// Figures of workloads, means of a second or of a tick
    Workloads,
    /// Figures of devices, likewise
    Devices,
    /// Each limit that was set or released
    Actions,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.001..=1e6).contains(&speed) => Ok(speed),
        _ => Err("a number from 0.001 to 1000000 is wanted".into()),
    }
}
