// SPDX-License-Identifier: Apache-2.0 OR MIT
//! First stage: counters of devices become bandwidth ([`crate::rates::bandwidth`]).

use super::findings::StepContext;
use super::state::State;
use crate::rates::bandwidth::{DeviceRate, GroupRate, device_rates};

/// What the devices moved since the step before.
pub(super) struct StepRates {
    /// By id.
    pub groups: Vec<GroupRate>,
    /// By id.
    pub devices: Vec<DeviceRate>,
}

/// Takes the counters in.
pub(super) fn measure(state: &mut State, context: &StepContext<'_>) -> StepRates {
    let alpha = context.gains.bandwidth_alpha;
    let groups = state
        .meter
        .update(context.machine, &context.seen.groups, alpha);
    let devices = device_rates(context.machine, &groups);
    StepRates { groups, devices }
}
