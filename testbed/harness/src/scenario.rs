// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenario files: machine, workloads, set-point, expected bounds. One TOML each in `scenarios/`.
//! Unknown keys are errors, so that a typing mistake is not a silent default.

use crate::machine::Machine;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use weir_report::{Expect, ScenarioInfo};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, for people.
    pub about: String,
    /// Seed of the workloads' random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The machine.
    #[serde(default)]
    pub machine: Machine,
    /// What weir is to do.
    pub control: Control,
    /// What runs.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// What must come out.
    #[serde(default)]
    pub expect: Expect,
}

/// What weir is to do, and how long each phase takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Set-point, as a part of the device's capacity.
    pub set_point_ratio: f64,
    /// weir's interval.
    pub interval_ms: u64,
    /// Period of the limits.
    pub period_ms: u64,
    /// From the start of the workloads to the start of measuring: weir starts with them.
    pub settle_sec: u64,
    /// How long is measured.
    pub measure_sec: u64,
}

/// One kind of workload, `count` times, each in a cgroup of its own. Unknown keys are refused by
/// [`Load`], which gets all that are left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name; with `count` above 1 a number is added.
    pub name: String,
    /// How many of it.
    #[serde(default = "one")]
    pub count: usize,
    /// Its part in the results.
    pub role: Role,
    /// Its `cpu.weight`: 100 is normal.
    #[serde(default = "normal_weight")]
    pub weight: u32,
    /// What it does.
    #[serde(flatten)]
    pub load: Load,
}

/// What a workload is in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Overloads the device and may be limited.
    Heavy,
    /// Uses little and must not be limited.
    Light,
    /// Does not use the device: its throughput is what control gives back.
    Beside,
}

/// What a workload does.
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
        /// Size of its file.
        file_mib: u64,
        /// Size of a block.
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
    /// stress-ng on the CPU.
    StressNg {
        /// Worker processes.
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

impl Scenario {
    /// Read and check a scenario file.
    ///
    /// # Errors
    /// Naming file, line, key and what is allowed.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read scenario {}", path.display()))?;
        let scenario: Scenario =
            toml::from_str(&text).with_context(|| format!("scenario {}", path.display()))?;
        scenario
            .validate()
            .with_context(|| format!("scenario {}", path.display()))?;
        Ok(scenario)
    }

    fn validate(&self) -> Result<()> {
        self.machine.validate()?;
        self.expect.check()?;
        let c = &self.control;
        ensure!(
            c.set_point_ratio > 0.0 && c.set_point_ratio <= 1.0,
            "control.set_point_ratio = {}: above 0, at most 1",
            c.set_point_ratio
        );
        ensure!(
            (1..=10_000).contains(&c.interval_ms),
            "control.interval_ms: 1 to 10000"
        );
        ensure!(
            (1..=1000).contains(&c.period_ms),
            "control.period_ms: 1 to 1000"
        );
        ensure!(
            (1..=600).contains(&c.measure_sec),
            "control.measure_sec: 1 to 600"
        );
        ensure!(
            (1..=600).contains(&c.settle_sec),
            "control.settle_sec: 1 to 600"
        );
        let mut names = BTreeSet::new();
        let mut used_mib = vec![0; self.machine.groups_mib.len()];
        for workload in &self.workloads {
            let name = &workload.name;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            ensure!(
                !name.is_empty() && name.chars().all(plain),
                "workload name '{name}': letters, digits, - and _"
            );
            ensure!(
                names.insert(name.clone()),
                "workload name '{name}' stands twice"
            );
            ensure!(
                (1..=100).contains(&workload.count),
                "workload {name}: count 1 to 100"
            );
            ensure!(
                (1..=10_000).contains(&workload.weight),
                "workload {name}: weight 1 to 10000"
            );
            workload
                .load
                .validate()
                .with_context(|| format!("workload {name}"))?;
            if let Load::Fio {
                group, file_mib, ..
            } = &workload.load
            {
                let used = used_mib.get_mut(*group);
                let used = used.with_context(|| {
                    format!("workload {name}: group {group} is not in machine.groups_mib")
                })?;
                *used += file_mib * workload.count as u64;
            }
        }
        for (group, (used, size)) in used_mib.iter().zip(&self.machine.groups_mib).enumerate() {
            // The kernel keeps a little of each node for itself.
            ensure!(
                *used + 16 <= *size,
                "files of group {group} need {used} MiB of {size}"
            );
        }
        Ok(())
    }

    /// The scenario as reports see it.
    ///
    /// # Errors
    /// It cannot be written as TOML.
    pub fn subject(&self) -> Result<ScenarioInfo> {
        Ok(ScenarioInfo {
            about: self.about.clone(),
            seed: self.seed,
            capacity_bytes_per_sec: self.machine.capacity_bytes_per_sec(),
            set_point_bytes_per_sec: self.set_point_bytes_per_sec(),
            settle_sec: self.control.settle_sec as f64,
            measure_sec: self.control.measure_sec as f64,
            toml: toml::to_string(self).context("the scenario cannot be written as TOML")?,
            expect: self.expect.clone(),
        })
    }

    /// What is to be held.
    pub fn set_point_bytes_per_sec(&self) -> f64 {
        self.control.set_point_ratio * self.machine.capacity_bytes_per_sec()
    }
}

impl Load {
    fn validate(&self) -> Result<()> {
        match self {
            Load::Fio {
                rw,
                file_mib,
                block_kib,
                think_us,
                burst_blocks,
                pause_ms,
                ..
            } => {
                ensure!(
                    (*burst_blocks == 0) == (*pause_ms == 0)
                        && (*burst_blocks == 0 || *think_us == 0),
                    "burst_blocks and pause_ms: both or neither, and not with think_us"
                );
                let known = ["randread", "read", "randwrite", "write", "randrw", "rw"];
                ensure!(
                    known.contains(&rw.as_str()),
                    "rw = '{rw}': one of {known:?}"
                );
                ensure!(
                    *file_mib > 0 && *block_kib > 0,
                    "file_mib and block_kib: above 0"
                );
                ensure!(
                    *block_kib <= *file_mib * 1024,
                    "block_kib: at most the file"
                );
            }
            Load::StressNg { workers, method } => {
                ensure!((1..=256).contains(workers), "workers = {workers}: 1 to 256");
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
                ensure!(
                    method.chars().all(plain),
                    "method = '{method}': a stress-ng cpu method"
                );
            }
        }
        Ok(())
    }
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

    fn parse(text: &str) -> Result<Scenario> {
        let scenario: Scenario = toml::from_str(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    #[test]
    fn every_scenario_of_the_repository_is_sound() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut count = 0;
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.path().extension().is_some_and(|e| e == "toml") {
                let scenario = Scenario::load(&entry.path()).unwrap();
                let text = scenario.subject().unwrap().toml;
                assert_eq!(toml::from_str::<Scenario>(&text).unwrap(), scenario);
                count += 1;
            }
        }
        assert!(count > 0);
    }

    #[test]
    fn wrong_scenarios_say_what_is_wrong() {
        assert!(parse(SMALL).is_ok());
        for (from, to, says) in [
            ("period_ms", "perid_ms", "perid_ms"),
            ("file_mib = 24", "file_mib = 24\nfile_size = 1", "file_size"),
            ("0.4", "1.4", "set_point_ratio"),
            ("block_kib = 256", "block_kib = 256\ngroup = 3", "group 3"),
            ("file_mib = 24", "file_mib = 2400", "2400"),
            ("name = \"reader\"", "name = \"a b\"", "'a b'"),
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
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(says), "{to}: {error}");
        }
    }
}
