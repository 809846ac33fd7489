// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of some windows by subject, with what all subjects share; of several sockets each with its own.

mod homes;

use crate::counts::Counts;
use crate::culprit::{Sharer, Waits, waits, waits_at};
use crate::figure::places::{PlaceKind, is_with, places_apart, without_others};
use crate::figure::sources::Sources;
use crate::quality::Refusal;
use crate::stages::Capacities;
use crate::stalls::busy_dram::{DramScene, dram_ns};
use crate::window_file::Header;
use homes::Homes;
use std::collections::BTreeMap;
use std::sync::Arc;
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
    /// The socket that the scene shows; nothing where it shows all.
    socket: Option<u32>,
    machine: Counts,
    /// The machine's counts with one place alone of a kind of which there are several.
    places: Vec<(CountScope, Counts)>,
    peers: Counts,
    workloads: Arc<BTreeMap<String, Counts>>,
    none: Counts,
    fill_buffers: Option<u32>,
    /// What the DRAM of one socket can move; none where the header does not say it.
    dram_bytes_per_sec: Option<u64>,
    /// Each socket of several.
    sockets: Vec<Scene>,
    homes: Arc<Homes>,
    /// Sockets of ports and devices.
    attached: BTreeMap<CountScope, u32>,
}

impl Scene {
    /// The scene of these windows, with what the header says of the machine.
    pub fn new(windows: &[Window], header: &Header) -> Scene {
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
        let capacities = &header.capacities;
        let machine = windows.iter().flat_map(|window| &window.machine);
        let machine = Counts::new(machine, length).within(capacities);
        // Of a recording without workloads, all cores stand for them.
        let peers = if counts.is_empty() {
            machine.clone()
        } else {
            let all = all.flat_map(|workload| &workload.counts);
            Counts::new(all, length).within(capacities)
        };
        let places = places_apart(windows).into_iter().map(|place| {
            let counts = Counts::new(without_others(windows, place), length);
            (place, counts.within(capacities))
        });
        let workloads = counts.into_iter().map(|(name, (counts, there))| {
            let counts = Counts::new(counts, total_length(there));
            (name.to_owned(), counts.within(capacities))
        });
        let workloads: BTreeMap<String, Counts> = workloads.collect();
        let mut scene = Scene {
            socket: None,
            machine,
            places: places.collect(),
            peers,
            homes: Arc::new(Homes::new(windows, &workloads)),
            workloads: Arc::new(workloads),
            none: Counts::new([], length),
            fill_buffers: header.capacities.get(&FILL_BUFFERS).copied(),
            dram_bytes_per_sec: header.dram_bytes_per_sec,
            sockets: Vec::new(),
            attached: header.sockets.clone(),
        };
        let sockets = scene.places().filter_map(|place| match place {
            CountScope::Socket(socket) => Some(scene.on_socket(windows, socket, capacities)),
            _ => None,
        });
        scene.sockets = sockets.collect();
        scene
    }

    /// One socket of several, with the ports and devices that are attached to it, and its workloads.
    fn on_socket(&self, windows: &[Window], socket: u32, capacities: &Capacities) -> Scene {
        let length = total_length(windows);
        let is_here = |place: CountScope| self.socket_of(place).is_none_or(|of| of == socket);
        let machine = windows.iter().flat_map(|window| &window.machine);
        let own: Vec<&Count> = machine.filter(|count| is_here(count.of)).collect();
        let alone = |place| {
            own.iter()
                .copied()
                .filter(move |count| is_with(count.of, place))
        };
        let places = self.places().filter(|place| is_here(*place));
        let places = places.map(|place| {
            let counts = Counts::new(alone(place), length);
            (place, counts.within(capacities))
        });
        let at_home = windows.iter().flat_map(|window| &window.workloads);
        let mut at_home = at_home
            .filter(|workload| self.homes.socket(workload.id.as_str()) == Some(socket))
            .peekable();
        let peers = match at_home.peek() {
            None => self.peers.clone(),
            Some(_) => {
                let at_home = at_home.flat_map(|workload| &workload.counts);
                Counts::new(at_home, length).within(capacities)
            }
        };
        Scene {
            socket: Some(socket),
            places: places.collect(),
            machine: Counts::new(own.iter().copied(), length).within(capacities),
            peers,
            workloads: self.workloads.clone(),
            none: self.none.clone(),
            fill_buffers: self.fill_buffers,
            dram_bytes_per_sec: self.dram_bytes_per_sec,
            sockets: Vec::new(),
            homes: self.homes.clone(),
            attached: self.attached.clone(),
        }
    }

    /// The socket of a place; nothing where that is not known.
    fn socket_of(&self, place: CountScope) -> Option<u32> {
        match place {
            CountScope::Socket(socket) => Some(socket),
            place => self.attached.get(&place).copied(),
        }
    }

    /// What is counted on the socket of a subject; on all, where it has none of its own.
    pub fn of(&self, name: Option<&str>) -> &Scene {
        let home = name.and_then(|name| self.homes.socket(name));
        self.on(home)
    }

    /// The same place in another recording: of its sockets that of `other`.
    pub fn like(&self, other: &Scene) -> &Scene {
        self.on(other.socket)
    }

    fn on(&self, socket: Option<u32>) -> &Scene {
        let mut sockets = self.sockets.iter();
        let own = sockets.find(|scene| scene.socket == socket);
        own.unwrap_or(self)
    }

    /// Each socket, where there are several.
    pub fn sockets(&self) -> &[Scene] {
        &self.sockets
    }

    /// The socket that the scene shows; nothing where it shows all.
    pub fn socket(&self) -> Option<u32> {
        self.socket
    }

    /// Whether a workload runs on this socket and on no other.
    pub fn has_workloads_of_its_own(&self) -> bool {
        let mut names = self.workloads.keys();
        names.any(|name| self.socket.is_some() && self.homes.socket(name) == self.socket)
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

    /// All workloads that share it.
    pub fn sharers(&self) -> Vec<Sharer<'_>> {
        let part = |of: fn(&Homes, &str, u32) -> f64, name: &str| {
            self.socket
                .map_or(1.0, |socket| of(&self.homes, name, socket))
        };
        let all = self.workloads.iter().map(|(name, counts)| Sharer {
            name,
            counts,
            memory_part: part(Homes::memory_part, name),
            cores_part: part(Homes::cores_part, name),
        });
        let is_here = |sharer: &Sharer| sharer.memory_part > 0.0 || sharer.cores_part > 0.0;
        all.filter(is_here).collect()
    }

    /// All workloads that share a place.
    pub fn sharers_at(&self, place: CountScope) -> Vec<Sharer<'_>> {
        self.on(self.socket_of(place)).sharers()
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

    /// Nanoseconds that a line of DRAM takes if those of CXL memory come from there too; nothing where it is
    /// not known what DRAM gives, or how long it takes on the idle machine.
    pub fn dram_ns_without_cxl(&self, idle: Option<&Scene>) -> Option<f64> {
        let sockets = self.sockets.len().max(1) as f64;
        let sharers = self.sharers().into_iter();
        let scene = DramScene {
            sharers: sharers
                .map(|one| (one, self.sources(Some(one.name))))
                .collect(),
            machine: &self.machine,
            idle: &idle?.machine,
            bytes_per_sec: self.dram_bytes_per_sec? as f64 * sockets,
        };
        dram_ns(&scene).ok()
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
        waits_at(&self.sharers_at(place), kind, [now, &self.machine], idle)
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
