// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many sockets, ports and devices the counts of a recording come from: figures of the machine are sums
//! over them.

use serde::Serialize;
use std::collections::BTreeSet;
use weir_core::Window;
use weir_core::window::CountScope;

/// Places that have counts of their own; 0 where the recording does not tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountedPlaces {
    pub sockets: usize,
    /// Ports of CXL devices.
    pub ports: usize,
    pub devices: usize,
}

impl CountedPlaces {
    pub fn new(windows: &[Window]) -> CountedPlaces {
        let counts = windows.iter().flat_map(|window| &window.machine);
        let scopes: BTreeSet<CountScope> = counts.map(|count| count.of).collect();
        let count = |is_it: fn(&CountScope) -> bool| scopes.iter().filter(|of| is_it(of)).count();
        CountedPlaces {
            sockets: count(|of| matches!(of, CountScope::Socket(_))),
            ports: count(|of| matches!(of, CountScope::Port(_))),
            devices: count(|of| matches!(of, CountScope::Device(_))),
        }
    }

    /// What figures are sums over, in words; nothing where there is one of each at most.
    pub fn sums(&self) -> Option<String> {
        let parts = [
            (self.sockets, "sockets"),
            (self.ports, "ports"),
            (self.devices, "devices"),
        ];
        let several = parts.iter().filter(|(count, _)| *count > 1);
        let several: Vec<String> = several
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let all = several.join(", ");
        (!several.is_empty()).then(|| {
            format!("Figures of the machine are sums over {all}. What is counted at each of them stands apart.")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::tests::count;
    use weir_core::window::Count;

    #[test]
    fn places_are_counted_once() {
        let at = |of| Count {
            of,
            ..count("device.reads.cxl.inserts", 1)
        };
        let window = Window {
            machine: [0, 1, 1]
                .map(|n| at(CountScope::Device(n)))
                .into_iter()
                .chain([at(CountScope::Socket(0)), at(CountScope::Box(7))])
                .collect(),
            ..Window::default()
        };
        let places = CountedPlaces::new(&[window.clone(), window]);
        assert_eq!((places.sockets, places.ports, places.devices), (1, 0, 2));
        let said = places.sums().unwrap();
        assert!(said.contains("sums over 2 devices."), "{said}");
        assert_eq!(CountedPlaces::default().sums(), None);
    }
}
