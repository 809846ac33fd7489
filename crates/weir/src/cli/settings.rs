// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flags and file mean together. Flags win over the file, the file over the defaults.
//!
//! Nothing wrong is passed over: an unknown key, a value out of range or a set-point that cannot be
//! worked out is an error that names file, line and key and says what is allowed. A controller that
//! runs as root must not guess what its operator meant.

use crate::bench::calibrate::device_profile::common_knee;
use crate::cli::numbers;
use crate::cli::quantities::{LimitedWeight, Rate, SetPoint, Span};
use crate::cli::settings_places::{
    Unfit, Wrong, former_name, line_at, line_of, place, place_of_bad_key,
};
use crate::cli::{AttributionName, BackendName, CountersName, LoopArgs, PolicyName, WorkloadsName};
use crate::inventory::devices::DeviceNode;
use crate::output::text;
use crate::run::page::unguarded;
use crate::run::push::{PushFormat, Target};
use crate::run::service::log::targets;
use crate::run::service::log_format::LogFormat;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;
use weir_core::units::off_beat;
use weir_core::{BytesPerSec, Config, Description, Nanos};

/// Between two ticks of `weir run`.
pub const INTERVAL: Duration = Duration::from_millis(50);

/// No sensible settings file is larger.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// Keys of the core's `Config` that have a flag of their own, and its name.
pub const NOT_IN_CONTROLLER: [(&str, &str); 5] = [
    ("set_point_bytes_per_sec", "set-point"),
    ("goal", "set-point"),
    ("policy", "policy"),
    ("limit", "limit"),
    ("limited_weight_ratio", "limited-weight"),
];

/// Everything `weir run` needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The controller's settings; the set-point is filled in by [`Settings::resolve`].
    pub config: Config,
    /// As the settings say; nothing means observe.
    pub set_point: Option<SetPoint>,
    /// File and line of the set-point, where the file says it.
    pub set_point_place: Option<String>,
    /// What each device can sustain.
    pub capacity: Option<BytesPerSec>,
    /// Nodes that are CXL memory, whatever the machine says.
    pub devices: Vec<DeviceNode>,
    /// What a workload is.
    pub workloads: WorkloadsName,
    /// What limits.
    pub backend: BackendName,
    /// Where device traffic is read.
    pub counters: CountersName,
    /// How it is attributed to workloads.
    pub attribution: AttributionName,
    /// The event that counts for tasks, if not the best.
    pub attribution_event: Option<String>,
    /// Whether latency is measured by loads of weir's own.
    pub probe: bool,
    /// Between two ticks.
    pub interval: Duration,
    /// Of `cpu.max`.
    pub period: Duration,
    /// Globs on workload ids.
    pub exclude: Vec<String>,
    /// A sched_ext scheduler that runs all tasks enforces `cpu.max`.
    pub trust_cpu_max: bool,
    /// A threaded domain is limited where that holds back others too.
    pub limit_domains: bool,
    /// How long to run; nothing means until stopped.
    pub duration: Option<Duration>,
    /// A line of JSON per tick.
    pub json: bool,
    /// The file that every tick is recorded in.
    pub record: Option<PathBuf>,
    /// Where metrics are offered.
    pub metrics: Option<SocketAddr>,
    /// Where the live page is offered.
    pub page: Option<SocketAddr>,
    /// The file with the token that it asks for.
    pub page_token_file: Option<PathBuf>,
    /// Where lines are pushed to.
    pub push: Option<Target>,
    /// What is sent there.
    pub push_format: PushFormat,
    /// What figures pushed are means over.
    pub push_interval: Duration,
    /// The file with the authorities that may vouch for that server.
    pub push_ca_file: Option<PathBuf>,
    /// The file with the token to show there.
    pub push_token_file: Option<PathBuf>,
    /// The log filter.
    pub log: String,
    /// How its lines look.
    pub log_format: LogFormat,
    /// Whether weir waits for devices that are not there yet.
    pub wait_for_devices: bool,
}

/// The file as written. Keys equal flag names.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    limit: Option<bool>,
    set_point: Option<SetPoint>,
    capacity: Option<Rate>,
    device: Vec<DeviceNode>,
    policy: Option<PolicyName>,
    workloads: Option<WorkloadsName>,
    backend: Option<BackendName>,
    counters: Option<CountersName>,
    attribution: Option<AttributionName>,
    attribution_event: Option<String>,
    probe: Option<bool>,
    interval: Option<Span>,
    period: Option<Span>,
    limited_weight: Option<LimitedWeight>,
    exclude: Vec<String>,
    trust_cpu_max: Option<bool>,
    limit_domains: Option<bool>,
    duration: Option<Span>,
    json: Option<bool>,
    record: Option<PathBuf>,
    metrics: Option<Listen>,
    page: Option<Listen>,
    page_token_file: Option<PathBuf>,
    push: Option<Target>,
    push_format: Option<PushFormat>,
    push_interval: Option<Span>,
    push_ca_file: Option<PathBuf>,
    push_token_file: Option<PathBuf>,
    log: Option<String>,
    log_format: Option<LogFormat>,
    wait_for_devices: Option<bool>,
    controller: Option<Config>,
}

/// Where metrics or the page are offered, as the file has it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Listen(SocketAddr);

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        numbers::address(&text).map(Listen)
    }
}

impl Settings {
    /// Flags, file and defaults together.
    ///
    /// # Errors
    /// The file cannot be read or understood, or a value is out of range.
    pub fn new(args: &LoopArgs) -> Result<Self> {
        Settings::with_interval(args, INTERVAL)
    }

    /// The same with this time between two ticks if neither flags nor file say one.
    ///
    /// # Errors
    /// As [`Settings::new`].
    pub fn with_interval(args: &LoopArgs, interval: Duration) -> Result<Self> {
        let (file, text) = match &args.config {
            Some(path) => read_file(path)?,
            None => (File::default(), String::new()),
        };
        let config = controller(args, &file, &text)?;
        let span = |flag: Option<Span>, file: Option<Span>| flag.or(file).map(|span| span.0);
        let settings = Settings {
            set_point: args.set_point.or(file.set_point),
            set_point_place: set_point_place(args, &text),
            capacity: args.capacity.or(file.capacity).map(|rate| rate.0),
            devices: args.devices.or(file.device),
            workloads: args
                .workloads
                .or(file.workloads)
                .unwrap_or(WorkloadsName::Cgroup),
            backend: args.backend.or(file.backend).unwrap_or(BackendName::CpuMax),
            counters: args
                .counters
                .or(file.counters)
                .unwrap_or(CountersName::Auto),
            attribution: args
                .attribution
                .or(file.attribution)
                .unwrap_or(AttributionName::Auto),
            attribution_event: args.attribution_event.clone().or(file.attribution_event),
            probe: args.probe.or(file.probe).unwrap_or(false),
            interval: span(args.interval, file.interval).unwrap_or(interval),
            period: span(args.period, file.period).unwrap_or(usual_period()),
            exclude: file
                .exclude
                .into_iter()
                .chain(args.exclude.iter().cloned())
                .collect(),
            trust_cpu_max: args.trust_cpu_max.or(file.trust_cpu_max).unwrap_or(false),
            limit_domains: args.limit_domains.or(file.limit_domains).unwrap_or(false),
            duration: span(args.duration, file.duration),
            json: args.json || file.json.unwrap_or(false),
            record: file.record,
            metrics: args.metrics.or(file.metrics.map(|Listen(address)| address)),
            page: args.page.or(file.page.map(|Listen(address)| address)),
            page_token_file: args.page_token_file.clone().or(file.page_token_file),
            push: args.push.clone().or(file.push),
            push_format: args.push_format.or(file.push_format).unwrap_or_default(),
            push_interval: span(args.push_interval, file.push_interval)
                .unwrap_or(Duration::from_secs(10)),
            push_ca_file: args.push_ca_file.clone().or(file.push_ca_file),
            push_token_file: args.push_token_file.clone().or(file.push_token_file),
            log: args
                .log
                .clone()
                .or(file.log)
                .unwrap_or_else(|| "info".to_owned()),
            log_format: args.log_format.or(file.log_format).unwrap_or_default(),
            wait_for_devices: (args.wait_for_devices.or(file.wait_for_devices)).unwrap_or(false),
            config,
        };
        settings
            .check()
            .map_err(|unfit| unfit.placed(args, &text))?;
        settings.check_unit()?;
        Ok(settings)
    }

    /// A set-point of a few bytes is a unit that was forgotten: said here, with the place, and not when it is
    /// used.
    fn check_unit(&self) -> Result<()> {
        let Some(SetPoint::Rate(rate)) = self.set_point else {
            return Ok(());
        };
        let config = Config {
            set_point_bytes_per_sec: Some(rate.0),
            ..Config::default()
        };
        if config.validate().is_ok() {
            return Ok(());
        }
        let place = self.set_point_place.as_deref().unwrap_or("--set-point");
        bail!(
            "{place}: {} is no possible set-point: is a unit missing? Write for example --set-point 4GiB/s, in a \
             file set-point = \"4GiB/s\"",
            text::rate(rate.0)
        )
    }

    fn check(&self) -> Result<(), Unfit> {
        let (ms, sec) = (Duration::from_millis, Duration::from_secs);
        within("interval", self.interval, ms(5), sec(10))?;
        // Bounds of the kernel's bandwidth control (sched-bwc.rst).
        within("period", self.period, ms(1), sec(1))?;
        within("push-interval", self.push_interval, sec(1), sec(3600))?;
        targets(&self.log).map_err(|why| Unfit::new("log", why))?;
        if self.push.is_none() && self.push_token_file.is_some() {
            let why = "--push-token-file is for a server: say which with --push URL";
            return Err(Unfit::new("push-token-file", why));
        }
        if self.push.is_none() && self.push_format != PushFormat::default() {
            let why = "--push-format is for a server: say which with --push URL";
            return Err(Unfit::new("push-format", why));
        }
        if self.push.is_none() && self.push_ca_file.is_some() {
            let why =
                "--push-ca-file is for a server that speaks TLS: say which with --push https://…";
            return Err(Unfit::new("push-ca-file", why));
        }
        if self.page.is_none() && self.page_token_file.is_some() {
            let why = "--page-token-file is for the live page: offer it with --page";
            return Err(Unfit::new("page-token-file", why));
        }
        if let Some(address) = self.page
            && let Some(why) = unguarded(address, self.page_token_file.is_some())
        {
            return Err(Unfit::new("page", why));
        }
        let counts_none = matches!(
            self.attribution,
            AttributionName::CpuTime | AttributionName::Resctrl
        );
        if counts_none && self.attribution_event.is_some() {
            let why = "--attribution-event names an event to count for each task, and --attribution cpu-time or \
                       resctrl counts none: leave one of them out";
            return Err(Unfit::new("attribution-event", why));
        }
        if self.config.limit && self.set_point.is_none() {
            let why = "--limit needs a set-point: give the bandwidth to hold, as --set-point 4GiB/s, or --set-point \
                       40% with --capacity, or --set-point knee*0.9 after `weir calibrate`; `weir run` without \
                       --limit shows what the device carries now";
            return Err(Unfit::new("limit", why));
        }
        Ok(())
    }

    /// Works out the set-point on this machine and puts it into the config. Profiles of devices are in
    /// `state`.
    ///
    /// # Errors
    /// A part of a capacity or a knee that is not known, or that differs from device to device.
    pub fn resolve(&mut self, machine: &Description, state: &Path) -> Result<()> {
        let found = self.held_rate(machine, state);
        let found = found.map_err(|error| match &self.set_point_place {
            Some(place) => error.context(place.clone()),
            None => error,
        })?;
        self.config.set_point_bytes_per_sec = found;
        self.config.validate()?;
        Ok(())
    }

    fn held_rate(&self, machine: &Description, state: &Path) -> Result<Option<BytesPerSec>> {
        Ok(match self.set_point {
            Some(SetPoint::OfKnee(ratio)) => {
                Some(common_knee(state, machine, &self.devices)?.scale(ratio))
            }
            Some(asked) => Some(set_point(asked, self.capacity, machine)?),
            None => None,
        })
    }
}

/// `FILE, line N: set-point`, where the file says it.
fn set_point_place(args: &LoopArgs, text: &str) -> Option<String> {
    let path = args
        .config
        .as_deref()
        .filter(|_| args.set_point.is_none())?;
    let line = line_of(text, &["set-point"])?;
    Some(format!("{}: set-point", place(path, Some(line))))
}

/// A set-point in bytes, on this machine.
///
/// # Errors
/// As [`Settings::resolve`].
pub fn set_point(
    asked: SetPoint,
    given: Option<BytesPerSec>,
    machine: &Description,
) -> Result<BytesPerSec> {
    match asked {
        SetPoint::Rate(rate) => Ok(rate.0),
        SetPoint::OfCapacity(ratio) => Ok(capacity(given, machine)?.scale(ratio)),
        SetPoint::OfKnee(_) => bail!(
            "a set-point of the knee is for `weir run`, on the machine it was found on: give one in bytes, such as \
             4GiB/s"
        ),
    }
}

fn capacity(given: Option<BytesPerSec>, machine: &Description) -> Result<BytesPerSec> {
    if let Some(capacity) = given {
        return Ok(capacity);
    }
    let mut known = machine
        .devices
        .iter()
        .map(|device| device.capacity_bytes_per_sec);
    match known.next().flatten() {
        Some(first) if known.all(|other| other == Some(first)) => Ok(first),
        Some(_) => bail!(
            "a set-point in % needs one capacity for all devices, and theirs differ: give \
             --capacity, or a set-point in bytes such as 4GiB/s"
        ),
        None => bail!(
            "a set-point in % needs the device's capacity, which this machine does not say: give \
             --capacity, for example --capacity 20GiB/s, or a set-point in bytes such as 4GiB/s"
        ),
    }
}

fn within(
    key: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), Unfit> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(Unfit::new(
            key,
            format!("{key} is {value:?}: allowed are {least:?} to {most:?}"),
        )),
    }
}

fn read_file(path: &Path) -> Result<(File, String)> {
    let shown = text::harmless(&path.to_string_lossy());
    let open = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?
            .take(FILE_MAX_BYTES + 1)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    let text = open().with_context(|| format!("cannot read the settings file {shown}"))?;
    if text.len() as u64 > FILE_MAX_BYTES {
        bail!("the settings file {shown} is larger than 1 MiB: is it the right file?");
    }
    match parse(&text) {
        Ok(file) => Ok((file, text)),
        Err(Wrong { at, message }) => {
            let (line, content) = line_at(&text, at);
            bail!(
                "{shown}, line {line}: `{}`: {message}",
                text::fit(&content, 80)
            )
        }
    }
}

fn parse(text: &str) -> Result<File, Wrong> {
    let table = DeTable::parse(text)?;
    if let Some(wrong) = former_name(table.get_ref()) {
        return Err(wrong);
    }
    if let Some((_, controller)) = table.get_ref().get_key_value("controller")
        && let Some(controller) = controller.get_ref().as_table()
    {
        for (key, flag) in NOT_IN_CONTROLLER {
            if let Some((found, _)) = controller.get_key_value(key) {
                let message = format!("not allowed in [controller]: use the key {flag} above it");
                return Err(Wrong {
                    at: found.span().start,
                    message,
                });
            }
        }
    }
    Ok(toml::from_str(text)?)
}

/// The controller's part of the settings, checked but for the set-point, which is checked when it is known in
/// bytes.
fn controller(args: &LoopArgs, file: &File, text: &str) -> Result<Config> {
    let policy = args.policy.or(file.policy).unwrap_or(PolicyName::MaxMin);
    let mut config = Config {
        policy: policy.policy(),
        limit: args.limit.or(file.limit).unwrap_or(false),
        set_point_bytes_per_sec: None,
        ..file.controller.clone().unwrap_or_default()
    };
    if let Some(LimitedWeight(ratio)) = args.limited_weight.or(file.limited_weight) {
        config.limited_weight_ratio = ratio;
    }
    let rest = Config {
        limit: false,
        ..config.clone()
    };
    if let Err(error) = rest.validate() {
        let file = args.config.as_deref();
        bail!(place_of_bad_key(file, text, &error.to_string()));
    }
    Ok(config)
}

/// The default period of limits.
fn usual_period() -> Duration {
    Duration::from_nanos(off_beat(Nanos::from_millis(20)).0)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
