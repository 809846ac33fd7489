// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine file: the figures of a host path, each measured alone or with its source. Nothing in it belongs
//! to a pair of streams.

use crate::host_path::levers::MbaLaw;
use crate::host_path::relations;
use crate::host_path::ssd::SsdFigures;
use crate::memory_device::Profile;
use garde::Validate;
use serde::{Deserialize, Serialize};
use weir_description::{BuiltIn, DescriptionError, from_to, read};

/// Machines that are built in.
const BUILT_IN: BuiltIn = BuiltIn {
    kind: "machine",
    texts: &[
        (
            "paper-b",
            include_str!("../../profiles/host-path/paper-b.toml"),
        ),
        (
            "paper-a",
            include_str!("../../profiles/host-path/paper-a.toml"),
        ),
    ],
    or: "",
};

/// Lines, credits and entries at most.
const LINES_MAX: u32 = 65_536;

/// One socket with its memories and its SSD.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct HostMachine {
    #[garde(skip)]
    pub name: String,
    #[garde(skip)]
    pub title: String,
    /// Where the figures come from, and which are assumed or fitted.
    #[garde(skip)]
    pub provenance: Vec<String>,
    #[garde(dive)]
    pub cores: CoreBuffers,
    #[garde(dive)]
    pub trackers: TrackerFigures,
    #[garde(dive)]
    pub memory: Vec<MemoryFigures>,
    #[garde(dive)]
    pub iio: IioFigures,
    /// The SSD. Left out: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(dive)]
    pub ssd: Option<SsdFigures>,
    #[serde(default)]
    #[garde(dive)]
    pub levers: LeverFigures,
}

/// The cores and what each can have under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct CoreBuffers {
    /// Cores that run threads, one each.
    #[garde(custom(from_to(1, 256)))]
    pub count: u32,
    /// Clock at which `own_ns` holds, GHz.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub ghz: f64,
    /// Time between a core and the coherence agent, both ways, nanoseconds.
    #[garde(custom(from_to(0.1, 1e4)))]
    pub path_ns: f64,
    #[garde(dive)]
    pub load: KindFigures,
    #[garde(dive)]
    pub store: KindFigures,
    /// Write-backs of stored lines; `own_ns` has no effect.
    #[garde(dive)]
    pub write_back: KindFigures,
    #[garde(dive)]
    pub nt: KindFigures,
    #[garde(dive)]
    pub movdir64b: KindFigures,
}

/// What one core does with one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct KindFigures {
    /// Lines of this kind that a core can have under way: its buffers.
    #[garde(custom(from_to(1, 1024)))]
    pub lines: u32,
    /// The core's own time for a line, nanoseconds at `cores.ghz`; it grows as 1/f.
    #[serde(default)]
    #[garde(custom(from_to(0.0, 1e6)))]
    pub own_ns: f64,
    /// Whether a fence follows each `lines` lines, so that own time and waiting add up: of `nt`, `movdir64b`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[garde(skip)]
    pub is_fenced: bool,
}

/// The pool of trackers: one entry for each line between admission and the end of its access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct TrackerFigures {
    /// Entries of the whole pool.
    #[garde(custom(from_to(1, LINES_MAX)))]
    pub count: u32,
    /// Slices that the entries and the lines are spread over; 1 is one pool.
    #[serde(default = "one")]
    #[garde(custom(from_to(1, 1024)))]
    pub slices: u32,
    /// Entries of a pool of its own for `cxl`. Left out: it shares the pool of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1, LINES_MAX)))]
    pub slow_count: Option<u32>,
    /// How long a line that the last-level cache answers keeps its entry, nanoseconds.
    #[serde(default = "lookup_ns")]
    #[garde(custom(from_to(0.1, 1e4)))]
    pub lookup_ns: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct MemoryFigures {
    /// `mmem` or `cxl`: what streams name.
    #[garde(skip)]
    pub target: String,
    /// A device profile of weir for the figures that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(skip)]
    pub profile: Option<String>,
    /// Equal memories that lines are spread over.
    #[serde(default = "one")]
    #[garde(custom(from_to(1, 64)))]
    pub count: u32,
    /// Latency of a load while all is idle, nanoseconds, the core's path included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1.0, 1e5)))]
    pub idle_ns: Option<f64>,
    /// Reads alone, bytes per second of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1e6, 1e13)))]
    pub read_bytes_per_sec: Option<f64>,
    /// Writes alone, bytes per second of one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(custom(from_to(1e6, 1e13)))]
    pub write_bytes_per_sec: Option<f64>,
}

/// The IIO: credits of DMA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct IioFigures {
    /// DMA writes under way at most, lines.
    #[garde(custom(from_to(1, LINES_MAX)))]
    pub write_credits: u32,
    /// DMA reads under way at most, lines.
    #[garde(custom(from_to(1, LINES_MAX)))]
    pub read_credits: u32,
    /// How long a line has its credit while all is idle, nanoseconds.
    #[garde(custom(from_to(1.0, 1e6)))]
    pub idle_ns: f64,
    /// The PCIe link of the SSD, bytes per second.
    #[garde(custom(from_to(1e6, 1e13)))]
    pub link_bytes_per_sec: f64,
    /// Part of the DMA writes that stays in the cache, 0 to 1.
    #[garde(custom(from_to(0.0, 1.0)))]
    pub cached_write_part: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields, default)]
pub struct LeverFigures {
    /// How bandwidth answers to MBA: `linear`, `steps`, `floor`.
    #[garde(skip)]
    pub mba_law: MbaLaw,
    /// The least value of MBA, 0 to 1.
    #[garde(custom(from_to(0.001, 1.0)))]
    pub mba_least: f64,
    /// Step of SMBA, bytes per second.
    #[garde(custom(from_to(1e3, 1e12)))]
    pub smba_step_bytes_per_sec: f64,
    /// Lowest clock of a core, GHz.
    #[garde(custom(from_to(0.1, 10.0)))]
    pub least_ghz: f64,
}

impl Default for LeverFigures {
    fn default() -> Self {
        LeverFigures {
            mba_law: MbaLaw::Linear,
            mba_least: 0.1,
            smba_step_bytes_per_sec: 125e6,
            least_ghz: 0.8,
        }
    }
}

/// A memory's figures once its profile is looked up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryRates {
    /// Latency of a load while all is idle, nanoseconds.
    pub idle_ns: f64,
    /// Reads alone, all of them together.
    pub read_bytes_per_sec: f64,
    /// Writes alone, all of them together.
    pub write_bytes_per_sec: f64,
    pub count: u32,
}

fn one() -> u32 {
    1
}

fn lookup_ns() -> f64 {
    20.0
}

impl HostMachine {
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        BUILT_IN.names()
    }

    /// Text of a built-in machine, as its file has it.
    #[must_use]
    pub fn text(name: &str) -> Option<&'static str> {
        BUILT_IN.text(name).ok()
    }

    /// A built-in machine.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(name: &str) -> Result<HostMachine, DescriptionError> {
        Self::parse(BUILT_IN.text(name)?, name)
    }

    /// Reads a machine from TOML. `origin` names the text in errors: a path, a name.
    ///
    /// # Errors
    /// The text is no TOML, a key is unknown or missing, a figure is out of its range.
    pub fn parse(text: &str, origin: &str) -> Result<HostMachine, DescriptionError> {
        let machine: HostMachine = read(text, origin)?;
        relations::check(&machine, origin)?;
        Ok(machine)
    }

    #[must_use]
    pub fn memory_index(&self, target: &str) -> Option<usize> {
        self.memory.iter().position(|one| one.target == target)
    }
}

impl MemoryFigures {
    /// Its figures, from the file and, where that has none, from the profile.
    ///
    /// # Errors
    /// The profile is unknown, or a figure is neither given nor in a profile: what to write.
    pub fn rates(&self) -> Result<MemoryRates, String> {
        let profile = match &self.profile {
            Some(name) => Some(Profile::named(name).map_err(|error| error.to_string())?),
            None => None,
        };
        let profile = profile.as_ref();
        let pick = |own: Option<f64>, of_profile: Option<f64>, key: &str| {
            own.or(of_profile)
                .ok_or_else(|| format!("{key} is missing: give it, or a profile"))
        };
        let count = f64::from(self.count);
        let idle = profile.map(|p| p.device.idle_ns);
        let (read, write) = (profile.and_then(reads), profile.and_then(writes));
        let read = pick(self.read_bytes_per_sec, read, "read_bytes_per_sec")?;
        let write = pick(self.write_bytes_per_sec, write, "write_bytes_per_sec")?;
        Ok(MemoryRates {
            idle_ns: pick(self.idle_ns, idle, "idle_ns")?,
            read_bytes_per_sec: read * count,
            write_bytes_per_sec: write * count,
            count: self.count,
        })
    }
}

/// What a profile's device reads: its media's rate, or that of the direction where it is lower.
fn reads(profile: &Profile) -> Option<f64> {
    let media = profile.mix.first()?.media_bytes_per_sec;
    let direction = profile.device.read_bytes_per_sec;
    Some(media.min(direction.unwrap_or(f64::INFINITY)))
}

/// What a profile's device writes by non-temporal stores, which fetch nothing first.
fn writes(profile: &Profile) -> Option<f64> {
    let mut stores = profile.mix.iter().rev().filter(|mix| mix.non_temporal);
    let media = stores.next().or(profile.mix.last())?.media_bytes_per_sec;
    let direction = profile.device.write_bytes_per_sec;
    Some(media.min(direction.unwrap_or(f64::INFINITY)))
}
