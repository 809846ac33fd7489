// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file of the truth: a line of JSON a seed. docs/reference/profile-truth.md describes it for other
//! programs.

use super::scenarios::described;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use weir_server_model::{CauseLabel, Scenario, TruthWindow, WhatIf};

pub const TRUTH_VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TruthDocument {
    pub weir_truth: u32,
    pub scenario: String,
    pub seed: u64,
    /// Workloads with the CPUs that run them.
    pub workloads: Vec<WorkloadPlace>,
    /// What is wrong, as the scenario's author says.
    pub causes: Vec<CauseLabel>,
    /// The truth of each window, in the order of the windows that were counted.
    pub windows: Vec<TruthWindow>,
    /// The same seed under other conditions, where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<SpeedupTruth>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadPlace {
    /// Its name, as in the file of windows.
    pub name: String,
    pub cpus: Vec<u16>,
}

/// How much faster a workload is under another condition, over all windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeedupTruth {
    pub condition: WhatIf,
    pub workload: String,
    /// Instructions in the same time under the condition ÷ instructions as it is. None: it retires nothing as
    /// it is.
    pub speedup_ratio: Option<f64>,
}

impl TruthDocument {
    /// The truth of a run with these windows.
    pub fn new(scenario: &Scenario, seed: u64, windows: Vec<TruthWindow>) -> TruthDocument {
        let workloads = scenario
            .workloads
            .workload
            .iter()
            .map(|workload| WorkloadPlace {
                name: workload.name.clone(),
                cpus: workload.cpus.clone(),
            });
        TruthDocument {
            weir_truth: TRUTH_VERSION,
            scenario: scenario.name.clone(),
            seed,
            workloads: workloads.collect(),
            causes: scenario.causes.clone(),
            windows,
            what_if: Vec::new(),
        }
    }

    /// Reads a line of a file.
    ///
    /// # Errors
    /// It is no truth of a run, or of another version.
    pub fn parse(line: &str) -> Result<TruthDocument> {
        let document: TruthDocument = serde_json::from_str(line)?;
        if document.weir_truth != TRUTH_VERSION {
            anyhow::bail!(
                "format {} of the truth is not known to this weir, which reads format {TRUTH_VERSION}",
                document.weir_truth
            );
        }
        Ok(document)
    }
}

/// Runs the scenario again without CXL memory, with an idle device, and without each of the other workloads.
///
/// # Errors
/// A condition cannot be run.
pub fn speedups(scenario: &Scenario, seed: u64) -> Result<Vec<SpeedupTruth>> {
    let names = scenario.workloads.names();
    let mut conditions = vec![WhatIf::NoCxl, WhatIf::IdleDevice];
    if names.len() > 1 {
        conditions.extend(names.into_iter().map(WhatIf::Without));
    }
    let as_it_is = described(WhatIf::AsItIs.run(scenario, seed))?;
    let mut rows = Vec::new();
    for condition in conditions {
        let changed = described(condition.run(scenario, seed))?;
        for (now, then) in as_it_is.iter().zip(changed) {
            if condition == WhatIf::Without(now.workload.clone()) {
                continue;
            }
            let ratio = then.instructions as f64 / now.instructions as f64;
            rows.push(SpeedupTruth {
                condition: condition.clone(),
                workload: now.workload.clone(),
                speedup_ratio: (now.instructions > 0).then_some(ratio),
            });
        }
    }
    Ok(rows)
}
