// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `[expect]` of a scenario file: the bounds that a run has to keep, for all back ends and for single ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bounds of the run with control; ratios against the run without. Absent means not checked. The
/// keys of `[expect]` in every scenario file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expect {
    /// Largest |bias| of the bandwidth.
    pub bias_ratio_max: Option<f64>,
    /// Largest RMSE of the bandwidth.
    pub rmse_ratio_max: Option<f64>,
    /// Smallest reduction of the mean device latency.
    pub device_latency_reduction_min: Option<f64>,
    /// Lowest mean latency of a line at the device: less means that bandwidth was given away.
    pub device_latency_ns_min: Option<f64>,
    /// Highest mean latency of a line at the device.
    pub device_latency_ns_max: Option<f64>,
    /// Smallest reduction of the light reader's p50 and p99.
    pub light_reduction_min: Option<f64>,
    /// Largest p99 of the limited readers, in multiples of Little's bound.
    pub limited_p99_per_bound_max: Option<f64>,
    /// Smallest reduction of CPU time per GiB.
    pub cpu_cost_reduction_min: Option<f64>,
    /// Smallest gain of the work beside.
    pub throughput_gain_min: Option<f64>,
    /// Lowest mean bandwidth of the device, reads and writes together.
    pub bandwidth_bytes_per_sec_min: Option<f64>,
    pub bandwidth_bytes_per_sec_max: Option<f64>,
    /// Longest time until the bandwidth has settled.
    pub settle_ms_max: Option<f64>,
    /// Largest overshoot after that.
    pub overshoot_ratio_max: Option<f64>,
    /// Largest error of a workload's estimate.
    pub estimate_error_ratio_max: Option<f64>,
    /// Largest deviation of a workload's dominant share from its target.
    pub share_error_ratio_max: Option<f64>,
    /// Other bounds for runs with a back end of this name, one of [`BACKENDS`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, Expect>,
}

/// What carries out limits in live and in simulated runs, as results name it: bounds can be stated for each.
pub const BACKENDS: [&str; 15] = [
    "cpu-max",
    "sched-ext",
    "sched-ext-full",
    "sched-ext-served",
    "sched-ext-polled",
    "sched-ext-full-polled",
    "thesis-scx",
    "thesis-scx-vtime",
    "thesis-scx-throttle",
    "thesis-cgroups",
    "thesis-cgroups-simple",
    "drfq",
    "drfq-source",
    "drfq-target",
    "thesis-drfqs",
];

/// A bound that says nothing, or cannot be met or missed by anything.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongBound {
    /// The key, with the tables below `[expect]` that it is in.
    pub path: Vec<String>,
    pub value: String,
    pub allowed: String,
}

impl std::fmt::Display for WrongBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.join(".");
        write!(f, "expect.{path} = {}: {}", self.value, self.allowed)
    }
}

impl std::error::Error for WrongBound {}

/// One key of `[expect]`: its name, its value, and the range of values that a run can meet or miss.
type BoundKey = (&'static str, fn(&Expect) -> Option<f64>, f64, f64);

const KEYS: [BoundKey; 15] = [
    ("bias_ratio_max", |e| e.bias_ratio_max, 0.0, 10.0),
    ("rmse_ratio_max", |e| e.rmse_ratio_max, 0.0, 10.0),
    (
        "device_latency_reduction_min",
        |e| e.device_latency_reduction_min,
        -10.0,
        1.0,
    ),
    (
        "device_latency_ns_min",
        |e| e.device_latency_ns_min,
        0.0,
        1e12,
    ),
    (
        "device_latency_ns_max",
        |e| e.device_latency_ns_max,
        0.0,
        1e12,
    ),
    ("light_reduction_min", |e| e.light_reduction_min, -10.0, 1.0),
    (
        "limited_p99_per_bound_max",
        |e| e.limited_p99_per_bound_max,
        0.0,
        1e4,
    ),
    (
        "cpu_cost_reduction_min",
        |e| e.cpu_cost_reduction_min,
        -10.0,
        1.0,
    ),
    ("throughput_gain_min", |e| e.throughput_gain_min, -1.0, 10.0),
    (
        "bandwidth_bytes_per_sec_min",
        |e| e.bandwidth_bytes_per_sec_min,
        0.0,
        1e13,
    ),
    (
        "bandwidth_bytes_per_sec_max",
        |e| e.bandwidth_bytes_per_sec_max,
        0.0,
        1e13,
    ),
    ("settle_ms_max", |e| e.settle_ms_max, 0.0, 3.6e6),
    ("overshoot_ratio_max", |e| e.overshoot_ratio_max, 0.0, 10.0),
    (
        "estimate_error_ratio_max",
        |e| e.estimate_error_ratio_max,
        0.0,
        10.0,
    ),
    (
        "share_error_ratio_max",
        |e| e.share_error_ratio_max,
        0.0,
        10.0,
    ),
];

impl Expect {
    /// Whether no bound is stated, for no back end.
    pub fn is_empty(&self) -> bool {
        KEYS.iter().all(|(_, of, ..)| of(self).is_none())
            && self.backends.values().all(Expect::is_empty)
    }

    /// Whether a bound that is stated compares with the run without control.
    pub fn needs_free_run(&self) -> bool {
        let compares = |name: &str| name.ends_with("reduction_min") || name.ends_with("gain_min");
        let stated = |(name, of, ..): &BoundKey| compares(name) && of(self).is_some();
        KEYS.iter().any(stated)
    }

    /// Whether each bound can be met and missed, and each back end exists.
    ///
    /// # Errors
    /// The first that is not so.
    pub fn check(&self) -> Result<(), WrongBound> {
        self.check_values(&[])?;
        for (name, own) in &self.backends {
            let path = ["backends", name];
            let wrong = |key: Option<&str>, value: &str, allowed: String| WrongBound {
                path: path
                    .into_iter()
                    .chain(key)
                    .map(ToString::to_string)
                    .collect(),
                value: value.into(),
                allowed,
            };
            if !BACKENDS.contains(&name.as_str()) {
                let allowed = format!(
                    "no back end has this name; allowed are {}",
                    BACKENDS.join(", ")
                );
                return Err(wrong(None, "given", allowed));
            }
            if !own.backends.is_empty() {
                let allowed = "bounds of a back end stand under [expect.backends.NAME], not deeper";
                return Err(wrong(Some("backends"), "given", allowed.into()));
            }
            if own.is_empty() {
                return Err(wrong(None, "empty", "at least one bound".into()));
            }
            own.check_values(&path)?;
        }
        Ok(())
    }

    fn check_values(&self, path: &[&str]) -> Result<(), WrongBound> {
        for (name, of, low, high) in KEYS {
            let Some(value) = of(self).filter(|v| !(low..=high).contains(v)) else {
                continue;
            };
            let path = path.iter().copied().chain([name]);
            return Err(WrongBound {
                path: path.map(Into::into).collect(),
                value: value.to_string(),
                allowed: format!("allowed is {low} to {high}"),
            });
        }
        Ok(())
    }

    /// The bounds for a run with this back end: its own where it has one, else those of all.
    pub fn of(&self, backend: &str) -> Expect {
        let none = Expect::default();
        let own = self.backends.get(backend).unwrap_or(&none);
        Expect {
            bias_ratio_max: own.bias_ratio_max.or(self.bias_ratio_max),
            rmse_ratio_max: own.rmse_ratio_max.or(self.rmse_ratio_max),
            device_latency_reduction_min: own
                .device_latency_reduction_min
                .or(self.device_latency_reduction_min),
            device_latency_ns_min: own.device_latency_ns_min.or(self.device_latency_ns_min),
            device_latency_ns_max: own.device_latency_ns_max.or(self.device_latency_ns_max),
            light_reduction_min: own.light_reduction_min.or(self.light_reduction_min),
            limited_p99_per_bound_max: own
                .limited_p99_per_bound_max
                .or(self.limited_p99_per_bound_max),
            cpu_cost_reduction_min: own.cpu_cost_reduction_min.or(self.cpu_cost_reduction_min),
            throughput_gain_min: own.throughput_gain_min.or(self.throughput_gain_min),
            bandwidth_bytes_per_sec_min: own
                .bandwidth_bytes_per_sec_min
                .or(self.bandwidth_bytes_per_sec_min),
            bandwidth_bytes_per_sec_max: own
                .bandwidth_bytes_per_sec_max
                .or(self.bandwidth_bytes_per_sec_max),
            settle_ms_max: own.settle_ms_max.or(self.settle_ms_max),
            overshoot_ratio_max: own.overshoot_ratio_max.or(self.overshoot_ratio_max),
            estimate_error_ratio_max: own
                .estimate_error_ratio_max
                .or(self.estimate_error_ratio_max),
            share_error_ratio_max: own.share_error_ratio_max.or(self.share_error_ratio_max),
            backends: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_own(name: &str, own: Expect) -> Expect {
        Expect {
            rmse_ratio_max: Some(0.05),
            backends: BTreeMap::from([(name.to_owned(), own)]),
            ..Expect::default()
        }
    }

    #[test]
    fn bounds_of_back_ends_that_do_not_exist_are_wrong() {
        let own = || Expect {
            bias_ratio_max: Some(0.01),
            ..Expect::default()
        };
        for name in BACKENDS {
            assert_eq!(with_own(name, own()).check(), Ok(()));
        }
        for name in ["scxfull", "none", "Cpu-max", "", "cpu-max "] {
            let wrong = with_own(name, own()).check().unwrap_err();
            assert_eq!(wrong.path, ["backends", name]);
            assert!(wrong.allowed.contains("sched-ext-full"), "{wrong:?}");
        }
    }

    #[test]
    fn bounds_that_nothing_would_read_are_wrong() {
        let nested = with_own("sched-ext", with_own("cpu-max", Expect::default()));
        let wrong = nested.check().unwrap_err();
        assert_eq!(wrong.path, ["backends", "sched-ext", "backends"]);
        let empty = with_own("sched-ext", Expect::default());
        assert_eq!(empty.check().unwrap_err().value, "empty");
        assert!(Expect::default().is_empty() && !empty.is_empty());
    }

    #[test]
    fn a_bound_can_be_met_and_missed() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9, 11.0] {
            let odd = Expect {
                rmse_ratio_max: Some(value),
                ..Expect::default()
            };
            assert_eq!(odd.check().unwrap_err().path, ["rmse_ratio_max"], "{value}");
            let wrong = with_own("sched-ext", odd).check().unwrap_err();
            assert_eq!(wrong.path, ["backends", "sched-ext", "rmse_ratio_max"]);
        }
        // Nothing falls by more than all of it.
        let too_much = Expect {
            light_reduction_min: Some(1.01),
            ..Expect::default()
        };
        assert!(too_much.check().is_err() && too_much.needs_free_run());
        assert!(!with_own("sched-ext", too_much).needs_free_run());
    }

    #[test]
    fn every_key_of_the_file_has_a_range() {
        let all: String = KEYS
            .iter()
            .map(|(name, ..)| format!("{name} = 0.5\n"))
            .collect();
        let value: serde_json::Value = serde_json::to_value(Expect::default()).unwrap();
        for name in value.as_object().unwrap().keys() {
            assert!(all.contains(&format!("{name} =")), "{name}");
        }
    }
}
