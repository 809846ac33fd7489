// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenarios of the testbed's virtual machine: machine, workloads, set-point, expected bounds. One TOML each
//! in `scenarios/`. Unknown keys are errors, so that a typing mistake is not a silent default.

mod as_simulated;
mod check;
mod machine;

pub use machine::{CoreEvents, TestbedMachine};

use crate::simulated::Role;
use crate::wrong::ScenarioError;
use crate::{Expect, ScenarioInfo};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedScenario {
    pub name: String,
    /// What it shows, for people.
    pub about: String,
    #[serde(default)]
    pub seed: u64,
    #[serde(default)]
    pub machine: TestbedMachine,
    /// What weir is to do.
    pub control: TestbedControl,
    #[serde(rename = "workload")]
    pub workloads: Vec<TestbedWorkload>,
    #[serde(default)]
    pub expect: Expect,
}

/// What weir is to do, and how long each phase takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedControl {
    /// Set-point, as a part of the device's capacity.
    pub set_point_ratio: f64,
    pub interval_ms: u64,
    pub period_ms: u64,
    /// From the start of the workloads to the start of measuring: weir starts with them.
    pub settle_sec: u64,
    pub measure_sec: u64,
}

/// One kind of workload, `count` times, each in a cgroup of its own. Unknown keys are refused by
/// [`Load`], which gets all that are left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestbedWorkload {
    /// Name; with `count` above 1 a number is added.
    pub name: String,
    #[serde(default = "one")]
    pub count: usize,
    pub role: Role,
    /// Its `cpu.weight`: 100 is normal.
    #[serde(default = "normal_weight")]
    pub weight: u32,
    #[serde(flatten)]
    pub load: Load,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Load {
    /// fio, mmap engine, on a tmpfs file bound to one group.
    Fio {
        /// Monitoring group the file lies in.
        #[serde(default)]
        group: usize,
        /// `randread`, `read`, `randwrite`, `write`, `randrw`.
        #[serde(default = "randread")]
        rw: String,
        file_mib: u64,
        block_kib: u64,
        /// CPU time used for something else after each block.
        #[serde(default)]
        think_us: u64,
        /// Blocks in a row, after which it sleeps for `pause_ms`; 0 never pauses.
        #[serde(default)]
        burst_blocks: u64,
        /// How long it sleeps after so many blocks.
        #[serde(default)]
        pause_ms: u64,
        /// Blocks per second, at fixed arrivals; 0 is as fast as it can.
        #[serde(default)]
        rate_iops: u64,
        /// A real-time task (`SCHED_RR`): it never waits for a CPU that others use.
        #[serde(default)]
        realtime: bool,
    },
    StressNg {
        workers: usize,
        /// stress-ng's `--cpu-method`.
        #[serde(default = "all_methods")]
        method: String,
    },
}

fn normal_weight() -> u32 {
    100
}

fn one() -> usize {
    1
}

fn randread() -> String {
    "randread".into()
}

fn all_methods() -> String {
    "all".into()
}

impl TestbedScenario {
    /// Reads and checks a scenario.
    ///
    /// # Errors
    /// Naming `origin`, line, key and what is allowed.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ScenarioError> {
        let read = toml::from_str(text);
        let scenario: Self = read.map_err(|e| ScenarioError::syntax(origin, &e))?;
        check::check(&scenario).map_err(|wrong| wrong.at(text, origin))?;
        Ok(scenario)
    }

    /// The scenario as reports see it.
    ///
    /// # Errors
    /// It cannot be written as TOML.
    pub fn info(&self) -> Result<ScenarioInfo, toml::ser::Error> {
        Ok(ScenarioInfo {
            about: self.about.clone(),
            seed: self.seed,
            capacity_bytes_per_sec: self.machine.capacity_bytes_per_sec(),
            set_point_bytes_per_sec: self.set_point_bytes_per_sec(),
            settle_sec: self.control.settle_sec as f64,
            measure_sec: self.control.measure_sec as f64,
            toml: toml::to_string(self)?,
            expect: self.expect.clone(),
        })
    }

    pub fn set_point_bytes_per_sec(&self) -> f64 {
        self.control.set_point_ratio * self.machine.capacity_bytes_per_sec()
    }
}

/// Whether the text is the testbed's: its machine has a queue of its own instead of a device table.
pub(crate) fn is_one(text: &str) -> bool {
    let table: Result<toml::Table, _> = text.parse();
    table.is_ok_and(|t| t.contains_key("machine") && !t.contains_key("device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        name = "small"
        about = "one reader"
        [control]
        set_point_ratio = 0.4
        interval_ms = 50
        period_ms = 20
        settle_sec = 1
        measure_sec = 1
        [[workload]]
        name = "reader"
        role = "heavy"
        kind = "fio"
        file_mib = 24
        block_kib = 256
    "#;

    #[test]
    fn wrong_scenarios_say_what_is_wrong() {
        assert!(TestbedScenario::parse(SMALL, "small.toml").is_ok());
        for (from, to, says) in [
            ("period_ms", "perid_ms", "perid_ms"),
            ("file_mib = 24", "file_mib = 24\nfile_size = 1", "file_size"),
            ("0.4", "1.4", "small.toml:5: control.set_point_ratio = 1.4"),
            (
                "block_kib = 256",
                "block_kib = 256\ngroup = 3",
                "workload[0].group = 3",
            ),
            ("file_mib = 24", "file_mib = 2400", "2400"),
            (
                "name = \"reader\"",
                "name = \"a b\"",
                "workload[0].name = a b",
            ),
            (
                "kind = \"fio\"",
                "kind = \"fio\"\nrw = \"scribble\"",
                "scribble",
            ),
            ("kind = \"fio\"", "kind = \"dd\"", "dd"),
            (
                "[[workload]]",
                "[expect.backends.scxfull]\nrmse_ratio_max = 0.1\n[[workload]]",
                "expect.backends.scxfull",
            ),
            (
                "[[workload]]",
                "[expect]\nrmse_ratio_max = nan\n[[workload]]",
                "expect.rmse_ratio_max = NaN",
            ),
        ] {
            let text = SMALL.replacen(from, to, 1);
            let error = TestbedScenario::parse(&text, "small.toml").unwrap_err();
            let error = error.to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
