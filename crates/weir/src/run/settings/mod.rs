// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What flags and file mean together. Flags win over the file, the file over the defaults.
//!
//! Nothing wrong is passed over: an unknown key, a value out of range or a set-point that cannot be
//! worked out is an error that names file, line and key and says what is allowed. A controller that
//! runs as root must not guess what its operator meant.

pub mod args;
mod layers;
mod places;

use crate::cli::device_profile::common_knee;
use crate::cli::quantities::{LimitedWeight, SetPoint, Span};
use crate::cli::{AttributionName, PolicyName};
use crate::run::page::unguarded;
use crate::run::push::PushFormat;
use crate::run::service::log::targets;
use crate::run::settings::args::LoopArgs;
pub use crate::run::settings::args::Settings;
use anyhow::{Context, Result, bail};
use places::{Unfit, Wrong, fitting, left_out, line_at, line_of, place, place_of_bad_key};
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use toml::de::DeTable;
use weir_core::units::off_beat;
use weir_core::{BytesPerSec, Config, Description, Nanos};
use weir_figures::text;

/// Time between two ticks of `weir run`.
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
        Settings::read(args, interval).map_err(fitting)
    }

    fn read(args: &LoopArgs, interval: Duration) -> Result<Self> {
        let (file, text) = match &args.config {
            Some(path) => read_file(path)?,
            None => (LoopArgs::default(), String::new()),
        };
        let mut given = args.clone().over(file);
        given.interval.get_or_insert(Span(interval));
        let config = controller(&given, &text)?;
        let settings = given.meant(config, set_point_place(args, &text));
        if let Err(unfit) = settings.check() {
            let limit = args.limit.unwrap_or(false);
            let config = Config {
                limit,
                ..Config::default()
            };
            let by_flags = args.clone().meant(config, None);
            let is_of_flags = by_flags.check().is_err_and(|other| other.key == unfit.key);
            let path = args.config.as_deref().filter(|_| !is_of_flags);
            return Err(unfit.placed(path, &text));
        }
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
        if self.metrics.is_none() && self.metrics_token_file.is_some() {
            let why = "--metrics-token-file is for the metrics: offer them with --metrics";
            return Err(Unfit::new("metrics-token-file", why));
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
                Some(common_knee(state, machine, &self.device)?.scale(ratio))
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
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(Unfit::new(
            key,
            format!("{key} is {value:?}: allowed are {least:?} to {most:?}"),
        ))
    }
}

fn read_file(path: &Path) -> Result<(LoopArgs, String)> {
    let shown = text::harmless(&path.to_string_lossy());
    let open = || -> std::io::Result<String> {
        let mut text = String::new();
        weir_files::open_regular(path)?
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

fn parse(text: &str) -> Result<LoopArgs, Wrong> {
    let table = DeTable::parse(text)?;
    if let Some(wrong) = left_out(table.get_ref()) {
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
fn controller(given: &LoopArgs, text: &str) -> Result<Config> {
    let policy = given.policy.unwrap_or(PolicyName::MaxMin);
    let mut config = Config {
        policy: policy.policy(),
        limit: given.limit.unwrap_or(false),
        set_point_bytes_per_sec: None,
        ..given.controller.clone().unwrap_or_default()
    };
    if let Some(LimitedWeight(ratio)) = given.limited_weight {
        config.limited_weight_ratio = ratio;
    }
    let rest = Config {
        limit: false,
        ..config.clone()
    };
    if let Err(error) = rest.validate() {
        let file = given.config.as_deref();
        bail!(place_of_bad_key(file, text, &error.to_string()));
    }
    Ok(config)
}

fn usual_period() -> Duration {
    Duration::from_nanos(off_beat(Nanos::from_millis(20)).0)
}

#[cfg(test)]
mod tests;
