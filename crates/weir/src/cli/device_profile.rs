// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was found of a device, as a file: `/var/lib/weir/devices/NAME.toml` (schema:
//! `docs/reference/config.md`). Written whole or not at all; read with distrust, because weir runs as root
//! and a set-point follows from it.

use crate::cli::devices::DeviceNode;
use crate::cli::output::wall_clock::wall_unix_ms;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_core::Description;
use weir_core::seam::next_move::{Act, NextMove, Precondition};
use weir_core::seam::topology::{Device, Fact};
use weir_core::{BytesPerSec, Missing};
use weir_figures::text;
use weir_files::{Access, Folder, NewFile};

/// Version of the schema that this weir writes, and the only one that it reads.
const SCHEMA: u32 = 1;
const FILE_MAX_BYTES: u64 = 256 << 10;
const POINTS_MAX: usize = 1000;
const TEXT_MAX: usize = 256;
/// Range of a bandwidth, as `Config::validate` has it: no page a second, and no exabyte.
const RATES: [f64; 2] = [4096.0, 1e18];
/// Range of a latency, in ns. No device answers in a tenth of a nanosecond, and none takes a minute for a
/// line.
const LATENCIES: [f64; 2] = [0.1, 6e10];
const DAY_SEC: u64 = 86_400;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub schema_version: u32,
    /// What the operating system calls the device.
    pub device: String,
    /// The node with the memory that was used.
    pub node: u32,
    /// Size of all of the device: another size is another device.
    pub size_bytes: u64,
    pub measured_unix_sec: u64,
    pub weir_version: String,
    /// Threads that loaded the device.
    pub threads: u32,
    pub mix: String,
    /// Where the bandwidth is from: `counters` of the device, or `threads` that loaded it.
    pub bandwidth_from: String,
    /// Whether all was measured that was meant to be.
    pub complete: bool,
    /// Latency of a load on the idle device.
    pub idle_latency_ns: f64,
    /// The same of the CPU's own memory, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dram_latency_ns: Option<f64>,
    /// Bandwidth of others before and after, the larger one; nothing without counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_bytes_per_sec: Option<f64>,
    /// Where latency begins to rise steeply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<StoredKnee>,
    /// What was measured, in that order.
    #[serde(default, rename = "point")]
    pub points: Vec<StoredPoint>,
}

/// Where latency begins to rise steeply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKnee {
    /// Bandwidth there, reads and writes.
    pub bandwidth_bytes_per_sec: f64,
    pub latency_ns: f64,
    /// How far the fitted curve is from the points, root mean square.
    pub fit_error_ratio: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPoint {
    /// Reads and writes together.
    pub bandwidth_bytes_per_sec: f64,
    /// Mean of the middle half of the batches.
    pub latency_ns: f64,
    /// Median of the batches.
    pub latency_median_ns: f64,
    /// 99th percentile of the batches.
    pub latency_p99_ns: f64,
    /// Half of the 95 % confidence interval of the mean, relative.
    pub latency_error_ratio: f64,
}

impl Profile {
    /// An empty one of today.
    pub fn begun(device: &str) -> Profile {
        Profile {
            schema_version: SCHEMA,
            device: device.to_owned(),
            node: 0,
            size_bytes: 0,
            measured_unix_sec: wall_unix_ms() / 1000,
            weir_version: env!("CARGO_PKG_VERSION").to_owned(),
            threads: 0,
            mix: String::new(),
            bandwidth_from: String::new(),
            complete: false,
            idle_latency_ns: 0.0,
            dram_latency_ns: None,
            others_bytes_per_sec: None,
            knee: None,
            points: Vec::new(),
        }
    }

    fn parse(text: &str) -> Result<Profile> {
        #[derive(Deserialize)]
        struct Head {
            schema_version: u32,
        }
        // toml's message has the line in it, on lines of its own.
        let head: Head = toml::from_str(text).map_err(|e| anyhow::anyhow!(one_line(&e)))?;
        ensure!(
            head.schema_version == SCHEMA,
            "schema_version is {}, this weir reads {SCHEMA}",
            head.schema_version
        );
        let profile: Profile = toml::from_str(text).map_err(|e| anyhow::anyhow!(one_line(&e)))?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<()> {
        let texts = [
            &self.device,
            &self.mix,
            &self.bandwidth_from,
            &self.weir_version,
        ];
        ensure!(
            texts.iter().all(|t| t.len() <= TEXT_MAX),
            "a text is longer than {TEXT_MAX} bytes"
        );
        ensure!(
            self.points.len() <= POINTS_MAX,
            "more than {POINTS_MAX} points"
        );
        within("idle_latency_ns", self.idle_latency_ns, LATENCIES)?;
        for point in &self.points {
            within(
                "point.bandwidth_bytes_per_sec",
                point.bandwidth_bytes_per_sec,
                [0.0, RATES[1]],
            )?;
            within("point.latency_ns", point.latency_ns, LATENCIES)?;
        }
        let Some(knee) = &self.knee else {
            return Ok(());
        };
        within(
            "knee.bandwidth_bytes_per_sec",
            knee.bandwidth_bytes_per_sec,
            RATES,
        )?;
        within("knee.latency_ns", knee.latency_ns, LATENCIES)?;
        let highest = self.points.iter().map(|p| p.bandwidth_bytes_per_sec);
        let highest = highest.fold(0.0, f64::max);
        // A little above, by rounding of the decimals that were written.
        within(
            "knee.bandwidth_bytes_per_sec",
            knee.bandwidth_bytes_per_sec,
            [0.0, highest * 1.001],
        )
    }

    /// How long ago it was measured, in words.
    fn age(&self) -> String {
        let now = wall_unix_ms() / 1000;
        match now.checked_sub(self.measured_unix_sec) {
            None => "measured in the future".to_owned(),
            Some(sec) if sec < DAY_SEC => "measured today".to_owned(),
            Some(sec) if sec < 2 * DAY_SEC => "1 day old".to_owned(),
            Some(sec) => format!("{} days old", sec / DAY_SEC),
        }
    }
}

fn one_line(error: &toml::de::Error) -> String {
    error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn within(key: &str, value: f64, [low, high]: [f64; 2]) -> Result<()> {
    ensure!(
        value.is_finite() && (low..=high).contains(&value),
        "{key} is {value}: allowed are {low} to {high}"
    );
    Ok(())
}

/// Where a device's profile is.
pub fn path(state: &Path, device: &str) -> PathBuf {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = device.chars().take(64).map(plain).collect();
    state.join("devices").join(format!("{name}.toml"))
}

/// A place for a profile, known to be writable before the device is loaded for a minute.
pub struct ProfilePlace {
    file: NewFile,
    path: PathBuf,
}

impl ProfilePlace {
    /// Makes its directory, if that is weir's own, and a file beside it.
    ///
    /// # Errors
    /// The directory cannot be made or written.
    pub fn ready(path: &Path, is_ours: bool) -> Result<ProfilePlace> {
        let shown = text::harmless(&path.to_string_lossy());
        let hint = |e: io::Error| {
            let help = weir_linux::hint(&e);
            let what = format!("cannot keep a profile in {shown}{help}; --out FILE says where");
            anyhow::Error::from(e).context(what)
        };
        if let (true, Some(dir)) = (is_ours, path.parent()) {
            Folder::open_or_make(dir).map_err(hint)?;
        }
        let file = weir_files::begin(path, Access::OwnerWrites).map_err(hint)?;
        Ok(ProfilePlace {
            file,
            path: path.to_owned(),
        })
    }

    /// Puts the profile there.
    ///
    /// # Errors
    /// The disk is full, or the place is no longer there.
    pub fn keep(mut self, profile: &Profile) -> Result<PathBuf> {
        let shown = text::harmless(&self.path.to_string_lossy());
        let mut write = || -> Result<()> {
            let body = toml::to_string(profile)?;
            writeln!(
                self.file,
                "# A device's loaded latency, measured by `weir calibrate`."
            )?;
            self.file.write_all(body.as_bytes())?;
            Ok(self.file.sync()?)
        };
        write().with_context(|| format!("cannot write {shown}"))?;
        self.file
            .replace()
            .with_context(|| format!("cannot put {shown} in its place"))?;
        Ok(self.path)
    }
}

/// Reads a device's profile; nothing if there is none.
///
/// # Errors
/// It is there and cannot be used: it belongs to another user, is no profile, or has impossible values.
pub fn read(state: &Path, device: &str) -> Result<Option<Profile>> {
    let path = path(state, device);
    let folder = Folder::containing(&path);
    let file = match folder.and_then(|(folder, name)| folder.open_to_read(name)) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other,
    };
    let shown = text::harmless(&path.to_string_lossy());
    let remedy = || format!("the profile {shown} is not used; `weir calibrate` makes a new one");
    let profile = file.map_err(anyhow::Error::from).and_then(|file| {
        let found = file.metadata()?;
        let me = rustix::process::geteuid().as_raw();
        ensure!(
            [0, me].contains(&found.uid()) && found.mode() & 0o022 == 0,
            "others may write it"
        );
        let mut text = String::new();
        file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
        ensure!(
            text.len() as u64 <= FILE_MAX_BYTES,
            "it is larger than {} KiB",
            FILE_MAX_BYTES >> 10
        );
        Profile::parse(&text)
    });
    profile.with_context(remedy).map(Some)
}

/// Bytes of all groups of a device.
pub fn size_bytes(machine: &Description, device: &Device) -> u64 {
    let groups = machine.groups.iter().filter(|g| g.id.device == device.id);
    groups.map(|g| g.size_bytes.0).fold(0, u64::saturating_add)
}

/// The command that measures a device, with the nodes that the operator declares to be CXL memory: without
/// them it may not find the device.
fn command(machine: &Description, device: &Device, declared: &[DeviceNode]) -> String {
    let mut command = "weir calibrate".to_owned();
    for DeviceNode(node) in declared {
        command += &format!(" --device node:{node}");
    }
    if declared.is_empty() || machine.devices.len() > 1 {
        command += &format!(" --device {}", device.id);
    }
    command
}

/// The knee of one device of this machine.
fn knee_of(
    state: &Path,
    machine: &Description,
    device: &Device,
    declared: &[DeviceNode],
) -> Result<StoredKnee> {
    let (id, name) = (device.id, text::harmless(&device.name));
    let command = command(machine, device, declared);
    let Some(profile) = read(state, &device.name)? else {
        bail!("the knee of {id} ({name}) is not known: `{command}` finds it");
    };
    let size = size_bytes(machine, device);
    ensure!(
        profile.device == device.name && profile.size_bytes == size,
        "the stored profile of {id} ({name}) is that of another device: {} with {} bytes, not {size}; \
         `{command}` measures this one",
        text::harmless(&profile.device),
        profile.size_bytes
    );
    profile.knee.with_context(|| {
        format!("the stored profile of {id} ({name}) has no knee: repeat `{command}`")
    })
}

/// The knee of a device and its idle latency in ns, where a usable profile of it is stored.
pub fn knee_and_idle(
    state: &Path,
    machine: &Description,
    device: &Device,
) -> Option<(BytesPerSec, f64)> {
    let knee = knee_of(state, machine, device, &[]).ok()?;
    let profile = read(state, &device.name).ok()??;
    let knee = BytesPerSec::new(knee.bandwidth_bytes_per_sec);
    Some((knee, profile.idle_latency_ns))
}

/// Knees further apart than this belong to unlike devices.
const ALIKE: f64 = 1.1;

/// The knee that a set-point for all devices of this machine can be a part of: the lowest of theirs.
/// `declared` are the nodes of `--device`.
///
/// # Errors
/// One is not known, or they are unlike.
pub fn common_knee(
    state: &Path,
    machine: &Description,
    declared: &[DeviceNode],
) -> Result<BytesPerSec> {
    let knee = |device| knee_of(state, machine, device, declared);
    let knees = machine.devices.iter().map(knee);
    let knees: Vec<StoredKnee> = knees.collect::<Result<_>>()?;
    let rates = || knees.iter().map(|k| k.bandwidth_bytes_per_sec);
    let (low, high) = (
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
    );
    ensure!(
        !knees.is_empty(),
        "there is no device that could have a knee"
    );
    ensure!(
        high <= ALIKE * low,
        "the knees of the devices differ ({} to {}), and one set-point is for all of them: give it in bytes, \
         such as --set-point 4GiB/s",
        text::rate(BytesPerSec::new(low)),
        text::rate(BytesPerSec::new(high))
    );
    Ok(BytesPerSec::new(low))
}

/// What is stored of each device, for `weir doctor`.
pub fn facts(state: &Path, machine: &Description) -> Vec<Fact> {
    let fact = |device: &Device| {
        let stored = read(state, &device.name).and_then(|found| {
            let Some(profile) = found else {
                return Ok(None);
            };
            let knee = knee_of(state, machine, device, &[])?;
            let rate = text::rate(BytesPerSec::new(knee.bandwidth_bytes_per_sec));
            let (idle, at_knee, age) = (profile.idle_latency_ns, knee.latency_ns, profile.age());
            let part = if profile.complete {
                ""
            } else {
                ", interrupted"
            };
            Ok(Some(format!(
                "knee {rate} ({at_knee:.0} ns, idle {idle:.0} ns), {age}{part}"
            )))
        });
        let value = match stored {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(Missing::NotYetRead),
            Err(why) => Err(Missing::Lost(format!("{why:#}"))),
        };
        let next_move = value.is_err().then(|| NextMove {
            act: Act::Command(format!("weir calibrate --device {}", device.id)),
            why: "the knee of the device is not known".into(),
            needs: Precondition::Operator("no other traffic is on the device".into()),
        });
        Fact {
            name: format!("calibration.{}", device.id),
            value,
            next_move,
        }
    };
    machine.devices.iter().map(fact).collect()
}

#[cfg(test)]
mod tests;
