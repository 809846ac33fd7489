// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the loop notices from one tick to the next, and says once.

use crate::cli::output::set_point;
use crate::cli::quantities::SetPoint;
use crate::run::screens::changes::{ChangeKind, MachineChange};
use crate::run::settings::Settings;
use std::collections::BTreeMap;
use std::path::Path;
use tracing::{debug, info, warn};
use weir_core::seam::plan::DeviceState;
use weir_core::seam::topology::Device;
use weir_core::{Description, DeviceId};
use weir_figures::text;

/// More events than this in one tick are logged as one line.
const EVENTS_LOGGED_MAX: usize = 10;

/// What lasts less than this many ticks is not worth a line.
const LASTS_TICKS: u32 = 20;

pub(in crate::run) fn log_events(events: &[MachineChange]) {
    let weighty = |event: &&MachineChange| event.what != ChangeKind::Adjusted;
    if events.iter().filter(weighty).count() > EVENTS_LOGGED_MAX {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for event in events {
            *counts.entry(event.what.word()).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{n} {what}"))
            .collect();
        info!("workloads: {}", counts.join(", "));
        return;
    }
    for event in events {
        let sentence = event.sentence();
        match event.what {
            ChangeKind::Refused | ChangeKind::Failed => warn!("{sentence}"),
            ChangeKind::Adjusted => debug!("{sentence}"),
            ChangeKind::Limited | ChangeKind::Released | ChangeKind::Vanished => {
                info!("{sentence}")
            }
        }
    }
}

/// Notices when a device's figures are lost and when they come back.
#[derive(Default)]
pub(in crate::run) struct Watch {
    lost: BTreeMap<DeviceId, String>,
}

impl Watch {
    pub(in crate::run) fn check(
        &mut self,
        lost: BTreeMap<DeviceId, String>,
        machine: &Description,
    ) {
        for (device, why) in &lost {
            if self.lost.get(device) != Some(why) {
                warn!(
                    "{device}: its counters cannot be read: {}",
                    text::harmless(why)
                );
            }
        }
        let is_there = |device: &&DeviceId| machine.devices.iter().any(|d| d.id == **device);
        let found = self.lost.keys().filter(|device| !lost.contains_key(device));
        for device in found.filter(is_there) {
            info!("{device}: its counters are read again");
        }
        self.lost = lost;
    }
}

/// Notices that a set-point cannot be held, and when it can be again.
#[derive(Default)]
pub(in crate::run) struct HoldWatch {
    devices: BTreeMap<DeviceId, HeldState>,
}

/// What was said of a device, and for how many ticks it has been otherwise.
#[derive(Default)]
struct HeldState {
    is_said: bool,
    differs: u32,
}

impl HoldWatch {
    pub(in crate::run) fn check(&mut self, devices: &[DeviceState]) {
        self.devices
            .retain(|id, _| devices.iter().any(|device| device.id == *id));
        for device in devices {
            let state = self.devices.entry(device.id).or_default();
            let why = set_point::not_held(device);
            if why.is_some() == state.is_said {
                state.differs = 0;
                continue;
            }
            state.differs += 1;
            if state.differs < LASTS_TICKS {
                continue;
            }
            (state.is_said, state.differs) = (why.is_some(), 0);
            match why {
                Some(why) => warn!("{}: {why}; see `weir explain`", device.id),
                None => info!("{}: its set-point can be held again", device.id),
            }
        }
    }
}

/// Notices devices that come while the set-point is a part of a knee: that knee belongs to the earlier
/// devices.
pub(in crate::run) struct KneeWatch {
    devices: Vec<Device>,
}

impl KneeWatch {
    pub(in crate::run) fn new(machine: &Description) -> KneeWatch {
        KneeWatch {
            devices: machine.devices.clone(),
        }
    }

    /// `state` is where profiles of devices are.
    pub(in crate::run) fn check(
        &mut self,
        machine: &Description,
        settings: &Settings,
        state: &Path,
    ) {
        if self.devices == machine.devices {
            return;
        }
        self.devices.clone_from(&machine.devices);
        if !matches!(settings.set_point, Some(SetPoint::OfKnee(_))) || machine.devices.is_empty() {
            return;
        }
        let anew = settings.clone().resolve(machine, state);
        if let (Err(error), Some(rate)) = (anew, settings.config.set_point_bytes_per_sec) {
            let error = format!("{error:#}");
            warn!(
                "devices have changed, and each is held at {rate} as before: {}; then restart weir",
                text::harmless(&error)
            );
        }
    }
}

/// Says which names of new settings fit no workload, once that is known.
#[derive(Default)]
pub(in crate::run) struct NameWatch {
    is_waiting: bool,
}

impl NameWatch {
    /// Settings were read again.
    pub(in crate::run) fn begin(&mut self) {
        self.is_waiting = true;
    }

    pub(in crate::run) fn check(&mut self, machine: &Description) {
        if !self.is_waiting {
            return;
        }
        let is_name = |name: &str| name.starts_with(weir_linux::NAMES);
        for fact in machine.facts.iter().filter(|fact| is_name(&fact.name)) {
            self.is_waiting = false;
            let list = fact.name.trim_start_matches(weir_linux::NAMES);
            if let Err(why) = &fact.value {
                let next_move = fact.next_move.as_ref().map(ToString::to_string);
                warn!(
                    "{list}: {} ({})",
                    text::harmless(why.reason()),
                    text::harmless(&next_move.unwrap_or_default())
                );
            }
        }
    }
}
