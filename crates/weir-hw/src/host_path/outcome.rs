// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What either form answers, in steady state.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Lines per nanosecond: how often its first leg is done.
    pub lines_per_ns: f64,
    /// Mean wait of its first leg for a tracker, nanoseconds.
    pub wait_ns: f64,
    /// How long its first leg has a tracker, nanoseconds.
    pub residence_ns: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolOutcome {
    /// Mean wait of all that it admits, nanoseconds.
    pub wait_ns: f64,
    pub occupancy: f64,
    /// Lines that it admits per nanosecond.
    pub lines_per_ns: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryOutcome {
    /// From admission to data, nanoseconds; with the wait for the memory's server.
    pub residence_ns: f64,
    /// Part of the time that it works, 0 to 1.
    pub utilisation: f64,
}

/// The whole answer, in the order of the network's lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathOutcome {
    pub flows: Vec<FlowOutcome>,
    pub pools: Vec<PoolOutcome>,
    pub memories: Vec<MemoryOutcome>,
}

impl PathOutcome {
    /// Mean residence of all lines that have a tracker: occupancy ÷ inserts, as
    /// `unc_cha_tor_occupancy.ia_miss` and `unc_cha_tor_inserts.ia_miss` would give it.
    #[must_use]
    pub fn mean_residence_ns(&self) -> f64 {
        let occupancy: f64 = self.pools.iter().map(|pool| pool.occupancy).sum();
        let rate = self.inserts_per_ns();
        if rate > 0.0 { occupancy / rate } else { 0.0 }
    }

    /// Lines that all pools admit per nanosecond.
    #[must_use]
    pub fn inserts_per_ns(&self) -> f64 {
        self.pools.iter().map(|pool| pool.lines_per_ns).sum()
    }
}
