// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places that counters tell apart: sockets, ports of CXL devices, CXL devices. Of a machine with several of
//! a kind, counts of each stand beside their sum.

use weir_core::Window;
use weir_core::window::{Count, CountScope};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceKind {
    Socket,
    /// Ports of CXL devices.
    Port,
    Device,
}

impl PlaceKind {
    /// The kind of a place; nothing where the scope is a CPU, a box or everything.
    pub fn of(scope: CountScope) -> Option<PlaceKind> {
        match scope {
            CountScope::Socket(_) => Some(PlaceKind::Socket),
            CountScope::Port(_) => Some(PlaceKind::Port),
            CountScope::Device(_) => Some(PlaceKind::Device),
            CountScope::All | CountScope::Cpu(_) | CountScope::Box(_) => None,
        }
    }

    /// In words, of one.
    pub fn word(self) -> &'static str {
        match self {
            PlaceKind::Socket => "socket",
            PlaceKind::Port => "port",
            PlaceKind::Device => "device",
        }
    }
}

/// All places of one kind that the windows have counts of, in order.
pub fn places_of(windows: &[Window], kind: PlaceKind) -> Vec<CountScope> {
    let counts = windows.iter().flat_map(|window| &window.machine);
    let scopes = counts
        .map(|count| count.of)
        .filter(|of| PlaceKind::of(*of) == Some(kind));
    let mut places: Vec<CountScope> = Vec::new();
    for scope in scopes {
        if let Err(at) = places.binary_search(&scope) {
            places.insert(at, scope);
        }
    }
    places
}

/// Places of the kinds of which there are several.
pub fn places_apart(windows: &[Window]) -> Vec<CountScope> {
    let kinds = [PlaceKind::Socket, PlaceKind::Port, PlaceKind::Device];
    let all = kinds.map(|kind| places_of(windows, kind));
    all.into_iter()
        .filter(|places| places.len() > 1)
        .flatten()
        .collect()
}

/// Whether a count stays where those of other places of the same kind go: of one device of two it is one of
/// this device, of any socket, or of everything.
pub fn is_with(of: CountScope, place: CountScope) -> bool {
    of == place || PlaceKind::of(of) != PlaceKind::of(place)
}

/// The machine's counts without those of other places of the same kind: one device of two, with all sockets.
pub fn without_others(
    windows: &[Window],
    place: CountScope,
) -> impl Iterator<Item = &Count> + use<'_> {
    let counts = windows.iter().flat_map(|window| &window.machine);
    counts.filter(move |count| is_with(count.of, place))
}

/// `socket 0`, `device 1`.
pub fn place_words(place: CountScope) -> String {
    place.to_string().replace(':', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;

    fn window(scopes: &[CountScope]) -> Window {
        Window {
            machine: scopes
                .iter()
                .map(|of| Count {
                    of: *of,
                    ..count("device.reads.cxl.inserts", 1)
                })
                .collect(),
            ..Window::default()
        }
    }

    #[test]
    fn only_what_there_are_several_of_stands_apart() {
        use CountScope::{All, Box, Device, Port, Socket};
        let windows = [
            window(&[Device(1), Socket(0), Box(3), Box(4), All]),
            window(&[Device(0), Device(1), Port(0)]),
        ];
        assert_eq!(places_apart(&windows), [Device(0), Device(1)]);
        let left: Vec<CountScope> = without_others(&windows, Device(0))
            .map(|count| count.of)
            .collect();
        assert_eq!(left, [Socket(0), Box(3), Box(4), All, Device(0), Port(0)]);
        assert_eq!(place_words(Device(1)), "device 1");
    }
}
