// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which roles a profile wants of this machine, the most important first: where all do not fit into the sets
//! that take turns, the last are left out.

use crate::counters::pmu::Machine;
use weir_core::Role;
use weir_core::window::role::{AccessPath, Quantity, Stage, Target};
use weir_events::plan::Wanted;
use weir_events::{Table, tables_with_roles};

/// Roles of this machine's CPU and of devices.
pub(super) fn wanted(machine: &Machine) -> Vec<Wanted<'static>> {
    let tables = tables_with_roles().iter();
    by_importance(tables.filter(|table| machine.has(table)))
}

/// Roles of these tables, the most important first. Those of one name stay in the tables' order, best first.
pub fn by_importance(tables: impl Iterator<Item = &'static Table>) -> Vec<Wanted<'static>> {
    let roles = tables.flat_map(|table| table.role.iter().map(move |role| (table, role)));
    let ranked = roles.filter_map(|(table, role)| {
        let rank = rank(role.name.parse().ok()?);
        Some((rank, Wanted { table, role }))
    });
    let mut ranked: Vec<(u32, Wanted)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, wanted)| wanted).collect()
}

pub(super) fn family(machine: &Machine) -> Option<&'static Table> {
    let mut tables = tables_with_roles().iter();
    tables.find(|table| !table.cpu.is_empty() && machine.has(table))
}

/// Whether cores count it: for a workload of its own.
pub(super) fn is_of_core(scope: weir_events::Scope) -> bool {
    scope == weir_events::Scope::Cpu
}

/// What the split of stalls and most findings need comes first, then what the maps of paths show.
fn rank(role: Role) -> u32 {
    let is_memory = !matches!(role.target, Target::Snc | Target::RemoteCache);
    match (role.stage, role.quantity) {
        (_, Quantity::Clock | Quantity::Instructions) => 0,
        (_, Quantity::Stalls) => 1,
        (Stage::StoreBuffer, Quantity::Full) => 2,
        (Stage::FillBuffer | Stage::SuperQueue, quantity) if quantity != Quantity::Lines => 2,
        (Stage::Tor, _) if role.path == AccessPath::Drd && is_memory => 2,
        (Stage::Tor, _) => 4,
        (Stage::Imc | Stage::M2pcie | Stage::Port | Stage::Device | Stage::Ingress, quantity)
            if quantity != Quantity::Loads =>
        {
            2
        }
        (Stage::SuperQueue, _) if role.path == AccessPath::Drd && is_memory => 3,
        (Stage::SuperQueue, _)
            if role.path == AccessPath::Reads
                && matches!(role.target, Target::Cxl | Target::Any) =>
        {
            3
        }
        (_, Quantity::Loads) => 4,
        (Stage::SuperQueue, _) if role.path == AccessPath::Rfo && is_memory => 5,
        (Stage::SuperQueue, _) if is_memory => 6,
        (Stage::L2 | Stage::L1d | Stage::StoreBuffer, _) => 5,
        _ => 7,
    }
}
