// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Third stage: the groups' bandwidth is shared out to its owners ([`crate::rates::attribution`]). weir's own
//! probe is one of them, and no workload.

use super::findings::StepRates;
use super::signals::Signals;
use crate::rates::attribution::{Attributed, attribute, possible_ratio};
use crate::units::BytesPerSec;

pub(super) struct Parts {
    /// One for each access signal, in the same order.
    pub uses: Vec<Attributed>,
    /// For each group what no workload moved: what has no owner, and what weir read. Nothing where the
    /// group's rate is not known.
    pub of_no_workload: Vec<Option<BytesPerSec>>,
    /// For each group whether that is so for an owner that has just come.
    pub is_passing: Vec<bool>,
}

pub(super) fn share_out(rates: &StepRates, signals: &Signals) -> Parts {
    let mut found = attribute(&rates.groups, &signals.accesses);
    let mut of_no_workload = found.unattributed;
    for seen in &signals.workloads {
        let accesses = signals.accesses.get(seen.uses.clone());
        let parts = found.parts.get_mut(seen.uses.clone());
        let (Some(cpus), Some(accesses), Some(parts)) = (seen.exact_cpu(), accesses, parts) else {
            continue;
        };
        let ratio = possible_ratio(parts, cpus);
        // Mostly all of it is possible.
        if ratio >= 1.0 {
            continue;
        }
        for (access, part) in accesses.iter().zip(parts) {
            let taken = part.keep(ratio);
            if let Some(Some(bytes)) = of_no_workload.get_mut(access.group) {
                *bytes += taken;
            }
        }
    }
    let owners = signals.accesses.iter().zip(&found.parts);
    for (signal, part) in owners.skip(signals.places.len()) {
        if let Some(Some(bytes)) = of_no_workload.get_mut(signal.group) {
            *bytes += part.all.bytes_per_sec;
        }
    }
    Parts {
        uses: found.parts,
        of_no_workload,
        is_passing: found.is_passing,
    }
}
