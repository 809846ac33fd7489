// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line: its flags, not their meaning. Parsing only records the values; [`crate::cli::settings`]
//! derives the meaning once flags and file are both known. Keys of the file equal the flag names.

mod advice;
mod choices;
pub mod exit;
pub mod numbers;
#[cfg(test)]
mod package_tests;
pub mod quantities;
#[cfg(test)]
mod reference_tests;
pub mod renamed;
pub mod settings;
mod settings_places;

use crate::bench::calibrate::cli::CalibrateArgs;
use crate::bench::cli::BenchArgs;
use crate::bench::hardware::cli::VerifyHardwareArgs;
use crate::cli::quantities::{LimitedWeight, Rate, SetPoint, Span};
use crate::groups::cli::GroupsArgs;
use crate::inventory::devices::NodeArgs;
use crate::inventory::events::cli::EventsArgs;
use crate::profile::cli::ProfileArgs;
use crate::recordings::cli::{ExportArgs, RecordArgs, ReplayArgs};
use crate::recordings::moment::Moment;
use crate::run::push::{PushFormat, Target};
use crate::run::reset::ResetArgs;
use crate::run::service::log_format::LogFormat;
use crate::sim::cli::SimArgs;
pub use choices::{AttributionName, BackendName, CountersName, PolicyName, WorkloadsName};
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The first line of `--help`: without it clap takes the package's description.
const ABOUT: &str = "weir keeps CXL memory below the point where its latency rises steeply";

/// The command.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about = ABOUT, max_term_width = 100, after_help = TOP_HELP)]
pub struct Cli {
    /// Read a tree below this directory instead of the real /sys, /proc and /run.
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const TOP_HELP: &str = "\
Start with `weir doctor` (what this machine can do), then `weir top` (workloads and what they move),
then `weir calibrate` (the device's knee) and `weir run --limit --set-point 'knee*0.9'`.

A workload is slow: `weir explain NAME`, then `weir profile`.
Figures of the past: `weir record`, then `weir export`.

No CXL memory at hand: `weir sim thesis-limit --top` shows weir at work on a simulated host.

Exit codes: 0 done, 2 trouble. 1 is a finding of calibrate, doctor, events --count, export, groups,
profile, replay --check, reset, sim or verify-hardware: the help of that command says which.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure the use of the device by workload, and with --limit hold it at the set-point
    Run(RunArgs),
    /// Observe (or limit) like `run`, and keep every tick in a file
    Record(RecordArgs),
    /// Show a recorded run again, or what another controller would have done
    Replay(ReplayArgs),
    /// Figures of a recording for other programs: CSV, Parquet, JSON lines, InfluxDB lines
    Export(ExportArgs),
    /// A live table of devices and workloads
    Top(TopArgs),
    /// What this machine can do, what is missing, and what to do about it
    Doctor(DoctorArgs),
    /// Find the bandwidth above which a device's latency rises steeply
    Calibrate(CalibrateArgs),
    /// Measure what memory and storage traffic do to each other, and compare such results
    Bench(BenchArgs),
    /// Measure on this machine what weir promises, and write a file to send
    VerifyHardware(VerifyHardwareArgs),
    /// Which workloads are limited, since when, how much and why
    Explain(ExplainArgs),
    /// Restore what a killed weir left limited
    Reset(ResetArgs),
    /// Monitoring groups: make, list and resize them, put workloads into them
    Groups(GroupsArgs),
    /// What belongs to what: nodes, regions, CXL devices, ports, counters
    Topology(TopologyArgs),
    /// Performance counters of CXL traffic, and which of them this machine has
    Events(EventsArgs),
    /// Where accesses wait: figures and findings of what perf counted
    Profile(ProfileArgs),
    /// Try it without hardware: scenarios on a simulated host
    Sim(SimArgs),
}

/// `weir run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArgs {
    /// Settings of the loop.
    #[command(flatten)]
    pub how: LoopArgs,

    /// Keep every tick in this file too (see `weir record`)
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// What `weir run` and `weir record` have in common.
#[derive(Debug, Default, Args)]
pub struct LoopArgs {
    /// Act: limit the CPU time of workloads that overload the device. Without it weir observes only
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub limit: Option<bool>,

    /// Bandwidth to hold on each device, reads and writes together: 4GiB/s, 500MB/s, bytes per
    /// second, a part of the capacity such as 40%, or of the knee that `weir calibrate` found: knee*0.9
    #[arg(long, value_name = "RATE|PERCENT|knee", allow_negative_numbers = true)]
    pub set_point: Option<SetPoint>,

    /// Bandwidth that the device can sustain, where the machine does not say so itself
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub capacity: Option<Rate>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,

    /// How the set-point is split over the workloads
    #[arg(long, value_enum)]
    pub policy: Option<PolicyName>,

    /// What counts as one workload
    #[arg(long, value_enum)]
    pub workloads: Option<WorkloadsName>,

    /// What limits the workloads
    #[arg(long, value_enum)]
    pub backend: Option<BackendName>,

    /// Where device traffic is read
    #[arg(long, value_enum)]
    pub counters: Option<CountersName>,

    /// How the traffic of a group that several workloads share is attributed to them
    #[arg(long, value_enum)]
    pub attribution: Option<AttributionName>,

    /// Count this event for each task, not the best one: a name of `weir events`, or sw:cpu-clock,
    /// sw:task-clock, sw:page-faults, sw:context-switches to try it out. With --attribution sampling: what
    /// to sample, or sw:minor-faults to try it out
    #[arg(long, value_name = "EVENT", hide_short_help = true)]
    pub attribution_event: Option<String>,

    /// Measure each device's latency by loads of weir's own, in at most 1 % of the time of one CPU and 16 MiB
    /// of the device
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub probe: Option<bool>,

    /// Time between two ticks [default: 50ms]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub interval: Option<Span>,

    /// Period of the CPU limits (cpu.max) [default: 20.6ms: no multiple of what programs wake at]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub period: Option<Span>,

    /// Weight (cpu.weight) of a limited workload: this part of what its limit is of the CPU time that it
    /// would use; off leaves weights alone [default: 100%]
    #[arg(long, value_name = "PERCENT|off")]
    pub limited_weight: Option<LimitedWeight>,

    /// Never limit workloads with a name that matches; may be given several times. Names are as `weir top`
    /// and systemd show them
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,

    /// Limit also where a sched_ext scheduler runs all tasks: it enforces cpu.max itself, which weir cannot
    /// see
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub trust_cpu_max: Option<bool>,

    /// Limit a threaded domain as one workload where only the domain can have a limit, also if that holds
    /// back processes that do not use a device: `weir explain` names them
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub limit_domains: Option<bool>,

    /// Read settings from this TOML file; flags override it. SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Stop after this time
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub duration: Option<Span>,

    /// Print one snapshot as a line of JSON at each tick
    #[arg(long)]
    pub json: bool,

    /// Offer metrics to Prometheus at http://ADDR/metrics [ADDR if left out: 127.0.0.1:9779]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9779", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address)]
    pub metrics: Option<SocketAddr>,

    /// Show a live page at http://ADDR/; off loopback it needs a token [ADDR if left out: 127.0.0.1:9780]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9780", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address)]
    pub page: Option<SocketAddr>,

    /// File with the token that browsers must give as password to see the page
    #[arg(long, value_name = "FILE")]
    pub page_token_file: Option<PathBuf>,

    /// Push figures to this address, such as http://127.0.0.1:8428/write
    #[arg(long, value_name = "URL")]
    pub push: Option<Target>,

    /// What is pushed
    #[arg(long, value_enum)]
    pub push_format: Option<PushFormat>,

    /// Time that pushed figures are means over, or between pushed samples [default: 10s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub push_interval: Option<Span>,

    /// File with the certificates (PEM) that may vouch for an https:// server [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub push_ca_file: Option<PathBuf>,

    /// File with the token that the server requires (Authorization: Token …; remote write: Bearer …)
    #[arg(long, value_name = "FILE")]
    pub push_token_file: Option<PathBuf>,

    /// What to log on stderr: error, warn, info, debug, trace, or a tracing filter [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,

    /// How lines on stderr look
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,

    /// Wait for CXL memory that is not there yet, and for its counters where they are needed. Without it weir
    /// ends with exit code 69
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
    pub wait_for_devices: Option<bool>,
}

const RUN_HELP: &str = "\
Examples:
  weir run                                      observe, change nothing
  weir run --limit --set-point 4GiB/s           hold each device at 4 GiB/s
  weir run --limit --set-point 40% --capacity 20GiB/s --exclude '/system.slice/db*'
  weir run --limit --set-point 'knee*0.9'       after `weir calibrate`
  weir run --config /etc/weir.toml --json
  weir run --push http://127.0.0.1:8428/write   figures to VictoriaMetrics, or InfluxDB

A file has the same names, and the controller's gains in a table of their own:
  limit = true
  set-point = \"4GiB/s\"
  exclude = [\"/system.slice/db*\"]
  [controller]
  kp = 0.2

SIGHUP reads the file again and keeps all limits that stay valid. On a terminal it ends weir.

Limits end when weir ends. After a kill -9: `weir reset`, or the next start.

Exit codes: 0 done; 69 no CXL memory, or no limits possible; 74 a file cannot be written; 75 another weir
limits; 77 not permitted; 78 settings; 2 anything else.";

/// `weir top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_COMMAND_HELP)]
pub struct TopArgs {
    /// Print one table and end; this is also what happens when stdout is not a terminal
    #[arg(long)]
    pub once: bool,

    /// Print one snapshot as JSON and end
    #[arg(long)]
    pub json: bool,

    /// Show this snapshot file instead of the running daemon's
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,

    /// What counts as one workload, when no daemon is running
    #[arg(long, value_enum)]
    pub workloads: Option<WorkloadsName>,

    /// Which nodes are the device's, when no daemon is running.
    #[command(flatten)]
    pub devices: NodeArgs,
}

const TOP_COMMAND_HELP: &str = "\
Examples:
  weir top                  live; q quits, ? shows the keys
  weir top --once           one table on stdout
  weir top --json | jq '.plan.workloads[].bandwidth'

Shows what a running `weir run` publishes. Without one it measures by itself and changes nothing.";

/// `weir doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// What would count as one workload
    #[arg(long, value_enum)]
    pub workloads: Option<WorkloadsName>,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,
    /// Examine with the settings of this file: do the names in it fit a workload?
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Does this pattern for `weir run --exclude` fit a workload? May be given several times
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
}

const DOCTOR_HELP: &str = "\
Examples:
  weir doctor               facts, reasons for what is missing, next moves
  weir doctor --json | jq '.lacking'
  weir doctor --config /etc/weir.toml           and whether the names in it fit a workload

Exit codes: 0 weir can limit here, 1 something needed for --limit is missing, 2 trouble.";

/// `weir topology`.
#[derive(Debug, Args)]
#[command(after_help = TOPOLOGY_HELP)]
pub struct TopologyArgs {
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,

    /// Which nodes are the device's.
    #[command(flatten)]
    pub devices: NodeArgs,
}

const TOPOLOGY_HELP: &str = "\
A link that is not known says why. Nothing is guessed. Each node says whether it is CXL memory, and by what
evidence.

Examples:
  weir topology
  weir topology --json | jq '.nodes[] | {id, verdict, devices}'

Exit codes: 0 done, 2 trouble.";

/// `weir explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_HELP)]
pub struct ExplainArgs {
    /// A workload's name, or a part of it; all limited workloads if left out
    pub workload: Option<String>,

    /// How many of the last changes to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = crate::cli::numbers::whole::<usize>)]
    pub changes: usize,

    /// Explain the last session of this recording instead of the running weir
    #[arg(long, value_name = "FILE")]
    pub recording: Option<PathBuf>,

    /// This session of it, and not the last (see `weir record FILE --info`)
    #[arg(long, value_name = "N", requires = "recording")]
    pub session: Option<i64>,

    /// The state at this time: 2h after the session began, or a time with its zone, such as
    /// 2026-11-25T22:00+01:00 [default: at its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    pub at: Option<Moment>,

    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
}

const EXPLAIN_HELP: &str = "\
Examples:
  weir explain              all limited workloads, and the last changes
  weir explain fio          workloads with fio in their name, limited or not
  weir explain ''           all workloads
  weir explain --recording today.weir --at 30s";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn limit_is_a_switch_that_can_be_switched_off() {
        let limit = |args: &[&str]| match Cli::try_parse_from(args).unwrap().command {
            Command::Run(run) => run.how.limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(&["weir", "run"]), None);
        assert_eq!(limit(&["weir", "run", "--limit"]), Some(true));
        assert_eq!(limit(&["weir", "run", "--limit=false"]), Some(false));
        assert_eq!(limit(&["weir", "run", "--limit", "--json"]), Some(true));
    }
}
