// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of some windows by subject, with what all subjects share.

use crate::counts::Counts;
use crate::culprit::{Sharer, Waits, waits, waits_at};
use crate::figure::places::{PlaceKind, places_apart, without_others};
use crate::figure::sources::Sources;
use crate::quality::Refusal;
use crate::stages::Capacities;
use std::collections::BTreeMap;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_core::window::{Count, CountScope};
use weir_core::{Nanos, Role, Window};

/// The queue that is a core's fill buffers.
const FILL_BUFFERS: Role = Role {
    stage: Stage::FillBuffer,
    path: AccessPath::Drd,
    target: Target::Any,
    quantity: Quantity::Occupancy,
};

/// Counts of some windows. The rates of a workload are those of the windows in which it was counted.
#[derive(Debug)]
pub struct Scene {
    machine: Counts,
    /// The machine's counts with one place alone of a kind of which there are several.
    places: Vec<(CountScope, Counts)>,
    peers: Counts,
    workloads: BTreeMap<String, Counts>,
    none: Counts,
    fill_buffers: Option<u32>,
}

impl Scene {
    /// Of these windows. `capacities`: entries of the machine's queues.
    pub fn new(windows: &[Window], capacities: &Capacities) -> Scene {
        let length = total_length(windows);
        let all = windows.iter().flat_map(|window| &window.workloads);
        let mut counts: BTreeMap<&str, (Vec<&Count>, Vec<&Window>)> = BTreeMap::new();
        for window in windows {
            for workload in &window.workloads {
                let (of_it, there) = counts.entry(workload.id.as_str()).or_default();
                of_it.extend(&workload.counts);
                there.push(window);
            }
        }
        let machine = Counts::new(windows.iter().flat_map(|window| &window.machine), length);
        // Of a recording without workloads, all cores stand for them.
        let peers = match counts.is_empty() {
            true => machine.clone(),
            false => Counts::new(all.flat_map(|workload| &workload.counts), length),
        };
        let places = places_apart(windows).into_iter().map(|place| {
            let counts = Counts::new(without_others(windows, place), length);
            (place, counts)
        });
        let places = places.collect();
        let workloads = counts.into_iter().map(|(name, (counts, there))| {
            (name.to_owned(), Counts::new(counts, total_length(there)))
        });
        Scene {
            machine,
            places,
            peers,
            workloads: workloads.collect(),
            none: Counts::new([], length),
            fill_buffers: capacities.get(&FILL_BUFFERS).copied(),
        }
    }

    /// Counts of the machine, or of a workload.
    pub fn counts(&self, name: Option<&str>) -> &Counts {
        match name {
            None => &self.machine,
            Some(name) => self.workloads.get(name).unwrap_or(&self.none),
        }
    }

    /// Counts of a subject with those of its machine.
    pub fn sources(&self, name: Option<&str>) -> Sources<'_> {
        match name {
            None => Sources {
                fill_buffers: self.fill_buffers,
                ..Sources::alone(&self.machine)
            },
            Some(name) => Sources {
                own: self.workloads.get(name).unwrap_or(&self.peers),
                peers: &self.peers,
                machine: &self.machine,
                fill_buffers: self.fill_buffers,
            },
        }
    }

    /// All workloads.
    pub fn sharers(&self) -> Vec<Sharer<'_>> {
        let all = self.workloads.iter();
        all.map(|(name, counts)| Sharer { name, counts }).collect()
    }

    /// Places of which there are several.
    pub fn places(&self) -> impl Iterator<Item = CountScope> {
        self.places.iter().map(|(place, _)| *place)
    }

    /// The machine's counts with this place alone of its kind; nothing where it has no counts, or is the only
    /// one.
    pub fn at(&self, place: CountScope) -> Option<&Counts> {
        let mut all = self.places.iter();
        all.find(|(known, _)| *known == place)
            .map(|(_, counts)| counts)
    }

    /// Waits at one place of several.
    ///
    /// # Errors
    /// As [`waits_at`]; or there is no such place.
    pub fn waits_at(&self, place: CountScope, idle: Option<&Scene>) -> Result<Waits, Refusal> {
        let none = || Refusal::NotCounted {
            what: format!("requests at {place}"),
        };
        let now = self.at(place).ok_or_else(none)?;
        let kind = PlaceKind::of(place).ok_or_else(none)?;
        let idle = idle.and_then(|idle| idle.at(place));
        waits_at(&self.sharers(), kind, [now, &self.machine], idle)
    }

    /// Waits at the stages that workloads share.
    ///
    /// # Errors
    /// As [`waits`].
    pub fn waits(&self, idle: Option<&Scene>) -> Result<Waits, Refusal> {
        waits(
            &self.sharers(),
            &self.machine,
            idle.map(|idle| &idle.machine),
        )
    }
}

/// Nothing where one of them has no length.
pub fn total_length<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Option<Nanos> {
    let lengths: Option<Vec<Nanos>> = windows.into_iter().map(Window::length).collect();
    let all = lengths?
        .iter()
        .fold(0u64, |sum, length| sum.saturating_add(length.0));
    (all > 0).then_some(Nanos(all))
}
