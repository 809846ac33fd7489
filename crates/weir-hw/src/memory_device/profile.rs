// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of memory devices: figures in a TOML file, each with where it comes from.
//!
//! A profile describes a device together with the host that reaches it, because that is what can be
//! measured: how many lines a core may have outstanding belongs to the host, when latency takes off
//! belongs to both. The equations that use the figures stand in [`crate::memory_device::closed_network`].

use crate::description::DescriptionError;
use crate::memory_device::queue_model::QueueTimes;
use serde::{Deserialize, Serialize};

/// Text of the profiles that are built in, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("asic-x16", include_str!("../../profiles/asic-x16.toml")),
    ("ddr5-2ch", include_str!("../../profiles/ddr5-2ch.toml")),
    (
        "agilex-thesis",
        include_str!("../../profiles/agilex-thesis.toml"),
    ),
    ("agilex-i", include_str!("../../profiles/agilex-i.toml")),
];

/// A device and its host, calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name, as in `--profile`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where the figures come from and which of them were fitted, assumed or measured.
    pub provenance: Vec<String>,
    /// The requesting cores.
    pub host: Host,
    /// The device that answers.
    pub device: DeviceFigures,
    /// How far single accesses lie from the mean.
    pub tail: Tail,
    /// By mix of reads and writes, with allocating stores, by rising `write_ratio`; then
    /// non-temporal stores.
    pub mix: Vec<MixFigures>,
}

/// The requesting cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Lines one core may have outstanding.
    pub window_lines: f64,
    /// Cores of the machine it was measured on; more threads than this share cores in pairs.
    pub cores: u32,
    /// How much longer a core needs for its own work with two threads on it than with one.
    pub smt_pace: f64,
    /// How far a core's own work and its waiting add up: 0, the longer of the two counts; 1, their
    /// sum does.
    pub serial_share: f64,
}

/// The device that answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFigures {
    /// Latency of an access to the idle device, nanoseconds.
    pub idle_ns: f64,
    /// Capacity of the direction from the device, bytes per second. Left out: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_sec: Option<f64>,
    /// Capacity of the direction to the device, bytes per second. Left out: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_sec: Option<f64>,
    /// Lines the device's own queue holds; its occupancy is what DevLoad reports.
    pub queue_lines: f64,
    /// Offered load, in lines the cores would have out, at which overload begins to cost bandwidth.
    pub overload_from_lines: f64,
    /// Offered load at which the whole loss of a mix is reached.
    pub overload_to_lines: f64,
    /// Cores meet each other's accesses and not their own, so that of N equal cores the rise of latency
    /// is 1 − 1/N of what many cause. Left out: the rise is the same for any number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rise_by_others: bool,
}

/// How far single accesses lie from the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// Standard deviation of the logarithm of a latency that is not stalled.
    pub spread: f64,
    /// Part of the accesses that meet a stall (refresh, retry, thermal pause), 0 to 1.
    pub stall_ratio: f64,
    /// Mean length of a stall, nanoseconds; lengths are exponential.
    pub stall_ns: f64,
}

/// Figures of one mix of reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixFigures {
    /// Part of the lines that are writes, 0 to 1.
    pub write_ratio: f64,
    /// Whether the writes are non-temporal stores, which read nothing first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub non_temporal: bool,
    /// Capacity of both directions together, bytes per second.
    pub media_bytes_per_sec: f64,
    /// Latency added by load before any queue forms, at full load, nanoseconds.
    pub rise_ns: f64,
    /// How it grows with utilisation: 0.5 is a square root, 1 a straight line.
    pub rise_exponent: f64,
    /// Work the device does in one go, nanoseconds: what a line may have to wait for.
    pub burst_ns: f64,
    /// Part of the bandwidth that overload costs, 0 to below 1.
    pub overload_loss_ratio: f64,
    /// Lines a core can be reading at once in this mix. What it writes back waits at the device and
    /// takes no place in its window. Left out: all lines take one, and there are `host.window_lines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_window_lines: Option<f64>,
    /// Lines that all cores together can have in flight, because they share the entries of a queue.
    /// Left out: no limit of its own. Of non-temporal stores it is the only limit: the core has
    /// posted them and waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_lines: Option<f64>,
    /// A store has its place in the window free again this much before a load would have its line, as
    /// the mean of the mix, nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub early_ns: f64,
    /// How much longer than others a load waits if its core has a loading thread beside it with all
    /// its lines out, as a part of the latency. Only a measurement's probe has such a neighbour.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub probe_wait_ratio: f64,
    /// A core's own time per line in the load generator of the measurement: pairs of (injected
    /// delay, nanoseconds), rising. Between them straight lines, above the last in proportion.
    pub loader_ns: Vec<[f64; 2]>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Profile {
    /// Names of the built-in profiles.
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Profile, DescriptionError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Self::parse(text, name),
            None => Err(DescriptionError::Unknown {
                kind: "profile",
                name: name.to_owned(),
                names: format!("{}, or the path of a TOML file", Self::names().join(", ")),
            }),
        }
    }

    /// Reads a profile from TOML. `origin` names the text in errors: a path, a name.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, DescriptionError> {
        let profile: Profile =
            toml::from_str(text).map_err(|error| DescriptionError::syntax(origin, &error))?;
        profile.check(origin)?;
        Ok(profile)
    }

    /// A device that is one queue (see [`super::QueueModel`]), as the testbed's device model has it, behind
    /// cores that may have `window_lines` outstanding: latency is constant but for the wait for other lines,
    /// both directions share the server, and a core's own work does not overlap with waiting.
    pub fn of_queue(queue: QueueTimes, window_lines: f64, cores: u32) -> Profile {
        let mix = |write_ratio| MixFigures {
            write_ratio,
            non_temporal: false,
            media_bytes_per_sec: queue.capacity_bytes_per_sec(),
            rise_ns: 0.0,
            rise_exponent: 1.0,
            burst_ns: queue.service_ns as f64,
            overload_loss_ratio: 0.0,
            read_window_lines: None,
            shared_lines: None,
            early_ns: 0.0,
            probe_wait_ratio: 0.0,
            loader_ns: vec![[0.0, 0.0]],
        };
        let lines = window_lines * f64::from(cores);
        Profile {
            name: format!("queue-{}-{}", queue.service_ns, queue.idle_ns),
            title: "one server behind a constant latency".into(),
            provenance: vec!["its scenario".into()],
            host: Host {
                window_lines,
                cores,
                smt_pace: 1.0,
                serial_share: 1.0,
            },
            device: DeviceFigures {
                idle_ns: queue.idle_ns as f64,
                read_bytes_per_sec: None,
                write_bytes_per_sec: None,
                queue_lines: lines,
                overload_from_lines: 10.0 * lines,
                overload_to_lines: 20.0 * lines,
                is_rise_by_others: false,
            },
            tail: Tail {
                spread: 0.0,
                stall_ratio: 0.0,
                stall_ns: 0.0,
            },
            mix: vec![mix(0.0), mix(1.0)],
        }
    }

    /// As TOML, without the comments it may have been read with.
    ///
    /// # Errors
    /// Never for a profile that was parsed; the TOML writer's error otherwise.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    fn check(&self, origin: &str) -> Result<(), DescriptionError> {
        let check = Check { origin };
        check.host(&self.host)?;
        check.device(&self.device)?;
        check.above_zero_or_zero("tail.spread", self.tail.spread)?;
        check.part("tail.stall_ratio", self.tail.stall_ratio)?;
        check.above_zero_or_zero("tail.stall_ns", self.tail.stall_ns)?;
        if !self.mix.iter().any(|mix| !mix.non_temporal) {
            return Err(check.wrong(
                "mix",
                "without allocating stores",
                "at least one [[mix]] without non_temporal is needed",
            ));
        }
        for (number, mix) in self.mix.iter().enumerate() {
            check.mix(number, mix)?;
            let before = number.checked_sub(1).map(|n| &self.mix[n]);
            let sorted = before.is_none_or(|b| {
                (b.non_temporal, b.write_ratio) < (mix.non_temporal, mix.write_ratio)
            });
            if !sorted {
                return Err(check.wrong(
                    &format!("mix[{number}].write_ratio"),
                    mix.write_ratio,
                    "mixes rise by write_ratio, and those with non_temporal come last",
                ));
            }
        }
        Ok(())
    }
}

/// Allowed ranges of the figures, so that no equation divides by zero.
struct Check<'a> {
    origin: &'a str,
}

impl Check<'_> {
    fn wrong(&self, key: &str, value: impl ToString, allowed: &'static str) -> DescriptionError {
        DescriptionError::Value {
            origin: self.origin.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    fn within(
        &self,
        key: &str,
        value: f64,
        range: std::ops::RangeInclusive<f64>,
        allowed: &'static str,
    ) -> Result<(), DescriptionError> {
        if range.contains(&value) {
            Ok(())
        } else {
            Err(self.wrong(key, value, allowed))
        }
    }

    fn above_zero_or_zero(&self, key: &str, value: f64) -> Result<(), DescriptionError> {
        self.within(key, value, 0.0..=1e12, "0 to 1e12 is allowed")
    }

    fn part(&self, key: &str, value: f64) -> Result<(), DescriptionError> {
        self.within(key, value, 0.0..=1.0, "0 to 1 is allowed")
    }

    fn rate(&self, key: &str, value: f64) -> Result<(), DescriptionError> {
        let allowed = "a bandwidth in bytes per second is needed, 1e6 to 1e13";
        self.within(key, value, 1e6..=1e13, allowed)
    }

    fn host(&self, host: &Host) -> Result<(), DescriptionError> {
        let lines = "1 to 10000 lines are allowed";
        self.within("host.window_lines", host.window_lines, 1.0..=1e4, lines)?;
        let cores = f64::from(host.cores);
        self.within("host.cores", cores, 1.0..=1e6, "1 to 1000000 is allowed")?;
        let pace = "0.1 to 10 is allowed, 1 is no change";
        self.within("host.smt_pace", host.smt_pace, 0.1..=10.0, pace)?;
        self.part("host.serial_share", host.serial_share)
    }

    fn device(&self, device: &DeviceFigures) -> Result<(), DescriptionError> {
        let idle = "1 to 1e6 nanoseconds are allowed";
        self.within("device.idle_ns", device.idle_ns, 1.0..=1e6, idle)?;
        for (key, rate) in [
            ("device.read_bytes_per_sec", device.read_bytes_per_sec),
            ("device.write_bytes_per_sec", device.write_bytes_per_sec),
        ] {
            if let Some(rate) = rate {
                self.rate(key, rate)?;
            }
        }
        let queue = "1 to 1e6 lines are allowed";
        self.within("device.queue_lines", device.queue_lines, 1.0..=1e6, queue)?;
        let (from, to) = (device.overload_from_lines, device.overload_to_lines);
        self.above_zero_or_zero("device.overload_from_lines", from)?;
        let above = "it must be above overload_from_lines, at most 1e12";
        let least = (from + 1.0)..=1e12;
        self.within("device.overload_to_lines", to, least, above)
    }

    fn mix(&self, number: usize, mix: &MixFigures) -> Result<(), DescriptionError> {
        let key = |name: &str| format!("mix[{number}].{name}");
        self.part(&key("write_ratio"), mix.write_ratio)?;
        self.rate(&key("media_bytes_per_sec"), mix.media_bytes_per_sec)?;
        self.above_zero_or_zero(&key("rise_ns"), mix.rise_ns)?;
        let exponent = "0.1 to 10 is allowed";
        self.within(
            &key("rise_exponent"),
            mix.rise_exponent,
            0.1..=10.0,
            exponent,
        )?;
        let burst = "0.001 to 1e6 nanoseconds are allowed";
        self.within(&key("burst_ns"), mix.burst_ns, 0.001..=1e6, burst)?;
        let loss = "0 to 0.9 is allowed";
        self.within(
            &key("overload_loss_ratio"),
            mix.overload_loss_ratio,
            0.0..=0.9,
            loss,
        )?;
        for (name, lines) in [
            ("read_window_lines", mix.read_window_lines),
            ("shared_lines", mix.shared_lines),
        ] {
            if let Some(lines) = lines {
                self.within(&key(name), lines, 1.0..=1e6, "1 to 1e6 lines are allowed")?;
            }
        }
        self.above_zero_or_zero(&key("early_ns"), mix.early_ns)?;
        let wait = "0 to 100 is allowed";
        self.within(
            &key("probe_wait_ratio"),
            mix.probe_wait_ratio,
            0.0..=100.0,
            wait,
        )?;
        self.loader(&key("loader_ns"), &mix.loader_ns)
    }

    fn loader(&self, key: &str, points: &[[f64; 2]]) -> Result<(), DescriptionError> {
        let allowed = "pairs of (delay, nanoseconds) are needed, 0 to 1e9, rising in both";
        if points.is_empty() {
            return Err(self.wrong(key, "empty", allowed));
        }
        let mut before = [-1.0, 0.0];
        for point in points {
            let rises = point[0] > before[0] && point[1] >= before[1];
            if !rises || point.iter().any(|figure| !(0.0..=1e9).contains(figure)) {
                return Err(self.wrong(key, format!("{point:?}"), allowed));
            }
            before = *point;
        }
        Ok(())
    }
}
