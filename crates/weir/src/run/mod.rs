// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weir run`: the daemon. Reading order: [`tick`] (the loop, one iteration, what is said once, what weir
//! itself uses), [`sink`] (the ways out), [`lossy`] (how lines leave), [`screens`] (what screens get),
//! [`metrics`] (for Prometheus), [`page`] (for browsers), `http` (what both are served by), [`push`] (for
//! other servers), [`serve`] (the process that has these three), [`service`] (signals, settings read again,
//! the service manager, the log).
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

pub mod lossy;
pub mod metrics;
pub mod page;
pub mod platform;
pub mod probe;
pub mod push;
pub mod screens;
pub mod serve;
pub mod service;
pub mod settings;
pub mod sink;
pub mod tick;

use crate::cli::exit::Exit;
use crate::cli::failure::Failed;
use crate::cli::output::wall_clock::wall_unix_ms;
use anyhow::{Context, Result, anyhow, bail};
use lossy::json_lines::{JsonLines, Outlet};
use screens::changes::ChangeLog;
use screens::publish::{self, Publisher};
use service::announce::announce;
use service::liveness;
use service::log::Log;
use service::manager::ServiceManager;
use service::opening::{Opened, Opening};
use service::reload::{Reload, SettingsSource};
use service::signals::Signals;
use settings::args::{LoopArgs, RunArgs};
use settings::{INTERVAL, Settings};
use sink::Sinks;
use sink::recorder_thread::RecorderThread;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use tick::Loop;
use tick::turning::{End, Turning};
use tick::watches::{HoldWatch, KneeWatch, NameWatch, Watch};
use tracing::{debug, info, warn};
use weir_core::Description;
use weir_core::seam::plan::{Outcome, OutcomeKind};
use weir_figures::text;
use weir_linux::Roots;
use weir_store::Start;

/// Niceness of the loop while it limits: the kernel's lowest.
const LOOP_NICE: i32 = -20;

/// Runs until something ends it.
///
/// # Errors
/// Settings make no sense, the platform cannot be opened or broke, limits could not be restored.
pub fn run(args: &RunArgs, roots: &Roots) -> Result<Exit> {
    let how = LoopArgs {
        record: args.record.clone(),
        ..args.how.clone()
    };
    let source = SettingsSource {
        args: &how,
        interval: INTERVAL,
    };
    go(&source, Purpose::Run, roots)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The run measures or limits: a recording that cannot be written is no reason to stop it.
    Run,
    /// The run is for the recording, and ends where that cannot be written.
    Record,
}

/// Runs until something ends it.
///
/// # Errors
/// As [`run`]; and if it is run to record, the recording cannot be written. Each has its exit code.
pub fn go(source: &SettingsSource<'_>, purpose: Purpose, roots: &Roots) -> Result<Exit> {
    let format = source.args.log_format.unwrap_or_default();
    let settings = source
        .read()
        .map_err(|error| Failed::of_settings(error, format))?;
    let format = settings.log_format;
    let done = serve(settings, source, purpose, roots);
    done.map_err(|error| Failed::new(error, format).into())
}

fn serve(
    settings: Settings,
    source: &SettingsSource<'_>,
    purpose: Purpose,
    roots: &Roots,
) -> Result<Exit> {
    let log = start_log(&settings)?;
    // This is done before the first limit: a signal that comes while the platform is opened must not kill us
    // with a limit already in place.
    let signals = Signals::watch()?;
    let mut manager = ServiceManager::of_environment();
    // Also a weir process that waits for devices is alive.
    let _health = liveness::listen(&roots.run, manager.last_step(), settings.interval);
    let opening = Opening {
        source,
        roots,
        signals: &signals,
        manager: &mut manager,
        log: &log,
        until: from_now(settings.duration),
    };
    let Some(Opened { platform, settings }) = opening.open(settings)? else {
        manager.stopping();
        log.flush();
        return Ok(Exit::Done);
    };
    announce(&settings, platform.describe(), roots);
    manager.check_interval(settings.interval);
    // Opening can take as long as a short duration.
    let until = from_now(settings.duration);
    let sinks = sinks(&settings, purpose, platform.describe(), roots)?;
    confine(&settings);
    let policy = platform::policy_name(settings.config.policy);
    let config = settings.config.clone();
    let may_limit = config.limit;
    if may_limit {
        go_first();
    }
    let mut ticks = Loop::new(platform, config, &policy, settings.interval, sinks);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let turning = Turning {
            knees: KneeWatch::new(ticks.machine()),
            held: HoldWatch::default(),
            names: NameWatch::default(),
            devices: Watch::default(),
            settings,
            roots,
            signals: &signals,
            manager: &mut manager,
            until,
            reload: Reload {
                source,
                roots,
                log: &log,
                may_limit,
                count: 0,
            },
        };
        turning.until_the_end(&mut ticks)
    }));
    manager.stopping();
    let left = say_released(&ticks.release());
    let handed_over = ticks.sinks().finish();
    log.flush();
    finish(ended.unwrap_or_else(|_| Err(our_fault())), left)?;
    handed_over?;
    Ok(Exit::Done)
}

/// Starts the log before there is another thread, because rights belong to each thread by itself.
fn start_log(settings: &Settings) -> Result<Log> {
    let dropped = weir_linux::drop_writers_capabilities();
    let log = Log::start(&settings.log, settings.log_format)?;
    if let Err(why) = dropped {
        warn!("{why}");
    }
    Ok(log)
}

/// What is opened once is open now.
fn confine(settings: &Settings) {
    if let Err(why) = weir_linux::confine_writer(settings.push.is_some()) {
        warn!("{why}; weir goes on without");
    }
}

/// Raises this thread's priority: on an overloaded machine the loop must not wait for a CPU behind the
/// workloads that it limits. This is for the loop, which is short, and the discovery behind it (`weir-linux`,
/// discovery_thread.rs). Other threads stay ordinary, as does a weir process that only observes.
fn go_first() {
    if let Err(error) = rustix::process::setpriority_process(None, LOOP_NICE) {
        debug!("the loop keeps its niceness: {error}");
    }
}

fn from_now(span: Option<Duration>) -> Option<Instant> {
    span.and_then(|span| Instant::now().checked_add(span))
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
        started_unix_ms: wall_unix_ms(),
        writer_version: env!("CARGO_PKG_VERSION").to_owned(),
        writer_pid: std::process::id(),
        interval_ms: u64::try_from(settings.interval.as_millis()).unwrap_or(u64::MAX),
        policy: platform::policy_name(settings.config.policy),
        config: settings.config.clone(),
        description: machine.clone(),
    };
    RecorderThread::start(path, &start, purpose == Purpose::Record).map(Some)
}

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
    if settings.json {
        let lines = Outlet::start("weir-json", io::stdout()).context("cannot start the output")?;
        sinks.add(JsonLines(lines));
    }
    add_screens(&mut sinks, roots);
    serve::begin(settings, roots, &mut sinks)?;
    Ok(sinks)
}

/// What `weir top` and `weir explain` read.
fn add_screens(sinks: &mut Sinks, roots: &Roots) {
    let unseen = |why: String| {
        let dir = text::harmless(&roots.run.to_string_lossy());
        warn!("{dir}: {why}; `weir top` and `weir explain` will not see this weir");
    };
    // One that only observes may run beside one that limits, and must not speak in its place.
    let other = publish::head(&roots.run.join(publish::FILE_NAME));
    if let Some(other) = other.filter(|other| other.is_live(wall_unix_ms())) {
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

/// The directory of run-time files, made if it is not there.
pub fn make_run_dir(dir: &Path) -> io::Result<()> {
    weir_files::Folder::open_or_make_private(dir).map(drop)
}
