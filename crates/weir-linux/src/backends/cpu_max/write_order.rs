// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which order the changes of one tick are made.

use super::CpuMaxBackend;
use weir_core::seam::plan::ActionKind;
use weir_core::{Action, Nanos, Plan};

/// The positions of a plan's actions, each with the wait for its refill, and whether it lets its workload run
/// more. In the order of refills, so that all rewrites lie within one period; of those that do not wait, what
/// lowers a limit goes before what raises one or takes it off.
pub(crate) fn in_order(
    backend: &CpuMaxBackend,
    plan: &Plan,
    at: Nanos,
) -> Vec<(Nanos, bool, usize)> {
    let place = |(i, action): (usize, &Action)| {
        let id = &action.workload;
        let raises = match action.kind {
            ActionKind::Limit(limit) => backend.would_raise(id, limit.cpus()),
            ActionKind::Release => true,
        };
        (backend.wait_for_refill(id, at), raises, i)
    };
    let mut order: Vec<_> = plan.actions.iter().enumerate().map(place).collect();
    order.sort_unstable();
    order
}
