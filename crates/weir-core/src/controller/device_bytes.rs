// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits in device bytes, for a back end with that lever: what each limited workload may move.
//!
//! A workload that is limited to its part of a device may move that part: it is in bytes, and no CPU time
//! stands between. At its floor, and while a limit is raised on the way out or held because nothing is known,
//! the limit itself is CPU time, and κ times that may be moved.

use super::findings::{StepContext, StepFindings, WorkloadFindings};
use super::state::{LimitRequest, State, WorkloadState};
use crate::seam::plan::ByteBudget;
use crate::seam::topology::Lever;
use crate::units::BytesPerSec;

/// Budgets of all limited workloads, by workload id; none where the back end limits CPU time.
pub(super) fn propose(
    state: &State,
    context: &StepContext<'_>,
    found: &StepFindings,
) -> Vec<ByteBudget> {
    if !context.machine.levers().contains(&Lever::DeviceBytes) {
        return Vec::new();
    }
    let each = state.workloads.iter().zip(found.workloads());
    each.filter_map(|(tracked, found)| budget(tracked, &found, context))
        .collect()
}

/// What one workload may move. Nothing for one that has no limit or loses it, that is missing from the
/// observation, or of which it is not known what it moves in a second of CPU time.
pub(super) fn budget(
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    context: &StepContext<'_>,
) -> Option<ByteBudget> {
    let cpus = match tracked.hold.requested {
        Some(LimitRequest::Limit { cpus }) => cpus,
        Some(LimitRequest::Release) => return None,
        None => tracked.hold.in_force?,
    };
    found.signals.index?;
    let mut kappas = found.demands.iter().filter_map(|d| d.intensity).peekable();
    kappas.peek()?;
    let kappa: f64 = kappas.sum();
    if !(kappa.is_finite() && kappa > 0.0) {
        return None;
    }
    let mut parts = found.allowed.iter().copied().flatten().peekable();
    let bytes_per_sec = if parts.peek().is_some() && has_part(tracked, found, context, cpus) {
        parts.sum()
    } else {
        cpus * kappa
    };
    Some(ByteBudget {
        workload: tracked.id.clone(),
        bytes_per_sec: BytesPerSec::new(bytes_per_sec),
        intensity_bytes_per_cpu_sec: kappa,
    })
}

/// Its limit is its part of a device: nothing is missing, the part is smaller than its demand and above its
/// floor, and the back end has not refused.
fn has_part(
    tracked: &WorkloadState,
    found: &WorkloadFindings<'_>,
    context: &StepContext<'_>,
    cpus: f64,
) -> bool {
    let is_refused = tracked.hold.refused.is_some() && tracked.hold.requested.is_none();
    let may_limit = context.config.limit && context.gains.is_holding();
    let is_known = !found.signals.is_fresh && tracked.hold.blind_steps == 0;
    let is_short = found.signals.is_limitable && found.budget.short_on.is_some();
    let actuator = context.machine.actuator.as_ref();
    let is_at_floor = actuator.is_none_or(|a| found.is_at_floor(Some(cpus), &context.gains, a));
    may_limit && is_known && is_short && !is_refused && !is_at_floor
}
