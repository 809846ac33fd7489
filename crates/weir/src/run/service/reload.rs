// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that are read again while weir runs.
//!
//! The controller's settings, the exclude list and the filter of the log count from the next tick on; limits
//! and what was learned of workloads stay. The rest decides what is opened at the start: it is named, and
//! stays as it was. A file that makes no sense changes nothing.

use super::log::Log;
use super::opening::check_limits_are_possible;
use crate::cli::LoopArgs;
use crate::cli::settings::Settings;
use crate::output::text;
use crate::run::open_platform::policy_name;
use crate::run::service::announce::unfit;
use crate::run::tick::Loop;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::{info, warn};
use weir_core::Config;
use weir_linux::Roots;

/// Where the settings of a run come from.
pub struct SettingsSource<'a> {
    /// The flags, and the file that they name.
    pub args: &'a LoopArgs,
    /// Between two ticks, unless flags or file say otherwise.
    pub interval: Duration,
    /// What every tick is recorded in, unless the file says otherwise.
    pub record: Option<PathBuf>,
}

impl SettingsSource<'_> {
    /// Reads them.
    ///
    /// # Errors
    /// The file cannot be read or understood, or a value is out of range.
    pub fn read(&self) -> Result<Settings> {
        let mut settings = Settings::with_interval(self.args, self.interval)?;
        settings.record = self.record.clone().or(settings.record);
        Ok(settings)
    }

    /// Reads them once more.
    ///
    /// # Errors
    /// As [`SettingsSource::read`]; or there is no file, or none that can be read twice.
    pub fn read_again(&self) -> Result<Settings> {
        let Some(path) = self.file() else {
            bail!("weir was started without a settings file (--config), so there is none to read");
        };
        // A pipe would make the loop wait.
        let file = std::fs::metadata(path);
        let file =
            file.with_context(|| format!("cannot read the settings file {}", self.name()))?;
        if !file.is_file() {
            bail!("{} is not a regular file, and is read once", self.name());
        }
        self.read()
    }

    fn file(&self) -> Option<&Path> {
        self.args.config.as_deref()
    }

    /// The file, for messages.
    pub fn name(&self) -> String {
        let path = self.file().map(Path::to_string_lossy);
        text::harmless(&path.unwrap_or_default())
    }
}

/// Reads settings again, and has them count.
pub struct Reload<'a> {
    /// Where they come from.
    pub source: &'a SettingsSource<'a>,
    /// Where things are.
    pub roots: &'a Roots,
    /// Takes another filter.
    pub log: &'a Log,
    /// Whether weir was started to limit: else it has no right to.
    pub may_limit: bool,
    /// How many were tried.
    pub count: u64,
}

/// What became of new settings.
struct Compared {
    settings: Settings,
    changed: Vec<&'static str>,
    need_restart: Vec<&'static str>,
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
        let mut need_restart = keep(old, &mut new);
        if new.config.limit && !self.may_limit {
            new.config.limit = false;
            need_restart.push("limit");
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

/// What decides what is opened stays as it was. Gives the names of such settings that are others now.
fn keep(old: &Settings, new: &mut Settings) -> Vec<&'static str> {
    let mut others = Vec::new();
    macro_rules! keep {
        ($($name:literal $field:ident),* $(,)?) => {
            $(if new.$field != old.$field {
                others.push($name);
                new.$field = old.$field.clone();
            })*
        };
    }
    keep!(
        "capacity" capacity,
        "device" devices,
        "workloads" workloads,
        "backend" backend,
        "counters" counters,
        "attribution" attribution,
        "attribution-event" attribution_event,
        "probe" probe,
        "interval" interval,
        "period" period,
        "trust-cpu-max" trust_cpu_max,
        "limit-domains" limit_domains,
        "duration" duration,
        "json" json,
        "record" record,
        "metrics" metrics,
        "page" page,
        "page-token-file" page_token_file,
        "push" push,
        "push-format" push_format,
        "push-interval" push_interval,
        "push-ca-file" push_ca_file,
        "push-token-file" push_token_file,
        "log-format" log_format,
        "wait-for-devices" wait_for_devices,
    );
    others
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
