// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a report says of a scenario: its circumstances and its bounds, the same for live and simulated runs.

use crate::Expect;

/// A scenario as the report sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScenarioInfo {
    /// What it shows, in a sentence.
    pub about: String,
    pub seed: u64,
    /// The device's capacity, in bytes per second; not drawn unless it is above 0.
    pub capacity_bytes_per_sec: f64,
    /// What is held, in bytes per second.
    pub set_point_bytes_per_sec: f64,
    /// Time from the start of a run to the start of measuring, in seconds.
    pub settle_sec: f64,
    /// Measured time, in seconds.
    pub measure_sec: f64,
    /// The scenario as TOML; with its defaults filled in where it was run live.
    pub toml: String,
    pub expect: Expect,
}
