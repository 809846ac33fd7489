// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that are read again while weir runs.
//!
//! The controller's settings, the exclude list and the filter of the log count from the next tick on; limits
//! and what was learned of workloads stay. The rest decides what is opened at the start: it is named, and
//! stays as it was. A file that makes no sense changes nothing.

use super::log::Log;
use super::opening::check_limits_are_possible;
use crate::run::platform::policy_name;
use crate::run::service::announce::unfit;
use crate::run::settings::Settings;
use crate::run::settings::args::LoopArgs;
use crate::run::tick::Loop;
use anyhow::{Result, bail};
use std::path::Path;
use std::time::Duration;
use tracing::{info, warn};
use weir_core::Config;
use weir_figures::text;
use weir_linux::Roots;

/// Where the settings of a run come from.
pub struct SettingsSource<'a> {
    /// The flags, and the file that they name.
    pub args: &'a LoopArgs,
    /// Time between two ticks, unless flags or file say otherwise.
    pub interval: Duration,
}

impl SettingsSource<'_> {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read or understood, or a value is out of range.
    pub fn read(&self) -> Result<Settings> {
        Settings::with_interval(self.args, self.interval)
    }

    /// Reads them once more.
    ///
    /// # Errors
    /// As [`SettingsSource::read`]; or there is no file.
    pub fn read_again(&self) -> Result<Settings> {
        if self.file().is_none() {
            bail!("weir was started without a settings file (--config), so there is none to read");
        }
        self.read()
    }

    fn file(&self) -> Option<&Path> {
        self.args.config.as_deref()
    }

    pub fn name(&self) -> String {
        let path = self.file().map(Path::to_string_lossy);
        text::harmless(&path.unwrap_or_default())
    }
}

/// Reads settings again, and has them count.
pub struct Reload<'a> {
    /// Where they come from.
    pub source: &'a SettingsSource<'a>,
    pub roots: &'a Roots,
    pub log: &'a Log,
    /// Whether weir was started to limit: else it has no right to.
    pub may_limit: bool,
    /// How many were tried.
    pub count: u64,
}

struct Compared {
    settings: Settings,
    changed: Vec<&'static str>,
    need_restart: Vec<String>,
}

impl Reload<'_> {
    /// Does it. Gives a sentence on what became of it.
    pub fn reload(&mut self, settings: &mut Settings, ticks: &mut Loop) -> String {
        self.count += 1;
        let count = self.count;
        let compared = match self.compare(settings, ticks) {
            Ok(compared) => compared,
            Err(error) => {
                let why = text::harmless(&format!("{error:#}"));
                warn!("SIGHUP: refused, the settings stay as they are: {why}");
                return format!("reload {count} refused: {why}");
            }
        };
        let new = compared.settings;
        let policy = policy_name(new.config.policy);
        let names = |of: &Settings| (of.exclude.clone(), of.config.weights.clone());
        let exclude = (names(settings) != names(&new)).then_some(new.exclude.as_slice());
        ticks.follow_settings(new.config.clone(), &policy, exclude);
        self.log.follow(&new.log);
        *settings = new;
        if let Some(why) = unfit(&settings.config, settings.backend) {
            warn!("SIGHUP: {why}");
        }
        let what = match &compared.changed[..] {
            [] => "nothing that counts at once has changed".to_owned(),
            changed => format!("{} changed", changed.join(", ")),
        };
        let name = self.source.name();
        info!("SIGHUP: {name} was read again: {what}");
        if !compared.need_restart.is_empty() {
            let keys = compared.need_restart.join(", ");
            warn!("SIGHUP: needs a restart, and stays as it is: {keys}");
        }
        format!("reload {count} done: {what}")
    }

    fn compare(&self, old: &Settings, ticks: &Loop) -> Result<Compared> {
        let mut new = self.source.read_again()?;
        let mut need_restart = new.keep(old);
        if new.config.limit && !self.may_limit {
            new.config.limit = false;
            need_restart.push("limit".to_owned());
        }
        new.resolve(ticks.machine(), &self.roots.state)?;
        if new.config.limit && !old.config.limit {
            check_limits_are_possible(&new, ticks.machine())?;
        }
        let changed = changed(old, &new);
        Ok(Compared {
            settings: new,
            changed,
            need_restart,
        })
    }
}

/// Names of the settings that count at once and are others now.
fn changed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let (before, now) = (&old.config, &new.config);
    let held = |config: &Config| (config.set_point_bytes_per_sec, config.goal);
    let others = [
        ("limit", before.limit != now.limit),
        ("set-point", held(before) != held(now)),
        ("policy", before.policy != now.policy),
        (
            "limited-weight",
            before.limited_weight_ratio != now.limited_weight_ratio,
        ),
        ("exclude", old.exclude != new.exclude),
        ("controller", gains(before) != gains(now)),
        ("log", old.log != new.log),
    ];
    let is_other = others.into_iter().filter(|(_, is_other)| *is_other);
    is_other.map(|(name, _)| name).collect()
}

/// The keys of `[controller]`.
fn gains(config: &Config) -> Config {
    let usual = Config::default();
    Config {
        limit: usual.limit,
        set_point_bytes_per_sec: usual.set_point_bytes_per_sec,
        goal: usual.goal,
        policy: usual.policy,
        limited_weight_ratio: usual.limited_weight_ratio,
        ..config.clone()
    }
}

#[cfg(test)]
#[path = "reload_tests.rs"]
mod tests;
