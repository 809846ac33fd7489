// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens the platform for a run. Where the operator chose that, it waits for devices that are not there yet.

use super::log::Log;
use super::manager::ServiceManager;
use super::reload::SettingsSource;
use super::signals::Signals;
use crate::cli::devices;
use crate::cli::failure::{Failed, Unavailable};
use crate::run::platform;
use crate::run::probe::Probed;
use crate::run::settings::Settings;
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{info, warn};
use weir_core::{Description, Platform};
use weir_figures::text;
use weir_linux::Roots;

/// Time between two looks for devices, and (the next one) between two looks for signals meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

pub struct Opened {
    pub platform: Box<dyn Platform>,
    /// The settings, with the set-point as it is on this machine.
    pub settings: Settings,
}

/// What opening has around it.
pub struct Opening<'a> {
    /// Where settings are read again meanwhile.
    pub source: &'a SettingsSource<'a>,
    pub roots: &'a Roots,
    pub signals: &'a Signals,
    /// Hears that it waits.
    pub manager: &'a mut ServiceManager,
    pub log: &'a Log,
    /// The end of `--duration`.
    pub until: Option<Instant>,
}

impl Opening<'_> {
    /// Opens. Nothing if weir was ended while it waited.
    ///
    /// # Errors
    /// What is missing will not come, or the operator did not choose to wait for it.
    pub fn open(mut self, mut settings: Settings) -> Result<Option<Opened>> {
        let mut said = String::new();
        loop {
            let error = match try_open(&settings, self.roots) {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) => error,
            };
            if !settings.wait_for_devices || !may_come(&error) {
                return Err(error);
            }
            let why = text::harmless(&format!("{error:#}"));
            if said != why {
                info!("waits for devices: {why}");
                said = why;
            }
            self.manager.ready("waits for devices");
            if !self.pause(&mut settings) {
                return Ok(None);
            }
        }
    }

    /// False if weir is to end.
    fn pause(&mut self, settings: &mut Settings) -> bool {
        let next = Instant::now() + LOOK_EVERY;
        while Instant::now() < next {
            if let Some(signal) = self.signals.stop() {
                info!("{signal}: weir ends, and had set no limits");
                return false;
            }
            if self.until.is_some_and(|end| Instant::now() >= end) {
                info!("the end of --duration");
                return false;
            }
            if self.signals.take_hang_up() {
                self.reload(settings);
            }
            self.manager.turned(|| "waits for devices".into());
            thread::sleep(PAUSE);
        }
        true
    }

    /// Nothing is opened yet, so all settings count, but for the format of the log.
    fn reload(&mut self, settings: &mut Settings) {
        self.manager.reloading();
        match self.source.read_again() {
            Ok(read) => {
                self.log.follow(&read.log);
                *settings = read;
                info!("SIGHUP: {} was read again", self.source.name());
            }
            Err(error) => {
                let why = text::harmless(&format!("{error:#}"));
                warn!("SIGHUP: refused, the settings stay as they are: {why}");
            }
        }
        self.manager.reloaded("waits for devices");
    }
}

fn may_come(error: &anyhow::Error) -> bool {
    let mut links = error.chain().filter_map(|link| link.downcast_ref());
    links.any(Unavailable::may_come)
}

fn try_open(settings: &Settings, roots: &Roots) -> Result<Opened> {
    let mut settings = settings.clone();
    let mut platform = platform::open_to_run(roots, &settings)?;
    if settings.probe {
        platform = Box::new(Probed::start(platform, roots)?);
    }
    let resolved = settings.resolve(platform.describe(), &roots.state);
    resolved.map_err(|error| Failed::of_settings(error, settings.log_format))?;
    check_limits_are_possible(&settings, platform.describe())?;
    Ok(Opened { platform, settings })
}

/// Fails at once with `--limit` where no limit is possible: an operator would take a weir process that runs
/// and does nothing for a working one.
///
/// # Errors
/// What is in the way, and what to do.
pub fn check_limits_are_possible(
    settings: &Settings,
    machine: &Description,
) -> Result<(), Unavailable> {
    if !settings.config.limit {
        return Ok(());
    }
    // Traffic of a workload that is not seen would be attributed to others, and it would not be limited.
    let sight = [weir_linux::NAMESPACE, weir_linux::PIDS];
    let limiting: &[&str] = match machine.actuator {
        Some(_) => &[],
        None => &weir_linux::LIMITING,
    };
    let lacking = sight.iter().chain(limiting).find_map(|name| {
        let fact = machine.facts.iter().find(|fact| fact.name == **name)?;
        let next_move = fact.next_move.as_ref().map(|next| format!(" ({next})"));
        let why = fact.value.as_ref().err()?.reason();
        Some(format!(": {why}{}", next_move.unwrap_or_default()))
    });
    if machine.actuator.is_none() || lacking.is_some() {
        return Err(Unavailable::Limits(format!(
            "--limit is not possible on this machine{}; `weir doctor` says what is missing",
            lacking.unwrap_or_default()
        )));
    }
    if machine.is_nothing_held() {
        let nodes = machine.partly_counted.iter();
        let nodes: Vec<String> = nodes.map(|of| format!("{}: {of}", of.node)).collect();
        return Err(Unavailable::Counters(format!(
            "--limit is not possible where only a part of the traffic is counted: {}",
            nodes.join("; ")
        )));
    }
    for (name, what) in [
        ("cxl.counters", "without access counters"),
        (devices::NODES, "where counters belong to no node"),
    ] {
        let counters = machine.facts.iter().find(|fact| fact.name == name);
        if let Some((fact, Err(why))) = counters.map(|fact| (fact, &fact.value)) {
            let next_move = fact.next_move.as_ref().map(ToString::to_string);
            return Err(Unavailable::Counters(format!(
                "--limit is not possible {what} ({why}): {}",
                next_move.unwrap_or_else(|| "see `weir doctor`".into())
            )));
        }
    }
    Ok(())
}
