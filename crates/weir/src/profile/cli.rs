// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of `weir profile`.

use super::moments::{MomentSpan, RecordingMoment};
use crate::cli::lab::LabWords;
use crate::cli::quantities::{Rate, Span};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use weir_profile::TimeSpan;

/// `weir profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: ProfileCommand,
}

/// What can be done with profiles.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Count on this machine into a file of windows: cgroups, a process, a command, or all
    Record(RecordArgs),
    /// The answer, stalls and stages of each workload on the screen, refreshed each window
    Live(LiveArgs),
    /// Make a file of windows of what `perf stat` counted
    Import(ImportArgs),
    /// The perf command that counts all of it on a CPU
    Need(NeedArgs),
    /// What is wrong, for which workload, how sure that is, and what to do; then all figures
    Report(ReportArgs),
    /// Run a simulated server, report on its counts, and keep the truth beside them (weir-lab server)
    #[command(disable_help_flag = true)]
    Sim(LabWords),
    /// What changed between two files of windows, by their scatter
    Diff(DiffArgs),
    /// Windows as text, or figures of each window as lines of JSON, for other programs
    Export(ProfileExportArgs),
    /// Each figure and each rule of a report, explained
    Methods(MethodsArgs),
}

/// `weir profile record`.
#[derive(Debug, Args)]
#[command(after_help = RECORD_HELP, group = ArgGroup::new("subject").args(["cgroup", "pid", "command"]))]
pub struct RecordArgs {
    /// Write into this new file
    pub file: PathBuf,

    /// Count for the tasks of this cgroup, such as system.slice/db.service; several may be given
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,

    /// Count for this process and all that it starts from now on
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Record for so long [default: until Ctrl-C, or the end of what is counted]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub duration: Option<Span>,

    /// Length of a window, 100ms to 1h
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "1s"
    )]
    pub interval: Span,

    /// The command to start and to count for
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const RECORD_HELP: &str = "\
Examples:
  weir profile record db.windows --cgroup system.slice/db.service --cgroup system.slice/batch.service
  weir profile record db.windows --pid 4711 --duration 60s
  weir profile record job.windows -- ./job --fast
  weir profile record all.windows --duration 10min --interval 10s

Without --cgroup, --pid and a command, all tasks of the machine are counted in one sum a socket. Counters of sockets, \
ports and devices count all tasks in any case. Sets of events take turns of 100 ms: record for 10 s at least. What \
cannot be counted here stands in the file with its reason.

Needs root or CAP_PERFMON. A file that exists is not overwritten. A recording that is killed leaves a file that can \
be read.

Exit codes: 0 recorded, 2 trouble; the command's own, 127 if it cannot be executed.";

/// `weir profile live`.
#[derive(Debug, Args)]
#[command(after_help = LIVE_HELP, group = ArgGroup::new("windows").args(["file", "sim", "cgroup", "pid"]))]
pub struct LiveArgs {
    /// Play this file of windows [default: count on this machine]
    pub file: Option<PathBuf>,

    /// Play a scenario of `weir profile sim` (weir-lab makes it)
    #[arg(long, value_name = "SCENARIO")]
    pub sim: Option<String>,

    /// Seed of the scenario
    #[arg(long, default_value_t = 1, value_name = "N", requires = "sim", value_parser = crate::cli::numbers::whole::<u64>)]
    pub seed: u64,

    /// Count for the tasks of this cgroup, such as system.slice/db.service; several may be given
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,

    /// Count for this process and all that it starts from now on
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,

    /// Length of a window that is counted, 100ms to 1h
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        default_value = "1s"
    )]
    pub interval: Span,

    /// A file of windows of the idle machine, or of a time at which all was well
    #[arg(long, value_name = "FILE")]
    pub idle: Option<PathBuf>,

    /// Only workloads with this in their name
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,

    /// Print it once, of the last ten windows, and end; this is also what happens when stdout is not a
    /// terminal
    #[arg(long)]
    pub once: bool,
}

const LIVE_HELP: &str = "\
Examples:
  weir profile live --cgroup system.slice/db.service --cgroup system.slice/batch.service --idle quiet.windows
  weir profile live db.windows --idle quiet.windows
  weir profile live --sim 4-cxl-beside-cxl
  weir profile live --pid 4711 --once

Figures are of the last ten windows together. A recording is played at its own pace, a window for 0.2 s at least; \
keys move through it. q quits, ? shows the keys. NO_COLOR=1 uses no colours.

Needs root or CAP_PERFMON to count. While it counts, `weir top` has a column WAITS IN.

Exit codes: 0 shown, 2 trouble.";

/// `weir profile import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_HELP)]
pub struct ImportArgs {
    /// Output of `perf stat -x,` or `perf stat -j`; - is stdin
    pub file: PathBuf,

    /// Write into this new file [default: stdout]
    #[arg(long, value_name = "NEW")]
    pub out: Option<PathBuf>,

    /// The family of the CPU, as `weir events` names it [default: this machine's, if it has these events,
    /// else the only one that has them]
    #[arg(long, value_name = "NAME")]
    pub family: Option<String>,

    /// What separates the columns, as it was given to -x [default: found]
    #[arg(long, value_name = "CHAR")]
    pub separator: Option<char>,

    /// Which run, from 1, where the file has several (perf stat --append)
    #[arg(long, value_name = "NUMBER")]
    pub run: Option<usize>,

    /// How long perf counted, where its lines do not say it: without -I, and without the event duration_time
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub duration: Option<Span>,
}

const IMPORT_HELP: &str = "\
Examples:
  weir profile need                                 prints the command of perf for this CPU
  weir profile import counts.csv --out counts.windows
  weir profile import counts.csv --family emerald-rapids > counts.windows

Lines of any options of perf stat are read but --per-core, --per-die, --per-cluster, --per-cache and --per-node. \
Events that no table gives a role are kept by name.

Exit codes: 0 done, 1 lines are left out (stderr and the file's notes say which), 2 trouble.";

/// `weir profile need`.
#[derive(Debug, Args)]
#[command(after_help = NEED_HELP)]
pub struct NeedArgs {
    /// The family of the CPU, as `weir events` names it [default: this machine's]
    #[arg(long, value_name = "NAME")]
    pub family: Option<String>,

    /// Print families, groups of events and their roles as JSON
    #[arg(long)]
    pub json: bool,
}

const NEED_HELP: &str = "\
Examples:
  weir profile need
  weir profile need --family granite-rapids > count.sh
  weir profile need --json | jq -r '.groups[].roles[]'

For a machine on which perf may count and weir is not installed. Events are written as terms, which every version \
of perf takes, in groups that the counters hold beside the NMI watchdog's.

Exit codes: 0 printed, 2 trouble.";

/// `weir profile report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub struct ReportArgs {
    /// A file of windows
    pub file: PathBuf,

    /// Which part of it.
    #[command(flatten)]
    pub part: FilePartArgs,

    /// What it shows.
    #[command(flatten)]
    pub shown: ShownArgs,

    /// The most that DRAM of a socket gives, as measured: for the time without CXL memory [default: what the
    /// file says, if it does]
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub dram_bandwidth: Option<Rate>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// Write a page into this folder, and print only the answer
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "each"])]
    pub html: Option<PathBuf>,
}

/// Which part of a file is looked at, and what it is compared with.
#[derive(Debug, Args)]
pub struct FilePartArgs {
    /// A file of windows of the idle machine, or of a time at which all was well: for waits and rules
    #[arg(long, value_name = "FILE")]
    pub idle: Option<PathBuf>,

    /// Only workloads with this in their name, and not the machine
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,

    /// Only windows from this time on, as the report shows times: 90s, 1.5ms
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub from: Option<RecordingMoment>,

    /// Only windows up to this time
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub to: Option<RecordingMoment>,
}

impl FilePartArgs {
    pub fn span(&self) -> TimeSpan {
        TimeSpan {
            from: self.from.map(|moment| moment.0),
            to: self.to.map(|moment| moment.0),
        }
    }
}

/// What a report shows.
#[derive(Debug, Args)]
pub struct ShownArgs {
    /// Each window too, beside all of them together
    #[arg(long)]
    pub each: bool,

    /// Which figures
    #[arg(long, value_enum, default_value = "weir")]
    pub method: MethodName,
}

/// Which figures a report has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// weir's own
    Weir,
    /// Those of PathFinder beside them, as yardsticks
    Pathfinder,
}

const REPORT_HELP: &str = "\
Examples:
  weir profile report counts.windows
  weir profile report counts.windows --idle quiet.windows --workload db
  weir profile report counts.windows --from 90s --to 2min
  weir profile report counts.windows --json | jq '.headline'
  weir profile report counts.windows --html out/db           a page to read: out/db/index.html

Each figure says how it is known, and one that cannot be says why.

Exit codes: 0 nothing found, 1 something found, 2 trouble.";

/// `weir profile diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub struct DiffArgs {
    /// A file of windows
    #[arg(value_name = "BEFORE")]
    pub first: PathBuf,

    /// The other one [default: the same, with --before and --after]
    #[arg(value_name = "AFTER")]
    pub second: Option<PathBuf>,

    /// Of the first file only this span of its time, as reports show it: 10s..90s, ..90s, 90s..
    #[arg(long, value_name = "SPAN")]
    pub before: Option<MomentSpan>,

    /// Of the second file only this span
    #[arg(long, value_name = "SPAN")]
    pub after: Option<MomentSpan>,

    /// A file of windows of the idle machine, or of a time at which all was well: waiting times are compared
    /// too
    #[arg(long, value_name = "FILE")]
    pub idle: Option<PathBuf>,

    /// Only workloads with this in their name, and not the machine
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,

    /// What is not distinguishable, too
    #[arg(long)]
    pub all: bool,

    /// Print everything as JSON
    #[arg(long, conflicts_with = "all")]
    pub json: bool,

    /// Write a page with both reports into this folder, and print only how many figures changed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "all"])]
    pub html: Option<PathBuf>,
}

const DIFF_HELP: &str = "\
Examples:
  weir profile diff before.windows after.windows
  weir profile diff before.windows after.windows --workload db --json | jq '.[] | select(.verdict == \"changed\")'
  weir profile diff before.windows after.windows --idle quiet.windows --html out/diff
  weir profile diff day.windows --before 10min..1h --after 1h..

Counts a second and residences are compared, and waiting times with --idle, with intervals of 99 % from the windows' scatter: a side needs four \
windows or more.

Exit codes: 0 nothing changed, 1 something changed, appeared or vanished, 2 trouble.";

/// `weir profile export`.
#[derive(Debug, Args)]
#[command(after_help = PROFILE_EXPORT_HELP)]
pub struct ProfileExportArgs {
    /// A file of windows
    pub file: PathBuf,

    /// What is written
    #[arg(long, value_enum, default_value = "windows")]
    pub table: ExportedFigures,

    /// Which part of it.
    #[command(flatten)]
    pub part: FilePartArgs,

    /// Write into this new file [default: stdout]
    #[arg(long, value_name = "NEW")]
    pub out: Option<PathBuf>,
}

/// What of a file of windows is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportedFigures {
    /// The counts: format 1 of docs/reference/windows.md, which is plain text
    Windows,
    /// The counts again, as small as `weir profile record` writes them; --out is needed
    Recording,
    /// Where loads and lines come from, by window and workload
    Paths,
    /// Residence, wait and pressure, by window and workload
    Stages,
    /// Stall cycles by stage, path and target, by window and workload
    Stalls,
    /// What each rule says, of all windows together
    Findings,
}

const PROFILE_EXPORT_HELP: &str = "\
Examples:
  weir profile export day.windows > day.txt
  weir profile export day.windows --table stalls --from 1h --to 2h | jq -c '[.from_ns, .subject, .stalls]'
  weir profile export day.windows --table findings --idle quiet.windows --out findings.jsonl

A line is an object with from_ns, to_ns and subject, and the figures under the name of --table, as `weir profile report \
--json` has them. A figure that cannot be made is an object with its reason.

Exit codes: 0 done, 2 trouble.";

/// `weir profile methods`.
#[derive(Debug, Args)]
pub struct MethodsArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}
