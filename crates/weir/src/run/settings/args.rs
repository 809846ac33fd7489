// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each setting of `weir run`, and of all that runs its loop, once: its flag, which is its key of the file
//! too, as what it is given, what it is then, and what it is if neither says it.

use super::layers::settings;
use super::{INTERVAL, usual_period};
use crate::cli::devices::{DeviceNode, NodeArgs};
use crate::cli::numbers;
use crate::cli::quantities::{LimitedWeight, Rate, SetPoint, Span};
use crate::cli::{
    AttributionName, BackendName, CountersName, LogFormat, PolicyName, WorkloadsName,
};
use crate::run::push::{PushFormat, Target};
use clap::Args;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weir_core::{BytesPerSec, Config};

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

settings! {
    // What is held, and on what.
    args {
        /// Act: limit the CPU time of workloads that overload the device. Without it weir observes only
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
        limit: Option<bool>,
    }
    followed {
        /// Bandwidth to hold on each device, reads and writes together: 4GiB/s, 500MB/s, bytes per
        /// second, a part of the capacity such as 40%, or of the knee that `weir calibrate` found: knee*0.9
        #[arg(long, value_name = "RATE|PERCENT|knee", allow_negative_numbers = true)]
        set_point: Option<SetPoint> => Option<SetPoint> = |it| it,
    }
    kept {
        /// Bandwidth that the device can sustain, where the machine does not say so itself
        #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
        capacity: Option<Rate> => Option<BytesPerSec> = |it| it.map(|rate| rate.0),

        /// Which nodes are the device's.
        #[command(flatten)]
        device: NodeArgs => Vec<DeviceNode> = |it| it.device,
    }

    // How the loop works.
    args {
        /// How the set-point is split over the workloads
        #[arg(long, value_enum)]
        policy: Option<PolicyName>,
    }
    followed {}
    kept {
        /// What counts as one workload
        #[arg(long, value_enum)]
        workloads: Option<WorkloadsName> => WorkloadsName = |it| it.unwrap_or(WorkloadsName::Cgroup),

        /// What limits the workloads
        #[arg(long, value_enum)]
        backend: Option<BackendName> => BackendName = |it| it.unwrap_or(BackendName::CpuMax),

        /// Where device traffic is read
        #[arg(long, value_enum)]
        counters: Option<CountersName> => CountersName = |it| it.unwrap_or(CountersName::Auto),

        /// How the traffic of a group that several workloads share is attributed to them
        #[arg(long, value_enum)]
        attribution: Option<AttributionName> => AttributionName = |it| it.unwrap_or(AttributionName::Auto),

        /// Count this event for each task, not the best one: a name of `weir events`, or sw:cpu-clock,
        /// sw:task-clock, sw:page-faults, sw:context-switches to try it out. With --attribution sampling:
        /// what to sample, or sw:minor-faults to try it out
        #[arg(long, value_name = "EVENT", hide_short_help = true)]
        attribution_event: Option<String> => Option<String> = |it| it,

        /// Measure each device's latency by loads of weir's own, in at most 1 % of the time of one CPU and
        /// 16 MiB of the device
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
        probe: Option<bool> => bool = |it| it.unwrap_or(false),

        /// Time between two ticks [default: 50ms]
        #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
        interval: Option<Span> => Duration = |it| it.map_or(INTERVAL, |span| span.0),

        /// Period of the CPU limits (cpu.max) [default: 20.6ms: no multiple of what programs wake at]
        #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
        period: Option<Span> => Duration = |it| it.map_or_else(usual_period, |span| span.0),
    }

    // Which workloads are limited, and how.
    args {
        /// Weight (cpu.weight) of a limited workload: this part of what its limit is of the CPU time that it
        /// would use; off leaves weights alone [default: 100%]
        #[arg(long, value_name = "PERCENT|off")]
        limited_weight: Option<LimitedWeight>,
    }
    followed {
        /// Never limit workloads with a name that matches; may be given several times. Names are as `weir
        /// top` and systemd show them
        #[arg(long, value_name = "GLOB")]
        exclude: Vec<String> => Vec<String> = |it| it,
    }
    kept {
        /// Limit also where a sched_ext scheduler runs all tasks: it enforces cpu.max itself, which weir
        /// cannot see
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
        trust_cpu_max: Option<bool> => bool = |it| it.unwrap_or(false),

        /// Limit a threaded domain as one workload where only the domain can have a limit, also if that holds
        /// back processes that do not use a device: `weir explain` names them
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
        limit_domains: Option<bool> => bool = |it| it.unwrap_or(false),

        /// Split delegated cgroups with a name that matches into their leaves, each a workload: their owner
        /// may move what he runs out of a limit; may be given several times
        #[arg(long, value_name = "GLOB")]
        split_delegated: Vec<String> => Vec<String> = |it| it,
    }

    // The run, and what it writes.
    args {
        /// Read settings from this TOML file; flags override it. SIGHUP reads it again
        #[arg(long, value_name = "FILE")]
        #[serde(skip)]
        config: Option<PathBuf>,

        /// The file's table of the controller's gains.
        #[arg(skip)]
        controller: Option<Config>,
    }
    followed {}
    kept {
        /// Stop after this time
        #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
        duration: Option<Span> => Option<Duration> = |it| it.map(|span| span.0),

        /// Print one snapshot as a line of JSON at each tick
        #[arg(long)]
        json: bool => bool = |it| it,

        /// What keeps every tick: `weir run` and `weir record` have a flag of their own for it.
        #[arg(skip)]
        record: Option<PathBuf> => Option<PathBuf> = |it| it,

        /// Offer metrics to Prometheus at http://ADDR/metrics [ADDR if left out: 127.0.0.1:9779]
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9779", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address)]
        #[serde(deserialize_with = "numbers::address_of_file")]
        metrics: Option<SocketAddr> => Option<SocketAddr> = |it| it,

        /// File with the token that clients must show to read metrics (Authorization: Bearer …, or as
        /// password)
        #[arg(long, value_name = "FILE")]
        metrics_token_file: Option<PathBuf> => Option<PathBuf> = |it| it,

        /// Show a live page at http://ADDR/; off loopback it needs a token [ADDR if left out: 127.0.0.1:9780]
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:9780", value_name = "ADDR:PORT", value_parser = crate::cli::numbers::address)]
        #[serde(deserialize_with = "numbers::address_of_file")]
        page: Option<SocketAddr> => Option<SocketAddr> = |it| it,

        /// File with the token that browsers must give as password to see the page
        #[arg(long, value_name = "FILE")]
        page_token_file: Option<PathBuf> => Option<PathBuf> = |it| it,

        /// Push figures to this address, such as http://127.0.0.1:8428/write
        #[arg(long, value_name = "URL")]
        push: Option<Target> => Option<Target> = |it| it,

        /// What is pushed
        #[arg(long, value_enum)]
        push_format: Option<PushFormat> => PushFormat = |it| it.unwrap_or_default(),

        /// Time that pushed figures are means over, or between pushed samples [default: 10s]
        #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
        push_interval: Option<Span> => Duration = |it| it.map_or(Duration::from_secs(10), |span| span.0),

        /// File with the certificates (PEM) that may vouch for an https:// server [default: those of the
        /// system]
        #[arg(long, value_name = "FILE")]
        push_ca_file: Option<PathBuf> => Option<PathBuf> = |it| it,

        /// File with the token that the server requires (Authorization: Token …; remote write: Bearer …)
        #[arg(long, value_name = "FILE")]
        push_token_file: Option<PathBuf> => Option<PathBuf> = |it| it,
    }

    // What it says, and when it begins.
    args {}
    followed {
        /// What to log on stderr: error, warn, info, debug, trace, or a tracing filter [default: info]
        #[arg(long, value_name = "FILTER")]
        log: Option<String> => String = |it| it.unwrap_or_else(|| "info".to_owned()),
    }
    kept {
        /// How lines on stderr look
        #[arg(long, value_enum)]
        log_format: Option<LogFormat> => LogFormat = |it| it.unwrap_or_default(),

        /// Wait for CXL memory that is not there yet, and for its counters where they are needed. Without
        /// it weir ends with exit code 69
        #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "true|false")]
        wait_for_devices: Option<bool> => bool = |it| it.unwrap_or(false),
    }
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
