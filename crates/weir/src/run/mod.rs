// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run`: the daemon. Reading order: [`tick`] (one iteration), [`sink`] (the ways out),
//! [`snapshot_builder`], [`changes`] and [`publish`] (what screens get), [`json_lines`] (how lines leave),
//! [`metrics`] (for Prometheus), [`push`] (for other servers), [`self_cost`] (what weir itself uses).
//!
//! ```text
//!   settings ─► platform ─► announce ─► tick, tick, tick … ─► release ─► exit code
//!                                           │
//!                       a signal, the end of --duration, a closed stdout,
//!                       a platform that broke, a fault of our own (panic)
//! ```
//!
//! Every way out of the loop passes through `release`: the platform is in a guard that
//! restores limits when its scope ends. Only SIGKILL cannot be caught; then the journal of weir-linux
//! is used by the next start or `weir reset`.

mod announce;
pub mod changes;
pub mod json_lines;
pub mod lossy;
pub mod metrics;
pub mod open_platform;
pub mod probe;
pub mod publish;
pub mod push;
pub mod reset;
pub mod self_cost;
pub mod sink;
pub mod snapshot_builder;
pub mod tick;
pub mod wall;

use crate::cli::RunArgs;
use crate::cli::exit::Exit;
use crate::cli::quantities::SetPoint;
use crate::cli::settings::Settings;
use crate::inventory::devices;
use crate::output::text;
use crate::recordings::recorder_thread::RecorderThread;
use crate::run::probe::Probed;
use announce::announce;
use anyhow::{Context, Result, anyhow, bail};
use changes::{ChangeKind, ChangeLog, MachineChange};
use json_lines::{JsonLines, Outlet};
use metrics::Exporter;
use publish::Publisher;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sink::{SinkTrouble, Sinks};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tick::Loop;
use tracing::{debug, info, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use weir_core::seam::plan::{Outcome, OutcomeKind};
use weir_core::seam::topology::Device;
use weir_core::{Description, DeviceId, PlatformError};
use weir_linux::Roots;
use weir_store::Start;

/// More events than this in one tick are logged as one line.
const EVENTS_LOGGED_MAX: usize = 10;

/// Niceness of the loop while it limits: the kernel's lowest.
const LOOP_NICE: i32 = -20;

/// How the loop came to its end.
enum End {
    /// A signal, or the end of `--duration`.
    Requested,
    /// The reader of the JSON lines has left.
    ReaderLeft,
}

/// Runs until something ends it.
///
/// # Errors
/// Settings make no sense, the platform cannot be opened or broke, limits could not be restored.
pub fn run(args: &RunArgs, roots: &Roots) -> Result<Exit> {
    let mut settings = Settings::new(&args.how)?;
    settings.record = args.record.clone().or(settings.record);
    go(settings, Purpose::Run, roots)
}

/// What it is run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To measure or to limit: a recording that cannot be written is no reason to stop.
    Run,
    /// To record.
    Record,
}

/// Runs until something ends it.
///
/// # Errors
/// As [`run`]; and if it is run to record, the recording cannot be written.
pub fn go(mut settings: Settings, purpose: Purpose, roots: &Roots) -> Result<Exit> {
    let log = start_log(&settings.log)?;
    // Before the first limit: a signal that comes while the platform is opened must not kill us
    // with a limit already in place.
    let stop = watch_signals()?;
    let mut platform = open_platform::open_to_run(roots, &settings)?;
    if settings.probe {
        platform = Box::new(Probed::start(platform, roots)?);
    }
    settings.resolve(platform.describe(), &roots.state)?;
    check_limits_are_possible(&settings, platform.describe())?;
    announce(&settings, platform.describe(), roots);
    let sinks = sinks(&settings, purpose, platform.describe(), roots)?;
    let policy = open_platform::policy_name(settings.config.policy);
    let config = settings.config.clone();
    let is_limiting = config.limit;
    if is_limiting {
        go_first();
    }
    let mut ticks = Loop::new(platform, config, &policy, settings.interval, sinks);
    let until = settings
        .duration
        .and_then(|span| Instant::now().checked_add(span));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let knees = KneeWatch::new(&settings, roots, ticks.machine());
        run_until(&mut ticks, &stop, until, is_limiting, knees)
    }));
    let left = say_released(&ticks.release());
    let handed_over = ticks.sinks().finish();
    log.flush();
    finish(ended.unwrap_or_else(|_| Err(our_fault())), left)?;
    handed_over?;
    Ok(Exit::Done)
}

/// On an overloaded machine the loop must not wait for a CPU behind the workloads that it limits. This is for
/// the loop, which is short, and the discovery behind it (`weir-linux`, discovery_thread.rs). Other threads
/// stay ordinary, as does a weir that only observes.
fn go_first() {
    if let Err(error) = rustix::process::setpriority_process(None, LOOP_NICE) {
        debug!("the loop keeps its niceness: {error}");
    }
}

fn our_fault() -> anyhow::Error {
    anyhow!("weir stopped on a fault of its own, named above: please report it")
}

fn finish(ended: Result<End>, left: usize) -> Result<()> {
    let ended = ended?;
    if left > 0 {
        bail!("{left} limits could not be restored: run `weir reset`");
    }
    if let End::ReaderLeft = ended {
        debug!("the reader of the JSON lines has left");
    }
    Ok(())
}

fn exporter(address: SocketAddr) -> Result<Exporter> {
    let exporter = Exporter::start(address)?;
    let address = exporter.address();
    info!("metrics are at http://{address}/metrics");
    if !address.ip().is_loopback() {
        warn!(
            "{address} can be reached from other machines: they can read the names of cgroups here"
        );
    }
    Ok(exporter)
}

/// Begins the recording, if one is wanted.
fn recorder(
    settings: &Settings,
    purpose: Purpose,
    machine: &Description,
) -> Result<Option<RecorderThread>> {
    let Some(path) = &settings.record else {
        return Ok(None);
    };
    let start = Start {
        started_unix_ms: publish::wall_unix_ms(),
        writer_version: env!("CARGO_PKG_VERSION").to_owned(),
        writer_pid: std::process::id(),
        interval_ms: u64::try_from(settings.interval.as_millis()).unwrap_or(u64::MAX),
        policy: open_platform::policy_name(settings.config.policy),
        config: settings.config.clone(),
        description: machine.clone(),
    };
    RecorderThread::start(path, &start, purpose == Purpose::Record).map(Some)
}

fn run_until(
    ticks: &mut Loop,
    stop: &AtomicUsize,
    until: Option<Instant>,
    is_limiting: bool,
    mut knees: KneeWatch<'_>,
) -> Result<End> {
    let mut watch = Watch::default();
    loop {
        match stop.load(Ordering::Relaxed) {
            0 => {}
            signal => {
                let name = signal_name(signal);
                match is_limiting {
                    true => info!("{name}: limits are restored"),
                    false => info!("{name}: weir ends, and had set no limits"),
                }
                return Ok(End::Requested);
            }
        }
        if until.is_some_and(|end| Instant::now() >= end) {
            info!("the end of --duration");
            return Ok(End::Requested);
        }
        match ticks.sinks().trouble() {
            None => {}
            Some(SinkTrouble::ReaderLeft) => return Ok(End::ReaderLeft),
            Some(SinkTrouble::Fatal(error)) => return Err(error),
            Some(SinkTrouble::Lossy(error)) => {
                warn!("{}; the loop goes on", text::harmless(&error));
            }
        }
        let ticked = match ticks.tick() {
            Ok(ticked) => ticked,
            Err(PlatformError::End) => return Ok(End::Requested),
            Err(error) => return Err(error).context("weir stopped and gave its limits back"),
        };
        log_events(&ticked.events);
        watch.check(ticked.lost, ticks.machine());
        knees.check(ticks.machine());
    }
}

fn watch_signals() -> Result<Arc<AtomicUsize>> {
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).unwrap_or(usize::MAX);
        signal_hook::flag::register_usize(signal, Arc::clone(&stop), number)
            .with_context(|| format!("cannot watch for {}", signal_name(number)))?;
    }
    Ok(stop)
}

fn signal_name(signal: usize) -> &'static str {
    match i32::try_from(signal) {
        Ok(SIGINT) => "SIGINT",
        Ok(SIGTERM) => "SIGTERM",
        Ok(SIGHUP) => "SIGHUP",
        _ => "a signal",
    }
}

/// Log lines leave through a thread of their own, for the same reason as JSON lines do.
fn start_log(filter: &str) -> Result<Outlet> {
    let filter: Targets = filter.parse().map_err(|error| {
        anyhow!("log is {filter:?}: {error}; allowed are error, warn, info, debug, trace, or a filter such as weir_linux=debug")
    })?;
    let outlet = Outlet::start("weir-log", io::stderr()).context("cannot start the log")?;
    let writer = outlet.clone();
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || writer.clone());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .try_init()
        .map_err(|error| anyhow!("cannot start the log: {error}"))?;
    Ok(outlet)
}

/// Every sink of the settings.
fn sinks(
    settings: &Settings,
    purpose: Purpose,
    machine: &Description,
    roots: &Roots,
) -> Result<Sinks> {
    let mut sinks = Sinks::default();
    if let Some(recorder) = recorder(settings, purpose, machine)? {
        sinks.add(recorder);
    }
    if let Some(address) = settings.metrics {
        sinks.add(exporter(address)?);
    }
    if let Some(pusher) = push::begin(settings)? {
        sinks.add(pusher);
    }
    if settings.json {
        let lines = Outlet::start("weir-json", io::stdout()).context("cannot start the output")?;
        sinks.add(JsonLines(lines));
    }
    add_screens(&mut sinks, roots);
    Ok(sinks)
}

/// What `weir top` and `weir explain` read.
fn add_screens(sinks: &mut Sinks, roots: &Roots) {
    let unseen = |why: String| {
        let dir = text::harmless(&roots.run.to_string_lossy());
        warn!("{dir}: {why}; `weir top` and `weir explain` will not see this weir");
    };
    // One that only observes may run beside one that limits, and must not speak in its place.
    let other = publish::read(&roots.run.join(publish::FILE_NAME)).ok();
    if let Some(other) = other.filter(|other| publish::is_live(other, publish::wall_unix_ms())) {
        return unseen(format!("weir {} publishes there", other.writer_pid));
    }
    match make_run_dir(&roots.run).and_then(|()| ChangeLog::open(&roots.run)) {
        Ok(log) => {
            sinks.add(log);
            sinks.add(Publisher::new(&roots.run));
        }
        Err(error) => unseen(error.to_string()),
    }
}

/// Fails at once with `--limit` where no limit is possible: an operator would take a weir that runs and does
/// nothing for a working one.
fn check_limits_are_possible(settings: &Settings, machine: &Description) -> Result<()> {
    if !settings.config.limit {
        return Ok(());
    }
    // Traffic of a workload that is not seen would be attributed to others, and it would not be limited.
    let unseen = machine.facts.iter().find_map(|fact| {
        let is_sight = [weir_linux::NAMESPACE, weir_linux::PIDS].contains(&fact.name.as_str());
        let why = fact.value.as_ref().err().filter(|_| is_sight)?;
        Some(format!(": {}", why.reason()))
    });
    if machine.actuator.is_none() || unseen.is_some() {
        bail!(
            "--limit is not possible on this machine{}; `weir doctor` says what is missing and what would work",
            unseen.unwrap_or_default()
        );
    }
    for (name, what) in [
        ("cxl.counters", "without access counters"),
        (devices::NODES, "where counters belong to no node"),
    ] {
        let counters = machine.facts.iter().find(|fact| fact.name == name);
        if let Some((fact, Err(why))) = counters.map(|fact| (fact, &fact.value)) {
            let next_move = fact.next_move.as_deref().unwrap_or("see `weir doctor`");
            bail!("--limit is not possible {what} ({why}): {next_move}");
        }
    }
    Ok(())
}

/// Logs what became of the limits, and counts those that are still there.
fn say_released(outcomes: &[Outcome]) -> usize {
    let mut left = 0;
    for outcome in outcomes {
        if let OutcomeKind::Failed(why) | OutcomeKind::Refused(why) = &outcome.result {
            left += 1;
            let name = text::harmless(outcome.workload.as_str());
            warn!(
                "{name}: its limit could not be restored: {}",
                text::harmless(why)
            );
        }
    }
    if outcomes.len() > left {
        info!("{} limits restored", outcomes.len() - left);
    }
    left
}

fn log_events(events: &[MachineChange]) {
    let weighty = |event: &&MachineChange| event.what != ChangeKind::Adjusted;
    if events.iter().filter(weighty).count() > EVENTS_LOGGED_MAX {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for event in events {
            *counts.entry(event.what.word()).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{n} {what}"))
            .collect();
        info!("workloads: {}", counts.join(", "));
        return;
    }
    for event in events {
        let sentence = event.sentence();
        match event.what {
            ChangeKind::Refused | ChangeKind::Failed => warn!("{sentence}"),
            ChangeKind::Adjusted => debug!("{sentence}"),
            ChangeKind::Limited | ChangeKind::Released | ChangeKind::Vanished => {
                info!("{sentence}")
            }
        }
    }
}

/// Notices when a device's figures are lost and when they come back.
#[derive(Default)]
struct Watch {
    lost: BTreeMap<DeviceId, String>,
}

impl Watch {
    fn check(&mut self, lost: BTreeMap<DeviceId, String>, machine: &Description) {
        for (device, why) in &lost {
            if self.lost.get(device) != Some(why) {
                warn!(
                    "{device}: its counters cannot be read: {}",
                    text::harmless(why)
                );
            }
        }
        let is_there = |device: &&DeviceId| machine.devices.iter().any(|d| d.id == **device);
        let found = self.lost.keys().filter(|device| !lost.contains_key(device));
        for device in found.filter(is_there) {
            info!("{device}: its counters are read again");
        }
        self.lost = lost;
    }
}

/// Notices devices that come while the set-point is a part of a knee: that knee is of the earlier devices.
struct KneeWatch<'a> {
    settings: &'a Settings,
    roots: &'a Roots,
    devices: Vec<Device>,
}

impl<'a> KneeWatch<'a> {
    fn new(settings: &'a Settings, roots: &'a Roots, machine: &Description) -> KneeWatch<'a> {
        KneeWatch {
            settings,
            roots,
            devices: machine.devices.clone(),
        }
    }

    fn check(&mut self, machine: &Description) {
        if self.devices == machine.devices {
            return;
        }
        self.devices.clone_from(&machine.devices);
        if !matches!(self.settings.set_point, Some(SetPoint::OfKnee(_)))
            || machine.devices.is_empty()
        {
            return;
        }
        let anew = self.settings.clone().resolve(machine, &self.roots.state);
        if let (Err(error), Some(rate)) = (anew, self.settings.config.set_point_bytes_per_sec) {
            let error = format!("{error:#}");
            warn!(
                "devices have changed, and each is held at {rate} as before: {}; then restart weir",
                text::harmless(&error)
            );
        }
    }
}

/// The directory of run-time files, made if it is not there.
pub fn make_run_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}
