// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one result format for live and simulated runs; `docs/reference/results.md` documents it.
//!
//! A value that could not be measured is `null`, and the reason stands beside it under the same
//! name in `missing`. The figures' definitions are those of [`weir_scenario::figures`], for every world.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use weir_scenario::figures::{Bandwidth, Latency, Point, WorkloadShares, settling};

/// All runs of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub scenario: String,
    /// The runs, in the order they were made.
    pub runs: Vec<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Figures that are not to be trusted, whatever their value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
}

impl Results {
    /// What two runs of one scenario with one seed agree on: everything but the host, the date and the wall
    /// time.
    #[must_use]
    pub fn reproducible(&self) -> Self {
        let mut same = self.clone();
        if let Some(origin) = &mut same.origin {
            (origin.host, origin.date_utc, origin.wall_sec) = (None, None, None);
        }
        for run in &mut same.runs {
            run.wall_sec = None;
        }
        same
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    pub weir_version: String,
    /// Commit of the source tree that the program lies in, with `-dirty` if that tree is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// `vm` or `sim`.
    pub world: String,
    /// Release of the guest's kernel, as in `uname -r`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_release: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_version: Option<String>,
    /// The machine that made them: CPU, number of CPUs, release of its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When the runs were made: RFC 3339 in UTC, to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date_utc: Option<String>,
    /// Seed of the first run.
    pub seed: u64,
    /// Virtual time of everything that was run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_sec: Option<f64>,
    /// Wall time of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_sec: Option<f64>,
    /// Time by which the clocks of two CPUs may differ in virtual time: the length of a window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
}

/// A figure that is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caveat {
    /// Dotted name of the figure in a run, or of its group. Other text is shown as it is.
    pub figure: String,
    pub reason: String,
}

impl Caveat {
    pub fn new(figure: impl Into<String>, reason: impl Into<String>) -> Self {
        let (figure, reason) = (figure.into(), reason.into());
        Caveat { figure, reason }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `vm` or `sim`.
    pub world: String,
    /// Policy, or `none`.
    pub policy: String,
    /// What carried out the limits, or `none`.
    pub backend: String,
    /// What was to be held; runs without control are compared with it too.
    pub set_point_bytes_per_sec: f64,
    /// Seed of the workloads' random numbers.
    pub seed: u64,
    /// Device bandwidth, reads + writes, over 100 ms windows.
    pub bandwidth: Bandwidth,
    /// Latency of one line at the device, from the ground truth.
    pub device_latency: Latency,
    /// Block latency of the light reader.
    pub light_reader: Latency,
    /// Block latency of the readers that may be limited.
    pub limited_readers: LimitedLatency,
    /// The longest time in which one of the readers that may be limited moved nothing; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_gap_ms: Option<f64>,
    /// CPU time of the limited readers per GiB they read from the device.
    pub cpu_sec_per_gib: Option<f64>,
    /// Operations per second of the work beside them.
    pub throughput_ops_per_sec: Option<f64>,
    /// Time from weir's command to its first tick, where it was started while the device was overloaded; live
    /// runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<f64>,
    /// Until the bandwidth stays within 5 % (means over 2 s), from when control (weir's first tick) and load
    /// have begun.
    pub settle_ms: Option<f64>,
    /// Highest mean over 500 ms after settling, above the set-point, relative to it.
    pub overshoot_ratio: Option<f64>,
    /// Estimates per workload against the ground truth: RMSE over 1 s windows relative to the truth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub estimate_error_ratio: BTreeMap<String, f64>,
    /// Shares of each workload, by its name; simulated runs only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, WorkloadShares>,
    /// Bandwidth over time, for the picture.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Point>,
    /// Stands for the whole course of the run, in hexadecimal: two runs with the same one are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Virtual time from the start of the run to its end, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_sec: Option<f64>,
    /// Wall time of the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_sec: Option<f64>,
    /// Why a value is `null`, by its dotted name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// Latency of a closed loop, beside its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitedLatency {
    /// Mean, median, 99th percentile.
    #[serde(flatten)]
    pub latency: Latency,
    /// Little's law: readers ÷ blocks per second. A closed loop cannot have a lower mean at its rate.
    pub little_bound_ns: Option<f64>,
}
