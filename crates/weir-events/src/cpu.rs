// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPUs as CPUID names them: vendor, family, model.

use serde::Deserialize;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub vendor: String,
    /// Display family, extended family added.
    pub family: u32,
    /// Display model, extended model included.
    pub model: u32,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:X}", self.vendor, self.family, self.model)
    }
}

/// CPUs that a table is of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    pub vendor: String,
    pub family: u32,
    /// First and last model of each run.
    pub models: Vec<[u32; 2]>,
}

impl Models {
    pub fn has(&self, cpu: &Cpu) -> bool {
        let within = |run: &[u32; 2]| (run[0]..=run[1]).contains(&cpu.model);
        self.vendor == cpu.vendor && self.family == cpu.family && self.models.iter().any(within)
    }
}
