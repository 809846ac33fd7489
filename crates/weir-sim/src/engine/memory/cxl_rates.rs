// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A CXL device that holds rates of its monitoring groups, by *eligible times*: a line is served no earlier
//! than the last one of its group + the time of a line × all rates of groups that are active ÷ the group's
//! own. So a group gets at most its part of what the device gives for the mix; what a group does not use is
//! lost, which is why it needs rates and not weights.

use std::collections::{BTreeMap, BTreeSet};
use weir_hw::memory_device::{Equilibrium, LoadedDevice, Requester};

/// Rounds of the search for the pace of groups at their rates.
const ROUNDS: usize = 24;
/// The part of its capacity that is given out. Nearer to the capacity lines queue without end; with this room
/// the ratio of groups is exact.
const FULL: f64 = 0.97;
/// A group is at its rate if it is this near, relatively.
const TOLERANCE: f64 = 1e-3;

/// Rates are kept in steps of this ratio, so that a small change is none.
const RATE_STEP: f64 = 1.005;

/// A CXL device and the rates of its groups, of which only ratios count. A group without one has 1.
pub(crate) struct GroupRates {
    device: Box<LoadedDevice>,
    rates: BTreeMap<u32, f64>,
}

impl GroupRates {
    pub(crate) fn new(device: Box<LoadedDevice>) -> GroupRates {
        GroupRates {
            device,
            rates: BTreeMap::new(),
        }
    }

    pub(crate) fn device(&self) -> &LoadedDevice {
        &self.device
    }

    pub(crate) fn window_lines(&self) -> f64 {
        self.device.profile().host.window_lines
    }

    pub(crate) fn set_health(&mut self, ratio: f64) {
        self.device.set_health(ratio);
    }

    /// Gives each group what its workloads have together. `users`: group and workload. True if that is new.
    pub(crate) fn set_rates(
        &mut self,
        users: impl Iterator<Item = (u32, u32)>,
        of: &[f64],
    ) -> bool {
        let users: BTreeSet<(u32, u32)> = users.collect();
        let mut rates = BTreeMap::new();
        for (group, workload) in users {
            let rate = of.get(workload as usize).copied().unwrap_or(1.0);
            *rates.entry(group).or_insert(0.0) += rate;
        }
        let most = rates.values().copied().fold(f64::MIN_POSITIVE, f64::max);
        for rate in rates.values_mut() {
            let step = ((*rate / most).max(1e-4).ln() / RATE_STEP.ln()).round();
            *rate = RATE_STEP.powf(step);
        }
        let before = std::mem::replace(&mut self.rates, rates);
        before != self.rates
    }

    /// Solves for these requesters, each of the group at its place in `groups`.
    pub(crate) fn solve(
        &mut self,
        requesters: &[Requester],
        groups: &[u32],
        out: &mut Equilibrium,
    ) {
        let rate = |group: &u32| (*group, self.rates.get(group).copied().unwrap_or(1.0));
        let parts: Vec<(u32, f64)> = groups.iter().map(rate).collect();
        solve(&mut self.device, requesters, &parts, out);
    }
}

/// Solves for these requesters, of which `parts` says the group and its rate: those of a group above its rate
/// are slowed down until it has it.
fn solve(
    device: &mut LoadedDevice,
    requesters: &[Requester],
    parts: &[(u32, f64)],
    out: &mut Equilibrium,
) {
    device.solve(requesters, out);
    let mut paced = requesters.to_vec();
    let mut is_held = vec![false; requesters.len()];
    for _ in 0..ROUNDS {
        let factors = over_rate(&paced, parts, out);
        let mut is_near = true;
        for (i, factor) in factors.into_iter().enumerate() {
            let is_over = factor > 1.0 + TOLERANCE;
            let is_under = is_held[i] && factor < 1.0 - TOLERANCE;
            if !(is_over || is_under) {
                continue;
            }
            let line_ns = 1e9 / out.lines_per_sec[i];
            let before = if is_held[i] {
                paced[i].busy_ns
            } else {
                line_ns
            };
            paced[i].busy_ns = (before * factor).max(requesters[i].busy_ns);
            is_held[i] = true;
            is_near = false;
        }
        if is_near {
            break;
        }
        device.solve(&paced, out);
    }
}

/// For each requester: what its group has ÷ what the group's rate lets it have.
fn over_rate(requesters: &[Requester], parts: &[(u32, f64)], out: &Equilibrium) -> Vec<f64> {
    let lines = |i: usize| requesters[i].cores * out.lines_per_sec[i];
    let all: f64 = (0..parts.len()).map(lines).sum();
    let gives = FULL * all / out.utilization.max(1e-9);
    let mut rates = parts.to_vec();
    rates.sort_unstable_by_key(|(group, _)| *group);
    rates.dedup_by_key(|(group, _)| *group);
    let total: f64 = rates.iter().map(|(_, rate)| rate).sum();
    let over = |(group, rate): &(u32, f64)| {
        let same = (0..parts.len()).filter(|i| parts[*i].0 == *group);
        let has: f64 = same.map(lines).sum();
        if has > 0.0 {
            has / (gives * rate / total)
        } else {
            1.0
        }
    };
    parts.iter().map(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_hw::memory_device::Profile;

    fn bytes(cores: [f64; 2], rates: [f64; 2]) -> [f64; 2] {
        let profile = Profile::named("agilex-thesis").unwrap();
        let mut device = LoadedDevice::new(&profile);
        let requester = |cores| Requester {
            cores,
            window_lines: 38.0,
            busy_ns: 10.0,
            ..Requester::default()
        };
        let mut out = Equilibrium::default();
        let parts = [(0, rates[0]), (1, rates[1])];
        solve(&mut device, &cores.map(requester), &parts, &mut out);
        [0, 1].map(|i| cores[i] * out.lines_per_sec[i] * 64.0)
    }

    /// Whatever number of cores asks, groups that can use their rates have them, and the device is in use.
    #[test]
    fn groups_have_their_rates() {
        for (cores, rates) in [
            ([16.0, 40.0], [1.0, 3.0]),
            ([24.0, 40.0], [1.0, 2.0]),
            ([24.0, 24.0], [1.0, 1.0]),
        ] {
            let [a, b] = bytes(cores, rates);
            let error = a / b / (rates[0] / rates[1]) - 1.0;
            assert!(error.abs() < 0.01, "{cores:?} {rates:?}: {a} {b}");
            assert!(a + b > 0.96 * 10.737e9, "{cores:?} {rates:?}: {}", a + b);
        }
    }

    /// What a group cannot use is lost: the other one stays at its rate.
    #[test]
    fn what_a_group_does_not_use_is_lost() {
        let [few, many] = bytes([0.1, 16.0], [1.0, 1.0]);
        assert!(few < 0.1 * many, "{few} {many}");
        assert!(
            (many / (0.5 * FULL * 10.737e9) - 1.0).abs() < 0.02,
            "{many}"
        );
    }
}
