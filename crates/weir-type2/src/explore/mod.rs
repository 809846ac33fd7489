// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explores every interleaving of the two agents over one or two lines, breadth first: all operations,
//! evictions, bias flips, and each order of delivery that the channels allow. The first violation found is a
//! shortest one.
//!
//! *Every operation ends* is shown in two steps. No state has work in progress and no next delivery. And the
//! graph of deliveries alone has no circle, so that what is in progress ends after at most so many deliveries
//! ([`Explored::longest_drain`]) in whatever order they come; an arbiter must be fair to a new operation.

mod chart;
mod drain;
mod state_table;
mod violation;
mod world;

pub use chart::chart;
pub use violation::Violation;
pub use world::{Move, World};

use crate::protocol::ProtocolRules;
use crate::words::LineHome;
use state_table::StateTable;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exploration<const N: usize> {
    pub homes: [LineHome; N],
    pub rules: ProtocolRules,
    /// Operations that an agent may have in progress, all lines together.
    pub operations_per_agent: u8,
    /// States after which it is given up.
    pub states_max: u32,
}

/// A way to a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample<const N: usize> {
    /// Moves from the beginning on; the last one breaks the rule.
    pub moves: Vec<Move>,
    pub violation: Violation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored<const N: usize> {
    pub states: u32,
    pub transitions: u64,
    /// Moves to the farthest state.
    pub depth: u32,
    /// Most deliveries until what is in progress has ended; nothing if it was not looked for, because a
    /// violation was found or states were left out.
    pub longest_drain: Option<u32>,
    /// Whether all states were seen.
    pub is_complete: bool,
    /// The shortest way to a violation.
    pub counterexample: Option<Counterexample<N>>,
}

impl<const N: usize> Exploration<N> {
    /// All lines in these memories, by the rules, with as many operations of an agent as lines.
    pub fn new(homes: [LineHome; N], rules: ProtocolRules) -> Self {
        Exploration {
            homes,
            rules,
            operations_per_agent: u8::try_from(N).unwrap_or(u8::MAX),
            states_max: 200_000_000,
        }
    }

    /// Explores until a violation is found, or nothing is new: breadth first, so that the way to a violation
    /// is a shortest one. Whether all work ends is asked afterwards, of all states together, because it is a
    /// property of ways and not of states.
    pub fn run(&self) -> Explored<N> {
        let mut table = StateTable::new();
        table.insert(World::new(self.homes), None);
        let mut found = Explored {
            states: 0,
            transitions: 0,
            depth: 0,
            longest_drain: None,
            is_complete: true,
            counterexample: None,
        };
        let mut next = 0;
        let mut level_end = 1;
        while next < table.len() {
            if next == level_end {
                found.depth += 1;
                level_end = table.len();
            }
            if let Some((last, violation)) = self.expand(&mut table, next, &mut found.transitions) {
                let moves = table.way_to(next, last);
                found.counterexample = Some(Counterexample { moves, violation });
                break;
            }
            if table.len() > self.states_max {
                found.is_complete = false;
                break;
            }
            next += 1;
        }
        found.states = table.len();
        if found.is_complete && found.counterexample.is_none() {
            match drain::longest(self, &table) {
                Ok(most) => found.longest_drain = Some(most),
                Err(state) => {
                    found.counterexample = Some(Counterexample {
                        moves: table.way_to(state, None),
                        violation: Violation::RunsForEver,
                    });
                }
            }
        }
        found
    }

    /// Adds what follows a state. A violation comes with the move that leads to it; none if the state itself
    /// is one.
    fn expand(
        &self,
        table: &mut StateTable<N>,
        at: u32,
        transitions: &mut u64,
    ) -> Option<(Option<Move>, Violation)> {
        let world = *table.state(at);
        let mut can_go_on = false;
        for step in world.moves() {
            let Some(result) = world.after(step, self) else {
                continue;
            };
            *transitions += 1;
            can_go_on |= step.is_delivery();
            match result {
                Ok(after) => {
                    table.insert(after, Some((at, step)));
                }
                Err(violation) => return Some((Some(step), violation)),
            }
        }
        (!can_go_on && !world.is_quiet()).then_some((None, Violation::Stuck))
    }
}
