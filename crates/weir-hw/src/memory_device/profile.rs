// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles of memory devices: figures in a TOML file, each with where it comes from.
//!
//! A profile describes a device together with the host that reaches it, because that is what can be
//! measured: how many lines a core may have outstanding belongs to the host, when latency takes off
//! belongs to both. The equations that use the figures stand in [`crate::memory_device::closed_network`].

use crate::memory_device::queue_model::QueueTimes;
use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::{BuiltIn, DescriptionError, Origin, from_to, read};

/// Profiles that are built in.
const BUILT_IN: BuiltIn = BuiltIn {
    kind: "profile",
    texts: &[
        ("asic-x16", include_str!("../../profiles/asic-x16.toml")),
        ("ddr5-2ch", include_str!("../../profiles/ddr5-2ch.toml")),
        (
            "agilex-thesis",
            include_str!("../../profiles/agilex-thesis.toml"),
        ),
        ("agilex-i", include_str!("../../profiles/agilex-i.toml")),
    ],
    or: ", or the path of a TOML file",
};

/// A device and its host, calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[garde(skip)]
    pub name: String,
    #[garde(skip)]
    pub title: String,
    /// Where the figures come from and which of them were fitted, assumed or measured.
    #[garde(skip)]
    pub provenance: Vec<String>,
    #[garde(dive)]
    pub host: Host,
    #[garde(dive)]
    pub device: DeviceFigures,
    /// How far single accesses lie from the mean.
    #[garde(dive)]
    pub tail: Tail,
    /// Figures of each mix of reads and writes: first those with allocating stores, by rising `write_ratio`,
    /// then non-temporal stores.
    #[garde(dive)]
    pub mix: Vec<MixFigures>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Lines one core may have outstanding.
    #[garde(custom(from_to(1.0, 1e4)))]
    pub window_lines: f64,
    /// Cores of the machine it was measured on; more threads than this share cores in pairs.
    #[garde(custom(from_to(1, 1_000_000)))]
    pub cores: u32,
    /// How much longer a core needs for its own work with two threads on it than with one.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub smt_pace: f64,
    /// How far a core's own work and its waiting add up: 0, the longer of the two counts; 1, their
    /// sum does.
    #[garde(custom(from_to(0.0, 1.0)))]
    pub serial_share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct DeviceFigures {
    /// Latency of an access to the idle device, nanoseconds.
    #[garde(custom(from_to(1.0, 1e6)))]
    pub idle_ns: f64,
    /// Capacity of the direction from the device, bytes per second. Left out: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1e6, 1e13)))]
    pub read_bytes_per_sec: Option<f64>,
    /// Capacity of the direction to the device, bytes per second. Left out: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1e6, 1e13)))]
    pub write_bytes_per_sec: Option<f64>,
    /// Lines the device's own queue holds; its occupancy is what DevLoad reports.
    #[garde(custom(from_to(1.0, 1e6)))]
    pub queue_lines: f64,
    /// Offered load, in lines the cores would have out, at which overload begins to cost bandwidth.
    #[garde(custom(from_to(0.0, 1e12)))]
    pub overload_from_lines: f64,
    /// Offered load at which the whole loss of a mix is reached.
    #[garde(custom(from_to(self.overload_from_lines + 1.0, 1e12)))]
    pub overload_to_lines: f64,
    /// Cores meet each other's accesses and not their own, so that of N equal cores the rise of latency
    /// is 1 − 1/N of what many cause. Left out: the rise is the same for any number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[garde(skip)]
    pub is_rise_by_others: bool,
}

/// How far single accesses lie from the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct Tail {
    /// Standard deviation of the logarithm of a latency that is not stalled.
    #[garde(custom(from_to(0.0, 1e12)))]
    pub spread: f64,
    /// Part of the accesses that meet a stall (refresh, retry, thermal pause), 0 to 1.
    #[garde(custom(from_to(0.0, 1.0)))]
    pub stall_ratio: f64,
    /// Mean length of a stall, nanoseconds; lengths are exponential.
    #[garde(custom(from_to(0.0, 1e12)))]
    pub stall_ns: f64,
}

/// Figures of one mix of reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct MixFigures {
    /// Part of the lines that are writes, 0 to 1.
    #[garde(custom(from_to(0.0, 1.0)))]
    pub write_ratio: f64,
    /// Whether the writes are non-temporal stores, which read nothing first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[garde(skip)]
    pub non_temporal: bool,
    /// Capacity of both directions together, bytes per second.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub media_bytes_per_sec: f64,
    /// Latency added by load before any queue forms, at full load, nanoseconds.
    #[garde(custom(from_to(0.0, 1e12)))]
    pub rise_ns: f64,
    /// How it grows with utilisation: 0.5 is a square root, 1 a straight line.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub rise_exponent: f64,
    /// Work the device does in one go, nanoseconds: what a line may have to wait for.
    #[garde(custom(from_to(0.001, 1e6)))]
    pub burst_ns: f64,
    /// Part of the bandwidth that overload costs, 0 to below 1.
    #[garde(custom(from_to(0.0, 0.9)))]
    pub overload_loss_ratio: f64,
    /// Lines a core can be reading at once in this mix. What it writes back waits at the device and
    /// takes no place in its window. Left out: all lines take one, and there are `host.window_lines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1.0, 1e6)))]
    pub read_window_lines: Option<f64>,
    /// Lines that all cores together can have in flight, because they share the entries of a queue.
    /// Left out: no limit of its own. Of non-temporal stores it is the only limit: the core has
    /// posted them and waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1.0, 1e6)))]
    pub shared_lines: Option<f64>,
    /// A store has its place in the window free again this much before a load would have its line, as
    /// the mean of the mix, nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[garde(custom(from_to(0.0, 1e12)))]
    pub early_ns: f64,
    /// How much longer than others a load waits if its core has a loading thread beside it with all
    /// its lines out, as a part of the latency. Only a measurement's probe has such a neighbour.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[garde(custom(from_to(0.0, 100.0)))]
    pub probe_wait_ratio: f64,
    /// A core's own time per line in the load generator of the measurement: pairs of (injected
    /// delay, nanoseconds), rising. Between them straight lines, above the last in proportion.
    #[garde(custom(rising))]
    pub loader_ns: Vec<[f64; 2]>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Profile {
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.names()
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<Profile, DescriptionError> {
        Self::parse(BUILT_IN.text(name)?, name)
    }

    /// Reads a profile from TOML. `origin` names the text in errors: a path, a name.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, DescriptionError> {
        let profile: Profile = read(text, origin)?;
        profile.check(Origin(origin))?;
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

    /// Writes the profile as TOML, without the comments it may have been read with.
    ///
    /// # Errors
    /// Never for a profile that was parsed; the TOML writer's error otherwise.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    fn check(&self, origin: Origin) -> Result<(), DescriptionError> {
        let allocates = self.mix.iter().any(|mix| !mix.non_temporal);
        let allowed = "at least one [[mix]] without non_temporal is needed";
        origin.holds(allocates, "mix", "without allocating stores", allowed)?;
        let order = |mix: &MixFigures| (mix.non_temporal, mix.write_ratio);
        for (number, pair) in self.mix.windows(2).enumerate() {
            let key = format!("mix[{}].write_ratio", number + 1);
            let allowed = "mixes rise by write_ratio, and those with non_temporal come last";
            let rises = order(&pair[0]) < order(&pair[1]);
            origin.holds(rises, &key, pair[1].write_ratio, allowed)?;
        }
        Ok(())
    }
}

/// Points of a load generator: they rise in both.
fn rising(points: &[[f64; 2]], (): &()) -> garde::Result {
    let allowed = "pairs of (delay, nanoseconds) are needed, 0 to 1e9, rising in both";
    if points.is_empty() {
        return Err(garde::Error::new(format!("empty: {allowed}")));
    }
    let mut before = [-1.0, 0.0];
    for point in points {
        let rises = point[0] > before[0] && point[1] >= before[1];
        if !rises || point.iter().any(|figure| !(0.0..=1e9).contains(figure)) {
            return Err(garde::Error::new(format!("{point:?}: {allowed}")));
        }
        before = *point;
    }
    Ok(())
}
