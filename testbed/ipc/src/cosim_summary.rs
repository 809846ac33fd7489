// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the server of simulated RTL says at its end, as JSON on its standard output.

use serde::{Deserialize, Serialize};

/// What was done, for people and for tests.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CosimSummary {
    pub accesses: u64,
    pub register_accesses: u64,
    /// Clocks of the simulated counters.
    pub clocks: u64,
    /// Time the simulator took for the accesses.
    pub counting_sec: f64,
    /// Time it took for the register accesses.
    pub registers_sec: f64,
    pub lost: u64,
    /// How often a vCPU waited for space in its ring.
    pub waits: u64,
}
