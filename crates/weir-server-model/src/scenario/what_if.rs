// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same seed under another condition: the truth that a what-if estimate is compared with.

use crate::machine::workload::{PageHome, Workload};
use crate::machine::{Machine, Workloads};
use crate::{Scenario, Server};
use serde::{Deserialize, Serialize};
use weir_description::DescriptionError;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhatIf {
    AsItIs,
    /// All pages on CXL devices are in the socket's DRAM instead.
    NoCxl,
    /// The devices are as fast as idle ones, whatever the load.
    IdleDevice,
    /// A workload never starts.
    Without(String),
    /// All others never start.
    Alone(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub workload: String,
    pub instructions: u64,
    /// Accesses of its CPUs.
    pub accesses: u64,
}

/// Later than any run ends, microseconds.
const NEVER_US: f64 = 1e9;

fn never_starts(workload: &mut Workload) {
    workload.start_us = NEVER_US;
    workload.end_us = None;
}

impl WhatIf {
    /// Machine and workloads under this condition.
    ///
    /// # Errors
    /// No workload has the name.
    pub fn apply(
        &self,
        machine: &Machine,
        workloads: &Workloads,
    ) -> Result<(Machine, Workloads), DescriptionError> {
        let (mut machine, mut workloads) = (machine.clone(), workloads.clone());
        match self {
            WhatIf::AsItIs => {}
            WhatIf::NoCxl => {
                for workload in &mut workloads.workload {
                    for area in &mut workload.area {
                        area.cxl_part = 0.0;
                    }
                    for page_move in &mut workload.page_move {
                        if page_move.to == PageHome::Cxl {
                            page_move.to = PageHome::Dram;
                        }
                    }
                }
            }
            WhatIf::IdleDevice => {
                for device in &mut machine.device {
                    device.is_always_idle = true;
                    device.rise_ns = Some(0.0);
                }
            }
            WhatIf::Without(name) => {
                let number = workloads.number(name)?;
                never_starts(&mut workloads.workload[number]);
            }
            WhatIf::Alone(name) => {
                let number = workloads.number(name)?;
                for (other, workload) in workloads.workload.iter_mut().enumerate() {
                    if other != number {
                        never_starts(workload);
                    }
                }
            }
        }
        Ok((machine, workloads))
    }

    /// Progress of each workload in the windows of a scenario under this condition.
    ///
    /// # Errors
    /// As [`Server::new`] and [`WhatIf::apply`].
    pub fn run(&self, scenario: &Scenario, seed: u64) -> Result<Vec<Progress>, DescriptionError> {
        let (machine, workloads) = self.apply(&scenario.machine, &scenario.workloads)?;
        let mut server = Server::new(&machine, &workloads, seed)?;
        if scenario.run.is_warm {
            server.warm();
        }
        server.run(scenario.run.warm_up_us * 1000.0);
        let before = server.progress();
        server.run(f64::from(scenario.run.windows) * scenario.run.window_us * 1000.0);
        let after = server.progress().into_iter().zip(before);
        let rows = after.map(|(after, before)| Progress {
            workload: after.workload,
            instructions: after.instructions - before.instructions,
            accesses: after.accesses - before.accesses,
        });
        Ok(rows.collect())
    }

    /// How much faster a workload is under this condition: instructions under it ÷ instructions as it is.
    /// None if it retires nothing as it is.
    ///
    /// # Errors
    /// As [`WhatIf::run`], and if no workload has the name.
    pub fn speedup(
        &self,
        scenario: &Scenario,
        workload: &str,
        seed: u64,
    ) -> Result<Option<f64>, DescriptionError> {
        let number = scenario.workloads.number(workload)?;
        let as_it_is = WhatIf::AsItIs.run(scenario, seed)?[number].instructions;
        let changed = self.run(scenario, seed)?[number].instructions;
        Ok((as_it_is > 0).then(|| changed as f64 / as_it_is as f64))
    }
}
