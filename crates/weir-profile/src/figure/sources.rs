// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of a subject with those that it shares with others: cores count for a workload, and all that is
//! behind them counts for the socket. A socket's count stands beside a workload's only for the same path and
//! target.

use super::Answer;
use super::counts::Counts;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};

/// Counts of a subject and of its machine.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    pub own: &'a Counts,
    pub peers: &'a Counts,
    pub machine: &'a Counts,
    /// Fill buffers of a core, where the recording says how many there are.
    pub fill_buffers: Option<u32>,
}

impl<'a> Sources<'a> {
    /// Sources of a subject that is the machine, or that nothing is known of besides.
    pub fn alone(own: &'a Counts) -> Sources<'a> {
        Sources {
            own,
            peers: own,
            machine: own,
            fill_buffers: None,
        }
    }

    /// The counts that a role is counted in.
    pub fn of(&self, role: Role) -> &'a Counts {
        if is_of_core(role) {
            self.own
        } else {
            self.machine
        }
    }

    /// A count as a figure.
    ///
    /// # Errors
    /// It is not there, or is refused.
    pub fn get(&self, role: Role) -> Answer {
        self.of(role).get(role)
    }

    /// The same, by the words of a role.
    ///
    /// # Errors
    /// As [`Sources::get`].
    pub fn count(
        &self,
        stage: Stage,
        path: AccessPath,
        target: Target,
        quantity: Quantity,
    ) -> Answer {
        self.get(Role::new(stage, path, target, quantity))
    }

    /// A figure of the core: its clock, its instructions, its stalls.
    ///
    /// # Errors
    /// As [`Sources::get`].
    pub fn core(&self, quantity: Quantity) -> Answer {
        self.count(Stage::Core, AccessPath::Any, Target::Any, quantity)
    }
}

/// Whether a core counts it. Loads, stores and stalls are a core's wherever they found their data.
fn is_of_core(role: Role) -> bool {
    matches!(
        role.quantity,
        Quantity::Loads | Quantity::Stores | Quantity::Stalls
    ) || matches!(
        role.stage,
        Stage::Core
            | Stage::StoreBuffer
            | Stage::L1d
            | Stage::FillBuffer
            | Stage::L2
            | Stage::SuperQueue
    )
}
