// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explores the protocol of the Type-2 device with two lines, in all three pairs of memories, and prints the
//! counts that `docs/evidence/type2.md` has.

use weir_hw::type2::LineHome::{self, DeviceMemory, HostMemory};
use weir_hw::type2::explore::{Exploration, chart};
use weir_hw::type2::protocol::{Fault, ProtocolRules};

fn explore<const N: usize>(homes: [LineHome; N], rules: ProtocolRules) {
    let names: Vec<&str> = homes.iter().map(|home| home.name()).collect();
    let exploration = Exploration::new(homes, rules);
    let found = exploration.run();
    let fault = rules.fault.map_or("", Fault::name);
    println!(
        "{} | {} states | {} transitions | depth {} | longest drain {:?} | complete {} | {fault}",
        names.join(" + "),
        found.states,
        found.transitions,
        found.depth,
        found.longest_drain,
        found.is_complete,
    );
    if let Some(counterexample) = &found.counterexample {
        println!("{}", chart(&exploration, counterexample));
    }
}

fn main() {
    let rules = ProtocolRules::default();
    explore([HostMemory], rules);
    explore([DeviceMemory], rules);
    if std::env::args().any(|word| word == "faults") {
        for fault in Fault::ALL {
            let rules = ProtocolRules {
                fault: Some(*fault),
                ..rules
            };
            explore([HostMemory], rules);
            explore([DeviceMemory], rules);
        }
    }
    if std::env::args().any(|word| word == "two") {
        explore([HostMemory, DeviceMemory], rules);
        explore([HostMemory, HostMemory], rules);
        explore([DeviceMemory, DeviceMemory], rules);
    }
}
