// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operator's settings, and the ranges in which they make sense.
//!
//! Keys of the configuration file are the names of these fields and of the flags. A value outside
//! its range is refused by [`Config::validate`] with key, value and range; nothing is silently
//! corrected there. The loop itself does not rely on that call: [`Config::gains`] takes
//! the default of a value that makes no sense, so that no file can make the loop panic or limit
//! a workload to nothing.

use super::setpoint::Goal;
use crate::policy::Policy;
use crate::seam::topology::Actuator;
use crate::units::{BytesPerSec, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Bandwidth to hold per device (reads + writes); nothing means observe. With another goal it is
    /// the most that is held.
    pub set_point_bytes_per_sec: Option<BytesPerSec>,
    /// What is held: that bandwidth, a latency, or the knee of the device.
    pub goal: Goal,
    pub policy: Policy,
    /// Whether weir may act. Without it a plan has no actions.
    pub limit: bool,
    /// A device has headroom, and a workload is clearly below its part, when this share is left over.
    pub headroom_ratio: f64,
    /// A limit is rewritten when it is off by more than this; by a third of it, when that brings
    /// the sum nearer. Smaller is not more exact: each write restarts a period and gives quota
    /// away, and what it follows is mostly noise.
    pub dead_band_ratio: f64,
    /// Proportional gain on the relative error of the device's bandwidth, smoothed over 0.3 s.
    pub kp: f64,
    /// Integral gain: an error of 10 % changes the correction by 10 % × this in a second. Its
    /// inverse is the time constant with which a bias is removed.
    pub ki_per_sec: f64,
    pub correction_min: f64,
    pub correction_max: f64,
    /// How fast a limit may rise, relative to itself: 1 is a doubling in about 0.7 s.
    pub slew_up_per_sec: f64,
    /// How fast a limit may fall once it is in force, relative to itself.
    pub slew_down_per_sec: f64,
    /// No workload is limited to less CPU than this, as long as there are few: see `floor_sum_cpus`.
    pub floor_cpus: f64,
    /// What all floors of one device's users come to at most: of n users each keeps this ÷ n where
    /// that is less than `floor_cpus`. A thousand times 0.02 CPUs would move more than any device
    /// should carry.
    pub floor_sum_cpus: f64,
    /// Weight of the newest interval in the intensity κ.
    pub intensity_alpha: f64,
    /// Weight of the newest interval in smoothed bandwidth (thesis eq. 2); nothing for none.
    pub bandwidth_alpha: Option<f64>,
    /// A workload's limit is rewritten at most once in this time, unless it is off by more than a
    /// quarter.
    pub min_write_interval_ms: u64,
    /// A limited workload has this, times its limit as a part of the CPU time that it would use, of its own
    /// weight (`cpu.weight`), where the back end can: so it does not keep others from a CPU when its quota is
    /// refilled. 0 leaves weights alone.
    pub limited_weight_ratio: f64,
    /// Weights by workload id, instead of those found on the system; 100 is normal.
    pub weights: BTreeMap<String, f64>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            set_point_bytes_per_sec: None,
            goal: Goal::Bandwidth,
            policy: Policy::MaxMin,
            limit: false,
            headroom_ratio: 0.1,
            dead_band_ratio: 0.08,
            kp: 0.3,
            ki_per_sec: 1.0,
            correction_min: 0.25,
            correction_max: 2.0,
            slew_up_per_sec: 1.0,
            slew_down_per_sec: 10.0,
            floor_cpus: 0.02,
            floor_sum_cpus: 0.5,
            intensity_alpha: 0.2,
            bandwidth_alpha: None,
            min_write_interval_ms: 600,
            limited_weight_ratio: 1.0,
            weights: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{key} = {value} is out of range: allowed is {allowed}")]
    OutOfRange {
        /// Name of the setting, as in the file and in the flags.
        key: String,
        value: String,
        allowed: String,
    },
    #[error(
        "limit = true needs set_point_bytes_per_sec: say what bandwidth to hold, or leave limit off"
    )]
    NoSetPoint,
}

/// Key, value, smallest and largest allowed value.
type Range = (&'static str, f64, f64, f64);

impl Config {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first value that makes no sense, by name.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(set_point) = self.set_point_bytes_per_sec {
            // Under one page a second a set-point is a slip of the unit; no device holds an exabyte.
            within("set_point_bytes_per_sec", set_point.get(), 4096.0, 1e18)?;
        } else if self.limit && self.goal == Goal::Bandwidth {
            return Err(ConfigError::NoSetPoint);
        }
        if let Goal::LatencyNs(wanted) = self.goal {
            // No device answers within a nanosecond; no access takes a minute.
            within("goal.latency_ns", wanted.0 as f64, 1.0, 6e10)?;
        }
        for (key, value, low, high) in self.ranges() {
            within(key, value, low, high)?;
        }
        if let Some(alpha) = self.bandwidth_alpha {
            within("bandwidth_alpha", alpha, 0.01, 1.0)?;
        }
        within(
            "min_write_interval_ms",
            self.min_write_interval_ms as f64,
            0.0,
            60_000.0,
        )?;
        for (id, weight) in &self.weights {
            within(&format!("weights.{id:?}"), *weight, 0.01, 1e6)?;
        }
        Ok(())
    }

    fn ranges(&self) -> [Range; 12] {
        [
            ("headroom_ratio", self.headroom_ratio, 0.0, 0.9),
            ("dead_band_ratio", self.dead_band_ratio, 0.0, 0.5),
            ("kp", self.kp, 0.0, 2.0),
            ("ki_per_sec", self.ki_per_sec, 0.0, 20.0),
            ("correction_min", self.correction_min, 0.01, 1.0),
            ("correction_max", self.correction_max, 1.0, 10.0),
            ("slew_up_per_sec", self.slew_up_per_sec, 0.01, 100.0),
            ("slew_down_per_sec", self.slew_down_per_sec, 0.01, 100.0),
            ("floor_cpus", self.floor_cpus, 0.001, 1024.0),
            ("floor_sum_cpus", self.floor_sum_cpus, 0.001, 1024.0),
            ("intensity_alpha", self.intensity_alpha, 0.01, 1.0),
            ("limited_weight_ratio", self.limited_weight_ratio, 0.0, 1.0),
        ]
    }

    /// The numbers that the loop uses: those given, and the default of each that is out of range.
    pub(super) fn gains(&self) -> Gains {
        let mut given = self.ranges();
        for (given, default) in given.iter_mut().zip(Config::default().ranges()) {
            if within(given.0, given.1, given.2, given.3).is_err() {
                given.1 = default.1;
            }
        }
        let [
            headroom,
            dead_band,
            kp,
            ki,
            low,
            high,
            up,
            down,
            floor,
            floor_sum,
            alpha,
            limited_weight,
        ] = given.map(|g| g.1);
        let set_point = self
            .set_point_bytes_per_sec
            .map(BytesPerSec::get)
            .filter(|t| *t > 0.0);
        Gains {
            set_point,
            goal: self.goal,
            headroom,
            dead_band,
            kp,
            ki,
            correction: (low, high),
            slew: (up, down),
            floor,
            floor_sum,
            alpha,
            limited_weight,
            is_exact: false,
            bandwidth_alpha: self.bandwidth_alpha.filter(|a| (0.01..=1.0).contains(a)),
            write_interval: Nanos::from_millis(self.min_write_interval_ms.min(60_000)),
        }
    }
}

/// The part of the integral gain that is left where the back end holds the mean by itself. With the whole
/// gain the correction made up for what a walk through all processes took from the readers, and the device
/// stood 20 % below its set-point and 7 % above it by turns. The slow part stays for counters that are off.
pub(super) const EXACT_PART: f64 = 0.1;

/// The configuration as plain, sound numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gains {
    /// The bandwidth to hold, or with another goal the most to hold.
    pub set_point: Option<f64>,
    pub goal: Goal,
    pub headroom: f64,
    pub dead_band: f64,
    pub kp: f64,
    pub ki: f64,
    /// Smallest and largest.
    pub correction: (f64, f64),
    /// Up and down.
    pub slew: (f64, f64),
    pub floor: f64,
    /// The floors of all users of one device together, in CPUs.
    pub floor_sum: f64,
    pub alpha: f64,
    /// [`Config::limited_weight_ratio`], the part of the weight that goes with a limit; 0 leaves weights
    /// alone.
    pub limited_weight: f64,
    /// The back end holds the mean by itself.
    pub is_exact: bool,
    pub bandwidth_alpha: Option<f64>,
    pub write_interval: Nanos,
}

impl Gains {
    /// For a back end that holds the mean by itself. A correction of what an interval shows would be noise.
    /// A shortfall because no CPU was free is not made up for later. The slow part stays, for counters that
    /// are lost.
    pub fn with(self, actuator: Option<&Actuator>) -> Self {
        if actuator.is_none_or(|a| !a.is_exact) {
            return self;
        }
        Gains {
            kp: 0.0,
            ki: self.ki * EXACT_PART,
            is_exact: true,
            ..self
        }
    }

    pub fn is_holding(&self) -> bool {
        self.set_point.is_some() || self.goal != Goal::Bandwidth
    }
}

fn within(key: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let allowed = format!("{low} to {high}");
    Err(ConfigError::OutOfRange {
        key: key.to_owned(),
        value: value.to_string(),
        allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_only_observe() {
        let config = Config::default();
        assert_eq!(config.validate(), Ok(()));
        assert!(!config.limit && config.set_point_bytes_per_sec.is_none());
    }

    #[test]
    fn a_back_end_that_holds_the_mean_is_corrected_slowly() {
        let mut actuator = Actuator {
            name: "sched-ext".into(),
            levers: vec![crate::seam::topology::Lever::CpuTime],
            min_cpus: 0.001,
            grain_ns: Nanos(0),
            refill_on_write_ratio: 0.0,
            period_ns: Nanos::from_millis(10),
            min_quota_ns: Nanos(0),
            is_exact: false,
        };
        let usual = Config::default().gains();
        let with = |actuator: Option<&Actuator>| {
            let gains = usual.with(actuator);
            (gains.kp, gains.ki)
        };
        assert_eq!(with(None), (usual.kp, usual.ki));
        assert_eq!(with(Some(&actuator)), (usual.kp, usual.ki));
        actuator.is_exact = true;
        let (kp, ki) = with(Some(&actuator));
        assert!(kp == 0.0 && 0.0 < ki && ki < usual.ki / 2.0, "{kp} {ki}");
    }

    #[test]
    fn errors_name_key_value_and_range() {
        let wrong = Config {
            headroom_ratio: -0.5,
            ..Config::default()
        };
        let text = wrong.validate().expect_err("out of range").to_string();
        assert_eq!(
            text,
            "headroom_ratio = -0.5 is out of range: allowed is 0 to 0.9"
        );
        let mut wrong = Config::default();
        wrong.weights.insert("/a.slice".into(), f64::NAN);
        let text = wrong.validate().expect_err("out of range").to_string();
        assert!(
            text.starts_with("weights.\"/a.slice\" = NaN is out of range"),
            "{text}"
        );
        let wrong = Config {
            limit: true,
            ..Config::default()
        };
        assert_eq!(wrong.validate(), Err(ConfigError::NoSetPoint));
        let zero = Some(BytesPerSec::ZERO);
        let wrong = Config {
            set_point_bytes_per_sec: zero,
            ..Config::default()
        };
        assert!(wrong.validate().is_err());
    }

    #[test]
    fn every_range_is_checked_on_both_sides() {
        for (i, (key, _, low, high)) in Config::default().ranges().into_iter().enumerate() {
            for value in [low - 1e-3, high + 1e-3, f64::NAN, f64::INFINITY] {
                let text = format!("{{\"{key}\": {value}}}");
                let Ok(config) = serde_json::from_str::<Config>(&text) else {
                    continue;
                };
                let error = config.validate().expect_err(key).to_string();
                assert!(error.starts_with(key), "range {i}: {error}");
                assert_eq!(
                    format!("{:?}", config.gains()),
                    format!("{:?}", Config::default().gains())
                );
            }
            let text = format!("{{\"{key}\": {low}}}");
            let config: Config = serde_json::from_str(&text).expect("a key of the file");
            assert_eq!(config.validate(), Ok(()), "{key} at its smallest");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = serde_json::from_str::<Config>("{\"setpoint\": 1}").expect_err("no such key");
        assert!(error.to_string().contains("setpoint"));
    }
}
