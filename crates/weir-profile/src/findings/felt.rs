// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a workload waits at one place of several. Counts of cores do not say from which device, or on
//! which socket, a line comes. But the workload's own demand reads that miss the last-level cache take longer
//! where they wait there, and not where others do.

use super::View;
use super::facts::waits_at;
use crate::counts::Counts;
use crate::path_map::{cxl_of, lines_of};
use crate::stages::residence_ns;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Part of the place's wait by which the workload's own reads of that memory must take longer.
const FELT_MIN: f64 = 0.5;

/// Demand reads of a core that missed the last-level cache.
const MISSES: Role = Role {
    stage: Stage::SuperQueue,
    path: AccessPath::Drd,
    target: Target::Miss,
    quantity: Quantity::Occupancy,
};

/// Whether the workload's reads take longer than in the recording given with --idle, as they would if they
/// waited at this stage of the place. Nothing where that was not counted.
pub fn is_felt(view: View, stage: Stage) -> Option<bool> {
    let wait = waits_at(view, stage).ok()?.wait_ns.value;
    let own = |counts: &Counts| residence_ns(counts, MISSES).ok().map(|ns| ns.value);
    let longer = own(view.counts)? - own(view.idle?)?;
    let part = part_of_misses(view.counts, stage)?;
    Some(longer >= FELT_MIN * part * wait)
}

/// The part of these reads that the stage serves.
fn part_of_misses(counts: &Counts, stage: Stage) -> Option<f64> {
    let all = counts.get(MISSES.with(Quantity::Inserts)).ok()?;
    let lines = match stage {
        Stage::Imc => lines_of(counts, AccessPath::Drd, Target::DramOwn)
            .or_else(|_| lines_of(counts, AccessPath::Drd, Target::Dram)),
        _ => cxl_of(counts, AccessPath::Drd),
    };
    let part = lines.ok()?.value / all.value;
    (all.value > 0.0).then(|| part.min(1.0))
}
